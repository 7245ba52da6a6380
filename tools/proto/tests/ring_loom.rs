// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The rings under every interleaving and every reordering that the language's memory model knows.
//!
//! Each word is an atomic accessed without ordering, each fence the weakest that fits its name. The
//! rings are brought to an interesting place by one thread first, as laps take too many steps.

#![allow(clippy::expect_used, clippy::panic)]

use loom::sync::atomic::{fence, AtomicU64, Ordering};
use loom::thread;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_proto::cell::{Shape, CREDIT_AT, RECV_EVENT_AT, SEND_EVENT_AT};
use weft_proto::fence::Fence;
use weft_proto::fifo::Outbound;
use weft_proto::ring::{Next, Receiver, SendError, Sender};
use weft_proto::trunk::{Layout, EVENT_AT, RX_CREDIT_AT};
use weft_proto::window::{Area, Window};
use weft_proto::word::{Says, Word};

const CELLS: u64 = 16;

fn shape() -> Shape {
    Shape::new(CELLS as u32, 4096).expect("allowed")
}

/// The words of an area that a test uses, and the fence that is missing.
struct Side {
    words: BTreeMap<usize, AtomicU64>,
    without: Option<Fence>,
}

impl Side {
    /// With the words of the cells `slots`, two each, and so many at the start of the bulk ring.
    fn new(slots: &[u64], bulk: usize, without: Option<Fence>) -> Self {
        let mut at = vec![CREDIT_AT, RECV_EVENT_AT, SEND_EVENT_AT];
        for slot in slots {
            at.extend((0..3).map(|word| shape().cell_at(*slot) + 8 * word));
        }
        at.extend((0..bulk).map(|word| shape().bulk_at() + 8 * word));
        let words = at.into_iter().map(|at| (at, AtomicU64::new(0))).collect();
        Side { words, without }
    }
}

impl Area for Side {
    fn load(&self, at: usize) -> u64 {
        self.words[&at].load(Ordering::Relaxed)
    }

    fn rmb(&self, why: Fence) {
        if self.without != Some(why) {
            fence(Ordering::Acquire);
        }
    }
}

/// The window onto a side.
struct To(Arc<Side>);

impl Window for To {
    fn store(&self, at: usize, word: u64) {
        self.0.words[&at].store(word, Ordering::Relaxed);
    }

    fn wmb(&self, why: Fence) {
        if self.0.without != Some(why) {
            fence(Ordering::Release);
        }
    }

    fn mb(&self, why: Fence) {
        if self.0.without != Some(why) {
            fence(Ordering::SeqCst);
        }
    }
}

fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (number as usize + 3 * n + 1) as u8)
        .collect()
}

