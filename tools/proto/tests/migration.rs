// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A virtual function moves, in a world in which anything may go wrong at any step.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use weft_proto::migration::{Action, Event, Machine, Next, Outcome, Plan};

const PLAN: Plan = Plan {
    asks: true,
    stops: false,
    grace_ms: 1000,
    far: false,
};
const FORWARD: [Action; 7] = [
    Action::Claim,
    Action::Finish,
    Action::Release,
    Action::Cut,
    Action::Attach,
    Action::Configure,
    Action::Start,
];

/// One of the two functions.
#[derive(Clone, Copy, Debug)]
struct Function {
    lives: bool,
    /// It has the identity that moves, and the quota.
    identity: bool,
    /// A driver has it.
    driven: bool,
}

impl Function {
    /// Neighbours find it there, and it works.
    fn whole(&self) -> bool {
        self.lives && self.identity && self.driven
    }
}

struct World {
    source: Function,
    target: Function,
    /// The source's system was asked to finish, and was not told to go on.
    asked: bool,
    /// The last it said: nothing is outstanding.
    proven: bool,
    done: Vec<Action>,
}

impl World {
    fn new() -> Self {
        World {
            source: Function {
                lives: true,
                identity: true,
                driven: true,
            },
            target: Function {
                lives: true,
                identity: false,
                driven: true,
            },
            asked: false,
            proven: false,
            done: Vec::new(),
        }
    }

    /// The action is done, if it can be.
    fn act(&mut self, action: Action) -> Event {
        let needs_source = matches!(
            action,
            Action::Finish
                | Action::Stop
                | Action::Release
                | Action::Cut
                | Action::Uncut
                | Action::Resume
                | Action::Reconfigure
        );
        if needs_source && !self.source.lives {
            return Event::SourceGone;
        }
        let needs_target = matches!(
            action,
            Action::Claim
                | Action::Attach
                | Action::Configure
                | Action::Start
                | Action::Unconfigure
                | Action::Unattach
                | Action::Unclaim
        );
        if needs_target && !self.target.lives {
            return Event::TargetGone;
        }
        self.effect(action);
        Event::Done
    }

    fn effect(&mut self, action: Action) {
        match action {
            Action::Claim | Action::Unconfigure => self.target.driven = false,
            Action::Finish | Action::Stop => {
                self.asked = true;
                self.proven = true;
            }
            Action::Release => {
                assert!(self.proven, "released with work outstanding");
                self.source.driven = false;
            }
            Action::Cut => {
                assert!(!self.source.driven, "cut off from its driver");
                self.source.identity = false;
            }
            Action::Attach => {
                assert!(!self.target.driven, "attached while in use");
                assert!(
                    !self.source.identity || !self.source.lives,
                    "attached while the source has it"
                );
                self.target.identity = true;
            }
            Action::Configure => {
                assert!(self.target.identity);
                self.target.driven = true;
            }
            Action::Start => assert!(self.target.whole(), "started too early"),
            Action::Unattach => {
                assert!(!self.target.driven, "taken from a driver");
                self.target.identity = false;
            }
            Action::Uncut => {
                assert!(
                    !self.target.identity || !self.target.lives,
                    "given back while the target has it"
                );
                self.source.identity = true;
            }
            Action::Resume => {
                self.asked = false;
                self.proven = false;
            }
            Action::Reconfigure => {
                assert!(self.source.identity);
                self.source.driven = true;
            }
            Action::Unclaim => self.target.driven = true,
        }
        assert!(
            !(self.source.whole() && self.target.whole()),
            "both are whole"
        );
        self.done.push(action);
    }

