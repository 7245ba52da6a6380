// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L-1, L-2, L-3 and L-6: what a processing engine does, one case each; the model has the combinations.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

mod matching;

use matching::{appends, eager, engine, receive, received, slab, VecEngine, MATCHING};
use weft_proto::matching::{
    endpoint::{Config, Endpoint, State},
    engine::hand_over::{Given, SHORT_NS},
    entry::Entry,
    outcome::{Outcome, Reason, Receipt, Reply, Resume},
    request::{Buffer, Command, Criteria, Header, List, Message, Options, Work},
    ENDPOINTS, ENGINES, ENTRIES,
};

struct World {
    engine: VecEngine,
    endpoint: Endpoint,
    now: u64,
}

impl World {
    fn new(entries: usize, reserve: u32, config: Config) -> Self {
        let mut new = Self {
            engine: engine(entries, reserve),
            endpoint: Endpoint::new(0, config),
            now: 0,
        };
        new.command(Command::Enable);
        new
    }

    fn matching() -> Self {
        Self::new(64, 0, MATCHING)
    }

    fn execute(&mut self, work: Work) -> Reply {
        self.engine.execute(&mut self.endpoint, &work, self.now)
    }

    fn command(&mut self, command: Command) -> Outcome {
        self.execute(Work::Command(command)).outcome
    }

    fn append(&mut self, list: List, buffer: Buffer) -> Outcome {
        self.execute(appends(list, buffer)).outcome
    }

    fn message(&mut self, message: Message) -> Outcome {
        self.execute(Work::Message(message)).outcome
    }
}

#[test]
fn l_1_a_port_has_2048_endpoints_and_65536_entries_of_four_engines() {
    assert_eq!((ENDPOINTS, ENGINES, ENTRIES), (2048, 4, 16_384));
    let mut engines: Vec<VecEngine> = (0..ENGINES).map(|_| engine(ENTRIES as usize, 0)).collect();
    let per_endpoint = ENTRIES * ENGINES as u32 / u32::from(ENDPOINTS);
    for number in 0..ENDPOINTS {
        let engine = &mut engines[usize::from(number) % ENGINES];
        let mut endpoint = Endpoint::new(number, MATCHING);
        for n in 0..u64::from(per_endpoint) {
            let list = [List::Priority, List::Overflow, List::Request][n as usize % 3];
            let reply = engine.execute(&mut endpoint, &appends(list, receive(None, n, 0, n)), 0);
            assert_eq!(reply.outcome, Outcome::Appended);
        }
    }
    assert!(engines.iter().all(|engine| engine.free() == 0));
    let mut endpoint = Endpoint::new(0, MATCHING);
    let more = appends(List::Priority, receive(None, 1, 0, 1));
    let reply = engines[0].execute(&mut endpoint, &more, 0);
    assert_eq!(reply.outcome, Outcome::Rejected(Reason::NoEntry));
    // It has more as soon as it is given more.
    engines[0].entries_mut().push(Entry::FREE);
    assert_eq!(
        engines[0].execute(&mut endpoint, &more, 0).outcome,
        Outcome::Appended
    );
}

#[test]
fn l_2_the_oldest_buffer_that_a_message_matches_is_found() {
    let mut world = World::matching();
    // More combinations of ignore bits and source than there are classes.
    let posted = [
        (Some(1), 0x10, 0),
        (Some(2), 0x20, 0),
        (None, 0x20, 0),
        (Some(2), 0x20, 0xf),
        (None, 0x20, 0xf),
        (Some(2), 0x20, 0xff),
        (None, 0x20, 0xff),
        (None, 0, u64::MAX),
    ];
    for (context, (source, bits, ignore)) in (0..).zip(posted) {
        let outcome = world.append(List::Priority, receive(source, bits, ignore, context));
        assert_eq!(outcome, Outcome::Appended);
    }
    let mut context = |source, bits| received(world.message(eager(source, bits, 8))).context;
    assert_eq!(context(2, 0x20), 1);
    assert_eq!(context(2, 0x20), 2);
    assert_eq!(context(3, 0x25), 4);
    assert_eq!(context(3, 0x25), 6);
    assert_eq!(context(2, 0x25), 3);
    assert_eq!(context(2, 0x25), 5);
    assert_eq!(context(1, 0x10), 0);
    assert_eq!(context(9, 0x99), 7);
    assert_eq!(world.message(eager(1, 0x10, 8)), Outcome::NoSpace);
    // The oldest is of a later class than the next, or of none that is hashed.
    let posted = [
        (None, 0x30, 0),
        (Some(2), 0x30, 0),
        (None, 0x40, 0xff),
        (Some(2), 0x41, 0),
    ];
    for (context, (source, bits, ignore)) in (20..).zip(posted) {
        world.append(List::Priority, receive(source, bits, ignore, context));
    }
    let mut context = |bits| received(world.message(eager(2, bits, 8))).context;
    assert_eq!([context(0x30), context(0x30)], [20, 21]);
    assert_eq!([context(0x41), context(0x41)], [22, 23]);
}

