// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What matching interfaces of two ports say to each other: up to 8 words, and behind them payload.
//!
//! Each kind has as many words as it needs: with 64 bytes of payload a message is as long as the longest that a channel
//! carries in a cell and a line. A peer chooses all of it. The link attests which host the peer is; which of its
//! interfaces has spoken is what that host says. This file is independent of matching, and of how the bytes travel.

/// Words of an envelope at most, little endian.
pub const WORDS: usize = 8;
/// Bytes of the longest one behind its first word.
pub const BEHIND: usize = 8 * (WORDS - 1);

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
    /// A message without an offset, and all of its bytes.
    Eager(Message),
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
    /// The message is over, and all of its bytes are stored. So are all before it, of the same initiator for the target,
    /// that have come with all of their bytes, and of which nothing else was said.
    Stored,
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
        /// See [`Body::Eager`].
        Eager = 12,
        /// See [`Body::Stored`].
        Stored = 13,
    }
}

impl Kind {
    /// Returns how many words it has behind the first two.
    const fn words(self) -> usize {
        match self {
            Self::Put | Self::Get | Self::Atomic => 6,
            Self::Eager | Self::Pull => 4,
            Self::Granted => 3,
            Self::Done | Self::NoSpace | Self::Data => 2,
            Self::Taken | Self::Resume | Self::Gone | Self::Stored => 1,
        }
    }
}

/// An envelope as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    words: [u64; WORDS],
    count: usize,
}

impl Encoded {
    /// Returns the first word.
    pub const fn first(&self) -> u64 {
        self.words[0]
    }

    /// Returns the others.
    pub fn behind(&self) -> &[u64] {
        self.words.get(1..self.count).unwrap_or(&[])
    }
}

/// Of a message: it is the first of its flow.
const FIRST: u16 = 1 << 0;
/// It has an offset.
const AT_OFFSET: u16 = 1 << 1;
/// What was changed is wanted.
const FETCHES: u16 = 1 << 2;

const fn address(address: Address) -> u64 {
    ((address.endpoint as u64) << 16) | ((address.generation as u64) << 32)
}

const fn address_of(word: u64) -> Address {
    Address {
        endpoint: (word >> 16) as u16,
        generation: (word >> 32) as u32,
    }
}

