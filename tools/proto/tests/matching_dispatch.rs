// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L-4 and L-5: the order of match requests (Fig. 4a), the persistent list entry cache (Fig. 4b), and the steps of
//! Fig. 5.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

mod matching;

use matching::{appends, eager, engine, receive, received, slab, VecEngine, MATCHING};
use proptest::prelude::*;
use std::collections::VecDeque;
use weft_proto::matching::{
    cache::Line,
    dispatch::{Dispatch, Job, SubmitError},
    endpoint::{Config, Endpoint},
    endpoint_queues::EndpointQueues,
    outcome::{CacheHint, Order, Outcome, Resume},
    queue::Slot,
    request::{Buffer, Command, Criteria, List, Op, Options, Request, Work},
    step::{Step, Trace},
    ENDPOINTS, ENGINES, LINES,
};

/// The steps of all requests.
#[derive(Default)]
struct Steps(Vec<(Step, u16)>);

impl Trace for Steps {
    fn step(&mut self, step: Step, endpoint: u16) {
        self.0.push((step, endpoint));
    }
}

type Queues = Dispatch<Vec<EndpointQueues>, Vec<Slot>, Vec<Line>, Steps>;

/// Few slots, for a few endpoints, which are open.
fn few(endpoints: u16, slots: usize, limit: u32) -> Queues {
    let mut queues: Queues = Dispatch::new(
        vec![EndpointQueues::CLOSED; usize::from(endpoints)],
        vec![Slot::FREE; slots],
        vec![],
        [1; 4],
        limit,
        Steps::default(),
    );
    for endpoint in 0..endpoints {
        assert!(queues.open(endpoint, 0));
    }
    queues
}

fn queues(weights: [u8; 4], limit: u32) -> Queues {
    Dispatch::new(
        vec![EndpointQueues::CLOSED; usize::from(ENDPOINTS)],
        vec![Slot::FREE; 4096],
        vec![Line::EMPTY; LINES as usize],
        weights,
        limit,
        Steps::default(),
    )
}

/// All engines.
const ALL: u8 = (1 << ENGINES) - 1;

/// A message, told apart by its match bits.
fn message(endpoint: u16, class: u8, bits: u64) -> Request {
    Request {
        endpoint,
        class,
        work: Work::Message(eager(1, bits, 8)),
    }
}

/// A command, told apart by its context.
fn command(endpoint: u16, class: u8, context: u64) -> Request {
    Request {
        endpoint,
        class,
        work: Work::Command(Command::Unlink { context }),
    }
}

/// Kind, endpoint and number of a request.
fn named(job: &Job) -> (char, u16, u64) {
    let endpoint = job.request.endpoint;
    match job.request.work {
        Work::Message(message) => ('m', endpoint, message.bits),
        Work::Command(Command::Unlink { context }) => ('c', endpoint, context),
        Work::Command(_) => panic!("not one of the test's"),
    }
}

/// Executes all that can be, and returns it in order.
fn order(queues: &mut Queues) -> Vec<(char, u16, u64)> {
    let mut order = vec![];
    while let Some(job) = queues.next(ALL) {
        order.push(named(&job));
        queues.done(job, Order::DONE);
    }
    order
}

#[test]
fn l_4_fig_4a_the_kinds_and_the_endpoints_take_turns() {
    let mut queues = queues([1; 4], 8);
    for endpoint in 0..3 {
        assert!(queues.open(endpoint, 0));
        for number in 0..2 {
            assert_eq!(queues.submit(command(endpoint, 0, number)), Ok(()));
            assert_eq!(queues.submit(message(endpoint, 0, number)), Ok(()));
        }
    }
    let order = order(&mut queues);
    // An endpoint has one request at a time, commands and messages in turn, in the order of each.
    for endpoint in 0..3 {
        let mine: Vec<_> = order.iter().filter(|(_, at, _)| *at == endpoint).collect();
        let kinds: String = mine.iter().map(|(kind, ..)| *kind).collect();
        assert_eq!(kinds, "cmcm");
        let numbers: Vec<_> = mine.iter().map(|(.., number)| *number).collect();
        assert_eq!(numbers, [0, 0, 1, 1]);
    }
    // And each endpoint has its turn before any has the next.
    for round in order.chunks(3) {
        let mut endpoints: Vec<_> = round.iter().map(|(_, at, _)| *at).collect();
        endpoints.sort_unstable();
        assert_eq!(endpoints, [0, 1, 2]);
    }
}

