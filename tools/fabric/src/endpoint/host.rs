// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The host that a virtual endpoint works for, as far as it can be reached: what it
//! has opened to this endpoint by inbound entries, and its doorbells. What does not
//! fit an entry is refused here, and reported, as a port does.

use super::memory;
use crate::wire::abi::*;
use crate::wire::{LINKS, PAGE, Packet};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use weft_shared::{Words, hold};

/// TLPs that an access is counted as: payload of the smallest maximum in use.
const PAYLOAD: u64 = 256;
/// Bytes of a doorbell.
const DOORBELL: u64 = 4;

/// Why an access was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable;

/// A piece of memory, in the host's descriptor.
#[derive(Clone, Copy)]
struct Piece {
    offset: u64,
    len: u64,
}

/// An inbound entry.
#[derive(Default)]
struct Aperture {
    offset: u64,
    bytes: u64,
    rights: u64,
    pieces: Vec<Piece>,
}

/// What there is of a host while a route leads there.
struct Reached {
    ram: OwnedFd,
    doorbells: Words,
    event: OwnedFd,
    gate: u8,
    /// By which the host sees that it may still be reached.
    _lock: OwnedFd,
    /// By number; the lowest counts.
    apertures: BTreeMap<u64, Aperture>,
    /// A change of which more is to come.
    coming: Aperture,
}

/// The host behind one remote.
#[derive(Default)]
pub struct Host(Option<Reached>);

/// What the fabric is to be told of accesses, at most one message a kind.
#[derive(Default)]
pub struct Counts {
    /// Refused: where first, and how many, of reads and of writes.
    denied: [(u64, u64); 2],
    /// In the order of a TRAFFIC's arguments.
    passed: [u64; 5],
}

impl Counts {
    /// The messages, for remote `link`; begins anew.
    pub fn take(&mut self, link: u16) -> Vec<Packet> {
        let Counts { denied, passed } = std::mem::take(self);
        let mut packets = vec![];
        for (kind, (offset, count)) in denied.into_iter().enumerate() {
            if count > 0 {
                let arg = [offset, kind as u64, count, 0, 0, 0];
                packets.push(Packet { kind: WEFT_FAB_DENIED, link, arg, data: vec![] });
            }
        }
        if passed != [0; 5] {
            let [writes, written, reads, read, doorbells] = passed;
            let arg = [writes, written, reads, read, doorbells, 0];
            packets.push(Packet { kind: WEFT_FAB_TRAFFIC, link, arg, data: vec![] });
            let out = written.saturating_add(doorbells.saturating_mul(DOORBELL));
            let arg = [out, read, 0, 0, 0, 0];
            packets.push(Packet { kind: WEFT_FAB_MOVED, link, arg, data: vec![] });
        }
        packets
    }

    fn deny(&mut self, write: bool, at: u64) {
        let (first, count) = &mut self.denied[usize::from(write)];
        if *count == 0 {
            *first = at;
        }
        *count += 1;
    }
}

impl Host {
    /// A route leads to a host: its descriptors, and what REMOTE_UP said.
    pub fn up(&mut self, packet: &Packet, fds: Vec<OwnedFd>) -> Result<(), String> {
        let [ram, page, event]: [OwnedFd; 3] =
            fds.try_into().map_err(|fds: Vec<_>| format!("{} descriptors", fds.len()))?;
        let [_, gate, channel, _, _, life] = packet.arg;
        let failed = |e: std::io::Error| format!("a doorbell page: {e}");
        let lock = hold(page.as_fd(), (channel << 32) | (life >> 32)).map_err(failed)?;
        let doorbells = Words::map(&page, WEFT_FAB_DOORBELL_BYTES as usize).map_err(failed)?;
        self.0 = Some(Reached {
            ram,
            doorbells,
            event,
            gate: (gate as u32 % WEFT_FAB_GATES) as u8,
            _lock: lock,
            apertures: BTreeMap::new(),
            coming: Aperture::default(),
        });
        Ok(())
    }

    /// It cannot be reached any more, and is not.
    pub fn down(&mut self) {
        self.0 = None;
    }

