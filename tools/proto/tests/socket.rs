// SPDX-License-Identifier: GPL-2.0 OR MIT

//! S-2: streams of bytes through two halves, pushed and pulled, with ends that wait and are woken by
//! doorbells alone; S-1: the messages that make and end a socket.

#![allow(clippy::expect_used)]

mod stream;

use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use stream::{send, Bytes, Room};
use weft_proto::{
    fence::Fence,
    socket::{
        message::{Message, Reject, Says},
        stream::{Fault, Found, Receiver, Sender},
        Half, Mode, Shape, END, EVENT_AT, FULL_AT, MAX_HALF, MIN_HALF, SEGMENT, SENT_AT, WQES_AT,
    },
    window::{Area, Window},
};

/// A half.
struct Memory {
    words: RefCell<Vec<u64>>,
    loads: Cell<usize>,
}

impl Memory {
    fn new(shape: Shape) -> Self {
        Self {
            words: RefCell::new(vec![0; shape.bytes() as usize / 8]),
            loads: Cell::new(0),
        }
    }
}

impl Area for Memory {
    fn load(&self, at: usize) -> u64 {
        assert_eq!(at % 8, 0);
        self.loads.set(self.loads.get() + 1);
        self.words.borrow()[at / 8]
    }

    fn rmb(&self, _: Fence) {}
}

impl Window for Memory {
    fn store(&self, at: usize, word: u64) {
        assert_eq!(at % 8, 0);
        self.words.borrow_mut()[at / 8] = word;
    }

    fn wmb(&self, _: Fence) {}

    fn mb(&self, _: Fence) {}
}

