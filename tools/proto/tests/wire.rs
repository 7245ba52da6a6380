// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages survive the way through bytes, and no bytes do harm.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use weft_proto::{
    cell::{Shape, MAX_BULK, MAX_CELLS},
    crc::crc32c,
    hold::Say,
    mac::{parse_key, Mac, Tag, MAX_KEY_BYTES},
    proof::{is_proved, prove},
    wire::{
        checksum, Body, End, Error, Header, Incarnation, Message, Offer, Proof, HEADER_BYTES,
        MAGIC, MAX_BYTES,
    },
};

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (any::<u64>(), any::<u32>(), 1u64..).prop_map(|(hwid, generation, session)| Incarnation {
        hwid,
        generation,
        session,
    })
}

fn offer() -> impl Strategy<Value = Offer> {
    (0u64..1 << 40, 1u64..1 << 40, any::<u32>(), any::<u32>()).prop_map(
        |(offset, bytes, wake, echo)| Offer {
            offset: offset << 12,
            bytes: bytes << 12,
            wake,
            echo,
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    (1u32.., 4u32..15, 1u32..257, 0u64..1 << 40).prop_map(|(conn, cells, bulk, at)| End {
        conn,
        shape: Shape::new(1 << cells, bulk << 12).expect("within the limits"),
        area_offset: at << 12,
    })
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        prop::option::of(offer()).prop_map(Body::Hello),
        Just(Body::HelloAck),
        Just(Body::Heartbeat),
        Just(Body::Bye),
        any::<bool>().prop_map(Body::Use),
        (end(), 1u32..).prop_map(|(end, service)| Body::Connect { end, service }),
        (end(), 1u32..).prop_map(|(end, peer_conn)| Body::Accept { end, peer_conn }),
        (1u32.., 1u32..).prop_map(|(peer_conn, code)| Body::Reject { peer_conn, code }),
        (1u32.., any::<u32>(), any::<u32>()).prop_map(|(conn, peer_conn, reason)| Body::Close {
            conn,
            peer_conn,
            reason
        }),
        (1u32..).prop_map(|peer_conn| Body::CloseAck { peer_conn }),
        (1u32..).prop_map(|number| Body::Hold(Say::Hold(number))),
        (1u32..).prop_map(|number| Body::Hold(Say::Held(number))),
        (1u32..).prop_map(|number| Body::Hold(Say::GoOn(number))),
    ]
}

fn proof() -> impl Strategy<Value = Option<Proof>> {
    let proof = (any::<u64>(), any::<Tag>()).prop_map(|(nonce, tag)| Proof { nonce, tag });
    prop::option::of(proof)
}

fn message() -> impl Strategy<Value = Message> {
    (
        incarnation(),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
        body(),
        proof(),
    )
        .prop_map(
            |(from, to_generation, to_session, sequence, body, proof)| Message {
                header: Header {
                    from,
                    to_generation,
                    to_session,
                    sequence,
                },
                proof: proof.filter(|_| matches!(body, Body::Hello(_))),
                body,
            },
        )
}

/// As an attacker would send it.
fn seal(bytes: &mut [u8]) {
    let length = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    if let Some(whole) = bytes.get(..length) {
        let sum = checksum(whole);
        bytes[44..48].copy_from_slice(&sum.to_le_bytes());
    }
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut buf = [0; MAX_BYTES];
    let count = message.encode(&mut buf);
    buf[..count].to_vec()
}

proptest! {
    #[test]
    fn round_trip(message in message()) {
        prop_assert_eq!(Message::parse(&bytes(&message)), Ok(message));
    }

    #[test]
    fn trailing_bytes_are_no_part(message in message(), tail in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = bytes(&message);
        bytes.extend(tail);
        prop_assert_eq!(Message::parse(&bytes), Ok(message));
    }

    #[test]
    fn every_truncation_is_refused(message in message()) {
        let bytes = bytes(&message);
        for count in 0..bytes.len() {
            prop_assert_eq!(Message::parse(&bytes[..count]), Err(Error::Short));
        }
    }

    /// What a mailbox does to a message is noticed: up to 32 bits in a row for certain.
    #[test]
    fn a_spoilt_message_is_refused(
        message in message(),
        at in any::<prop::sample::Index>(),
        change in 1u32..,
    ) {
        let mut bytes = bytes(&message);
        let at = at.index(bytes.len());
        for (byte, change) in bytes[at..].iter_mut().zip(change.to_le_bytes()) {
            *byte ^= change;
        }
        if bytes != self::bytes(&message) {
            prop_assert!(Message::parse(&bytes).is_err());
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Message::parse(&bytes);
    }

    /// Whatever a peer makes of a message: what is accepted is within the limits, and is what the
    /// bytes say.
    #[test]
    fn a_changed_message_is_refused_or_sound(
        message in message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = bytes(&message);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        seal(&mut bytes);
        if let Ok(parsed) = Message::parse(&bytes) {
            let mut buf = [0; MAX_BYTES];
            let count = parsed.encode(&mut buf);
            prop_assert_eq!(&buf[..count], &bytes[..count]);
            prop_assert_ne!(parsed.header.from.session, 0);
            if let Body::Connect { end, .. } | Body::Accept { end, .. } = parsed.body {
                prop_assert_eq!(end.area_offset % 4096, 0);
                prop_assert!(end.shape.cells() <= MAX_CELLS && end.shape.bulk() <= MAX_BULK);
                prop_assert!(end.area_offset.checked_add(end.area_bytes()).is_some());
            }
            if let Body::Hello(Some(offer)) = parsed.body {
                prop_assert!(offer.offset.checked_add(offer.bytes).is_some());
                prop_assert!(offer.bytes > 0);
            }
        }
    }

    #[test]
    fn an_area_inside_an_arena_ends_inside(end in end(), bytes in any::<u64>()) {
        let fits = u128::from(end.area_offset) + u128::from(end.area_bytes()) <= u128::from(bytes);
        prop_assert_eq!(end.inside(bytes), fits);
    }
}

/// The layout of `Documentation/protocol.rst`, byte by byte.
#[test]
fn layout() {
    let message = Message {
        header: Header {
            from: Incarnation {
                hwid: 0x1122_3344_5566_7788,
                generation: 0x99aa_bbcc,
                session: 0x0102_0304_0506_0708,
            },
            to_generation: 0xddee_ff00,
            to_session: 0x1112_1314_1516_1718,
            sequence: 0x2122_2324,
        },
        body: Body::Connect {
            end: End {
                conn: 0x3132_3334,
                shape: Shape::new(256, 65536).expect("within the limits"),
                area_offset: 0x5000,
            },
            service: 0x4142_4344,
        },
        proof: None,
    };
    #[rustfmt::skip]
    let expected = [
        b'W', b'E', b'F', b'T', 11, 5, 88, 0,
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        0xcc, 0xbb, 0xaa, 0x99, 0x00, 0xff, 0xee, 0xdd,
        8, 7, 6, 5, 4, 3, 2, 1,
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
        0x24, 0x23, 0x22, 0x21, 0x56, 0x62, 0x2c, 0xcf,
        0x34, 0x33, 0x32, 0x31, 0, 1, 0, 0,
        0, 0, 1, 0, 0, 0, 0, 0,
        0, 0x50, 0, 0, 0, 0, 0, 0,
        0, 0x50, 1, 0, 0, 0, 0, 0,
        0x44, 0x43, 0x42, 0x41, 0, 0, 0, 0,
    ];
    assert_eq!(HEADER_BYTES, 48);
    assert_eq!(bytes(&message), expected);
}

/// One member is wrong, and the message is refused for it.
#[test]
fn what_is_wrong_is_named() {
    let good = Message {
        header: Header {
            from: Incarnation {
                hwid: 1,
                generation: 2,
                session: 3,
            },
            to_generation: 0,
            to_session: 0,
            sequence: 0,
        },
        body: Body::Accept {
            end: End {
                conn: 1,
                shape: Shape::new(16, 4096).expect("within the limits"),
                area_offset: 0,
            },
            peer_conn: 2,
        },
        proof: None,
    };
    let good = bytes(&good);
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        seal(&mut bytes);
        Message::parse(&bytes)
    };
    assert_eq!(MAGIC.to_le_bytes(), *b"WEFT");
    assert_eq!(with(0, b'w'), Err(Error::Magic));
    assert_eq!(with(4, 1), Err(Error::Version(1)));
    assert_eq!(with(5, 0), Err(Error::Type(0)));
    assert_eq!(with(5, 14), Err(Error::Type(14)));
    // Longer than what came, shorter than its type.
    assert_eq!(with(6, 89), Err(Error::Short));
    assert_eq!(with(6, 80), Err(Error::Short));
    assert_eq!(with(6, 47), Err(Error::Short));
    // A close in as many bytes as an accept.
    assert_eq!(with(5, 8), Err(Error::Length));
    assert_eq!(with(24, 0), Err(Error::Value), "session 0");
    assert_eq!(with(48, 0), Err(Error::Value), "connection 0");
    assert_eq!(with(52, 17), Err(Error::Value), "cells no power of two");
    assert_eq!(with(56, 1), Err(Error::Value), "bulk no whole pages");
    assert_eq!(with(60, 1), Err(Error::Value), "reserved");
    assert_eq!(with(64, 1), Err(Error::Value), "area not at a page");
    assert_eq!(with(73, 0x31), Err(Error::Value), "area of another size");
    assert_eq!(with(80, 0), Err(Error::Value), "peer's connection 0");
    let mut spoilt = good.clone();
    spoilt[8] ^= 1;
    assert_eq!(Message::parse(&spoilt), Err(Error::Checksum));
    let mut longer = good.clone();
    longer[6] += 8;
    longer.extend([0; 8]);
    seal(&mut longer);
    assert_eq!(Message::parse(&longer), Err(Error::Length));
}

/// A key that makes a tag of the sum of all bytes, each times its place.
struct Key(u8);

impl Mac for Key {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        let places = message.iter().zip(1u128..);
        let sum = places.fold(u128::from(self.0), |sum, (byte, place)| {
            (sum ^ u128::from(*byte))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835 + 2 * place)
        });
        (self.0 != 0).then(|| sum.to_le_bytes())
    }
}

