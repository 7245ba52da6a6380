// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Hosts that are no QEMU but do what a port does: they confirm what they are told,
//! open memory to endpoints, and see what is open to them, all in real memory.

use super::{Daemon, PATIENCE, Port, RAM, segment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{pread, pwrite};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use weft_fabric::wire::{Packet, abi::*};

/// Where a host's memory begins in its aperture space: addresses are no offsets.
pub const OPEN_AT: u64 = 0x4000_0000;

/// What a host sees of an endpoint.
pub struct Seen {
    fds: Vec<OwnedFd>,
    /// By number of the entry: offset in the endpoint's aperture space, place in its
    /// memory, bytes.
    pub apertures: BTreeMap<u64, (u64, u64, u64)>,
}

impl Seen {
    /// Where an address of the endpoint is in its memory.
    fn place(&self, at: u64) -> u64 {
        let hit =
            self.apertures.values().find(|(offset, _, len)| at >= *offset && at - offset < *len);
        let (offset, place, _) = hit.unwrap_or_else(|| panic!("{at:#x} is not open"));
        place + at - offset
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        pwrite(&self.fds[0], bytes, self.place(at)).unwrap();
    }

    pub fn write32(&self, at: u64, value: u32) {
        self.write(at, &value.to_le_bytes());
    }

    pub fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        assert_eq!(pread(&self.fds[0], &mut bytes, self.place(at)).unwrap(), N);
        bytes
    }

    pub fn read32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at))
    }

    /// As a doorbell page does; which bit, an endpoint does not ask.
    pub fn ring(&self) {
        rustix::io::write(&self.fds[2], &1u64.to_ne_bytes()).unwrap();
    }
}

pub struct Host {
    pub port: Port,
    pub hwid: u64,
    pub lid: u32,
    /// By LID of the endpoint.
    pub seen: BTreeMap<u32, Seen>,
    /// Remotes: number to LID.
    remotes: BTreeMap<u16, u32>,
    /// LID to the number of the inbound entry that is open to it.
    entries: BTreeMap<u32, u64>,
    /// Changes that are not confirmed.
    due: u32,
    /// Refusals that were reported: of reads and writes.
    pub denied: u64,
    /// Interrupts of hot-plug controllers: switch, port, status.
    pub presence: Vec<(u64, u8, u32)>,
    reply: Option<Packet>,
    sequence: u64,
    fresh: bool,
    /// Its connection is gone.
    pub ended: bool,
}

/// A daemon with all hosts of its topology connected; LIDs from 1 in this order.
pub struct World {
    pub daemon: Daemon,
    pub hosts: Vec<Host>,
}

impl World {
    pub fn start(topology: &str, names: &[&str]) -> Self {
        let daemon = Daemon::start(topology);
        let mut hosts = vec![];
        for (name, lid) in names.iter().zip(1..) {
            hosts.push(Host::join(&daemon, name, lid));
        }
        let world = World { daemon, hosts };
        world.daemon.json(&["wait", "--links", "--timeout", "30"]);
        world
    }

    /// Lets the hosts do as they are told until something is so.
    pub fn until(&mut self, what: &str, mut so: impl FnMut(&mut [Host]) -> bool) {
        while !so(&mut self.hosts) {
            let alive = |h: &&mut Host| !h.ended;
            let mut hosts: Vec<_> = self.hosts.iter_mut().filter(alive).collect();
            let mut fds: Vec<_> =
                hosts.iter().map(|h| PollFd::new(&h.port.fd, PollFlags::IN)).collect();
            let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            assert_ne!(poll(&mut fds, Some(&time)).unwrap(), 0, "waited in vain: {what}");
            let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            for (host, _) in hosts.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
                match host.port.receive() {
                    Some(got) => host.take(got.packet, got.fds),
                    None => host.ended = true,
                }
            }
        }
    }

    /// A configuration request of a host: result and data. `write`: data and term.
    pub fn config(
        &mut self,
        host: usize,
        path: &[u8],
        space: u32,
        address: u32,
        write: Option<(u32, u32)>,
    ) -> (u32, u32) {
        let write_bit = if write.is_some() { WEFT_CFG_WRITE } else { 0 };
        let ctrl = path.len() as u32 | (space << 8) | write_bit;
        let (data, term) = write.unwrap_or((0, 0));
        let arg = [9, ctrl.into(), address.into(), data.into(), term.into(), 0];
        self.hosts[host].port.say(WEFT_FAB_CONFIG, 0, arg, path);
        let mut reply = None;
        self.until("an answer to a configuration request", |hosts| {
            reply = hosts[host].reply.take();
            reply.is_some()
        });
        let reply = reply.unwrap();
        (reply.arg[1] as u32, reply.arg[3] as u32)
    }

    pub fn read(&mut self, host: usize, path: &[u8], space: u32, address: u32) -> u32 {
        let (result, data) = self.config(host, path, space, address, None);
        assert_eq!(result, WEFT_CFG_OK, "{path:?} {space} {address:#x}");
        data
    }

    /// The host of this hardware id.
    pub fn host_of(&self, hwid: u64) -> Option<usize> {
        self.hosts.iter().position(|h| h.hwid == hwid)
    }

    /// The host has joined since this was asked last: its tables are empty.
    pub fn is_fresh(&mut self, hwid: u64) -> bool {
        let host = self.host_of(hwid);
        host.is_some_and(|host| std::mem::take(&mut self.hosts[host].fresh))
    }

    pub fn lid_of(&self, hwid: u64) -> u32 {
        self.host_of(hwid).map_or(0, |host| self.hosts[host].lid)
    }

    /// All changes of the hosts' own tables are in force.
    pub fn settle(&mut self) {
        self.until("changes to be in force", |hosts| hosts.iter().all(|h| h.due == 0));
    }
}

