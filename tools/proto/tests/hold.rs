// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends with a queue pair each, whose session ends and begins anew while requests go both ways, with
//! a mailbox that loses, repeats and reorders: whatever happens, nothing is lost, carried out twice or
//! out of order without both ends knowing that their queue pairs have failed. The queue pairs run the QP
//! machine of the module.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // A test may.

mod qp;
mod trunk;

use proptest::prelude::*;
use qp::user::{Op, Wr};
use std::rc::Rc;
use trunk::Memory;
use weft_proto::cqe::Status;
use weft_proto::hold::{Hold, Say, Standing, FRESH_MS, LEASE_MS, PATIENCE_MS, REMIND_MS};
use weft_proto::protocol::Protocol;
use weft_proto::qp::{Flow, Machine, State};
use weft_proto::trunk::Layout;

/// What the mailbox carries.
#[derive(Clone, Copy, Debug)]
enum Letter {
    Say(Say),
    Bye,
}

fn layout() -> Layout {
    Layout::of_arena(128 << 10).expect("large enough")
}

/// The link queues of a session, by the end that reads them.
struct Session {
    number: u32,
    memories: [Memory; 2],
}

struct End {
    /// The session it is READY in.
    session: Option<Rc<Session>>,
    hold: Hold,
    /// Until when the queue pair is kept without a session.
    kept: Option<u64>,
    end: qp::end::End,
}

impl End {
    fn new() -> Self {
        Self {
            session: None,
            hold: Hold::new(),
            kept: None,
            end: qp::end::End::new(layout(), layout(), &[Protocol::PUSH], false),
        }
    }

    fn qp(&self) -> &qp::end::Qp {
        &self.end.qps[0]
    }

    fn machine(&mut self) -> &mut Machine<qp::env::Boxes> {
        &mut self.end.qps[0].machine
    }

    /// The user posts a request, and what the peer's next one takes.
    fn post(&mut self) {
        let user = &mut self.end.qps[0].user;
        user.post(Wr {
            op: Op::Send,
            len: 8,
            bad: false,
        });
    }

    fn posted(&self) -> usize {
        self.qp().user.wrs.len()
    }

    /// Requests of the peer that have come, and own ones that were completed with success.
    fn came(&self) -> usize {
        self.qp().user.executed.borrow().len()
    }

    fn completed(&self) -> usize {
        let succeeded = |cqe: &&weft_proto::cqe::Cqe| cqe.status == Status::Success;
        self.qp().user.sent.iter().filter(succeeded).count()
    }

    fn has_failed(&self) -> bool {
        self.qp().machine.state() == State::Err
    }

    fn quiet(&self) -> bool {
        self.qp().machine.is_answered()
    }

    fn fail(&mut self) {
        let qp = &mut self.end.qps[0];
        let (why, rest) = (Status::Link, Status::Link);
        qp.machine.fail_silently(&mut qp.user, why, rest);
        self.kept = None;
    }

    /// Its session is over: the queue pair is kept, or ends, as in `verbs/worker/session.rs`.
    fn over(&mut self, now: u64) {
        if self.session.take().is_none() {
            return;
        }
        if self.hold.over(now) && self.machine().keep() {
            self.kept = Some(now + PATIENCE_MS);
        } else {
            self.fail();
        }
    }

    fn passed(&mut self, now: u64) {
        if self.kept.is_some_and(|until| now >= until) {
            self.fail();
        }
    }

    /// A session begins: a queue pair that was kept is connected anew.
    fn ready(&mut self, session: &Rc<Session>) {
        self.session = Some(session.clone());
        self.hold = Hold::new();
        self.kept = None;
        self.end.begin_session();
        if self.machine().unkeep() {
            let peer = self.machine().peer_qpn().expect("it was connected");
            self.machine().connect(peer);
        }
    }

    fn number(&self) -> Option<u32> {
        self.session.as_ref().map(|session| session.number)
    }
}

