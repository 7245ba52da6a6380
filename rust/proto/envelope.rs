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

/// The body of an envelope: its kind, and what only that kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message; its eager bytes follow, all of it if they are as many as it has.
    Put {
        /// Its match bits.
        bits: u64,
        /// Its length in bytes.
        length: u64,
        /// What the initiator tells the target besides.
        data: u64,
        /// Its number among those of the initiator for the target.
        sequence: u32,
        /// The initiator has none before it that is not acknowledged.
        first: bool,
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
}

impl Envelope {
    /// Returns the words.
    pub fn encode(&self) -> [u64; WORDS] {
        let (kind, plain) = match self.body {
            Body::Put {
                bits,
                length,
                data,
                sequence,
                first,
            } => (
                Kind::Put,
                Plain {
                    flags: first.into(),
                    bits,
                    length,
                    data,
                    sequence,
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
            plain.sequence.into(),
            0,
        ]
    }

    /// Reads the words. `None`: they are no envelope, or have something set that is nothing of its kind.
    pub fn decode(words: &[u64; WORDS]) -> Option<Self> {
        let [first, second, cookie, bits, length, data, sequence, _] = *words;
        let address = |word: u64| Address {
            endpoint: (word >> 16) as u16,
            generation: (word >> 32) as u32,
        };
        let (status, sequence) = ((first >> 8) as u8, sequence as u32);
        let body = match Kind::of(first as u8)? {
            Kind::Put => Body::Put {
                bits,
                length,
                data,
                sequence,
                first: second & 1 != 0,
            },
            Kind::Taken => Body::Taken,
            Kind::Done => Body::Done { status, length },
            Kind::NoSpace => Body::NoSpace { sequence },
            Kind::Resume => Body::Resume,
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

    const BODIES: [Body; 7] = [
        Body::Put {
            bits: u64::MAX,
            length: 1 << 40,
            data: 7,
            sequence: u32::MAX,
            first: true,
        },
        Body::Taken,
        Body::Done {
            status: 104,
            length: 9,
        },
        Body::NoSpace { sequence: 3 },
        Body::Resume,
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
            other[7] = 1;
            assert_eq!(Envelope::decode(&other), None);
        }
        assert_eq!(Envelope::decode(&[0; WORDS]), None);
    }
}
