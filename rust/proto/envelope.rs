// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What matching interfaces of two ports say to each other: 64 bytes, and behind them payload.
//!
//! A peer chooses all of it. The link attests which host the peer is; which of its interfaces has spoken is what
//! that host says. This file is independent of matching, and of how the bytes travel.

/// Bytes of an envelope.
pub const BYTES: usize = 64;
/// Words of an envelope, little endian.
pub const WORDS: usize = BYTES / 8;

/// An interface of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its number.
    pub endpoint: u16,
    /// Tells it apart from those that have had the number before; 0: whichever has it.
    pub generation: u32,
}

/// What an initiator wants of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The match bits.
    pub bits: u64,
    /// The length in bytes.
    pub length: u64,
    /// Where in the buffer; `None`: wherever the next message goes.
    pub offset: Option<u64>,
    /// What the initiator tells the target besides.
    pub data: u64,
    /// Its number among those of the initiator for the target.
    pub sequence: u32,
    /// The initiator has none before it that is not acknowledged.
    pub first: bool,
}

/// How integers are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the operation.
    pub operation: u8,
    /// That of the type of the integers.
    pub integer: u8,
    /// The initiator gets what they were.
    pub fetches: bool,
}

/// The body of an envelope: its kind, and what only that kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message; its eager bytes follow, all of it if they are as many as it has.
    Put(Message),
    /// The initiator wants bytes of a buffer.
    Get(Message),
    /// It changes integers in a buffer; the operands follow.
    Atomic(Message, Change),
    /// The buffer of a get was found, or integers are changed and were wanted. The first bytes follow: those of an answer
    /// to [`Body::Pull`], or all.
    Granted {
        /// How many there are.
        length: u64,
        /// By which the target knows the get, in what is asked for and in the end of it; 0: they are all there.
        grant: u64,
    },
    /// The target has taken the message, and its rest is to come, or to be asked for.
    Taken,
    /// The message is over.
    Done {
        /// 0, or an errno.
        status: u8,
        /// Bytes of it that the target has stored.
        length: u64,
    },
    /// The target has no space for the message with this number, and takes none behind it.
    NoSpace {
        /// The number.
        sequence: u32,
    },
    /// The target may have space.
    Resume,
    /// The interface is closed, whatever was under way with it. For all interfaces of a host.
    Gone,
    /// The target wants bytes of the message.
    Pull {
        /// Where they begin.
        offset: u64,
        /// How many.
        length: u32,
        /// By which it knows them.
        chunk: u64,
    },
    /// They follow.
    Data {
        /// By which the target knows them.
        chunk: u64,
        /// 0, or an errno: there are none.
        status: u8,
    },
}

/// An envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// For which interface it is.
    pub to: Address,
    /// Which interface it is from.
    pub from: Address,
    /// By which the initiator of a message knows it.
    pub cookie: u64,
    /// What it says.
    pub body: Body,
}

numbered! {
    /// Kinds of envelopes.
    pub enum Kind: u8 {
        /// See [`Body::Put`].
        Put = 1,
        /// See [`Body::Taken`].
        Taken = 2,
        /// See [`Body::Done`].
        Done = 3,
        /// See [`Body::NoSpace`].
        NoSpace = 4,
        /// See [`Body::Resume`].
        Resume = 5,
        /// See [`Body::Pull`].
        Pull = 6,
        /// See [`Body::Data`].
        Data = 7,
        /// See [`Body::Get`].
        Get = 8,
        /// See [`Body::Atomic`].
        Atomic = 9,
        /// See [`Body::Granted`].
        Granted = 10,
        /// See [`Body::Gone`].
        Gone = 11,
    }
}

/// What the words of all kinds carry.
#[derive(Default)]
struct Plain {
    status: u8,
    flags: u16,
    bits: u64,
    length: u64,
    data: u64,
    sequence: u32,
    change: u16,
    offset: u64,
}

/// Of a message: it is the first of its flow.
const FIRST: u16 = 1 << 0;
/// It has an offset.
const AT_OFFSET: u16 = 1 << 1;
/// What was changed is wanted.
const FETCHES: u16 = 1 << 2;

