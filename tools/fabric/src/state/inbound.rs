// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Apertures: what the owner of memory opens to its neighbours. A change is put
//! together from its packets, kept for links that come up later, forwarded to the
//! neighbours concerned, and answered once all of them have it in force or can no
//! longer reach anything.
//!
//! Forwarded changes carry numbers of the fabric's own (tickets): the owner's
//! begin again when it is reset, and a late answer to an old one would then pass
//! for the answer to a new one.
//!
//! What sees an owner's memory is a *channel* of it: one of its links, or a remote
//! of any port whose route ends here (`remote.rs`).

use super::remote::Caller;
use super::{Effect, Fabric, Place};
use crate::topology::HostEnd;
use crate::wire::abi::WEFT_FROM_ANY;
use crate::wire::{
    Complaint, InboundPart, LINKS, MAX_PACKETS, MAX_SEGMENTS, PACKET_SEGMENTS, PAGE, Segment,
    ToPort,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Packets an owner may have under way to neighbours that have not answered:
/// twice what all its entries at their largest need.
const MAX_UNANSWERED: usize = 2 * MAX_PACKETS;

/// An open entry.
#[derive(Debug, PartialEq, Eq)]
struct Aperture {
    offset: u64,
    bytes: u64,
    rights: u64,
    /// Links whose neighbour may see it.
    allow: u8,
    routed: Routed,
    segments: Vec<Segment>,
}

/// What may see an entry by a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Routed {
    /// The LID it may come from, or `WEFT_FROM_ANY`.
    from: u32,
    /// The gates it may come in by, a bit each.
    gates: u64,
}

#[derive(Default)]
struct Entry {
    aperture: Option<Rc<Aperture>>,
    /// Of the change that is coming.
    routed: Routed,
    /// Channels through which it is seen.
    held: u64,
    /// The last ticket that has not been answered, of each channel.
    awaited: BTreeMap<u8, u32>,
    /// What the owner has no answer to, oldest first. A later change waits for at
    /// least as much as an earlier one, so they are over in this order.
    changes: VecDeque<Change>,
}

/// A change whose last packet has not come.
struct Assembly {
    head: InboundPart,
    segments: Vec<Segment>,
    bytes: u64,
}

/// A change that the owner has no answer to.
struct Change {
    sequence: u32,
    /// By channel, the ticket it waits for.
    waits: BTreeMap<u8, u32>,
    packets: usize,
}

/// All entries of a port, those of its functions one after the other.
#[derive(Default)]
pub struct Table {
    /// Those that have ever been used.
    entries: BTreeMap<u16, Entry>,
    assembly: Option<Assembly>,
    /// Packets of all changes that are not answered, at least one each.
    unanswered: usize,
}

/// `ticket` was given out no later than `limit`; both count round.
fn not_after(ticket: u32, limit: u32) -> bool {
    limit.wrapping_sub(ticket) as i32 >= 0
}

impl Table {
    /// Entries that are open.
    pub fn open(&self) -> usize {
        self.entries.values().filter(|e| e.aperture.is_some()).count()
    }

    /// Channels that owe an answer.
    pub fn waiting_for(&self) -> BTreeSet<u8> {
        let changes = self.entries.values().flat_map(|e| &e.changes);
        changes.flat_map(|c| c.waits.keys().copied()).collect()
    }

