// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Both ends of a channel in one process, without a driver: the areas are halves of a file, and
//! what the driver would write into the status pages is written here. No thread is woken: a file can
//! always be read, so that a sleeper looks again at once.

use crate::abi::{self, weft_chan_status, weft_chan_user};
use crate::channel::Channel;
use crate::error::{Error, Reason};
use crate::shared::{Shared, State};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};
use weft_proto::cell::{Head, Kind, RECV_EVENT_AT, SEND_EVENT_AT, Shape};

const PAGE: u64 = 4096;
const SOON: Option<Duration> = Some(Duration::from_secs(60));

/// Two ends and the memory between them.
struct Pair {
    file: File,
    shape: Shape,
}

/// Where things of an end are in the file.
fn status(end: u64) -> u64 {
    end * 3 * PAGE
}

fn user(end: u64) -> u64 {
    status(end) + PAGE
}

fn bell(end: u64) -> u64 {
    status(end) + 2 * PAGE
}

impl Pair {
    fn new(cells: u32, bulk: u32) -> (Pair, Channel, Channel) {
        let shape = Shape::new(cells, bulk).expect("allowed");
        let file = tempfile::tempfile().expect("a temporary file");
        let pair = Pair { file, shape };
        pair.file.set_len(pair.area(2)).expect("room");
        for end in 0..2 {
            pair.set_state(end, abi::WEFT_CHAN_OPEN, 0);
        }
        let (a, b) = (pair.end(0), pair.end(1));
        (pair, a, b)
    }

    fn area(&self, end: u64) -> u64 {
        6 * PAGE + end * self.shape.area_bytes() as u64
    }

    fn end(&self, end: u64) -> Channel {
        let info = abi::weft_chan_info {
            peer_hwid: 0x77,
            peer_generation: 3,
            cells: self.shape.cells(),
            bulk: self.shape.bulk(),
            kick_value: 9,
            area_offset: self.area(end),
            window_offset: self.area(1 - end),
            status_offset: status(end),
            user_offset: user(end),
            kick_offset: bell(1 - end),
            ..Default::default()
        };
        let file = self.file.try_clone().expect("a descriptor");
        let shared = Shared::over(file.into(), info, self.shape).expect("mapped");
        Channel::over(shared).expect("a channel")
    }

    fn write(&self, at: u64, word: u64) {
        self.file.write_all_at(&word.to_ne_bytes(), at).expect("written");
    }

    fn read(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at).expect("read");
        u64::from_ne_bytes(word)
    }

    fn set_state(&self, end: u64, state: u32, reason: u32) {
        let at = status(end);
        let put = |member: usize, value: u32| {
            self.file.write_all_at(&value.to_ne_bytes(), at + member as u64).expect("written");
        };
        put(offset_of!(weft_chan_status, reason), reason);
        put(offset_of!(weft_chan_status, state), state);
    }

    fn user(&self, end: u64) -> (u64, u64, u64) {
        let get = |member: usize| self.read(user(end) + member as u64);
        (
            get(offset_of!(weft_chan_user, consumed)),
            get(offset_of!(weft_chan_user, produced)),
            get(offset_of!(weft_chan_user, credit_wanted)),
        )
    }

    /// Whether the doorbell of `end` was rung since this was asked last.
    fn rung(&self, end: u64) -> bool {
        let value = self.read(bell(end)) as u32;
        self.write(bell(end), 0);
        assert!(value == 0 || value == 9, "rung with {value}");
        value != 0
    }
}

fn payload(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|n| (number as usize * 131 + n * 17 + n / 251) as u8).collect()
}

#[test]
fn two_threads_each_way() {
    let (_, a, b) = Pair::new(32, 8192);
    let lens = |number: u64| match number % 7 {
        0 => 8192,
        1..4 => number as usize % 49,
        _ => number as usize * 37 % 3000,
    };
    thread::scope(|scope| {
        for channel in [a, b] {
            let (mut sender, mut receiver) = channel.split();
            scope.spawn(move || {
                for number in 0..1500 {
                    sender.send(&payload(number, lens(number)), number, SOON).expect("sent");
                }
                sender.finish(SOON).expect("all was received");
                assert_eq!(sender.consumed().expect("honest"), 1501);
            });
            scope.spawn(move || {
                let mut got = Vec::new();
                for number in 0..1500 {
                    assert_eq!(receiver.recv(&mut got, SOON).expect("received"), number);
                    assert!(got == payload(number, lens(number)), "message {number} is torn");
                }
                let end = receiver.recv(&mut got, SOON);
                assert!(matches!(end, Err(Error::Ended)), "{end:?}");
                assert_eq!(receiver.received(), 1501);
            });
        }
    });
}