#[test]
fn l_2_a_list_entry_of_an_endpoint_that_does_not_match_is_for_any_message() {
    let mut world = World::new(
        64,
        0,
        Config {
            matching: false,
            ..MATCHING
        },
    );
    for context in 0..2 {
        world.append(List::Priority, receive(Some(7), 0x77, 0, context));
    }
    for context in 0..2 {
        assert_eq!(received(world.message(eager(1, 2, 8))).context, context);
    }
}

#[test]
fn l_2_an_unexpected_message_goes_to_overflow_memory_and_its_header_is_listed() {
    let mut world = World::matching();
    world.append(List::Overflow, slab(0x1000, 256, 70));
    let Outcome::Unexpected(stored) = world.message(eager(4, 5, 100)) else {
        panic!("unexpected")
    };
    assert_eq!(
        (stored.address, stored.length, stored.context),
        (0x1000, 100, 70)
    );
    assert!(!stored.unlinked);
    // The second leaves less than `min_free`: the memory is unlinked.
    let Outcome::Unexpected(stored) = world.message(eager(4, 5, 100)) else {
        panic!("unexpected")
    };
    assert_eq!((stored.address, stored.unlinked), (0x1000 + 100, true));
    assert_eq!(world.endpoint.count(List::Unexpected), 2);
    // A receive and the search before it are one operation: it gets the first at once.
    let reply = world.execute(appends(List::Priority, receive(Some(4), 5, 0, 1)));
    let receipt = received(reply.outcome);
    assert_eq!(
        (receipt.header.address, receipt.stored, receipt.context),
        (0x1000, true, 1)
    );
    assert_eq!(reply.freed, None);
    // With the last header the memory is free again.
    let reply = world.execute(appends(List::Priority, receive(None, 5, 0, 2)));
    assert_eq!(received(reply.outcome).header.address, 0x1000 + 100);
    assert_eq!(reply.freed, Some(70));
    assert_eq!(world.endpoint.count(List::Priority), 0);
    assert_eq!(world.engine.free(), 64);
}

#[test]
fn l_2_searches_claims_and_unlinks() {
    let mut world = World::matching();
    world.append(List::Overflow, slab(0x1000, 4096, 70));
    for bits in 0..3 {
        world.message(eager(4, bits, 10));
    }
    let any = Criteria::ANY;
    let Outcome::Found(header) = world.command(Command::Search(any)) else {
        panic!("found")
    };
    assert_eq!((header.bits, header.eager, header.context), (0, 10, 70));
    let take = |context, discard| Command::SearchAndDelete {
        criteria: any,
        context,
        discard,
    };
    assert!(matches!(world.command(take(8, false)), Outcome::Claimed(header) if header.bits == 0));
    assert!(matches!(world.command(take(9, true)), Outcome::Discarded(header) if header.bits == 1));
    // Of a claimed message no search and no receive knows.
    assert_eq!(
        received(world.append(List::Priority, receive(None, 0, u64::MAX, 1)))
            .header
            .bits,
        2
    );
    assert_eq!(world.command(Command::Search(any)), Outcome::NotFound);
    let get = Command::Receive {
        context: 8,
        address: 0x8000,
        length: 4,
    };
    let receipt = received(world.command(get));
    assert_eq!((receipt.length, receipt.header.length), (4, 10));
    assert!(receipt.is_truncated());
    assert_eq!(world.command(get), Outcome::NotFound);
    // A receive that is cancelled meets no message.
    assert_eq!(
        world.append(List::Priority, receive(None, 3, 0, 5)),
        Outcome::Appended
    );
    assert_eq!(
        world.command(Command::Unlink { context: 5 }),
        Outcome::Unlinked(5)
    );
    assert_eq!(
        world.command(Command::Unlink { context: 5 }),
        Outcome::NotFound
    );
    assert!(matches!(
        world.message(eager(4, 3, 10)),
        Outcome::Unexpected(_)
    ));
}

