// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A function of a shared endpoint as a host drives it: its registers, queues and
//! data, all by what the host has been handed.

use super::pcim::Pcim;
use super::world::{OPEN_AT, World};
use weft_fabric::wire::abi::*;
use weft_proto::crc::crc32c;

pub const ENTRIES: u64 = 16;
/// In a host's memory: queues, and what is copied from and to.
const WQ: u64 = OPEN_AT;
pub const FROM: u64 = OPEN_AT + 0x10000;
pub const TO: u64 = OPEN_AT + 0x80000;
/// In the function's memory.
pub const OWN_WQ: u64 = 0x1000;
pub const OWN_CQ: u64 = 0x2000;
pub const OWN_FROM: u64 = 0x4000;
pub const OWN_TO: u64 = 0xa000;

/// A function that a host drives.
pub struct Queue {
    pub host: usize,
    pub lid: u32,
    /// Of the function, in the endpoint's aperture space.
    pub at: u64,
    pub mode: u32,
    /// Where its queues in the host's memory begin: those of one endpoint are apart
    /// from those of another.
    queues: u64,
    posted: u32,
    done: u32,
}

/// A completion: cookie, status, checksum, bytes.
pub type Done = (u64, u32, u32, u64);

impl Queue {
    /// Waits until the function can be reached, and sets it up.
    pub fn new(
        world: &mut World,
        pcim: &Pcim,
        host: usize,
        ve: u8,
        function: u64,
        mode: u32,
    ) -> Self {
        Self::of(world, pcim, "EP", host, ve, 2, function, mode)
    }

    /// The same, of an endpoint by its serial number, with so many functions in each
    /// virtual endpoint.
    #[allow(clippy::too_many_arguments)]
    pub fn of(
        world: &mut World,
        pcim: &Pcim,
        serial: &str,
        host: usize,
        ve: u8,
        functions: u64,
        function: u64,
        mode: u32,
    ) -> Self {
        let lid = pcim.lid(serial);
        world.until("the endpoint to be open", |hosts| {
            hosts[host].seen.get(&lid).is_some_and(|s| !s.apertures.is_empty())
        });
        let at = (u64::from(ve) * functions + function) * u64::from(WEFT_EP_FUNCTION_BYTES);
        let mut queue = Queue {
            host,
            lid,
            at,
            mode,
            queues: WQ + 0x4000 * u64::from(lid % 2),
            posted: 0,
            done: 0,
        };
        queue.enable(world);
        queue
    }

    pub fn set(&self, world: &World, register: u32, value: u32) {
        world.hosts[self.host].seen[&self.lid].write32(self.at + u64::from(register), value);
    }

    pub fn get(&self, world: &World, register: u32) -> u32 {
        world.hosts[self.host].seen[&self.lid].read32(self.at + u64::from(register))
    }

    pub fn ring(&self, world: &World) {
        world.hosts[self.host].seen[&self.lid].ring();
    }

    pub fn status_is(&self, world: &World, status: u32) {
        eventually("a status", || self.get(world, WEFT_EP_STATUS) == status);
    }

    /// The same function, in the hands of another host.
    pub fn moved(self, host: usize) -> Self {
        Queue { host, ..self }
    }

    /// First bytes of its queues.
    pub fn queues(&self) -> [u64; 2] {
        [self.place(WEFT_EP_WQ), self.place(WEFT_EP_CQ)]
    }

    pub fn disable(&self, world: &World) {
        self.set(world, WEFT_EP_CTRL, 0);
        self.ring(world);
        self.status_is(world, 0);
    }

    pub fn place(&self, group: u32) -> u64 {
        match group {
            WEFT_EP_WQ if self.mode & WEFT_EP_WQE_PUSH != 0 => OWN_WQ,
            WEFT_EP_WQ => self.queues,
            _ if self.mode & WEFT_EP_CQE_PULL != 0 => OWN_CQ,
            _ => self.queues + 0x2000,
        }
    }

    pub fn set_queue(&self, world: &World, group: u32, base: u64, element: u32) {
        let limit = base + ENTRIES * u64::from(element) - 1;
        for (register, value) in [(WEFT_EP_Q_BASE, base), (WEFT_EP_Q_LIMIT, limit)] {
            self.set(world, group + register, value as u32);
            self.set(world, group + register + 4, (value >> 32) as u32);
        }
        self.set(world, group + WEFT_EP_Q_DOORBELL, 0);
        self.set(world, group + WEFT_EP_Q_TAKEN, 0);
    }

    pub fn enable(&mut self, world: &World) {
        self.disable(world);
        (self.posted, self.done) = (0, 0);
        self.set_queue(world, WEFT_EP_WQ, self.place(WEFT_EP_WQ), WEFT_EP_WQE_BYTES);
        self.set_queue(world, WEFT_EP_CQ, self.place(WEFT_EP_CQ), WEFT_EP_CQE_BYTES);
        // What an earlier life has left is no completion of this one.
        for n in 0..ENTRIES {
            let at = self.place(WEFT_EP_CQ) + n * u64::from(WEFT_EP_CQE_BYTES);
            self.write(
                world,
                self.mode & WEFT_EP_CQE_PULL != 0,
                at,
                &[0; WEFT_EP_CQE_BYTES as usize],
            );
        }
        self.set(world, WEFT_EP_CTRL, WEFT_EP_ENABLE | self.mode);
        self.ring(world);
        self.status_is(world, WEFT_EP_ENABLED);
    }

    pub fn write(&self, world: &World, own: bool, at: u64, bytes: &[u8]) {
        match own {
            true => world.hosts[self.host].seen[&self.lid].write(self.at + at, bytes),
            false => world.hosts[self.host].put(at, bytes),
        }
    }

