// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages of virtual functions: cut, put together, in envelopes; and strangers who make up others.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use weft_proto::{
    pair::{
        number_of, own_hwid, unwrap, wrap, Address, Ask, Asked, Assembler, Error, Note, Packed,
        Quota, Via, Way, MAX_BYTES, PAIR_BYTES,
    },
    wire,
};

fn pieces(message: &[u8], via: Via, number: u8) -> Vec<Packed> {
    (0..)
        .map_while(|index| Packed::piece(message, via, number, index))
        .collect()
}

fn via() -> impl Strategy<Value = Via> {
    prop_oneof![
        any::<u8>().prop_map(Via::Link),
        any::<u32>().prop_map(Via::Lid)
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..=MAX_BYTES)
}

#[test]
fn mig_2_what_is_asked_and_answered_comes_as_it_was() {
    for ask in [Ask::GoOn, Ask::Finish, Ask::Stop, Ask::Still, Ask::Look] {
        for number in [0, 1, 255] {
            let asked = Asked { ask, number };
            assert_eq!(Asked::of(asked.word()), asked);
            let note = Packed::ask(asked);
            assert_eq!(Note::parse(note.as_slice()), Ok(Note::Ask(asked)));
            let note = Packed::left(asked, 0x0102_0304);
            assert_eq!(
                Note::parse(note.as_slice()),
                Ok(Note::Left(asked, 0x0102_0304))
            );
            for bytes in [&note.as_slice()[..7], &[5, 1, ask as u8, number, 0]] {
                assert_eq!(
                    Note::parse(bytes),
                    Err(if bytes.len() == 7 {
                        Error::Length
                    } else {
                        Error::Kind
                    })
                );
            }
        }
    }
    assert_eq!(Note::parse(&[5, 1, 5, 0]), Err(Error::Value));
    assert_eq!(Note::parse(&[6, 1, 5, 0, 0, 0, 0, 0]), Err(Error::Value));
    assert_eq!(Note::parse(&[5, 2, 1, 0]), Err(Error::Kind));
}

proptest! {
    #[test]
    fn mr_8_a_message_comes_through_the_mailbox_of_a_vf_as_it_was(
        messages in prop::collection::vec((message(), via()), 1..4)
    ) {
        let mut assembler = Assembler::new();
        for (number, (message, via)) in messages.iter().enumerate() {
            let cut = pieces(message, *via, number as u8);
            let head = if matches!(via, Via::Link(_)) { 4 } else { 8 };
            prop_assert_eq!(cut.len(), message.len().div_ceil(PAIR_BYTES - head));
            for (n, piece) in cut.iter().enumerate() {
                prop_assert!(piece.as_slice().len() <= PAIR_BYTES);
                let Ok(Note::Piece(bytes)) = Note::parse(piece.as_slice()) else {
                    panic!("a piece is not taken for one");
                };
                let got = assembler.push(bytes).expect("in order");
                if n + 1 < cut.len() {
                    prop_assert_eq!(got, None);
                } else {
                    prop_assert_eq!(got, Some((*via, &message[..])));
                }
            }
        }
    }

    #[test]
    fn mr_8_a_message_of_a_vf_with_a_piece_lost_repeated_or_exchanged_is_dropped_and_the_next_is_not(
        message in prop::collection::vec(any::<u8>(), 61..=MAX_BYTES),
        at in any::<prop::sample::Index>(),
        how in 0..3,
        via in via(),
    ) {
        let mut cut = pieces(&message, via, 7);
        let count = cut.len();
        let at = at.index(count);
        match how {
            0 => drop(cut.remove(at)),
            1 => cut.insert(at, cut[at]),
            _ => cut.swap(at, (at + 1) % count),
        }
        let mut assembler = Assembler::new();
        let mut whole = 0;
        for piece in &cut {
            if let Ok(Some((_, got))) = assembler.push(piece.as_slice()) {
                // What was only repeated may be whole.
                prop_assert_eq!(got, &message[..]);
                whole += 1;
            }
        }
        prop_assert!(whole <= usize::from(how == 1));
        for piece in pieces(b"the next one", Via::Link(2), 8) {
            let got = assembler.push(piece.as_slice());
            prop_assert_eq!(got, Ok(Some((Via::Link(2), &b"the next one"[..]))));
        }
    }

    #[test]
    fn mr_8_whatever_a_vf_says_no_message_is_longer_than_one_can_be(
        notes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=80), 0..200),
        mostly_pieces in any::<bool>(),
    ) {
        let mut assembler = Assembler::new();
        let mut index = 0u8;
        for mut note in notes {
            if mostly_pieces && note.len() > 4 {
                note.resize(PAIR_BYTES, 1);
                note[..4].copy_from_slice(&[if index > 4 { 3 } else { 7 }, 0, 0, index % 5]);
                index = (index + 1) % 9;
            }
            if let Ok(Note::Piece(bytes)) = Note::parse(&note) {
                if let Ok(Some((_, message))) = assembler.push(bytes) {
                    prop_assert!(!message.is_empty() && message.len() <= MAX_BYTES);
                }
            }
        }
    }

    #[test]
    fn mr_8_an_envelope_keeps_a_message_and_its_address(
        message in message(), to in any::<u8>(), from in any::<u8>()
    ) {
        let mut buf = [0; wire::MAX_BYTES];
        let bytes = wrap(Address { to, from }, &message, &mut buf).expect("not too long");
        let opened = unwrap(&buf[..bytes]).expect("an envelope");
        prop_assert_eq!(opened, Ok((Address { to, from }, &message[..])));
        // For a driver that knows no VFs it is no message at all.
        let parsed = wire::Message::parse(&buf[..bytes]);
        prop_assert!(matches!(parsed, Err(wire::Error::Magic | wire::Error::Short)));
    }

    #[test]
    fn mr_8_no_bytes_of_a_neighbour_do_harm(
        mut bytes in prop::collection::vec(any::<u8>(), 0..=wire::MAX_BYTES), envelope in any::<bool>()
    ) {
        if envelope && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"WFVF");
        }
        if let Some(Ok((_, message))) = unwrap(&bytes) {
            prop_assert!(!message.is_empty() && message.len() <= MAX_BYTES);
        }
        let _ = Note::parse(&bytes);
    }
}

