// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A virtual function moves to another host, in a fabric in which hosts die, links flap, requests are lost,
//! late and repeated, and masters change at any step.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

#[path = "relocation/lines.rs"]
mod lines;
#[path = "relocation/world.rs"]
mod world;

use proptest::prelude::*;
use weft_proto::migration::{self, Action, Event, Machine, Outcome, Plan, FAR_MS};
use weft_proto::mr::assignment::is_seen;
use weft_proto::relocation::lines::{
    amend, carried, carriers, is_one, keep, moves, next_number, stage, Around, Move, Party,
    Refusal, Request, Stage, MAX_CARRIED, MAX_MOVES, QUOTA, REQUEST_BYTES,
};
use weft_proto::relocation::source::{self, has_left};
use weft_proto::relocation::target::{self, longest_ms, Target};
use world::World;

const PLAN: Plan = Plan {
    asks: true,
    stops: false,
    grace_ms: 1000,
    far: true,
};
/// The functions, by their own ids.
const SOURCE: u64 = 0x0800_0000_0000_0001;
const TARGET: u64 = 0x0800_0000_0000_0002;
const ROOM: usize = 4096;
/// The hosts: of the source, of the target, and a third one.
const HOSTS: usize = 3;
const S: usize = 0;
const T: usize = 1;
const OTHER: usize = 2;
/// Turns of a host after which a step has taken too long.
const LIMIT: u32 = 400;

const MOVE: Move = Move {
    source: SOURCE,
    target: TARGET,
    number: 1,
    stage: Stage::Closed,
    quota: [1, 2, 3, 4, 5, 6, 7],
};

fn at(stage: Stage) -> Move {
    Move { stage, ..MOVE }
}

/// A host's copy of the assignments.
#[derive(Clone, Debug, Default)]
struct Copy {
    version: u32,
    text: Vec<u8>,
}

impl Copy {
    fn ask(&self, party: Party, wanted: &Move, gone: bool) -> Result<Self, Refusal> {
        self.ask_with(party, wanted, &|function| {
            !gone || function != wanted.target
        })
    }

    /// As [`Self::ask`]; `there` returns whether the host of a function is in the fabric.
    fn ask_with(
        &self,
        party: Party,
        wanted: &Move,
        there: &dyn Fn(u64) -> bool,
    ) -> Result<Self, Refusal> {
        let request = Request {
            from: stage(&self.text, wanted),
            to: *wanted,
        };
        self.take(party, &request, there)
    }

    /// As the master takes a request.
    fn take(
        &self,
        party: Party,
        request: &Request,
        there: &dyn Fn(u64) -> bool,
    ) -> Result<Self, Refusal> {
        let mut to = vec![0; ROOM];
        let around = Around {
            there,
            spare: is_seen,
        };
        let len = amend(&self.text, party, request, &around, &mut to)?;
        to.truncate(len);
        Ok(Copy {
            version: self.version + 1,
            text: to,
        })
    }

    fn stage(&self) -> Stage {
        stage(&self.text, &MOVE)
    }

    fn moved(&self) -> bool {
        carried(&self.text, TARGET) == SOURCE
    }
}

/// Runs it in order; `f` is called before each turn with the number of changes so far.
fn run(mut f: impl FnMut(&mut World)) -> World {
    let mut world = World::new();
    for _ in 0..200 {
        f(&mut world);
        world.turn(S);
        world.turn(T);
        while !world.requests.is_empty() {
            world.request(0, false);
        }
        for host in 0..HOSTS {
            world.replicate(host);
        }
    }
    world.settle();
    world.check();
    world
}

fn events() -> usize {
    run(|_| {}).done.len()
}

#[test]
fn mig_1c_it_moves_to_another_host() {
    let world = run(|_| {});
    world.both(Outcome::Moved, &"nothing happens");
    assert!(world.target_whole());
    assert_eq!(world.copies[OTHER].stage(), Stage::Closed);
    assert!(world.copies[OTHER].moved());
    let actions: Vec<_> = world.done.iter().filter(|d| !d.ends_with("text")).collect();
    let wanted = [
        "2 Asked",
        "1 Claim",
        "2 Ready",
        "0 Finish",
        "0 Release",
        "0 Cut",
        "2 Given",
        "1 Attach",
        "1 Configure",
        "1 Start",
        "2 Done",
        "2 Closed",
    ];
    assert_eq!(actions, wanted);
}