    /// Takes a packet of a change; gives the whole change with the last one.
    fn assemble(&mut self, part: InboundPart, ram: u64) -> Result<Option<Assembly>, Complaint> {
        let what = format!("inbound entry {}", part.entry);
        let mut whole = match self.assembly.take() {
            None if part.first == 0 => {
                let head = InboundPart { segments: vec![], ..part.clone() };
                Assembly { head, segments: vec![], bytes: 0 }
            }
            Some(whole) if whole.continues_with(&part) => whole,
            _ => return Err(format!("{what}: a packet that does not continue its change")),
        };
        if part.segments.is_empty() != (part.bytes == 0) || (part.bytes == 0 && part.more) {
            return Err(format!(
                "{what}: {} bytes, but {} segments",
                part.bytes,
                part.segments.len()
            ));
        }
        if part.offset % PAGE != 0 || part.bytes.saturating_sub(1) > u64::MAX - part.offset {
            return Err(format!(
                "{what}: offset {:#x} is not aligned to {PAGE} bytes or too high",
                part.offset
            ));
        }
        for segment in part.segments {
            whole.add(segment, ram).map_err(|why| format!("{what}: {why}"))?;
        }
        if part.more {
            self.assembly = Some(whole);
            return Ok(None);
        }
        if whole.bytes != part.bytes {
            return Err(format!(
                "{what}: segments of {:#x} bytes for an aperture of {:#x}",
                whole.bytes, part.bytes
            ));
        }
        Ok(Some(whole))
    }

    /// Takes a change out that need not be waited for any longer.
    fn answered(&mut self, entry: u16) -> Option<u32> {
        let changes = &mut self.entries.get_mut(&entry)?.changes;
        changes.front().filter(|c| c.waits.is_empty())?;
        let change = changes.pop_front()?;
        self.unanswered -= change.packets;
        Some(change.sequence)
    }
}

impl Assembly {
    fn continues_with(&self, part: &InboundPart) -> bool {
        let InboundPart { entry, offset, bytes, rights, allow, sequence, .. } = &self.head;
        part.first as usize == self.segments.len()
            && (part.entry, part.sequence) == (*entry, *sequence)
            && (part.offset, part.bytes) == (*offset, *bytes)
            && (part.rights, part.allow) == (*rights, *allow)
    }

    fn add(&mut self, segment: Segment, ram: u64) -> Result<(), String> {
        let Segment { offset, len } = segment;
        if len == 0 || offset % PAGE != 0 || len % PAGE != 0 {
            return Err(format!(
                "segment {offset:#x}+{len:#x} is empty or not aligned to {PAGE} bytes"
            ));
        }
        if offset.checked_add(len).is_none_or(|end| end > ram) {
            return Err(format!("segment {offset:#x}+{len:#x} leaves the RAM of {ram:#x} bytes"));
        }
        if self.segments.len() == MAX_SEGMENTS {
            return Err(format!("more than {MAX_SEGMENTS} segments"));
        }
        // Segments lie within RAM and are counted, so their sum cannot wrap;
        // what it must be is checked with the last packet.
        self.bytes = self.bytes.saturating_add(len);
        self.segments.push(segment);
        Ok(())
    }
}

impl Fabric {
    /// A packet of an owner's change.
    pub(super) fn inbound(&mut self, host: usize, part: InboundPart) -> Result<(), Complaint> {
        let Some(session) = &mut self.nodes[host].session else { return Ok(()) };
        let Some(whole) = session.inbound.assemble(part, session.ram)? else {
            return Ok(());
        };
        let Assembly {
            head: InboundPart { entry, sequence, offset, bytes, rights, allow, .. },
            ..
        } = whole;
        let segments = whole.segments;
        let mut routed = Routed::default();
        self.entry_mut(host, entry, |e| routed = std::mem::take(&mut e.routed));
        let aperture = (bytes != 0)
            .then(|| Rc::new(Aperture { offset, bytes, rights, allow, routed, segments }));
        self.change(host, entry, sequence, aperture)
    }

    /// What may see the entry by a route, from its next change on.
    pub(super) fn inbound_from(&mut self, host: usize, entry: u16, from: u32, gates: u64) {
        self.entry_mut(host, entry, |e| e.routed = Routed { from, gates });
    }