    pub fn read(&self, world: &World, own: bool, at: u64, len: usize) -> Vec<u8> {
        match own {
            true => {
                let seen = &world.hosts[self.host].seen[&self.lid];
                let words = (0..len as u64 / 4).map(|n| seen.read32(self.at + at + 4 * n));
                words.flat_map(u32::to_le_bytes).collect()
            }
            false => world.hosts[self.host].get(at, len),
        }
    }

    /// Puts a WQE at the end of the queue, without a ring. Segments: place and bytes.
    pub fn post(&mut self, world: &World, op: u32, sources: &[(u64, u64)], dests: &[(u64, u64)]) {
        let mut wqe = [0; WEFT_EP_WQE_BYTES as usize];
        let all: Vec<_> = [sources, dests].concat();
        let local = if self.mode & WEFT_EP_DATA_PUSH != 0 { (1u8 << all.len()) - 1 } else { 0 };
        wqe[..4].copy_from_slice(&[op as u8, sources.len() as u8, dests.len() as u8, local]);
        wqe[8..16].copy_from_slice(&(1000 + u64::from(self.posted)).to_le_bytes());
        for (n, (base, len)) in all.iter().enumerate() {
            let at = 16 + 16 * n;
            wqe[at..at + 8].copy_from_slice(&base.to_le_bytes());
            wqe[at + 8..at + 16]
                .copy_from_slice(&base.wrapping_add(*len).wrapping_sub(1).to_le_bytes());
        }
        self.post_raw(world, &wqe);
    }

    pub fn post_raw(&mut self, world: &World, wqe: &[u8]) {
        let slot = u64::from(self.posted) % ENTRIES * u64::from(WEFT_EP_WQE_BYTES);
        let own = self.mode & WEFT_EP_WQE_PUSH != 0;
        self.write(world, own, self.place(WEFT_EP_WQ) + slot, wqe);
        self.posted += 1;
        self.set(world, WEFT_EP_WQ + WEFT_EP_Q_DOORBELL, self.posted);
    }

    /// Agrees to the route that a function with HOLD has now.
    pub fn go(&self, world: &World) {
        let route = self.get(world, WEFT_EP_ROUTE);
        assert_ne!(route, 0, "there is no route");
        self.set(world, WEFT_EP_GO, route);
        self.ring(world);
    }

    /// The next completion, when it has come. Its number is looked at before the rest, for
    /// it is written after it.
    pub fn completed(&mut self, world: &World) -> Option<Done> {
        let slot = u64::from(self.done) % ENTRIES * u64::from(WEFT_EP_CQE_BYTES);
        let own = self.mode & WEFT_EP_CQE_PULL != 0;
        let at = self.place(WEFT_EP_CQ) + slot;
        let number = self.read(world, own, at + u64::from(WEFT_EP_CQE_NUMBER), 4);
        if number != (self.done + 1).to_le_bytes() {
            return None;
        }
        let cqe = self.read(world, own, at, WEFT_EP_CQE_BYTES as usize);
        let word = |at: u32| u32::from_le_bytes(cqe[at as usize..][..4].try_into().unwrap());
        let long = |at: u32| u64::from(word(at)) | (u64::from(word(at + 4)) << 32);
        self.done += 1;
        self.set(world, WEFT_EP_CQ + WEFT_EP_Q_TAKEN, self.done);
        let (cookie, bytes) = (long(WEFT_EP_CQE_COOKIE), long(WEFT_EP_CQE_BYTES_DONE));
        Some((cookie, word(WEFT_EP_CQE_STATUS), word(WEFT_EP_CQE_CRC), bytes))
    }

    pub fn wait(&mut self, world: &World) -> Done {
        let mut done = None;
        eventually("a completion", || {
            done = self.completed(world);
            done.is_some()
        });
        done.unwrap()
    }

    /// Has 4 KiB copied and summed, and looks whether they arrived.
    pub fn works(&mut self, world: &World, seed: u8) {
        let own = self.mode & WEFT_EP_DATA_PUSH != 0;
        let (from, to) = if own { (OWN_FROM, OWN_TO) } else { (FROM, TO) };
        let data = pattern(seed, 4096);
        self.write(world, own, from, &data);
        self.write(world, own, to, &[0; 4096]);
        self.post(world, WEFT_EP_COPY_CRC32C, &[(from, 4096)], &[(to, 4096)]);
        self.ring(world);
        let cookie = 999 + u64::from(self.posted);
        assert_eq!(self.wait(world), (cookie, WEFT_EP_OK, crc32c(data.iter().copied()), 4096));
        assert!(self.read(world, own, to, 4096) == data);
    }
}

pub fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed) ^ (n >> 8) as u8).collect()
}

/// The endpoint is another thread, which nothing here can wait for but by looking.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + super::PATIENCE;
    while !so() {
        assert!(std::time::Instant::now() < end, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

impl Queue {
    /// As [`Self::post`], with more segments than a WQE has room for cut off.
    pub fn post_case(
        &mut self,
        world: &World,
        op: u32,
        sources: &[(u64, u64)],
        dests: &[(u64, u64)],
    ) {
        if sources.len() + dests.len() <= WEFT_EP_SEGMENTS as usize {
            return self.post(world, op, sources, dests);
        }
        let mut wqe = [0; WEFT_EP_WQE_BYTES as usize];
        wqe[..3].copy_from_slice(&[op as u8, sources.len() as u8, dests.len() as u8]);
        self.post_raw(world, &wqe);
    }
}