    /// A packet of a change of what the host has opened. Whether it is the last one.
    pub fn inbound(&mut self, packet: &Packet) -> bool {
        let Some(reached) = &mut self.0 else { return false };
        let [entry, offset, bytes, rights, _, sequence] = packet.arg;
        let coming = &mut reached.coming;
        if (sequence as u32) >> 1 == 0 {
            *coming = Aperture { offset, bytes, rights, pieces: vec![] };
        }
        coming.pieces.extend(packet.data.chunks_exact(16).map(|piece| {
            let half = |at| u64::from_ne_bytes(std::array::from_fn(|n| piece[at + n]));
            Piece { offset: half(0), len: half(8) }
        }));
        if sequence & 1 != 0 {
            return false;
        }
        let whole = std::mem::take(coming);
        // Of the host's first function alone.
        if bytes == 0 {
            reached.apertures.remove(&entry);
        } else if entry < u64::from(WEFT_MAX_INBOUND) {
            reached.apertures.insert(entry, whole);
        }
        true
    }

    /// Reads the host's memory.
    pub fn read(&self, at: u64, to: &mut [u8], counts: &mut Counts) -> Result<(), Unreachable> {
        let len = to.len() as u64;
        let mut rest = to;
        let done = self.access(at, len, WEFT_RIGHT_READ, |ram, offset, len| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            rest = later;
            memory::read(ram, offset, now)
        });
        match done {
            Ok(()) => {
                counts.passed[2] += len.div_ceil(PAYLOAD);
                counts.passed[3] += len;
            }
            Err(Unreachable) => counts.deny(false, at),
        }
        done
    }

    /// Writes the host's memory.
    pub fn write(&self, at: u64, from: &[u8], counts: &mut Counts) -> Result<(), Unreachable> {
        let len = from.len() as u64;
        let mut rest = from;
        let done = self.access(at, len, WEFT_RIGHT_WRITE, |ram, offset, len| {
            let (now, later) = rest.split_at(len);
            rest = later;
            memory::write(ram, offset, now)
        });
        match done {
            Ok(()) => {
                counts.passed[0] += len.div_ceil(PAYLOAD);
                counts.passed[1] += len;
            }
            Err(Unreachable) => counts.deny(true, at),
        }
        done
    }

    /// Rings a doorbell of the host; whether it may be rung is the host's to say.
    pub fn ring(&self, doorbell: u32, counts: &mut Counts) {
        let Some(reached) = &self.0 else { return };
        let words = std::mem::offset_of!(weft_fab_doorbell, routed);
        reached.doorbells.set(words + 4 * usize::from(reached.gate), 1 << (doorbell % 32));
        counts.passed[4] += 1;
        // When its count is full the host has a kick already.
        let _ = rustix::io::write(&reached.event, &1u64.to_ne_bytes());
    }

    /// Does something with each piece of memory behind a range of the aperture space,
    /// all of which must lie in the entry that counts and which must give the right.
    fn access(
        &self,
        at: u64,
        len: u64,
        right: u32,
        mut with: impl FnMut(&OwnedFd, u64, usize) -> Result<(), Errno>,
    ) -> Result<(), Unreachable> {
        let Some(Reached { ram, apertures, .. }) = &self.0 else { return Err(Unreachable) };
        let holds = |a: &&Aperture| at >= a.offset && at - a.offset < a.bytes;
        let aperture = apertures.values().find(holds).ok_or(Unreachable)?;
        let from = at - aperture.offset;
        if aperture.rights & u64::from(right) == 0 || len > aperture.bytes - from {
            return Err(Unreachable);
        }
        let (mut skip, mut left) = (from, len);
        for piece in &aperture.pieces {
            if skip >= piece.len {
                skip -= piece.len;
                continue;
            }
            let now = left.min(piece.len - skip);
            let offset = piece.offset.checked_add(skip).ok_or(Unreachable)?;
            with(ram, offset, now as usize).map_err(|_| Unreachable)?;
            (skip, left) = (0, left - now);
            if left == 0 {
                break;
            }
        }
        if left == 0 { Ok(()) } else { Err(Unreachable) }
    }
}

/// The remote that a virtual endpoint reaches its host by, as messages number it.
pub fn link(ve: usize) -> u16 {
    (LINKS + ve) as u16
}

/// An INBOUND of the endpoint itself: `bytes` of its memory at `offset`, or nothing.
pub fn open(entry: usize, offset: u64, bytes: u64, sequence: u32) -> Packet {
    debug_assert_eq!(offset % PAGE, 0);
    let rights = if bytes == 0 { 0 } else { WEFT_RIGHT_READ | WEFT_RIGHT_WRITE };
    let arg = [entry as u64, offset, bytes, rights.into(), 0, u64::from(sequence) << 32];
    let data = match bytes {
        0 => vec![],
        _ => [offset.to_ne_bytes(), bytes.to_ne_bytes()].concat(),
    };
    Packet { kind: WEFT_FAB_INBOUND, link: 0, arg, data }
}
