// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The endpoint as a port: its connection, its base function's orders, and the turns
//! of its functions.
//!
//! A virtual endpoint is given away in steps, each confirmed before the order is: its
//! memory is closed to the former host, that host is let go of, the route taken out,
//! and what is left in the memory wiped. Only then can it be given to another host.

use super::access::Access;
use super::host::{Counts, Host, link, open};
use super::memory;
use super::queue::Function;
use crate::topology::Endpoint;
use crate::wire::abi::*;
use crate::wire::socket::{self, Received};
use crate::wire::{Packet, VPS};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const FUNCTION_BYTES: u64 = WEFT_EP_FUNCTION_BYTES as u64;
/// Pieces of work in a row before the connection is looked at.
const TURN: usize = 8;

/// The connection is of no more use.
struct Lost;

/// An order of the base function that is being carried out.
struct Order {
    ticket: u64,
    /// Answers that are still to come.
    inbound: bool,
    route: bool,
    remote: bool,
    /// The virtual endpoint is given to no host.
    withdraws: bool,
}

/// A virtual endpoint.
#[derive(Default)]
struct Ve {
    functions: Vec<Function>,
    host: Host,
    counts: Counts,
    given: bool,
    order: Option<Order>,
    /// The number of the route to the host, 0: there is none.
    route: u32,
    /// That of the last one.
    last_route: u32,
}

/// The endpoint.
pub struct Engine {
    name: String,
    socket: OwnedFd,
    memory: OwnedFd,
    doorbells: OwnedFd,
    /// A doorbell was rung.
    event: OwnedFd,
    ves: Vec<Ve>,
    /// Bytes of a virtual endpoint.
    ve_bytes: u64,
    /// By a fault that is injected, no function does work.
    stalled: bool,
    /// The last number given to a change.
    sequence: u32,
}

impl Engine {
    /// An endpoint that has not said hello yet.
    pub fn new(name: &str, endpoint: &Endpoint, socket: OwnedFd) -> io::Result<Self> {
        let ve = || Ve {
            functions: (0..endpoint.functions).map(|_| Function::default()).collect(),
            ..Ve::default()
        };
        let ve_bytes = FUNCTION_BYTES * u64::from(endpoint.functions);
        Ok(Engine {
            name: name.into(),
            socket,
            memory: memory::make("weft-endpoint", ve_bytes * u64::from(endpoint.ves))?,
            doorbells: memory::make("weft-endpoint-doorbells", WEFT_FAB_DOORBELL_BYTES.into())?,
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            ves: (0..endpoint.ves).map(|_| ve()).collect(),
            ve_bytes,
            stalled: false,
            sequence: 0,
        })
    }

    /// Works until the connection ends.
    pub fn run(mut self) {
        for ve in 0..self.ves.len() {
            self.identify(ve);
        }
        // A lost connection leaves no port to tell.
        let _ = self.serve();
    }

    fn serve(&mut self) -> Result<(), Lost> {
        let ram = self.ve_bytes * self.ves.len() as u64;
        let hello = Packet {
            kind: WEFT_FAB_HELLO,
            arg: [WEFT_FAB_VERSION.into(), 0, ram, 0, 0, 0],
            data: self.name.clone().into_bytes(),
            ..Packet::default()
        };
        let fds = [&self.memory, &self.doorbells, &self.event].map(|fd| fd.as_fd());
        self.send_with(&hello, &fds)?;
        self.say(WEFT_FAB_ENABLE, 0, [1, 0, 0, 0, 0, 0])?;
        loop {
            while let Some((packet, fds)) = self.receive()? {
                self.take(&packet, fds)?;
            }
            let busy = self.work()?;
            self.wait(busy);
        }
    }

