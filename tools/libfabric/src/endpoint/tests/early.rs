// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages that have come early while receives wait for entries: the engine asks a driver that each test is, and finds
//! their receives.

use super::receives::{full_engine, given};
use super::*;

/// A message with a tag that a claim has taken out.
fn claimed(number: u64, tag: u64) -> Event {
    Event { bits: (1 << 63) | tag, length: 50, stored: 8, ..event(EventKind::Command, number) }
}

fn nothing(number: u64) -> Event {
    failed(EventKind::Command, number, libc::ENOENT)
}

fn tagged(tag: u64) -> Wanted {
    Wanted { tag, ..TAGGED }
}

/// The engine asks; these are the numbers of its claims.
fn ask(engine: &mut Engine<Fake>) -> Vec<u64> {
    engine.early.next = None;
    hear(engine, []);
    let commands = engine.rings().commands.clone();
    // WEFT_MATCH_CLAIM.
    assert!(commands.iter().all(|text| text.contains("op: 3,")), "{commands:?}");
    given(engine)
}

/// An engine without entries, and with a buffer that waits for each of the tags, which is its context.
fn waiting_for(tags: impl IntoIterator<Item = u64>) -> Engine<Fake> {
    let mut engine = full_engine();
    for tag in tags {
        receive(&mut engine, &tagged(tag), tag as usize).expect("it waits");
    }
    engine
}

#[test]
fn a_message_finds_the_receive_that_waits_for_it() {
    let mut engine = waiting_for([20, 21, 22]);
    let claims = ask(&mut engine);
    assert_eq!(claims.len(), 1);
    assert!(hear(&mut engine, [claimed(claims[0], 21)]).is_empty());
    // It is received by the number of the claim, and as that was answered the driver is asked for more.
    let text = engine.rings().commands[0].clone();
    assert!(text.contains("op: 5,"), "WEFT_MATCH_RECEIVE: {text}");
    let commands = given(&mut engine);
    assert_eq!((commands.len(), commands[0]), (3, claims[0]));
    let mut message = Event { kind: EventKind::Received, ..claimed(claims[0], 21) };
    (message.length, message.stored) = (5, 5);
    let told = hear(&mut engine, [message]);
    let done = told[0].done;
    assert_eq!((told.len(), done.error, done.source, done.entry.tag), (1, 0, 5, 21));
    assert_eq!((done.entry.op_context, done.entry.len), (context(21), 5));
    assert!(told[0].counts && told[0].reported);
    // It has taken no entry, and left none; the others wait on.
    let told = hear(&mut engine, [nothing(commands[1]), nothing(commands[2])]);
    assert!(told.is_empty() && given(&mut engine).is_empty() && engine.holds());
    assert_eq!(engine.cancel(context(21), &mut Told::default()), Err(FI_ENOENT));
}

#[test]
fn messages_and_receives_of_a_tag_keep_their_order() {
    let mut engine = waiting_for([20]);
    for n in 30..33 {
        receive(&mut engine, &tagged(20), n).expect("it waits");
    }
    let claims = ask(&mut engine);
    hear(&mut engine, [claimed(claims[0], 20)]);
    let more = given(&mut engine);
    hear(&mut engine, [claimed(more[1], 20), claimed(more[2], 20)]);
    let told = hear(
        &mut engine,
        [more[2], claims[0], more[1]].map(|number| event(EventKind::Received, number)),
    );
    let contexts = Vec::from_iter(told.iter().map(|outcome| outcome.done.entry.op_context));
    assert_eq!(contexts, [context(31), context(20), context(30)]);
}

#[test]
fn a_message_without_a_receive_is_for_the_next_one() {
    let mut engine = waiting_for([20]);
    let claims = ask(&mut engine);
    hear(&mut engine, [claimed(claims[0], 40)]);
    let more = given(&mut engine);
    hear(&mut engine, [claimed(more[0], 41), claimed(more[1], 40)]);
    given(&mut engine);
    // Both have the tag: the older one is first. It needs no entry.
    for (context, want) in [(50, claims[0]), (51, more[1])] {
        receive(&mut engine, &tagged(40), context).expect("it is there");
        assert_eq!(given(&mut engine), [want]);
    }
    receive(&mut engine, &tagged(40), 52).expect("it waits");
    assert!(given(&mut engine).is_empty());
    receive(&mut engine, &Wanted { ignore: u64::MAX, ..TAGGED }, 53).expect("it is there");
    assert_eq!(given(&mut engine), [more[0]]);
    let told = hear(&mut engine, [event(EventKind::Received, more[0])]);
    assert_eq!(told[0].done.entry.op_context, context(53));
}

