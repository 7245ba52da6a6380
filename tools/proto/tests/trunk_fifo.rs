// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The FIFOs of a trunk: what goes in at one end comes out at the other, in order, and whatever a
//! hostile peer writes is refused or can be believed.

#![allow(clippy::expect_used, clippy::panic)]

mod trunk;

use proptest::prelude::*;
use std::collections::VecDeque;
use trunk::{layout, message, word, Memory, WORDS};
use weft_proto::fifo::{Arrived, Error, Inbound, Outbound};
use weft_proto::request::{decode, encode, Address, Gone, Lane, Message, Role, HEAD};
use weft_proto::trunk::{
    Fault, Layout, CQ_CREDIT_AT, EVENT_AT, PULL_CQ_CREDIT_AT, PULL_CQ_TAIL_AT, PULL_CREDIT_AT,
    PULL_TAIL_AT, RX_CREDIT_AT, TX_CREDIT_AT,
};
use weft_proto::word::{Says, Word};

const GONE: Message = Message::Gone(Gone {
    qpn: 7,
    refuses: false,
    epoch: 1,
    peer_epoch: 1,
});

fn small() -> Layout {
    Layout::of_arena(128 << 10).expect("large enough")
}

fn address() -> impl Strategy<Value = Address> {
    (0u32..1 << 24, any::<u16>()).prop_map(|(qpn, psn)| Address { qpn, psn })
}

/// The words of a cell with `message`, and the indices of those that precede the head, in their order;
/// words that it does not need are spoilt.
fn words(address: Address, message: &Message, junk: u64) -> ([u64; WORDS], Vec<usize>) {
    let mut words = [junk; WORDS];
    let mut stored = vec![];
    let head = encode(address, message, Some(junk), |n, word| {
        words[n] = word;
        stored.push(n);
    });
    words[HEAD] = head;
    (words, stored)
}

/// One direction: who sends, who receives, the trunk of either.
struct World {
    out: Outbound,
    inn: Inbound,
    sender: Memory,
    receiver: Memory,
}

impl World {
    fn new(sender: Layout, receiver: Layout) -> Self {
        World {
            out: Outbound::new(sender, receiver),
            inn: Inbound::new(receiver, sender),
            sender: Memory::new(sender),
            receiver: Memory::new(receiver),
        }
    }

    fn pull_word(&mut self) -> Result<Option<Word>, Fault> {
        self.inn
            .pull_word(&self.receiver, &self.sender, &self.sender)
    }

    fn send(&mut self, address: Address, message: &Message) -> Result<(), Error> {
        self.out
            .send(&self.sender, &self.receiver, address, message)
    }

    fn receive(&mut self) -> Result<Option<Arrived>, Fault> {
        let arrived = self.inn.peek(&self.receiver)?;
        if let Some(arrived) = &arrived {
            self.inn.consume(&self.sender, arrived);
        }
        Ok(arrived)
    }
}

/// Where a message shows is known for as long as none is taken, over more than a lap of the FIFO; control words are none.
#[test]
fn s_1_a_message_shows_where_the_next_one_is_expected() {
    let mut world = World::new(small(), small());
    let to = Address { qpn: 7, psn: 0 };
    for _ in 0..3 * small().rx().count() {
        let next = world.inn.next();
        assert!(!next.has_come(&world.receiver));
        let says = Says::Done {
            to: Role::Initiator,
            part: 0,
        };
        let word = Word {
            qpn: 7,
            psn: 0,
            says,
        };
        world
            .out
            .word(&world.sender, &world.receiver, &word)
            .expect("room");
        assert!(!next.has_come(&world.receiver));
        world.send(to, &GONE).expect("room");
        assert!(next.has_come(&world.receiver));
        let taken = world.inn.word(&world.receiver, &world.sender);
        assert_eq!(taken, Ok(Some(word)));
        assert!(world.receive().expect("valid").is_some());
    }
    let next = world.inn.next();
    let message: Message = Message::Size { to: 0, stag: 1 };
    world
        .out
        .offer(&world.sender, &world.sender, to, &message)
        .expect("room");
    assert!(!next.has_come(&world.receiver));
    world.out.tell(&world.receiver);
    assert!(next.has_come(&world.receiver));
}