    fn change(
        &mut self,
        host: usize,
        entry: u16,
        sequence: u32,
        aperture: Option<Rc<Aperture>>,
    ) -> Result<(), Complaint> {
        if self.session(host).is_none() {
            return Ok(());
        }
        let held = self.entry(host, entry).map_or(0, |e| e.held);
        self.entry_mut(host, entry, |e| e.aperture.clone_from(&aperture));
        let mut packets = 0;
        for channel in self.channels(host) {
            let Some(viewer) = self.viewer(host, channel) else { continue };
            let seen = aperture.as_ref().filter(|a| self.may_see(host, channel, a));
            if seen.is_none() && held & (1 << channel) == 0 {
                continue;
            }
            let ticket = self.next_ticket();
            packets += self.forward(viewer, entry, ticket, seen.map(Rc::as_ref));
            let bit = if seen.is_some() { 1 << channel } else { 0 };
            self.entry_mut(host, entry, |e| {
                e.held = e.held & !(1 << channel) | bit;
                e.awaited.insert(channel, ticket);
            });
        }
        let Some(session) = &mut self.nodes[host].session else { return Ok(()) };
        let table = &mut session.inbound;
        // An answer still owed to an earlier change of the entry is waited for
        // as well: until then what was there before may be reached.
        let state = table.entries.entry(entry).or_default();
        let waits = state.awaited.clone();
        let packets = packets.max(1);
        state.changes.push_back(Change { sequence, waits, packets });
        table.unanswered += packets;
        let unanswered = table.unanswered;
        self.answer(host, entry);
        if unanswered > MAX_UNANSWERED {
            return Err(format!(
                "{unanswered} packets of INBOUND are not acknowledged by the neighbours; \
                 the limit is {MAX_UNANSWERED}"
            ));
        }
        Ok(())
    }

    /// Gives an aperture, or its withdrawal, to a neighbour; returns the packets.
    fn forward(&mut self, to: HostEnd, entry: u16, ticket: u32, what: Option<&Aperture>) -> usize {
        let (offset, bytes, rights) = what.map_or((0, 0, 0), |a| (a.offset, a.bytes, a.rights));
        let all: &[Segment] = what.map_or(&[], |a| &a.segments);
        let packets = all.len().div_ceil(PACKET_SEGMENTS).max(1);
        for n in 0..packets {
            let first = n * PACKET_SEGMENTS;
            let part = InboundPart {
                entry,
                offset,
                bytes,
                rights,
                allow: 0,
                sequence: ticket,
                first: first as u32,
                more: n + 1 < packets,
                segments: all.iter().skip(first).take(PACKET_SEGMENTS).copied().collect(),
            };
            self.tell(to.host, ToPort::Inbound { link: to.link, part });
        }
        packets
    }

    /// A neighbour has a change in force. Answers that are not waited for are late ones
    /// to a replay or from before the link went down.
    pub(super) fn inbound_ack(
        &mut self,
        host: usize,
        link: u8,
        entry: u16,
        ticket: u32,
    ) -> Result<(), Complaint> {
        let owner = match link.checked_sub(LINKS as u8) {
            None => {
                let Some(Place { path, side }) = self.place(host, link) else {
                    return Err(format!("INBOUND_ACK on link {link}, where there is no neighbour"));
                };
                self.topology.paths[path].ends[1 - side]
            }
            // A late one, of a remote that has let go.
            Some(remote) => match self.owner_of(Caller { host, remote }) {
                Some(owner) => owner,
                None => return Ok(()),
            },
        };
        let Some(session) = &mut self.nodes[owner.host].session else { return Ok(()) };
        let n = owner.link;
        let Some(state) = session.inbound.entries.get_mut(&entry) else { return Ok(()) };
        match state.awaited.get(&n) {
            Some(last) if *last == ticket => drop(state.awaited.remove(&n)),
            Some(last) if not_after(ticket, *last) => {}
            Some(_) => return Err(format!("INBOUND_ACK {ticket} of a change it was never sent")),
            None => return Ok(()),
        }
        for change in &mut state.changes {
            match change.waits.get(&n) {
                Some(waited) if !not_after(*waited, ticket) => break,
                _ => drop(change.waits.remove(&n)),
            }
        }
        self.answer(owner.host, entry);
        Ok(())
    }

