// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages survive the way through bytes, and no bytes do harm.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use weft_proto::{
    cell::{Shape, MAX_BULK, MAX_CELLS},
    crc::crc32c,
    hold::Say,
    wire::{
        checksum, Body, End, Error, Header, Incarnation, Message, Offer, HEADER_BYTES, MAGIC,
        MAX_BYTES,
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

fn message() -> impl Strategy<Value = Message> {
    (
        incarnation(),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
        body(),
    )
        .prop_map(
            |(from, to_generation, to_session, sequence, body)| Message {
                header: Header {
                    from,
                    to_generation,
                    to_session,
                    sequence,
                },
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
    };
    #[rustfmt::skip]
    let expected = [
        b'W', b'E', b'F', b'T', 5, 5, 88, 0,
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        0xcc, 0xbb, 0xaa, 0x99, 0x00, 0xff, 0xee, 0xdd,
        8, 7, 6, 5, 4, 3, 2, 1,
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
        0x24, 0x23, 0x22, 0x21, 0xc4, 0x6d, 0xb4, 0x64,
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
    assert_eq!(with(5, 13), Err(Error::Type(13)));
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

/// The value that everybody gives for CRC-32C (RFC 3720, appendix B.4, and others).
#[test]
fn crc() {
    assert_eq!(crc32c(*b"123456789"), 0xe306_9283);
    assert_eq!(crc32c([0; 32]), 0x8a91_36aa);
}
