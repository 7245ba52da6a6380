// SPDX-License-Identifier: GPL-2.0 OR MIT

//! More buffers than there are entries for, against events that a driver posts: none is refused, and their order stays.

use super::*;
use crate::endpoint::receives::UNPOSTED;

const OTHER: Wanted = Wanted { tag: 8, ..TAGGED };

/// Numbers in the commands that the driver was given since the last time.
pub fn given(engine: &mut Engine<Fake>) -> Vec<u64> {
    let count = engine.rings().commands.len();
    let numbers = (0..count).rev().map(|n| number(engine, n)).collect();
    engine.rings().commands.clear();
    numbers
}

/// An engine that has given the driver buffers with contexts from 0, as many as there are entries for.
pub fn full_engine() -> Engine<Fake> {
    let mut engine = engine(1 << 20);
    do_not_ask(&mut engine);
    given(&mut engine);
    for n in 0..MOST {
        receive(&mut engine, &TAGGED, n).expect("there is an entry");
    }
    assert_eq!(given(&mut engine), Vec::from_iter(0..MOST as u64));
    engine
}

/// The same, with more buffers.
fn with_more(more: usize) -> Engine<Fake> {
    let mut engine = full_engine();
    for n in MOST..MOST + more {
        receive(&mut engine, &TAGGED, n).expect("it waits");
    }
    assert!(given(&mut engine).is_empty());
    engine
}

#[test]
fn buffers_beyond_the_entries_are_posted_in_their_order() {
    let mut engine = with_more(3);
    assert_eq!((engine.room().1, engine.holds()), (0, true));
    let told = hear(&mut engine, [5, 2].map(|number| event(EventKind::Received, number)));
    let contexts = Vec::from_iter(told.iter().map(|outcome| outcome.done.entry.op_context));
    assert_eq!(contexts, [context(5), context(2)]);
    let most = MOST as u64;
    assert_eq!(given(&mut engine), [most, most + 1]);
    // One that is posted now is behind the last.
    receive(&mut engine, &TAGGED, 99).expect("it waits");
    assert!(given(&mut engine).is_empty());
    hear(&mut engine, [0, 1].map(|number| event(EventKind::Received, number)));
    assert_eq!((given(&mut engine).len(), engine.holds()), (2, false));
    let told = hear(&mut engine, [event(EventKind::Received, most + 2)]);
    assert_eq!(told[0].done.entry.op_context, context(MOST + 2));
    receive(&mut engine, &TAGGED, 100).expect("there is an entry");
    assert_eq!(given(&mut engine).len(), 1);
}

#[test]
fn buffers_without_tags_wait_for_entries_alone() {
    let mut engine = with_more(1);
    let mut memory = [0; 100];
    let piece = piece(&mut memory);
    // SAFETY: The memory is there for longer than the engine uses it.
    unsafe { engine.receive_many(&PLAIN, piece, 20, context(99), true) }.expect("it waits");
    assert!(given(&mut engine).is_empty());
    // No message for the one with a tag helps it: so it is the first.
    hear(&mut engine, [event(EventKind::Received, 4)]);
    assert_eq!(given(&mut engine), [MOST as u64 + 1]);
    assert!(!engine.is_settled(), "nothing tells of messages with tags");
    hear(&mut engine, [event(EventKind::Received, 5)]);
    assert_eq!(given(&mut engine), [MOST as u64]);
    receive(&mut engine, &PLAIN, 100).expect("it waits");
    assert!(engine.is_settled() && engine.holds());
    engine.search(&PLAIN, context(77), true, true, false).expect("asked");
    let told = hear(&mut engine, []);
    assert_eq!((errors(&told), told[0].done.prov_errno), (vec![FI_ENOMSG], libc::ENOENT));
    assert!(given(&mut engine).is_empty(), "what is there may be for the buffer");
}

#[test]
fn a_claimed_message_takes_no_entry_from_a_buffer() {
    let mut engine = full_engine();
    engine.search(&OTHER, context(1), true, true, false).expect("asked");
    let one = number(&mut engine, 0);
    hear(&mut engine, [event(EventKind::Command, one)]);
    // SAFETY: It has no bytes.
    unsafe { engine.receive_claimed(&[], context(1), true, false) }.expect("it is claimed");
    receive(&mut engine, &TAGGED, 100).expect("it waits");
    given(&mut engine);
    hear(&mut engine, [event(EventKind::Received, one)]);
    assert!(given(&mut engine).is_empty() && engine.holds());
}

#[test]
fn a_buffer_that_waits_is_taken_back_at_once() {
    let mut engine = with_more(2);
    let mut told = Told::default();
    engine.cancel(context(MOST), &mut told).expect("it waits");
    assert_eq!(errors(&told.0), [FI_ECANCELED]);
    assert!(given(&mut engine).is_empty());
    // One that has an entry makes room when the driver has given it back.
    engine.cancel(context(3), &mut told).expect("it is there");
    assert_eq!(given(&mut engine), [3]);
    assert_eq!(errors(&hear(&mut engine, [event(EventKind::Command, 3)])), [FI_ECANCELED]);
    assert_eq!((given(&mut engine), engine.holds()), (vec![MOST as u64 + 1], false));
}

#[test]
fn a_buffer_without_a_slot_makes_room_when_it_is_taken_back() {
    let mut engine = engine(5);
    do_not_ask(&mut engine);
    for n in 0..MOST + 1 {
        receive(&mut engine, &TAGGED, n).expect("it waits");
    }
    given(&mut engine);
    engine.cancel(context(0), &mut Told::default()).expect("it waits");
    assert!(!engine.holds(), "the last one waits for a slot");
    engine.rings().slots = 64;
    assert!(engine.is_settled());
    assert_eq!(given(&mut engine), Vec::from_iter(1..=MOST as u64));
}

#[test]
fn a_program_that_never_looks_is_told_to() {
    let mut engine = with_more(UNPOSTED);
    assert_eq!(receive(&mut engine, &TAGGED, 1), Err(FI_EAGAIN));
    assert_eq!(engine.search(&TAGGED, null_mut(), true, false, false), Err(FI_EAGAIN));
    // SAFETY: Nothing is posted.
    let many = unsafe { engine.receive_many(&PLAIN, piece(&mut []), 1, null_mut(), true) };
    assert_eq!(many, Err(FI_EAGAIN));
}
