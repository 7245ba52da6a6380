// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L-7: atomic operations, packets, flow control, retries, counters and triggered operations.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use std::collections::VecDeque;
use weft_proto::matching::{
    atomic::{Change, Integer, Operation, MOST, SIGNED},
    counter::{Counter, Counters, Of, Trigger},
    flow::{ProtocolError, Refusal, Refusals, Source, Stage},
    packet::{Packet, Packets},
    retry::{Class, Id, Operations, Pending, Policy, Verdict},
};

const ALL: [Operation; 20] = [
    Operation::Min,
    Operation::Max,
    Operation::Sum,
    Operation::Product,
    Operation::Difference,
    Operation::LogicalOr,
    Operation::LogicalAnd,
    Operation::BitOr,
    Operation::BitAnd,
    Operation::LogicalXor,
    Operation::BitXor,
    Operation::Read,
    Operation::Write,
    Operation::SwapEqual,
    Operation::SwapNotEqual,
    Operation::SwapLessEqual,
    Operation::SwapLess,
    Operation::SwapGreaterEqual,
    Operation::SwapGreater,
    Operation::MaskedSwap,
];

/// An operation on integers of a type, in that type.
macro_rules! typed {
    ($integer:ty, $operation:expr, $memory:expr, $operand:expr, $compare:expr) => {{
        let (old, with, compare) = (
            $memory as $integer,
            $operand as $integer,
            $compare as $integer,
        );
        let swap = |set: bool| if set { with } else { old };
        let new: $integer = match $operation {
            Operation::Min => old.min(with),
            Operation::Max => old.max(with),
            Operation::Sum => old.wrapping_add(with),
            Operation::Product => old.wrapping_mul(with),
            Operation::Difference => old.wrapping_sub(with),
            Operation::LogicalOr => <$integer>::from(old != 0 || with != 0),
            Operation::LogicalAnd => <$integer>::from(old != 0 && with != 0),
            Operation::LogicalXor => <$integer>::from((old == 0) != (with == 0)),
            Operation::BitOr => old | with,
            Operation::BitAnd => old & with,
            Operation::BitXor => old ^ with,
            Operation::Read => old,
            Operation::Write => with,
            Operation::SwapEqual => swap(compare == old),
            Operation::SwapNotEqual => swap(compare != old),
            Operation::SwapLessEqual => swap(compare <= old),
            Operation::SwapLess => swap(compare < old),
            Operation::SwapGreaterEqual => swap(compare >= old),
            Operation::SwapGreater => swap(compare > old),
            Operation::MaskedSwap => (with & compare) | (old & !compare),
        };
        // As bits, without those of the sign.
        (new as u64) << (64 - <$integer>::BITS) >> (64 - <$integer>::BITS)
    }};
}

fn expected(operation: Operation, bytes: u8, signed: bool, words: [u64; 3]) -> u64 {
    let [memory, operand, compare] = words;
    match (bytes, signed) {
        (1, false) => typed!(u8, operation, memory, operand, compare),
        (2, false) => typed!(u16, operation, memory, operand, compare),
        (4, false) => typed!(u32, operation, memory, operand, compare),
        (8, false) => typed!(u64, operation, memory, operand, compare),
        (1, true) => typed!(i8, operation, memory, operand, compare),
        (2, true) => typed!(i16, operation, memory, operand, compare),
        (4, true) => typed!(i32, operation, memory, operand, compare),
        _ => typed!(i64, operation, memory, operand, compare),
    }
}

/// Words among which equal ones and the ends of ranges are frequent.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..3,
        prop::sample::select(vec![0x7f, 0x80, 0xffff, 1 << 31, 1 << 63, u64::MAX]),
    ]
}

proptest! {
    #[test]
    fn l_7_atomic_operations_are_those_of_the_integers(
        words in [word(), word(), word()],
        shift in 0usize..4,
        signed in any::<bool>(),
    ) {
        let bytes = 1u8 << shift;
        let integer = Integer::new(bytes, signed).expect("a width");
        prop_assert_eq!(integer.bytes(), bytes);
        for operation in ALL {
            let [memory, operand, compare] = words;
            prop_assert_eq!(
                operation.apply(integer, memory, operand, compare),
                expected(operation, bytes, signed, words),
                "{:?} of {} bytes, signed {}", operation, bytes, signed
            );
        }
    }

    #[test]
    fn l_7_packets_cover_a_message_once(length in 0u64..100_000, mtu in 1u32..5000) {
        let packets: Vec<Packet> = Packets::new(length, mtu).collect();
        let mut end = 0;
        for (n, packet) in packets.iter().enumerate() {
            prop_assert_eq!(packet.offset, end);
            prop_assert_eq!(packet.first, n == 0);
            prop_assert_eq!(packet.last, n + 1 == packets.len());
            prop_assert!(packet.last || packet.length == mtu);
            prop_assert!(packet.length <= mtu);
            end += u64::from(packet.length);
        }
        prop_assert_eq!(end, length);
        prop_assert!(!packets.is_empty());
    }
}