/// Returns the flags of a message, and its words behind the cookie.
fn words_of(message: &Message, change: Option<&Change>) -> (u16, [u64; 5]) {
    let flag = |set, bit| if set { bit } else { 0 };
    let flags = flag(message.first, FIRST)
        | flag(message.offset.is_some(), AT_OFFSET)
        | flag(change.is_some_and(|change| change.fetches), FETCHES);
    let change = change.map_or(0, |change| {
        u64::from(change.operation) | (u64::from(change.integer) << 8)
    });
    let words = [
        message.bits,
        message.data,
        u64::from(message.sequence) | (change << 32),
        message.length,
        message.offset.unwrap_or(0),
    ];
    (flags, words)
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
    pub fn encode(&self) -> Encoded {
        let (mut status, mut flags, mut rest) = (0, 0, [0; 5]);
        let kind = match self.body {
            Body::Eager(message) => {
                (flags, rest) = words_of(&message, None);
                // As many as come with it.
                [rest[3], rest[4]] = [0; 2];
                Kind::Eager
            }
            Body::Put(message) => {
                (flags, rest) = words_of(&message, None);
                Kind::Put
            }
            Body::Get(message) => {
                (flags, rest) = words_of(&message, None);
                Kind::Get
            }
            Body::Atomic(message, change) => {
                (flags, rest) = words_of(&message, Some(&change));
                Kind::Atomic
            }
            Body::Granted { length, grant } => {
                [rest[0], rest[1]] = [length, grant];
                Kind::Granted
            }
            Body::Taken => Kind::Taken,
            Body::Done { status: of, length } => {
                status = of;
                rest[0] = length;
                Kind::Done
            }
            Body::Stored => Kind::Stored,
            Body::NoSpace { sequence } => {
                rest[0] = sequence.into();
                Kind::NoSpace
            }
            Body::Resume => Kind::Resume,
            Body::Gone => Kind::Gone,
            Body::Pull {
                offset,
                length,
                chunk,
            } => {
                [rest[0], rest[1], rest[2]] = [offset, length.into(), chunk];
                Kind::Pull
            }
            Body::Data { chunk, status: of } => {
                status = of;
                rest[0] = chunk;
                Kind::Data
            }
        };
        let [a, b, c, d, e] = rest;
        Encoded {
            words: [
                kind as u64 | (u64::from(status) << 8) | address(self.to),
                u64::from(flags) | address(self.from),
                self.cookie,
                a,
                b,
                c,
                d,
                e,
            ],
            count: 2 + kind.words(),
        }
    }

    /// Reads an envelope: its first word, and the beginning of the `whole` bytes that are behind that. Returns it, and how
    /// many of those bytes are its own. `None`: it is none, or has something set that is nothing of its kind.
    pub fn decode(first: u64, behind: &[u8], whole: usize) -> Option<(Self, usize)> {
        let kind = Kind::of(first as u8)?;
        let bytes = 8 * (1 + kind.words());
        if whole < bytes {
            return None;
        }
        let mut words = [0; WORDS - 1];
        let raw = behind.get(..bytes)?.chunks_exact(8);
        for (word, raw) in words.iter_mut().zip(raw) {
            *word = u64::from_le_bytes(raw.try_into().ok()?);
        }
        let [second, cookie, a, b, c, d, e] = words;
        let (status, flags) = ((first >> 8) as u8, second as u16);
        let message = Message {
            bits: a,
            length: match kind {
                Kind::Eager => (whole - bytes) as u64,
                _ => d,
            },
            offset: (flags & AT_OFFSET != 0).then_some(e),
            data: b,
            sequence: c as u32,
            first: flags & FIRST != 0,
        };
        let body = match kind {
            Kind::Eager => Body::Eager(message),
            Kind::Put => Body::Put(message),
            Kind::Get => Body::Get(message),
            Kind::Atomic => {
                let change = Change {
                    operation: (c >> 32) as u8,
                    integer: (c >> 40) as u8,
                    fetches: flags & FETCHES != 0,
                };
                Body::Atomic(message, change)
            }
            Kind::Granted => Body::Granted {
                length: a,
                grant: b,
            },
            Kind::Taken => Body::Taken,
            Kind::Done => Body::Done { status, length: a },
            Kind::Stored => Body::Stored,
            Kind::NoSpace => Body::NoSpace {
                sequence: u32::try_from(a).ok()?,
            },
            Kind::Resume => Body::Resume,
            Kind::Gone => Body::Gone,
            Kind::Pull => Body::Pull {
                offset: a,
                length: u32::try_from(b).ok()?,
                chunk: c,
            },
            Kind::Data => Body::Data { chunk: a, status },
        };
        let envelope = Self {
            to: address_of(first),
            from: address_of(second),
            cookie,
            body,
        };
        let is_whole = match kind {
            // The most frequent one, without being written once more.
            Kind::Eager => status == 0 && flags & !FIRST == 0 && c >> 32 == 0,
            _ => {
                let [again, rest @ ..] = envelope.encode().words;
                again == first && rest == words
            }
        };
        is_whole.then_some((envelope, bytes))
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

    const EAGER_ONE: Message = Message {
        length: 64,
        ..MESSAGE
    };

    const BODIES: [Body; 14] = [
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
        Body::Eager(EAGER_ONE),
        Body::Stored,
    ];

    fn read(words: &[u64], payload: usize) -> Option<(Envelope, usize)> {
        let (first, rest) = words.split_first()?;
        let mut behind: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).collect();
        behind.resize(behind.len() + payload, 0xee);
        // Mostly no more than the longest envelope is looked at.
        let seen = behind.len().min(BEHIND);
        Envelope::decode(*first, &behind[..seen], behind.len())
    }

    fn words(envelope: &Envelope) -> Vec<u64> {
        let encoded = envelope.encode();
        [&[encoded.first()], encoded.behind()].concat()
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        for body in BODIES {
            let envelope = with(body);
            let words = words(&envelope);
            let behind = 8 * (words.len() - 1);
            assert!(behind <= BEHIND);
            // The bytes of a message that come with it are how long it is.
            let payloads = match body {
                Body::Eager(_) => vec![64],
                _ => vec![0, 64, 4096],
            };
            for payload in payloads {
                assert_eq!(read(&words, payload), Some((envelope, behind)));
            }
            for fewer in 1..words.len() {
                assert_eq!(read(&words[..fewer], 0), None);
            }
        }
        // With 64 bytes of payload it is as long as a short message of a channel.
        assert_eq!(8 * (words(&with(BODIES[12])).len() - 1), 104 - 64);
    }

    #[test]
    fn layout() {
        assert_eq!(
            words(&with(BODIES[0])),
            [
                0x5678_9abc_1234_0001,
                0xffff_ffff_07ff_0001,
                0xfedc_ba98_7654_3210,
                u64::MAX,
                7,
                0xffff_ffff,
                1 << 40,
                0
            ]
        );
        let atomic = words(&with(BODIES[3]));
        assert_eq!(atomic[1], 0xffff_ffff_07ff_0006);
        assert_eq!(atomic[5], 0x0000_880e_ffff_ffff);
        assert_eq!(atomic[7], 0x1122_3344_5566_7788);
        assert_eq!(
            words(&with(BODIES[12])),
            [
                0x5678_9abc_1234_000c,
                0xffff_ffff_07ff_0001,
                0xfedc_ba98_7654_3210,
                u64::MAX,
                7,
                0xffff_ffff
            ]
        );
    }

    #[test]
    fn what_a_kind_does_not_have_is_refused() {
        for body in BODIES {
            let words = words(&with(body));
            for (n, bit) in (0..words.len()).flat_map(|n| (0..64).map(move |bit| (n, bit))) {
                let mut other = words.clone();
                other[n] ^= 1 << bit;
                if let Some((envelope, own)) = read(&other, 64) {
                    let said = self::words(&envelope);
                    // Of another kind it may have more words: what was payload.
                    let both = said.len().min(other.len());
                    assert_eq!(said[..both], other[..both]);
                    assert_eq!(own, 8 * (said.len() - 1));
                }
            }
        }
        let refused = |body: usize, word: usize, bit: u32| {
            let mut other = words(&with(BODIES[body]));
            other[word] |= 1 << bit;
            read(&other, 0).is_none()
        };
        // An offset that is none, and an operation of what is no atomic one.
        for (word, bit) in [(7, 0), (5, 32), (1, 2), (1, 3)] {
            assert!(refused(0, word, bit));
        }
        // An offset, an operation and a status of a message that comes with its bytes.
        for (word, bit) in [(1, 1), (1, 2), (5, 32), (0, 8)] {
            assert!(refused(12, word, bit));
        }
        // What was changed, of an operation that there cannot be.
        assert!(refused(3, 5, 48));
        assert_eq!(read(&[0; WORDS], 0), None);
    }
}
