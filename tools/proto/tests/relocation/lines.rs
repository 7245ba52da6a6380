// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The lines of the assignments: which host may change them, and how; and that they are read as they are written.

use super::*;

#[test]
fn requests_are_read_as_they_are_written() {
    let mut buf = [0; REQUEST_BYTES];
    let request = Request {
        from: Stage::Given,
        to: at(Stage::Failed),
    };
    let len = request.encode(&mut buf).expect("fits");
    assert_eq!(Request::parse(&buf[..len]), Some(request));
    for cut in 0..len {
        assert_eq!(Request::parse(&buf[..cut]), None);
    }
    assert_eq!(Request::parse(&[&buf[..len], &[0]].concat()), None);
    for at in [20, 21] {
        let mut bad = buf;
        bad[at] = 8;
        assert_eq!(Request::parse(&bad), None, "no such stage");
    }
    let same = Move {
        target: SOURCE,
        ..MOVE
    };
    let same = Request {
        to: same,
        ..request
    };
    same.encode(&mut buf).expect("fits");
    assert_eq!(
        Request::parse(&buf),
        None,
        "a function does not move to itself"
    );
}

#[test]
fn lines_are_read_as_they_are_written() {
    let mut copy = Copy {
        version: 0,
        text: b"# weft assignments: endpoint.ve root\nc000a7bdf6f00c05.0 1".to_vec(),
    };
    copy = copy
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [at(Stage::Asked)]);
    assert!(copy
        .text
        .starts_with(b"# weft assignments: endpoint.ve root\nc000a7bdf6f00c05.0 1\n"));
    let again = copy.ask(Party::Source, &at(Stage::Asked), false);
    assert_eq!(again.err(), Some(Refusal::Already));
    // A request names the quota only once.
    let ready = Move {
        quota: [0; QUOTA],
        ..at(Stage::Ready)
    };
    copy = copy.ask(Party::Target, &ready, false).expect("ready");
    assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [at(Stage::Ready)]);
    copy = copy
        .ask(Party::Source, &at(Stage::Given), false)
        .expect("given");
    let have: Vec<_> = carriers(&copy.text).collect();
    assert_eq!(have, [(SOURCE, TARGET), (TARGET, SOURCE)]);
    copy = copy
        .ask(Party::Target, &at(Stage::Failed), false)
        .expect("failed");
    copy = copy
        .ask(Party::Source, &at(Stage::Back), false)
        .expect("back");
    assert_eq!(carriers(&copy.text).count(), 0);
    copy = copy
        .ask(Party::Source, &at(Stage::Closed), false)
        .expect("closed");
    assert_eq!(
        copy.text,
        b"# weft assignments: endpoint.ve root\nc000a7bdf6f00c05.0 1\nmoves 1\n"
    );
    assert_eq!(next_number(&copy.text), 2);
    for line in [
        &b"move 1 2 3 closed 0 0 0 0 0 0 0"[..],
        b"move 1 2 3 asked 0",
        b"carries 1",
        b"carries 1 2 3",
    ] {
        assert!(!is_one(line), "{line:?}");
    }
}

