// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues of requests: what this end writes and the driver takes.

use crate::abi;
use crate::error::Result;
use crate::mapping::{Places, Ring};
use std::mem::offset_of;
use std::sync::Arc;

const ENTRIES_AT: usize = abi::WEFT_QUEUE_ENTRIES_AT as usize;

/// A send, receive or shared receive queue, as this end writes it.
#[derive(Debug)]
pub struct Queue {
    memory: Arc<Ring>,
    /// Where its control words are.
    at: usize,
    entries: u64,
    stride: usize,
    posted: u64,
    /// As far as the driver was known to have taken them.
    taken: u64,
}

impl Queue {
    pub fn new(memory: Arc<Ring>, at: u32, entries: u32, stride: u32) -> Self {
        let (at, stride) = (at as usize, stride as usize);
        Queue { memory, at, entries: entries.into(), stride, posted: 0, taken: 0 }
    }

    /// Has `encode` write the words of an entry, of so many bytes, and says that it is there; false if
    /// there is no room.
    #[inline]
    pub fn post(&mut self, encode: impl FnOnce(usize, Places<'_>) -> Result<()>) -> Result<bool> {
        if self.posted.wrapping_sub(self.taken) >= self.entries {
            let taken = self.memory.load64(self.at + offset_of!(abi::weft_queue_ctl, taken));
            // What makes no sense is not believed.
            if taken <= self.posted {
                self.taken = self.taken.max(taken);
            }
            if self.posted - self.taken >= self.entries {
                return Ok(false);
            }
        }
        // A power of two: the driver makes no other.
        let index = (self.posted & (self.entries - 1)) as usize;
        let at = self.at + ENTRIES_AT + index * self.stride;
        encode(self.stride, self.memory.places(at, self.stride / size_of::<u64>()))?;
        self.posted += 1;
        self.memory.publish64(self.at + offset_of!(abi::weft_queue_ctl, posted), self.posted);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;

    #[test]
    fn a_queue_holds_its_entries_and_no_more() {
        let memory = Arc::new(Ring::anonymous(4096).expect("mapped"));
        let mut queue = Queue::new(memory.clone(), 256, 16, 32);
        let mut post = |byte: u8| {
            let entry = |room: usize, mut places: Places<'_>| {
                places.put_bytes(0, &vec![byte; room]);
                Ok(())
            };
            queue.post(entry).expect("nothing fails")
        };
        for n in 0..16 {
            assert!(post(n + 1));
        }
        assert!(!post(99));
        assert_eq!(memory.load64(256), 16);
        memory.publish64(256 + 64, 3);
        for n in 16..19 {
            assert!(post(n + 1));
        }
        assert!(!post(99));
        let mut entry = [0; 32];
        memory.read(256 + ENTRIES_AT + 2 * 32, &mut entry);
        assert_eq!(entry, [19; 32]);
        memory.read(256 + ENTRIES_AT + 3 * 32, &mut entry);
        assert_eq!(entry, [4; 32]);
        // More than was posted cannot have been taken.
        memory.publish64(256 + 64, 20);
        assert!(!post(99));
    }
}
