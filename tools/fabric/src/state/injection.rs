// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Faults in force: where each is, how often it still strikes, what it does to
//! messages and links here, and which port has to act it out.

use super::fault::{Fault, FaultState, FaultStatus, Spoil};
use super::mail::{Late, Mail};
use super::{Effect, Event, Fabric, Place, Refusal, vpd};
use crate::topology::{End, HostEnd, Node, split_end};
use crate::wire::{ToPort, abi::*};

/// How long a link that was lost takes to train anew. A neighbour lets go of the
/// memory meanwhile, and the owner sees it: were the link up at once, the hold of
/// the new life would pass for one of the old.
const TRAINING_US: u64 = 200_000;
/// Messages that a slow link holds; what comes beyond is lost.
const MAX_LATE: usize = 4096;

/// Where a fault is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Link(Place),
    Host(usize),
    /// What answers configuration requests.
    Component(Node),
}

/// A fault in force.
pub(super) struct Active {
    number: u32,
    fault: Fault,
    at: At,
    left: Option<u64>,
    /// Messages it has looked at.
    seen: u64,
    /// Of a flap: when the link changes, and whether it is down now.
    due_us: u64,
    down: bool,
}

impl Active {
    fn is_at_path(&self, path: usize) -> bool {
        matches!(self.at, At::Link(place) if place.path == path)
    }

    /// What it does to a message sent from `place`.
    fn strike(&mut self, place: Place) -> Option<Spoil> {
        let Fault::Mailbox { does, every, .. } = self.fault else { return None };
        if self.at != At::Link(place) || self.left == Some(0) {
            return None;
        }
        self.seen += 1;
        if self.seen % every.unwrap_or(1) != 0 {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        Some(does)
    }
}

/// Another value for one byte of a message; which one and where, by `number`.
fn corrupt(data: &mut [u8], number: u64) {
    let mix = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = (mix >> 32) as usize % data.len().max(1);
    if let Some(byte) = data.get_mut(at) {
        *byte ^= (mix >> 16) as u8 | 1;
    }
}

impl Fabric {
    /// Injects a fault and says by which number it can be cleared.
    pub fn inject(&mut self, fault: Fault) -> Result<u32, Refusal> {
        fault.check()?;
        let at = self.fault_place(&fault)?;
        let alike = |f: &&Active| f.fault.is_like(&fault) && self.same_place(f.at, at, &fault);
        if let Some(other) = self.faults.iter().find(alike) {
            return Err(Refusal(format!(
                "fault {} does that already: {}; clear it first",
                other.number, other.fault
            )));
        }
        self.fault_number += 1;
        let number = self.fault_number;
        let left = fault.count();
        let due_us = self.now_us;
        self.fault_event(number, &fault, FaultState::Begun);
        let active = Active { number, fault, at, left, seen: 0, due_us, down: false };
        self.tell_fault(&active, true);
        self.faults.push(active);
        self.pass(self.now_us);
        Ok(number)
    }

    /// Ends fault `number`, or all.
    pub fn clear_faults(&mut self, number: Option<u32>) -> Result<(), Refusal> {
        let wanted = |f: &Active| number.is_none_or(|n| n == f.number);
        if let (Some(n), false) = (number, self.faults.iter().any(wanted)) {
            return Err(Refusal(format!(
                "there is no fault {n}; see them with: weft-fabric inject list"
            )));
        }
        while let Some(at) = self.faults.iter().position(wanted) {
            self.end_fault(at, FaultState::Cleared);
        }
        Ok(())
    }

    /// The faults in force.
    pub fn faults(&self) -> Vec<FaultStatus> {
        let status = |f: &Active| {
            let left = f.left.filter(|_| f.fault.device_kind().is_none());
            FaultStatus { number: f.number, fault: f.fault.clone(), left }
        };
        self.faults.iter().map(status).collect()
    }

    /// It is `now_us` by a clock that never goes back: does what is due, but for [`Self::sample`].
    pub fn pass(&mut self, now_us: u64) {
        self.now_us = now_us.max(self.now_us);
        while let Some(at) = self.late.iter().position(|l| l.due_us <= self.now_us) {
            let Some(late) = self.late.remove(at) else { break };
            let path = &self.paths[late.place.path];
            if path.up && path.life == late.life {
                self.deliver(late.place, late.mail);
            }
        }
        for at in (0..self.faults.len()).rev() {
            self.flap(at);
        }
        let before = self.training.len();
        self.training.retain(|(_, due_us)| *due_us > self.now_us);
        if self.training.len() != before {
            self.settle();
        }
        self.run_firmware();
    }