fn hello(to_session: u64, offer: Option<Offer>) -> Message {
    Message {
        header: Header {
            from: Incarnation {
                hwid: 1,
                generation: 2,
                session: 3,
            },
            to_generation: 4,
            to_session,
            sequence: 5,
        },
        body: Body::Hello(offer),
        proof: None,
    }
}

/// The nonces of a sender, and of a receiver.
const NONCES: [u64; 2] = [77, 88];

#[test]
fn n_5_a_hello_is_proved_by_the_key_for_the_receiver_it_names() {
    let offer = Offer {
        offset: 0x1000,
        bytes: 0x2000,
        wake: 1,
        echo: 2,
    };
    for (session, offer) in [(9, Some(offer)), (9, None), (0, None)] {
        let mut message = hello(session, offer);
        assert!(!is_proved(&Key(1), &message, NONCES[1]), "without a proof");
        assert!(prove(&Key(0), &message, NONCES[0], NONCES[1]).is_none());
        message.proof = prove(&Key(1), &message, NONCES[0], NONCES[1]);
        let came = Message::parse(&bytes(&message)).expect("a hello");
        assert!(is_proved(&Key(1), &came, NONCES[1]));
        assert!(!is_proved(&Key(2), &came, NONCES[1]), "another key");
        assert!(!is_proved(&Key(0), &came, NONCES[1]), "no key");
        // What was said to another life of the receiver; a hello to any is for all.
        assert_eq!(is_proved(&Key(1), &came, NONCES[1] + 1), session == 0);
    }
    // Nothing else is proved.
    let ack = Message {
        body: Body::HelloAck,
        ..hello(9, None)
    };
    assert!(prove(&Key(1), &ack, NONCES[0], NONCES[1]).is_none());
}