proptest! {
    #[test]
    fn q_2_a_cell_comes_out_as_it_went_in(
        (own, peer, message) in (layout(), layout())
            .prop_flat_map(|(own, peer)| (Just(own), Just(peer), message(own, peer))),
        address in address(),
        junk in any::<u64>(),
    ) {
        let (words, stored) = words(address, &message, junk);
        // A window combines stores into lines as long as they ascend.
        prop_assert!(stored.is_sorted_by(|a, b| a < b) && !stored.contains(&HEAD), "{stored:?}");
        let lane = message.lane();
        prop_assert_eq!(
            decode(lane, words[HEAD], |n| words[n], &own, &peer),
            Ok((address, message))
        );
        let other = if lane == Lane::Receive { Lane::Transmit } else { Lane::Receive };
        prop_assert_eq!(
            decode(other, words[HEAD], |n| words[n], &own, &peer),
            Err(Fault::Kind)
        );
        let pulled = decode(Lane::Pulled, words[HEAD], |n| words[n], &own, &peer);
        prop_assert_eq!(pulled.is_ok(), message.is_pullable());
    }

    /// Arbitrary words: what is taken for a message names nothing outside of what is for data.
    #[test]
    fn a_cell_of_garbage_names_nothing_but_memory_for_data(
        cell in any::<[u64; WORDS]>(),
        op in prop_oneof![0u64..32, any::<u8>().prop_map(u64::from)],
        count in 0u64..128,
        own in layout(),
        peer in layout(),
        lane in prop::sample::select(vec![Lane::Receive, Lane::Transmit, Lane::Pulled]),
    ) {
        // Half of the heads are nearly right.
        let tame = (cell[HEAD] & 0x8000_0000_00ff_ffff) | (op << 32) | (count << 24);
        for head in [cell[HEAD], tame] {
            check(decode(lane, head, |n| cell[n], &own, &peer), &own, &peer);
        }
    }

    #[test]
    fn a_word_comes_out_as_it_went_in(word in word(), number in any::<u64>(), own in layout()) {
        let code = word.encode(number, own.cq());
        prop_assert_eq!(Word::decode(code, number, own.cq()), Ok(Some(word)));
        let later = number.wrapping_add(own.cq().count().into());
        prop_assert_eq!(Word::decode(code, later, own.cq()), Ok(None));
    }

    #[test]
    fn a_word_of_garbage_is_no_panic(code in any::<u64>(), number in any::<u64>(), own in layout()) {
        if let Ok(Some(word)) = Word::decode(code, number, own.cq()) {
            prop_assert_eq!(word.encode(number, own.cq()), code);
        }
    }

    /// Any messages, through small trunks, sent and received by turns.
    #[test]
    fn q_2_fifos_lose_double_and_disorder_nothing(
        steps in prop::collection::vec((any::<bool>(), address(), message(small(), small())), 1..400),
    ) {
        let mut world = World::new(small(), small());
        let mut model = VecDeque::new();
        for (send, address, message) in steps {
            if send {
                match world.send(address, &message) {
                    Ok(()) => model.push_back((address, message)),
                    Err(error) => {
                        prop_assert_eq!(error, Error::Full);
                        prop_assert!(model.len() >= 16, "full of {}", model.len());
                    }
                }
            } else {
                let came = world.receive().expect("the sender is honest");
                prop_assert_eq!(came.map(|a| (a.address, a.message)), model.pop_front());
            }
        }
        while let Some(sent) = model.pop_front() {
            let came = world.receive().expect("the sender is honest").expect("not lost");
            prop_assert_eq!((came.address, came.message), sent);
        }
        prop_assert_eq!(world.receive(), Ok(None));
    }

    /// A peer that writes anything anywhere, and counts as it likes: faults, but no panic.
    #[test]
    fn a_hostile_peer_is_found_out_or_believed(
        writes in prop::collection::vec((0usize..16384 / 8, any::<u64>(), 0u8..4), 1..300),
        message in message(small(), small()),
    ) {
        let mut world = World::new(small(), small());
        let junk = Memory::new(small());
        for (n, word, what) in writes {
            match what {
                // A count, or what looks like one.
                0 => world.receiver.set(n % 8 * 64, word % 64),
                1 => world.receiver.set(n % 8 * 64, word),
                // The head of a cell that is about to be read, or any word.
                2 => world.receiver.set(4096 + n % 64 * 128 + 64, word | (1 << 63)),
                _ => world.receiver.set(n * 8, word),
            }
            junk.set(n * 8, word);
            // The one end reads, the other one writes to it and reads its counts.
            let came = [world.inn.peek(&world.receiver), world.inn.pull(&world.receiver, &junk)];
            for arrived in came.into_iter().flatten().flatten() {
                check(Ok((arrived.address, arrived.message)), &small(), &small());
                world.inn.consume(&world.sender, &arrived);
            }
            let _ = world.inn.word(&world.receiver, &world.sender);
            let _ = world.inn.pull_word(&world.receiver, &junk, &world.sender);
            let address = Address { qpn: 1, psn: 1 };
            let _ = world.out.send(&world.receiver, &world.sender, address, &message);
            let _ = world.out.refresh(&world.receiver);
            let _ = world.out.needs_kick(&world.receiver, &world.sender);
        }
    }
}

