// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A function of a shared endpoint whose routes come and go, at any moment, in either direction: each piece
//! of work is done once, in order, and none is lost.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // A test may.

use proptest::prelude::*;
use weft_proto::endpoint::{
    reroute::{Registers, Seen, Step, HELD_MS},
    Reroute,
};

const CTRL: u32 = 0x111;
const ENTRIES: u32 = 8;
/// Pieces that a request is done in.
const PIECES: u32 = 3;
const SILENT: u32 = u32::MAX;

/// What may happen between two accesses.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    LoseOurs,
    FindOurs,
    LoseTheirs,
    FindTheirs,
    /// Accesses of the endpoint come in by another gate, which the host is told later.
    Move,
    Told,
    /// The endpoint does a piece of work.
    Turn,
    /// The program asks for something, and looks what is done.
    Submit,
    Reap,
    /// The driver looks at the function, and does so many steps at the most.
    Look(u32),
}

/// By a number below [`EVENTS`], some more often than others.
fn event(number: u8) -> Event {
    match number {
        0 => Event::LoseOurs,
        1..3 => Event::FindOurs,
        3 => Event::LoseTheirs,
        4..6 => Event::FindTheirs,
        6..14 => Event::Turn,
        14..18 => Event::Submit,
        18..22 => Event::Reap,
        22..25 => Event::Look(STEPS),
        25 => Event::Look(1),
        32..36 => Event::Look(u32::from(number) - 30),
        26 => Event::Move,
        27..29 => Event::Told,
        _ => Event::Nothing,
    }
}

const EVENTS: u8 = 36;
/// More than it takes if nothing happens meanwhile.
const STEPS: u32 = 20;
const MOST: usize = 400;

/// The endpoint, as Documentation/endpoint.rst has it.
struct Endpoint {
    route: u32,
    last_route: u32,
    /// The route by which all memory of the host is open to it.
    opened: Option<u32>,
    go: u32,
    go_seen: u32,
    probed: bool,
    rung: u32,
    unread: u32,
    taken: u32,
    passed: u32,
    /// Pieces done of the request that is under way.
    job: Option<u32>,
    /// The work queue, in its memory, and the completions, in the host's.
    work: [Option<u32>; ENTRIES as usize],
    completions: [u32; ENTRIES as usize],
    /// How often each piece of each request was done.
    pieces: Vec<u32>,
}

impl Endpoint {
    fn turn(&mut self) {
        if self.go_seen != self.go {
            self.probed = self.route != 0 && self.opened == Some(self.route);
            self.go_seen = self.go;
        }
        if self.route == 0 || self.go != self.route {
            return;
        }
        assert_eq!(
            self.opened,
            Some(self.route),
            "memory that is not open by this route"
        );
        let at = (self.passed % ENTRIES) as usize;
        if let Some(done) = &mut self.job {
            self.pieces[(self.passed * PIECES + *done) as usize] += 1;
            *done += 1;
            if *done == PIECES {
                self.job = None;
                self.passed += 1;
                self.completions[at] = self.passed;
            }
            return;
        }
        assert!(self.rung.wrapping_sub(self.taken) <= ENTRIES, "overrun");
        if self.rung != self.taken && self.passed - self.unread != ENTRIES {
            assert_eq!(self.work[(self.taken % ENTRIES) as usize], Some(self.taken));
            self.taken += 1;
            self.job = Some(0);
        }
    }
}

struct World {
    events: std::vec::IntoIter<Event>,
    ours: Option<u32>,
    last_ours: u32,
    /// The host knows the gate.
    told: bool,
    there: Endpoint,
    /// What the driver knows.
    reroute: Reroute,
    ours_known: u32,
    posted: u32,
    done: u32,
}

impl World {
    fn new(events: Vec<Event>) -> Self {
        Self {
            events: events.into_iter(),
            ours: Some(1),
            last_ours: 1,
            told: true,
            there: Endpoint {
                route: 1,
                last_route: 1,
                opened: Some(1),
                go: 1,
                go_seen: 1,
                probed: false,
                rung: 0,
                unread: 0,
                taken: 0,
                passed: 0,
                job: None,
                work: [None; ENTRIES as usize],
                completions: [0; ENTRIES as usize],
                pieces: vec![0; MOST * PIECES as usize],
            },
            reroute: Reroute::new(CTRL, 1, 1),
            ours_known: 1,
            posted: 0,
            done: 0,
        }
    }

    /// What happens by itself. The program and the driver are in the middle of something.
    fn happens(&mut self, event: Event) {
        match event {
            Event::LoseOurs => self.ours = None,
            Event::FindOurs if self.ours.is_none() => {
                self.last_ours += 1;
                self.ours = Some(self.last_ours);
            }
            Event::LoseTheirs => (self.there.route, self.there.opened) = (0, None),
            Event::FindTheirs if self.there.route == 0 => {
                self.there.last_route += 1;
                self.there.route = self.there.last_route;
            }
            Event::Move => {
                self.told = false;
                self.happens(Event::LoseTheirs);
            }
            Event::Turn => self.there.turn(),
            _ => {}
        }
    }