impl Plain {
    fn of(message: &Message) -> Self {
        let flag = |set, bit| if set { bit } else { 0 };
        Self {
            flags: flag(message.first, FIRST) | flag(message.offset.is_some(), AT_OFFSET),
            bits: message.bits,
            length: message.length,
            data: message.data,
            sequence: message.sequence,
            offset: message.offset.unwrap_or(0),
            ..Self::default()
        }
    }

    fn of_atomic(message: &Message, change: &Change) -> Self {
        let plain = Self::of(message);
        let fetches = if change.fetches { FETCHES } else { 0 };
        Self {
            flags: plain.flags | fetches,
            change: u16::from(change.operation) | (u16::from(change.integer) << 8),
            ..plain
        }
    }

    fn message(&self) -> Message {
        Message {
            bits: self.bits,
            length: self.length,
            offset: (self.flags & AT_OFFSET != 0).then_some(self.offset),
            data: self.data,
            sequence: self.sequence,
            first: self.flags & FIRST != 0,
        }
    }

    fn change(&self) -> Change {
        Change {
            operation: self.change as u8,
            integer: (self.change >> 8) as u8,
            fetches: self.flags & FETCHES != 0,
        }
    }
}

impl Envelope {
    /// Returns what is said to one that asks for bytes, or has some, of what is not known here.
    pub fn unknown(&self, status: u8) -> Self {
        let (cookie, body) = match self.body {
            Body::Pull { chunk, .. } => (self.cookie, Body::Data { chunk, status }),
            Body::Granted { grant, .. } => (grant, Body::Done { status, length: 0 }),
            _ => (self.cookie, Body::Done { status, length: 0 }),
        };
        Self {
            to: self.from,
            from: self.to,
            cookie,
            body,
        }
    }

    /// Returns the words.
    pub fn encode(&self) -> [u64; WORDS] {
        let (kind, plain) = match self.body {
            Body::Put(message) => (Kind::Put, Plain::of(&message)),
            Body::Get(message) => (Kind::Get, Plain::of(&message)),
            Body::Atomic(message, change) => (Kind::Atomic, Plain::of_atomic(&message, &change)),
            Body::Granted { length, grant } => (
                Kind::Granted,
                Plain {
                    length,
                    data: grant,
                    ..Plain::default()
                },
            ),
            Body::Taken => (Kind::Taken, Plain::default()),
            Body::Done { status, length } => (
                Kind::Done,
                Plain {
                    status,
                    length,
                    ..Plain::default()
                },
            ),
            Body::NoSpace { sequence } => (
                Kind::NoSpace,
                Plain {
                    sequence,
                    ..Plain::default()
                },
            ),
            Body::Resume => (Kind::Resume, Plain::default()),
            Body::Gone => (Kind::Gone, Plain::default()),
            Body::Pull {
                offset,
                length,
                chunk,
            } => (
                Kind::Pull,
                Plain {
                    bits: offset,
                    length: length.into(),
                    data: chunk,
                    ..Plain::default()
                },
            ),
            Body::Data { chunk, status } => (
                Kind::Data,
                Plain {
                    status,
                    data: chunk,
                    ..Plain::default()
                },
            ),
        };
        let address = |address: Address| {
            (u64::from(address.endpoint) << 16) | (u64::from(address.generation) << 32)
        };
        [
            kind as u64 | (u64::from(plain.status) << 8) | address(self.to),
            u64::from(plain.flags) | address(self.from),
            self.cookie,
            plain.bits,
            plain.length,
            plain.data,
            u64::from(plain.sequence) | (u64::from(plain.change) << 32),
            plain.offset,
        ]
    }

