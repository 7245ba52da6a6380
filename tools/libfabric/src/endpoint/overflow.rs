// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory for messages that come before a receive is posted for them: slabs, of which some receive, some are full of
//! messages that wait, and some are kept for later.

use super::area::Area;
use weft::matching::{Append, Command, Memory};

/// Bytes of a slab: sixteen of the longest messages that are sent at once.
pub const SLAB: usize = 64 << 10;
/// Slabs that receive, as far as there are as many.
const RECEIVING: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Receiving,
    Full,
    Kept,
}

/// The slabs of an endpoint.
#[derive(Debug)]
pub struct Overflow {
    slabs: Vec<(Area, State)>,
    most: usize,
}

impl Overflow {
    /// None yet; there are to be `most` bytes at the most.
    pub fn new(most: usize) -> Self {
        Overflow { slabs: Vec::new(), most: (most / SLAB).max(RECEIVING) }
    }

    fn count(&self, state: State) -> usize {
        self.slabs.iter().filter(|(_, s)| *s == state).count()
    }

    fn set(&mut self, index: usize, from: State, to: State) -> bool {
        match self.slabs.get_mut(index) {
            Some((_, state)) if *state == from => {
                *state = to;
                true
            }
            _ => false,
        }
    }

    /// A slab receives no more; false if it did not.
    pub fn unlinked(&mut self, index: usize) -> bool {
        self.set(index, State::Receiving, State::Full)
    }

    /// No message is in a slab any more that receives no more; false if that is not so.
    pub fn freed(&mut self, index: usize) -> bool {
        self.set(index, State::Full, State::Kept)
    }

    /// The next slab that is to receive, if there are not enough: its index.
    pub fn next(&mut self) -> Option<usize> {
        if self.count(State::Receiving) >= RECEIVING {
            return None;
        }
        let kept = self.slabs.iter().position(|(_, state)| *state == State::Kept);
        let index = match kept {
            Some(index) => index,
            None if self.slabs.len() < self.most => {
                self.slabs.push((Area::new(SLAB), State::Kept));
                self.slabs.len() - 1
            }
            None => return None,
        };
        self.set(index, State::Kept, State::Receiving).then_some(index)
    }

    /// The command that has a slab receive.
    pub fn command(&self, index: usize, context: u64) -> Command {
        let memory = match self.slabs.get(index) {
            // SAFETY: Slabs are freed with the endpoint, whose interface is closed before.
            Some((area, _)) => unsafe { area.memory() },
            None => Memory::NONE,
        };
        Command::append(&Append::overflow(memory, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_receive_as_are_to() {
        let mut overflow = Overflow::new(6 * SLAB);
        for n in 0..RECEIVING {
            assert_eq!(overflow.next(), Some(n));
        }
        assert_eq!(overflow.next(), None);
        assert!(!overflow.freed(1), "it receives");
        assert!(overflow.unlinked(1) && !overflow.unlinked(1));
        assert_eq!((overflow.next(), overflow.next()), (Some(4), None));
        assert!(overflow.unlinked(0) && overflow.unlinked(2) && overflow.unlinked(3));
        // There is memory for one more.
        assert_eq!((overflow.next(), overflow.next()), (Some(5), None));
        assert!(overflow.freed(2) && !overflow.freed(2));
        assert_eq!((overflow.next(), overflow.next()), (Some(2), None));
        assert!(!overflow.unlinked(6) && !overflow.freed(6));
    }

    #[test]
    fn there_is_some_in_any_case() {
        let mut overflow = Overflow::new(0);
        assert_eq!((0..9).filter_map(|_| overflow.next()).count(), RECEIVING);
    }
}
