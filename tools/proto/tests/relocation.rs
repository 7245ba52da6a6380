// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A virtual function moves to another host, in a fabric in which hosts die, links flap, requests are lost,
//! late and repeated, and masters change at any step.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use weft_proto::migration::{self, Action, Event, Machine, Outcome, Plan, FAR_MS};
use weft_proto::mr::assignment::is_seen;
use weft_proto::relocation::lines::{
    amend, carried, carriers, is_one, keep, moves, next_number, stage, Around, Move, Party,
    Refusal, Stage, MAX_CARRIED, MAX_MOVES, MOVE_BYTES, QUOTA,
};
use weft_proto::relocation::source::{self, has_left};
use weft_proto::relocation::target::{self, longest_ms, Target};

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
        let mut to = vec![0; ROOM];
        let around = Around {
            there,
            spare: is_seen,
        };
        let len = amend(&self.text, party, wanted, &around, &mut to)?;
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

struct World {
    lives: [bool; HOSTS],
    linked: [bool; HOSTS],
    copies: [Copy; HOSTS],
    master: usize,
    /// Requests on their way to whichever host is master then.
    requests: Vec<(Party, Stage)>,
    machine: Machine,
    target: Target,
    asked: bool,
    begun: bool,
    /// The target's host has seen it.
    came: bool,
    ends: [Option<Outcome>; 2],
    turns: u32,
    /// The source has its quota, and its driver.
    open: bool,
    source_driven: bool,
    finished: bool,
    attached: bool,
    target_driven: bool,
    claimed: bool,
    cancelled: bool,
    /// What the target's host does not manage, or that of the source.
    refuses: Option<(usize, Action)>,
    /// Stages and actions, in their order.
    done: Vec<String>,
}

impl World {
    fn new() -> Self {
        World {
            lives: [true; HOSTS],
            linked: [true; HOSTS],
            copies: Default::default(),
            master: OTHER,
            requests: Vec::new(),
            machine: Machine::new(PLAN),
            target: Target::new(),
            asked: false,
            begun: false,
            came: false,
            ends: [None; 2],
            turns: 0,
            open: true,
            source_driven: true,
            finished: false,
            attached: false,
            target_driven: true,
            claimed: false,
            cancelled: false,
            refuses: None,
            done: Vec::new(),
        }
    }

    /// Neighbours find the identity there, and it works.
    fn source_whole(&self) -> bool {
        self.lives[S] && self.open && self.source_driven && !self.copies[S].moved()
    }

    fn target_whole(&self) -> bool {
        self.lives[T] && self.attached && self.target_driven && self.copies[T].moved()
    }

    fn note(&mut self, host: usize, what: &str) {
        self.done.push(format!("{host} {what}"));
        assert!(
            !(self.source_whole() && self.target_whole()),
            "both are whole: {:?}",
            self.done
        );
    }

    fn act(&mut self, host: usize, action: Action) -> Event {
        if self.refuses == Some((host, action)) {
            return Event::Failed;
        }
        match (host, action) {
            (S, Action::Finish) => self.finished = true,
            (S, Action::Release) => {
                assert!(self.finished, "released with work outstanding");
                self.source_driven = false;
            }
            (S, Action::Cut) => self.open = false,
            (S, Action::Uncut) => {
                assert!(
                    !self.copies[S].moved(),
                    "given back while the target has it"
                );
                self.open = true;
            }
            (S, Action::Resume) => self.finished = false,
            (S, Action::Reconfigure) => self.source_driven = true,
            (T, Action::Claim) => {
                self.claimed = true;
                self.target_driven = false;
            }
            (T, Action::Attach) => {
                assert!(self.claimed && !self.target_driven, "attached while in use");
                self.attached = true;
            }
            (T, Action::Configure) => {
                assert!(self.attached);
                self.target_driven = true;
            }
            (T, Action::Start) => assert!(self.target_whole(), "started too early"),
            (T, Action::Unconfigure) => self.target_driven = false,
            (T, Action::Unattach) => {
                assert!(!self.target_driven);
                self.attached = false;
            }
            (T, Action::Unclaim) => {
                assert!(!self.attached && !self.copies[T].moved());
                self.claimed = false;
                self.target_driven = true;
            }
            other => panic!("{other:?}"),
        }
        self.note(host, &format!("{action:?}"));
        Event::Done
    }

