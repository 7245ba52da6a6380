// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends with a queue pair each, whose session ends and begins anew while requests go both ways, with
//! a mailbox that loses, repeats and reorders: whatever happens, nothing is lost, carried out twice or
//! out of order without both ends knowing that their queue pairs have failed.

#![allow(clippy::expect_used, clippy::indexing_slicing)] // A test may.

use proptest::prelude::*;
use std::collections::VecDeque;
use weft_proto::hold::{Hold, Say, Standing, PATIENCE_MS};

/// What the trunk carries.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Request(u16, u32),
    Ack(u16),
    Join { stands: Standing, asks: bool },
    Refused,
}

/// What the mailbox carries.
#[derive(Clone, Copy, Debug)]
enum Letter {
    Say(Say),
    Bye,
}

struct End {
    /// The session it is READY in.
    session: Option<u32>,
    hold: Hold,
    /// What the user has posted, and what of it was taken.
    posted: u32,
    taken: u32,
    /// Sent, and not answered.
    unanswered: VecDeque<(u16, u32)>,
    next: u16,
    expects: u16,
    /// What has come, and what was completed with success.
    came: Vec<u32>,
    completed: Vec<u32>,
    joined: bool,
    /// It was joined in a session before.
    resumes: bool,
    /// JOIN is to be said; whether it asks.
    owes: Option<bool>,
    failed: bool,
    /// Kept without a session, until then.
    kept: Option<u64>,
    refuses: bool,
    /// It has sent or taken a request.
    touched: bool,
}

impl End {
    fn new() -> Self {
        Self {
            session: None,
            hold: Hold::new(),
            posted: 0,
            taken: 0,
            unanswered: VecDeque::new(),
            next: 0,
            expects: 0,
            came: Vec::new(),
            completed: Vec::new(),
            joined: false,
            resumes: false,
            owes: None,
            failed: false,
            kept: None,
            refuses: false,
            touched: false,
        }
    }

    fn quiet(&self) -> bool {
        self.unanswered.is_empty()
    }

    fn fail(&mut self) {
        self.failed = true;
        self.unanswered.clear();
        self.kept = None;
        self.owes = None;
    }

    /// Its session is over.
    fn over(&mut self, now: u64) {
        if self.session.take().is_none() {
            return;
        }
        let keeps = self.hold.over(now);
        if self.failed {
            return;
        }
        if keeps && self.quiet() {
            self.resumes |= self.joined;
            self.joined = false;
            self.owes = None;
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

    fn ready(&mut self, session: u32) {
        self.session = Some(session);
        self.hold = Hold::new();
        if !self.failed {
            self.kept = None;
            self.owes = Some(true);
        }
    }
}

struct World {
    now: u64,
    sessions: u32,
    ends: [End; 2],
    /// By who reads it; of a session.
    trunk: [VecDeque<Cell>; 2],
    mail: Vec<(usize, u32, Letter)>,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            now: 1000,
            sessions: 0,
            ends: [End::new(), End::new()],
            trunk: [VecDeque::new(), VecDeque::new()],
            mail: Vec::new(),
        };
        world.reconnect();
        world
    }

    /// Writes to the other end, if that is in the same session: else it goes nowhere.
    fn write(&mut self, from: usize, cell: Cell) {
        let session = self.ends[from].session;
        if session.is_some() && session == self.ends[1 - from].session {
            self.trunk[1 - from].push_back(cell);
        }
    }

    fn post(&mut self, from: usize, letter: Letter) {
        if let Some(session) = self.ends[from].session {
            self.mail.push((1 - from, session, letter));
        }
    }

    /// Both come to READY; who is in a former session learns that it is over.
    fn reconnect(&mut self) {
        self.sessions += 1;
        for n in 0..2 {
            self.end(n);
        }
        for n in 0..2 {
            self.ends[n].passed(self.now);
            self.ends[n].ready(self.sessions);
        }
    }

    fn end(&mut self, n: usize) {
        self.ends[n].over(self.now);
        self.trunk[n].clear();
    }

    /// One turn of the engine. False: nothing was to be done.
    fn run(&mut self, n: usize) -> bool {
        let now = self.now;
        let end = &mut self.ends[n];
        if end.session.is_none() {
            return false;
        }
        if std::mem::take(&mut end.refuses) {
            self.write(n, Cell::Refused);
            return true;
        }
        if let Some(asks) = end.owes.take() {
            let stands = Standing {
                resumes: end.resumes,
                expects: end.expects,
            };
            self.write(n, Cell::Join { stands, asks });
            return true;
        }
        let may = end.joined && !end.failed && !end.hold.holds(now);
        if may && end.taken < end.posted && end.unanswered.len() < 4 {
            let cell = Cell::Request(end.next, end.taken);
            end.unanswered.push_back((end.next, end.taken));
            end.next = end.next.wrapping_add(1);
            end.taken += 1;
            end.touched = true;
            self.write(n, cell);
            return true;
        }
        false
    }

    /// Takes one cell.
    fn take(&mut self, n: usize) -> bool {
        if self.ends[n].session.is_none() {
            return false;
        }
        let Some(cell) = self.trunk[n].pop_front() else {
            return false;
        };
        let end = &mut self.ends[n];
        match cell {
            Cell::Join { .. } if end.failed => end.refuses = true,
            Cell::Join { stands, asks } => {
                let untouched = !end.touched;
                // An answer comes when requests may have been sent already.
                if end.joined || stands.fits(end.resumes, end.next, untouched) {
                    end.joined = true;
                    if asks {
                        end.owes = Some(false);
                    }
                } else {
                    end.fail();
                    end.refuses = true;
                }
            }
            Cell::Refused => end.fail(),
            _ if end.failed || !end.joined => {}
            Cell::Request(psn, value) => {
                assert_eq!(psn, end.expects, "a request is missing, or came twice");
                end.expects = psn.wrapping_add(1);
                end.touched = true;
                end.came.push(value);
                self.write(n, Cell::Ack(psn));
            }
            Cell::Ack(psn) => {
                let (sent, value) = end.unanswered.pop_front().expect("an answer too many");
                assert_eq!(sent, psn);
                end.completed.push(value);
            }
        }
        true
    }

