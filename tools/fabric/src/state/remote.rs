// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Remotes: what a port reaches by routes. Each is walked anew whenever anything
//! changes that could lead it elsewhere. One whose route is not the same any more
//! is withdrawn first: its port confirms that it has let go, and only then is
//! the writer of the tables answered, and the remote taken up where it leads
//! now. An owner sees a remote as a channel, which remains taken until then.

use super::mail::Mail;
use super::walk::{Course, OWN, Stop};
use super::{Effect, Fabric};
use crate::topology::{HostEnd, Node};
use crate::wire::abi::{WEFT_FAB_DENIED_DOORBELL, WEFT_STOP_BUSY, WEFT_STOP_CHANGING};
use crate::wire::{CHANNELS, Complaint, LINKS, ToPort};

/// A remote of a port.
pub struct Remote {
    /// The LID it is to lead to.
    lid: u32,
    state: State,
}

#[derive(Clone)]
enum State {
    Down(Stop),
    Up(Reach),
    /// Withdrawn; its port has not confirmed this ticket.
    Closing {
        ticket: u32,
        reach: Reach,
        stop: Stop,
    },
}

/// What a remote leads to.
#[derive(Clone)]
pub struct Reach {
    pub course: Course,
    /// The LID it comes from.
    pub from: u32,
    /// Of the owner's port.
    generation: u32,
    /// Its number at the owner.
    channel: u8,
    /// Another one each time that it is taken up.
    life: u32,
}

impl Reach {
    /// It leads where `other` does, the same way.
    fn leads_as(&self, other: &Reach) -> bool {
        (&self.course, self.from, self.generation) == (&other.course, other.from, other.generation)
    }
}

/// A remote and the port it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Index in `Topology::hosts`.
    pub host: usize,
    /// Number of the remote there.
    pub remote: u8,
}

impl Caller {
    /// As the port numbers it among its links.
    fn end(self) -> HostEnd {
        HostEnd { host: self.host, link: LINKS as u8 + self.remote }
    }
}

impl Fabric {
    /// A port wants a remote to lead to `lid`, or has let go of it.
    pub(super) fn want(&mut self, who: Caller, lid: u32) -> Result<(), Complaint> {
        let known = self.remote(who).is_some();
        if lid != 0 && known {
            return Err(format!("WANT of remote {}, which is in use", who.remote));
        }
        if lid == 0 {
            self.let_go(who);
            self.session_mut(who.host, |s| drop(s.remotes.remove(&who.remote)));
            let message = ToPort::RemoteDown {
                remote: who.remote,
                why: WEFT_STOP_CHANGING,
                hops: 0,
                last: true,
                ticket: 0,
            };
            self.tell(who.host, message);
        } else {
            let state = State::Down(self.unsettled(who));
            self.session_mut(who.host, |s| {
                s.remotes.insert(who.remote, Remote { lid, state });
            });
        }
        self.resolve();
        Ok(())
    }

    /// Walks every route again.
    pub(super) fn resolve(&mut self) {
        let all = self.callers();
        for &who in &all {
            let Some(Remote { lid, state: State::Up(reach) }) = self.remote(who) else { continue };
            let stop = match self.leads_to(who, *lid) {
                Ok(now) if now.leads_as(reach) => continue,
                Ok(_) => self.unsettled(who),
                Err(stop) => stop,
            };
            self.withdraw(who, stop);
        }
        for who in all {
            let Some(Remote { lid, state: State::Down(before) }) = self.remote(who) else {
                continue;
            };
            let before = *before;
            match self.leads_to(who, *lid).and_then(|reach| self.with_channel(reach)) {
                Ok(reach) => self.take_up(who, reach),
                Err(stop) if stop != before => {
                    self.set_state(who, State::Down(stop));
                    let remote = who.remote;
                    let Stop { why, hops, .. } = stop;
                    let message = ToPort::RemoteDown { remote, why, hops, last: false, ticket: 0 };
                    self.tell(who.host, message);
                }
                Err(_) => {}
            }
        }
    }

    /// A port has let go of what it was told to.
    pub(super) fn remote_ack(&mut self, who: Caller, ticket: u32) {
        let Some(Remote { state: State::Closing { ticket: due, stop, .. }, .. }) = self.remote(who)
        else {
            return;
        };
        if *due == ticket {
            let stop = *stop;
            self.let_go(who);
            self.set_state(who, State::Down(stop));
            self.resolve();
        }
    }