#[test]
fn what_both_hosts_agree_upon_has_the_time_of_an_election() {
    let mut machine = Machine::new(PLAN);
    let mut agreed = Vec::new();
    while let migration::Next::Do(action) = machine.next() {
        if machine.limit_ms() == FAR_MS {
            agreed.push(action);
        }
        machine.event(Event::Done);
    }
    let all = [
        Action::Claim,
        Action::Attach,
        Action::Configure,
        Action::Start,
    ];
    assert_eq!(agreed, all);
    // The target's host does not take the source's for gone before that.
    for stage in [
        Stage::Ready,
        Stage::Given,
        Stage::Done,
        Stage::Failed,
        Stage::Back,
    ] {
        assert!(longest_ms(stage) > FAR_MS, "{stage:?}");
    }
}

#[test]
fn mig_1c_either_host_dies_at_each_step() {
    let (mut stayed, mut moved) = (0, 0);
    for dead in [S, T] {
        for when in 0..events() {
            let world = run(|world| {
                if world.done.len() >= when {
                    world.lives[dead] = false;
                }
            });
            match world.ends[1 - dead] {
                Some(Outcome::Moved) => moved += 1,
                Some(Outcome::Stayed) | None => stayed += 1,
                other => panic!("{dead} dies at {when}: {other:?} {:?}", world.done),
            }
        }
    }
    assert!(stayed > 8 && moved > 4, "{stayed} stayed, {moved} moved");
}

#[test]
fn mig_1c_the_master_dies_at_each_step() {
    for heir in [S, T] {
        for when in 0..events() {
            let world = run(|world| {
                if world.done.len() >= when && world.lives[OTHER] {
                    world.lives[OTHER] = false;
                    world.elect(heir);
                }
            });
            world.both(Outcome::Moved, &when);
        }
    }
}

#[test]
fn mig_1c_a_link_flaps_at_each_step() {
    for host in 0..HOSTS {
        for when in 0..events() {
            let mut turns = 0;
            let world = run(|world| {
                let flaps = world.done.len() >= when && turns < 20;
                turns += u32::from(flaps);
                world.linked[host] = !flaps;
            });
            world.both(Outcome::Moved, &when);
        }
    }
}

#[test]
fn mig_2_what_the_other_host_refuses_leads_back() {
    for (host, action) in [
        (T, Action::Claim),
        (T, Action::Attach),
        (T, Action::Configure),
        (S, Action::Finish),
        (S, Action::Release),
        (S, Action::Cut),
    ] {
        let world = run(|world| world.refuses = Some((host, action)));
        world.both(Outcome::Stayed, &action);
        assert!(world.source_whole() && world.copies[OTHER].stage() == Stage::Closed);
    }
}

#[test]
fn mig_2_a_migration_that_is_cancelled_leads_back() {
    for when in 0..events() {
        let world = run(|world| {
            let already = world.done.iter().any(|done| done == "cancelled");
            if world.done.len() >= when && !already {
                world.cancelled = true;
                world.done.push("cancelled".into());
            }
        });
        let same = world.ends[S] == world.ends[T] || world.ends[T].is_none();
        assert!(same, "{when}: {:?} {:?}", world.ends, world.done);
    }
}

#[test]
fn mig_1c_what_a_dead_source_has_asked_for_may_still_come() {
    let mut world = World::new();
    let given = (Party::Source, Stage::Ready, Stage::Given);
    while !world.requests.contains(&given) {
        for host in 0..HOSTS {
            world.replicate(host);
        }
        world.turn(S);
        world.turn(T);
        while world.requests.first().is_some_and(|first| *first != given) {
            world.request(0, false);
        }
    }
    world.lives[S] = false;
    // The target's host sees that, and wants to leave; the master hears of it later.
    world.turn(T);
    let closes = (Party::Target, Stage::Ready, Stage::Closed);
    assert_eq!(world.requests, [given, closes]);
    world.settle();
    world.check();
    assert_eq!(world.ends[T], Some(Outcome::Moved), "{:?}", world.done);
}

