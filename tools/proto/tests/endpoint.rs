// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a host and a function of a shared endpoint say to each other: only what was asked is answered.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)] // A test may.

use proptest::prelude::*;
use weft_proto::endpoint::{
    element::Nonsense, ledger::ProtocolError, part, Completion, Cqe, Entry, Ledger, Op, Place,
    Places, Protocol, Segment, Slot, Work, CQE_BYTES, FLUSHED, FUNCTION_BYTES, MAX_BYTES, MEMORY,
    PAGE, SEGMENTS,
};

fn segment(base: u64, bytes: u64) -> Segment {
    Segment { base, bytes }
}

fn work(op: Op, segments: &[Segment], sources: usize) -> Work<'_> {
    Work {
        op,
        segments,
        sources,
    }
}

#[test]
fn q_1_work_has_segments_where_its_operation_has_them_and_ends_where_memory_does() {
    use Nonsense::{Length, NoRoom, Segments, TooLong};
    let a = segment(0x1000, 8);
    let all = [a; SEGMENTS + 1];
    for (op, segments, sources, wanted) in [
        (Op::Nop, &all[..0], 0, Ok(0)),
        (Op::Nop, &all[..1], 1, Err(Segments)),
        (Op::Crc32c, &all[..7], 7, Ok(56)),
        (Op::Crc32c, &all[..8], 8, Err(Segments)),
        (Op::Crc32c, &all[..0], 0, Err(Segments)),
        (Op::Crc32c, &all[..2], 1, Err(Segments)),
        (Op::Copy, &all[..2], 1, Ok(8)),
        (Op::Copy, &all[..3], 1, Ok(8)),
        (Op::Copy, &all[..1], 1, Err(Segments)),
        (Op::Copy, &all[..2], 3, Err(Segments)),
        (Op::CopyCrc32c, &all[..3], 2, Err(NoRoom)),
        (Op::Crc32c, &[segment(5, 0)], 1, Err(Length)),
        (Op::Crc32c, &[segment(u64::MAX, 1)], 1, Ok(1)),
        (Op::Crc32c, &[segment(u64::MAX, 2)], 1, Err(Length)),
        (Op::Crc32c, &[segment(0, MAX_BYTES)], 1, Ok(MAX_BYTES)),
        (Op::Crc32c, &[segment(0, MAX_BYTES), a], 2, Err(TooLong)),
        (Op::Crc32c, &[segment(0, u64::MAX); 7], 7, Err(TooLong)),
    ] {
        let work = work(op, segments, sources);
        assert_eq!(work.check(), wanted, "{work:?}");
    }
    assert_eq!(
        [0, 1, 2, 3, 4, 256].map(|op| Op::of(op).map(Op::sums)),
        [Some(false), Some(false), Some(true), Some(true), None, None]
    );
}

#[test]
fn q_1_elements_are_as_the_manual_has_them() {
    let segments = [segment(0x0102_0304_0506_0708, 16), segment(0x1000, 0x20)];
    let wqe = work(Op::CopyCrc32c, &segments, 1).encode(0xa1a2_a3a4_a5a6_a7a8, true);
    let mut wanted = [0; 128];
    wanted[..4].copy_from_slice(&[3, 1, 1, 0b11]);
    wanted[8..16].copy_from_slice(&0xa1a2_a3a4_a5a6_a7a8u64.to_le_bytes());
    let words = [
        0x0102_0304_0506_0708u64,
        0x0102_0304_0506_0717,
        0x1000,
        0x101f,
    ];
    for (n, word) in words.into_iter().enumerate() {
        wanted[16 + 8 * n..24 + 8 * n].copy_from_slice(&word.to_le_bytes());
    }
    assert_eq!(wqe, wanted);
    assert_eq!(work(Op::Copy, &segments, 1).encode(0, false)[3], 0);
    let mut cqe = [0; CQE_BYTES];
    cqe[..8].copy_from_slice(&7u64.to_le_bytes());
    cqe[8..12].copy_from_slice(&3u32.to_le_bytes());
    cqe[12..16].copy_from_slice(&0xdead_beefu32.to_le_bytes());
    cqe[16..24].copy_from_slice(&(1u64 << 33).to_le_bytes());
    cqe[24..28].copy_from_slice(&9u32.to_le_bytes());
    let parsed = Cqe {
        cookie: 7,
        status: 3,
        crc: 0xdead_beef,
        bytes: 1 << 33,
        number: 9,
    };
    assert_eq!(Cqe::parse(&cqe), parsed);
}