#[test]
fn l_4_fig_4a_kinds_alternate_between_endpoints() {
    let mut queues = queues([1; 4], 8);
    for endpoint in 0..6 {
        assert!(queues.open(endpoint, 0));
    }
    for endpoint in 0..3 {
        assert_eq!(queues.submit(command(endpoint, 0, 0)), Ok(()));
        assert_eq!(queues.submit(message(endpoint + 3, 0, 0)), Ok(()));
    }
    let kinds: String = order(&mut queues).iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds, "cmcmcm");
}

#[test]
fn l_4_one_operation_at_a_time_and_no_endpoint_blocks_another() {
    let mut queues = queues([1; 4], 8);
    for endpoint in 0..2 {
        assert!(queues.open(endpoint, 0));
        assert_eq!(queues.submit(message(endpoint, 0, 0)), Ok(()));
        assert_eq!(queues.submit(message(endpoint, 0, 1)), Ok(()));
        assert_eq!(queues.submit(command(endpoint, 0, 0)), Ok(()));
    }
    // The delivery of the first takes long, by a page fault.
    let first = queues.next(ALL).expect("one");
    let slow = first.request.endpoint;
    let others: Vec<_> = order(&mut queues);
    assert_eq!(others.len(), 3);
    assert!(others.iter().all(|(_, endpoint, _)| *endpoint != slow));
    queues.done(first, Order::DONE);
    assert_eq!(order(&mut queues).len(), 2);
}

/// What is executed beside the queues is in order only if none of them has anything.
#[test]
fn l_4_an_endpoint_is_idle_if_nothing_of_it_waits_or_is_executed() {
    let mut queues = queues([1; 4], 8);
    assert!(!queues.is_idle(0), "it is not open");
    assert!(!queues.is_idle(ENDPOINTS), "there is none");
    for endpoint in 0..2 {
        assert!(queues.open(endpoint, 0));
    }
    for request in [message(0, 0, 0), command(0, 0, 0)] {
        assert!(queues.is_idle(0));
        assert_eq!(queues.submit(request), Ok(()));
        assert!(!queues.is_idle(0), "one waits");
        let job = queues.next(ALL).expect("one");
        assert!(!queues.is_idle(0), "one is executed");
        assert!(queues.is_idle(1), "another one is");
        queues.defer(job);
        assert!(!queues.is_idle(0), "one is deferred");
        queues.resume(0);
        assert_eq!(order(&mut queues).len(), 1);
    }
    let hold = |hold| Order {
        hold: Some(hold),
        ..Order::DONE
    };
    queues.apply(0, hold(true));
    assert!(!queues.is_idle(0), "messages are held");
    queues.apply(0, hold(false));
    assert!(queues.is_idle(0));
}

#[test]
fn l_4_what_is_deferred_comes_first_when_its_endpoint_is_resumed() {
    let mut queues = queues([1; 4], 8);
    for endpoint in 0..2 {
        assert!(queues.open(endpoint, 0));
        for number in 0..3 {
            assert_eq!(queues.submit(message(endpoint, 0, number)), Ok(()));
        }
    }
    let job = queues.next(ALL).expect("one");
    assert_eq!(named(&job), ('m', 0, 0));
    queues.defer(job);
    let other: Vec<_> = order(&mut queues);
    assert_eq!(other, [('m', 1, 0), ('m', 1, 1), ('m', 1, 2)]);
    queues.resume(0);
    assert_eq!(order(&mut queues), [('m', 0, 0), ('m', 0, 1), ('m', 0, 2)]);
}