#[test]
fn no_host_brings_a_migration_where_it_may_not() {
    use Stage::{Asked, Back, Closed, Done, Failed, Given, Ready, Revoked};
    let all = [Closed, Asked, Ready, Given, Done, Revoked, Failed, Back];
    let may = [
        (Party::Source, Closed, Asked),
        (Party::Target, Asked, Ready),
        (Party::Source, Ready, Given),
        (Party::Target, Given, Done),
        (Party::Source, Given, Revoked),
        (Party::Source, Done, Revoked),
        (Party::Target, Given, Failed),
        (Party::Target, Revoked, Failed),
        (Party::Source, Failed, Back),
    ];
    let way = |to: Stage| -> Vec<(Party, Stage)> {
        let mut way = vec![
            (Party::Source, Asked),
            (Party::Target, Ready),
            (Party::Source, Given),
        ];
        match to {
            Closed => way.clear(),
            Asked => way.truncate(1),
            Ready => way.truncate(2),
            Given => {}
            Done => way.push((Party::Target, Done)),
            Revoked => way.push((Party::Source, Revoked)),
            Failed => way.push((Party::Target, Failed)),
            Back => way.extend([(Party::Target, Failed), (Party::Source, Back)]),
        }
        way
    };
    for from in all {
        let copy = way(from)
            .into_iter()
            .fold(Copy::default(), |copy, (party, stage)| {
                copy.ask(party, &at(stage), false).expect("it may")
            });
        assert_eq!(copy.stage(), from);
        for party in [Party::Source, Party::Target] {
            for to in all.into_iter().filter(|to| *to != from) {
                let allowed = to == Closed || may.contains(&(party, from, to));
                let done = copy.ask(party, &at(to), false);
                assert_eq!(done.is_ok(), allowed, "{party:?} {from:?} {to:?}");
                let taken =
                    party == Party::Source && matches!(from, Given | Done | Revoked) && to == Back;
                let done = copy.ask(party, &at(to), true);
                assert_eq!(
                    done.is_ok(),
                    allowed || taken,
                    "{party:?} {from:?} {to:?}, gone"
                );
                if let Ok(done) = done {
                    let exchanged = to == Given || to == Back;
                    assert_eq!(done.moved() != copy.moved(), exchanged, "{from:?} {to:?}");
                }
            }
        }
    }
}

/// The source's host is told to stop, and asks for an end while its former request is still on its way.
#[test]
fn mig_2_a_request_that_is_late_ends_nothing_that_its_sender_has_not_seen() {
    let mut copy = Copy::default();
    for (party, stage) in [(Party::Source, Stage::Asked), (Party::Target, Stage::Ready)] {
        copy = copy.ask(party, &at(stage), false).expect("in order");
    }
    let closes = Request {
        from: Stage::Ready,
        to: at(Stage::Closed),
    };
    let given = copy
        .ask(Party::Source, &at(Stage::Given), false)
        .expect("given");
    for party in [Party::Source, Party::Target] {
        let late = given.take(party, &closes, &|_| true);
        assert_eq!(late.err(), Some(Refusal::Order), "{party:?}");
        assert!(copy.take(party, &closes, &|_| true).is_ok(), "{party:?}");
    }
}

#[test]
fn a_function_is_part_of_one_migration_at_a_time() {
    let copy = Copy::default()
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    let number = next_number(&copy.text);
    for (source, target) in [(SOURCE + 5, TARGET), (SOURCE + 5, SOURCE)] {
        let other = Move {
            source,
            target,
            number,
            ..at(Stage::Asked)
        };
        let busy = copy.ask(Party::Source, &other, false);
        assert_eq!(busy.err(), Some(Refusal::Busy), "{source:x} {target:x}");
    }
    // What its own host has left behind is replaced; what was asked for it before is late.
    let next = Move {
        number,
        ..at(Stage::Asked)
    };
    let copy = copy
        .ask(Party::Source, &next, false)
        .expect("it is replaced");
    assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [next]);
    for (party, stage) in [
        (Party::Target, Stage::Ready),
        (Party::Source, Stage::Asked),
        (Party::Source, Stage::Given),
    ] {
        let late = copy.ask(party, &at(stage), false);
        assert_eq!(late.err(), Some(Refusal::Order), "{stage:?}");
    }
    // Also when that is over.
    let closed = Move {
        stage: Stage::Closed,
        ..next
    };
    let copy = copy
        .ask(Party::Source, &closed, false)
        .expect("it is closed");
    let again = copy.ask(Party::Source, &next, false);
    assert_eq!(again.err(), Some(Refusal::Order));
}