    /// The VPD of a node, as they are read now.
    pub(super) fn vpd(&self, node: Node) -> Vec<u8> {
        let mut data = vpd::of(&self.topology, node);
        if self.faults.iter().any(|f| f.at == At::Component(node)) {
            // Behind the checksum is the end of all.
            if let Some(checksum) = data.iter_mut().nth_back(1) {
                *checksum ^= 1;
            }
        }
        data
    }

    /// When [`Self::pass`] or [`Self::sample`] has something to do, by the same clock.
    pub fn next_due(&self) -> Option<u64> {
        let flaps = self.faults.iter().filter(|f| matches!(f.fault, Fault::Flap { .. }));
        let late = self.late.iter().map(|l| l.due_us);
        let training = self.training.iter().map(|(_, due_us)| *due_us);
        flaps.map(|f| f.due_us).chain(late).chain(training).chain(self.firmware_due()).min()
    }

    /// A message of the mailbox of `host`, from its link.
    pub(super) fn carry(&mut self, host: usize, link: u8, mail: Mail) {
        let Some(place) = self.place(host, link) else {
            return self.carry_to_switch(host, link, mail);
        };
        if !self.paths[place.path].up {
            return;
        }
        let dead =
            |f: &Active| matches!(f.fault, Fault::SurpriseDown { .. }) && f.is_at_path(place.path);
        if self.faults.iter().any(dead) {
            return;
        }
        let mut copies = vec![mail];
        for at in 0..self.faults.len() {
            match self.faults[at].strike(place) {
                None => {}
                Some(Spoil::Drop) => copies.clear(),
                Some(Spoil::Duplicate) => copies.extend_from_within(..),
                Some(Spoil::Corrupt) => {
                    for copy in &mut copies {
                        self.spoilt += 1;
                        corrupt(&mut copy.data, self.spoilt);
                    }
                }
            }
        }
        for mail in copies {
            self.post(place, mail);
        }
        let used = |f: &Active| matches!(f.fault, Fault::Mailbox { .. }) && f.left == Some(0);
        while let Some(at) = self.faults.iter().position(used) {
            self.end_fault(at, FaultState::Over);
        }
    }

    /// A port says that a fault has struck as often as it was to.
    pub(super) fn fault_used(&mut self, host: usize, link: u8, kind: u64) {
        let at = self.place(host, link);
        let used = |f: &Active| {
            f.fault.device_kind().is_some_and(|(k, _)| u64::from(k) == kind)
                && f.left.is_some()
                && match f.at {
                    At::Link(place) => at == Some(place),
                    At::Host(of) => of == host,
                    At::Component(_) => false,
                }
        };
        if let Some(at) = self.faults.iter().position(used) {
            self.end_fault(at, FaultState::Over);
        }
    }

    /// A port that has just connected knows of nothing.
    pub(super) fn tell_faults(&mut self, host: usize) {
        let messages: Vec<_> =
            self.faults.iter().flat_map(|f| self.fault_messages(f, true)).collect();
        for (to, message) in messages.into_iter().filter(|(to, _)| *to == host) {
            self.tell(to, message);
        }
    }

    /// Why a fault keeps what consists of these cables down.
    pub(super) fn held_down(&self, cables: &[usize]) -> Option<String> {
        let holds = |f: &&Active| match f.at {
            At::Link(Place { path, .. }) if f.down => {
                self.topology.paths[path].cables.iter().any(|cable| cables.contains(cable))
            }
            _ => false,
        };
        let training = |(path, _): &(usize, u64)| {
            self.topology.paths[*path].cables.iter().any(|cable| cables.contains(cable))
        };
        if self.training.iter().any(training) {
            return Some("it trains anew after a surprise down".into());
        }
        let flap = self.faults.iter().find(holds)?;
        Some(format!("it flaps, by fault {}", flap.number))
    }

    fn fault_place(&self, fault: &Fault) -> Result<At, Refusal> {
        if let Fault::Vpd { node } = fault {
            let none = || Refusal(format!("no component is called {node}; see weft-fabric status"));
            return self.topology.node(node).map(At::Component).ok_or_else(none);
        }
        if let Fault::StalledEndpoint { node } = fault {
            return Ok(At::Host(self.endpoint_named(node)?));
        }
        let Some(text) = fault.end() else {
            let (Fault::MemoryGone { node }
            | Fault::AllOnes { node }
            | Fault::DmaError { node, .. }) = fault
            else {
                return Err(Refusal("a fault without a place".into()));
            };
            return Ok(At::Host(self.with_qemu(node)?));
        };
        let (name, link) = split_end(text).map_err(Refusal)?;
        let node = self.node_named(name)?;
        let place = match node {
            Node::Host(host) => self.place(host, link),
            Node::Switch(_) => None,
        };
        place.map(At::Link).ok_or_else(|| {
            Refusal(match self.topology.cable_at(End { node, port: link }) {
                None => format!("no link ends at {text}; see them with: weft-fabric status"),
                Some(_) => format!(
                    "{text}: faults are of links between two hosts, by the end at one of them; \
                     weft-fabric link down {text} switches the cable off"
                ),
            })
        })
    }