fn ledger(entries: usize) -> Ledger<Vec<Slot>> {
    Ledger::new(vec![Slot::default(); entries])
}

fn entry(cookie: u64) -> Entry {
    Entry {
        cookie,
        bytes: 100,
        sums: cookie % 2 == 0,
    }
}

fn done(number: u32) -> Cqe {
    Cqe {
        cookie: number.into(),
        status: 0,
        crc: 5,
        bytes: 100,
        number: number.wrapping_add(1),
    }
}

#[test]
fn q_2_completions_count_one_after_the_other_and_only_if_they_can_be_true() {
    let mut ledger = ledger(4);
    assert_eq!((ledger.room(), ledger.is_next(1)), (4, false));
    for n in 0..4 {
        assert_eq!(ledger.post(entry(1000 + n)), Some(n as u32));
    }
    assert_eq!((ledger.room(), ledger.post(entry(0))), (0, None));
    let good = done(0);
    for bad in [
        Cqe { cookie: 1, ..good },
        Cqe { number: 2, ..good },
        Cqe { number: 0, ..good },
        Cqe { status: 5, ..good },
        Cqe { bytes: 99, ..good },
        Cqe { bytes: 101, ..good },
        Cqe {
            bytes: 101,
            status: 3,
            ..good
        },
    ] {
        assert_eq!(ledger.complete(&bad), Err(ProtocolError), "{bad:?}");
    }
    let completion = |cookie, status, crc, bytes| Completion {
        cookie,
        status,
        crc,
        bytes,
    };
    assert_eq!(ledger.complete(&good), Ok(completion(1000, 0, 5, 100)));
    let less = Cqe {
        bytes: 64,
        status: 3,
        ..done(1)
    };
    assert_eq!(ledger.complete(&good), Err(ProtocolError), "once");
    // No sum was asked for.
    assert_eq!(ledger.complete(&less), Ok(completion(1001, 3, 0, 64)));
    assert_eq!((ledger.outstanding(), ledger.done()), (2, 2));
    ledger.flush();
    assert_eq!((ledger.outstanding(), ledger.waiting()), (0, 4));
    assert_eq!(ledger.next(1), Some(completion(1001, 3, 0, 64)));
    assert_eq!(ledger.next(2), Some(completion(1002, FLUSHED, 0, 0)));
    assert_eq!(ledger.next(3), Some(completion(1003, FLUSHED, 0, 0)));
    assert_eq!(
        ledger.complete(&done(4)),
        Err(ProtocolError),
        "nothing was asked"
    );
    ledger.begin();
    assert_eq!(ledger.post(entry(9)), Some(0));
}

#[test]
fn q_2_completions_stay_until_they_were_told() {
    let mut ledger = ledger(2);
    for n in 0..2 {
        ledger.post(entry(n)).unwrap();
    }
    assert_eq!(ledger.next(0), None, "none has come");
    assert!(!ledger.tell(0, 1));
    ledger.complete(&done(0)).unwrap();
    // Who is about to be told may turn out not to be there.
    for _ in 0..2 {
        assert_eq!(ledger.next(0).map(|done| done.cookie), Some(0));
        assert_eq!((ledger.waiting(), ledger.next(1)), (1, None));
    }
    assert_eq!(
        (ledger.outstanding(), ledger.room()),
        (1, 0),
        "its place is not free"
    );
    assert_eq!(ledger.post(entry(2)), None);
    // Of two who look at once, one has got it.
    assert!(!ledger.tell(0, 2), "more than there are");
    assert!(ledger.tell(0, 1) && !ledger.tell(0, 1));
    assert_eq!((ledger.told(), ledger.room(), ledger.next(0)), (1, 1, None));
    assert_eq!(ledger.post(entry(2)), Some(2));
    // It is in the place of the first, behind the second.
    ledger.complete(&done(1)).unwrap();
    ledger.complete(&done(2)).unwrap();
    let cookies = [0, 1].map(|n| ledger.next(n).map(|done| done.cookie));
    assert_eq!(cookies, [Some(1), Some(2)]);
    assert!(ledger.tell(1, 2));
    assert_eq!((ledger.waiting(), ledger.room()), (0, 2));
}