#[test]
fn a_host_moves_one_function_at_a_time_and_its_own_whatever_others_want() {
    let asked = Copy::default()
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    let number = next_number(&asked.text);
    for source in [SOURCE ^ (1 << 58), TARGET] {
        let other = Move {
            source,
            target: TARGET + 5,
            number,
            ..at(Stage::Asked)
        };
        let copy = asked.ask(Party::Source, &other, false).expect("asked");
        assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [other]);
        assert_eq!(copy.stage(), Stage::Closed, "the former one is over");
    }
}

#[test]
fn a_migration_that_no_host_is_left_to_end_makes_room_and_leaves_its_identity_where_it_is() {
    let mut copy = Copy::default();
    for (party, stage) in [
        (Party::Source, Stage::Asked),
        (Party::Target, Stage::Ready),
        (Party::Source, Stage::Given),
    ] {
        copy = copy.ask(party, &at(stage), false).expect("in order");
    }
    let next = Move {
        source: SOURCE + 5,
        target: TARGET + 5,
        number: next_number(&copy.text),
        ..at(Stage::Asked)
    };
    let ends = [next.source, next.target];
    for (there, left) in [(Some(SOURCE), 2), (Some(TARGET), 2), (None, 1)] {
        let there = |function| ends.contains(&function) || Some(function) == there;
        let asked = copy.ask_with(Party::Source, &next, &there).expect("asked");
        assert_eq!(moves(&asked.text).count(), left);
        assert!(asked.moved());
    }
}

#[test]
fn what_was_seen_of_components_makes_room() {
    let mut copy = Copy::default();
    copy.text.extend_from_slice(b"c000a7bdf6f00c05.0 1\n");
    while copy.text.len() < ROOM - 40 {
        let line = format!("seen {:x} 12345678\n", copy.text.len());
        copy.text.extend_from_slice(line.as_bytes());
    }
    let asked = copy
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    assert_eq!(moves(&asked.text).count(), 1);
    assert!(asked.text.starts_with(b"c000a7bdf6f00c05.0 1\n"));
    assert!(!asked.text.windows(4).any(|w| w == b"seen"));
    // An administrator's lines stay.
    let mut full = Copy::default();
    full.text.resize(ROOM - 40, b'#');
    let full = full.ask(Party::Source, &at(Stage::Asked), false);
    assert_eq!(full.err(), Some(Refusal::Full));
}

#[test]
fn there_is_a_limit_of_migrations_and_of_identities() {
    let one = |n: u64, stage, copy: &Copy| Move {
        source: 0x1000 + n,
        target: 0x2000 + n,
        number: match stage {
            Stage::Asked => next_number(&copy.text),
            _ => next_number(&copy.text) - 1,
        },
        ..at(stage)
    };
    let mut copy = Copy::default();
    for n in 0..MAX_MOVES as u64 {
        let asked = copy.ask(Party::Source, &one(n, Stage::Asked, &copy), false);
        copy = asked.expect("one of few");
    }
    let more = copy.ask(Party::Source, &one(99, Stage::Asked, &copy), false);
    assert_eq!(more.err(), Some(Refusal::Full));
    let mut copy = Copy::default();
    for n in 0..=MAX_CARRIED as u64 / 2 {
        for (party, stage) in [(Party::Source, Stage::Asked), (Party::Target, Stage::Ready)] {
            let done = copy.ask(party, &one(n, stage, &copy), false);
            copy = done.expect("in order");
        }
        let given = copy.ask(Party::Source, &one(n, Stage::Given, &copy), false);
        if n == MAX_CARRIED as u64 / 2 {
            assert_eq!(given.err(), Some(Refusal::Full));
            break;
        }
        copy = given.expect("given");
        let closed = copy.ask(Party::Source, &one(n, Stage::Closed, &copy), false);
        copy = closed.expect("closed");
    }
    assert_eq!(carriers(&copy.text).count(), MAX_CARRIED);
}

