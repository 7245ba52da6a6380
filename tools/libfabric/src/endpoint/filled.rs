// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How far a buffer that many messages are for is filled.
//!
//! Messages lie behind each other, but end in any order: one that is pulled may end after the last one. The program
//! has the buffer back when all of them have ended.

/// What has become of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    at: u64,
    length: u64,
    /// Bytes of messages that have ended,
    ended: u64,
    /// and of all messages, when the buffer receives no more.
    all: Option<u64>,
    /// It was taken back, with so many messages outstanding.
    outstanding: Option<u64>,
}

impl Filled {
    pub fn new(at: u64, length: u64) -> Self {
        Filled { at, length, ended: 0, all: None, outstanding: None }
    }

    /// A message of `length` bytes at an address has ended; `last`: it is the one behind which no other is. Returns
    /// whether the buffer is the program's again.
    pub fn ended(&mut self, address: u64, length: u64, last: bool) -> bool {
        let offset = address.wrapping_sub(self.at).min(self.length);
        let space = length.min(self.length - offset);
        self.ended += space;
        if last {
            self.all = Some(offset + space);
        }
        self.outstanding = self.outstanding.map(|n| n.saturating_sub(1));
        self.is_over()
    }

    /// The buffer was taken back, with so many messages outstanding. Returns whether it is the program's again.
    pub fn taken_back(&mut self, outstanding: u64) -> bool {
        self.outstanding = Some(outstanding);
        self.is_over()
    }

    /// It was taken back, not filled.
    pub fn was_taken_back(&self) -> bool {
        self.outstanding.is_some()
    }

    fn is_over(&self) -> bool {
        self.outstanding == Some(0) || self.all == Some(self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order() {
        let mut filled = Filled::new(1000, 100);
        assert!(!filled.ended(1000, 30, false));
        assert!(!filled.ended(1030, 0, false));
        assert!(filled.ended(1030, 40, true));
        assert!(!filled.was_taken_back());
    }

    #[test]
    fn one_that_is_pulled_ends_late() {
        let mut filled = Filled::new(1000, 100);
        assert!(!filled.ended(1060, 20, false));
        // The last one is too long, and ends before the first.
        assert!(!filled.ended(1080, 50, true));
        assert!(filled.ended(1000, 60, false));
    }

    #[test]
    fn taken_back_with_messages_outstanding() {
        let mut filled = Filled::new(1000, 100);
        assert!(!filled.ended(1000, 10, false));
        assert!(!filled.taken_back(2));
        assert!(!filled.ended(1010, 10, false));
        assert!(filled.ended(1020, 0, false) && filled.was_taken_back());
        assert!(Filled::new(0, 1).taken_back(0));
    }

    #[test]
    fn nonsense_is_no_overflow() {
        let mut filled = Filled::new(1000, 100);
        assert!(!filled.ended(5, u64::MAX, false));
        assert!(!filled.ended(1000, u64::MAX, false));
        assert!(filled.ended(1100, 7, true));
    }
}