#[test]
fn mr_8_hello_quota_and_users_of_a_vf() {
    assert_eq!(Note::parse(Packed::hello().as_slice()), Ok(Note::Hello));
    for any in [false, true] {
        let packed = Packed::users(any);
        assert_eq!(Note::parse(packed.as_slice()), Ok(Note::Users(any)));
    }
    let quota = Quota {
        links: 5,
        bytes: 1 << 40,
    };
    let packed = Packed::quota(&quota);
    assert_eq!(Note::parse(packed.as_slice()), Ok(Note::Quota(quota)));
    let short = &packed.as_slice()[..11];
    assert_eq!(Note::parse(short), Err(Error::Length));
    let mut other = packed.as_slice().to_vec();
    other[1] += 1;
    assert_eq!(Note::parse(&other), Err(Error::Kind));
    for via in [Via::Link(0), Via::Lid(1)] {
        assert_eq!(Packed::piece(&[], via, 0, 0), None);
        assert_eq!(Packed::piece(&[0; MAX_BYTES + 1], via, 0, 0), None);
    }
}

#[test]
fn mr_8_a_vf_asks_for_a_way_and_is_told_it() {
    let seek = Packed::seek(0x0800_0000_0000_0002);
    let parsed = Note::parse(seek.as_slice());
    assert_eq!(parsed, Ok(Note::Seek(0x0800_0000_0000_0002)));
    assert_eq!(Note::parse(&seek.as_slice()[..11]), Err(Error::Length));
    let way = Way {
        lid: 0x12_3456,
        function: 33,
        hops: 4,
        speed: 5,
        width: 16,
    };
    let packed = Packed::way(7, &way);
    assert_eq!(Note::parse(packed.as_slice()), Ok(Note::Way(7, way)));
    for bytes in [12, 16, 19] {
        let short = &packed.as_slice()[..bytes];
        assert_eq!(Note::parse(short), Err(Error::Length));
    }
    let none = Packed::way(7, &Way::default());
    assert_eq!(
        Note::parse(none.as_slice()),
        Ok(Note::Way(7, Way::default()))
    );
}

#[test]
fn mr_8_the_id_of_a_function_tells_its_port_and_its_number() {
    for port in [1, 0x8507_1234_5678, (1 << 63) - 1] {
        for number in 0..34 {
            assert_eq!(number_of(port, own_hwid(port, number)), Some(number));
            assert_eq!(number_of(port + 2, own_hwid(port, number)), None);
        }
        for number in 34..64 {
            assert_eq!(number_of(port, own_hwid(port, number)), None);
        }
    }
}