impl Host {
    pub fn join(daemon: &Daemon, name: &str, lid: u32) -> Self {
        let (port, welcome) = Port::join(daemon, name);
        port.enable();
        port.say(WEFT_FAB_LID, 0, [lid.into(), 0, 0, 0, 0, 0], &[]);
        Host {
            port,
            hwid: welcome.arg[1],
            lid,
            seen: BTreeMap::new(),
            remotes: BTreeMap::new(),
            entries: BTreeMap::new(),
            due: 0,
            denied: 0,
            presence: vec![],
            reply: None,
            sequence: 0,
            fresh: true,
            ended: false,
        }
    }

    fn take(&mut self, packet: Packet, fds: Vec<OwnedFd>) {
        let Packet { kind, link, arg, data } = packet;
        match kind {
            WEFT_FAB_REMOTE_UP => {
                let lid = self.remotes[&link];
                assert_eq!(fds.len(), 3);
                let seen = Seen { fds, apertures: BTreeMap::new() };
                assert!(self.seen.insert(lid, seen).is_none(), "up twice");
            }
            WEFT_FAB_REMOTE_DOWN => {
                let ticket = arg[5];
                if ticket != 0 {
                    self.seen.remove(&self.remotes[&link]);
                    self.port.say(WEFT_FAB_REMOTE_ACK, link, [0, 0, 0, 0, 0, ticket], &[]);
                }
            }
            WEFT_FAB_INBOUND => {
                // What comes late for a remote that has let go is for none.
                if let Some(seen) = self.seen.get_mut(&self.remotes[&link]) {
                    if arg[2] == 0 {
                        seen.apertures.remove(&arg[0]);
                    } else {
                        assert_eq!(
                            (data.len(), arg[5] & 1),
                            (16, 0),
                            "an endpoint's is in one piece"
                        );
                        let place = u64::from_ne_bytes(data[..8].try_into().unwrap());
                        seen.apertures.insert(arg[0], (arg[1], place, arg[2]));
                    }
                }
                let ack = [arg[0], 0, 0, 0, 0, arg[5]];
                self.port.say(WEFT_FAB_INBOUND_ACK, link, ack, &[]);
            }
            WEFT_FAB_INBOUND_ACK | WEFT_FAB_ROUTE_ACK => self.due -= 1,
            WEFT_FAB_CONFIG_REPLY => self.reply = Some(packet_of(kind, link, arg, data)),
            WEFT_FAB_DENIED => self.denied += arg[2],
            WEFT_FAB_PRESENCE => self.presence.push((arg[0], arg[1] as u8, arg[2] as u32)),
            _ => {}
        }
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.due += 1;
        self.sequence << 32
    }

    /// Its route table: traffic to an endpoint leaves by link 0 on this VP, or not at all.
    pub fn route(&mut self, lid: u32, vp: Option<u8>) {
        let lids = u64::from(lid) | (u64::from(lid) << 32);
        let own = WEFT_ROUTE_FROM_SELF.into();
        let sequence = self.next();
        let entry = u64::from(lid % 256);
        let arg = match vp {
            Some(vp) => [entry, lids, u64::from(vp) << 8, own, 0, sequence],
            None => [entry, 0, 0, 0, 0, sequence],
        };
        self.port.say(WEFT_FAB_ROUTE, 0, arg, &[]);
    }

    /// Its protection table: all of its memory for an endpoint that comes in by this VP.
    pub fn open(&mut self, lid: u32, vp: Option<u8>) {
        self.open_as(lid, vp, WEFT_RIGHT_READ | WEFT_RIGHT_WRITE);
    }

    pub fn open_as(&mut self, lid: u32, vp: Option<u8>, rights: u32) {
        let next = self.entries.len() as u64;
        let entry = *self.entries.entry(lid).or_insert(next);
        let sequence = self.next();
        match vp {
            Some(vp) => {
                self.port.say(WEFT_FAB_INBOUND_FROM, 0, [entry, lid.into(), 1 << vp, 0, 0, 0], &[]);
                let arg = [entry, OPEN_AT, RAM, rights.into(), 0, sequence];
                self.port.say(WEFT_FAB_INBOUND, 0, arg, &segment(0, RAM));
            }
            None => self.port.say(WEFT_FAB_INBOUND, 0, [entry, 0, 0, 0, 0, sequence], &[]),
        }
    }

    /// Wants to reach an endpoint.
    pub fn want(&mut self, lid: u32) {
        if self.remotes.values().any(|wanted| *wanted == lid) {
            return;
        }
        let link = WEFT_MAX_LINKS as u16 + self.remotes.len() as u16;
        self.remotes.insert(link, lid);
        self.port.say(WEFT_FAB_WANT, link, [lid.into(), 0, 0, 0, 0, 0], &[]);
    }

    /// Writes its own memory, by address in its aperture space.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        pwrite(&self.port.fds[0], bytes, at - OPEN_AT).unwrap();
    }

    pub fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert_eq!(pread(&self.port.fds[0], &mut bytes, at - OPEN_AT).unwrap(), len);
        bytes
    }
}

fn packet_of(kind: u32, link: u16, arg: [u64; 6], data: Vec<u8>) -> Packet {
    Packet { kind, link, arg, data }
}