    fn meanwhile(&mut self) {
        if let Some(event) = self.events.next() {
            self.happens(event);
        }
    }

    fn read(&mut self, register: impl Fn(&Endpoint) -> u32) -> u32 {
        self.meanwhile();
        self.ours.map_or(SILENT, |_| register(&self.there))
    }

    fn write(&mut self, register: impl Fn(&mut Endpoint)) {
        self.meanwhile();
        if self.ours.is_some() {
            register(&mut self.there);
        }
    }

    fn seen(&mut self) -> Seen {
        let before = self.ours;
        let registers = Registers {
            ctrl: self.read(|_| CTRL),
            enabled: self.read(|_| 1) & 1 != 0,
            failed: self.read(|_| 0) & 0xff,
            route: self.read(|there| there.route),
            go: self.read(|there| there.go),
            go_seen: self.read(|there| there.go_seen),
            probed: self.read(|there| there.probed.into()) == 1,
        };
        Seen {
            route: before.filter(|_| before == self.ours),
            registers,
        }
    }

    fn look(&mut self, steps: u32) {
        if self.reroute.works() {
            if self.ours == Some(self.ours_known) {
                let theirs = self.read(|there| there.route);
                self.reroute.heard(theirs, 0);
            } else {
                self.reroute.lost(0);
            }
        }
        if self.reroute.works() {
            return;
        }
        for _ in 0..steps {
            let seen = self.seen();
            match self.reroute.step(&seen, 0) {
                Step::Wait => return,
                Step::Pause(token) => self.write(|there| there.go = token),
                Step::Open(theirs) => {
                    self.meanwhile();
                    let route = self.there.route;
                    self.there.opened = Some(route).filter(|route| *route != 0 && self.told);
                    self.reroute.opened(theirs);
                }
                Step::Fill => {
                    for n in self.done..self.posted {
                        self.put(n);
                    }
                    self.tell_done();
                    self.tell_posted();
                }
                Step::Go(theirs) => self.write(|there| there.go = theirs),
                Step::Works(ours) => {
                    self.ours_known = ours;
                    return;
                }
                end => panic!("{end:?}"),
            }
        }
        self.reroute.interrupted();
    }

    fn put(&mut self, n: u32) {
        self.write(|there| there.work[(n % ENTRIES) as usize] = Some(n));
    }

    fn tell_done(&mut self) {
        let done = self.done;
        self.write(|there| there.unread = done);
    }

    fn tell_posted(&mut self) {
        let posted = self.posted;
        self.write(|there| there.rung = posted);
    }

    fn submit(&mut self) {
        if self.posted - self.done == ENTRIES {
            return;
        }
        let n = self.posted;
        self.posted += 1;
        if self.reroute.works() {
            self.put(n);
            // A read, behind which all that was written has arrived if the route is the same.
            self.read(|there| there.route);
            if self.ours == Some(self.ours_known) {
                self.tell_posted();
            } else {
                self.reroute.lost(0);
            }
        }
    }

    fn reap(&mut self) {
        while self.posted != self.done
            && self.there.completions[(self.done % ENTRIES) as usize] == self.done + 1
        {
            self.done += 1;
        }
        if self.reroute.works() {
            self.tell_done();
        }
    }

    /// The driver is told by which gate accesses come in.
    fn tell(&mut self) {
        if !self.told {
            self.told = true;
            self.reroute.lost(0);
        }
    }

