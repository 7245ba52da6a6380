// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Regions: those of others that are accessed, and those of the program, against events that a driver posts.

use super::*;
use crate::endpoint::task::{Parts, Remote};
use crate::regions::{KEYS, Region};
use std::sync::Arc;
use weft::matching::{Change, Operation};

const BOTH: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

fn remote() -> Remote {
    Remote {
        to: Address { hwid: 1, endpoint: 2, generation: 3 },
        key: 0xabc,
        offset: 77,
        context: context(5),
        telling: true.into(),
        inject: false,
        fence: false,
    }
}

fn sum() -> Change {
    Change::new(Operation::Sum, 8, false).expect("there is one")
}

/// The last access, as text: it says all of it.
fn last(engine: &mut Engine<Fake>) -> String {
    engine.rings().accesses.last().expect("there was one").clone()
}

fn bits(with: u64) -> String {
    format!("bits: {},", (1u64 << 61) | with | 0xabc)
}

fn ended(number: u64, stored: u64) -> Event {
    Event { stored, ..event(EventKind::Sent, number) }
}

#[test]
fn what_is_written_is_in_the_ring_or_where_the_program_has_it() {
    let mut engine = engine(64);
    let mut bytes = [1u8; 200];
    for (n, length) in [0, 64, 65, 200].into_iter().enumerate() {
        let inject = n == 3;
        let remote = Remote { inject, ..remote() };
        // SAFETY: The memory is there for longer than the engine uses it.
        unsafe { engine.write(&remote, None, &[piece(&mut bytes[..length])]) }.expect("posted");
        let text = last(&mut engine);
        assert_eq!(text.contains("InRing"), length <= 64, "{text}");
        assert_eq!(text.contains(&format!("address: {}", bytes.as_ptr() as u64)), n == 2, "{text}");
        assert!(text.contains(&bits(0)) && text.contains("offset: 77"), "{text}");
    }
    assert!(engine.is_injecting());
    let told = hear(&mut engine, [ended(0, 0), ended(1, 64), ended(2, 65), ended(3, 200)]);
    assert_eq!(errors(&told), [0; 4]);
    assert!(told.iter().all(|o| o.side == Side::Write && o.done.entry.flags == FI_RMA | FI_WRITE));
    assert_eq!((told[0].done.entry.op_context, engine.is_injecting()), (context(5), false));
    // With data there is another entry of the region.
    // SAFETY: As above.
    unsafe { engine.write(&remote(), Some(9), &[piece(&mut bytes)]) }.expect("posted");
    let text = last(&mut engine);
    assert!(text.contains(&bits(1 << 60)) && text.contains("data: 9"), "{text}");
    assert_eq!(engine.room(), (MOST - 1, MOST));
}

#[test]
fn an_access_that_fails_says_why() {
    let mut engine = engine(64);
    let mut bytes = [0u8; 100];
    let mut write = |engine: &mut Engine<Fake>| {
        // SAFETY: The memory is there for longer than the engine uses it.
        unsafe { engine.write(&remote(), None, &[piece(&mut bytes)]) }
    };
    for (status, error) in [
        (libc::ENOENT, FI_ENOKEY),
        (libc::EPERM, FI_EACCES),
        (libc::EMSGSIZE, FI_EACCES),
        (libc::ECONNRESET, FI_ECONNRESET),
        (libc::ENXIO, FI_EHOSTUNREACH),
    ] {
        write(&mut engine).expect("posted");
        let told = hear(&mut engine, [failed(EventKind::Sent, 0, status)]);
        assert_eq!((told[0].done.error, told[0].done.prov_errno), (error, status));
    }
    // The region ends within what was meant.
    write(&mut engine).expect("posted");
    let told = hear(&mut engine, [ended(0, 99)]);
    assert_eq!((told[0].done.error, told[0].done.prov_errno), (FI_EACCES, libc::EMSGSIZE));
    for _ in 0..MOST {
        write(&mut engine).expect("posted");
    }
    assert_eq!(write(&mut engine), Err(FI_EAGAIN));
}

#[test]
fn what_is_read_goes_where_the_pieces_are() {
    let mut engine = engine(64);
    let (mut a, mut b) = ([9u8; 3], [0u8; 4]);
    // SAFETY: The memory is there for longer than the engine uses it.
    unsafe { engine.read(&remote(), &[piece(&mut a)]) }.expect("posted");
    let text = last(&mut engine);
    assert!(text.contains(&format!("address: {}", a.as_ptr() as u64)), "{text}");
    assert!(text.contains(&bits(0)) && text.contains("offset: 77"), "{text}");
    let told = hear(&mut engine, [ended(0, 3)]);
    assert_eq!((told[0].done.error, told[0].side), (0, Side::Read));
    assert_eq!(told[0].done.entry.flags, FI_RMA | FI_READ);
    for (stored, error) in [(7, 0), (6, FI_EACCES)] {
        a.fill(9);
        b.fill(9);
        // SAFETY: As above.
        unsafe { engine.read(&remote(), &[piece(&mut a), piece(&mut b)]) }.expect("posted");
        assert_eq!(errors(&hear(&mut engine, [ended(0, stored)])), [error]);
        // The driver has stored zeros; what is not whole is not given to the program.
        let want = if error == 0 { 0 } else { 9 };
        assert_eq!((a, b), ([want; 3], [want; 4]));
    }
}