/// What may be believed of a message.
fn check(came: Result<(Address, Message), Fault>, own: &Layout, peer: &Layout) {
    use weft_proto::request::Data;
    let Ok((address, message)) = came else { return };
    assert!(address.qpn < 1 << 24);
    let inside = |extents: &weft_proto::request::Extents| {
        for extent in extents.as_slice() {
            let end = u64::from(extent.at) + u64::from(extent.bytes);
            assert!(extent.at as usize >= peer.staging_at() && end <= peer.bytes() as u64);
            assert!(extent.bytes > 0 && extent.at % 64 == 0);
        }
    };
    match message {
        Message::Send { data, .. } | Message::Write { data, .. } => match data {
            Data::Inline(inline) => assert!(inline.as_bytes().len() <= 64),
            Data::Eager { at, len } => {
                assert!(
                    at as usize + len as usize <= own.eager_bytes(),
                    "{at}+{len}"
                );
            }
            Data::Long(length) => assert!((1..=1 << 31).contains(&length)),
        },
        Message::FetchAdd { to, .. } | Message::CmpSwap { to, .. } => assert_eq!(to % 8, 0),
        Message::Read {
            length, extents, ..
        } => {
            inside(&extents);
            let room = extents.bytes();
            assert!(extents.as_slice().is_empty() || u64::from(length) <= room);
            assert!(length <= 1 << 31);
        }
        Message::Lend { extents, .. } | Message::Offer { extents, .. } => {
            inside(&extents);
            assert!(!extents.as_slice().is_empty());
        }
        _ => {}
    }
}

fn send() -> Message {
    use weft_proto::request::Data;
    Message::Send {
        data: Data::Inline(trunk::inline(&[7; 64])),
        imm: None,
    }
}

const ADDRESS: Address = Address { qpn: 5, psn: 9 };

#[test]
fn q_2_a_short_message_is_payload_and_head() {
    let mut body = vec![];
    encode(ADDRESS, &send(), None, |n, _| body.push(n));
    assert_eq!(body, [0, 1, 2, 3, 4, 5, 6, 7], "one line and the head");
}

#[test]
fn credit_is_written_once_in_many_cells() {
    for shift in 17..=22 {
        let layout = Layout::of_arena(1 << shift).expect("large enough");
        let mut world = World::new(layout, layout);
        let mut last = 0;
        let mut writes = 0;
        for _ in 0..4096 {
            world.send(ADDRESS, &send()).expect("room");
            world.receive().expect("honest").expect("came");
            let credit = world.sender.0.borrow()[RX_CREDIT_AT / 8];
            if credit != last {
                assert!(credit - last >= 16, "credit for {} cells", credit - last);
                writes += 1;
                last = credit;
            }
        }
        assert!(writes > 0 && writes <= 4096 / 16);
    }
}

#[test]
fn counts_that_cannot_be_are_faults() {
    for at in [
        RX_CREDIT_AT,
        TX_CREDIT_AT,
        CQ_CREDIT_AT,
        PULL_CREDIT_AT,
        PULL_CQ_CREDIT_AT,
    ] {
        let mut world = World::new(small(), small());
        world.sender.set(at, 1);
        assert_eq!(world.out.refresh(&world.sender), Err(Fault::Count), "{at}");
    }
    let mut world = World::new(small(), small());
    world.send(ADDRESS, &send()).expect("room");
    world.sender.set(RX_CREDIT_AT, 1);
    assert_eq!(world.out.refresh(&world.sender), Ok(()));
    world.sender.set(RX_CREDIT_AT, 0);
    assert_eq!(world.out.refresh(&world.sender), Err(Fault::Count), "back");

    let remote = Memory::new(small());
    world.receiver.set(PULL_TAIL_AT, 33);
    assert_eq!(
        world.inn.pull(&world.receiver, &remote),
        Err(Fault::Count),
        "more than there are"
    );
    world.receiver.set(PULL_TAIL_AT, 1);
    assert_eq!(
        world.inn.pull(&world.receiver, &remote),
        Err(Fault::Value),
        "nothing is there"
    );
    world.receiver.set(PULL_CQ_TAIL_AT, 513);
    assert_eq!(world.pull_word(), Err(Fault::Count), "more than there are");
    world.receiver.set(PULL_CQ_TAIL_AT, 1);
    assert_eq!(world.pull_word(), Err(Fault::Value), "nothing is there");
}