    /// Waits until a message or a ring has come, or does not if there is work.
    fn wait(&self, busy: bool) {
        let mut fds = [&self.socket, &self.event]
            .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, busy.then_some(&at_once)).is_err() {
            return;
        }
        // Taken before the functions are looked at: a ring meanwhile is not missed.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    fn receive(&self) -> Result<Option<(Packet, Vec<OwnedFd>)>, Lost> {
        match socket::receive(self.socket.as_fd()) {
            Received::Nothing => Ok(None),
            Received::Packet(packet, fds) => Ok(Some((packet, fds))),
            Received::Gone(_) | Received::Bad(_) => Err(Lost),
        }
    }

    fn send_with(&self, packet: &Packet, fds: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), Lost> {
        let bytes = packet.encode();
        loop {
            match socket::send(self.socket.as_fd(), &bytes, fds, SendFlags::empty()) {
                Err(Errno::INTR) => {}
                done => return done.map_err(|_| Lost),
            }
        }
    }

    fn say(&self, kind: u32, link: u16, arg: [u64; 6]) -> Result<(), Lost> {
        self.send_with(&Packet { kind, link, arg, data: vec![] }, &[])
    }

    /// A message of the fabric. Those about neighbours do not matter here.
    fn take(&mut self, packet: &Packet, fds: Vec<OwnedFd>) -> Result<(), Lost> {
        let arg = packet.arg;
        let by_link = usize::from(packet.link).checked_sub(WEFT_MAX_LINKS as usize);
        let remote = by_link.filter(|ve| *ve < self.ves.len());
        match (packet.kind, remote) {
            (WEFT_FAB_BASE, _) => self.obey(arg)?,
            (WEFT_FAB_REMOTE_UP, Some(ve)) => {
                // What cannot be used is as if it were not there.
                if self.ves[ve].host.up(packet, fds).is_err() {
                    self.ves[ve].host.down();
                    self.route(ve, false);
                } else {
                    self.route(ve, true);
                }
            }
            (WEFT_FAB_REMOTE_DOWN, Some(ve)) => {
                self.ves[ve].host.down();
                self.route(ve, false);
                let [_, _, last, _, _, ticket] = arg;
                if last != 0 {
                    self.confirmed(ve, |order| order.remote = false)?;
                } else if ticket >> 32 != 0 {
                    self.say(WEFT_FAB_REMOTE_ACK, packet.link, [0, 0, 0, 0, 0, ticket])?;
                }
            }
            (WEFT_FAB_INBOUND, Some(ve)) => {
                if self.ves[ve].host.inbound(packet) {
                    let ack = [arg[0], 0, 0, 0, 0, arg[5]];
                    self.say(WEFT_FAB_INBOUND_ACK, packet.link, ack)?;
                }
            }
            (WEFT_FAB_INBOUND_ACK, _) => {
                self.confirmed(arg[0] as usize, |order| order.inbound = false)?;
            }
            (WEFT_FAB_ROUTE_ACK, _) => {
                self.confirmed(arg[0] as usize, |order| order.route = false)?;
            }
            (WEFT_FAB_FAULT, _) if arg[0] == u64::from(WEFT_FAB_FAULT_STALL) => {
                self.stalled = arg[1] != 0;
            }
            (WEFT_FAB_COUNTERS_GET, _) => {
                let none = [0; 8 * WEFT_COUNTERS as usize];
                let packet = Packet {
                    kind: WEFT_FAB_COUNTERS,
                    arg: [arg[0], 0, 0, 0, 0, 0],
                    data: none.to_vec(),
                    ..Packet::default()
                };
                self.send_with(&packet, &[])?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The base function was written.
    fn obey(&mut self, [ve, vp, root, _, _, ticket]: [u64; 6]) -> Result<(), Lost> {
        let at = ve as usize;
        let vp = (vp < VPS.into()).then_some(vp);
        let Some(given) = self.ves.get(at).map(|ve| ve.given) else { return Ok(()) };
        if given == vp.is_some() {
            return self.say(WEFT_FAB_BASE_ACK, 0, [0, 0, 0, 0, 0, ticket]);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = u64::from(self.sequence) << 32;
        let withdraws = vp.is_none();
        self.ves[at].given = !withdraws;
        self.ves[at].order =
            Some(Order { ticket, inbound: true, route: true, remote: withdraws, withdraws });
        let offset = ve * self.ve_bytes;
        match vp {
            Some(vp) => {
                let route =
                    [ve, root | (root << 32), vp << 8, WEFT_ROUTE_FROM_SELF.into(), 0, sequence];
                self.say(WEFT_FAB_ROUTE, 0, route)?;
                self.say(WEFT_FAB_INBOUND_FROM, 0, [ve, root, 1 << vp, 0, 0, 0])?;
                self.send_with(&open(at, offset, self.ve_bytes, self.sequence), &[])?;
                self.say(WEFT_FAB_WANT, link(at), [root, 0, 0, 0, 0, 0])
            }
            None => {
                // Nothing of the host is touched from here on.
                self.ves[at].host.down();
                self.route(at, false);
                self.ves[at].functions.iter_mut().for_each(|f| *f = Function::default());
                self.send_with(&open(at, 0, 0, self.sequence), &[])?;
                self.say(WEFT_FAB_WANT, link(at), [0; 6])?;
                self.say(WEFT_FAB_ROUTE, 0, [ve, 0, 0, 0, 0, sequence])
            }
        }
    }

    /// A step of an order is in force.
    fn confirmed(&mut self, ve: usize, step: impl FnOnce(&mut Order)) -> Result<(), Lost> {
        let Some(Ve { order: Some(order), .. }) = self.ves.get_mut(ve) else { return Ok(()) };
        step(order);
        if order.inbound || order.route || order.remote {
            return Ok(());
        }
        let (ticket, withdraws) = (order.ticket, order.withdraws);
        self.ves[ve].order = None;
        if withdraws {
            self.wipe(ve);
        }
        self.say(WEFT_FAB_BASE_ACK, 0, [0, 0, 0, 0, 0, ticket])
    }

    /// No host can reach a virtual endpoint: none is to find what another left.
    fn wipe(&mut self, ve: usize) {
        let none = [0; 4096];
        for at in (0..self.ve_bytes).step_by(none.len()) {
            let _ = memory::write(&self.memory, ve as u64 * self.ve_bytes + at, &none);
        }
        self.identify(ve);
    }

    fn identify(&mut self, ve: usize) {
        self.each_function(ve, |n, _, access| Function::identify(ve as u8, n, access));
    }

    /// A route to the host was taken up, or is lost: its functions are told.
    fn route(&mut self, ve: usize, up: bool) {
        let Ve { route, last_route, .. } = &mut self.ves[ve];
        if up {
            *last_route = *last_route % WEFT_EP_ROUTE_LAST + 1;
        }
        *route = if up { *last_route } else { 0 };
        self.each_function(ve, |_, route, access| Function::route(route, access));
    }

    /// Calls `with` with each function's number, the number of its route, and its access.
    fn each_function(&mut self, ve: usize, with: impl Fn(u8, u32, &Access<'_>)) {
        for n in 0..self.ves[ve].functions.len() {
            let window = ve as u64 * self.ve_bytes + n as u64 * FUNCTION_BYTES;
            let Ve { host, counts, route, .. } = &mut self.ves[ve];
            let access = Access { memory: &self.memory, window, host, counts };
            with(n as u8, *route, &access);
        }
    }

    /// Gives every function its turns. Whether any may have more to do.
    fn work(&mut self) -> Result<bool, Lost> {
        let mut busy = false;
        let turns = if self.stalled { 0 } else { TURN };
        for _ in 0..turns {
            busy = false;
            for (n, ve) in self.ves.iter_mut().enumerate().filter(|(_, ve)| ve.given) {
                let Ve { functions, host, counts, route, .. } = ve;
                for (f, function) in functions.iter_mut().enumerate() {
                    let window = n as u64 * self.ve_bytes + f as u64 * FUNCTION_BYTES;
                    let mut access = Access { memory: &self.memory, window, host, counts };
                    busy |= function.turn(*route, &mut access);
                }
            }
            if !busy {
                break;
            }
        }
        for n in 0..self.ves.len() {
            for packet in self.ves[n].counts.take(link(n)) {
                self.send_with(&packet, &[])?;
            }
        }
        Ok(busy)
    }
}