fn byte(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// One direction of a socket: the sender's half is `here`, the receiver's `there`.
struct Stream {
    shape: Shape,
    here: Memory,
    there: Memory,
    sender: Sender,
    receiver: Receiver,
    sent: u64,
    got: u64,
    /// They wait for a doorbell.
    sender_waits: bool,
    receiver_waits: bool,
    /// How often the buffer-full flag was written.
    full: usize,
}

impl Stream {
    fn new(shape: Shape) -> Self {
        let mut new = Self {
            shape,
            here: Memory::new(shape),
            there: Memory::new(shape),
            sender: Sender::new(shape),
            receiver: Receiver::new(shape),
            sent: 0,
            got: 0,
            sender_waits: false,
            receiver_waits: false,
            full: 0,
        };
        new.receiver.flush(&new.here);
        new
    }

    fn rung_by_sender(&mut self) {
        if self.sender.needs_kick(&self.here, &self.there) {
            self.receiver_waits = false;
        }
    }

    fn rung_by_receiver(&mut self) {
        if self.receiver.needs_kick(&self.there, &self.here) {
            self.sender_waits = false;
        }
    }

    /// Sends up to `most` bytes; an end that finds no room leaves the flag and waits.
    fn send(&mut self, most: usize) {
        if self.sender_waits || most == 0 {
            return;
        }
        let bytes: Vec<u8> = (self.sent..).take(most).map(byte).collect();
        let count = send(&mut self.sender, &self.here, &self.there, &bytes).expect("no fault");
        self.sent += count as u64;
        self.rung_by_sender();
        if count == 0 {
            let mark = self.sender.mark().expect("no room");
            self.there.store(FULL_AT, mark + 1);
            self.full += 1;
            self.sender_waits = self.sender.room(&self.here) == Ok(0);
        }
    }

    fn end(&mut self) {
        self.sender.end(&self.there);
        self.rung_by_sender();
    }

    /// Receives up to `most` bytes; an end that finds nothing waits. Returns true at the end of the stream.
    fn receive(&mut self, most: usize) -> bool {
        if self.receiver_waits {
            return false;
        }
        match self
            .receiver
            .look(&self.there, &self.here)
            .expect("no fault")
        {
            Found::Bytes(count) => {
                let mut out = vec![0; most.min(count as usize)];
                let ring = match self.shape.mode() {
                    Mode::Push => &self.there,
                    Mode::Pull => &self.here,
                };
                let most = out.len();
                let copied = self.receiver.copy(ring, most, &mut Room(&mut out));
                assert_eq!(copied, most);
                for found in &out {
                    assert_eq!(*found, byte(self.got), "byte {}", self.got);
                    self.got += 1;
                }
                self.receiver.take(out.len() as u64);
                self.receiver.settle(&self.there, &self.here);
                self.rung_by_receiver();
                false
            }
            Found::Nothing => {
                self.receiver.settle(&self.there, &self.here);
                self.rung_by_receiver();
                self.here.store(EVENT_AT, self.receiver.mark());
                let again = self.receiver.look(&self.there, &self.here);
                self.receiver_waits = again == Ok(Found::Nothing);
                false
            }
            Found::End => true,
        }
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let bytes = prop::sample::select(vec![MIN_HALF, 2 * MIN_HALF, 5 * MIN_HALF]);
    (any::<bool>(), bytes).prop_map(|(pulls, bytes)| {
        let mode = if pulls { Mode::Pull } else { Mode::Push };
        Shape::new(mode, bytes).expect("pages")
    })
}

proptest! {
    #[test]
    fn s_2_what_is_sent_arrives_whatever_the_order(
        shape in shape(),
        steps in prop::collection::vec((any::<bool>(), 0usize..6000), 1..200),
    ) {
        let mut stream = Stream::new(shape);
        for (sends, most) in steps {
            match sends {
                true => stream.send(most),
                false => prop_assert!(!stream.receive(most)),
            }
            // No doorbell is missing: if both wait, nothing is under way.
            prop_assert!(!(stream.sender_waits && stream.receiver_waits));
        }
        stream.end();
        let sent = stream.sent;
        for _ in 0..1000 {
            if stream.receive(777) {
                break;
            }
        }
        prop_assert_eq!(stream.got, sent);
        prop_assert!(stream.receive(1));
    }

    #[test]
    fn s_1_messages_are_what_they_were(message in message()) {
        let (op, words) = message.encode();
        prop_assert_eq!(Message::decode(op, |n| words[n]), Some(message));
    }

    #[test]
    fn s_1_any_words_are_a_message_or_none(op in any::<u8>(), words in any::<[u64; 5]>()) {
        if let Some(message) = Message::decode(op, |n| words[n]) {
            prop_assert_eq!(message.encode(), (op, words));
        }
    }
}

fn half() -> impl Strategy<Value = Half> {
    (shape(), 0u64..1 << 30).prop_map(|(shape, page)| Half {
        base: page << 12,
        shape,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let reject = prop::sample::select(vec![Reject::Refused, Reject::NoRoom, Reject::Unsupported]);
    let says = prop_oneof![
        (1u32.., half(), any::<u64>()).prop_map(|(service, half, data)| Says::Init {
            service,
            half,
            data
        }),
        half().prop_map(Says::Accept),
        reject.prop_map(Says::Reject),
        any::<bool>().prop_map(|aborts| Says::Close { aborts }),
        Just(Says::Closed),
    ];
    (says, 1u32.., 1u32..).prop_map(|(says, to, from)| {
        let (to, from) = match says {
            Says::Init { .. } => (0, from),
            Says::Reject(_) => (to, 0),
            _ => (to, from),
        };
        Message { to, from, says }
    })
}

fn small(mode: Mode) -> Stream {
    Stream::new(Shape::new(mode, MIN_HALF).expect("a page"))
}

#[test]
fn s_2_nothing_but_requests_to_pull_and_their_data_is_read_from_the_peer() {
    for mode in [Mode::Push, Mode::Pull] {
        let mut stream = small(mode);
        stream.send(1000);
        let before = stream.here.loads.get();
        stream.receive(1000);
        // The WQE and its bytes; the flag and the event are in the half of the end that looks at them.
        let want = if mode == Mode::Pull { 2 + 125 } else { 0 };
        assert_eq!(stream.here.loads.get() - before, want, "{mode:?}");
        assert_eq!(stream.got, 1000);
    }
}

#[test]
fn s_2_a_full_buffer_is_said_and_answered_at_once() {
    for mode in [Mode::Push, Mode::Pull] {
        let mut stream = small(mode);
        while !stream.sender_waits {
            stream.send(10_000);
        }
        assert_eq!(stream.full, 1, "{mode:?}");
        let before = stream.here.load(WQES_AT);
        // Far less than what is given back without the flag. Pulled, a WQE is given back once it is whole.
        let few = if mode == Mode::Push {
            SEGMENT as usize
        } else {
            10_000
        };
        stream.receive(few);
        assert!(stream.here.load(WQES_AT) > before, "{mode:?}");
        assert!(!stream.sender_waits, "{mode:?}");
    }
}

#[test]
fn s_2_without_the_flag_receive_wqes_are_posted_in_batches() {
    let mut stream = small(Mode::Push);
    let posted = stream.here.load(WQES_AT);
    assert_eq!(posted, (u64::from(MIN_HALF) - 256) / SEGMENT);
    stream.send(2 * SEGMENT as usize);
    stream.receive(2 * SEGMENT as usize);
    assert_eq!(stream.here.load(WQES_AT), posted);
    stream.send(2 * SEGMENT as usize);
    stream.receive(2 * SEGMENT as usize);
    assert_eq!(stream.here.load(WQES_AT), posted + 4);
}

/// Calls `f` with a stream in which 1000 bytes are under way.
fn spoilt(mode: Mode, f: impl Fn(&mut Stream) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut stream = small(mode);
    stream.send(1000);
    f(&mut stream)
}

#[test]
fn s_2_counts_that_cannot_be_are_faults() {
    let look = |stream: &mut Stream| {
        stream
            .receiver
            .look(&stream.there, &stream.here)
            .map(|_| ())
    };
    let room = |stream: &mut Stream| stream.sender.room(&stream.here).map(|_| ());
    let sent = |mode, count| {
        spoilt(mode, |stream| {
            look(stream)?;
            stream.there.store(SENT_AT, count);
            look(stream)
        })
    };
    let given = |mode, count| {
        spoilt(mode, |stream| {
            stream.here.store(WQES_AT, count);
            room(stream)
        })
    };
    let wqe = |position, length| {
        spoilt(Mode::Pull, |stream| {
            stream.here.store(256, position);
            stream.here.store(264, length);
            look(stream)
        })
    };
    for count in [999, 0, 15 * SEGMENT + 1, u64::MAX, END] {
        assert_eq!(sent(Mode::Push, count), Err(Fault::Count), "{count:#x}");
    }
    for count in [0, 33, u64::MAX, END] {
        assert_eq!(sent(Mode::Pull, count), Err(Fault::Count), "{count:#x}");
    }
    for count in [0, 14, 19, u64::MAX] {
        assert_eq!(given(Mode::Push, count), Err(Fault::Count), "{count}");
    }
    for count in [2, u64::MAX] {
        assert_eq!(given(Mode::Pull, count), Err(Fault::Count), "{count}");
    }
    for (position, length) in [(0, 0), (1, 1000), (u64::MAX, 8), (0, 3329), (0, u64::MAX)] {
        assert_eq!(
            wqe(position, length),
            Err(Fault::Wqe),
            "{position}+{length}"
        );
    }
    assert_eq!(sent(Mode::Push, 1000), Ok(()));
    assert_eq!(given(Mode::Push, 18), Ok(()));
    assert_eq!(given(Mode::Pull, 1), Ok(()));
    assert_eq!(wqe(0, 1000), Ok(()));
}

#[test]
fn s_2_nothing_follows_the_end() {
    let mut stream = small(Mode::Push);
    stream.send(10);
    stream.end();
    assert_eq!(
        send(&mut stream.sender, &stream.here, &stream.there, b"more"),
        Ok(0)
    );
    stream.receive(10);
    assert!(stream.receive(1));
    stream.there.store(SENT_AT, (10 + 2) | END);
    let found = stream.receiver.look(&stream.there, &stream.here);
    assert_eq!(found, Err(Fault::Count));
}

#[test]
fn s_1_halves_are_checked() {
    for mode in [Mode::Push, Mode::Pull] {
        for bytes in [0, MIN_HALF - 1, MIN_HALF + 8, 2 * MAX_HALF, u32::MAX] {
            assert_eq!(Shape::new(mode, bytes), None, "{bytes}");
        }
    }
    let shape = Shape::new(Mode::Push, MIN_HALF).expect("a page");
    let says = Says::Accept(Half { base: 4096, shape });
    let (op, words) = Message {
        to: 1,
        from: 2,
        says,
    }
    .encode();
    let with = |at: usize, word: u64| {
        let mut words = words;
        words[at] = word;
        Message::decode(op, |n| words[n])
    };
    assert!(with(2, 8192).is_some());
    // No page; another start; another mode; no sender; no receiver; data where there are none.
    for (at, word) in [
        (2, 4097),
        (3, u64::from(MIN_HALF)),
        (3, u64::from(MIN_HALF) | (768 << 32)),
        (1, 1 << 32),
        (1, 2 << 32),
        (0, 1),
        (0, 2 << 32),
        (4, 1),
    ] {
        assert_eq!(with(at, word), None, "{at} {word:#x}");
    }
}

#[test]
fn s_2_what_is_looked_at_is_received_again() {
    for mode in [Mode::Push, Mode::Pull] {
        let mut stream = small(mode);
        // So that what comes then goes over the end of the ring.
        stream.send(3000);
        stream.receive(2995);
        stream.receive(5);
        stream.send(1500);
        let ring = match mode {
            Mode::Push => &stream.there,
            Mode::Pull => &stream.here,
        };
        let found = stream.receiver.look(&stream.there, &stream.here);
        assert_eq!(found, Ok(Found::Bytes(1500)), "{mode:?}");
        assert!(stream.receiver.seen().is_some());
        let mut out = [0; 1500];
        for most in [1, 900, 1500] {
            let copied = stream.receiver.copy(ring, most, &mut Room(&mut out));
            assert_eq!(copied, most, "{mode:?}");
            assert!((3000..)
                .zip(&out[..most])
                .all(|(at, found)| byte(at) == *found));
        }
        assert_eq!(
            stream.receiver.copy(ring, 1500, &mut Room(&mut out[..700])),
            700
        );
        stream.receive(1500);
        assert_eq!(stream.got, 4500, "{mode:?}");
        stream.end();
        assert!(stream.receive(1));
        assert_eq!(stream.receiver.seen(), None);
    }
}

#[test]
fn s_2_a_source_that_has_fewer_bytes_sends_those() {
    for mode in [Mode::Push, Mode::Pull] {
        let mut stream = small(mode);
        let bytes: Vec<u8> = (0..20).map(byte).collect();
        // Its memory is not there yet, then a part of it is.
        for (from, to) in [(0, 0), (0, 3), (3, 3), (3, 11), (11, 20)] {
            let mut source = Bytes(&bytes[from..to]);
            let sent = stream
                .sender
                .send(&stream.here, &stream.there, bytes.len(), &mut source);
            assert_eq!(sent, Ok(to - from), "{mode:?}");
        }
        while stream.got < 20 {
            stream.receive(20);
        }
    }
}