#[test]
fn operands_are_in_the_ring_if_they_are_few() {
    let mut engine = engine(64);
    let (mut values, mut compared, mut results) = ([1u8; 80], [2u8; 80], [3u8; 80]);
    for (count, compares, inject, in_ring, own) in [
        (8, false, false, true, false),
        (64, false, false, true, false),
        (32, true, false, true, false),
        (40, true, false, false, true),
        (72, false, false, false, true),
        (72, false, true, false, false),
    ] {
        let all = [&mut values, &mut compared, &mut results].map(|all| [piece(&mut all[..count])]);
        let parts = Parts {
            values: &all[0],
            compared: if compares { &all[1] } else { &[] },
            results: compares.then_some(&all[2]),
        };
        let remote = Remote { inject, ..remote() };
        // SAFETY: The memory is there for longer than the engine uses it.
        unsafe { engine.change(&remote, sum(), count, &parts) }.expect("posted");
        let text = last(&mut engine);
        assert_eq!(text.contains("InRing"), in_ring, "{text}");
        let at = |memory: &[u8]| text.contains(&format!("address: {}", memory.as_ptr() as u64));
        assert_eq!((at(&values), at(&compared)), (own, own && compares), "{text}");
        assert_eq!(at(&results), compares, "{text}");
        assert!(text.contains(&format!("length: {count}")) && text.contains(&bits(0)), "{text}");
        // The other end is told whether this one is told what there was.
        assert!(text.contains(&format!("data: {}", u64::from(compares))), "{text}");
        let told = hear(&mut engine, [ended(0, count as u64)]);
        let (flags, side) = match compares {
            true => (FI_ATOMIC | FI_READ, Side::Read),
            false => (FI_ATOMIC | FI_WRITE, Side::Write),
        };
        assert_eq!((told[0].done.error, told[0].done.entry.flags), (0, flags));
        assert_eq!(told[0].side, side);
    }
    if let [first, ..] = &engine.rings().accesses[..] {
        assert!(first.contains("InRing([1, 1, 1, 1, 1, 1, 1, 1])"), "{first}");
    }
    let third = engine.rings().accesses[2].clone();
    let bytes = [[1u8; 32], [2u8; 32]].concat();
    assert!(third.contains(&format!("InRing({bytes:?})")), "{third}");
}

#[test]
fn nothing_is_given_for_a_read() {
    let mut engine = engine(64);
    let (mut a, mut b) = ([9u8; 8], [9u8; 8]);
    let results = [piece(&mut a), piece(&mut b)];
    let parts = Parts { values: &[], compared: &[], results: Some(&results) };
    let read = Change::new(Operation::Read, 8, true).expect("there is one");
    // SAFETY: The memory is there for longer than the engine uses it.
    unsafe { engine.change(&remote(), read, 16, &parts) }.expect("posted");
    assert!(!last(&mut engine).contains("InRing"));
    assert_eq!(errors(&hear(&mut engine, [ended(0, 16)])), [0]);
    assert_eq!((a, b), ([0; 8], [0; 8]));
}

// --- regions of the program

fn region(key: u64) -> Arc<Region> {
    Arc::new(crate::regions::tests::region(key, BOTH))
}

fn exposed(engine: &mut Engine<Fake>, region: &Arc<Region>, access: u64) -> (usize, Vec<u64>) {
    let before = engine.rings().commands.len();
    let at = engine.expose(region, access, false).expect("there is room");
    let count = engine.rings().commands.len() - before;
    let numbers = (0..count).rev().map(|n| number(engine, n)).collect();
    (at, numbers)
}

fn answer(number: u64, status: c_int, left: u64) -> Event {
    Event { data: left, ..failed(EventKind::Command, number, status) }
}

#[test]
fn a_region_is_there_when_the_driver_has_said_so() {
    let mut engine = engine(64);
    let (region, other) = (region(KEYS), region(2));
    let (at, numbers) = exposed(&mut engine, &region, BOTH);
    let commands = engine.rings().commands.clone();
    for (n, with) in [(2, 0), (1, 1u64 << 60)] {
        let text = &commands[commands.len() - n];
        assert!(text.contains(&format!("bits: {}", (1u64 << 61) | with | KEYS)), "{text}");
        assert!(text.contains("address: 4096, length: 64"), "{text}");
    }
    assert_eq!(engine.appended(at), None);
    assert!(hear(&mut engine, [answer(numbers[1], 0, 0)]).is_empty());
    assert_eq!(engine.appended(at), None);
    hear(&mut engine, [answer(numbers[0], 0, 0)]);
    assert_eq!(engine.appended(at), Some(Ok(())));
    assert_eq!((engine.exposed_as(&region), engine.exposed_as(&other)), (Some(at), None));
    // Data come with what is written; one that is read has no entry for them.
    let (next, numbers) = exposed(&mut engine, &other, FI_REMOTE_READ);
    assert_eq!((next, numbers.len()), (at + 1, 1));
    // It finds no entry.
    hear(&mut engine, [answer(numbers[0], libc::ENOSPC, 0)]);
    assert_eq!(engine.appended(next), Some(Err(FI_ENOSPC)));
    engine.abandon(next);
    assert_eq!(engine.exposed_as(&other), None);
    assert_eq!(exposed(&mut engine, &other, FI_REMOTE_READ).0, next);
}

