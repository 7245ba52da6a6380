// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The engine, against events that a driver posts: what becomes of them, in each order in which they may come.

mod early;
mod fences;
mod late;
mod order;
mod receives;
mod remote;

use super::bits::{BEGIN, TAG, Wanted};
use super::engine::{Engine, Limits, Rings};
use super::task::{Act, Sending, Task};
use super::told::{Outcome, Report, Side};
use crate::fi::*;
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::time::{Duration, Instant};
use weft::matching::{Access, Address, Command, Event, EventKind, Message};

const MOST: usize = 8;
const SOURCE: (u64, u16) = (7, 3);

/// Rings of which a test is the driver.
#[derive(Debug, Default)]
struct Fake {
    slots: usize,
    /// What was given, as text: it says all of a command.
    commands: Vec<String>,
    messages: Vec<String>,
    accesses: Vec<String>,
    events: VecDeque<Event>,
    /// What the driver says when it is polled.
    coming: VecDeque<Event>,
    given_back: usize,
    /// There is no slot for messages.
    full: bool,
}

impl Rings for Fake {
    fn command(&mut self, command: &Command) -> bool {
        let room = self.slots > 0;
        if room {
            self.slots -= 1;
            self.commands.push(format!("{command:?}"));
        }
        room
    }

    fn send(&mut self, message: &Message<'_>) -> bool {
        if !self.full {
            self.messages.push(format!("{message:?}"));
        }
        !self.full
    }

    fn access(&mut self, access: &Access<'_>) -> bool {
        self.accesses.push(format!("{access:?}"));
        true
    }

    fn ring(&self) -> weft::Result<()> {
        Ok(())
    }

    fn poll(&mut self) -> weft::Result<()> {
        self.events.append(&mut self.coming);
        Ok(())
    }

    fn take(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn give_back(&mut self) -> weft::Result<()> {
        self.given_back += 1;
        Ok(())
    }
}

#[derive(Default)]
struct Told(Vec<Outcome>);

impl Report for Told {
    fn report(&mut self, outcome: Outcome) {
        self.0.push(outcome);
    }

    fn source(&self, source: (u64, u16)) -> FiAddr {
        if source == SOURCE { 5 } else { FI_ADDR_UNSPEC }
    }
}

fn engine(slots: usize) -> Engine<Fake> {
    let rings = Fake { slots, ..Fake::default() };
    let limits =
        Limits { sends: MOST, under_way: MOST, receives: MOST, regions: MOST, overflow: 4 << 16 };
    Engine::new(rings, limits)
}

/// It does not ask for messages that have come early: until it is to.
fn do_not_ask(engine: &mut Engine<Fake>) {
    engine.early.next = Some(Instant::now() + Duration::from_secs(3600));
}

fn event(kind: EventKind, context: u64) -> Event {
    Event {
        kind,
        unlinked: false,
        truncated: false,
        status: 0,
        context,
        address: 0,
        length: 0,
        stored: 0,
        bits: 0,
        data: 0,
        source: SOURCE,
    }
}

fn failed(kind: EventKind, context: u64, status: c_int) -> Event {
    Event { status: status as u32, ..event(kind, context) }
}

/// What is told of events.
fn hear(engine: &mut Engine<Fake>, events: impl IntoIterator<Item = Event>) -> Vec<Outcome> {
    engine.rings().events.extend(events);
    let mut told = Told::default();
    engine.progress(&mut told);
    told.0
}

fn context(n: usize) -> *mut c_void {
    without_provenance_mut(n)
}

const TAGGED: Wanted = Wanted { kind: FI_TAGGED, tag: 9, ignore: 0, source: None };
const PLAIN: Wanted = Wanted { kind: FI_MSG, tag: 0, ignore: 0, source: None };

fn piece(memory: &mut [u8]) -> Iovec {
    Iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() }
}

fn receive(engine: &mut Engine<Fake>, wanted: &Wanted, n: usize) -> Result<(), c_int> {
    // SAFETY: It has no bytes.
    unsafe { engine.receive(wanted, &[], context(n), true) }
}