#[test]
fn l_2_a_buffer_for_several_messages_is_unlinked_when_it_has_little_room() {
    let mut world = World::matching();
    let multi = Buffer {
        min_free: 100,
        length: 256,
        options: Options {
            persistent: true,
            manage_local: true,
            put: true,
            full: true,
            ..Options::default()
        },
        ..receive(None, 1, 0, 3)
    };
    // What has come before is received one by one; then it is in the list.
    world.append(List::Overflow, slab(0x1000, 4096, 70));
    world.message(eager(2, 1, 50));
    world.message(eager(2, 1, 50));
    let first = world.execute(appends(List::Priority, multi));
    assert!(first.more);
    let second = world.engine.go_on(&mut world.endpoint);
    assert!(second.more);
    let at = |reply: &Reply| received(reply.outcome).address - multi.address;
    assert_eq!((at(&first), at(&second)), (0, 50));
    let last = world.engine.go_on(&mut world.endpoint);
    assert_eq!((last.outcome, last.more), (Outcome::Appended, false));
    let third = received(world.message(eager(2, 1, 40)));
    assert_eq!(
        (third.address - multi.address, third.unlinked),
        (100, false)
    );
    let fourth = received(world.message(eager(2, 1, 30)));
    assert_eq!(
        (fourth.address - multi.address, fourth.unlinked),
        (140, true)
    );
    assert_eq!(world.endpoint.count(List::Priority), 0);
}

#[test]
fn l_3_an_eager_message_goes_to_the_buffer_and_a_long_one_is_got() {
    let mut world = World::matching();
    world.append(List::Priority, receive(Some(1), 1, 0, 1));
    let receipt = received(world.message(eager(1, 1, 64)));
    let buffer = receive(Some(1), 1, 0, 1);
    assert_eq!(
        (receipt.address, receipt.length, receipt.rest()),
        (buffer.address, 64, 0)
    );
    assert!(!receipt.stored && !receipt.is_rendezvous());
    // A rendezvous: the envelope and 1,024 bytes came, the target gets the rest.
    let long = Message {
        length: 3000,
        cookie: 99,
        ..eager(1, 1, 1024)
    };
    world.append(List::Priority, receive(Some(1), 1, 0, 2));
    let receipt = received(world.message(long));
    assert!(receipt.is_rendezvous());
    assert_eq!(
        (receipt.eager(), receipt.rest(), receipt.header.cookie),
        (1024, 1976, 99)
    );
    // One that was unexpected begins the same get when the receive comes.
    world.append(List::Overflow, slab(0x1000, 4096, 70));
    let Outcome::Unexpected(stored) = world.message(long) else {
        panic!("unexpected")
    };
    assert_eq!(stored.length, 1024, "of it only what came is stored");
    let late = received(world.append(List::Priority, receive(Some(1), 1, 0, 3)));
    assert!(late.stored);
    assert_eq!(
        (late.eager(), late.rest(), late.header.cookie),
        (1024, 1976, 99)
    );
    // A buffer that is too short: nothing is got, but the initiator is told.
    let short = Buffer {
        length: 1000,
        ..receive(Some(1), 1, 0, 4)
    };
    world.append(List::Priority, short);
    let receipt = received(world.message(long));
    assert!(receipt.is_truncated() && receipt.is_rendezvous());
    assert_eq!((receipt.eager(), receipt.rest()), (1000, 0));
}

#[test]
fn l_2_without_memory_the_source_is_told_and_resumed() {
    let mut world = World::matching();
    assert_eq!(world.message(eager(1, 1, 8)), Outcome::NoSpace);
    assert!(
        matches!(world.message(eager(1, 1, 0)), Outcome::Unexpected(_)),
        "needs none"
    );
    let reply = world.execute(appends(List::Overflow, slab(0x1000, 4096, 70)));
    assert_eq!(reply.resume, Resume::Endpoint);
    assert!(matches!(
        world.message(eager(1, 1, 8)),
        Outcome::Unexpected(_)
    ));
}