    fn ask(&mut self, party: Party, stage: Stage) {
        if !self.requests.contains(&(party, stage)) {
            self.requests.push((party, stage));
        }
    }

    /// The source's host goes on. Returns the action that it is at.
    fn source_turn(&mut self) {
        let migration::Next::Do(action) = self.machine.next() else {
            return;
        };
        let copy = &self.copies[S];
        self.begun |= copy.stage() != Stage::Closed;
        let sight = source::Sight {
            stage: copy.stage(),
            asked: self.asked,
            begun: self.begun,
            moved: copy.moved(),
            gone: !self.lives[T],
        };
        self.turns += 1;
        let forward = (action as u32) < Action::Start as u32;
        let next = match action {
            Action::Finish | Action::Release | Action::Cut if has_left(&sight) => {
                source::Next::Over(Event::TargetGone)
            }
            Action::Finish
            | Action::Release
            | Action::Cut
            | Action::Uncut
            | Action::Resume
            | Action::Reconfigure => source::Next::Over(self.act(S, action)),
            _ if forward && self.cancelled => source::Next::Over(Event::Cancelled),
            _ if self.turns > LIMIT => source::Next::Over(Event::Timeout),
            _ => source::next(action, &sight),
        };
        match next {
            source::Next::Ask(stage) => {
                self.asked = true;
                self.ask(Party::Source, stage);
            }
            source::Next::Wait => {}
            source::Next::Over(event) => {
                self.cancelled &= event != Event::Cancelled;
                self.turns = 0;
                self.machine.event(event);
            }
        }
        if let migration::Next::End(outcome) = self.machine.next() {
            self.ends[S] = Some(outcome);
        }
    }

    fn target_turn(&mut self) {
        if self.ends[T].is_some() {
            return;
        }
        let copy = &self.copies[T];
        self.came |= copy.stage() != Stage::Closed;
        if !self.came {
            // No source's host has asked yet.
            return;
        }
        let sight = target::Sight {
            stage: copy.stage(),
            moved: copy.moved(),
            gone: !self.lives[S],
            cancelled: false,
        };
        match self.target.next(&sight) {
            target::Next::Do(action) => {
                let event = self.act(T, action);
                self.target.event(action, event);
            }
            target::Next::Ask(stage) => self.ask(Party::Target, stage),
            target::Next::Wait => {}
            target::Next::End(outcome) => self.ends[T] = Some(outcome),
        }
    }

    /// The master takes a request, which stays on its way if it is repeated.
    fn request(&mut self, n: usize, repeated: bool) {
        let master = self.master;
        let Some(&(party, stage)) = self.requests.get(n) else {
            return;
        };
        if !repeated {
            self.requests.remove(n);
        }
        if !self.lives[master] {
            return;
        }
        if let Ok(copy) = self.copies[master].ask(party, &at(stage), !self.lives[T]) {
            self.copies[master] = copy;
            self.note(master, &format!("{stage:?}"));
        }
    }

    fn replicate(&mut self, to: usize) {
        let from = &self.copies[self.master];
        let reached = self.lives[self.master] && self.linked[self.master] && self.linked[to];
        if reached && self.lives[to] && from.version > self.copies[to].version {
            self.copies[to] = from.clone();
            self.note(to, "has a new text");
        }
    }

    fn elect(&mut self, host: usize) {
        if !self.lives[host] {
            return;
        }
        // Flaps are over before there is a master: it takes the newest text that there is.
        self.linked = [true; HOSTS];
        let alive = (0..HOSTS).filter(|n| self.lives[*n]);
        let newest = alive.max_by_key(|n| self.copies[*n].version);
        self.copies[host] = self.copies[newest.expect("it lives")].clone();
        self.master = host;
        self.note(host, "is master");
    }

    fn turn(&mut self, host: usize) {
        if self.lives[host] {
            match host {
                S => self.source_turn(),
                T => self.target_turn(),
                _ => {}
            }
        }
    }