    fn run(&mut self) {
        while let Some(event) = self.events.next() {
            match event {
                Event::Submit => self.submit(),
                Event::Reap => self.reap(),
                Event::Look(steps) => self.look(steps),
                Event::Told => self.tell(),
                event => self.happens(event),
            }
        }
        // At last there are routes again, and the host knows all.
        self.tell();
        for event in [Event::FindOurs, Event::FindTheirs] {
            self.happens(event);
        }
        for _ in 0..20 * ENTRIES {
            self.look(STEPS);
            self.there.turn();
            self.reap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn hp_2_each_piece_of_work_is_done_once_whatever_routes_do(
        events in prop::collection::vec(0..EVENTS, 1..MOST),
    ) {
        let mut world = World::new(events.into_iter().map(event).collect());
        world.run();
        prop_assert_eq!(world.done, world.posted, "work is lost");
        let (done, not_asked) = world.there.pieces.split_at((world.posted * PIECES) as usize);
        prop_assert!(done.iter().all(|times| *times == 1), "{:?}", done);
        prop_assert!(not_asked.iter().all(|times| *times == 0));
    }
}

/// What is seen of a function that works by the routes 1 and 1.
fn working() -> Seen {
    let registers = Registers {
        ctrl: CTRL,
        enabled: true,
        failed: 0,
        route: 1,
        go: 1,
        go_seen: 1,
        probed: true,
    };
    Seen {
        route: Some(1),
        registers,
    }
}

fn with(change: impl Fn(&mut Seen)) -> Seen {
    let mut seen = working();
    change(&mut seen);
    seen
}

#[test]
fn hp_2_a_function_that_is_not_the_one_that_was_left_is_not_gone_on_with() {
    for (seen, step) in [
        (with(|seen| seen.registers.ctrl = 0), Step::Gone),
        (with(|seen| seen.registers.enabled = false), Step::Gone),
        (with(|seen| seen.registers.failed = 4), Step::Failed(4)),
        // What is not answered says nothing.
        (with(|seen| seen.registers.ctrl = SILENT), Step::Wait),
        (with(|seen| seen.registers.go = SILENT), Step::Wait),
        (with(|seen| seen.route = None), Step::Wait),
        (with(|seen| seen.registers.route = 0), Step::Wait),
        (with(|seen| seen.registers.route = 0x8000_0000), Step::Wait),
    ] {
        let mut reroute = Reroute::new(CTRL, 1, 1);
        assert!(reroute.works());
        reroute.lost(0);
        assert!(!reroute.works());
        assert_eq!(reroute.step(&seen, 0), step, "{seen:?}");
    }
}

/// The function is asked to stop, and answers. Returns what it was asked by, another number each time.
fn pauses(reroute: &mut Reroute, seen: &mut Seen) -> u32 {
    let Step::Pause(token) = reroute.step(seen, 0) else {
        panic!("it may work");
    };
    assert!(token > 0x7fff_ffff && token != SILENT && token != seen.registers.go);
    assert_eq!(reroute.step(seen, 0), Step::Pause(token), "not there yet");
    seen.registers.go = token;
    assert_eq!(reroute.step(seen, 0), Step::Pause(token), "not seen yet");
    seen.registers.go_seen = token;
    token
}

#[test]
fn hp_2_a_function_stops_before_its_memory_is_opened_and_each_time_anew() {
    let mut reroute = Reroute::new(CTRL, 1, 1);
    for n in 2..5 {
        reroute.heard(n - 1, 0);
        assert!(reroute.works(), "the route that it works by");
        reroute.heard(SILENT, 0);
        assert!(reroute.works(), "no answer");
        reroute.heard(n, 0);
        assert!(!reroute.works());
        let mut seen = with(|seen| (seen.registers.route, seen.registers.go) = (n, n - 1));
        pauses(&mut reroute, &mut seen);
        assert_eq!(reroute.step(&seen, 0), Step::Open(n));
        // By another route it does not reach what was opened by the last.
        reroute.opened(n - 1);
        pauses(&mut reroute, &mut seen);
        assert_eq!(reroute.step(&seen, 0), Step::Open(n));
        // Nor does it if it comes in elsewhere.
        reroute.opened(n);
        pauses(&mut reroute, &mut seen);
        seen.registers.probed = false;
        assert_eq!(reroute.step(&seen, 0), Step::Wait);
        assert_eq!(reroute.step(&seen, 0), Step::Open(n));
        reroute.opened(n);
        pauses(&mut reroute, &mut seen);
        seen.registers.probed = true;
        assert_eq!(reroute.step(&seen, 0), Step::Fill);
        assert_eq!(reroute.step(&seen, 0), Step::Go(n));
        (seen.registers.go, seen.registers.go_seen) = (n, n);
        assert_eq!(reroute.step(&seen, 0), Step::Works(1));
    }
    // What was written by a route that is another one now may be lost, or not.
    reroute.lost(0);
    let mut seen = with(|seen| seen.registers.route = 9);
    for route in 2..5 {
        pauses(&mut reroute, &mut seen);
        assert_eq!(reroute.step(&seen, 0), Step::Open(9));
        reroute.opened(9);
        pauses(&mut reroute, &mut seen);
        assert_eq!(reroute.step(&seen, 0), Step::Fill);
        if route == 4 {
            assert_eq!(reroute.step(&seen, 0), Step::Go(9));
            seen.registers.go = 9;
        }
        seen.route = Some(route);
    }
    assert!(matches!(reroute.step(&seen, 0), Step::Pause(_)));
}

#[test]
fn hp_2_a_route_that_does_not_come_back_in_time_is_lost() {
    for (seen, back) in [
        (with(|seen| seen.route = None), false),
        (with(|seen| seen.registers.route = 0), true),
    ] {
        let mut reroute = Reroute::new(CTRL, 1, 1);
        reroute.lost(7);
        reroute.lost(7000);
        for now in [7, 8, 6 + HELD_MS] {
            assert_eq!(reroute.step(&seen, now), Step::Wait);
        }
        assert_eq!(reroute.step(&seen, 7 + HELD_MS), Step::Late { back });
    }
}