#[test]
fn l_2_a_source_that_was_told_is_resumed_by_a_buffer_that_may_be_for_it() {
    let mut world = World::matching();
    assert_eq!(world.message(eager(1, 1, 8)), Outcome::NoSpace);
    let reply = world.execute(appends(List::Priority, receive(Some(1), 1, 0, 4)));
    assert_eq!(reply.outcome, Outcome::Appended);
    assert_eq!(reply.resume, Resume::Endpoint);
    received(world.message(eager(1, 1, 8)));
}

#[test]
fn l_2_when_no_entry_is_free_all_sources_of_the_engine_are_resumed() {
    let mut world = World::new(3, 0, MATCHING);
    let mut other = Endpoint::new(1, MATCHING);
    world.append(List::Overflow, slab(0x1000, 4096, 70));
    world.message(eager(1, 1, 8));
    world.message(eager(1, 1, 8));
    let command = Work::Command(Command::Enable);
    world.engine.execute(&mut other, &command, 0);
    let message = Work::Message(eager(1, 1, 0));
    let reply = world.engine.execute(&mut other, &message, 0);
    assert_eq!(reply.outcome, Outcome::NoSpace);
    let reply = world.execute(appends(List::Priority, receive(None, 1, 0, 1)));
    assert_eq!(reply.resume, Resume::All);
}

#[test]
fn l_6_an_endpoint_starts_disabled() {
    let mut world = World::matching();
    world.endpoint = Endpoint::new(0, MATCHING);
    assert_eq!(world.endpoint.state(), State::Disabled);
    assert_eq!(
        world.append(List::Priority, receive(None, 1, 0, 1)),
        Outcome::Appended
    );
    assert_eq!(
        world.message(eager(1, 1, 8)),
        Outcome::Drop(Reason::Disabled)
    );
    assert_eq!(
        world.command(Command::Enable),
        Outcome::State(State::Enabled)
    );
    assert_eq!(received(world.message(eager(1, 1, 8))).context, 1);
}

const HANDS_OVER: Config = Config {
    hand_over: true,
    ..MATCHING
};

#[test]
fn l_6_lists_are_handed_over_in_order_below_the_reserve_and_return() {
    let mut world = World::new(16, 4, HANDS_OVER);
    world.append(List::Request, slab(0x9000, 1 << 20, 90));
    world.append(List::Overflow, slab(0x1000, 4096, 70));
    for context in 0..4 {
        world.append(List::Priority, receive(Some(1), context, 0, context));
    }
    for bits in 10..16 {
        assert!(matches!(
            world.message(eager(1, bits, 8)),
            Outcome::Unexpected(_)
        ));
    }
    assert_eq!(world.engine.free(), 4);
    let reply = world.execute(Work::Message(eager(1, 16, 8)));
    assert_eq!(
        (reply.outcome, reply.order.again),
        (Outcome::HandOver, true)
    );
    assert_eq!(reply.order.hold, Some(true));
    assert_eq!(world.endpoint.state(), State::Onload);
    // Meanwhile messages are held, and the program keeps its receives.
    assert_eq!(world.message(eager(1, 0, 8)), Outcome::Held);
    let refused = world.append(List::Priority, receive(Some(1), 9, 0, 9));
    assert_eq!(refused, Outcome::Rejected(Reason::Software));
    let mut given = vec![];
    while let Some(next) = world.engine.give(&mut world.endpoint) {
        given.push(match next {
            Given::Buffer(list, buffer) => (list, buffer.context),
            Given::Header(header, None) => (List::Unexpected, header.bits),
            Given::Header(..) => panic!("none is claimed"),
            Given::End(order, _) => {
                assert_eq!(order.hold, Some(false));
                break;
            }
        });
    }
    let expected: Vec<_> = (0..4)
        .map(|context| (List::Priority, context))
        .chain([(List::Overflow, 70)])
        .chain((10..16).map(|bits| (List::Unexpected, bits)))
        .collect();
    assert_eq!(given, expected);
    // The program matches: messages are in its memory, in order.
    assert_eq!(world.endpoint.state(), State::Software);
    for (n, bits) in (0..).zip(16..19) {
        let Outcome::Software(receipt) = world.message(eager(1, bits, 8)) else {
            panic!("to the program")
        };
        assert_eq!(
            (receipt.header.bits, receipt.address),
            (bits, 0x9000 + 8 * n)
        );
    }
    // Back, when the lists of the program have been short for so long.
    for (now, outcome) in [
        (0, Outcome::Noted),
        (SHORT_NS - 1, Outcome::Noted),
        (SHORT_NS, Outcome::Return),
    ] {
        world.now = now;
        assert_eq!(world.command(Command::Report { entries: 3 }), outcome);
    }
    assert_eq!(world.message(eager(1, 30, 8)), Outcome::Held);
    world.append(List::Priority, receive(Some(1), 2, 0, 2));
    let header = Header {
        source: 1,
        bits: 18,
        length: 8,
        eager: 8,
        data: 0,
        cookie: 0,
        address: 0x9010,
        context: 90,
    };
    assert_eq!(
        world.command(Command::AppendHeader(header)),
        Outcome::Appended
    );
    assert_eq!(
        world.command(Command::Enable),
        Outcome::State(State::Enabled)
    );
    let receipt = received(world.append(List::Priority, receive(None, 18, 0, 6)));
    assert_eq!((receipt.header, receipt.stored), (header, true));
    assert_eq!(received(world.message(eager(1, 2, 8))).context, 2);
}

