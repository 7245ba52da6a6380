// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What tests of trunks share: memory, and arbitrary messages.

#![allow(dead_code, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use std::cell::RefCell;
use weft_proto::fence::Fence;
use weft_proto::hold::Standing;
use weft_proto::protocol::Protocol;
use weft_proto::request::{Data, Extent, Extents, Gone, Inline, Join, Message, Part, Role};
use weft_proto::socket::{message as socket, Half, Mode, Shape, MIN_HALF};
use weft_proto::trunk::{Layout, CELL_BYTES};
use weft_proto::window::{Area, Window};
use weft_proto::word::{Says, Word};

/// Words of a cell.
pub const WORDS: usize = CELL_BYTES / 8;

/// A trunk in memory, which either end writes.
pub struct Memory(pub RefCell<Vec<u64>>);

impl Memory {
    pub fn new(layout: Layout) -> Self {
        Memory(RefCell::new(vec![0; layout.bytes() / 8]))
    }

    pub fn set(&self, at: usize, word: u64) {
        self.0.borrow_mut()[at / 8] = word;
    }
}

impl Area for Memory {
    fn load(&self, at: usize) -> u64 {
        assert_eq!(at % 8, 0, "unaligned");
        self.0.borrow()[at / 8]
    }

    fn rmb(&self, _: Fence) {}
}

impl Window for Memory {
    fn store(&self, at: usize, word: u64) {
        assert_eq!(at % 8, 0, "unaligned");
        self.set(at, word);
    }

    fn wmb(&self, _: Fence) {}

    fn mb(&self, _: Fence) {}
}

pub fn layout() -> impl Strategy<Value = Layout> {
    (17u32..23).prop_map(|shift| Layout::of_arena(1 << shift).expect("large enough"))
}

/// A payload as it comes.
pub fn inline(bytes: &[u8]) -> Inline {
    let word = |n: usize| {
        let mut word = [0xa5; 8];
        word.iter_mut()
            .zip(&bytes[8 * n..])
            .for_each(|(to, byte)| *to = *byte);
        u64::from_ne_bytes(word)
    };
    Inline::load(bytes.len(), word).expect("short enough")
}

fn data(own: Layout) -> impl Strategy<Value = Data> {
    let ring = own.eager_bytes() as u32;
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=64).prop_map(|bytes| Data::Inline(inline(&bytes))),
        (0..=ring / 64, any::<prop::sample::Index>()).prop_map(move |(unit, len)| Data::Eager {
            at: unit * 64,
            len: len.index((ring - unit * 64) as usize + 1) as u32,
        }),
        (1u64..=1 << 31).prop_map(Data::Long),
    ]
}

fn extents(peer: Layout) -> impl Strategy<Value = Extents> {
    let (first, end) = (peer.staging_at() as u32, peer.bytes() as u32);
    prop::collection::vec((first / 64..end / 64, any::<prop::sample::Index>()), 1..=8).prop_map(
        move |list| {
            let mut extents = Extents::NONE;
            for (unit, bytes) in list {
                let at = unit * 64;
                let bytes = bytes.index((end - at) as usize) as u32 + 1;
                assert!(extents.push(Extent { at, bytes }));
            }
            extents
        },
    )
}

fn role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Initiator, Role::Responder])
}

fn part() -> impl Strategy<Value = Part> {
    (any::<u64>(), 0u64..1 << 31).prop_map(|(number, offset)| Part { number, offset })
}

/// Any message from an end whose trunk is `peer` to one whose trunk is `own`.
pub fn message(own: Layout, peer: Layout) -> impl Strategy<Value = Message> {
    let place = || (any::<u64>(), any::<u32>());
    let aligned = || (any::<u64>().prop_map(|to| to & !7), any::<u32>());
    let imm = || any::<Option<u32>>();
    prop_oneof![
        (data(own), imm()).prop_map(|(data, imm)| Message::Send { data, imm }),
        (data(own), place(), imm()).prop_map(|(data, (to, stag), imm)| Message::Write {
            data,
            to,
            stag,
            imm
        }),
        place().prop_map(|(to, stag)| Message::Size { to, stag }),
        (aligned(), any::<u64>()).prop_map(|((to, stag), add)| Message::FetchAdd { to, stag, add }),
        (aligned(), any::<u64>(), any::<u64>()).prop_map(|((to, stag), expected, new)| {
            Message::CmpSwap {
                to,
                stag,
                expected,
                new,
            }
        }),
        (place(), extents(peer), any::<prop::sample::Index>()).prop_map(
            |((to, stag), extents, length)| Message::Read {
                to,
                stag,
                length: length.index(extents.bytes() as usize + 1) as u32,
                extents,
            }
        ),
        (place(), 0u32..=1 << 31).prop_map(|((to, stag), length)| Message::Read {
            to,
            stag,
            length,
            extents: Extents::NONE,
        }),
        any::<u64>().prop_map(|length| Message::SizeIs { length }),
        any::<u64>().prop_map(|old| Message::Value { old }),
        (1u32..1 << 24, any::<bool>(), any::<(u32, u32)>()).prop_map(|(qpn, refuses, epochs)| {
            Message::Gone(Gone {
                qpn,
                refuses,
                epoch: epochs.0,
                peer_epoch: epochs.1,
            })
        }),
        (
            1u32..1 << 24,
            0u32..8,
            any::<bool>(),
            any::<Option<u16>>(),
            any::<(u32, u32)>()
        )
            .prop_map(|(qpn, bits, asks, expects, epochs)| Message::Join(Join {
                qpn,
                protocol: Protocol::of(bits).expect("three bits"),
                asks,
                stands: Standing {
                    resumes: expects.is_some(),
                    expects: expects.unwrap_or(0),
                },
                epoch: epochs.0,
                peer_epoch: epochs.1,
            })),
        (any::<bool>(), 1u32.., 1u32.., 0u64..1 << 20).prop_map(|(pulls, service, from, page)| {
            let mode = if pulls { Mode::Pull } else { Mode::Push };
            let shape = Shape::new(mode, MIN_HALF).expect("a page");
            let half = Half {
                base: page << 12,
                shape,
            };
            let says = socket::Says::Init {
                service,
                half,
                data: page << 40,
            };
            Message::Socket(socket::Message { to: 0, from, says })
        }),
        (part(), extents(peer)).prop_map(|(part, extents)| Message::Lend { part, extents }),
        (role(), part(), extents(peer)).prop_map(|(to, part, extents)| Message::Offer {
            to,
            part,
            extents
        }),
    ]
}

pub fn word() -> impl Strategy<Value = Word> {
    use weft_proto::cqe::Status;
    let says = prop_oneof![
        Just(Says::Ack),
        prop::sample::select(vec![
            Status::RemoteAccess,
            Status::RemoteRequest,
            Status::RemoteOp,
            Status::Protocol
        ])
        .prop_map(Says::Nak),
        Just(Says::NoRecv),
        (role(), 0u16..0x4000).prop_map(|(to, part)| Says::Done { to, part }),
        Just(Says::Recv),
    ];
    (0u32..1 << 24, any::<u16>(), says).prop_map(|(qpn, psn, says)| Word { qpn, psn, says })
}