#[test]
fn the_two_cell_fifos_are_one_sequence() {
    let lend = Message::Read {
        to: 0,
        stag: 0,
        length: 0,
        extents: weft_proto::request::Extents::NONE,
    };
    let mut world = World::new(small(), small());
    let sent = [send(), lend, lend, send(), send(), lend];
    for (psn, message) in sent.iter().enumerate() {
        let address = Address {
            qpn: 5,
            psn: psn as u16,
        };
        world.send(address, message).expect("room");
    }
    for psn in 0..sent.len() {
        let came = world.receive().expect("honest").expect("came");
        assert_eq!(usize::from(came.address.psn), psn);
    }
    // The peer says that something came before, which did not.
    let order = small().tx().place(3) + 8 * 15;
    world.send(ADDRESS, &lend).expect("room");
    for wrong in [2, 4, u64::MAX] {
        world.receiver.set(order, wrong);
        assert_eq!(world.receive(), Err(Fault::Order), "{wrong}");
    }
    world.receiver.set(order, 3);
    assert!(world.receive().expect("honest").is_some());
}

#[test]
fn q_3_requests_are_pulled() {
    let mut world = World::new(small(), small());
    for lap in 0..5u64 {
        for n in 0..32 {
            let address = Address {
                qpn: 1,
                psn: (lap * 32 + n) as u16,
            };
            world
                .out
                .offer(&world.sender, &world.sender, address, &send())
                .expect("room");
        }
        let full = world
            .out
            .offer(&world.sender, &world.sender, ADDRESS, &send());
        assert_eq!(full, Err(Error::Full));
        let pulled = world.inn.pull(&world.receiver, &world.sender);
        assert_eq!(pulled, Ok(None), "not told yet");
        world.out.tell(&world.receiver);
        for n in 0..32 {
            let arrived = world
                .inn
                .pull(&world.receiver, &world.sender)
                .expect("honest")
                .expect("told");
            assert_eq!(u64::from(arrived.address.psn), lap * 32 + n);
            assert_eq!((arrived.lane, arrived.message), (Lane::Pulled, send()));
            world.inn.consume(&world.sender, &arrived);
        }
        assert_eq!(world.inn.pull(&world.receiver, &world.sender), Ok(None));
    }
}

/// A request is pulled no earlier than what was pushed to the receive FIFO before it.
#[test]
fn q_3_what_is_pulled_does_not_overtake_what_is_pushed() {
    let mut world = World::new(small(), small());
    let pull = |world: &mut World| world.inn.pull(&world.receiver, &world.sender);
    world.send(ADDRESS, &send()).expect("room");
    world
        .out
        .offer(&world.sender, &world.sender, ADDRESS, &send())
        .expect("room");
    world.out.tell(&world.receiver);
    assert_eq!(pull(&mut world), Ok(None), "not yet");
    let pushed = world.receive().expect("honest").expect("came");
    assert_eq!(pushed.lane, Lane::Receive);
    let pulled = pull(&mut world).expect("honest").expect("came");
    assert_eq!(pulled.lane, Lane::Pulled);
}

#[test]
fn q_3_words_are_pushed_and_pulled() {
    let mut world = World::new(small(), small());
    for number in 0..2000u32 {
        let word = Word {
            qpn: number,
            psn: number as u16,
            says: Says::Ack,
        };
        world
            .out
            .word(&world.sender, &world.receiver, &word)
            .expect("room");
        world
            .out
            .offer_word(&world.sender, &world.sender, &word)
            .expect("room");
        let pushed = world.inn.word(&world.receiver, &world.sender);
        assert_eq!(pushed, Ok(Some(word)));
        assert_eq!(world.pull_word(), Ok(None), "not told yet");
        world.out.tell(&world.receiver);
        assert_eq!(world.pull_word(), Ok(Some(word)));
    }
    assert_eq!(world.inn.word(&world.receiver, &world.sender), Ok(None));
}

/// A place in the FIFO is taken for a word that a DMA engine will write.
#[test]
fn a_claimed_word_holds_later_ones_back() {
    let mut world = World::new(small(), small());
    let word = |psn| Word {
        qpn: 1,
        psn,
        says: Says::Done {
            to: Role::Initiator,
            part: 0,
        },
    };
    let (at, late) = world.out.claim(&world.sender, &word(1)).expect("room");
    world
        .out
        .word(&world.sender, &world.receiver, &word(2))
        .expect("room");
    assert_eq!(world.inn.word(&world.receiver, &world.sender), Ok(None));
    world.receiver.set(at, late);
    for psn in [1, 2] {
        let came = world.inn.word(&world.receiver, &world.sender);
        assert_eq!(came, Ok(Some(word(psn))));
    }
}