#[test]
fn l_6_a_report_of_long_lists_begins_the_wait_anew() {
    let mut world = World::new(16, 4, HANDS_OVER);
    world.append(List::Request, slab(0x9000, 1 << 20, 90));
    assert_eq!(world.command(Command::HandOver), Outcome::HandOver);
    assert!(matches!(
        world.engine.give(&mut world.endpoint),
        Some(Given::End(..))
    ));
    for (now, entries, outcome) in [
        (0, 1, Outcome::Noted),
        (SHORT_NS / 2, 8, Outcome::Noted),
        (SHORT_NS, 1, Outcome::Noted),
        (2 * SHORT_NS - 1, 1, Outcome::Noted),
        (2 * SHORT_NS, 1, Outcome::Return),
    ] {
        world.now = now;
        assert_eq!(
            world.command(Command::Report { entries }),
            outcome,
            "at {now}"
        );
    }
}

#[test]
fn l_6_entries_that_run_out_during_the_return_are_handed_over_again() {
    let mut world = World::new(10, 2, HANDS_OVER);
    world.append(List::Request, slab(0x9000, 1 << 20, 90));
    world.command(Command::HandOver);
    world.engine.give(&mut world.endpoint);
    world.command(Command::Report { entries: 1 });
    world.now = SHORT_NS;
    assert_eq!(
        world.command(Command::Report { entries: 1 }),
        Outcome::Return
    );
    // Another endpoint is faster.
    let mut other = Endpoint::new(1, MATCHING);
    for context in 0..5 {
        let work = appends(List::Priority, receive(None, context, 0, context));
        world.engine.execute(&mut other, &work, 0);
    }
    assert_eq!(
        world.append(List::Priority, receive(None, 0, 0, 40)),
        Outcome::Appended
    );
    assert_eq!(
        world.append(List::Priority, receive(None, 0, 0, 41)),
        Outcome::Appended
    );
    assert_eq!(
        world.append(List::Priority, receive(None, 0, 0, 42)),
        Outcome::HandOver
    );
    let contexts: Vec<_> = std::iter::from_fn(|| world.engine.give(&mut world.endpoint))
        .filter_map(|given| match given {
            Given::Buffer(_, buffer) => Some(buffer.context),
            _ => None,
        })
        .collect();
    assert_eq!(contexts, [40, 41]);
}

/// Where the bytes of a receipt come to lie; used to see that nothing is lost.
fn place(receipt: &Receipt) -> (u64, u64) {
    (receipt.header.bits, receipt.header.data)
}

#[test]
fn l_3_what_a_message_says_besides_arrives_with_it() {
    let mut world = World::matching();
    world.append(List::Priority, receive(Some(1), 1, 0, 1));
    let message = Message {
        data: 0x1234,
        ..eager(1, 1, 8)
    };
    assert_eq!(place(&received(world.message(message))), (1, 0x1234));
}