#[test]
fn the_driver_is_told_where_to_look() {
    let (pair, mut a, mut b) = Pair::new(16, 4096);
    for number in 0..16 {
        assert!(a.try_send(b"x", number).expect("open"));
    }
    assert!(!a.try_send(b"x", 16).expect("open"));
    assert_eq!(pair.user(0), (0, 16, 1), "one cell is wanted");
    let mut got = Vec::new();
    for number in 0..3 {
        assert_eq!(b.try_recv(&mut got).expect("open"), Some(number));
    }
    assert_eq!(pair.user(1), (3, 0, 0));
    assert!(!a.try_send(b"x", 16).expect("open"), "credit is not given back yet");
    b.receiver().before_sleep().expect("open");
    assert!(a.wait(true, SOON).expect("open"));
    assert!(a.try_send(b"x", 16).expect("open"));
    assert_eq!(pair.user(0), (0, 17, 0), "nothing is wanted any more");
}

#[test]
fn sleepers_are_rung_for_once() {
    let (pair, mut a, mut b) = Pair::new(16, 4096);
    a.try_send(b"x", 0).expect("open");
    pair.rung(1);
    let mut got = Vec::new();
    b.try_recv(&mut got).expect("open");
    // As the driver of the other end does it for a program that sleeps there.
    pair.write(pair.area(0) + RECV_EVENT_AT as u64, 1);
    a.try_send(b"x", 1).expect("open");
    assert!(pair.rung(1));
    a.try_send(b"x", 2).expect("open");
    assert!(!pair.rung(1));
    b.receiver().before_sleep().expect("open");
    pair.rung(0);
    pair.write(pair.area(1) + SEND_EVENT_AT as u64, 2);
    for _ in 0..2 {
        b.try_recv(&mut got).expect("open");
    }
    assert!(!pair.rung(0), "nothing was given back");
    b.receiver().before_sleep().expect("open");
    assert!(pair.rung(0));
}

#[test]
fn what_came_before_the_end_is_received() {
    type Is = fn(&Error) -> bool;
    let ends: [(u32, u32, Is); 3] = [
        (abi::WEFT_CHAN_PEER_CLOSED, 0, |e| matches!(e, Error::Closed)),
        (abi::WEFT_CHAN_BROKEN, abi::WEFT_REASON_LINK, |e| {
            matches!(e, Error::Broken(Reason::LinkDown))
        }),
        (abi::WEFT_CHAN_BROKEN, abi::WEFT_REASON_PEER, |e| {
            matches!(e, Error::Broken(Reason::PeerRestarted))
        }),
    ];
    for (state, reason, is) in ends {
        let (pair, mut a, mut b) = Pair::new(16, 4096);
        a.send(b"short", 1, SOON).expect("sent");
        a.send(&[7; 500], 2, SOON).expect("sent");
        pair.set_state(1, state, reason);
        let mut got = Vec::new();
        assert_eq!(b.recv(&mut got, SOON).expect("there"), 1);
        assert_eq!(got, b"short");
        assert_eq!(b.recv(&mut got, SOON).expect("there"), 2);
        assert_eq!(got, [7; 500]);
        let error = b.recv(&mut got, SOON).expect_err("ended");
        assert!(is(&error), "{error}");
        let error = b.try_send(b"x", 0).expect_err("ended");
        assert!(is(&error), "{error}");
        let error = b.drain(SOON).map(|()| b.finish(SOON)).expect("nothing was sent");
        assert!(is(&error.expect_err("ended")));
    }
}