    /// What concerns a link as a whole is the same from either end.
    fn same_place(&self, a: At, b: At, fault: &Fault) -> bool {
        let whole =
            matches!(fault, Fault::Flap { .. } | Fault::SurpriseDown { .. } | Fault::Slow { .. });
        match (a, b) {
            (At::Link(a), At::Link(b)) if whole => a.path == b.path,
            _ => a == b,
        }
    }

    fn fault_messages(&self, active: &Active, on: bool) -> Vec<(usize, ToPort)> {
        let Some((kind, both)) = active.fault.device_kind() else { return vec![] };
        let ends: Vec<(usize, u8)> = match active.at {
            At::Host(host) => vec![(host, 0)],
            At::Component(_) => vec![],
            At::Link(Place { path, side }) => {
                let ends = self.topology.paths[path].ends;
                let ends = if both { vec![ends[0], ends[1]] } else { vec![ends[side]] };
                ends.into_iter().map(|HostEnd { host, link }| (host, link)).collect()
            }
        };
        let times = if on { active.left.unwrap_or(WEFT_FAB_FAULT_ALWAYS) } else { 0 };
        let (latency_ns, bytes_per_second) = match active.fault {
            Fault::Slow { latency_us, bytes_per_second, .. } => {
                (latency_us.saturating_mul(1000), bytes_per_second)
            }
            _ => (0, 0),
        };
        let message =
            |link| ToPort::Fault { link, kind: kind.into(), times, latency_ns, bytes_per_second };
        ends.into_iter().map(|(host, link)| (host, message(link))).collect()
    }

    fn tell_fault(&mut self, active: &Active, on: bool) {
        for (host, message) in self.fault_messages(active, on) {
            self.tell(host, message);
        }
    }

    fn end_fault(&mut self, at: usize, state: FaultState) {
        let active = self.faults.remove(at);
        self.tell_fault(&active, false);
        self.fault_event(active.number, &active.fault, state);
        match (&active.fault, active.at) {
            // What was lost has to show at last.
            (Fault::SurpriseDown { .. }, At::Link(place)) => {
                self.training.push((place.path, self.now_us + TRAINING_US));
            }
            _ => {}
        }
        self.settle();
    }

    fn fault_event(&mut self, number: u32, fault: &Fault, state: FaultState) {
        let event = Event::Fault { number, fault: fault.to_string(), state };
        self.effects.push(Effect::Event(event));
    }

    /// Lets a flap go on, if it is time.
    fn flap(&mut self, at: usize) {
        let active = &mut self.faults[at];
        let Fault::Flap { period_ms, .. } = active.fault else { return };
        if active.due_us > self.now_us {
            return;
        }
        active.due_us = self.now_us + period_ms * 500;
        if active.down {
            active.left = active.left.map(|left| left.saturating_sub(1));
        }
        active.down = !active.down;
        if active.left == Some(0) {
            self.end_fault(at, FaultState::Over);
        } else {
            self.settle();
        }
    }

    /// Sends a message on its way, now or later.
    fn post(&mut self, place: Place, mail: Mail) {
        let slow = self.faults.iter().find_map(|f| match f.fault {
            Fault::Slow { latency_us, bytes_per_second, .. } if f.is_at_path(place.path) => {
                Some((latency_us, bytes_per_second))
            }
            _ => None,
        });
        let before = self.late.iter().filter(|l| l.place == place).map(|l| l.due_us).max();
        if slow.is_none() && before.is_none() {
            return self.deliver(place, mail);
        }
        if self.late.len() >= MAX_LATE {
            return;
        }
        let (latency_us, rate) = slow.unwrap_or_default();
        let carried = (mail.data.len() as u64 * 1_000_000).checked_div(rate).unwrap_or(0);
        // In order: none overtakes those before it, and each takes its time on the wire.
        let sent = before.map_or(self.now_us, |due| due.saturating_sub(latency_us));
        let due_us = sent.max(self.now_us) + carried + latency_us;
        let due_us = before.map_or(due_us, |before| before.max(due_us));
        let life = self.paths[place.path].life;
        self.late.push_back(Late { due_us, place, life, mail });
    }

    fn deliver(&mut self, place: Place, mail: Mail) {
        let Mail { to, from, data } = mail;
        let far = self.topology.paths[place.path].ends[1 - place.side];
        self.tell(far.host, ToPort::Mbox { link: far.link, to, from, data });
    }
}
