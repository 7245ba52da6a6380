// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What each protocol of a queue pair allows: every message and every word by one way, and by no
//! other.

#![allow(clippy::expect_used, clippy::panic)]

mod trunk;

use proptest::prelude::*;
use trunk::{layout, message, word};
use weft_proto::hold::Standing;
use weft_proto::protocol::Protocol;
use weft_proto::request::{Data, Extents, Gone, Join, Lane, Message, Part, Role};
use weft_proto::word::Says;

const LANES: [Lane; 3] = [Lane::Receive, Lane::Transmit, Lane::Pulled];

fn all() -> impl Iterator<Item = Protocol> {
    (0..8).map(|bits| Protocol::of(bits).expect("three bits"))
}

#[test]
fn q_3_a_protocol_is_three_bits() {
    for (bits, protocol) in all().enumerate() {
        assert_eq!(protocol.bits(), bits as u32);
    }
    assert_eq!(Protocol::of(0), Some(Protocol::PUSH));
    assert_eq!(Protocol::of(8), None);
    assert_eq!(Protocol::of(1 << 31), None);
}

/// Which kinds of data an end takes: those that no data travel with, in both.
#[test]
fn q_3_data_come_as_agreed_or_not_at_all() {
    let inline = |bytes: &[u8]| Data::Inline(trunk::inline(bytes));
    let send = |data| Message::Send { data, imm: None };
    let mut some = Extents::NONE;
    assert!(some.push(weft_proto::request::Extent { at: 0, bytes: 64 }));
    let part = Part {
        number: 0,
        offset: 0,
    };
    let read = |length, extents| Message::Read {
        to: 0,
        stag: 0,
        length,
        extents,
    };
    let offer = |to| Message::Offer {
        to,
        part,
        extents: some,
    };
    // Whether it may be while data are pushed, and while they are pulled.
    let cases = [
        (send(inline(b"")), true, true),
        (send(inline(b"a")), true, false),
        (send(Data::Eager { at: 0, len: 0 }), true, false),
        (send(Data::Eager { at: 0, len: 65 }), true, false),
        (send(Data::Long(1)), true, true),
        (read(64, some), true, false),
        (read(65, some), false, false),
        (read(64, Extents::NONE), false, true),
        (
            Message::Lend {
                part,
                extents: some,
            },
            true,
            false,
        ),
        (offer(Role::Initiator), false, true),
        (offer(Role::Responder), false, true),
        (Message::Size { to: 0, stag: 0 }, true, true),
        (Message::SizeIs { length: 9 }, true, true),
        (Message::Value { old: 9 }, true, true),
        (
            Message::Gone(Gone {
                qpn: 1,
                refuses: false,
                epoch: 1,
                peer_epoch: 1,
            }),
            true,
            true,
        ),
        (
            Message::Join(Join {
                qpn: 1,
                protocol: Protocol::PUSH,
                asks: true,
                stands: Standing::FRESH,
                epoch: 1,
                peer_epoch: 0,
            }),
            true,
            true,
        ),
    ];
    for protocol in all() {
        for (message, pushed, pulled) in &cases {
            let expected = if protocol.data { pulled } else { pushed };
            let lane = protocol.lane(message);
            assert_eq!(
                protocol.allows(lane, message),
                *expected,
                "{protocol:?} {message:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn q_3_each_message_has_one_way(
        (own, message) in layout().prop_flat_map(|own| (Just(own), message(own, own))),
    ) {
        let _ = own;
        for protocol in all() {
            let lane = protocol.lane(&message);
            prop_assert_eq!(lane == Lane::Pulled, protocol.wqe && message.is_pullable());
            for other in LANES.into_iter().filter(|other| *other != lane) {
                prop_assert!(!protocol.allows(other, &message), "{:?} {:?}", other, message);
            }
        }
    }

    #[test]
    fn q_3_each_word_has_one_way(word in word()) {
        let initiators = matches!(word.says, Says::Done { to: Role::Responder, .. });
        for protocol in all() {
            let pulled = protocol.cqe && !initiators;
            prop_assert_eq!(protocol.offers(word.says), pulled);
            prop_assert!(protocol.allows_word(pulled, word.says));
            prop_assert!(!protocol.allows_word(!pulled, word.says));
        }
    }
}