#[test]
fn l_4_traffic_classes_have_requests_by_weight() {
    let mut queues = queues([4, 2, 1, 0], 8);
    // 13 endpoints a class, all of one engine.
    for endpoint in 0..52 {
        assert!(queues.open(endpoint, 2));
        let class = (endpoint % 4) as u8;
        assert_eq!(
            queues.submit(message(endpoint, class, u64::from(class))),
            Ok(())
        );
    }
    let classes: Vec<_> = order(&mut queues)
        .iter()
        .map(|(.., class)| *class)
        .collect();
    assert_eq!(classes[..8], [0, 0, 0, 0, 1, 1, 2, 3]);
    assert_eq!(classes[8..16], [0, 0, 0, 0, 1, 1, 2, 3]);
    // What is left when the heavy classes have nothing more.
    assert_eq!(classes.len(), 52);
}

#[test]
fn l_4_a_traffic_class_that_is_alone_waits_for_no_other() {
    let mut queues = queues([4, 2, 1, 1], 8);
    for endpoint in 0..8 {
        assert!(queues.open(endpoint, 0));
        assert_eq!(queues.submit(message(endpoint, 3, 0)), Ok(()));
    }
    assert_eq!(order(&mut queues).len(), 8);
}

#[test]
fn l_4_engines_take_turns_and_those_of_a_caller_alone() {
    let mut queues = queues([1; 4], 8);
    for endpoint in 0..12 {
        assert!(queues.open(endpoint, (endpoint / 3) as u8));
        assert_eq!(queues.submit(message(endpoint, 0, 0)), Ok(()));
    }
    let only = queues.next(0b0100).expect("one of engine 2");
    assert_eq!(only.engine, 2);
    let mut engines = vec![];
    while let Some(job) = queues.next(ALL) {
        engines.push(job.engine);
        queues.done(job, Order::DONE);
    }
    assert_eq!(engines, [3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
}

#[test]
fn l_4_a_queue_that_is_full_says_when_it_has_room() {
    let mut queues = queues([1; 4], 4);
    assert!(queues.open(0, 0));
    for number in 0..4 {
        assert_eq!(queues.submit(message(0, 0, number)), Ok(()));
    }
    assert_eq!(queues.submit(message(0, 0, 4)), Err(SubmitError::Full));
    assert_eq!(
        queues.submit(command(0, 0, 0)),
        Ok(()),
        "commands have a queue of their own"
    );
    let mut resumed = vec![];
    while let Some(job) = queues.next(ALL) {
        resumed
            .extend(Some(queues.done(job, Order::DONE)).filter(|resume| *resume != Resume::None));
    }
    assert_eq!(resumed, [Resume::Endpoint]);
    assert_eq!(queues.submit(message(9, 0, 4)), Err(SubmitError::Invalid));
    assert_eq!(queues.submit(message(0, 4, 4)), Err(SubmitError::Invalid));
}

#[test]
fn l_4_without_a_slot_all_sources_are_told_when_there_is_one() {
    let mut queues = few(2, 1, 8);
    assert_eq!(queues.submit(message(0, 0, 0)), Ok(()));
    // The endpoint has nothing queued: no end of a request of its own would tell.
    assert_eq!(queues.submit(message(1, 0, 1)), Err(SubmitError::Full));
    let job = queues.next(ALL).expect("one");
    assert_eq!(queues.done(job, Order::DONE), Resume::All);
    assert_eq!(queues.submit(message(1, 0, 1)), Ok(()));
}

#[test]
fn l_4_what_some_endpoints_leave_waiting_leaves_others_a_slot() {
    let mut queues = few(5, 20, 16);
    // Nothing is executed: each leaves as much waiting as it may.
    let mut queued = vec![];
    for endpoint in 0..5 {
        let messages =
            (0..20).take_while(|bits| queues.submit(message(endpoint, 0, *bits)).is_ok());
        queued.push(messages.count());
        let commands =
            (0..20).take_while(|bits| queues.submit(command(endpoint, 0, *bits)).is_ok());
        queued.push(commands.count());
    }
    assert_eq!(queued, [11, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn l_1_an_endpoint_is_assigned_to_an_engine_and_closed() {
    let mut queues = queues([1; 4], 8);
    for endpoint in 0..ENDPOINTS {
        assert!(queues.open(endpoint, (endpoint % 4) as u8));
    }
    assert!(!queues.open(ENDPOINTS, 0));
    assert!(!queues.open(5, 1), "it is open");
    assert_eq!(queues.submit(message(ENDPOINTS - 1, 0, 0)), Ok(()));
    let job = queues.next(ALL).expect("one");
    assert_eq!(job.engine, 3);
    assert_eq!(queues.submit(message(ENDPOINTS - 1, 0, 1)), Ok(()));
    assert_eq!(
        queues.close(ENDPOINTS - 1),
        Some(message(ENDPOINTS - 1, 0, 1))
    );
    assert_eq!(queues.close(ENDPOINTS - 1), None);
    assert!(queues.is_open(ENDPOINTS - 1), "a request is being executed");
    queues.done(job, Order::DONE);
    assert_eq!(queues.close(ENDPOINTS - 1), None);
    assert!(!queues.is_open(ENDPOINTS - 1));
    assert!(queues.open(ENDPOINTS - 1, 1));
    assert_eq!(queues.submit(message(ENDPOINTS - 1, 0, 2)), Ok(()));
    assert_eq!(queues.next(ALL).expect("one").engine, 1);
}

/// An endpoint with an engine behind the queues.
struct World {
    queues: Queues,
    engine: VecEngine,
    endpoints: Vec<Endpoint>,
}

const UNORDERED: Config = Config {
    matching: false,
    ..MATCHING
};

/// What every message of an endpoint that does not match is for, without events.
fn persistent(context: u64) -> Buffer {
    Buffer {
        criteria: Criteria::ANY,
        options: Options {
            put: true,
            persistent: true,
            ..Options::default()
        },
        ..receive(None, 0, 0, context)
    }
}

impl World {
    fn new(configs: &[Config]) -> Self {
        let mut new = Self {
            queues: queues([1; 4], 16),
            engine: engine(4096, 0),
            endpoints: vec![],
        };
        for (number, config) in (0..).zip(configs) {
            assert!(new.queues.open(number, 0));
            new.endpoints.push(Endpoint::new(number, *config));
            new.run(number, Work::Command(Command::Enable));
        }
        new
    }

    fn submit(&mut self, endpoint: u16, work: Work) {
        let request = Request {
            endpoint,
            class: 0,
            work,
        };
        assert_eq!(self.queues.submit(request), Ok(()));
    }

    /// Executes the next request. Returns what came of it, and whether the cache had its entry.
    fn next(&mut self) -> Option<(Outcome, bool)> {
        let job = self.queues.next(ALL)?;
        let (outcome, order) = match job.hit {
            Some(outcome) => (outcome, Order::DONE),
            None => {
                let endpoint = &mut self.endpoints[usize::from(job.request.endpoint)];
                let reply = self.engine.execute(endpoint, &job.request.work, 0);
                (reply.outcome, reply.order)
            }
        };
        let hit = job.hit.is_some();
        self.queues.done(job, order);
        Some((outcome, hit))
    }

    fn run(&mut self, endpoint: u16, work: Work) -> (Outcome, bool) {
        self.submit(endpoint, work);
        self.next().expect("it was submitted")
    }

    fn message(&mut self, endpoint: u16) -> (Outcome, bool) {
        self.run(endpoint, Work::Message(eager(1, 2, 16)))
    }
}

#[test]
fn l_5_fig_4b_a_match_allocates_a_line_and_the_next_hits_it() {
    let mut world = World::new(&[UNORDERED]);
    world.run(0, appends(List::Priority, persistent(5)));
    let (searched, hit) = world.message(0);
    assert!(!hit);
    let (found, hit) = world.message(0);
    assert!(hit);
    assert_eq!(found, searched, "as the engine would");
    // A line of another entry has no effect: there is one.
    world.run(0, appends(List::Priority, persistent(6)));
    assert!(world.message(0).1);
    // The first list entry is unlinked: the engine searches, and finds the second.
    assert_eq!(
        world
            .run(0, Work::Command(Command::Unlink { context: 5 }))
            .0,
        Outcome::Unlinked(5)
    );
    let (second, hit) = world.message(0);
    assert!(!hit);
    assert_eq!(received(second).context, 6);
    let (second, hit) = world.message(0);
    assert!(hit);
    assert_eq!(received(second).context, 6);
    // What the entry does not allow is refused by the cache as well.
    let mut get = eager(1, 2, 16);
    get.op = Op::Get;
    let (refused, hit) = world.run(0, Work::Message(get));
    assert!(hit);
    assert!(matches!(refused, Outcome::Drop(_)));
}

#[test]
fn l_5_fig_4b_hits_leave_the_endpoint_unblocked() {
    let mut world = World::new(&[UNORDERED]);
    world.run(0, appends(List::Priority, persistent(5)));
    world.message(0);
    for _ in 0..4 {
        world.submit(0, Work::Message(eager(1, 2, 16)));
    }
    // Four are being delivered at once.
    let jobs: Vec<Job> = (0..4)
        .map(|_| world.queues.next(ALL).expect("a hit"))
        .collect();
    assert!(jobs.iter().all(|job| job.hit.is_some()));
    assert!(!world.queues.is_idle(0));
    // A command waits for them, as it may unlink their entry; so do messages behind it.
    world.submit(0, Work::Command(Command::Unlink { context: 5 }));
    world.submit(0, Work::Message(eager(1, 2, 16)));
    for job in jobs {
        assert!(world.queues.next(ALL).is_none());
        world.queues.done(job, Order::DONE);
    }
    assert_eq!(world.next(), Some((Outcome::Unlinked(5), false)));
    assert_eq!(world.next(), Some((Outcome::NoSpace, false)));
}

#[test]
fn l_5_fig_4b_while_an_entry_is_put_out_no_engine_is_given_a_request() {
    let mut world = World::new(&[UNORDERED, MATCHING]);
    world.run(0, appends(List::Priority, persistent(5)));
    world.message(0);
    for _ in 0..3 {
        world.submit(0, Work::Message(eager(1, 2, 16)));
    }
    world.submit(1, Work::Command(Command::Unlink { context: 9 }));
    world.submit(1, Work::Message(eager(1, 2, 0)));
    let hits: Vec<bool> = std::iter::from_fn(|| world.next())
        .map(|(_, hit)| hit)
        .collect();
    assert_eq!(hits.len(), 5);
    // And hits do not starve engines: a request that waits for one is next.
    assert_eq!(hits.iter().filter(|hit| **hit).count(), 3);
    assert!(hits[..3].contains(&false), "{hits:?}");
}

#[test]
fn l_5_fig_4b_only_entries_that_a_match_does_not_change_are_cached() {
    let checked = Config {
        space_check: true,
        ..UNORDERED
    };
    let changed: [fn(&mut Buffer); 4] = [
        |buffer| buffer.options.persistent = false,
        |buffer| buffer.options.manage_local = true,
        |buffer| buffer.options.full = true,
        |buffer| buffer.options.counting = true,
    ];
    for change in changed {
        let mut world = World::new(&[UNORDERED]);
        for context in 0..3 {
            let mut buffer = persistent(context);
            change(&mut buffer);
            world.run(0, appends(List::Priority, buffer));
        }
        assert!((0..3).all(|_| !world.message(0).1));
    }
    for config in [MATCHING, checked] {
        let mut world = World::new(&[config]);
        world.run(0, appends(List::Priority, persistent(5)));
        assert!((0..3).all(|_| !world.message(0).1));
    }
}

#[test]
fn l_5_fig_4b_of_256_lines_the_next_in_turn_is_evicted() {
    let many = LINES as usize + 4;
    let mut world = World::new(&vec![UNORDERED; many]);
    for endpoint in 0..many as u16 {
        world.run(endpoint, appends(List::Priority, persistent(5)));
        assert!(!world.message(endpoint).1);
    }
    // The last four have the lines of the first four.
    for endpoint in 4..many as u16 {
        assert!(world.message(endpoint).1, "endpoint {endpoint}");
    }
    // The fifth line is next.
    assert!(!world.message(0).1);
    assert!(!world.message(4).1);
    // A line that was given up is used before another is taken.
    world.run(10, Work::Command(Command::Unlink { context: 5 }));
    assert!(!world.message(1).1);
    assert!(world.message(1).1);
    for endpoint in (6..10).chain(11..many as u16) {
        assert!(world.message(endpoint).1, "endpoint {endpoint}");
    }
}

#[test]
fn l_5_fig_4b_a_disabled_endpoint_has_no_line() {
    let mut world = World::new(&[UNORDERED]);
    world.run(0, appends(List::Priority, persistent(5)));
    world.message(0);
    assert!(world.message(0).1);
    world.run(0, Work::Command(Command::Disable));
    assert!(matches!(world.message(0), (Outcome::Drop(_), false)));
    world.run(0, Work::Command(Command::Enable));
    assert!(!world.message(0).1);
    assert!(world.message(0).1);
}

fn steps_of(world: &mut World, endpoint: u16) -> Vec<u16> {
    let steps = std::mem::take(&mut world.queues.trace_mut().0);
    assert!(steps.iter().all(|(_, at)| *at == endpoint));
    steps.iter().map(|(step, _)| *step as u16).collect()
}

#[test]
fn l_4_fig_5_the_steps_of_a_request_are_in_order() {
    let mut world = World::new(&[UNORDERED]);
    world.run(0, appends(List::Priority, persistent(5)));
    let all = [502, 504, 506, 508, 510, 512, 516, 518, 520];
    world.queues.trace_mut().0.clear();
    world.message(0);
    assert_eq!(
        steps_of(&mut world, 0),
        all,
        "a message that the cache does not know"
    );
    world.message(0);
    assert_eq!(
        steps_of(&mut world, 0),
        [502, 504, 506, 508, 510, 512, 514],
        "one that it does"
    );
    world.run(0, Work::Command(Command::Unlink { context: 1 }));
    assert_eq!(steps_of(&mut world, 0), all, "a command");
}

#[test]
fn l_6_messages_are_held_and_commands_are_not() {
    let mut queues = queues([1; 4], 4);
    assert!(queues.open(0, 0));
    assert_eq!(queues.submit(message(0, 0, 0)), Ok(()));
    let job = queues.next(ALL).expect("one");
    let held = Order {
        hold: Some(true),
        again: true,
        cache: CacheHint::Deallocate,
    };
    queues.done(job, held);
    for number in 1..4 {
        assert_eq!(queues.submit(message(0, 0, number)), Ok(()));
    }
    assert_eq!(
        queues.submit(message(0, 0, 4)),
        Err(SubmitError::Full),
        "bounded"
    );
    assert_eq!(queues.submit(command(0, 0, 7)), Ok(()));
    assert_eq!(order(&mut queues), [('c', 0, 7)]);
    let release = Order {
        hold: Some(false),
        ..Order::DONE
    };
    queues.apply(0, release);
    assert_eq!(
        order(&mut queues),
        [('m', 0, 0), ('m', 0, 1), ('m', 0, 2), ('m', 0, 3)]
    );
}

#[derive(Clone, Debug)]
enum Act {
    Submit(u16, bool, u8),
    Next(u8),
    Done(usize, bool),
    Defer(usize),
    Resume(u16),
    Hold(u16, bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0u16..5, any::<bool>(), 0u8..4).prop_map(|(at, is, class)| Act::Submit(at, is, class)),
        6 => (1u8..16).prop_map(Act::Next),
        5 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(n, again)| Act::Done(n, again)),
        1 => any::<usize>().prop_map(Act::Defer),
        2 => (0u16..5).prop_map(Act::Resume),
        1 => (0u16..5, any::<bool>()).prop_map(|(at, hold)| Act::Hold(at, hold)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each request is executed once, those of a queue in order, one of an endpoint at a time, and all are in
    /// the end, whatever the order of events.
    #[test]
    fn l_4_requests_are_executed_in_order_and_one_at_a_time(acts in prop::collection::vec(act(), 1..300)) {
        let mut queues = queues([3, 1, 2, 1], 6);
        let mut wait: Vec<[VecDeque<u64>; 2]> = vec![Default::default(); 5];
        let mut jobs: Vec<Job> = vec![];
        let mut number = 0;
        for endpoint in 0..5 {
            queues.open(endpoint, (endpoint % 4) as u8);
        }
        // All is resumed and released in the end.
        let mut last = vec![];
        for endpoint in 0..5 {
            last.extend([Act::Resume(endpoint), Act::Hold(endpoint, false)]);
        }
        last.extend((0..200).flat_map(|_| [Act::Next(ALL), Act::Done(0, false)]));
        for act in acts.into_iter().chain(last) {
            match act {
                Act::Submit(endpoint, is_message, class) => {
                    number += 1;
                    let request = match is_message {
                        true => message(endpoint, class, number),
                        false => command(endpoint, class, number),
                    };
                    let mine = &mut wait[usize::from(endpoint)][usize::from(is_message)];
                    if queues.submit(request).is_ok() {
                        mine.push_back(number);
                    }
                }
                Act::Next(engines) => {
                    let Some(job) = queues.next(engines) else { continue };
                    prop_assert!((engines >> job.engine) & 1 == 1);
                    let (kind, endpoint, number) = named(&job);
                    prop_assert!(jobs.iter().all(|other| other.request.endpoint != endpoint));
                    let mine = &mut wait[usize::from(endpoint)][usize::from(kind == 'm')];
                    prop_assert_eq!(mine.front(), Some(&number));
                    jobs.push(job);
                }
                Act::Done(..) | Act::Defer(_) if jobs.is_empty() => {}
                Act::Done(at, again) => {
                    let job = jobs.remove(at % jobs.len());
                    let (kind, endpoint, _) = named(&job);
                    if !again {
                        wait[usize::from(endpoint)][usize::from(kind == 'm')].pop_front();
                    }
                    queues.done(job, Order { again, ..Order::DONE });
                }
                Act::Defer(at) => queues.defer(jobs.remove(at % jobs.len())),
                Act::Resume(endpoint) => queues.resume(endpoint),
                Act::Hold(endpoint, hold) => {
                    queues.apply(endpoint, Order { hold: Some(hold), ..Order::DONE });
                }
            }
        }
        prop_assert!(wait.iter().flatten().all(VecDeque::is_empty), "{wait:?}");
        prop_assert!(jobs.is_empty());
    }
}

#[test]
fn l_5_overflow_memory_is_not_cached() {
    let mut world = World::new(&[UNORDERED]);
    world.run(0, appends(List::Overflow, slab(0, 1 << 20, 4)));
    assert!((0..3).all(|_| matches!(world.message(0), (Outcome::Unexpected(_), false))));
}