#[test]
fn a_proof_is_whole_or_there_is_none() {
    let mut message = hello(0, None);
    message.proof = prove(&Key(1), &message, NONCES[0], 0);
    let good = bytes(&message);
    for cut in 1..24 {
        let mut bytes = good[..good.len() - cut].to_vec();
        bytes[6] -= cut as u8;
        seal(&mut bytes);
        assert_eq!(Message::parse(&bytes), Err(Error::Length), "{cut}");
    }
}

#[test]
fn a_key_is_hexadecimal_digits() {
    let parse = |text: &[u8]| {
        let mut key = [0; MAX_KEY_BYTES];
        parse_key(text, &mut key).map(|len| key[..len].to_vec())
    };
    let digits = (0..64).flat_map(|n| [n >> 4, n & 15]);
    let text: String = digits
        .map(|n| char::from_digit(n, 16).expect("a digit"))
        .collect();
    let raw: Vec<u8> = (0..64).collect();
    for len in [32, 33, 64] {
        let text = &text[..2 * len];
        let expected = Some(raw[..len].to_vec());
        assert_eq!(parse(text.as_bytes()), expected);
        assert_eq!(parse(text.to_uppercase().as_bytes()), expected);
        assert_eq!(parse(format!("  {text}\n").as_bytes()), expected);
    }
    assert_eq!(parse(b""), Some(vec![]));
    assert_eq!(parse(b" \n"), Some(vec![]));
    let long = format!("{text}00");
    let odd = &text[..65];
    let other = text.replace('0', "g");
    let split = format!("{} {}", &text[..64], &text[64..126]);
    for wrong in [&text[..62], odd, &long, &other, &split, "0x"] {
        assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn n_5_no_part_of_a_proved_hello_can_be_changed(at in 4..72 + 24usize, bit in 0..8u8) {
        let offer = Offer { offset: 0x1000, bytes: 0x2000, wake: 1, echo: 2 };
        let mut message = hello(9, Some(offer));
        message.proof = prove(&Key(1), &message, NONCES[0], NONCES[1]);
        let mut bytes = bytes(&message);
        bytes[at] ^= 1 << bit;
        seal(&mut bytes);
        let came = Message::parse(&bytes);
        // The number counts messages for diagnosis; the checksum was made anew.
        let free = (40..48).contains(&at);
        prop_assert!(free || !came.is_ok_and(|came| is_proved(&Key(1), &came, NONCES[1])), "{}", at);
    }
}

/// The value that everybody gives for CRC-32C (RFC 3720, appendix B.4, and others).
#[test]
fn crc() {
    assert_eq!(crc32c(*b"123456789"), 0xe306_9283);
    assert_eq!(crc32c([0; 32]), 0x8a91_36aa);
}