#[test]
fn no_buffer_is_posted_while_the_driver_is_asked() {
    let mut engine = waiting_for([20]);
    let claims = ask(&mut engine);
    hear(&mut engine, [event(EventKind::Received, 0), event(EventKind::Received, 1)]);
    receive(&mut engine, &tagged(21), 21).expect("it waits");
    assert!(given(&mut engine).is_empty());
    // What was claimed is for the buffer that would have been posted.
    hear(&mut engine, [claimed(claims[0], 21)]);
    let commands = given(&mut engine);
    assert_eq!(commands[0], claims[0]);
    assert_eq!(commands.len(), 2, "and an entry is for the other: nothing is asked for any more");
    assert!(!engine.holds() && engine.is_settled());
    // A buffer without a tag has nothing to do with it.
    let mut engine = waiting_for([20]);
    ask(&mut engine);
    hear(&mut engine, [event(EventKind::Received, 0)]);
    receive(&mut engine, &PLAIN, 99).expect("there is an entry");
    assert_eq!(given(&mut engine).len(), 1);
}

#[test]
fn the_driver_is_asked_for_more_while_it_has_enough() {
    let mut engine = waiting_for(20..22);
    let mut claims = ask(&mut engine);
    for count in [1, 2, 4, 8, 16, 32, 64, 64] {
        assert_eq!(claims.len(), count);
        hear(&mut engine, claims.iter().map(|number| claimed(*number, 9999)));
        claims = given(&mut engine);
    }
    hear(&mut engine, claims.iter().map(|number| nothing(*number)));
    assert!(given(&mut engine).is_empty(), "there is nothing now");
    assert!(!engine.is_settled(), "but it looks again");
    assert_eq!(ask(&mut engine).len(), 1);
}

#[test]
fn a_receive_without_an_entry_gets_its_message_all_the_same() {
    let mut engine = engine(64);
    do_not_ask(&mut engine);
    for n in 0..2 {
        receive(&mut engine, &tagged(n), n as usize).expect("posted");
    }
    given(&mut engine);
    hear(&mut engine, [0, 1].map(|number| failed(EventKind::Command, number, libc::ENOSPC)));
    let claims = ask(&mut engine);
    hear(&mut engine, [claimed(claims[0], 1)]);
    assert_eq!(given(&mut engine)[0], claims[0]);
    let told = hear(&mut engine, [event(EventKind::Received, claims[0])]);
    assert_eq!(told[0].done.entry.op_context, context(1));
}

#[test]
fn searches_find_what_was_claimed() {
    let early = |engine: &mut Engine<Fake>| {
        let claims = ask(engine);
        let more = hear(engine, [claimed(claims[0], 40)]);
        assert!(more.is_empty());
        let rest = given(engine);
        hear(engine, rest.iter().map(|number| nothing(*number)));
        claims[0]
    };
    let mut engine = waiting_for([20]);
    let one = early(&mut engine);
    let search = |engine: &mut Engine<Fake>, tag, claims, drops| {
        engine.search(&tagged(tag), context(77), true, claims, drops).expect("asked");
        assert!(engine.rings().commands.is_empty() && !engine.is_settled());
        do_not_ask(engine);
        hear(engine, [])
    };
    // One that leaves it, and one that takes it out.
    for claims in [false, true] {
        let told = search(&mut engine, 40, claims, false);
        let done = told[0].done;
        assert_eq!((told.len(), done.error, done.entry.tag, done.entry.len), (1, 0, 40, 50));
        assert!(!told[0].counts && engine.rings().commands.is_empty());
    }
    // SAFETY: It has no bytes.
    unsafe { engine.receive_claimed(&[], context(77), true, false) }.expect("it is claimed");
    assert_eq!(given(&mut engine), [one]);
    let told = hear(&mut engine, [event(EventKind::Received, one)]);
    assert_eq!(told[0].done.entry.op_context, context(77));
    // One that drops it, of which nothing more is told.
    let two = early(&mut engine);
    assert_eq!(errors(&search(&mut engine, 40, false, true)), [0]);
    assert_eq!(given(&mut engine), [two]);
    assert!(hear(&mut engine, [event(EventKind::Received, two)]).is_empty());
    assert_eq!(engine.room().1, 0, "eight buffers, and one that waits");
    // One that finds none asks the driver, unless what is there may be for a buffer that waits.
    engine.search(&tagged(40), context(77), true, true, false).expect("asked");
    let asked = given(&mut engine);
    assert_eq!(errors(&hear(&mut engine, [nothing(asked[0])])), [FI_ENOMSG]);
    assert_eq!(errors(&search(&mut engine, 20, true, false)), [FI_ENOMSG]);
    assert!(given(&mut engine).is_empty());
}

#[test]
fn a_search_waits_until_it_is_known_what_was_claimed() {
    let mut engine = waiting_for([20]);
    let claims = ask(&mut engine);
    engine.search(&tagged(40), context(77), true, false, false).expect("asked");
    assert!(hear(&mut engine, []).is_empty() && given(&mut engine).is_empty());
    do_not_ask(&mut engine);
    hear(&mut engine, [claimed(claims[0], 40)]);
    let more = given(&mut engine);
    assert_eq!(more.len(), 2, "it is asked for more first");
    let told = hear(&mut engine, more.iter().map(|number| nothing(*number)));
    assert_eq!((errors(&told), told[0].done.entry.tag), (vec![0], 40));
}