    /// A port was reset, and had let go of everything before it said so; or it is
    /// gone, and its owners have to see for themselves.
    pub(super) fn remotes_lost(&mut self, host: usize, gone: bool) {
        for who in self.callers().into_iter().filter(|who| who.host == host) {
            if let Some(reach) = self.reach(who).filter(|_| gone) {
                let Reach { course: Course { owner, .. }, channel, life, .. } = *reach;
                if self.caller(owner, channel) == Some(who) {
                    self.tell(owner, ToPort::PeerGone { channel, life });
                }
            }
            self.let_go(who);
        }
        self.session_mut(host, |s| s.remotes.clear());
    }

    /// Accesses that a port refused, or doorbells: counted where they ended.
    /// Their kind, number, and the function they were meant for.
    pub(super) fn remote_denied(
        &mut self,
        who: Caller,
        offset: u64,
        (kind, count, to): (u64, u64, u8),
    ) {
        let Some(Remote { lid, state }) = self.remote(who) else { return };
        let lid = *lid;
        match state {
            // Where it rang in vain is no longer where it leads.
            State::Up(_) if kind == u64::from(WEFT_FAB_DENIED_DOORBELL) => {}
            State::Up(reach) | State::Closing { reach, .. } => {
                let (owner, gate) = (reach.course.owner, reach.course.gate);
                self.tell(owner, ToPort::RoutedDenied { gate, offset, kind, count, to });
            }
            State::Down(stop) => {
                let stop = *stop;
                self.stopped(stop, lid, count);
            }
        }
    }

    /// Counts traffic to `lid` where it has ended.
    fn stopped(&mut self, stop: Stop, lid: u32, count: u64) {
        match stop {
            Stop { node: Node::Switch(n), why, .. } => {
                if let Some(total) = self.switches[n].stopped.get_mut(why as usize) {
                    *total = total.saturating_add(count);
                }
            }
            Stop { node: Node::Host(at), port: link, why, .. } => {
                self.tell(at, ToPort::RouteDenied { link, lid, count, why });
            }
        }
    }

    /// A mailbox message by a route: it arrives, or is counted where it ends.
    pub(super) fn carry_routed(&mut self, source: usize, lid: u32, mail: Mail) {
        match self.walk(source, lid) {
            Ok(Course { owner, gate, hops }) => {
                let Mail { to, from, data } = mail;
                for hop in hops {
                    self.carried(hop, [data.len() as u64, 0]);
                }
                let lid = self.session(source).map_or(0, |s| s.lid);
                self.tell(owner, ToPort::RoutedMbox { gate, lid, to, from, data });
            }
            Err(stop) => self.stopped(stop, lid, 1),
        }
    }

    /// The remotes that are being withdrawn from routes through `node`.
    pub(super) fn closing_through(&self, node: Node) -> Vec<Caller> {
        let due = |who: &Caller| {
            let state = self.remote(*who).map(|r| &r.state);
            matches!(state, Some(State::Closing { reach, .. }) if self.passes(&reach.course, node))
        };
        self.callers().into_iter().filter(due).collect()
    }

    /// The ports that see `owner` through a channel, or may until they confirm.
    pub(super) fn caller(&self, owner: usize, channel: u8) -> Option<Caller> {
        self.session(owner)?.channels.get(&channel).copied()
    }

    /// The remote behind a channel, if it is up.
    pub(super) fn channel_up(&self, owner: usize, channel: u8) -> Option<(HostEnd, &Reach)> {
        let who = self.caller(owner, channel)?;
        match &self.remote(who)?.state {
            State::Up(reach) => Some((who.end(), reach)),
            _ => None,
        }
    }

    /// Owner and channel of what a remote leads or led to.
    pub(super) fn owner_of(&self, who: Caller) -> Option<HostEnd> {
        let reach = self.reach(who)?;
        let (host, link) = (reach.course.owner, reach.channel);
        (self.caller(host, link) == Some(who)).then_some(HostEnd { host, link })
    }

    /// What a remote leads to, also while it is being withdrawn.
    pub(super) fn reach(&self, who: Caller) -> Option<&Reach> {
        match &self.remote(who)?.state {
            State::Up(reach) | State::Closing { reach, .. } => Some(reach),
            State::Down(_) => None,
        }
    }

