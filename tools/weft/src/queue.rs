// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues of requests: what this end writes and the driver takes.

use crate::abi;
use crate::mapping::Ring;
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

    /// Bytes of an entry.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Writes an entry and says that it is there; false if there is no room.
    pub fn post(&mut self, entry: &[u8]) -> bool {
        if self.posted.wrapping_sub(self.taken) >= self.entries {
            let taken = self.memory.load64(self.at + offset_of!(abi::weft_queue_ctl, taken));
            // What makes no sense is not believed.
            if taken <= self.posted {
                self.taken = self.taken.max(taken);
            }
            if self.posted - self.taken >= self.entries {
                return false;
            }
        }
        let index = (self.posted % self.entries) as usize;
        self.memory.write(self.at + ENTRIES_AT + index * self.stride, entry);
        self.posted += 1;
        self.memory.publish64(self.at + offset_of!(abi::weft_queue_ctl, posted), self.posted);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_holds_its_entries_and_no_more() {
        let memory = Arc::new(Ring::anonymous(4096).expect("mapped"));
        let mut queue = Queue::new(memory.clone(), 256, 16, 32);
        for n in 0..16u8 {
            assert!(queue.post(&[n + 1; 32]));
        }
        assert!(!queue.post(&[99; 32]));
        assert_eq!(memory.load64(256), 16);
        memory.publish64(256 + 64, 3);
        for n in 16..19u8 {
            assert!(queue.post(&[n + 1; 32]));
        }
        assert!(!queue.post(&[99; 32]));
        let mut entry = [0; 32];
        memory.read(256 + ENTRIES_AT + 2 * 32, &mut entry);
        assert_eq!(entry, [19; 32]);
        memory.read(256 + ENTRIES_AT + 3 * 32, &mut entry);
        assert_eq!(entry, [4; 32]);
        // More than was posted cannot have been taken.
        memory.publish64(256 + 64, 20);
        assert!(!queue.post(&[99; 32]));
    }
}