struct World {
    now: u64,
    sessions: u32,
    ends: [End; 2],
    mail: Vec<(usize, u32, Letter)>,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            now: 1000,
            sessions: 0,
            ends: [End::new(), End::new()],
            mail: Vec::new(),
        };
        world.reconnect();
        world
    }

    fn post(&mut self, from: usize, letter: Letter) {
        if let Some(session) = self.ends[from].number() {
            self.mail.push((1 - from, session, letter));
        }
    }

    /// Both come to READY; an end in a former session learns that it is over.
    fn reconnect(&mut self) {
        self.sessions += 1;
        let session = Rc::new(Session {
            number: self.sessions,
            memories: [Memory::new(layout()), Memory::new(layout())],
        });
        for n in 0..2 {
            self.end(n);
        }
        for n in 0..2 {
            self.ends[n].passed(self.now);
            self.ends[n].ready(&session);
        }
    }

    fn end(&mut self, n: usize) {
        self.ends[n].over(self.now);
    }

    /// The user of an end posts a request; the peer's user has a receive request for it.
    fn submit(&mut self, n: usize) {
        self.ends[n].post();
        self.ends[1 - n].end.qps[0].user.post_recvs(1);
    }

    /// Steps of the engine, by their numbers. False: nothing was to be done.
    fn steps(&mut self, n: usize, steps: std::ops::Range<usize>) -> bool {
        let now = self.now;
        let end = &mut self.ends[n];
        let Some(session) = end.session.clone() else {
            return false;
        };
        let holds = end.hold.holds(|| now);
        end.end
            .set_flow(if holds { Flow::Quiesced } else { Flow::Open });
        let [own, peer] = [n, 1 - n].map(|n| &session.memories[n]);
        let mut busy = false;
        for step in steps {
            busy |= end.end.step(step, 0, own, peer);
        }
        busy
    }

    /// One turn of the queue pair.
    fn run(&mut self, n: usize) -> bool {
        self.steps(n, 0..1)
    }

    /// Takes what has come.
    fn take(&mut self, n: usize) -> bool {
        self.steps(n, 1..qp::end::End::STEPS)
    }

    fn hear(&mut self, n: usize, session: u32, letter: Letter) {
        if self.ends[n].number() != Some(session) {
            return;
        }
        match letter {
            Letter::Bye => self.end(n),
            Letter::Say(say) => {
                let end = &mut self.ends[n];
                if end.hold.hear(self.now, say) {
                    let quiet = end.quiet();
                    if let Some(answer) = end.hold.answer(self.now, quiet) {
                        self.post(n, Letter::Say(answer));
                    }
                }
            }
        }
    }

    /// The end that wants it asks, and ends the session when it may.
    fn ask(&mut self, n: usize) -> bool {
        let now = self.now;
        let end = &mut self.ends[n];
        if end.session.is_none() {
            return false;
        }
        if end.hold.is_agreed(now, end.quiet()) {
            self.post(n, Letter::Bye);
            self.end(n);
            return true;
        }
        if let Some(say) = end.hold.due(now) {
            self.post(n, Letter::Say(say));
        }
        false
    }

    /// The tick of an end.
    fn remind(&mut self, n: usize) {
        let end = &mut self.ends[n];
        if end.session.is_some() && end.hold.reminds(self.now) {
            let quiet = end.quiet();
            if let Some(say) = end.hold.answer(self.now, quiet) {
                self.post(n, Letter::Say(say));
            }
        }
    }

    fn step(&mut self, what: u8, n: usize, pick: usize) {
        let now = self.now;
        match what {
            0..=3 => self.submit(n),
            4..=11 => {
                self.run(n);
            }
            12..=19 => {
                self.take(n);
            }
            20 if self.ends[n].session.is_some() => self.ends[n].hold.request(now),
            21..=24 => {
                self.ask(n);
            }
            25 if pick % 4 == 0 => {
                if let Some(say) = self.ends[n].hold.give_up(now) {
                    self.post(n, Letter::Say(say));
                }
            }
            26..=31 if !self.mail.is_empty() => {
                let at = pick % self.mail.len();
                let (to, session, letter) = self.mail[at];
                if what != 31 {
                    self.mail.swap_remove(at);
                }
                if what != 30 {
                    self.hear(to, session, letter);
                }
            }
            32..=34 => {
                self.now += [3 + 17 * (pick as u64 % 2), 250, 1200][usize::from(what - 32)];
                self.ends.iter_mut().for_each(|end| end.passed(self.now));
            }
            35 => self.remind(n),
            36 if pick % 8 == 0 => self.end(n),
            37..=38 if self.ends.iter().any(|end| end.session.is_none()) => self.reconnect(),
            39 if pick % 64 == 0 => {
                self.now += 3 * LEASE_MS;
                self.ends.iter_mut().for_each(|end| end.passed(self.now));
            }
            _ => {}
        }
        self.check();
    }

    fn check(&self) {
        for n in 0..2 {
            let (end, other) = (&self.ends[n], &self.ends[1 - n]);
            let executed = other.qp().user.executed.borrow();
            assert!(executed.iter().copied().eq(0..executed.len() as u32));
            end.qp().user.check(&other.qp().user);
            assert!(
                end.end.is_honest(),
                "the peer was taken for one that breaks the protocol"
            );
            let (done, came) = (end.completed(), other.came());
            assert!(done <= came && came <= end.posted(), "{done} {came}");
        }
    }

    /// Until nothing is left to be done, in a session.
    fn settle(&mut self) {
        self.now += 10;
        if self.ends[0].number().is_none() || self.ends[0].number() != self.ends[1].number() {
            self.reconnect();
        }
        for n in 0..2 {
            let _ = self.ends[n].hold.give_up(self.now);
        }
        self.mail.clear();
        self.now += LEASE_MS;
        loop {
            let mut more = false;
            for n in 0..2 {
                more |= self.run(n);
                more |= self.take(n);
            }
            self.check();
            if !more {
                break;
            }
        }
    }

    /// A planned end of the session, with nothing against it.
    fn moves(&mut self, n: usize) {
        self.ends[n].hold.request(self.now);
        for _ in 0..200 {
            self.now += 1;
            if self.ask(n) {
                break;
            }
            for m in 0..2 {
                self.run(m);
                self.take(m);
            }
            for (to, session, letter) in std::mem::take(&mut self.mail) {
                self.hear(to, session, letter);
            }
        }
        assert!(self.ends[n].session.is_none(), "they do not agree");
        self.now += 500;
        self.reconnect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn mig_2_nothing_is_lost_repeated_or_reordered_unnoticed(
        steps in prop::collection::vec((0u8..40, 0usize..2, any::<prop::sample::Index>()), 1..400)
    ) {
        let mut world = World::new();
        for (what, n, pick) in steps {
            world.step(what, n, pick.index(1 << 16));
        }
        world.settle();
        let failed = world.ends.iter().filter(|end| end.has_failed()).count();
        prop_assert!(failed != 1, "one end has failed, and the other does not know");
        if failed == 0 {
            for n in 0..2 {
                let (end, other) = (&world.ends[n], &world.ends[1 - n]);
                prop_assert_eq!(end.completed(), end.posted());
                prop_assert_eq!(other.came(), end.posted());
            }
        }
    }

    #[test]
    fn mig_2_a_planned_end_at_any_moment_fails_no_queue_pair(
        moves in prop::collection::vec((prop::collection::vec((0u8..20, 0usize..2), 0..60), 0usize..2, any::<bool>()), 1..8)
    ) {
        let mut world = World::new();
        for (steps, n, gives_up) in moves {
            for (what, end) in steps {
                world.step(what, end, 0);
            }
            if gives_up {
                let now = world.now;
                world.ends[n].hold.request(now);
                world.ask(n);
                for (to, session, letter) in std::mem::take(&mut world.mail) {
                    world.hear(to, session, letter);
                }
                let _ = world.ends[n].hold.give_up(now);
            } else {
                world.moves(n);
            }
        }
        world.settle();
        for n in 0..2 {
            prop_assert!(!world.ends[n].has_failed());
            prop_assert_eq!(world.ends[n].completed(), world.ends[n].posted());
        }
    }
}