#[test]
fn l_7_there_are_no_integers_of_other_widths() {
    for bytes in [0, 3, 5, 16, 255] {
        assert_eq!(Integer::new(bytes, true), None);
    }
    let compares = ALL.iter().filter(|operation| operation.compares()).count();
    assert_eq!(compares, 7);
    assert!(ALL
        .iter()
        .all(|operation| operation.only_reads() == (*operation == Operation::Read)));
}

#[test]
fn l_7_operations_and_integers_have_numbers() {
    for (number, operation) in (1..).zip([
        Operation::Min,
        Operation::Max,
        Operation::Sum,
        Operation::Product,
    ]) {
        assert_eq!(Operation::of(number), Some(operation));
    }
    let known = (0..=u8::MAX).filter_map(Operation::of);
    assert_eq!(known.collect::<Vec<_>>().len(), ALL.len());
    for bytes in [1, 2, 4, 8] {
        assert_eq!(Integer::of(bytes), Integer::new(bytes, false));
        assert_eq!(Integer::of(bytes | SIGNED), Integer::new(bytes, true));
    }
    for none in [0, 3, 16, SIGNED, SIGNED | 16] {
        assert_eq!(Integer::of(none), None);
        assert_eq!(Change::of(Operation::Sum as u8, none), None);
    }
    assert_eq!(Change::of(0, 4), None);
}

fn change(operation: Operation, integer: u8) -> Change {
    Change::of(operation as u8, integer).expect("there are such")
}

#[test]
fn l_7_operands_are_as_many_as_the_integers() {
    assert_eq!(change(Operation::Sum, 4).operands(8), Some(8));
    assert_eq!(change(Operation::SwapEqual, 4).operands(8), Some(16));
    assert_eq!(change(Operation::Read, 4).operands(8), Some(0));
    assert_eq!(change(Operation::Sum, 1).operands(MOST), Some(MOST));
    for (integer, length) in [
        (4, 0),
        (4, 6),
        (8, 12),
        (2, 1),
        (1, MOST + 1),
        (8, u64::MAX - 7),
    ] {
        assert_eq!(change(Operation::Sum, integer).operands(length), None);
    }
}

#[test]
fn l_7_each_integer_has_its_operand() {
    let operands = [1, 0, 2, 0, 3, 0, 10, 0, 20, 0, 30, 0];
    let swap = change(Operation::SwapEqual, 2);
    // Two operands more than there are integers: those to compare with.
    assert_eq!(swap.apply(10, &operands, 6, 0), 1);
    assert_eq!(swap.apply(10, &operands, 6, 2), 10);
    assert_eq!(swap.apply(30, &operands, 6, 4), 3);
    let sum = change(Operation::Sum, 2);
    assert_eq!(sum.apply(0xffff, &operands, 12, 2), 1);
    // What has not come is 0.
    assert_eq!(sum.apply(7, &operands, 12, 12), 7);
    assert_eq!(sum.apply(7, &operands[..1], 2, 0), 7);
}

#[test]
fn l_7_a_message_of_any_length_has_an_end() {
    assert_eq!(Packets::new(5, 0).next(), None);
    let mut packets = Packets::new(u64::MAX, u32::MAX);
    assert_eq!(packets.next().expect("the first").offset, 0);
    assert_eq!(
        packets.next().expect("the second").offset,
        u64::from(u32::MAX)
    );
}

fn operations(places: usize, retries: u8) -> Operations<Vec<Pending>> {
    Operations::new(vec![Pending::free(0); places], Policy { retries })
}