/// What a command says, by the name that the kernel's header gives it.
fn field(text: &str, name: &str) -> u64 {
    let after = text.split(&format!("{name}: ")).nth(1).expect("it is there");
    let digits = after.split([',', ' ']).next().expect("something is behind it");
    digits.parse().expect("it is a number")
}

/// The number of an operation that is told of by `n`-th command from the end.
fn number(engine: &mut Engine<Fake>, n: usize) -> u64 {
    let commands = &engine.rings().commands;
    let text = &commands[commands.len() - 1 - n];
    field(text, "context")
}

fn errors(told: &[Outcome]) -> Vec<c_int> {
    told.iter().map(|outcome| outcome.done.error).collect()
}

fn sending() -> Sending {
    Sending {
        to: Address { hwid: 1, endpoint: 2, generation: 3 },
        kind: FI_TAGGED,
        tag: 9,
        data: None,
        context: context(77),
        telling: true.into(),
        inject: false,
        fence: false,
    }
}

/// A message with a number as its tag.
fn message(tag: u64, to: u64, fence: bool) -> Sending {
    Sending {
        to: Address { hwid: to, endpoint: 2, generation: 3 },
        tag,
        context: context(tag as usize),
        fence,
        ..sending()
    }
}

fn begin(engine: &mut Engine<Fake>, sending: Sending, pieces: &[Iovec]) -> Result<(), c_int> {
    // SAFETY: The memory is there for longer than the engine uses it.
    unsafe { engine.begin(&Task::new(Act::Send(sending), pieces)) }
}

fn post(engine: &mut Engine<Fake>, tag: u64, to: u64, fence: bool) {
    begin(engine, message(tag, to, fence), &[]).expect("there is room");
}

/// Tags of the messages that the driver was given since the last time.
fn given(engine: &mut Engine<Fake>) -> Vec<u64> {
    let tag = |text: String| field(&text, "bits") & TAG;
    std::mem::take(&mut engine.rings().messages).into_iter().map(tag).collect()
}

#[test]
fn it_begins_with_slabs() {
    let mut engine = engine(64);
    assert_eq!(engine.rings().commands.len(), 5);
    assert_eq!(number(&mut engine, 0), BEGIN);
    assert!(hear(&mut engine, [event(EventKind::Command, BEGIN)]).is_empty());
    // A slab is full, and then free: there is memory for no other.
    let slab = number(&mut engine, 1);
    assert!(hear(&mut engine, [event(EventKind::Unlinked, slab)]).is_empty());
    assert_eq!(engine.rings().commands.len(), 5);
    assert!(hear(&mut engine, [event(EventKind::Freed, slab)]).is_empty());
    assert_eq!((engine.rings().commands.len(), number(&mut engine, 0)), (6, slab));
}

#[test]
fn the_driver_is_polled_only_if_it_has_said_nothing() {
    let mut engine = engine(64);
    for n in 0..2 {
        receive(&mut engine, &TAGGED, n).expect("posted");
    }
    let (first, second) = (number(&mut engine, 1), number(&mut engine, 0));
    engine.rings().events.push_back(event(EventKind::Received, first));
    engine.rings().coming.push_back(event(EventKind::Received, second));
    let mut told = Told::default();
    assert!(engine.poll(&mut told) && told.0.len() == 1);
    assert!(engine.poll(&mut told) && told.0.len() == 2);
    assert!(!engine.poll(&mut told));
}

