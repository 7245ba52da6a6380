// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fences, against events that a driver posts: what waits, for what, and in which order it begins.

use super::*;
use crate::endpoint::task::Remote;

const OTHER: u64 = 9;

#[test]
fn a_fence_waits_for_what_was_before_it_to_the_same_target() {
    let mut engine = engine(64);
    post(&mut engine, 0, 1, false);
    post(&mut engine, 1, OTHER, false);
    post(&mut engine, 2, 1, true);
    post(&mut engine, 3, 1, false);
    post(&mut engine, 4, OTHER, false);
    assert!(engine.holds());
    assert_eq!((given(&mut engine), engine.room().0), (vec![0, 1, 4], MOST - 5));
    // What goes elsewhere is no matter.
    hear(&mut engine, [event(EventKind::Sent, 1)]);
    assert_eq!(given(&mut engine), []);
    let told = hear(&mut engine, [event(EventKind::Sent, 0)]);
    assert_eq!(told[0].done.entry.op_context, context(0));
    assert_eq!((given(&mut engine), engine.holds()), (vec![2, 3], false));
    // Nothing is before this one.
    post(&mut engine, 5, 7, true);
    assert_eq!((given(&mut engine), engine.holds()), (vec![5], false));
}

#[test]
fn fences_wait_for_each_other() {
    let mut engine = engine(64);
    for tag in 0..3 {
        post(&mut engine, tag, 1, true);
    }
    post(&mut engine, 3, OTHER, true);
    assert_eq!(given(&mut engine), [0, 3]);
    hear(&mut engine, [event(EventKind::Sent, 0)]);
    assert_eq!(given(&mut engine), [1]);
    // One that has failed is over, too.
    hear(&mut engine, [failed(EventKind::Sent, 0, libc::ENXIO)]);
    assert_eq!((given(&mut engine), engine.holds()), (vec![2], false));
}

#[test]
fn an_access_waits_and_so_does_what_is_injected() {
    let mut engine = engine(64);
    post(&mut engine, 0, 1, false);
    let mut bytes = [5u8; 100];
    let remote = Remote {
        to: Address { hwid: 1, endpoint: 2, generation: 3 },
        key: 1,
        offset: 0,
        context: context(1),
        telling: false.into(),
        inject: true,
        fence: true,
    };
    let pieces = [piece(&mut bytes)];
    // SAFETY: The memory is there.
    unsafe { engine.begin(&Task::new(Act::Write(remote, None), &pieces)) }.expect("there is room");
    assert!(engine.is_injecting() && engine.rings().accesses.is_empty());
    let told = hear(&mut engine, [event(EventKind::Sent, 0)]);
    assert_eq!(told.len(), 1);
    let text = engine.rings().accesses.pop().expect("it was begun");
    // The program has its bytes back.
    assert!(!text.contains(&format!("address: {}", bytes.as_ptr() as u64)), "{text}");
    assert!(engine.is_injecting() && !engine.holds());
}

#[test]
fn what_waits_is_limited_and_finds_room_later() {
    let mut engine = engine(64);
    post(&mut engine, 0, 1, false);
    for tag in 1..=MOST as u64 {
        post(&mut engine, tag, 1, true);
    }
    assert_eq!(begin(&mut engine, message(99, 1, false), &[]), Err(FI_EAGAIN));
    assert_eq!(engine.room().0, 0);
    given(&mut engine);
    // There is no slot: it is tried again, and sleepers look soon.
    engine.rings().full = true;
    hear(&mut engine, [event(EventKind::Sent, 0)]);
    assert!(given(&mut engine).is_empty() && engine.holds() && !engine.is_settled());
    engine.rings().full = false;
    hear(&mut engine, []);
    assert_eq!((given(&mut engine), engine.is_settled()), (vec![1], true));
}

#[test]
fn deferred_work_is_told_of_by_its_number() {
    use crate::endpoint::told::Telling;
    let mut engine = engine(64);
    let telling = Telling { reported: false, work: Some(42) };
    begin(&mut engine, Sending { telling, ..sending() }, &[]).expect("there is room");
    let told = hear(&mut engine, [event(EventKind::Sent, 0)]);
    assert_eq!((told[0].work, told[0].counts, told[0].reported), (Some(42), false, false));
    let receive = Act::Receive(TAGGED, context(3), telling);
    // SAFETY: It has no bytes.
    unsafe { engine.begin(&Task::new(receive, &[])) }.expect("there is room");
    let one = number(&mut engine, 0);
    let told = hear(&mut engine, [failed(EventKind::Command, one, libc::EFAULT)]);
    assert_eq!((told[0].work, told[0].counts, told[0].done.error), (Some(42), false, FI_EFAULT));
}