#[test]
fn a_region_is_gone_when_nothing_is_under_way_there() {
    let mut engine = engine(64);
    let region = region(1);
    let (at, numbers) = exposed(&mut engine, &region, BOTH);
    hear(&mut engine, numbers.iter().map(|n| answer(*n, 0, 0)));
    engine.withdraw(at);
    assert_eq!((number(&mut engine, 1), number(&mut engine, 0)), (numbers[0], numbers[1]));
    assert_eq!(engine.withdrawn(at), None);
    // Something is pulled into the first.
    hear(&mut engine, [answer(numbers[0], 0, 1), answer(numbers[1], 0, 0)]);
    assert_eq!(engine.withdrawn(at), Some(false));
    let before = engine.rings().commands.len();
    engine.withdraw(at);
    assert_eq!((engine.rings().commands.len(), number(&mut engine, 0)), (before + 1, numbers[0]));
    hear(&mut engine, [answer(numbers[0], libc::ENOENT, 1)]);
    assert_eq!(engine.withdrawn(at), Some(false));
    engine.withdraw(at);
    hear(&mut engine, [answer(numbers[0], libc::ENOENT, 0)]);
    assert_eq!(engine.withdrawn(at), Some(true));
    assert_eq!((engine.exposed_as(&region), engine.withdrawn(at)), (None, Some(true)));
    // An event of it too many is no harm.
    assert!(hear(&mut engine, [answer(numbers[0], 0, 0)]).is_empty());
}

#[test]
fn a_region_that_was_given_up_is_taken_out_when_it_is_in() {
    let mut engine = engine(64);
    let region = region(1);
    let (at, numbers) = exposed(&mut engine, &region, BOTH);
    hear(&mut engine, [answer(numbers[0], 0, 0)]);
    engine.abandon(at);
    assert_eq!(number(&mut engine, 0), numbers[0]);
    assert_eq!(engine.exposed_as(&region), None);
    // The other one is appended only now.
    hear(&mut engine, [answer(numbers[0], 0, 0), answer(numbers[1], 0, 0)]);
    assert_eq!(number(&mut engine, 0), numbers[1]);
    hear(&mut engine, [answer(numbers[1], 0, 3)]);
    assert_eq!(exposed(&mut engine, &region, BOTH).0, at);
}

#[test]
fn regions_are_limited_by_their_entries() {
    let mut engine = engine(64);
    let all: Vec<Arc<Region>> = (0..4).map(region).collect();
    for one in &all {
        exposed(&mut engine, one, BOTH);
    }
    assert_eq!(engine.expose(&region(9), FI_REMOTE_READ, false), Err(FI_ENOSPC));
}

#[test]
fn what_others_do_is_told_if_it_has_data_and_counted_if_that_is_wanted() {
    let mut engine = engine(64);
    let (plain, counted) = (region(1), region(2));
    let (_, numbers) = exposed(&mut engine, &plain, BOTH);
    let with_data = Event {
        bits: (1 << 61) | (1 << 60) | 1,
        data: 42,
        length: 5,
        stored: 5,
        address: 0x1010,
        ..event(EventKind::Received, numbers[1])
    };
    let told = hear(&mut engine, [with_data]);
    let done = told[0].done;
    assert_eq!((done.error, done.source, done.entry.data, done.entry.len), (0, 5, 42, 5));
    assert_eq!(done.entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert!(done.entry.op_context.is_null() && done.entry.buf as usize == 0x1010);
    assert!(told[0].reported && !told[0].counts && told[0].side == Side::RemoteWrite);
    // One that has failed is its initiator's.
    let failed = Event { status: libc::EFAULT as u32, ..with_data };
    let told = hear(&mut engine, [failed]);
    assert_eq!((told[0].reported, told[0].done.error), (false, FI_EFAULT));
    let at = engine.expose(&counted, BOTH, true).expect("there is room");
    let first = number(&mut engine, 1);
    let kinds = [
        (EventKind::Received, 0, Side::RemoteWrite),
        (EventKind::Got, 0, Side::RemoteRead),
        (EventKind::Changed, 0, Side::RemoteWrite),
        (EventKind::Changed, 1, Side::RemoteRead),
    ];
    for (kind, data, side) in kinds {
        let told = hear(&mut engine, [Event { data, ..event(kind, first) }]);
        assert_eq!((told[0].side, told[0].counts, told[0].reported), (side, true, false));
    }
    assert_eq!(engine.exposed_as(&counted), Some(at));
}