#[test]
fn a_message_is_told_of_as_it_was_sent() {
    let mut engine = engine(64);
    receive(&mut engine, &TAGGED, 1).expect("posted");
    let one = number(&mut engine, 0);
    let mut event = event(EventKind::Received, one);
    (event.bits, event.data, event.length, event.stored) = ((1 << 63) | (1 << 62) | 9, 42, 5, 5);
    let told = hear(&mut engine, [event]);
    let done = told[0].done;
    assert_eq!((done.error, done.source, done.left), (0, 5, 0));
    assert_eq!(done.entry.flags, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
    assert_eq!((done.entry.len, done.entry.data, done.entry.tag), (5, 42, 9));
    assert_eq!(done.entry.op_context, context(1));
    assert!(told[0].side == Side::Receive && told[0].reported && told[0].counts);
    // The number is free, and an event of it too many is no harm.
    assert!(hear(&mut engine, [event]).is_empty());
    receive(&mut engine, &PLAIN, 2).expect("posted");
    assert_eq!(number(&mut engine, 0), one);
    (event.bits, event.truncated, event.stored) = (0, true, 3);
    let told = hear(&mut engine, [event]);
    let done = told[0].done;
    assert_eq!((done.error, done.left, done.entry.len), (FI_ETRUNC, 2, 3));
    assert_eq!((done.entry.flags, done.entry.data), (FI_MSG | FI_RECV, 0));
}

#[test]
fn match_bits_tell_kinds_apart() {
    let mut engine = engine(64);
    let all = Wanted { tag: u64::MAX, ignore: u64::MAX, ..TAGGED };
    receive(&mut engine, &all, 1).expect("posted");
    let (bits, ignore) = ((1u64 << 63) | TAG, (1u64 << 62) | TAG);
    let text = engine.rings().commands.last().expect("it was given").clone();
    assert!(text.contains(&format!("bits: {bits}, ignore: {ignore}")), "{text}");
    receive(&mut engine, &PLAIN, 1).expect("posted");
    let text = engine.rings().commands.last().expect("it was given").clone();
    assert!(text.contains(&format!("bits: 0, ignore: {}", 1u64 << 62)), "{text}");
}

#[test]
fn sends_are_limited_and_end_once() {
    let mut engine = engine(64);
    let mut bytes = [1u8; 200];
    let send = |engine: &mut Engine<Fake>, bytes: &mut [u8], inject| {
        let sending = Sending { inject, data: Some(6), ..sending() };
        // SAFETY: The memory is there for longer than the engine uses it.
        unsafe { engine.send(&sending, &[piece(bytes)]) }
    };
    for n in 0..MOST {
        assert_eq!(send(&mut engine, &mut bytes[..n * 25], n == 5), Ok(()));
    }
    assert_eq!(send(&mut engine, &mut bytes, false), Err(FI_EAGAIN));
    assert_eq!(engine.room(), (0, MOST));
    assert!(engine.is_injecting());
    let messages = engine.rings().messages.clone();
    for (n, text) in messages.iter().enumerate() {
        assert_eq!(text.contains("InRing"), n * 25 <= 64, "{text}");
        assert!(text.contains("data: 6"));
    }
    // What is injected is not where the program has it.
    let at = format!("address: {}", bytes.as_ptr() as u64);
    assert!(messages[4].contains(&at) && !messages[5].contains(&at));
    let told = hear(
        &mut engine,
        [
            event(EventKind::Sent, 3),
            failed(EventKind::Sent, 0, libc::ENXIO),
            event(EventKind::Sent, 3),
        ],
    );
    assert_eq!(errors(&told), [0, FI_EHOSTUNREACH]);
    assert_eq!(told[1].done.prov_errno, libc::ENXIO);
    assert_eq!((told[0].done.entry.flags, told[0].side), (FI_TAGGED | FI_SEND, Side::Send));
    assert_eq!(engine.room(), (2, MOST));
    assert!(engine.is_injecting());
    hear(&mut engine, [event(EventKind::Sent, 5)]);
    assert!(!engine.is_injecting());
}

#[test]
fn a_receive_is_taken_back_or_ends_in_whatever_order() {
    let found = |engine: &mut Engine<Fake>| {
        receive(engine, &TAGGED, 1).expect("posted");
        let one = number(engine, 0);
        let mut told = Told::default();
        engine.cancel(context(1), &mut told).expect("it is there");
        assert!(told.0.is_empty());
        assert_eq!(engine.cancel(context(1), &mut told), Err(FI_ENOENT));
        one
    };
    let mut engine = engine(64);
    let one = found(&mut engine);
    let told = hear(&mut engine, [event(EventKind::Command, one)]);
    assert_eq!(errors(&told), [FI_ECANCELED]);
    // A message was faster, and is told of before or after.
    for late in [false, true] {
        let one = found(&mut engine);
        let mut events =
            [event(EventKind::Received, one), failed(EventKind::Command, one, libc::ENOENT)];
        if late {
            events.reverse();
        }
        let told = hear(&mut engine, events[..1].iter().copied());
        assert_eq!(errors(&told), if late { vec![] } else { vec![0] });
        if !late {
            // Its number is not given away: the driver has something to say of it yet.
            receive(&mut engine, &TAGGED, 2).expect("posted");
            assert_ne!(number(&mut engine, 0), one);
            let mut told = Told::default();
            engine.cancel(context(2), &mut told).expect("it is there");
            let two = number(&mut engine, 0);
            assert_eq!(
                errors(&hear(&mut engine, [event(EventKind::Command, two)])),
                [FI_ECANCELED]
            );
        }
        let told = hear(&mut engine, [events[1]]);
        assert_eq!(errors(&told), if late { vec![0] } else { vec![] });
        assert_eq!(engine.room(), (MOST, MOST));
    }
    assert_eq!(engine.cancel(context(9), &mut Told::default()), Err(FI_ENOENT));
}

#[test]
fn a_receive_that_the_driver_has_not_heard_of_is_taken_back_at_once() {
    let mut engine = engine(5);
    receive(&mut engine, &TAGGED, 1).expect("it waits for a slot");
    receive(&mut engine, &TAGGED, 2).expect("it waits for a slot");
    assert!(!engine.is_settled());
    let mut told = Told::default();
    engine.cancel(context(1), &mut told).expect("it is there");
    assert_eq!(errors(&told.0), [FI_ECANCELED]);
    engine.rings().slots = 9;
    assert!(engine.is_settled());
    assert_eq!(engine.rings().commands.len(), 6);
    assert_eq!(engine.room(), (MOST, MOST - 1));
}

#[test]
fn buffers_without_an_entry_are_appended_again_in_their_order() {
    let mut engine = engine(64);
    do_not_ask(&mut engine);
    for n in 1..4 {
        receive(&mut engine, &TAGGED, n).expect("posted");
    }
    let numbers: Vec<u64> = (0..3).rev().map(|n| number(&mut engine, n)).collect();
    let full = |n: usize| failed(EventKind::Command, numbers[n], libc::ENOSPC);
    let before = engine.rings().commands.len();
    assert!(hear(&mut engine, [full(0), full(1)]).is_empty());
    // A later one does not overtake them.
    receive(&mut engine, &TAGGED, 4).expect("posted");
    assert_eq!(engine.rings().commands.len(), before, "nothing has ended");
    let told = hear(&mut engine, [event(EventKind::Received, numbers[2])]);
    assert_eq!(errors(&told), [0]);
    let given = |engine: &mut Engine<Fake>| [2, 1, 0].map(|n| number(engine, n));
    let [one, two, later] = given(&mut engine);
    assert_eq!((one, two), (numbers[0], numbers[1]));
    // They find none again, and are told of in another order; something ends.
    let none = failed(EventKind::Command, later, libc::ENOSPC);
    assert!(hear(&mut engine, [none, full(1), full(0)]).is_empty());
    assert_eq!(engine.rings().commands.len(), before + 3);
    assert!(hear(&mut engine, [event(EventKind::Command, BEGIN)]).is_empty());
    assert_eq!(given(&mut engine), [one, two, later]);
    // One that finds none while it is taken back is taken back.
    engine.cancel(context(1), &mut Told::default()).expect("it is there");
    let told = hear(&mut engine, [full(0), failed(EventKind::Command, numbers[0], libc::ENOENT)]);
    assert_eq!(errors(&told), [FI_ECANCELED]);
    // Other errors are the end.
    let told = hear(&mut engine, [failed(EventKind::Command, numbers[1], libc::EHOSTUNREACH)]);
    assert_eq!(errors(&told), [FI_EHOSTUNREACH]);
    assert_eq!(engine.room().1, MOST - 1);
}

#[test]
fn a_buffer_for_many_is_given_back_with_the_last() {
    let mut engine = engine(64);
    let mut memory = [0; 100];
    let piece = piece(&mut memory);
    let at = piece.iov_base as u64;
    // SAFETY: The memory is there for longer than the engine uses it.
    unsafe { engine.receive_many(&PLAIN, piece, 20, context(1), true) }.expect("posted");
    let one = number(&mut engine, 0);
    let message = |offset, length, unlinked| Event {
        address: at + offset,
        length,
        stored: length,
        unlinked,
        ..event(EventKind::Received, one)
    };
    // The second is pulled, and ends last.
    let told =
        hear(&mut engine, [message(0, 40, false), message(70, 25, true), message(40, 30, false)]);
    let flags: Vec<u64> =
        told.iter().map(|outcome| outcome.done.entry.flags & FI_MULTI_RECV).collect();
    assert_eq!(flags, [0, 0, FI_MULTI_RECV]);
    assert_eq!(told[1].done.entry.buf as u64, at + 70);
    assert_eq!(engine.room().1, MOST);
    // Taken back, with one outstanding.
    // SAFETY: As above.
    unsafe { engine.receive_many(&PLAIN, piece, 20, context(1), true) }.expect("posted");
    assert_eq!(number(&mut engine, 0), one);
    engine.cancel(context(1), &mut Told::default()).expect("it is there");
    let outstanding = Event { data: 1, ..event(EventKind::Command, one) };
    assert!(hear(&mut engine, [outstanding]).is_empty());
    let told = hear(&mut engine, [message(0, 10, false)]);
    assert_eq!(errors(&told), [0, FI_ECANCELED]);
    assert_eq!(told[1].done.entry.flags & FI_MULTI_RECV, FI_MULTI_RECV);
    assert_eq!(engine.room().1, MOST);
}

#[test]
fn a_message_is_claimed_by_its_context() {
    let mut engine = engine(64);
    let found = |number| Event {
        length: 50,
        stored: 8,
        bits: (1 << 63) | 9,
        ..event(EventKind::Command, number)
    };
    let missing = |number| failed(EventKind::Command, number, libc::ENOENT);
    engine.search(&TAGGED, context(1), true, false, false).expect("asked");
    let one = number(&mut engine, 0);
    let told = hear(&mut engine, [missing(one)]);
    assert_eq!(errors(&told), [FI_ENOMSG]);
    assert!(!told[0].counts);
    for drops in [false, true] {
        engine.search(&TAGGED, context(1), true, true, false).expect("asked");
        let one = number(&mut engine, 0);
        // SAFETY: It has no bytes.
        let early = unsafe { engine.receive_claimed(&[], context(1), true, drops) };
        assert_eq!(early, Err(FI_EINVAL), "nothing is claimed yet");
        let told = hear(&mut engine, [found(one)]);
        assert_eq!((told[0].done.error, told[0].done.entry.len, told[0].done.left), (0, 50, 0));
        assert_eq!(engine.cancel(context(1), &mut Told::default()), Err(FI_ENOENT));
        // SAFETY: As above.
        unsafe { engine.receive_claimed(&[], context(1), true, drops) }.expect("it is claimed");
        let message = Event { truncated: drops, length: 50, ..event(EventKind::Received, one) };
        let told = hear(&mut engine, [message]);
        assert_eq!(
            (told.len(), told[0].done.error, told[0].done.left),
            (1, 0, if drops { 0 } else { 50 })
        );
        assert_eq!(engine.room().1, MOST);
    }
    // Found and dropped at once: nothing is claimed.
    engine.search(&TAGGED, context(1), true, false, true).expect("asked");
    let one = number(&mut engine, 0);
    assert_eq!(errors(&hear(&mut engine, [found(one)])), [0]);
    assert_eq!(engine.room().1, MOST);
}

#[test]
fn bytes_go_where_the_pieces_are() {
    let mut engine = engine(64);
    let (mut a, mut b) = ([9u8; 3], [9u8; 4]);
    let pieces = [piece(&mut a), piece(&mut b)];
    // SAFETY: The memory is there for longer than the engine uses it.
    unsafe { engine.receive(&TAGGED, &pieces, context(1), true) }.expect("posted");
    let message =
        Event { length: 5, stored: 5, ..event(EventKind::Received, number(&mut engine, 0)) };
    let told = hear(&mut engine, [message]);
    assert_eq!(told[0].done.entry.buf, pieces[0].iov_base);
    // The driver has stored zeros.
    assert_eq!((a, b), ([0; 3], [0, 0, 9, 9]));
}