#[test]
fn mig_2_an_answer_counts_for_as_long_as_a_peer_may_be_silent() {
    let (mut here, mut there) = (Hold::new(), Hold::new());
    here.request(1000);
    let say = here.due(1000).expect("it asks");
    assert!(there.hear(1400, say));
    assert!(!here.hear(1900, there.answer(1400, true).expect("it is quiet")));
    for now in 1900..1000 + FRESH_MS {
        assert!(here.is_agreed(now, true), "{now}");
        assert!(there.holds(|| now), "{now}");
    }
    assert!(!here.is_agreed(1000 + FRESH_MS, true));
    assert!(!there.holds(|| 1400 + LEASE_MS));
}

#[test]
fn mig_2_an_end_whose_go_on_is_lost_is_quiesced_for_a_moment_only() {
    let (mut here, mut there) = (Hold::new(), Hold::new());
    here.request(1000);
    let say = here.due(1000).expect("it asks");
    assert!(there.hear(1001, say));
    let held = there.answer(1001, true).expect("it is quiet");
    assert!(!here.hear(1002, held));
    assert!(here.give_up(1003).is_some());
    assert!(there.holds(|| 1004) && !there.reminds(1004));
    let now = 1001 + REMIND_MS;
    assert!(there.reminds(now));
    let again = there.answer(now, true).expect("it is quiet");
    assert!(here.hear(now, again));
    let go_on = here.answer(now, true).expect("it does not ask");
    assert!(!there.hear(now, go_on));
    assert!(!there.holds(|| now) && !there.reminds(now));
    assert_eq!(here.answer(now, true), None);
}