    /// What the machine says at the end is so.
    fn check(&self, outcome: Outcome) {
        assert!(!(self.source.whole() && self.target.whole()));
        match outcome {
            Outcome::Stayed => {
                // Whether it lives is not looked at when all is done for it.
                let since = self.done.last() == Some(&Action::Unclaim) && !self.source.lives;
                assert!(
                    self.source.whole() || since,
                    "{:?} {:?}",
                    self.source,
                    self.done
                );
                assert!(!self.asked, "users are not told to go on: {:?}", self.done);
                assert!(self.source.identity && !self.target.whole());
            }
            Outcome::Moved => {
                assert!(self.target.whole(), "{:?} {:?}", self.target, self.done);
            }
            Outcome::ParkedAtSource => {
                assert!(
                    !self.target.identity || !self.target.lives,
                    "{:?}",
                    self.done
                );
            }
            Outcome::ParkedAtTarget => {
                assert!(!self.source.whole(), "{:?}", self.done);
                assert!(self.target.identity, "{:?}", self.done);
            }
            Outcome::Lost => assert!(!self.source.lives, "lost while the source lives"),
        }
    }
}

/// Runs the machine; `event` may say what becomes of the nth action instead of what would.
fn run(
    plan: Plan,
    mut event: impl FnMut(usize, Action, &mut World) -> Option<Event>,
) -> (Outcome, World, Machine) {
    let mut machine = Machine::new(plan);
    let mut world = World::new();
    for n in 0..64 {
        let action = match machine.next() {
            Next::Do(action) => action,
            Next::End(outcome) => {
                world.check(outcome);
                return (outcome, world, machine);
            }
        };
        assert!(machine.limit_ms() > 0, "{action:?} may take for ever");
        let instead = event(n, action, &mut world);
        let what = instead.unwrap_or_else(|| world.act(action));
        machine.event(what);
    }
    panic!("it does not end: {:?}", machine);
}

#[test]
fn mig_2_the_sequence_of_the_figure() {
    let (outcome, world, machine) = run(PLAN, |_, _, _| None);
    assert_eq!(outcome, Outcome::Moved);
    assert_eq!(world.done, FORWARD);
    assert_eq!(machine.why(), None);
}

#[test]
fn mig_2_a_source_without_a_driver_is_not_asked() {
    let mut machine = Machine::new(Plan {
        asks: false,
        ..PLAN
    });
    assert_eq!(machine.next(), Next::Do(Action::Claim));
    machine.event(Event::Done);
    assert_eq!(machine.next(), Next::Do(Action::Release));
}

#[test]
fn mig_2_each_step_refused_or_too_slow_goes_back_to_the_source() {
    for at in &FORWARD[..6] {
        for what in [Event::Failed, Event::Timeout, Event::Cancelled] {
            // What fails may have been done in part: here all of it, or nothing.
            for partly in [false, true] {
                let (outcome, world, machine) = run(PLAN, |_, action, world| {
                    if action != *at {
                        return None;
                    }
                    if partly {
                        world.effect(action);
                    }
                    Some(what)
                });
                assert_eq!(outcome, Outcome::Stayed, "{at:?} {what:?}");
                assert_eq!(machine.why(), Some((*at, what)));
                assert!(
                    world.target.driven,
                    "the target is not as it was: {at:?} {what:?}"
                );
            }
        }
    }
}

#[test]
fn mig_2_users_that_do_not_finish_are_stopped_if_that_is_wanted() {
    let late =
        |_: usize, action, _: &mut World| (action == Action::Finish).then_some(Event::Timeout);
    let (outcome, world, _) = run(PLAN, late);
    assert_eq!(outcome, Outcome::Stayed);
    assert!(!world.done.contains(&Action::Stop) && !world.done.contains(&Action::Release));
    let (outcome, world, _) = run(
        Plan {
            stops: true,
            ..PLAN
        },
        late,
    );
    assert_eq!(outcome, Outcome::Moved);
    assert_eq!(world.done.get(1), Some(&Action::Stop));
    // They do not stop either.
    let (outcome, _, machine) = run(
        Plan {
            stops: true,
            ..PLAN
        },
        |_, action, _| matches!(action, Action::Finish | Action::Stop).then_some(Event::Timeout),
    );
    assert_eq!(outcome, Outcome::Stayed);
    assert_eq!(machine.why(), Some((Action::Finish, Event::Timeout)));
}