#[test]
fn what_the_peer_never_received_is_not_taken_for_received() {
    let (pair, mut a, mut b) = Pair::new(16, 4096);
    for number in 0..8 {
        a.send(b"x", number, SOON).expect("sent");
    }
    let mut got = Vec::new();
    for _ in 0..5 {
        b.recv(&mut got, SOON).expect("there");
    }
    b.receiver().before_sleep().expect("open");
    pair.set_state(0, abi::WEFT_CHAN_BROKEN, abi::WEFT_REASON_LINK);
    assert_eq!(a.sender().consumed().expect("known"), 5);
    assert!(matches!(a.drain(SOON), Err(Error::Broken(Reason::LinkDown))));
    // The driver takes the memory away, later: what was known stays known.
    pair.write(pair.area(0), 0);
    assert_eq!(a.sender().consumed().expect("known"), 5);
    assert_eq!(a.state(), State::Broken(Reason::LinkDown), "not the peer's fault");
}

#[test]
fn memory_that_is_gone_is_not_the_peers_fault() {
    let (pair, mut a, mut b) = Pair::new(16, 4096);
    let mut got = Vec::new();
    // Into the second lap, where the phase of blank memory fits.
    for number in 0..17 {
        a.send(b"x", number, SOON).expect("sent");
        b.recv(&mut got, SOON).expect("there");
    }
    pair.set_state(1, abi::WEFT_CHAN_BROKEN, abi::WEFT_REASON_REMOVED);
    let blank = vec![0; pair.shape.area_bytes()];
    pair.file.write_all_at(&blank, pair.area(1)).expect("written");
    let error = b.try_recv(&mut got).expect_err("broken");
    assert!(matches!(error, Error::Broken(Reason::Removed)), "{error}");
}

#[test]
fn a_peer_that_breaks_the_protocol_is_left() {
    let (pair, mut a, mut b) = Pair::new(16, 4096);
    let head = Head { kind: Kind::Inline, len: 48 }.encode(1, pair.shape);
    pair.write(pair.area(1) + pair.shape.cell_at(0) as u64, head);
    let mut got = Vec::new();
    for _ in 0..2 {
        let error = b.try_recv(&mut got).expect_err("broken");
        assert!(matches!(error, Error::Broken(Reason::Protocol)), "{error}");
    }
    assert_eq!(b.state(), State::Broken(Reason::Protocol));
    assert!(matches!(b.try_send(b"x", 0), Err(Error::Broken(Reason::Protocol))));
    // The other direction: credit for what was never sent.
    a.send(b"x", 0, SOON).expect("sent");
    pair.write(pair.area(0), 2);
    assert!(matches!(a.drain(SOON), Err(Error::Broken(Reason::Protocol))));
}

#[test]
fn the_end_is_the_end() {
    let (_, mut a, mut b) = Pair::new(16, 4096);
    a.send(b"last", 5, SOON).expect("sent");
    assert!(a.sender().try_end().expect("open"));
    assert!(a.sender().try_end().expect("open"), "saying it again is harmless");
    assert!(matches!(a.try_send(b"x", 0), Err(Error::Finished)));
    let mut got = Vec::new();
    assert_eq!(b.recv(&mut got, SOON).expect("there"), 5);
    for _ in 0..2 {
        assert!(matches!(b.try_recv(&mut got), Err(Error::Ended)));
    }
    a.finish(SOON).expect("all was received");
    // Half closed: the other way still works.
    b.send(b"answer", 6, SOON).expect("sent");
    assert_eq!(a.recv(&mut got, SOON).expect("there"), 6);
}

#[test]
fn waiting_ends_in_time() {
    let (_, mut a, mut b) = Pair::new(16, 4096);
    let short = Some(Duration::from_millis(20));
    let start = Instant::now();
    let mut got = Vec::new();
    assert!(matches!(b.recv(&mut got, short), Err(Error::TimedOut(_))));
    while a.try_send(b"x", 0).expect("open") {}
    assert!(matches!(a.send(b"x", 0, short), Err(Error::TimedOut(_))));
    assert!(matches!(a.drain(short), Err(Error::TimedOut(_))));
    assert!(start.elapsed() >= 3 * Duration::from_millis(20));
    assert!(matches!(a.send(b"x", 0, Some(Duration::ZERO)), Err(Error::TimedOut(_))));
}

#[test]
fn a_message_that_cannot_fit_is_refused() {
    let (_, mut a, _b) = Pair::new(16, 4096);
    assert_eq!(a.longest(), 4096);
    let error = a.send(&[0; 4097], 0, SOON).expect_err("too long");
    assert_eq!(
        error.to_string(),
        "a message of 4097 bytes does not fit the channel's bulk ring of 4096 bytes"
    );
    a.send(&[0; 4096], 0, SOON).expect("fits");
}