/// As many requests as there are numbers that travel: after them the next one has the first number
/// again, so that a peer that has begun anew is not found out by its numbers.
const ALL_NUMBERS: usize = 1 << 16;

#[test]
fn a_peer_that_begins_anew_meanwhile_is_not_taken_for_the_former_one() {
    for comes_back in 0..2 {
        let mut world = World::new();
        for _ in 0..ALL_NUMBERS / 64 {
            for n in 0..2 {
                (0..64).for_each(|_| world.submit(n));
            }
            while (0..2).any(|n| world.ends[n].completed() < world.ends[n].posted()) {
                for n in 0..2 {
                    world.run(n);
                    while world.take(n) {}
                }
            }
        }
        world.check();
        let last = 1 - comes_back;
        world.ends[comes_back].hold.request(world.now);
        while !world.ask(comes_back) {
            world.now += 1;
            for (to, session, letter) in std::mem::take(&mut world.mail) {
                world.hear(to, session, letter);
            }
        }
        world.ends[comes_back] = End::new();
        world.submit(last);
        let came = world.ends[last].came();
        world.reconnect();
        for _ in 0..50 {
            for n in 0..2 {
                world.run(n);
                world.take(n);
            }
        }
        assert!(world.ends[0].has_failed() && world.ends[1].has_failed());
        assert_eq!(world.ends[comes_back].came(), 0);
        assert_eq!(world.ends[last].came(), came);
    }
}

#[test]
fn an_end_that_is_asked_begins_again_by_itself() {
    let mut hold = Hold::new();
    assert!(hold.hear(5000, Say::Hold(77)));
    assert_eq!(hold.answer(5000, false), None);
    assert_eq!(hold.answer(5001, true), Some(Say::Held(77)));
    let over = 5000 + LEASE_MS;
    assert!(hold.holds(|| over - 1));
    assert!(!hold.holds(|| over));
    // A late one is of no use once it was taken back.
    assert!(!hold.hear(over, Say::GoOn(90)));
    assert!(!hold.hear(over + 1, Say::Hold(80)));
    assert!(!hold.holds(|| over + 1));
    assert!(hold.hear(over + 2, Say::Hold(91)) && hold.holds(|| over + 2));
}

#[test]
fn an_old_answer_does_not_count() {
    let mut hold = Hold::new();
    hold.request(5000);
    let Some(Say::Hold(first)) = hold.due(5000) else {
        panic!("it asks");
    };
    assert_eq!(hold.due(5005), None);
    let old = 5000 + FRESH_MS;
    hold.hear(old - 10, Say::Held(first));
    assert!(hold.is_agreed(old - 1, true) && !hold.is_agreed(old - 1, false));
    assert!(!hold.is_agreed(old, true));
    // Of a request before.
    let _ = hold.give_up(old + 1);
    hold.request(old + 2);
    hold.hear(old + 3, Say::Held(first));
    assert!(!hold.is_agreed(old + 3, true));
    assert!(!hold.over(old + 3));
}

#[test]
fn where_an_end_goes_on_is_checked() {
    let goes_on = Standing {
        resumes: true,
        expects: 7,
    };
    assert!(goes_on.fits(true, 7, false));
    assert!(!goes_on.fits(true, 8, false));
    // The peer's user has begun anew.
    assert!(!Standing::FRESH.fits(true, 0, false));
    assert!(Standing::FRESH.fits(false, 0, true));
    // This end did not hear that it was joined.
    assert!(Standing {
        resumes: true,
        expects: 0
    }
    .fits(false, 0, true));
}