#[test]
fn mig_2_the_source_dies_at_each_step_and_the_target_takes_its_place() {
    for at in FORWARD {
        let (outcome, world, _) = run(PLAN, |_, action, world| {
            (action == at && world.source.lives).then(|| {
                world.source.lives = false;
                Event::SourceGone
            })
        });
        assert_eq!(outcome, Outcome::Moved, "{at:?}");
        assert!(world.target.whole() && !world.source.lives);
    }
}

#[test]
fn mig_2_the_target_dies_at_each_step_and_the_source_goes_on() {
    for at in FORWARD {
        let (outcome, world, _) = run(PLAN, |_, action, world| {
            (action == at && world.target.lives).then(|| {
                world.target.lives = false;
                Event::TargetGone
            })
        });
        assert_eq!(outcome, Outcome::Stayed, "{at:?}");
        assert!(world.source.whole() && !world.target.lives);
    }
}

#[test]
fn mig_2_both_die() {
    let (outcome, ..) = run(PLAN, |_, action, world| {
        (action == Action::Attach).then(|| {
            let first = world.source.lives;
            world.source.lives = false;
            world.target.lives = first;
            if first {
                Event::SourceGone
            } else {
                Event::TargetGone
            }
        })
    });
    assert_eq!(outcome, Outcome::Lost);
}

#[test]
fn mig_2_the_source_dies_on_the_way_back() {
    // The user cancels it when the target has the identity; then the source dies: forward again.
    for at in [
        Action::Unconfigure,
        Action::Unattach,
        Action::Uncut,
        Action::Resume,
        Action::Reconfigure,
    ] {
        let (outcome, world, _) = run(PLAN, |_, action, world| {
            if action == Action::Configure
                && world.source.lives
                && !world.done.contains(&Action::Unconfigure)
            {
                return Some(Event::Cancelled);
            }
            (action == at && world.source.lives).then(|| {
                world.source.lives = false;
                Event::SourceGone
            })
        });
        assert_eq!(outcome, Outcome::Moved, "{at:?} {:?}", world.done);
        // A target that would not come up is not tried for ever.
        let (outcome, world, _) = run(PLAN, |_, action, world| {
            if action == Action::Configure {
                return Some(Event::Failed);
            }
            (action == at && world.source.lives).then(|| {
                world.source.lives = false;
                Event::SourceGone
            })
        });
        assert_eq!(outcome, Outcome::ParkedAtTarget, "{at:?} {:?}", world.done);
        assert!(world.target.identity);
    }
}

fn event() -> impl Strategy<Value = Option<Event>> {
    prop_oneof![
        6 => Just(None),
        1 => Just(Some(Event::Failed)),
        1 => Just(Some(Event::Timeout)),
        1 => Just(Some(Event::Cancelled)),
        1 => Just(Some(Event::SourceGone)),
        1 => Just(Some(Event::TargetGone)),
    ]
}

proptest! {
    /// Whatever happens, it ends, never with both whole, and as it says that it has.
    #[test]
    fn mig_2_whatever_happens_it_ends_and_one_is_whole(
        events in prop::collection::vec((event(), any::<bool>()), 0..40),
        stops in any::<bool>(),
    ) {
        let plan = Plan { stops, grace_ms: 1, ..PLAN };
        let (outcome, world, _) = run(plan, |n, action, world| {
            let (event, partly) = *events.get(n)?;
            match event? {
                Event::SourceGone => world.source.lives = false,
                Event::TargetGone => world.target.lives = false,
                // A step back can fail only if the function does not answer.
                _ if action as u32 >= Action::Start as u32 => return None,
                what => {
                    if partly && world.act(action) != Event::Done {
                        return None;
                    }
                    return Some(what);
                }
            }
            // What the action finds out.
            None
        });
        // None while one of them lives.
        if world.source.lives && world.target.lives {
            prop_assert!(matches!(outcome, Outcome::Stayed | Outcome::Moved), "{outcome:?}");
        }
        if outcome == Outcome::Lost {
            prop_assert!(!world.source.lives);
        }
    }
}