#[test]
fn l_7_idempotent_operations_are_retried_and_ordered_ones_fail() {
    let mut table = operations(8, 2);
    let get = table.begin(Class::Idempotent, 10).expect("room");
    let atomic = table.begin(Class::Ordered, 11).expect("room");
    let other = table.begin(Class::Ordered, 12).expect("room");
    assert_eq!(table.lose(atomic), Some(Verdict::Fail(11)));
    let Some(Verdict::Retry(again, 10)) = table.lose(get) else {
        panic!("not tried again")
    };
    // Answers to the tries before are late: they complete nothing.
    assert_ne!(again, get);
    assert_eq!((table.find(get), table.find(again)), (None, Some(10)));
    assert_eq!((table.complete(get), table.lose(get)), (None, None));
    assert_eq!(table.complete(atomic), None);
    assert_eq!(table.complete(again), Some(10));
    assert_eq!(table.complete(again), None, "once");
    assert_eq!(table.complete(other), Some(12));
    assert_eq!(table.complete(Id(77)), None);
}

#[test]
fn l_5_an_operation_gets_another_number_and_the_table_grows() {
    let mut table = operations(1, 3);
    let first = table.begin(Class::Ordered, 5).unwrap();
    assert_eq!(table.begin(Class::Ordered, 6), None);
    table.memory().resize(2, Pending::free(0));
    let second = table.begin(Class::Ordered, 6).unwrap();
    table.renumber(first, 64);
    assert_eq!((table.find(first), table.find(second)), (Some(64), Some(6)));
    assert_eq!(table.complete(first), Some(64));
    // Of one that is over nothing is noted, nor of what has its place then.
    table.renumber(first, 7);
    let third = table.begin(Class::Ordered, 8).unwrap();
    table.renumber(first, 9);
    assert_eq!((table.find(first), table.find(third)), (None, Some(8)));
    assert_eq!(table.lose(second), Some(Verdict::Fail(6)));
}