    /// Everything goes on in order, until nothing is left to be done.
    fn settle(&mut self) {
        for _ in 0..4 * LIMIT {
            self.linked = [true; HOSTS];
            if !self.lives[self.master] {
                self.elect((0..HOSTS).find(|n| self.lives[*n]).expect("one lives"));
            }
            self.turn(S);
            self.turn(T);
            while !self.requests.is_empty() {
                self.request(0, false);
            }
            for host in 0..HOSTS {
                self.replicate(host);
            }
        }
    }

    /// What the hosts say at the end is so.
    fn check(&self) {
        let said = format!("{:?} {:?} {:?}", self.ends, self.lives, self.done);
        let text = &self.copies[self.master];
        if self.lives[S] {
            match self.ends[S].expect("it ends at the source") {
                Outcome::Stayed => assert!(self.source_whole() && !text.moved(), "{said}"),
                Outcome::Moved | Outcome::ParkedAtTarget => assert!(text.moved(), "{said}"),
                outcome => panic!("{outcome:?}: {said}"),
            }
        }
        if !self.lives[T] {
            return;
        }
        match self.ends[T] {
            None => assert!(
                !self.claimed && self.target_driven && !text.moved(),
                "{said}"
            ),
            Some(Outcome::Moved) => assert!(self.target_whole() && text.moved(), "{said}"),
            Some(Outcome::Stayed) => {
                assert!(!text.moved() && !self.attached, "{said}");
                assert!(!self.claimed && self.target_driven, "{said}");
            }
            Some(Outcome::ParkedAtTarget) => {
                assert!(text.moved() && !self.target_driven, "{said}");
                assert!(self.refuses.is_some(), "{said}");
            }
            Some(outcome) => panic!("{outcome:?}: {said}"),
        }
        if self.lives[S] {
            let whole = self.source_whole() || self.target_whole();
            assert!(whole, "neither is whole: {said}");
        }
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
    assert_eq!(world.ends, [Some(Outcome::Moved); 2]);
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
            assert_eq!(
                world.ends,
                [Some(Outcome::Moved); 2],
                "{when}: {:?}",
                world.done
            );
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
            assert_eq!(
                world.ends,
                [Some(Outcome::Moved); 2],
                "{when}: {:?}",
                world.done
            );
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
        assert_eq!(
            world.ends,
            [Some(Outcome::Stayed); 2],
            "{action:?} {:?}",
            world.done
        );
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
    let given = (Party::Source, Stage::Given);
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
    assert_eq!(world.requests, [given, (Party::Target, Stage::Closed)]);
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
fn requests_are_read_as_they_are_written() {
    let mut buf = [0; MOVE_BYTES];
    let len = at(Stage::Failed).encode(&mut buf).expect("fits");
    assert_eq!(Move::parse(&buf[..len]), Some(at(Stage::Failed)));
    for cut in 0..len {
        assert_eq!(Move::parse(&buf[..cut]), None);
    }
    assert_eq!(Move::parse(&[&buf[..len], &[0]].concat()), None);
    buf[20] = 8;
    assert_eq!(Move::parse(&buf), None, "no such stage");
    let same = Move {
        target: SOURCE,
        ..MOVE
    };
    same.encode(&mut buf).expect("fits");
    assert_eq!(
        Move::parse(&buf),
        None,
        "a function does not move to itself"
    );
}

#[test]
fn lines_are_read_as_they_are_written() {
    let mut copy = Copy {
        version: 0,
        text: b"# weft assignments: endpoint.ve root\nc000a7bdf6f00c05.0 1".to_vec(),
    };
    copy = copy
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [at(Stage::Asked)]);
    assert!(copy
        .text
        .starts_with(b"# weft assignments: endpoint.ve root\nc000a7bdf6f00c05.0 1\n"));
    let again = copy.ask(Party::Source, &at(Stage::Asked), false);
    assert_eq!(again.err(), Some(Refusal::Already));
    // A request names the quota only once.
    let ready = Move {
        quota: [0; QUOTA],
        ..at(Stage::Ready)
    };
    copy = copy.ask(Party::Target, &ready, false).expect("ready");
    assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [at(Stage::Ready)]);
    copy = copy
        .ask(Party::Source, &at(Stage::Given), false)
        .expect("given");
    let have: Vec<_> = carriers(&copy.text).collect();
    assert_eq!(have, [(SOURCE, TARGET), (TARGET, SOURCE)]);
    copy = copy
        .ask(Party::Target, &at(Stage::Failed), false)
        .expect("failed");
    copy = copy
        .ask(Party::Source, &at(Stage::Back), false)
        .expect("back");
    assert_eq!(carriers(&copy.text).count(), 0);
    copy = copy
        .ask(Party::Source, &at(Stage::Closed), false)
        .expect("closed");
    assert_eq!(
        copy.text,
        b"# weft assignments: endpoint.ve root\nc000a7bdf6f00c05.0 1\nmoves 1\n"
    );
    assert_eq!(next_number(&copy.text), 2);
    for line in [
        &b"move 1 2 3 closed 0 0 0 0 0 0 0"[..],
        b"move 1 2 3 asked 0",
        b"carries 1",
        b"carries 1 2 3",
    ] {
        assert!(!is_one(line), "{line:?}");
    }
}

