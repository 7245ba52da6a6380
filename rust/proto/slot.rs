// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A slot of a command ring of a matching interface, and an event: `struct weft_match_command` and
//! `struct weft_match_event` of `include/uapi/linux/weft.h`, as words.
//!
//! A program can write a slot at any time: it is copied once, and decoded here. This file is independent of what the
//! commands do.

/// Bytes of a slot, and of an event.
pub const BYTES: usize = 64;
/// Words of either.
pub const WORDS: usize = BYTES / 8;

/// Returns the bytes of a message that are in a slot, in memory order.
pub fn bytes_of(words: &[u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

numbered! {
    /// What a program asks for.
    pub enum Op: u8 {
        /// Appends a buffer.
        Append = 1,
        /// Searches the unexpected list.
        Search = 2,
        /// Takes out what is found there, for a receive to come.
        Claim = 3,
        /// Takes out what is found there, and drops it.
        Discard = 4,
        /// Receives what was claimed.
        Receive = 5,
        /// Takes a buffer out of its list.
        Unlink = 6,
        /// Begins to match.
        Enable = 7,
        /// Ends to match.
        Disable = 8,
        /// Has the lists handed over to the program.
        HandOver = 9,
        /// Says how long the lists of the program are.
        Report = 10,
        /// Gives back a header that was handed over.
        AppendHeader = 11,
        /// Gets the bytes of a message whose header was handed over.
        Pull = 12,
        /// Sends a message. From here on in the ring of the initiator, and alone there.
        Put = 16,
        /// Gets bytes of a buffer.
        Get = 17,
        /// Changes integers in a buffer.
        Atomic = 18,
        /// Changes integers, and gets what they were.
        Fetch = 19,
    }
}

/// The buffer stays in its list when a message has matched.
pub const PERSISTENT: u16 = 1 << 0;
/// Messages lie behind each other in the buffer.
pub const MANAGE_LOCAL: u16 = 1 << 1;
/// Any source will do.
pub const ANY_SOURCE: u16 = 1 << 2;
/// Success posts no event of the command.
pub const QUIET: u16 = 1 << 3;
/// The bytes of the message are in the next slot.
pub const INLINE: u16 = 1 << 4;
/// The buffer is in the overflow list, not in the priority list.
pub const OVERFLOW: u16 = 1 << 5;
/// A match posts no event.
pub const SILENT: u16 = 1 << 6;
/// The message is for an offset of the buffer: the next slot says which.
pub const AT_OFFSET: u16 = 1 << 7;
/// Gets may read the buffer.
pub const READABLE: u16 = 1 << 8;
/// Messages and atomic operations may not change the buffer.
pub const READ_ONLY: u16 = 1 << 9;
/// What changes nothing is done again if its session is lost.
pub const RETRY: u16 = 1 << 10;
/// The buffer is memory for messages that the program matches by itself.
pub const REQUESTS: u16 = 1 << 11;

const FLAGS: u16 = (REQUESTS << 1) - 1;

/// A command, of which only the layout was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What is asked for.
    pub op: Op,
    /// Flags, of those above.
    pub flags: u16,
    /// Of a buffer: with less room than this it is unlinked.
    pub min_free: u32,
    /// By which the program knows it.
    pub context: u64,
    /// The address of the buffer, or of the message.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The match bits.
    pub bits: u64,
    /// The match bits that do not matter; of a message, what the target is told besides.
    pub ignore: u64,
    /// The host of the source, or of the target.
    pub hwid: u64,
    /// The interface there.
    pub endpoint: u16,
    /// Its generation.
    pub generation: u32,
}

impl Slot {
    /// Reads the words. `None`: there is no such command, or something that is reserved is not 0.
    pub fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let [first, context, address, length, bits, ignore, hwid, last] = *words;
        let slot = Self {
            op: Op::of(first as u8)?,
            flags: (first >> 16) as u16,
            min_free: (first >> 32) as u32,
            context,
            address,
            length,
            bits,
            ignore,
            hwid,
            endpoint: last as u16,
            generation: (last >> 32) as u32,
        };
        let reserved = (first >> 8) as u8 != 0 || (last >> 16) as u16 != 0;
        (!reserved && slot.flags & !FLAGS == 0).then_some(slot)
    }

    /// Returns whether a flag is set.
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether it is for the ring of the initiator.
    pub const fn is_of_initiator(&self) -> bool {
        matches!(self.op, Op::Put | Op::Get | Op::Atomic | Op::Fetch)
    }

    /// Returns whether the next slot has [`More`].
    pub const fn has_more(&self) -> bool {
        match self.op {
            Op::Put => self.has(AT_OFFSET),
            _ => self.is_of_initiator(),
        }
    }
}

/// What a command of the initiator has besides: `struct weft_match_more`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct More {
    /// Where in the buffer of the target.
    pub offset: u64,
    /// Where former values go.
    pub result: u64,
    /// Where values to compare with are.
    pub compare: u64,
    /// The number of an operation.
    pub operation: u8,
    /// That of a type of integers.
    pub integer: u8,
}

