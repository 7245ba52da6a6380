// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The rings of a matching interface: slots that this end writes and the driver takes, and events the other way.
//!
//! Counts only grow; entry n is at n modulo the size. What a count of the driver says is taken for true only as far as
//! it makes sense.

use crate::abi;
use crate::entry::Entry;
use crate::mapping::Ring;

/// Bytes of a slot, and of an event.
pub const BYTES: usize = size_of::<abi::weft_match_command>();
/// Words of either.
pub const WORDS: usize = BYTES / size_of::<u64>();

const _: () = assert!(size_of::<abi::weft_match_event>() == BYTES && super::IN_RING <= BYTES);

/// A command ring.
#[derive(Debug)]
pub struct Slots {
    /// Where its slots begin,
    at: usize,
    /// and its counts are.
    produced_at: usize,
    consumed_at: usize,
    size: u64,
    produced: u64,
    /// As far as the driver was known to have taken them.
    consumed: u64,
}

impl Slots {
    pub fn target(at: usize, size: u32) -> Self {
        let counts = [abi::WEFT_MATCH_TARGET_PRODUCED_AT, abi::WEFT_MATCH_TARGET_CONSUMED_AT];
        Slots::new(at, size, counts)
    }

    pub fn initiator(at: usize, size: u32) -> Self {
        let counts = [abi::WEFT_MATCH_INITIATOR_PRODUCED_AT, abi::WEFT_MATCH_INITIATOR_CONSUMED_AT];
        Slots::new(at, size, counts)
    }

    fn new(at: usize, size: u32, counts: [u32; 2]) -> Self {
        let [produced_at, consumed_at] = counts.map(|at| at as usize);
        Slots { at, produced_at, consumed_at, size: size.into(), produced: 0, consumed: 0 }
    }

    fn has_room(&mut self, memory: &Ring, count: u64) -> bool {
        if self.produced - self.consumed + count > self.size {
            let consumed = memory.load64(self.consumed_at);
            if consumed <= self.produced {
                self.consumed = self.consumed.max(consumed);
            }
        }
        self.produced - self.consumed + count <= self.size
    }

    /// Writes the slots of a command, and one with `bytes` behind them if there are any, and counts them as produced;
    /// false if there is no room.
    pub fn post(&mut self, memory: &Ring, slots: &[[u64; WORDS]], bytes: Option<&[u8]>) -> bool {
        let count = slots.len() as u64 + u64::from(bytes.is_some());
        if !self.has_room(memory, count) {
            return false;
        }
        // A power of two: the driver makes no other.
        let place = |number: u64| self.at + (number & (self.size - 1)) as usize * BYTES;
        for (n, words) in (self.produced..).zip(slots) {
            memory.places(place(n), WORDS).put(0, *words);
        }
        if let Some(bytes) = bytes {
            memory.places(place(self.produced + count - 1), WORDS).put_bytes(0, bytes);
        }
        self.produced += count;
        memory.publish64(self.produced_at, self.produced);
        true
    }
}

/// The event ring.
#[derive(Debug)]
pub struct Events {
    at: usize,
    size: u64,
    taken: u64,
    given_back: u64,
}

impl Events {
    pub fn new(at: usize, size: u32) -> Self {
        Events { at, size: size.into(), taken: 0, given_back: 0 }
    }

    pub fn is_ready(&self, memory: &Ring) -> bool {
        let produced = memory.load64(abi::WEFT_MATCH_EVENTS_PRODUCED_AT as usize);
        let there = produced.wrapping_sub(self.taken);
        (1..=self.size).contains(&there)
    }

    /// Takes the next event, if there is one.
    pub fn take(&mut self, memory: &Ring) -> Option<[u64; WORDS]> {
        if !self.is_ready(memory) {
            return None;
        }
        let words = memory.words(self.at + (self.taken & (self.size - 1)) as usize * BYTES);
        self.taken += 1;
        Some(words)
    }

    /// Gives back the places of those taken; false if there are none.
    pub fn give_back(&mut self, memory: &Ring) -> bool {
        let any = self.taken != self.given_back;
        if any {
            self.given_back = self.taken;
            memory.publish64(abi::WEFT_MATCH_EVENTS_CONSUMED_AT as usize, self.taken);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 4096;

    #[test]
    fn a_ring_holds_its_slots_and_no_more() {
        let memory = Ring::anonymous(8192).expect("mapped");
        let mut slots = Slots::target(AT, 4);
        let mut post = |n: u64| slots.post(&memory, &[[n; WORDS]], None);
        assert!((1..=4).all(&mut post) && !post(5));
        // More than was produced cannot have been consumed.
        memory.publish64(abi::WEFT_MATCH_TARGET_CONSUMED_AT as usize, 5);
        assert!(!post(5));
        memory.publish64(abi::WEFT_MATCH_TARGET_CONSUMED_AT as usize, 1);
        assert!(post(5) && !post(6));
        assert_eq!(memory.words::<1>(AT), [5]);
        assert_eq!(memory.words::<1>(AT + BYTES), [2]);
        assert_eq!(memory.load64(abi::WEFT_MATCH_TARGET_PRODUCED_AT as usize), 5);
    }

    #[test]
    fn bytes_take_a_slot_of_their_own() {
        let memory = Ring::anonymous(8192).expect("mapped");
        let mut slots = Slots::initiator(AT, 4);
        assert!(slots.post(&memory, &[[1; WORDS]], None));
        assert!(slots.post(&memory, &[[2; WORDS]], Some(b"hello")));
        assert_eq!(memory.load64(abi::WEFT_MATCH_INITIATOR_PRODUCED_AT as usize), 3);
        // There is room for one, not for two.
        assert!(!slots.post(&memory, &[[3; WORDS]], Some(b"")));
        let mut bytes = [0; 8];
        memory.read(AT + 2 * BYTES, &mut bytes);
        assert_eq!(&bytes, b"hello\0\0\0");
        memory.publish64(abi::WEFT_MATCH_INITIATOR_CONSUMED_AT as usize, 1);
        // The bytes are in the first place again.
        assert!(slots.post(&memory, &[[3; WORDS]], Some(&[9; BYTES])));
        assert_eq!(memory.words::<2>(AT), [0x0909_0909_0909_0909; 2]);
    }

    #[test]
    fn events_are_taken_in_order_and_given_back_together() {
        let memory = Ring::anonymous(8192).expect("mapped");
        let mut events = Events::new(AT, 4);
        let consumed = || memory.load64(abi::WEFT_MATCH_EVENTS_CONSUMED_AT as usize);
        assert!(!events.is_ready(&memory) && events.take(&memory).is_none());
        let mut next = 0;
        for lap in 0..3 {
            for n in 0..4 {
                memory.publish64(AT + n * BYTES, lap * 4 + n as u64);
            }
            memory.publish64(abi::WEFT_MATCH_EVENTS_PRODUCED_AT as usize, (lap + 1) * 4);
            while let Some(words) = events.take(&memory) {
                assert_eq!(words[0], next);
                next += 1;
            }
            assert_eq!((next, consumed()), ((lap + 1) * 4, lap * 4));
            assert!(events.give_back(&memory) && !events.give_back(&memory));
            assert_eq!(consumed(), next);
        }
        // More than there can be.
        memory.publish64(abi::WEFT_MATCH_EVENTS_PRODUCED_AT as usize, 12 + 5);
        assert!(events.take(&memory).is_none());
    }
}