#[test]
fn no_host_brings_a_migration_where_it_may_not() {
    use Stage::{Asked, Back, Closed, Done, Failed, Given, Ready, Revoked};
    let all = [Closed, Asked, Ready, Given, Done, Revoked, Failed, Back];
    let may = [
        (Party::Source, Closed, Asked),
        (Party::Target, Asked, Ready),
        (Party::Source, Ready, Given),
        (Party::Target, Given, Done),
        (Party::Source, Given, Revoked),
        (Party::Source, Done, Revoked),
        (Party::Target, Given, Failed),
        (Party::Target, Revoked, Failed),
        (Party::Source, Failed, Back),
    ];
    let way = |to: Stage| -> Vec<(Party, Stage)> {
        let mut way = vec![
            (Party::Source, Asked),
            (Party::Target, Ready),
            (Party::Source, Given),
        ];
        match to {
            Closed => way.clear(),
            Asked => way.truncate(1),
            Ready => way.truncate(2),
            Given => {}
            Done => way.push((Party::Target, Done)),
            Revoked => way.push((Party::Source, Revoked)),
            Failed => way.push((Party::Target, Failed)),
            Back => way.extend([(Party::Target, Failed), (Party::Source, Back)]),
        }
        way
    };
    for from in all {
        let copy = way(from)
            .into_iter()
            .fold(Copy::default(), |copy, (party, stage)| {
                copy.ask(party, &at(stage), false).expect("it may")
            });
        assert_eq!(copy.stage(), from);
        for party in [Party::Source, Party::Target] {
            for to in all.into_iter().filter(|to| *to != from) {
                let allowed = to == Closed || may.contains(&(party, from, to));
                let done = copy.ask(party, &at(to), false);
                assert_eq!(done.is_ok(), allowed, "{party:?} {from:?} {to:?}");
                let taken =
                    party == Party::Source && matches!(from, Given | Done | Revoked) && to == Back;
                let done = copy.ask(party, &at(to), true);
                assert_eq!(
                    done.is_ok(),
                    allowed || taken,
                    "{party:?} {from:?} {to:?}, gone"
                );
                if let Ok(done) = done {
                    let exchanged = to == Given || to == Back;
                    assert_eq!(done.moved() != copy.moved(), exchanged, "{from:?} {to:?}");
                }
            }
        }
    }
}

#[test]
fn a_function_is_part_of_one_migration_at_a_time() {
    let copy = Copy::default()
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    let number = next_number(&copy.text);
    for (source, target) in [(SOURCE + 5, TARGET), (SOURCE + 5, SOURCE)] {
        let other = Move {
            source,
            target,
            number,
            ..at(Stage::Asked)
        };
        let busy = copy.ask(Party::Source, &other, false);
        assert_eq!(busy.err(), Some(Refusal::Busy), "{source:x} {target:x}");
    }
    // What its own host has left behind is replaced; what was asked for it before is late.
    let next = Move {
        number,
        ..at(Stage::Asked)
    };
    let copy = copy
        .ask(Party::Source, &next, false)
        .expect("it is replaced");
    assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [next]);
    for (party, stage) in [
        (Party::Target, Stage::Ready),
        (Party::Source, Stage::Asked),
        (Party::Source, Stage::Given),
    ] {
        let late = copy.ask(party, &at(stage), false);
        assert_eq!(late.err(), Some(Refusal::Order), "{stage:?}");
    }
    // Also when that is over.
    let closed = Move {
        stage: Stage::Closed,
        ..next
    };
    let copy = copy
        .ask(Party::Source, &closed, false)
        .expect("it is closed");
    let again = copy.ask(Party::Source, &next, false);
    assert_eq!(again.err(), Some(Refusal::Order));
}