#[test]
fn l_7_retries_end() {
    let mut table = operations(1, 2);
    let mut last = table.begin(Class::Idempotent, 10).expect("room");
    assert_eq!(table.begin(Class::Ordered, 11), None, "no place");
    for _ in 0..2 {
        match table.lose(last) {
            Some(Verdict::Retry(again, 10)) => last = again,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(table.lose(last), Some(Verdict::Fail(10)));
    assert_eq!(table.lose(last), None);
    assert!(table.begin(Class::Ordered, 11).is_some());
}

type VecCounters = Counters<Vec<Counter>, Vec<Trigger>>;

fn counters(triggers: usize) -> VecCounters {
    Counters::new(vec![Counter::ZERO; 2], vec![Trigger::FREE; triggers])
}

#[test]
fn l_7_triggered_operations_are_due_by_threshold() {
    let mut counters = counters(5);
    for (threshold, operation) in [(3, 30), (1, 10), (2, 20), (1, 11)] {
        assert!(counters.add(0, Of::Successes, threshold, operation));
    }
    assert!(counters.add(1, Of::All, 1, 99));
    assert!(!counters.add(0, Of::Successes, 1, 12), "no place");
    assert!(!counters.add(2, Of::Successes, 1, 12), "no such counter");
    assert_eq!(counters.due(0), None);
    counters.count(0, 0, 5);
    assert_eq!(counters.due(0), None, "these wait for successes");
    counters.count(0, 1, 0);
    assert_eq!((counters.due(0), counters.due(0)), (Some(10), Some(11)));
    assert_eq!(counters.due(0), None);
    counters.count(0, 2, 0);
    assert_eq!((counters.due(0), counters.due(0)), (Some(20), Some(30)));
    // One whose threshold is reached is due at once.
    assert!(counters.add(0, Of::Successes, 2, 21));
    assert_eq!(counters.due(0), Some(21));
    // Of all three successes and five failures.
    assert!(counters.add(0, Of::All, 9, 80) && counters.add(0, Of::All, 8, 70));
    assert!(counters.add(0, Of::Successes, 4, 40));
    assert_eq!((counters.due(0), counters.due(0)), (Some(70), None));
    counters.count(0, 0, 1);
    assert_eq!((counters.due(0), counters.due(0)), (Some(80), None));
    assert_eq!((counters.cancel(0), counters.cancel(0)), (Some(40), None));
    assert_eq!((counters.cancel(1), counters.cancel(1)), (Some(99), None));
    counters.set(1, 7, 0);
    assert!(counters.add(1, Of::Successes, 7, 70));
    assert_eq!(counters.due(1), Some(70));
    counters.set(1, u64::MAX, u64::MAX);
    assert!(counters.add(1, Of::All, u64::MAX, 71));
    assert_eq!(counters.due(1), Some(71));
}

proptest! {
    #[test]
    fn l_7_each_triggered_operation_is_due_once(
        acts in prop::collection::vec((0u8..6, 0u64..20, 0u32..2), 1..200),
    ) {
        let mut counters = counters(12);
        // By counter, and by what they wait for.
        let mut model: Vec<[Vec<(u64, u64)>; 2]> = vec![Default::default(); 2];
        let mut counts = [[0; 2]; 2];
        for (number, (what, value, counter)) in (0..).zip(acts) {
            let at = counter as usize;
            match what {
                0 | 1 => {
                    let room = model.iter().flatten().map(Vec::len).sum::<usize>() < 12;
                    let of = [Of::Successes, Of::All][what as usize];
                    prop_assert_eq!(counters.add(counter, of, value, number), room);
                    if room {
                        let list = &mut model[at][what as usize];
                        list.push((value, number));
                        list.sort_by_key(|(threshold, _)| *threshold);
                    }
                }
                2 | 3 => {
                    let [success, failure] = if what == 2 { [value / 8, 0] } else { [0, value / 8] };
                    counts[at][0] += success;
                    counts[at][1] += success + failure;
                    counters.count(counter, success, failure);
                }
                4 => {
                    let list = &mut model[at][value as usize % 2];
                    let given_up = list.get(value as usize / 2).map(|(_, number)| *number);
                    list.retain(|(_, number)| Some(*number) != given_up);
                    let others = model[1 - at].iter().flatten().next();
                    let other = others.map_or(u64::MAX, |(_, number)| *number);
                    prop_assert!(!counters.withdraw(counter, other));
                    if let Some(number) = given_up {
                        prop_assert!(counters.withdraw(counter, number));
                    }
                }
                _ => {
                    let mut lists = model[at].iter_mut().zip(counts[at]);
                    let due = lists.find_map(|(list, counted)| {
                        let (least, _) = *list.first()?;
                        (least <= counted).then(|| list.remove(0).1)
                    });
                    prop_assert_eq!(counters.due(counter), due);
                }
            }
        }
    }
}

/// A source, a link that delivers in order both ways, and a target with a queue and an engine. Both have room by
/// chance.
struct Link {
    source: Source,
    there: VecDeque<u32>,
    back: VecDeque<Said>,
    queue: VecDeque<u32>,
    refusals: Refusals<Vec<Refusal>>,
    taken: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Said {
    Acknowledge(u32),
    NoSpace(u32),
    Resume,
}

const FROM: u32 = 77;
const TO: u16 = 5;

impl Link {
    fn new(places: usize) -> Self {
        Self {
            source: Source::new(),
            there: VecDeque::new(),
            back: VecDeque::new(),
            queue: VecDeque::new(),
            refusals: Refusals::new(vec![Refusal::FREE; places], [3, 4]),
            taken: vec![],
        }
    }

    fn arrive(&mut self, room: bool) {
        let Some(number) = self.there.pop_front() else {
            return;
        };
        if !self.refusals.admit(FROM, TO, number, Stage::Queue) {
            return;
        }
        if room {
            self.queue.push_back(number);
        } else {
            assert!(self.refusals.refuse(FROM, TO, number, Stage::Queue));
            self.back.push_back(Said::NoSpace(number));
        }
    }

    fn execute(&mut self, room: bool) {
        let Some(number) = self.queue.pop_front() else {
            return;
        };
        if !self.refusals.admit(FROM, TO, number, Stage::Engine) {
            return;
        }
        if room {
            self.taken.push(number);
            self.back.push_back(Said::Acknowledge(number));
        } else {
            assert!(self.refusals.refuse(FROM, TO, number, Stage::Engine));
            self.back.push_back(Said::NoSpace(number));
        }
    }

    fn resume(&mut self) {
        if let Some((source, endpoint, _)) = self.refusals.resume(Some(TO), 0) {
            assert_eq!((source, endpoint), (FROM, TO));
            self.back.push_back(Said::Resume);
        }
    }

    fn hear(&mut self) {
        let heard = match self.back.pop_front() {
            Some(Said::Acknowledge(number)) => self.source.acknowledge(number),
            Some(Said::NoSpace(number)) => self.source.no_space(number),
            Some(Said::Resume) => self.source.resume(),
            None => Ok(()),
        };
        assert_eq!(heard, Ok(()));
    }
}

proptest! {
    #[test]
    fn l_7_messages_are_taken_once_and_in_order_whatever_room_there_is(
        acts in prop::collection::vec((0u8..7, any::<bool>()), 1..400),
    ) {
        let mut link = Link::new(1);
        let mut queued = 0;
        let last = (0..4000).map(|n| ((n % 6) as u8, true));
        for (what, room) in acts.into_iter().chain(last) {
            match what {
                0 if queued < 60 => queued += u32::from(link.source.queue(16).is_some()),
                0 => {}
                1 => link.there.extend(link.source.send()),
                2 => link.arrive(room),
                3 => link.execute(room),
                4 => link.resume(),
                5 => link.hear(),
                // There was no room on the way for the last one.
                _ => {
                    let was_clear = link.source.is_clear();
                    if let Some(number) = link.there.pop_back() {
                        link.source.unsend(number);
                        prop_assert!(!was_clear || !link.source.is_clear());
                    }
                }
            }
        }
        let expected: Vec<u32> = (0..queued).collect();
        prop_assert_eq!(&link.taken, &expected);
        prop_assert_eq!(link.source.unacknowledged(), 0);
        prop_assert_eq!(link.source.oldest(), queued);
        prop_assert!(link.source.is_clear());
        prop_assert!(!link.refusals.any());
        prop_assert!(link.refusals.resume(None, 0).is_none());
    }
}

#[test]
fn l_7_a_target_that_breaks_the_protocol_is_noticed() {
    let mut source = Source::new();
    assert_eq!(source.resume(), Err(ProtocolError));
    assert_eq!(source.acknowledge(0), Err(ProtocolError));
    assert_eq!(source.no_space(0), Err(ProtocolError));
    assert_eq!(source.queue(2), Some(0));
    assert_eq!(source.queue(2), Some(1));
    assert_eq!(source.queue(2), None, "no more than two");
    assert_eq!(source.acknowledge(0), Err(ProtocolError), "it is not sent");
    assert_eq!(source.send(), Some(0));
    assert_eq!(source.acknowledge(1), Err(ProtocolError));
    assert_eq!(source.acknowledge(0), Ok(()));
    assert_eq!(source.acknowledge(0), Err(ProtocolError), "twice");
}

#[test]
fn l_7_what_had_no_room_on_the_way_is_sent_again() {
    let mut source = Source::new();
    assert!(source.is_clear());
    for number in 0..4 {
        assert_eq!(source.queue(8), Some(number));
        assert!(!source.is_clear());
        assert_eq!(source.send(), Some(number));
        assert!(source.is_clear());
    }
    assert_eq!(source.acknowledge(0), Ok(()));
    assert_eq!(source.oldest(), 1);
    source.unsend(2);
    assert!(!source.is_clear());
    // What was answered, or is to be sent anyhow, is not meant.
    source.unsend(0);
    source.unsend(3);
    assert_eq!(
        [source.send(), source.send(), source.send()],
        [Some(2), Some(3), None]
    );
    // Nothing is sent before the target may have space, whatever had no room.
    assert_eq!(source.no_space(1), Ok(()));
    source.unsend(3);
    assert!(!source.is_clear());
    assert_eq!(source.send(), None);
    assert_eq!(source.resume(), Ok(()));
    assert_eq!(source.send(), Some(1));
}

#[test]
fn l_7_a_target_has_state_for_refused_sources_alone() {
    let mut refusals = Refusals::new(vec![Refusal::FREE; 4], [1, 2]);
    assert!(refusals.admit(1, 1, 5, Stage::Queue));
    assert!(!refusals.any());
    for source in 0..4 {
        assert!(refusals.refuse(source, 1, 5, Stage::Engine));
        assert!(
            refusals.refuse(source, 1, 5, Stage::Engine),
            "it has a place"
        );
    }
    assert!(!refusals.refuse(4, 1, 5, Stage::Queue), "no place");
    // Others, and other endpoints, go on.
    assert!(refusals.admit(9, 1, 6, Stage::Queue));
    assert!(refusals.admit(0, 2, 6, Stage::Queue));
    assert!(!refusals.admit(0, 1, 6, Stage::Queue));
    let mut told = vec![];
    let mut from = 0;
    while let Some((source, endpoint, next)) = refusals.resume(Some(1), from) {
        told.push((source, endpoint));
        from = next;
    }
    assert_eq!(told, [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(refusals.resume(None, 0), None, "they are told once");
    assert!(refusals.admit(2, 1, 5, Stage::Queue));
    assert!(refusals.admit(2, 1, 5, Stage::Engine));
    assert!(refusals.admit(2, 1, 6, Stage::Queue));
    assert!(refusals.refuse(4, 1, 5, Stage::Queue), "its place");
    refusals.forget(|source, _| source != 4);
    assert!(refusals.admit(3, 1, 9, Stage::Queue));
    assert!(!refusals.admit(4, 1, 9, Stage::Queue));
}