    /// Reads the words. `None`: they are no envelope, or have something set that is nothing of its kind.
    pub fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let [first, second, cookie, bits, length, data, last, offset] = *words;
        let address = |word: u64| Address {
            endpoint: (word >> 16) as u16,
            generation: (word >> 32) as u32,
        };
        let (status, sequence) = ((first >> 8) as u8, last as u32);
        let plain = Plain {
            status,
            flags: second as u16,
            bits,
            length,
            data,
            sequence,
            change: (last >> 32) as u16,
            offset,
        };
        let body = match Kind::of(first as u8)? {
            Kind::Put => Body::Put(plain.message()),
            Kind::Get => Body::Get(plain.message()),
            Kind::Atomic => Body::Atomic(plain.message(), plain.change()),
            Kind::Granted => Body::Granted {
                length,
                grant: data,
            },
            Kind::Taken => Body::Taken,
            Kind::Done => Body::Done { status, length },
            Kind::NoSpace => Body::NoSpace { sequence },
            Kind::Resume => Body::Resume,
            Kind::Gone => Body::Gone,
            Kind::Pull => Body::Pull {
                offset: bits,
                length: u32::try_from(length).ok()?,
                chunk: data,
            },
            Kind::Data => Body::Data {
                chunk: data,
                status,
            },
        };
        let envelope = Self {
            to: address(first),
            from: address(second),
            cookie,
            body,
        };
        (envelope.encode() == *words).then_some(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(body: Body) -> Envelope {
        Envelope {
            to: Address {
                endpoint: 0x1234,
                generation: 0x5678_9abc,
            },
            from: Address {
                endpoint: 2047,
                generation: u32::MAX,
            },
            cookie: 0xfedc_ba98_7654_3210,
            body,
        }
    }

    const MESSAGE: Message = Message {
        bits: u64::MAX,
        length: 1 << 40,
        offset: None,
        data: 7,
        sequence: u32::MAX,
        first: true,
    };

    const AT: Message = Message {
        offset: Some(0x1122_3344_5566_7788),
        first: false,
        ..MESSAGE
    };

    const CHANGE: Change = Change {
        operation: 14,
        integer: 0x88,
        fetches: true,
    };

    const BODIES: [Body; 12] = [
        Body::Put(MESSAGE),
        Body::Put(AT),
        Body::Get(AT),
        Body::Atomic(AT, CHANGE),
        Body::Granted {
            length: 1 << 41,
            grant: 1 << 63,
        },
        Body::Taken,
        Body::Done {
            status: 104,
            length: 9,
        },
        Body::NoSpace { sequence: 3 },
        Body::Resume,
        Body::Gone,
        Body::Pull {
            offset: 1 << 33,
            length: u32::MAX,
            chunk: 5,
        },
        Body::Data {
            chunk: u64::MAX,
            status: 14,
        },
    ];

    #[test]
    fn what_is_said_is_what_is_heard() {
        for body in BODIES {
            let envelope = with(body);
            assert_eq!(Envelope::decode(&envelope.encode()), Some(envelope));
        }
    }

    #[test]
    fn layout() {
        assert_eq!(
            with(BODIES[0]).encode(),
            [
                0x5678_9abc_1234_0001,
                0xffff_ffff_07ff_0001,
                0xfedc_ba98_7654_3210,
                u64::MAX,
                1 << 40,
                7,
                0xffff_ffff,
                0
            ]
        );
        let words = with(BODIES[3]).encode();
        assert_eq!(words[1], 0xffff_ffff_07ff_0006);
        assert_eq!(words[6], 0x0000_880e_ffff_ffff);
        assert_eq!(words[7], 0x1122_3344_5566_7788);
    }

    #[test]
    fn what_a_kind_does_not_have_is_refused() {
        for body in BODIES {
            let words = with(body).encode();
            for (n, bit) in (0..WORDS).flat_map(|n| (0..64).map(move |bit| (n, bit))) {
                let mut other = words;
                other[n] ^= 1 << bit;
                if let Some(envelope) = Envelope::decode(&other) {
                    assert_eq!(envelope.encode(), other);
                }
            }
            let mut other = words;
            other[6] |= 1 << 48;
            assert_eq!(Envelope::decode(&other), None);
        }
        // An offset that is none, and an operation of what is no atomic one.
        for (word, bit) in [(7, 0), (6, 32), (1, 2), (1, 3)] {
            let mut other = with(BODIES[0]).encode();
            other[word] |= 1 << bit;
            assert_eq!(Envelope::decode(&other), None);
        }
        assert_eq!(Envelope::decode(&[0; WORDS]), None);
    }
}