    /// Every remote of a host: its LID and whether it is up, or why not.
    pub(super) fn remotes_of(&self, host: usize) -> Vec<(u32, Result<&Course, Stop>)> {
        let remotes = self.session(host).into_iter().flat_map(|s| s.remotes.values());
        remotes
            .map(|r| match &r.state {
                State::Up(reach) => (r.lid, Ok(&reach.course)),
                State::Down(stop) | State::Closing { stop, .. } => (r.lid, Err(*stop)),
            })
            .collect()
    }

    fn callers(&self) -> Vec<Caller> {
        let remotes = |host: usize| {
            let all = self.session(host).into_iter().flat_map(|s| s.remotes.keys());
            all.map(move |&remote| Caller { host, remote })
        };
        (0..self.nodes.len()).flat_map(remotes).collect()
    }

    fn remote(&self, who: Caller) -> Option<&Remote> {
        self.session(who.host)?.remotes.get(&who.remote)
    }

    fn set_state(&mut self, who: Caller, state: State) {
        self.session_mut(who.host, |s| {
            if let Some(remote) = s.remotes.get_mut(&who.remote) {
                remote.state = state;
            }
        });
    }

    /// Why a remote is down of which no more is known yet.
    fn unsettled(&self, who: Caller) -> Stop {
        Stop { node: Node::Host(who.host), port: OWN, hops: 0, why: WEFT_STOP_CHANGING }
    }

    /// Where a remote would lead, in a channel that is not chosen yet.
    fn leads_to(&self, who: Caller, lid: u32) -> Result<Reach, Stop> {
        let course = self.walk(who.host, lid)?;
        let from = self.session(who.host).map_or(0, |s| s.lid);
        let generation = self.session(course.owner).map_or(0, |s| s.generation);
        Ok(Reach { course, from, generation, channel: 0, life: 0 })
    }

    fn with_channel(&self, reach: Reach) -> Result<Reach, Stop> {
        let owner = reach.course.owner;
        let taken = |channel: &u8| self.caller(owner, *channel).is_some();
        match (LINKS as u8..CHANNELS).find(|channel| !taken(channel)) {
            Some(channel) => Ok(Reach { channel, ..reach }),
            None => Err(Stop {
                node: Node::Host(owner),
                port: reach.course.gate / crate::wire::VPS,
                hops: reach.course.hops.len() as u8,
                why: WEFT_STOP_BUSY,
            }),
        }
    }

    fn take_up(&mut self, who: Caller, mut reach: Reach) {
        let life = self.next_generation();
        reach.life = life;
        let Reach { course: Course { hops, owner, gate }, channel, .. } = reach.clone();
        let Some((peer, port)) = self.session(owner).map(|s| (s.peer(life), s.port)) else {
            return;
        };
        let Some(to) = self.session(who.host).map(|s| s.port) else { return };
        self.session_mut(owner, |s| {
            s.channels.insert(channel, who);
        });
        self.set_state(who, State::Up(reach));
        let (remote, hops) = (who.remote, hops.len() as u8);
        let message = ToPort::RemoteUp { remote, hops, gate, channel, peer };
        self.effects.push(Effect::Send { to, message, descriptors: Some(port) });
        self.replay(HostEnd { host: owner, link: channel }, who.end());
    }

    /// The port is to let go; until it has, what it saw remains seen.
    fn withdraw(&mut self, who: Caller, stop: Stop) {
        let Some(reach) = self.reach(who).cloned() else { return };
        let ticket = self.next_ticket();
        if let Some(owner) = self.owner_of(who) {
            self.await_all(owner, ticket);
        }
        self.set_state(who, State::Closing { ticket, reach, stop });
        let Stop { why, hops, .. } = stop;
        let message = ToPort::RemoteDown { remote: who.remote, why, hops, last: false, ticket };
        self.tell(who.host, message);
    }

    /// Nothing can be reached through the remote any more: its channel is free,
    /// and nothing waits for it.
    fn let_go(&mut self, who: Caller) {
        if let Some(owner) = self.owner_of(who) {
            self.inbound_link_down(owner);
            self.session_mut(owner.host, |s| {
                s.channels.remove(&owner.link);
            });
        }
        self.withdrawn(who);
    }
}