#[test]
fn an_end_that_sleeps_is_rung_once() {
    let mut world = World::new(small(), small());
    let kick = |world: &mut World| world.out.needs_kick(&world.sender, &world.receiver);
    world.send(ADDRESS, &send()).expect("room");
    assert!(kick(&mut world), "the peer has not looked yet");
    world.send(ADDRESS, &send()).expect("room");
    assert!(!kick(&mut world), "told already");
    while world.receive().expect("honest").is_some() {}
    world.inn.sleep(&world.sender);
    assert_eq!(world.sender.0.borrow()[EVENT_AT / 8], 2);
    assert!(!kick(&mut world), "nothing new");
    let word = Word {
        qpn: 1,
        psn: 1,
        says: Says::Ack,
    };
    world
        .out
        .word(&world.sender, &world.receiver, &word)
        .expect("room");
    assert!(kick(&mut world), "the peer sleeps");
    world.send(ADDRESS, &send()).expect("room");
    assert!(!kick(&mut world));
}

/// The first message had left when the peer asked to be rung, and did not see it: the next one rings.
#[test]
fn an_end_that_asks_too_late_is_rung_for_what_comes_next() {
    let mut world = World::new(small(), small());
    let kick = |world: &mut World| world.out.needs_kick(&world.sender, &world.receiver);
    world.send(ADDRESS, &send()).expect("room");
    assert!(kick(&mut world));
    while world.receive().expect("honest").is_some() {}
    world.send(ADDRESS, &send()).expect("room");
    assert!(!kick(&mut world), "the peer looks by itself");
    assert!(!world.out.has_unkicked());
    world.inn.sleep(&world.sender);
    assert_eq!(world.sender.0.borrow()[EVENT_AT / 8], 1);
    assert!(!kick(&mut world), "nothing is written");
    world.send(ADDRESS, &send()).expect("room");
    assert!(world.out.has_unkicked());
    assert!(kick(&mut world));
    assert!(!world.out.has_unkicked());
    world.send(ADDRESS, &send()).expect("room");
    assert!(!kick(&mut world), "once");
}

/// GONE frees what was lent to the queue pair: not before the words that stand before it, behind which
/// a DMA engine's data may be, have come.
#[test]
fn gone_waits_for_the_words_before_it() {
    let mut world = World::new(small(), small());
    let word = Word {
        qpn: 0,
        psn: 0,
        says: Says::Ack,
    };
    let (at, late) = world.out.claim(&world.sender, &word).expect("room");
    world.send(ADDRESS, &GONE).expect("room");
    assert_eq!(world.receive(), Ok(None));
    assert_eq!(world.inn.word(&world.receiver, &world.sender), Ok(None));
    world.receiver.set(at, late);
    assert_eq!(world.receive(), Ok(None), "seen, but not taken yet");
    let came = world.inn.word(&world.receiver, &world.sender);
    assert_eq!(came, Ok(Some(word)));
    let gone = world.receive().expect("honest").expect("there");
    assert_eq!(gone.message, GONE);
    // One that stands behind more than there can be.
    world.send(ADDRESS, &GONE).expect("room");
    let slots = small().cq().count() as u64;
    let order = small().rx().place(0) + 128 + 120;
    world.receiver.set(order, 2 + slots);
    assert_eq!(world.receive(), Err(Fault::Order));
}

/// The peer was rung for a word, looked, found nothing and sleeps again: it is rung when the word is
/// there.
#[test]
fn an_end_that_sleeps_again_is_rung_for_what_is_late() {
    let mut world = World::new(small(), small());
    let word = Word {
        qpn: 1,
        psn: 1,
        says: Says::Ack,
    };
    let (at, late) = world.out.claim(&world.sender, &word).expect("room");
    assert!(world.out.needs_kick(&world.sender, &world.receiver));
    assert_eq!(world.inn.word(&world.receiver, &world.sender), Ok(None));
    world.inn.sleep(&world.sender);
    assert!(!world.out.needs_kick(&world.sender, &world.receiver));
    world.receiver.set(at, late);
    let kick = |world: &mut World| world.out.needs_late_kick(&world.sender, &world.receiver);
    assert!(kick(&mut world), "the peer sleeps");
    assert!(!kick(&mut world), "told already");
    // What is stored at once is told at once, and not again.
    world.send(ADDRESS, &send()).expect("room");
    world.out.needs_kick(&world.sender, &world.receiver);
    world.out.told_all();
    assert!(!kick(&mut world));
}
