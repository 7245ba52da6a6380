// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hosts of a fabric that keep the assignments, and a migration between two of them.

use super::*;
use std::fmt::Debug;

pub struct World {
    pub lives: [bool; HOSTS],
    pub linked: [bool; HOSTS],
    pub copies: [Copy; HOSTS],
    pub master: usize,
    /// Requests on their way to whichever host is master then.
    pub requests: Vec<(Party, Stage, Stage)>,
    pub machine: Machine,
    pub target: Target,
    pub asked: bool,
    pub begun: bool,
    /// The target's host has seen it.
    pub came: bool,
    pub ends: [Option<Outcome>; 2],
    pub turns: u32,
    /// The source has its quota, and its driver.
    pub open: bool,
    pub source_driven: bool,
    pub finished: bool,
    pub attached: bool,
    pub target_driven: bool,
    pub claimed: bool,
    pub cancelled: bool,
    /// What the target's host does not manage, or that of the source.
    pub refuses: Option<(usize, Action)>,
    /// Stages and actions, in their order.
    pub done: Vec<String>,
}

impl World {
    pub fn new() -> Self {
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
    pub fn source_whole(&self) -> bool {
        self.lives[S] && self.open && self.source_driven && !self.copies[S].moved()
    }

    pub fn target_whole(&self) -> bool {
        self.lives[T] && self.attached && self.target_driven && self.copies[T].moved()
    }

    pub fn note(&mut self, host: usize, what: &str) {
        self.done.push(format!("{host} {what}"));
        assert!(
            !(self.source_whole() && self.target_whole()),
            "both are whole: {:?}",
            self.done
        );
    }

    pub fn act(&mut self, host: usize, action: Action) -> Event {
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

    pub fn ask(&mut self, party: Party, from: Stage, to: Stage) {
        if !self.requests.contains(&(party, from, to)) {
            self.requests.push((party, from, to));
        }
    }

    /// The source's host goes on. Returns the action that it is at.
    pub fn source_turn(&mut self) {
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
                self.ask(Party::Source, sight.stage, stage);
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

    pub fn target_turn(&mut self) {
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
            target::Next::Ask(stage) => self.ask(Party::Target, sight.stage, stage),
            target::Next::Wait => {}
            target::Next::End(outcome) => self.ends[T] = Some(outcome),
        }
    }

    /// The master takes a request, which stays on its way if it is repeated.
    pub fn request(&mut self, n: usize, repeated: bool) {
        let master = self.master;
        let Some(&(party, from, stage)) = self.requests.get(n) else {
            return;
        };
        if !repeated {
            self.requests.remove(n);
        }
        if !self.lives[master] {
            return;
        }
        let request = Request {
            from,
            to: at(stage),
        };
        let there = |function| function != TARGET || self.lives[T];
        if let Ok(copy) = self.copies[master].take(party, &request, &there) {
            self.copies[master] = copy;
            self.note(master, &format!("{stage:?}"));
        }
    }

    pub fn replicate(&mut self, to: usize) {
        let from = &self.copies[self.master];
        let reached = self.lives[self.master] && self.linked[self.master] && self.linked[to];
        if reached && self.lives[to] && from.version > self.copies[to].version {
            self.copies[to] = from.clone();
            self.note(to, "has a new text");
        }
    }

    pub fn elect(&mut self, host: usize) {
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

    pub fn turn(&mut self, host: usize) {
        if self.lives[host] {
            match host {
                S => self.source_turn(),
                T => self.target_turn(),
                _ => {}
            }
        }
    }

    /// Everything goes on in order, until nothing is left to be done.
    pub fn settle(&mut self) {
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

    /// Both ends have come to this; `when` says in which case.
    pub fn both(&self, outcome: Outcome, when: &dyn Debug) {
        assert_eq!(self.ends, [Some(outcome); 2], "{when:?}: {:?}", self.done);
    }

    /// What the hosts say at the end is so.
    pub fn check(&self) {
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
