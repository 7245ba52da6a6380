// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fences as a set, and the one that neither loom nor an x86 processor can show.
//!
//! A processor that is not an x86 may do a load after a store that follows it. Loom gives every load
//! its value at once, so that is modelled here: a load stays open until a fence that it cannot pass,
//! and what it brought must not have changed by then.

#![allow(clippy::expect_used, clippy::panic)]

mod fabric;

use fabric::{Side, To};
use std::cell::RefCell;
use std::collections::BTreeSet;
use weft_proto::cell::{Shape, CREDIT_AT, RECV_EVENT_AT, SEND_EVENT_AT};
use weft_proto::fence::Fence;
use weft_proto::ring::{Next, Receiver, SendError, Sender};
use weft_proto::window::{Area, Window};

/// An area, and the loads of it that may still be done later.
struct Loads<'a> {
    side: &'a Side,
    open: RefCell<Vec<(usize, u64)>>,
}

impl Area for Loads<'_> {
    fn load(&self, at: usize) -> u64 {
        let word = self.side.load(at);
        self.open.borrow_mut().push((at, word));
        word
    }

    fn rmb(&self, _: Fence) {}
}

/// The receiver's window, behind whose fences no load stays open.
struct Behind<'a> {
    to: To<'a>,
    loads: &'a Loads<'a>,
    without: Option<Fence>,
}

impl Window for Behind<'_> {
    fn store(&self, at: usize, word: u64) {
        self.to.store(at, word);
    }

    fn wmb(&self, fence: Fence) {
        if self.without != Some(fence) {
            self.loads.open.borrow_mut().clear();
            self.to.wmb(fence);
        }
    }

    fn mb(&self, fence: Fence) {
        self.wmb(fence);
    }
}

/// Fills a ring, takes as much as it takes for credit, and fills it again.
fn overwrite(without: Option<Fence>, len: usize) {
    let shape = Shape::new(16, 4096).expect("allowed");
    let (here, there) = (Side::new(shape), Side::new(shape));
    let mut sender = Sender::new(shape, vec![0; 16]).expect("long enough");
    let mut fill = |first: u8| {
        let mut number = first;
        loop {
            match sender.send(
                &here,
                &To(&there),
                vec![number; len].as_slice(),
                number.into(),
            ) {
                Ok(()) => number += 1,
                Err(SendError::Full(_)) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        there.land_all();
        number - first
    };
    assert!(fill(1) > 4);
    let loads = Loads {
        side: &there,
        open: RefCell::default(),
    };
    let back = Behind {
        to: To(&here),
        loads: &loads,
        without,
    };
    let mut receiver = Receiver::new(shape);
    for number in 1..=4 {
        let Ok(Next::Message(message)) = receiver.peek(&loads, &back) else {
            panic!("lost")
        };
        let mut payload = vec![0; len];
        receiver.copy(&loads, &message, 0, &mut payload);
        assert_eq!(payload, vec![number; len]);
        receiver.consume(&back, &message);
    }
    receiver.flush(&back);
    here.land_all();
    assert!(fill(101) > 0, "credit came");
    for (at, word) in loads.open.into_inner() {
        assert_eq!(there.load(at), word, "overwritten");
    }
}

#[test]
fn nothing_is_overwritten_before_it_was_loaded() {
    overwrite(None, 48);
    overwrite(None, 512);
}

#[test]
#[should_panic(expected = "overwritten")]
fn without_credit_a_cell_is_overwritten() {
    overwrite(Some(Fence::Credit), 48);
}

#[test]
#[should_panic(expected = "overwritten")]
fn without_credit_a_bulk_payload_is_overwritten() {
    overwrite(Some(Fence::Credit), 512);
}

/// A window whose stores stay in the CPU until a fence.
struct Held<'a> {
    to: &'a Side,
    without: Option<Fence>,
}

impl Window for Held<'_> {
    fn store(&self, at: usize, word: u64) {
        To(self.to).store(at, word);
    }

    fn wmb(&self, fence: Fence) {
        if self.without != Some(fence) {
            self.to.land_all();
        }
    }

    fn mb(&self, fence: Fence) {
        self.wmb(fence);
    }
}

/// A receiver goes to sleep while a message is sent: its event index comes after the sender has
/// looked for it, and the echo that follows the index has the receiver look once more.
fn receiver_sleeps(without: Option<Fence>) {
    let shape = Shape::new(16, 4096).expect("allowed");
    let (here, there) = (Side::new(shape), Side::new(shape));
    let mut sender = Sender::new(shape, vec![0; 16]).expect("long enough");
    let held = Held {
        to: &there,
        without,
    };
    here.poke(RECV_EVENT_AT, u64::MAX);
    sender
        .send(&here, &held, b"wake".as_slice(), 0)
        .expect("room");
    let rung = sender.needs_kick(&here, &held);
    here.poke(RECV_EVENT_AT, 0);
    let found = there.load(shape.cell_at(0)) != 0;
    there.land_all();
    assert!(rung || found, "sleeps on");
}

/// The same of a sender that waits for credit.
fn sender_sleeps(without: Option<Fence>) {
    let shape = Shape::new(16, 4096).expect("allowed");
    let (here, there) = (Side::new(shape), Side::new(shape));
    let mut sender = Sender::new(shape, vec![0; 16]).expect("long enough");
    sender
        .send(&here, &To(&there), b"room".as_slice(), 0)
        .expect("room");
    there.land_all();
    let held = Held { to: &here, without };
    there.poke(SEND_EVENT_AT, u64::MAX);
    let mut receiver = Receiver::new(shape);
    let Ok(Next::Message(message)) = receiver.peek(&there, &held) else {
        panic!("lost")
    };
    receiver.consume(&held, &message);
    receiver.flush(&held);
    let rung = receiver.needs_kick(&there, &held);
    there.poke(SEND_EVENT_AT, 0);
    let found = here.load(CREDIT_AT) != 0;
    here.land_all();
    assert!(rung || found, "sleeps on");
}

#[test]
fn an_end_that_sleeps_is_woken() {
    receiver_sleeps(None);
    sender_sleeps(None);
}

#[test]
#[should_panic(expected = "sleeps on")]
fn without_wake_receiver_a_receiver_sleeps_on() {
    receiver_sleeps(Some(Fence::WakeReceiver));
}

#[test]
#[should_panic(expected = "sleeps on")]
fn without_wake_sender_a_sender_sleeps_on() {
    sender_sleeps(Some(Fence::WakeSender));
}

/// The tables in `Documentation/protocol.rst` name every fence, and each is there in this build.
#[test]
fn every_fence_is_there_and_documented() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../Documentation/protocol.rst"
    );
    let page = std::fs::read_to_string(page).expect("the protocol's page");
    // The names by which a build leaves one out.
    let source = include_str!("../../../rust/proto/fence.rs");
    let names = source.split("cfg!(weft_without_fence = \"").skip(1);
    let names: BTreeSet<_> = names.filter_map(|rest| rest.split('"').next()).collect();
    let all = [
        Fence::Publish,
        Fence::Head,
        Fence::Credit,
        Fence::WakeReceiver,
        Fence::WakeSender,
        Fence::Sleep,
        Fence::State,
        Fence::Reread,
    ];
    assert_eq!(names.len(), all.len(), "{names:?}");
    for name in names {
        assert!(page.contains(&format!("``{name}``")), "{name}");
    }
    for fence in all {
        assert!(fence.is_there(), "{fence:?}");
    }
}