#[test]
fn a_host_moves_one_function_at_a_time_and_its_own_whatever_others_want() {
    let asked = Copy::default()
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    let number = next_number(&asked.text);
    for source in [SOURCE ^ 1 << 58, TARGET] {
        let other = Move {
            source,
            target: TARGET + 5,
            number,
            ..at(Stage::Asked)
        };
        let copy = asked.ask(Party::Source, &other, false).expect("asked");
        assert_eq!(moves(&copy.text).collect::<Vec<_>>(), [other]);
        assert_eq!(copy.stage(), Stage::Closed, "the former one is over");
    }
}

#[test]
fn a_migration_that_no_host_is_left_to_end_makes_room_and_leaves_its_identity_where_it_is() {
    let mut copy = Copy::default();
    for (party, stage) in [
        (Party::Source, Stage::Asked),
        (Party::Target, Stage::Ready),
        (Party::Source, Stage::Given),
    ] {
        copy = copy.ask(party, &at(stage), false).expect("in order");
    }
    let next = Move {
        source: SOURCE + 5,
        target: TARGET + 5,
        number: next_number(&copy.text),
        ..at(Stage::Asked)
    };
    let ends = [next.source, next.target];
    for (there, left) in [(Some(SOURCE), 2), (Some(TARGET), 2), (None, 1)] {
        let there = |function| ends.contains(&function) || Some(function) == there;
        let asked = copy.ask_with(Party::Source, &next, &there).expect("asked");
        assert_eq!(moves(&asked.text).count(), left);
        assert!(asked.moved());
    }
}