#[test]
fn mig_2_no_target_within_the_limit_leads_back() {
    let world = run(|world| world.lives[T] = false);
    assert_eq!(world.ends[S], Some(Outcome::Stayed));
    // One that does not answer, although it is there.
    let mut world = World::new();
    for _ in 0..2 * LIMIT {
        world.turn(S);
        while !world.requests.is_empty() {
            world.request(0, false);
        }
        world.replicate(S);
    }
    assert_eq!(world.ends[S], Some(Outcome::Stayed));
    assert_eq!(world.machine.why(), Some((Action::Claim, Event::Timeout)));
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Turn(usize),
    Request(usize, bool),
    Lost(usize),
    Replicate(usize),
    Flap(usize),
    Back(usize),
    Elect(usize),
    Dies(usize),
    Cancelled,
}

fn happens() -> impl Strategy<Value = Happens> {
    let host = 0..HOSTS;
    prop_oneof![
        40 => (0..2usize).prop_map(Happens::Turn),
        30 => (0..4usize, any::<bool>()).prop_map(|(n, repeated)| Happens::Request(n, repeated)),
        30 => host.clone().prop_map(Happens::Replicate),
        4 => (0..4usize).prop_map(Happens::Lost),
        3 => host.clone().prop_map(Happens::Flap),
        3 => host.clone().prop_map(Happens::Back),
        2 => host.clone().prop_map(Happens::Elect),
        1 => (0..40usize).prop_map(Happens::Dies),
        1 => Just(Happens::Cancelled),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever happens, and in whatever order, it ends, never with both whole, and as both say.
    #[test]
    fn mig_1c_whatever_happens_it_ends_and_one_is_whole(
        all in prop::collection::vec(happens(), 0..250),
        refuses in prop::option::weighted(0.2, (0..6usize).prop_map(|n| [
            (T, Action::Claim), (T, Action::Attach), (T, Action::Configure),
            (S, Action::Finish), (S, Action::Release), (S, Action::Cut),
        ][n])),
    ) {
        let mut world = World::new();
        world.refuses = refuses;
        for one in all {
            match one {
                Happens::Turn(host) => world.turn(host),
                Happens::Request(n, repeated) => world.request(n, repeated),
                Happens::Lost(n) if n < world.requests.len() => {
                    world.requests.remove(n);
                }
                Happens::Lost(_) => {}
                Happens::Replicate(to) => world.replicate(to),
                Happens::Flap(host) => world.linked[host] = false,
                Happens::Back(host) => world.linked[host] = true,
                Happens::Elect(host) => world.elect(host),
                Happens::Dies(host) => {
                    // The text that only it has is lost with it, and what it was to be known by.
                    let others = (0..HOSTS).filter(|n| *n != host && world.lives[*n]).count();
                    if host < HOSTS && others >= 1 {
                        world.lives[host] = false;
                    }
                }
                Happens::Cancelled => world.cancelled = true,
            }
        }
        world.settle();
        world.check();
    }
}

#[test]
fn a_target_that_its_driver_does_not_release_does_not_wait_for_a_source_that_is_gone() {
    let mut target = Target::new();
    for action in [Action::Claim, Action::Attach, Action::Configure] {
        target.event(action, Event::Done);
    }
    target.event(Action::Unconfigure, Event::Timeout);
    let sight = |stage, gone| target::Sight {
        stage,
        moved: true,
        gone,
        cancelled: false,
    };
    for stage in [Stage::Given, Stage::Revoked] {
        assert_eq!(target.next(&sight(stage, false)), target::Next::Wait);
        let closes = target.next(&sight(stage, true));
        assert_eq!(closes, target::Next::Ask(Stage::Closed), "{stage:?}");
    }
    target.event(Action::Start, Event::Done);
    let over = target.next(&sight(Stage::Closed, true));
    assert_eq!(over, target::Next::End(Outcome::Moved));
}