    fn hear(&mut self, n: usize, session: u32, letter: Letter) {
        if self.ends[n].session != Some(session) {
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

    fn step(&mut self, what: u8, n: usize, pick: usize) {
        let now = self.now;
        match what {
            0..=3 => self.ends[n].posted += 1,
            4..=11 => {
                self.run(n);
            }
            12..=19 => {
                self.take(n);
            }
            20 if self.ends[n].session.is_some() => self.ends[n].hold.wish(now),
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
            32..=35 => {
                self.now += [3, 20, 250, 1200][usize::from(what - 32)];
                self.ends.iter_mut().for_each(|end| end.passed(self.now));
            }
            36 if pick % 8 == 0 => self.end(n),
            37..=38 if self.ends.iter().any(|end| end.session.is_none()) => self.reconnect(),
            39 if pick % 64 == 0 => {
                self.now += 6000;
                self.ends.iter_mut().for_each(|end| end.passed(self.now));
            }
            _ => {}
        }
        self.check();
    }

    fn check(&self) {
        for n in 0..2 {
            let (end, other) = (&self.ends[n], &self.ends[1 - n]);
            let came = u32::try_from(other.came.len()).expect("few");
            assert!(other.came.iter().copied().eq(0..came), "{:?}", other.came);
            let done = u32::try_from(end.completed.len()).expect("few");
            assert!(end.completed.iter().copied().eq(0..done));
            assert!(done <= came && came <= end.posted, "{done} {came}");
        }
    }

    /// Until nothing is left to be done, in a session.
    fn settle(&mut self) {
        self.now += 10;
        if self.ends[0].session.is_none() || self.ends[0].session != self.ends[1].session {
            self.reconnect();
        }
        for n in 0..2 {
            let _ = self.ends[n].hold.give_up(self.now);
        }
        self.mail.clear();
        self.now += 3000;
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
        self.ends[n].hold.wish(self.now);
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
        let failed = world.ends.iter().filter(|end| end.failed).count();
        prop_assert!(failed != 1, "one end has failed, and the other does not know");
        if failed == 0 {
            for n in 0..2 {
                let (end, other) = (&world.ends[n], &world.ends[1 - n]);
                prop_assert_eq!(end.completed.len(), end.posted as usize);
                prop_assert_eq!(other.came.len(), end.posted as usize);
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
                world.ends[n].hold.wish(now);
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
            prop_assert!(!world.ends[n].failed);
            prop_assert_eq!(world.ends[n].completed.len(), world.ends[n].posted as usize);
        }
    }
}

#[test]
fn who_begins_anew_meanwhile_is_not_taken_for_who_was_there() {
    for comes_back in 0..2 {
        let mut world = World::new();
        for _ in 0..5 {
            world.ends[0].posted += 1;
            world.ends[1].posted += 1;
        }
        world.settle();
        // Nothing is missed by its numbers: as many as there are have come.
        for end in &mut world.ends {
            end.next = 0;
            end.expects = 0;
        }
        let last = 1 - comes_back;
        world.ends[comes_back].hold.wish(world.now);
        while !world.ask(comes_back) {
            world.now += 1;
            for (to, session, letter) in std::mem::take(&mut world.mail) {
                world.hear(to, session, letter);
            }
        }
        world.ends[comes_back] = End::new();
        world.ends[last].posted += 1;
        let came = world.ends[last].came.len();
        world.reconnect();
        for _ in 0..50 {
            for n in 0..2 {
                world.run(n);
                world.take(n);
            }
        }
        assert!(world.ends[0].failed && world.ends[1].failed);
        assert!(world.ends[comes_back].came.is_empty());
        assert_eq!(world.ends[last].came.len(), came);
    }
}

#[test]
fn an_end_that_is_asked_begins_again_by_itself() {
    let mut hold = Hold::new();
    assert!(hold.hear(5000, Say::Hold(77)));
    assert_eq!(hold.answer(5000, false), None);
    assert_eq!(hold.answer(5001, true), Some(Say::Held(77)));
    assert!(hold.holds(6999));
    assert!(!hold.holds(7000));
    // A late one is of no use once it was taken back.
    assert!(!hold.hear(7000, Say::GoOn(90)));
    assert!(!hold.hear(7001, Say::Hold(80)));
    assert!(!hold.holds(7001));
    assert!(hold.hear(7002, Say::Hold(91)) && hold.holds(7002));
}

#[test]
fn an_old_answer_does_not_count() {
    let mut hold = Hold::new();
    hold.wish(5000);
    let Some(Say::Hold(first)) = hold.due(5000) else {
        panic!("it asks");
    };
    assert_eq!(hold.due(5005), None);
    hold.hear(5990, Say::Held(first));
    assert!(hold.is_agreed(5999, true) && !hold.is_agreed(5999, false));
    assert!(!hold.is_agreed(6000, true));
    // Of a wish before.
    let _ = hold.give_up(6001);
    hold.wish(6002);
    hold.hear(6003, Say::Held(first));
    assert!(!hold.is_agreed(6003, true));
    assert!(!hold.over(6003));
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
