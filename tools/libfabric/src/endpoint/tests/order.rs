// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Receives and messages at random, more than there are entries for: each message is for the oldest receive that it
//! fits and that no older message is for, whenever the driver does what. If the driver has refused buffers, another receive
//! may have been faster; each gets a message all the same, if there is one.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const TAGS: u64 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A receive: which tags, and which source.
    Post(u64, u64, Option<u64>),
    /// A message, of a source.
    Come(u64, u64),
    /// The driver does so many commands.
    Drive(usize),
    /// The program looks; `true`: and as much time has passed that the driver is asked again.
    Look(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let ignore = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(u64::MAX)];
    prop_oneof![
        4 => (0..TAGS, ignore, prop::option::of(0..2u64)).prop_map(|(t, i, s)| Step::Post(t, i, s)),
        3 => (0..TAGS, 0..2u64).prop_map(|(tag, source)| Step::Come(tag, source)),
        3 => (1..6usize).prop_map(Step::Drive),
        3 => any::<bool>().prop_map(Step::Look),
    ]
}

/// A driver that has as many entries as are asked for, but says at times that it has none.
#[derive(Default)]
struct Driver {
    /// Which of the next buffers it refuses.
    refuses: VecDeque<bool>,
    posted: Vec<(u64, Wanted)>,
    unexpected: Vec<Event>,
    claimed: HashMap<u64, Event>,
}

fn fits(wanted: &Wanted, message: &Event) -> bool {
    let tag = (message.bits ^ wanted.tag) & TAG & !wanted.ignore == 0;
    tag && wanted.source.is_none_or(|source| source == message.source)
}

impl Driver {
    /// A message meets a buffer, or waits; returns what is told of it.
    fn come(&mut self, message: Event) -> Option<Event> {
        match self.posted.iter().position(|(_, wanted)| fits(wanted, &message)) {
            Some(at) => Some(Event { context: self.posted.remove(at).0, ..message }),
            None => {
                self.unexpected.push(message);
                None
            }
        }
    }

    fn command(&mut self, text: &str) -> Option<Event> {
        let number = field(text, "context");
        let (bits, flags) = (field(text, "bits"), field(text, "flags"));
        let source =
            (flags & 4 == 0).then_some((field(text, "hwid"), field(text, "endpoint") as u16));
        let wanted =
            Wanted { kind: FI_TAGGED, tag: bits & TAG, ignore: field(text, "ignore"), source };
        let first = self.unexpected.iter().position(|message| fits(&wanted, message));
        match field(text, "op") {
            // WEFT_MATCH_APPEND; slabs have no tag.
            1 if bits >> 63 == 0 => None,
            1 if self.refuses.pop_front().unwrap_or(false) => {
                Some(failed(EventKind::Command, number, libc::ENOSPC))
            }
            1 => match first {
                Some(at) => Some(Event { context: number, ..self.unexpected.remove(at) }),
                None => {
                    self.posted.push((number, wanted));
                    None
                }
            },
            // WEFT_MATCH_CLAIM.
            3 => Some(match first {
                Some(at) => {
                    let message = self.unexpected.remove(at);
                    self.claimed.insert(number, message);
                    Event { kind: EventKind::Command, context: number, ..message }
                }
                None => failed(EventKind::Command, number, libc::ENOENT),
            }),
            // WEFT_MATCH_RECEIVE.
            5 => self.claimed.remove(&number).map(|message| Event { context: number, ..message }),
            _ => None,
        }
    }
}

/// Pairs of receives and messages, by their numbers.
fn expected(receives: &[Wanted], messages: &[Event]) -> Vec<(usize, usize)> {
    let mut free = vec![true; messages.len()];
    let mut pairs = Vec::new();
    for (n, wanted) in receives.iter().enumerate() {
        let found = (0..messages.len()).find(|at| free[*at] && fits(wanted, &messages[*at]));
        if let Some(at) = found {
            free[at] = false;
            pairs.push((n, at));
        }
    }
    pairs
}

struct Bench {
    engine: Engine<Fake>,
    driver: Driver,
    told: Told,
}

impl Bench {
    fn drive(&mut self, most: usize) {
        let rings = self.engine.rings();
        rings.slots += most;
        let count = most.min(rings.commands.len());
        let commands: Vec<String> = rings.commands.drain(..count).collect();
        for text in commands {
            let event = self.driver.command(&text);
            self.engine.rings().events.extend(event);
        }
    }

    fn look(&mut self, asks: bool) {
        match asks {
            true => self.engine.early.next = None,
            false => do_not_ask(&mut self.engine),
        }
        self.engine.progress(&mut self.told);
    }
}

/// Does the steps, and all that is to be done behind them. Returns the receives, the messages, and which have met.
fn run(steps: Vec<Step>, refuses: Vec<bool>) -> (Vec<Wanted>, Vec<Event>, Vec<(usize, usize)>) {
    let driver = Driver { refuses: refuses.into(), ..Driver::default() };
    let mut bench = Bench { engine: engine(4), driver, told: Told::default() };
    let (mut receives, mut messages) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Post(tag, ignore, source) => {
                let source = source.map(|source| (source, 3));
                let wanted = Wanted { kind: FI_TAGGED, tag, ignore, source };
                receive(&mut bench.engine, &wanted, receives.len()).expect("posted, or it waits");
                receives.push(wanted);
            }
            Step::Come(tag, source) => {
                // Its length is its number.
                let length = messages.len() as u64;
                let message = Event {
                    bits: (1 << 63) | tag,
                    source: (source, 3),
                    length,
                    stored: length,
                    ..event(EventKind::Received, 0)
                };
                messages.push(message);
                let event = bench.driver.come(message);
                bench.engine.rings().events.extend(event);
            }
            Step::Drive(most) => bench.drive(most),
            Step::Look(asks) => bench.look(asks),
        }
    }
    // Each round deals with one message at least, or one buffer that was refused.
    for _ in 0..2 * (messages.len() + receives.len()) + 64 {
        bench.drive(64);
        bench.look(true);
    }
    let pair = |outcome: &Outcome| {
        let done = outcome.done;
        assert_eq!(done.error, 0);
        (done.entry.op_context.addr(), done.entry.len)
    };
    let mut pairs: Vec<(usize, usize)> = bench.told.0.iter().map(pair).collect();
    pairs.sort_unstable();
    (receives, messages, pairs)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn receives_and_messages_meet_in_their_orders(steps in prop::collection::vec(step(), 1..150)) {
        let (receives, messages, pairs) = run(steps, Vec::new());
        prop_assert_eq!(pairs, expected(&receives, &messages));
    }

    #[test]
    fn none_is_left_that_fits_another_if_buffers_are_refused(
        steps in prop::collection::vec(step(), 1..150),
        refuses in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let (receives, messages, pairs) = run(steps, refuses);
        let mut free = (vec![true; receives.len()], vec![true; messages.len()]);
        for (n, at) in pairs {
            prop_assert!(std::mem::take(&mut free.0[n]) && std::mem::take(&mut free.1[at]));
            prop_assert!(fits(&receives[n], &messages[at]));
        }
        for (wanted, _) in receives.iter().zip(&free.0).filter(|(_, free)| **free) {
            let mut left = messages.iter().zip(&free.1).filter(|(_, free)| **free);
            prop_assert!(!left.any(|(message, _)| fits(wanted, message)));
        }
    }
}
