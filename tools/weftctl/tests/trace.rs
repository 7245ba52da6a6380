// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests, put together from lines of the tracepoints.

#![allow(clippy::expect_used, clippy::panic)]

use weftctl::trace::event::{Role, parse};
use weftctl::trace::picture::draw;
use weftctl::trace::sequence::{Sequence, Sequences, Way};

/// Messages of queue pair 0x10 here and 0x20 at the peer: "> name" is sent to the responder, "< name"
/// taken by the initiator from it; "}" and "{" are the same with the peer as initiator.
fn told(messages: &[(&str, u16, u64)]) -> (Vec<Sequence>, Vec<Sequence>) {
    let mut sequences = Sequences::default();
    let mut ended = vec![];
    for (n, (what, psn, bytes)) in messages.iter().enumerate() {
        let (arrow, name) = what.split_once(' ').expect("two words");
        let (sent, to) = match arrow {
            ">" => (true, "responder"),
            "<" => (false, "initiator"),
            "}" => (true, "initiator"),
            "{" => (false, "responder"),
            "!" => (false, "either"),
            _ => unreachable!("{arrow}"),
        };
        let word = ["ACK", "NAK", "NO_RECV", "DONE", "RECV"].contains(&name);
        let line = format!(
            " x-1 [000] ..... 1.{n:06}: {}: dev=0000:01:00.0 link=0 {} own=0x10 qpn={} psn={psn} \
             to={to} {}",
            if word { "weft_word" } else { "weft_cell" },
            if sent { "sent" } else { "taken" },
            if sent { "0x20" } else { "0x10" },
            match word {
                true => format!("code={name} detail={bytes}"),
                false => format!("op={name} bytes={bytes}"),
            },
        );
        ended.extend(sequences.take(&parse(&line).expect("a line")));
    }
    (ended, sequences.finish())
}

fn names(sequence: &Sequence) -> Vec<&str> {
    sequence.steps.iter().map(|step| step.name.as_str()).collect()
}

#[test]
fn p_2_a_write_in_two_parts() {
    let (ended, open) = told(&[
        ("> WRITE_LONG", 7, 100_000),
        ("< LEND", 7, 65_536),
        ("< LEND", 7, 36_864),
        ("> DONE", 7, 0),
        ("> DONE", 7, 1),
        ("< ACK", 7, 0),
    ]);
    assert_eq!(open, []);
    let [write] = ended.as_slice() else { panic!("{ended:?}") };
    let wanted = ["WRITE_LONG", "LEND", "LEND", "data", "DONE", "data", "DONE", "ACK"];
    assert_eq!(names(write), wanted);
    assert!(write.complete && write.initiator_here == Some(true));
    assert_eq!((write.qpn, write.peer_qpn), (0x10, Some(0x20)));
    let data: Vec<_> = write.steps.iter().filter(|step| step.way == Way::Data).collect();
    assert!(data.iter().all(|step| step.from == Role::Initiator));
    // Memory is lent in whole pages; no more than the message moves.
    assert_eq!(
        data.iter().map(|step| step.bytes).collect::<Vec<_>>(),
        [Some(65_536), Some(34_464)]
    );
}

#[test]
fn an_acknowledgement_covers_all_before_it_but_reads() {
    let (ended, open) = told(&[
        ("> SEND", 1, 8),
        ("> WRITE", 2, 8),
        ("> READ", 3, 4096),
        ("> SEND", 4, 8),
        ("< ACK", 4, 0),
        ("< DONE", 3, 0),
    ]);
    assert_eq!(open, []);
    let ended: Vec<_> = ended.iter().map(|s| (s.psn, names(s))).collect();
    assert_eq!(
        ended,
        [
            (1, vec!["SEND", "ACK"]),
            (2, vec!["WRITE", "ACK"]),
            (4, vec!["SEND", "ACK"]),
            (3, vec!["READ", "data", "DONE"]),
        ]
    );
}

#[test]
fn p_4_the_size_and_what_is_read_are_one() {
    let (ended, open) = told(&[
        ("> SIZE", 9, 0),
        ("< SIZE_IS", 9, 300_000),
        ("> READ", 10, 262_144),
        ("< DONE", 10, 0),
        ("> READ", 11, 37_856),
        ("< DONE", 11, 0),
        ("> READ", 12, 5),
        ("< DONE", 12, 0),
    ]);
    assert_eq!(open, []);
    assert_eq!(ended.len(), 2);
    let wanted = ["SIZE", "SIZE_IS", "READ", "data", "DONE", "READ", "data", "DONE"];
    assert_eq!(ended.first().map(names), Some(wanted.to_vec()));
    assert_eq!(ended.last().map(names), Some(vec!["READ", "data", "DONE"]));
}

#[test]
fn both_ends_may_be_initiators_of_the_same_number() {
    let (ended, open) = told(&[
        ("> SEND", 5, 8),
        ("{ SEND", 5, 8),
        ("} ACK", 5, 0),
        ("< NO_RECV", 5, 0),
        ("< RECV", 5, 0),
        ("> SEND", 5, 8),
        ("< ACK", 5, 0),
    ]);
    assert_eq!(open, []);
    let ended: Vec<_> = ended.iter().map(|s| (s.initiator_here, names(s))).collect();
    assert_eq!(
        ended,
        [
            (Some(false), vec!["SEND", "ACK"]),
            (Some(true), vec!["SEND", "NO_RECV", "RECV", "SEND", "ACK"]),
        ]
    );
}

#[test]
fn pulled_data_go_to_the_end_that_says_that_they_went() {
    let (ended, _) =
        told(&[("> SEND_LONG", 1, 5000), ("> OFFER", 1, 5000), ("< DONE", 1, 0), ("< ACK", 1, 0)]);
    let [send] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!(names(send), ["SEND_LONG", "OFFER", "data", "DONE", "ACK"]);
    assert_eq!(send.steps.get(2).map(|step| step.from), Some(Role::Initiator));
}

#[test]
fn what_goes_takes_its_requests_along() {
    let (ended, open) = told(&[("> SEND", 1, 8), ("! GONE", 0, 0), ("< ACK", 7, 0)]);
    assert_eq!(open, []);
    let ended: Vec<_> = ended.iter().map(|s| (s.complete, names(s))).collect();
    assert_eq!(ended, [(true, vec!["SEND", "GONE"])]);
}

#[test]
fn the_picture_is_as_wide_as_a_terminal() {
    let (ended, open) = told(&[
        ("> WRITE_LONG", 7, 4_000_000_000),
        ("< LEND", 7, 4_000_000_000),
        ("> DONE", 7, 0),
        ("< NAK", 7, 5),
        ("> SEND", 8, 8),
    ]);
    let text: String = ended.iter().chain(&open).map(draw).collect();
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    for part in [
        "queue pair 0x10 with 0x20, request 7\n",
        "|-- receive: WRITE_LONG, 4000000000 bytes ---",
        "|<--------------- transmit: LEND, 4000000000 bytes --|",
        "|== data, 4000000000 bytes ===",
        "completion: NAK status 5 --|",
        "request 8, not all of it\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}