proptest! {
    /// Whatever an endpoint writes, nothing completes that was not posted, or twice, or out of turn.
    #[test]
    fn q_2_no_end_invents_completions(
        steps in prop::collection::vec((0u32..3, 0u32..20, 0u64..20, 0u32..7, 0u64..200), 1..200),
    ) {
        let mut ledger = ledger(8);
        let (mut posted, mut back, mut told) = (0u64, 0u64, 0u64);
        for (step, number, cookie, status, bytes) in steps {
            if step == 0 {
                posted += u64::from(ledger.post(entry(posted)).is_some());
                continue;
            }
            if step == 1 {
                let next = ledger.next(0).map(|done| done.cookie);
                prop_assert_eq!(next, (told < back).then_some(told));
                told += u64::from(ledger.tell(told as u32, 1));
                continue;
            }
            let cqe = Cqe { cookie, status, crc: 1, bytes, number };
            if let Ok(completion) = ledger.complete(&cqe) {
                prop_assert_eq!(completion.cookie, back);
                prop_assert!(completion.bytes <= 100);
                back += 1;
            }
            prop_assert!(told <= back && back <= posted && posted - told <= 8);
        }
        prop_assert_eq!(u64::from(ledger.outstanding()), posted - back);
    }

    /// Queues and data are apart, and inside of what there is.
    #[test]
    fn q_3_queues_have_places_apart(shift in 0u32..=10, modes in 0u8..8) {
        let entries = 1 << shift;
        let protocol = Protocol {
            push_wqe: modes & 1 != 0,
            push_data: modes & 2 != 0,
            pull_cqe: modes & 4 != 0,
        };
        let Some(places) = Places::new(entries, protocol) else {
            let bytes = |has: bool, each: u64| {
                if has { (u64::from(entries) * each).next_multiple_of(PAGE) } else { 0 }
            };
            let own = bytes(protocol.push_wqe, 128) + bytes(protocol.pull_cqe, 32);
            prop_assert!(MEMORY + own > FUNCTION_BYTES);
            return Ok(());
        };
        let Places { wq, cq, host, free } = places;
        prop_assert_eq!((wq.own, cq.own), (protocol.push_wqe, protocol.pull_cqe));
        prop_assert_eq!((wq.bytes, cq.bytes), (u64::from(entries) * 128, u64::from(entries) * 32));
        let end = |place: Place| place.at + place.bytes;
        for place in [wq, cq] {
            let (from, to) = if place.own { (MEMORY, free) } else { (0, host) };
            prop_assert!(place.at % PAGE == 0 && from <= place.at && end(place) <= to);
        }
        prop_assert!(wq.own != cq.own || end(wq) <= cq.at || end(cq) <= wq.at);
        prop_assert!(free <= FUNCTION_BYTES);
    }

    /// What is opened to one function is no other's, and inside of base and limit.
    #[test]
    fn mr_4_parts_are_apart_and_inside(
        base in (0u64..1 << 40).prop_map(|page| page * PAGE),
        pages in 1u64..1 << 18,
        functions in 1u32..=4,
    ) {
        let limit = base + pages * PAGE - 1;
        let mut before = base;
        for function in 0..functions {
            for n in 0..5 {
                let Some((at, bytes)) = part((base, limit), (function, functions), (n, 5)) else {
                    prop_assert!(pages < u64::from(functions) * 5);
                    continue;
                };
                prop_assert!(at >= before && bytes != 0 && at % PAGE == 0 && bytes % PAGE == 0);
                before = at + bytes;
                prop_assert!(before - 1 <= limit);
            }
        }
        prop_assert_eq!(part((base, limit), (functions, functions), (0, 5)), None);
        prop_assert_eq!(part((limit, base), (0, functions), (0, 5)), None);
    }
}