impl More {
    /// Reads the words. `None`: something that is reserved is not 0.
    pub fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let [offset, result, compare, change, reserved @ ..] = *words;
        let more = Self {
            offset,
            result,
            compare,
            operation: change as u8,
            integer: (change >> 8) as u8,
        };
        (change >> 16 == 0 && reserved == [0; 4]).then_some(more)
    }
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// What became of a command.
    Command = 1,
    /// A message is in a buffer.
    Received = 2,
    /// A message that was sent is over.
    Sent = 3,
    /// Overflow memory is in its list no more.
    Unlinked = 4,
    /// No header names overflow memory any more, that was unlinked.
    Freed = 5,
    /// Bytes of a buffer were got.
    Got = 6,
    /// Integers in a buffer were changed.
    Changed = 7,
    /// A buffer is handed over.
    Buffer = 8,
    /// A message that the program has to match.
    Header = 9,
    /// Which lists messages are matched with, from here on.
    State = 10,
}

/// The buffer is in its list no more.
pub const EVENT_UNLINKED: u8 = 1 << 0;
/// The buffer was too short.
pub const EVENT_TRUNCATED: u8 = 1 << 1;
/// The header was claimed, with that context.
pub const EVENT_CLAIMED: u8 = 1 << 2;

/// Of [`Kind::State`]: none, as the interface is disabled.
pub const STATE_DISABLED: u64 = 0;
/// Those of the interface are being handed over.
pub const STATE_ONLOAD: u64 = 1;
/// Those of the program.
pub const STATE_SOFTWARE: u64 = 2;
/// The program can give its lists back.
pub const STATE_RETURNING: u64 = 3;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it says.
    pub kind: Kind,
    /// Flags, of those above.
    pub flags: u8,
    /// The interface at the other end.
    pub endpoint: u16,
    /// 0, or an errno.
    pub status: u32,
    /// By which the program knows the buffer, or the command.
    pub context: u64,
    /// Where the bytes are.
    pub address: u64,
    /// How many the message has.
    pub length: u64,
    /// How many of them there are.
    pub stored: u64,
    /// The match bits.
    pub bits: u64,
    /// What the initiator has told besides.
    pub data: u64,
    /// The host at the other end.
    pub hwid: u64,
}

impl Event {
    /// Makes an event that says only this.
    pub const fn of(kind: Kind, context: u64, status: u32) -> Self {
        Self {
            kind,
            flags: 0,
            endpoint: 0,
            status,
            context,
            address: 0,
            length: 0,
            stored: 0,
            bits: 0,
            data: 0,
            hwid: 0,
        }
    }

    /// Returns the words.
    pub fn encode(&self) -> [u64; WORDS] {
        [
            self.kind as u64
                | (u64::from(self.flags) << 8)
                | (u64::from(self.endpoint) << 16)
                | (u64::from(self.status) << 32),
            self.context,
            self.address,
            self.length,
            self.stored,
            self.bits,
            self.data,
            self.hwid,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_as_the_interface_says() {
        let words = [
            0x0000_0009_0003_0001,
            1,
            2,
            3,
            4,
            5,
            6,
            0x0000_0007_0000_0008,
        ];
        let slot = Slot::decode(&words);
        let want = Slot {
            op: Op::Append,
            flags: PERSISTENT | MANAGE_LOCAL,
            min_free: 9,
            context: 1,
            address: 2,
            length: 3,
            bits: 4,
            ignore: 5,
            hwid: 6,
            endpoint: 8,
            generation: 7,
        };
        assert_eq!(slot, Some(want));
        assert!(want.has(PERSISTENT) && !want.has(QUIET));
    }

    #[test]
    fn what_is_reserved_is_refused() {
        assert!(Slot::decode(&[1, 0, 0, 0, 0, 0, 0, 0]).is_some());
        // An operation that there is not, the reserved byte, an unknown flag, the reserved half word.
        for (word, bit) in [(0, 6), (0, 8), (0, 31), (7, 16)] {
            let mut words = [1, 0, 0, 0, 0, 0, 0, 0];
            words[word] |= 1 << bit;
            assert_eq!(Slot::decode(&words), None);
        }
        assert_eq!(Slot::decode(&[0; WORDS]), None);
    }

    #[test]
    fn more_is_as_the_interface_says() {
        let words = [1, 2, 3, 0x880e, 0, 0, 0, 0];
        let want = More {
            offset: 1,
            result: 2,
            compare: 3,
            operation: 14,
            integer: 0x88,
        };
        assert_eq!(More::decode(&words), Some(want));
        for (word, bit) in [(3, 16), (3, 63), (4, 0), (5, 1), (6, 2), (7, 63)] {
            let mut other = words;
            other[word] |= 1 << bit;
            assert_eq!(More::decode(&other), None);
        }
    }

    #[test]
    fn what_stands_behind_a_slot() {
        let slot = |op: u64, flags: u64| Slot::decode(&[op | (flags << 16), 0, 0, 0, 0, 0, 0, 0]);
        let more = |op, flags| slot(op, flags).map(|slot| slot.has_more());
        assert_eq!(more(16, 0), Some(false));
        assert_eq!(more(16, AT_OFFSET.into()), Some(true));
        for op in 17..20 {
            assert_eq!(more(op, 0), Some(true));
        }
        assert_eq!(more(1, AT_OFFSET.into()), Some(false));
        assert_eq!(slot(8, 0).map(|slot| slot.is_of_initiator()), Some(false));
    }

    #[test]
    fn an_event_is_as_the_interface_says() {
        let event = Event {
            flags: EVENT_TRUNCATED,
            endpoint: 0x1234,
            address: 2,
            length: 3,
            stored: 4,
            bits: 5,
            data: 6,
            hwid: 7,
            ..Event::of(Kind::Received, 1, 14)
        };
        let words = [0x0000_000e_1234_0202, 1, 2, 3, 4, 5, 6, 7];
        assert_eq!(event.encode(), words);
    }
}