#[test]
fn what_was_seen_of_components_makes_room() {
    let mut copy = Copy::default();
    copy.text.extend_from_slice(b"c000a7bdf6f00c05.0 1\n");
    while copy.text.len() < ROOM - 40 {
        let line = format!("seen {:x} 12345678\n", copy.text.len());
        copy.text.extend_from_slice(line.as_bytes());
    }
    let asked = copy
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    assert_eq!(moves(&asked.text).count(), 1);
    assert!(asked.text.starts_with(b"c000a7bdf6f00c05.0 1\n"));
    assert!(!asked.text.windows(4).any(|w| w == b"seen"));
    // An administrator's lines stay.
    let mut full = Copy::default();
    full.text.resize(ROOM - 40, b'#');
    let full = full.ask(Party::Source, &at(Stage::Asked), false);
    assert_eq!(full.err(), Some(Refusal::Full));
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

#[test]
fn there_is_a_limit_of_migrations_and_of_identities() {
    let one = |n: u64, stage, copy: &Copy| Move {
        source: 0x1000 + n,
        target: 0x2000 + n,
        number: match stage {
            Stage::Asked => next_number(&copy.text),
            _ => next_number(&copy.text) - 1,
        },
        ..at(stage)
    };
    let mut copy = Copy::default();
    for n in 0..MAX_MOVES as u64 {
        let asked = copy.ask(Party::Source, &one(n, Stage::Asked, &copy), false);
        copy = asked.expect("one of few");
    }
    let more = copy.ask(Party::Source, &one(99, Stage::Asked, &copy), false);
    assert_eq!(more.err(), Some(Refusal::Full));
    let mut copy = Copy::default();
    for n in 0..=MAX_CARRIED as u64 / 2 {
        for (party, stage) in [(Party::Source, Stage::Asked), (Party::Target, Stage::Ready)] {
            let done = copy.ask(party, &one(n, stage, &copy), false);
            copy = done.expect("in order");
        }
        let given = copy.ask(Party::Source, &one(n, Stage::Given, &copy), false);
        if n == MAX_CARRIED as u64 / 2 {
            assert_eq!(given.err(), Some(Refusal::Full));
            break;
        }
        copy = given.expect("given");
        let closed = copy.ask(Party::Source, &one(n, Stage::Closed, &copy), false);
        copy = closed.expect("closed");
    }
    assert_eq!(carriers(&copy.text).count(), MAX_CARRIED);
}

proptest! {
    /// Functions move here and there; each identity is always one function's.
    #[test]
    fn each_identity_is_one_functions(all in prop::collection::vec((0..5u64, 0..5u64), 0..40)) {
        let mut copy = Copy::default();
        for (source, target) in all.into_iter().filter(|(a, b)| a != b) {
            let number = next_number(&copy.text);
            let one = |stage| Move { source: 1 + source, target: 1 + target, number, ..at(stage) };
            for (party, stage) in [(Party::Source, Stage::Asked), (Party::Target, Stage::Ready),
                                   (Party::Source, Stage::Given), (Party::Source, Stage::Closed)] {
                copy = copy.ask(party, &one(stage), false).expect("in order");
            }
            let mut ids: Vec<_> = (1..6).map(|function| carried(&copy.text, function)).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, [1, 2, 3, 4, 5]);
        }
    }
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "asked", "ready", "given", "done", "revoked", "failed", "back", "closed",
    ];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        (0..6u64, 0..6u64).prop_map(|(a, b)| format!("carries {a:x} {b:x}\n").into_bytes()),
        (0..4u64).prop_map(|n| format!("moves {n:x}\n").into_bytes()),
        (0..6u64, 0..6u64, 0..4u64, 0..8usize).prop_map(move |(a, b, n, name)| {
            format!("move {a:x} {b:x} {n:x} {} 1 2 3 4 5 6 7\n", names[name]).into_bytes()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a text says, and whatever is asked for, in whatever room: it is done, or nothing is, and lines of others
    /// stay.
    #[test]
    fn any_text_and_any_request_do_no_harm(
        lines in prop::collection::vec(line(), 0..40),
        (source, target, number) in (0..6u64, 0..6u64, 0..5u32),
        (stage_of, party) in (0..8u8, any::<bool>()),
        room in 0..1200usize,
        gone in any::<bool>(),
    ) {
        let text = lines.concat();
        let wanted = Move { source, target, number, ..at(Stage::of(stage_of).expect("a stage")) };
        let party = if party { Party::Source } else { Party::Target };
        let mut to = vec![0; room];
        let around = Around { there: &|_| !gone, spare: |_| false };
        let others = |text: &[u8]| -> Vec<Vec<u8>> {
            let all = text.split(|b| *b == b'\n').filter(|line| !line.is_empty() && !is_one(line));
            all.map(<[u8]>::to_vec).collect()
        };
        if source == target {
            return Ok(());
        }
        if let Ok(len) = amend(&text, party, &wanted, &around, &mut to) {
            let after = &to[..len];
            prop_assert_eq!(stage(after, &wanted), wanted.stage);
            prop_assert!(moves(after).count() <= moves(&text).count() + 1);
            prop_assert_eq!(others(after), others(&text));
        }
    }
}

#[test]
fn what_an_administrator_writes_leaves_identities_alone() {
    let mut copy = Copy::default()
        .ask(Party::Source, &at(Stage::Asked), false)
        .expect("asked");
    copy.text.extend_from_slice(b"c000a7bdf6f00c05.0 1\n");
    let mut to = [0; ROOM];
    let len = keep(
        &copy.text,
        b"# mine\ncarries 1 2\nc000a7bdf6f00c05.1 2",
        &mut to,
    )
    .expect("room");
    let text = &to[..len];
    assert!(text.starts_with(b"# mine\nc000a7bdf6f00c05.1 2\nmoves 1\nmove "));
    assert_eq!(moves(text).collect::<Vec<_>>(), [at(Stage::Asked)]);
    let len = keep(b"", b"c000a7bdf6f00c05.1 2", &mut to).expect("room");
    assert_eq!(&to[..len], b"c000a7bdf6f00c05.1 2");
    assert_eq!(keep(&copy.text, &[b'#'; ROOM], &mut to), None);
    // 0 is no function.
    assert_eq!(carriers(b"carries 0 1\ncarries 1 0\n").count(), 0);
}