proptest! {
    /// Functions move here and there; each identity is always one function's.
    #[test]
    fn each_identity_is_one_functions(all in prop::collection::vec((0..5u64, 0..5u64), 0..40)) {
        let mut copy = Copy::default();
        for (source, target) in all.into_iter().filter(|(a, b)| a != b) {
            let number = next_number(&copy.text);
            let one = |stage| Move { source: 1 + source, target: 1 + target, number, ..at(stage) };
            for (party, stage) in [(Party::Source, Stage::Asked), (Party::Target, Stage::Ready),
                                   (Party::Source, Stage::Given), (Party::Source, Stage::Closed)] {
                copy = copy.ask(party, &one(stage), false).expect("in order");
            }
            let mut ids: Vec<_> = (1..6).map(|function| carried(&copy.text, function)).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, [1, 2, 3, 4, 5]);
        }
    }
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "asked", "ready", "given", "done", "revoked", "failed", "back", "closed",
    ];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        (0..6u64, 0..6u64).prop_map(|(a, b)| format!("carries {a:x} {b:x}\n").into_bytes()),
        (0..4u64).prop_map(|n| format!("moves {n:x}\n").into_bytes()),
        (0..6u64, 0..6u64, 0..4u64, 0..8usize).prop_map(move |(a, b, n, name)| {
            format!("move {a:x} {b:x} {n:x} {} 1 2 3 4 5 6 7\n", names[name]).into_bytes()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a text says, and whatever is asked for, in whatever room: it is done, or nothing is, and other
    /// lines stay.
    #[test]
    fn any_text_and_any_request_do_no_harm(
        lines in prop::collection::vec(line(), 0..40),
        (source, target, number) in (0..6u64, 0..6u64, 0..5u32),
        (from, to_stage, party) in (0..8u8, 0..8u8, any::<bool>()),
        room in 0..1200usize,
        gone in any::<bool>(),
    ) {
        let text = lines.concat();
        let named = |n| Stage::of(n).expect("a stage");
        let wanted = Move { source, target, number, ..at(named(to_stage)) };
        let before = stage(&text, &wanted);
        // Mostly the stage that it is at.
        let from = if from < 6 { before } else { named(from) };
        let request = Request { from, to: wanted };
        let party = if party { Party::Source } else { Party::Target };
        let mut to = vec![0; room];
        let around = Around { there: &|_| !gone, spare: |_| false };
        let others = |text: &[u8]| -> Vec<Vec<u8>> {
            let all = text.split(|b| *b == b'\n').filter(|line| !line.is_empty() && !is_one(line));
            all.map(<[u8]>::to_vec).collect()
        };
        if source == target {
            return Ok(());
        }
        if let Ok(len) = amend(&text, party, &request, &around, &mut to) {
            let after = &to[..len];
            prop_assert_eq!(from, before, "it is late");
            prop_assert_eq!(stage(after, &wanted), wanted.stage);
            prop_assert!(moves(after).count() <= moves(&text).count() + 1);
            prop_assert_eq!(others(after), others(&text));
        }
    }
}

#[test]
fn what_an_administrator_writes_leaves_identities_alone() {
    let mut copy = Copy::default()
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    copy.text.extend_from_slice(b"c000a7bdf6f00c05.0 1\n");
    let mut to = [0; ROOM];
    let len = keep(
        &copy.text,
        b"# mine\ncarries 1 2\nc000a7bdf6f00c05.1 2",
        &mut to,
    )
    .expect("room");
    let text = &to[..len];
    assert!(text.starts_with(b"# mine\nc000a7bdf6f00c05.1 2\nmoves 1\nmove "));
    assert_eq!(moves(text).collect::<Vec<_>>(), [at(Stage::Asked)]);
    let len = keep(b"", b"c000a7bdf6f00c05.1 2", &mut to).expect("room");
    assert_eq!(&to[..len], b"c000a7bdf6f00c05.1 2");
    assert_eq!(keep(&copy.text, &[b'#'; ROOM], &mut to), None);
    // 0 is no function.
    assert_eq!(carriers(b"carries 0 1\ncarries 1 0\n").count(), 0);
}
