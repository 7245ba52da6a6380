// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages that find no room, against events that a driver posts: none is refused, and their order stays.

use super::*;
use crate::endpoint::late::LATE;
use crate::endpoint::task::Remote;

const OTHER: u64 = 9;

/// The oldest messages with the driver are over; what it is given then.
fn over(engine: &mut Engine<Fake>, numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    hear(engine, numbers.into_iter().map(|number| event(EventKind::Sent, number)));
    given(engine)
}

#[test]
fn messages_without_room_wait_and_go_in_their_order() {
    let mut engine = engine(64);
    for tag in 0..3 * MOST as u64 {
        post(&mut engine, tag, if tag % 2 == 0 { 1 } else { OTHER }, false);
    }
    assert_eq!(given(&mut engine), Vec::from_iter(0..MOST as u64));
    assert_eq!((engine.room().0, engine.holds()), (0, true));
    // Something under way has an event: there is no need to look.
    assert!(engine.is_settled());
    assert_eq!(over(&mut engine, [3]), [MOST as u64]);
    let all = Vec::from_iter(0..MOST as u64);
    assert_eq!(
        over(&mut engine, all.clone()),
        Vec::from_iter(MOST as u64 + 1..2 * MOST as u64 + 1)
    );
    assert!(engine.holds());
    assert_eq!(over(&mut engine, all), Vec::from_iter(2 * MOST as u64 + 1..3 * MOST as u64));
    assert!(!engine.holds());
}

#[test]
fn what_waits_for_a_slot_is_tried_again_soon() {
    let mut engine = engine(64);
    engine.rings().full = true;
    post(&mut engine, 0, 1, false);
    assert!(given(&mut engine).is_empty() && engine.holds() && !engine.is_settled());
    hear(&mut engine, []);
    assert!(given(&mut engine).is_empty() && !engine.is_settled());
    engine.rings().full = false;
    // It does not overtake.
    post(&mut engine, 1, 1, false);
    assert!(given(&mut engine).is_empty());
    hear(&mut engine, []);
    assert_eq!(
        (given(&mut engine), engine.is_settled(), engine.holds()),
        (vec![0, 1], true, false)
    );
}

#[test]
fn a_fence_waits_for_what_has_no_room_yet() {
    let mut engine = engine(64);
    for tag in 0..MOST as u64 {
        post(&mut engine, tag, OTHER, false);
    }
    post(&mut engine, 20, 1, false);
    post(&mut engine, 21, 1, true);
    // To another target, and behind what was before it there all the same.
    post(&mut engine, 22, OTHER, true);
    given(&mut engine);
    assert_eq!(over(&mut engine, [0]), [20]);
    let number = 0;
    assert_eq!(over(&mut engine, [number]), [21]);
    assert_eq!(over(&mut engine, 1..MOST as u64), [22]);
}

#[test]
fn what_is_injected_is_the_programs_again_also_without_room() {
    let mut engine = engine(64);
    let mut bytes = [7u8; 100];
    engine.rings().full = true;
    let inject = Sending { inject: true, ..message(0, 1, false) };
    begin(&mut engine, inject, &[piece(&mut bytes)]).expect("it is kept");
    assert!(engine.is_injecting());
    engine.rings().full = false;
    hear(&mut engine, []);
    let text = engine.rings().messages.pop().expect("it was begun");
    assert!(!text.contains(&format!("address: {}", bytes.as_ptr() as u64)), "{text}");
    assert!(engine.is_injecting());
    hear(&mut engine, [event(EventKind::Sent, 0)]);
    assert!(!engine.is_injecting());
}

#[test]
fn an_access_waits_behind_messages_without_room() {
    let mut engine = engine(64);
    for tag in 0..=MOST as u64 {
        post(&mut engine, tag, 1, false);
    }
    let remote = Remote {
        to: message(0, OTHER, false).to,
        key: 1,
        offset: 0,
        context: context(1),
        telling: false.into(),
        inject: false,
        fence: false,
    };
    // SAFETY: It has no bytes.
    unsafe { engine.begin(&Task::new(Act::Write(remote, None), &[])) }.expect("it is kept");
    given(&mut engine);
    assert_eq!((over(&mut engine, [0]), engine.rings().accesses.len()), (vec![MOST as u64], 0));
    hear(&mut engine, [event(EventKind::Sent, 1)]);
    assert_eq!((engine.rings().accesses.len(), engine.holds()), (1, false));
}

#[test]
fn a_program_that_never_looks_is_told_to() {
    let mut engine = engine(64);
    engine.rings().full = true;
    for tag in 0..LATE as u64 {
        post(&mut engine, tag, 1, false);
    }
    assert_eq!(begin(&mut engine, message(1, 1, false), &[]), Err(FI_EAGAIN));
}