fn send_all(mut sender: Sender<Vec<u64>>, area: &Side, window: &To, lens: &[usize]) {
    for len in lens {
        let number = sender.produced();
        loop {
            match sender.send(area, window, message(number, *len).as_slice(), number) {
                Ok(()) => break,
                Err(SendError::Full(_)) => thread::yield_now(),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

fn receive(receiver: &mut Receiver, area: &Side, window: &To, len: usize) {
    loop {
        match receiver.peek(area, window).expect("the sender is honest") {
            Next::Message(next) => {
                let mut payload = vec![0; next.len as usize];
                receiver.copy(area, &next, 0, &mut payload);
                assert_eq!(payload, message(receiver.consumed(), len), "torn");
                assert_eq!(next.tag, receiver.consumed(), "lost or doubled");
                receiver.consume(window, &next);
                return;
            }
            _ => thread::yield_now(),
        }
    }
}

fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

/// A message in the cell and one in the bulk ring, to a receiver that is looking.
fn two_messages(without: Option<Fence>, first: usize, second: usize) {
    explore(3, move || {
        let here = Arc::new(Side::new(&[], 0, None));
        let there = Arc::new(Side::new(&[0, 1], 16, without));
        let sender = Sender::new(shape(), vec![0; CELLS as usize]).expect("long enough");
        let (area, window) = (here.clone(), To(there.clone()));
        let sending = thread::spawn(move || send_all(sender, &area, &window, &[first, second]));
        let mut receiver = Receiver::new(shape());
        let back = To(here);
        receive(&mut receiver, &there, &back, first);
        receive(&mut receiver, &there, &back, second);
        sending.join().expect("sent");
    });
}

#[test]
fn nothing_is_lost_doubled_or_torn() {
    two_messages(None, 8, 64);
}

#[test]
#[should_panic(expected = "torn")]
fn without_publish_a_cell_is_torn() {
    two_messages(Some(Fence::Publish), 8, 8);
}

#[test]
#[should_panic(expected = "torn")]
fn without_publish_a_bulk_payload_is_torn() {
    two_messages(Some(Fence::Publish), 64, 64);
}

#[test]
#[should_panic(expected = "torn")]
fn without_head_a_cell_is_torn() {
    two_messages(Some(Fence::Head), 8, 8);
}

/// A message comes, then the channel is closed: who sees the end has seen the message. The user
/// looks at the state first, as `Receiver::try_recv` of the library does.
fn message_then_end(without: Option<Fence>) {
    explore(3, move || {
        let here = Arc::new(Side::new(&[], 0, None));
        let there = Arc::new(Side::new(&[0], 0, without));
        let ended = Arc::new(AtomicU64::new(0));
        let sender = Sender::new(shape(), vec![0; CELLS as usize]).expect("long enough");
        let (area, window, end) = (here.clone(), To(there.clone()), ended.clone());
        let peer = thread::spawn(move || {
            send_all(sender, &area, &window, &[8]);
            // The message that closes the channel, and the driver that gets it.
            fence(Ordering::Release);
            end.store(1, Ordering::Relaxed);
        });
        let ended = ended.load(Ordering::Relaxed) != 0;
        there.rmb(Fence::State);
        let next = Receiver::new(shape()).peek(&*there, &To(here));
        let lost = ended && next == Ok(Next::Nothing);
        assert!(!lost, "lost");
        peer.join().expect("sent");
    });
}

#[test]
fn what_came_before_the_end_is_found() {
    message_then_end(None);
}

#[test]
#[should_panic(expected = "lost")]
fn without_state_a_message_is_lost() {
    message_then_end(Some(Fence::State));
}

/// A channel is broken, then its memory taken away: who has copied something else than a message
/// sees that it is broken. The user looks at the state last, as `Receiver::recv` of the library does.
fn memory_taken_away(without: Option<Fence>) {
    explore(3, move || {
        let there = Arc::new(Side::new(&[0], 0, without));
        let broken = Arc::new(AtomicU64::new(0));
        let tag = shape().cell_at(0) + 8;
        there.words[&tag].store(7, Ordering::Relaxed);
        let (area, end) = (there.clone(), broken.clone());
        let driver = thread::spawn(move || {
            end.store(1, Ordering::Relaxed);
            // Pages are taken out of a mapping by far more than this.
            fence(Ordering::Release);
            area.words[&tag].store(0, Ordering::Relaxed);
        });
        let got = there.load(tag);
        there.rmb(Fence::Reread);
        let known = broken.load(Ordering::Relaxed) != 0;
        assert!(got == 7 || known, "made up");
        driver.join().expect("taken");
    });
}

#[test]
fn memory_that_was_taken_away_is_no_message() {
    memory_taken_away(None);
}

#[test]
#[should_panic(expected = "made up")]
fn without_reread_a_message_is_made_up() {
    memory_taken_away(Some(Fence::Reread));
}

/// The ring is full when the threads start: the sender gets the first cell again when credit says
/// so, and not while it is being read.
#[test]
fn a_cell_is_overwritten_after_it_was_consumed() {
    explore(2, move || {
        let slots: Vec<u64> = (0..CELLS).collect();
        let here = Arc::new(Side::new(&[], 0, None));
        let there = Arc::new(Side::new(&slots, 0, None));
        let mut sender = Sender::new(shape(), vec![0; CELLS as usize]).expect("long enough");
        let window = To(there.clone());
        for number in 0..CELLS {
            sender
                .send(&*here, &window, message(number, 8).as_slice(), number)
                .expect("room");
        }
        let area = here.clone();
        let sending = thread::spawn(move || send_all(sender, &area, &window, &[8]));
        let mut receiver = Receiver::new(shape());
        let back = To(here);
        for _ in 0..=CELLS {
            receive(&mut receiver, &there, &back, 8);
        }
        sending.join().expect("sent");
    });
}

mod sleep {
    //! Who sleeps is woken. Stores and doorbells are posted here: the bridge is a thread each way,
    //! and what it carries arrives late, in order. The kernel of the sleeper does what the driver
    //! does in poll(): it tells the peer the event index, rings for an echo, looks once more and
    //! sleeps until its doorbell is rung.

    use super::*;
    use loom::sync::{Condvar, Mutex};
    use std::collections::VecDeque;

    enum Post {
        Store(usize, u64),
        /// "Look at the rings."
        Wake,
        /// "Ring my doorbell back."
        Echo,
        Close,
    }

    /// The way to an end: what is on the bridge, and the doorbell there.
    struct Way {
        side: Side,
        posted: Mutex<VecDeque<Post>>,
        arrived: Condvar,
        rung: Mutex<u32>,
        bell: Condvar,
    }

    impl Way {
        fn new(slots: &[u64]) -> Arc<Self> {
            Self::to(Side::new(slots, 0, None))
        }

        fn to(side: Side) -> Arc<Self> {
            Arc::new(Way {
                side,
                posted: Mutex::new(VecDeque::new()),
                arrived: Condvar::new(),
                rung: Mutex::new(0),
                bell: Condvar::new(),
            })
        }

        fn post(&self, post: Post) {
            self.posted.lock().expect("not poisoned").push_back(post);
            self.arrived.notify_one();
        }

        /// Carries what is posted, until the way is closed.
        fn carry(&self, back: &Way) {
            loop {
                let mut posted = self.posted.lock().expect("not poisoned");
                let next = loop {
                    match posted.pop_front() {
                        Some(next) => break next,
                        None => posted = self.arrived.wait(posted).expect("not poisoned"),
                    }
                };
                drop(posted);
                match next {
                    // What arrived earlier is seen by who sees this: the bridge keeps order.
                    Post::Store(at, word) => self.side.words[&at].store(word, Ordering::Release),
                    Post::Wake => {
                        *self.rung.lock().expect("not poisoned") += 1;
                        self.bell.notify_one();
                    }
                    Post::Echo => back.post(Post::Wake),
                    Post::Close => return,
                }
            }
        }

        /// Sleeps until the doorbell was rung more often than `seen` times.
        fn sleep(&self, seen: &mut u32) {
            let mut rung = self.rung.lock().expect("not poisoned");
            while *rung == *seen {
                rung = self.bell.wait(rung).expect("not poisoned");
            }
            *seen = *rung;
        }
    }

    impl Area for Way {
        fn load(&self, at: usize) -> u64 {
            self.side.words[&at].load(Ordering::Acquire)
        }

        fn rmb(&self, _: Fence) {}
    }

    struct Over<'a>(&'a Way);

    impl Window for Over<'_> {
        fn store(&self, at: usize, word: u64) {
            self.0.post(Post::Store(at, word));
        }

        fn wmb(&self, _: Fence) {}

        fn mb(&self, _: Fence) {
            fence(Ordering::SeqCst);
        }
    }

    /// Waits as the driver does until `ready`.
    fn wait(
        here: &Way,
        there: &Way,
        event_at: usize,
        event: u64,
        echo: bool,
        ready: impl Fn() -> bool,
    ) {
        let mut seen = 0;
        while !ready() {
            // Told once, as in the driver.
            if seen == 0 {
                there.post(Post::Store(event_at, event));
                if echo {
                    there.post(Post::Echo);
                }
                if ready() {
                    return;
                }
            }
            here.sleep(&mut seen);
        }
    }

    fn with_bridge(
        test: impl Fn(Arc<Way>, Arc<Way>) + Sync + Send + 'static,
        slots: &'static [u64],
    ) {
        joined(move || [Way::new(&[]), Way::new(slots)], test);
    }

    fn joined(
        ends: impl Fn() -> [Arc<Way>; 2] + Sync + Send + 'static,
        test: impl Fn(Arc<Way>, Arc<Way>) + Sync + Send + 'static,
    ) {
        explore(2, move || {
            let [a, b] = ends();
            let bridges = [(a.clone(), b.clone()), (b.clone(), a.clone())]
                .map(|(to, back)| thread::spawn(move || to.carry(&back)));
            test(a.clone(), b.clone());
            // An echo may still be on its way from one to the other.
            let [to_a, to_b] = bridges;
            b.post(Post::Close);
            to_b.join().expect("carried");
            a.post(Post::Close);
            to_a.join().expect("carried");
        });
    }

    /// What is stored before the threads start.
    struct Directly<'a>(&'a Way);

    impl Window for Directly<'_> {
        fn store(&self, at: usize, word: u64) {
            self.0.side.words[&at].store(word, Ordering::Relaxed);
        }

        fn wmb(&self, _: Fence) {}

        fn mb(&self, _: Fence) {}
    }

    /// A channel of which `sent` cells were sent and `consumed` of those consumed, `told` of it.
    fn begun(a: &Way, b: &Way, sent: u64, consumed: u64) -> (Sender<Vec<u64>>, Receiver) {
        let mut sender = Sender::new(shape(), vec![0; CELLS as usize]).expect("long enough");
        let mut receiver = Receiver::new(shape());
        for number in 0..sent {
            sender
                .send(a, &Directly(b), message(number, 8).as_slice(), number)
                .expect("room");
            sender.needs_kick(a, &Directly(b));
        }
        for _ in 0..consumed {
            let Ok(Next::Message(next)) = receiver.peek(b, &Directly(a)) else {
                panic!("lost")
            };
            receiver.consume(&Directly(a), &next);
        }
        receiver.flush(&Directly(a));
        receiver.needs_kick(b, &Directly(a));
        (sender, receiver)
    }

    fn sleeping_receiver(echo: bool) {
        with_bridge(
            move |a, b| {
                let (mut sender, _) = begun(&a, &b, 1, 1);
                let (here, there) = (a.clone(), b.clone());
                let sending = thread::spawn(move || {
                    let window = Over(&there);
                    sender
                        .send(&*here, &window, message(1, 8).as_slice(), 1)
                        .expect("room");
                    if sender.needs_kick(&*here, &window) {
                        there.post(Post::Wake);
                    }
                });
                let cell = shape().cell_at(1);
                wait(&b, &a, RECV_EVENT_AT, 1, echo, || b.load(cell) != 0);
                sending.join().expect("sent");
            },
            &[0, 1],
        );
    }

    #[test]
    fn a_receiver_is_woken() {
        sleeping_receiver(true);
    }

    /// The event index and the message cross on the bridge, and neither end rings.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_echo_a_receiver_sleeps_on() {
        sleeping_receiver(false);
    }

    /// The sender waits for the second of two cells to be consumed.
    fn sleeping_sender(echo: bool) {
        with_bridge(
            move |a, b| {
                let (_, mut receiver) = begun(&a, &b, 2, 1);
                let (here, there) = (a.clone(), b.clone());
                let receiving = thread::spawn(move || {
                    let window = Over(&here);
                    let next = receiver
                        .peek(&*there, &window)
                        .expect("the sender is honest");
                    let Next::Message(next) = next else {
                        panic!("lost")
                    };
                    receiver.consume(&window, &next);
                    receiver.flush(&window);
                    if receiver.needs_kick(&*there, &window) {
                        here.post(Post::Wake);
                    }
                });
                wait(&a, &b, SEND_EVENT_AT, 1, echo, || a.load(CREDIT_AT) == 2);
                receiving.join().expect("received");
            },
            &[0, 1],
        );
    }

    #[test]
    fn a_sender_is_woken() {
        sleeping_sender(true);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_the_echo_a_sender_sleeps_on() {
        sleeping_sender(false);
    }

    fn link_queues() -> Layout {
        Layout::of_arena(128 << 10).expect("large enough")
    }

    /// A word of the sender's link queues that nothing here uses otherwise: it was asked for an answer.
    const ASKED_AT: usize = RX_CREDIT_AT;

    /// An end of link queues asks the other one to ring, without an echo, and for an answer: first one,
    /// then the other. It sleeps until it has a word that the other end says of its own accord.
    fn sleeping_for_an_answer(rings_first: bool) {
        let place = |number| link_queues().cq().place(number);
        let ends = move || {
            [vec![EVENT_AT, ASKED_AT], vec![place(0), place(1), place(2)]].map(|words| {
                let words = words.into_iter().map(|at| (at, AtomicU64::new(0)));
                Way::to(Side {
                    words: words.collect(),
                    without: None,
                })
            })
        };
        joined(ends, move |a, b| {
            let mut out = Outbound::new(link_queues(), link_queues());
            let mut say = move |area: &Way, window: &dyn Fn(Post), psn| {
                let word = Word {
                    qpn: 1,
                    psn,
                    says: Says::Ack,
                };
                let window = Posting(window);
                out.word(area, &window, &word).expect("room");
                if out.needs_kick(area, &window) {
                    (window.0)(Post::Wake);
                }
            };
            // One that was taken: the end does not sleep as it does when link queues begin.
            say(
                &a,
                &|post| {
                    if let Post::Store(at, word) = post {
                        Directly(&b).store(at, word)
                    }
                },
                0,
            );
            let (here, there) = (a.clone(), b.clone());
            let saying = thread::spawn(move || {
                say(&here, &|post| there.post(post), 1);
                let mut seen = 0;
                while here.load(ASKED_AT) == 0 {
                    here.sleep(&mut seen);
                }
                say(&here, &|post| there.post(post), 2);
            });
            let event = Post::Store(EVENT_AT, 1);
            let request = Post::Store(ASKED_AT, 1);
            let order = if rings_first {
                [event, request, Post::Wake]
            } else {
                [request, Post::Wake, event]
            };
            order.into_iter().for_each(|post| a.post(post));
            let mut seen = 0;
            while b.load(place(1)) == 0 {
                b.sleep(&mut seen);
            }
            saying.join().expect("said");
        });
    }

    /// A window whose stores are posted by a function.
    struct Posting<'a>(&'a dyn Fn(Post));

    impl Window for Posting<'_> {
        fn store(&self, at: usize, word: u64) {
            (self.0)(Post::Store(at, word));
        }

        fn wmb(&self, _: Fence) {}

        fn mb(&self, _: Fence) {
            fence(Ordering::SeqCst);
        }
    }

    /// The doorbell of the answer comes behind all that was said before it.
    #[test]
    fn an_answer_is_as_good_as_an_echo() {
        sleeping_for_an_answer(true);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn an_answer_to_an_earlier_request_is_not() {
        sleeping_for_an_answer(false);
    }
}