    /// Gives the port that came up at a channel of the owner what is open to it.
    pub(super) fn replay(&mut self, owner: HostEnd, to: HostEnd) {
        let bit = 1 << owner.link;
        for entry in self.used(owner.host) {
            let aperture = self.entry(owner.host, entry).and_then(|e| e.aperture.clone());
            let Some(aperture) = aperture.filter(|a| self.may_see(owner.host, owner.link, a))
            else {
                continue;
            };
            let ticket = self.next_ticket();
            self.forward(to, entry, ticket, Some(&aperture));
            self.entry_mut(owner.host, entry, |e| e.held |= bit);
        }
    }

    /// What is seen through this channel of the owner is seen until `ticket` is
    /// answered.
    pub(super) fn await_all(&mut self, owner: HostEnd, ticket: u32) {
        let Some(session) = &mut self.nodes[owner.host].session else { return };
        for entry in session.inbound.entries.values_mut() {
            if entry.held & (1 << owner.link) != 0 || entry.awaited.contains_key(&owner.link) {
                entry.awaited.insert(owner.link, ticket);
            }
        }
    }

    /// Nothing of `owner` is seen through this channel any more.
    pub(super) fn inbound_link_down(&mut self, owner: HostEnd) {
        let Some(session) = &mut self.nodes[owner.host].session else { return };
        for entry in session.inbound.entries.values_mut() {
            entry.held &= !(1 << owner.link);
            entry.awaited.remove(&owner.link);
            for change in &mut entry.changes {
                change.waits.remove(&owner.link);
            }
        }
        for entry in self.used(owner.host) {
            self.answer(owner.host, entry);
        }
    }

    fn answer(&mut self, host: usize, entry: u16) {
        let Some(session) = &mut self.nodes[host].session else { return };
        let to = session.port;
        while let Some(sequence) = session.inbound.answered(entry) {
            let message = ToPort::InboundAck { entry, sequence };
            self.effects.push(Effect::Send { to, message, descriptors: None });
        }
    }

    /// Channels of an owner that a port may be at.
    fn channels(&self, owner: usize) -> Vec<u8> {
        let routed = self.session(owner).into_iter().flat_map(|s| s.channels.keys().copied());
        (0..LINKS as u8).chain(routed).collect()
    }

    /// The port that sees the owner through a channel, as that port numbers it.
    fn viewer(&self, owner: usize, channel: u8) -> Option<HostEnd> {
        if usize::from(channel) < LINKS {
            return self.up_neighbour(owner, channel);
        }
        self.channel_up(owner, channel).map(|(viewer, _)| viewer)
    }

    fn may_see(&self, owner: usize, channel: u8, aperture: &Aperture) -> bool {
        if usize::from(channel) < LINKS {
            return aperture.allow & (1 << channel) != 0;
        }
        let Routed { from, gates } = aperture.routed;
        self.channel_up(owner, channel).is_some_and(|(_, reach)| {
            gates & (1 << reach.course.gate) != 0 && (from == WEFT_FROM_ANY || from == reach.from)
        })
    }

    pub(super) fn next_ticket(&mut self) -> u32 {
        // 0 is no ticket.
        self.ticket = self.ticket.wrapping_add(1).max(1);
        self.ticket
    }

    /// Numbers of the entries a host's port has ever used.
    fn used(&self, host: usize) -> Vec<u16> {
        self.session(host).map_or(vec![], |s| s.inbound.entries.keys().copied().collect())
    }

    fn entry(&self, host: usize, entry: u16) -> Option<&Entry> {
        self.session(host)?.inbound.entries.get(&entry)
    }

    fn entry_mut(&mut self, host: usize, entry: u16, change: impl FnOnce(&mut Entry)) {
        self.session_mut(host, |s| change(s.inbound.entries.entry(entry).or_default()));
    }
}
