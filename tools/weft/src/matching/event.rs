// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an event of a matching interface says: `struct weft_match_event`.

use super::rings::WORDS;
use crate::abi;

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// What became of a command.
    Command,
    /// A message is in a buffer.
    Received,
    /// A message that was sent, or an access, is over: its memory can be used.
    Sent,
    /// Overflow memory receives no more.
    Unlinked,
    /// And no message is in it any more.
    Freed,
    /// Bytes of a region were got.
    Got,
    /// Integers in a region were changed.
    Changed,
    /// A kind that this library does not know.
    Other(u8),
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it says.
    pub kind: EventKind,
    /// The buffer receives no more.
    pub unlinked: bool,
    /// The buffer was too short.
    pub truncated: bool,
    /// 0, or an errno.
    pub status: u32,
    /// Of the command, of the buffer, or of the message.
    pub context: u64,
    /// Where the bytes are.
    pub address: u64,
    /// Bytes of the message.
    pub length: u64,
    /// How many of them are there.
    pub stored: u64,
    /// Match bits of the message.
    pub bits: u64,
    /// What its source has told besides; of an unlinked buffer, how many messages and gets are not over.
    pub data: u64,
    /// Hardware id and number of the interface that it is from.
    pub source: (u64, u16),
}

impl Event {
    pub(super) fn decode(words: &[u64; WORDS]) -> Self {
        let [first, context, address, length, stored, bits, data, hwid] = *words;
        let bytes = first.to_ne_bytes();
        let flags = u32::from(bytes[1]);
        let [_, _, e0, e1, s0, s1, s2, s3] = bytes;
        Event {
            kind: match u32::from(bytes[0]) {
                abi::WEFT_MATCH_COMMAND => EventKind::Command,
                abi::WEFT_MATCH_RECEIVED => EventKind::Received,
                abi::WEFT_MATCH_SENT => EventKind::Sent,
                abi::WEFT_MATCH_UNLINKED => EventKind::Unlinked,
                abi::WEFT_MATCH_FREED => EventKind::Freed,
                abi::WEFT_MATCH_GOT => EventKind::Got,
                abi::WEFT_MATCH_CHANGED => EventKind::Changed,
                _ => EventKind::Other(bytes[0]),
            },
            unlinked: flags & abi::WEFT_MATCH_BUFFER_UNLINKED != 0,
            truncated: flags & abi::WEFT_MATCH_TRUNCATED != 0,
            status: u32::from_ne_bytes([s0, s1, s2, s3]),
            context,
            address,
            length,
            stored,
            bits,
            data,
            source: (hwid, u16::from_ne_bytes([e0, e1])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::slot::{self, Kind};

    #[test]
    fn events_are_what_the_driver_writes() {
        let kinds = [
            (Kind::Command, EventKind::Command),
            (Kind::Received, EventKind::Received),
            (Kind::Sent, EventKind::Sent),
            (Kind::Unlinked, EventKind::Unlinked),
            (Kind::Freed, EventKind::Freed),
            (Kind::Got, EventKind::Got),
            (Kind::Changed, EventKind::Changed),
        ];
        for (kind, told) in kinds {
            let event = slot::Event {
                flags: slot::EVENT_TRUNCATED,
                endpoint: 0x1234,
                address: 2,
                length: 3,
                stored: 4,
                bits: 5,
                data: 6,
                hwid: 7,
                ..slot::Event::of(kind, 1, 113)
            };
            let want = Event {
                kind: told,
                unlinked: false,
                truncated: true,
                status: 113,
                context: 1,
                address: 2,
                length: 3,
                stored: 4,
                bits: 5,
                data: 6,
                source: (7, 0x1234),
            };
            assert_eq!(Event::decode(&event.encode()), want);
        }
        let unlinked =
            slot::Event { flags: slot::EVENT_UNLINKED, ..slot::Event::of(Kind::Sent, 1, 0) };
        let event = Event::decode(&unlinked.encode());
        assert!(event.unlinked && !event.truncated);
        assert_eq!(Event::decode(&[99; WORDS]).kind, EventKind::Other(99));
    }
}
