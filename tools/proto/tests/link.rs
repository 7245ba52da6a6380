// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends of a link, and a mailbox between them that loses, repeats and reorders.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

use proptest::prelude::*;
use weft_proto::{
    heartbeat::SILENCE_MS,
    link::{
        Effects, Failed, Link, Peer, Reason, State, GRANT_BURST, GRANT_MS, HELLO_MAX_MS, TICK_MS,
    },
    wire::{Body, Header, Incarnation, Message, Offer, MAX_BYTES},
};

/// What a port would be, and whether it was used as it has to be.
#[derive(Default)]
struct Port {
    /// Rises with every grant: an offer is never made twice.
    grants: u64,
    granted: Option<Offer>,
    /// In which life the neighbour has written to what is granted.
    written: Option<Incarnation>,
    attached: Option<Peer>,
    ready: bool,
    broken: Vec<Reason>,
    sent: Vec<Vec<u8>>,
    fail_grant: bool,
    fail_withdraw: bool,
    fail_attach: bool,
}

impl Effects for Port {
    fn grant(&mut self) -> Result<Offer, Failed> {
        assert!(self.granted.is_none(), "granted twice");
        if self.fail_grant {
            return Err(Failed);
        }
        self.grants += 1;
        let offer = Offer {
            offset: self.grants << 12,
            bytes: 1 << 20,
            wake: 1,
            echo: 2,
        };
        self.granted = Some(offer);
        self.written = None;
        Ok(offer)
    }

    fn withdraw(&mut self) -> Result<(), Failed> {
        assert!(!self.ready, "withdrawn with channels open");
        assert!(self.granted.is_some(), "withdrawn, but not granted");
        assert!(
            self.attached.is_none(),
            "withdrawn before the window is detached"
        );
        if self.fail_withdraw {
            return Err(Failed);
        }
        self.granted = None;
        Ok(())
    }

    fn attach(&mut self, peer: &Peer) -> Result<(), Failed> {
        assert!(self.attached.is_none(), "attached twice");
        if self.fail_attach {
            return Err(Failed);
        }
        self.attached = Some(*peer);
        Ok(())
    }

    fn detach(&mut self) {
        assert!(self.attached.is_some(), "detached, but not attached");
        assert!(!self.ready, "detached with channels open");
        self.attached = None;
    }

    fn send(&mut self, message: &Message) {
        if let Body::Hello(Some(offer)) = message.body {
            assert_eq!(Some(offer), self.granted, "offers what is not granted");
        }
        let mut buf = [0; MAX_BYTES];
        let count = message.encode(&mut buf);
        self.sent.push(buf[..count].to_vec());
    }

    fn ready(&mut self, peer: &Peer) {
        assert!(!self.ready, "ready twice");
        assert!(self.granted.is_some(), "ready, but nothing granted");
        assert_eq!(self.attached, Some(*peer), "ready, but attached to another");
        self.ready = true;
    }

    fn broken(&mut self, reason: Reason) {
        assert!(self.ready, "broken, but not ready");
        self.ready = false;
        self.broken.push(reason);
    }
}

struct End {
    link: Link,
    port: Port,
    generation: u32,
}

impl End {
    fn new(hwid: u64, generation: u32) -> Self {
        Self {
            link: Link::new(hwid, generation),
            port: Port::default(),
            generation,
        }
    }

    fn state(&self) -> State {
        self.link.state()
    }
}

struct World {
    now: u64,
    ends: [End; 2],
    /// Under way: to which end, and what.
    mail: Vec<(usize, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        Self {
            now: 1000,
            ends: [End::new(1, 77), End::new(2, 78)],
            mail: Vec::new(),
        }
    }

    fn both_up() -> Self {
        let mut world = Self::new();
        for end in 0..2 {
            world.up(end);
        }
        world
    }

    fn collect(&mut self) {
        for from in 0..2 {
            for bytes in std::mem::take(&mut self.ends[from].port.sent) {
                self.mail.push((1 - from, bytes));
            }
        }
        self.check();
    }

    fn up(&mut self, end: usize) {
        let End { link, port, .. } = &mut self.ends[end];
        link.up(self.now, port);
        self.collect();
    }

    fn down(&mut self, end: usize) {
        let End { link, port, .. } = &mut self.ends[end];
        link.down(Reason::Link, port);
        self.collect();
    }

    fn bye(&mut self, end: usize) {
        let End { link, port, .. } = &mut self.ends[end];
        link.bye(port);
        link.down(Reason::Removed, port);
        self.collect();
    }

    fn lost(&mut self, end: usize) {
        let End { link, port, .. } = &mut self.ends[end];
        link.lost(self.now, port);
        self.collect();
    }

    fn tick(&mut self, ms: u64) {
        self.now += ms;
        for End { link, port, .. } in &mut self.ends {
            link.tick(self.now, port);
        }
        self.collect();
    }

    fn deliver(&mut self, to: usize, bytes: &[u8]) -> Option<Body> {
        self.now += 1;
        let message = Message::parse(bytes).expect("the ends send messages only");
        let End { link, port, .. } = &mut self.ends[to];
        let body = link.message(self.now, &message, port);
        if body.is_some() {
            assert_eq!(link.state(), State::Ready);
        }
        self.collect();
        body
    }

    /// A hello without an offer comes to `to`, of an incarnation of a peer that keeps to no rule.
    fn forged(&mut self, to: usize, session: u64) {
        self.now += 1;
        let message = Message {
            header: Header {
                from: Incarnation {
                    hwid: 99,
                    generation: 1,
                    session,
                },
                to_generation: 0,
                to_session: 0,
                sequence: 0,
            },
            body: Body::Hello(None),
            proof: None,
        };
        let End { link, port, .. } = &mut self.ends[to];
        link.message(self.now, &message, port);
        port.sent.clear();
    }

    /// The host dies and comes back, with a port that was reset or was not.
    fn restart(&mut self, end: usize, reset: bool) {
        self.now += 1000;
        let generation = self.ends[end].generation + u32::from(reset);
        let grants = self.ends[end].port.grants;
        self.ends[end] = End::new(end as u64 + 1, generation);
        self.ends[end].port.grants = grants;
        self.up(end);
    }

    /// Everything is delivered in order, and time goes by.
    fn quiet(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.now < until {
            let mut answers = 100 + 4 * self.mail.len();
            while !self.mail.is_empty() {
                let (to, bytes) = self.mail.remove(0);
                self.deliver(to, &bytes);
                assert_ne!(answers, 0, "they answer each other for ever");
                answers -= 1;
            }
            self.tick(TICK_MS);
        }
    }

    /// The newest message to an end, and nothing else is under way.
    fn newest(&mut self, to: usize) -> Vec<u8> {
        let mail = std::mem::take(&mut self.mail);
        let newest = mail.into_iter().rev().find(|mail| mail.0 == to);
        newest.expect("something is under way").1
    }

    fn are_ready(&self) -> bool {
        self.ends.iter().all(|end| end.state() == State::Ready)
    }

    /// What holds at any time.
    fn check(&mut self) {
        for end in &self.ends {
            assert_eq!(end.port.ready, end.state() == State::Ready);
        }
        for (this, that) in [(0, 1), (1, 0)] {
            let me = self.ends[this].link.me();
            let ready = self.ends[this].port.ready;
            let port = &mut self.ends[that].port;
            if ready && port.granted.is_some() {
                // It writes at once, and until it hears that a session is over: to the same place, where
                // hardware has but one. What a former session has left would be taken for its own.
                assert_eq!(
                    *port.written.get_or_insert(me),
                    me,
                    "holds something already"
                );
            }
        }
        if !self.are_ready() {
            return;
        }
        for (this, that) in [(0, 1), (1, 0)] {
            let (this, that) = (&self.ends[this], &self.ends[that]);
            let peer = this.link.peer().expect("ready");
            assert_eq!(peer.id, that.link.me(), "ready with different sessions");
            assert_eq!(
                Some(peer.offer),
                that.port.granted,
                "attached to what is not granted"
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Tick(u64),
    Deliver(prop::sample::Index),
    Repeat(prop::sample::Index),
    Lose(prop::sample::Index),
    Up(usize),
    Down(usize),
    Bye(usize),
    Restart(usize, bool),
    Fail(usize, u8),
    Lost(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0u64..1500).prop_map(Step::Tick),
        20 => index().prop_map(Step::Deliver),
        6 => index().prop_map(Step::Repeat),
        4 => index().prop_map(Step::Lose),
        3 => (0usize..2).prop_map(Step::Up),
        1 => (0usize..2).prop_map(Step::Down),
        1 => (0usize..2).prop_map(Step::Bye),
        2 => (0usize..2, any::<bool>()).prop_map(|(end, reset)| Step::Restart(end, reset)),
        1 => (0usize..2, 0u8..8).prop_map(|(end, what)| Step::Fail(end, what)),
        1 => (0usize..2).prop_map(Step::Lost),
    ]
}

fn run(world: &mut World, steps: Vec<Step>) {
    for step in steps {
        let mail = world.mail.len();
        match step {
            Step::Tick(ms) => world.tick(ms),
            Step::Deliver(which) if mail > 0 => {
                let (to, bytes) = world.mail.remove(which.index(mail));
                world.deliver(to, &bytes);
            }
            Step::Repeat(which) if mail > 0 => {
                let (to, bytes) = world.mail[which.index(mail)].clone();
                world.deliver(to, &bytes);
            }
            Step::Lose(which) if mail > 0 => drop(world.mail.swap_remove(which.index(mail))),
            Step::Deliver(_) | Step::Repeat(_) | Step::Lose(_) => {}
            Step::Up(end) => world.up(end),
            Step::Down(end) => world.down(end),
            Step::Bye(end) => world.bye(end),
            Step::Restart(end, reset) => world.restart(end, reset),
            Step::Lost(end) => world.lost(end),
            Step::Fail(end, what) => {
                let port = &mut world.ends[end].port;
                port.fail_grant = what & 1 != 0;
                port.fail_withdraw = what & 2 != 0;
                port.fail_attach = what & 4 != 0;
            }
        }
    }
}

#[test]
fn a_good_bye_that_waits_is_known_as_one_of_this_session_only() {
    let mut world = World::both_up();
    world.quiet(100);
    let mut bye = None;
    for _ in 0..2 {
        assert!(world.are_ready());
        assert!(
            bye.is_none_or(|old| !world.ends[1].link.is_bye(&old)),
            "of a former session"
        );
        world.bye(0);
        let newest = Message::parse(&world.newest(1)).unwrap();
        assert!(world.ends[1].link.is_bye(&newest));
        assert!(
            !world.ends[0].link.is_bye(&newest),
            "it is for the other end"
        );
        world.down(1);
        assert!(!world.ends[1].link.is_bye(&newest), "the session is over");
        bye = Some(newest);
        world.up(0);
        world.up(1);
        world.quiet(100);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever happens: never READY with different sessions (`World::check`, at every step), the
    /// port is used as it has to be (`Port`), and when quiet both come to READY and stay there.
    #[test]
    fn converges(steps in prop::collection::vec(step(), 1..150)) {
        let mut world = World::new();
        run(&mut world, steps);
        for end in 0..2 {
            let port = &mut world.ends[end].port;
            (port.fail_grant, port.fail_withdraw, port.fail_attach) = (false, false, false);
            world.up(end);
        }
        world.quiet(3 * SILENCE_MS);
        prop_assert!(world.are_ready());
        let sessions = [0, 1].map(|end| world.ends[end].link.me());
        world.quiet(3 * SILENCE_MS);
        prop_assert!(world.are_ready());
        prop_assert_eq!(sessions, [0, 1].map(|end| world.ends[end].link.me()), "not stable");
    }

    /// A hostile peer says whatever it likes: this end keeps to the rules of its port.
    #[test]
    fn stands_anything(
        messages in prop::collection::vec((0u8..5, 0u64..4, 0u64..4, 0u32..3, 0u64..4), 1..200),
    ) {
        let mut world = World::new();
        world.up(0);
        for (kind, session, to, generation, page) in messages {
            let me = world.ends[0].link.me();
            let offer = Offer { offset: page << 12, bytes: 4096, wake: 0, echo: 0 };
            let body = match kind {
                0 | 1 => Body::Hello((page != 0).then_some(offer)),
                2 => Body::HelloAck,
                3 => Body::Heartbeat,
                _ => Body::Bye,
            };
            let message = Message {
                header: Header {
                    from: Incarnation { hwid: 2, generation, session: session + 1 },
                    to_generation: me.generation,
                    to_session: if to == 0 { 0 } else { me.session.saturating_sub(to - 1) },
                    sequence: 0,
                },
                body,
                proof: None,
            };
            let End { link, port, .. } = &mut world.ends[0];
            link.message(world.now, &message, port);
            world.tick(50);
        }
    }
}

#[test]
fn two_hosts_meet() {
    let mut world = World::both_up();
    world.quiet(TICK_MS);
    assert!(world.are_ready());
}

#[test]
fn meets_a_late_comer() {
    let mut world = World::new();
    world.up(0);
    for _ in 0..50 {
        world.mail.clear();
        world.tick(TICK_MS);
    }
    assert_eq!(world.ends[0].state(), State::Hello);
    world.up(1);
    world.quiet(2000);
    assert!(world.are_ready());
}

fn ready() -> World {
    let mut world = World::both_up();
    world.quiet(TICK_MS);
    assert!(world.are_ready());
    world
}

/// A mailbox that loses each third message of each way, while `others` messages of other kinds travel
/// every 512 ms, as those of managers do. `phase`: how many messages there were before the first.
fn stays_ready(others: usize, phase: usize) -> bool {
    const OTHERS_MS: u64 = 512;
    const TIMER_MS: u64 = TICK_MS + 4;
    let mut world = ready();
    let began = world.now;
    let (mut tick, mut other) = (began + TIMER_MS, began + OTHERS_MS);
    let mut carried = [phase; 2];
    while world.now < began + 20 * SILENCE_MS {
        if other <= tick {
            carried = carried.map(|count| count + others);
            other += OTHERS_MS;
            continue;
        }
        world.tick(tick.saturating_sub(world.now));
        tick += TIMER_MS;
        while !world.mail.is_empty() {
            let (to, bytes) = world.mail.remove(0);
            carried[to] += 1;
            if carried[to] % 3 != 0 {
                world.deliver(to, &bytes);
            }
        }
    }
    world.ends.iter().all(|end| end.port.broken.is_empty())
}

#[test]
fn one_lost_in_three_is_no_silence() {
    for others in 0..=2 {
        for phase in 0..3 {
            assert!(
                stays_ready(others, phase),
                "{others} others, {phase} before"
            );
        }
    }
}

#[test]
fn a_silent_peer_is_dead() {
    let mut world = ready();
    for _ in 0..=SILENCE_MS / TICK_MS {
        world.mail.retain(|(to, _)| *to == 1);
        world.tick(TICK_MS);
    }
    assert_eq!(world.ends[0].port.broken, [Reason::Silence]);
    world.quiet(2000);
    assert!(world.are_ready());
}

#[test]
fn a_link_that_goes_down_breaks_at_once() {
    let mut world = ready();
    world.down(0);
    assert_eq!(world.ends[0].port.broken, [Reason::Link]);
    assert_eq!(world.ends[0].port.granted, None);
    assert_eq!(world.ends[0].port.attached, None);
}

/// The translation of the old session is closed before the new hello is answered: `Port` checks
/// that nothing is granted twice, here it is seen that the grant is another one.
#[test]
fn a_peer_that_restarts_gets_another_grant() {
    for reset in [false, true] {
        let mut world = ready();
        let (session, granted) = (world.ends[0].link.me(), world.ends[0].port.granted);
        world.restart(1, reset);
        world.quiet(1000);
        assert!(world.are_ready());
        assert_eq!(world.ends[0].port.broken, [Reason::Restart]);
        assert_ne!(world.ends[0].link.me(), session);
        assert_ne!(world.ends[0].port.granted, granted);
    }
}

#[test]
fn an_arena_that_cannot_be_withdrawn_is_granted_to_no_peer() {
    let mut world = ready();
    let granted = world.ends[0].port.granted;
    world.ends[0].port.fail_withdraw = true;
    world.restart(1, false);
    world.quiet(5000);
    assert_eq!(world.ends[0].state(), State::Hello);
    assert_eq!(world.ends[0].port.granted, granted);
    world.ends[0].port.fail_withdraw = false;
    world.quiet(3000);
    assert!(world.are_ready());
}

#[test]
fn good_bye_is_heard() {
    let mut world = ready();
    world.bye(1);
    let mail = std::mem::take(&mut world.mail);
    for (to, bytes) in mail {
        world.deliver(to, &bytes);
    }
    assert_eq!(world.ends[0].port.broken, [Reason::Bye]);
}

#[test]
fn messages_of_a_former_session_are_dropped() {
    let mut world = ready();
    let close = Body::CloseAck { peer_conn: 1 };
    let End { link, port, .. } = &mut world.ends[1];
    link.send(close, port);
    world.collect();
    let (to, bytes) = world.mail.pop().expect("sent");
    assert_eq!(world.deliver(to, &bytes), Some(close));
    world.down(0);
    world.up(0);
    world.quiet(5000);
    assert!(world.are_ready());
    assert_eq!(world.deliver(to, &bytes), None);
}

#[test]
fn a_late_hello_of_a_former_life_breaks_nothing() {
    let mut world = World::both_up();
    let late = world.newest(0);
    world.restart(1, false);
    world.quiet(2000);
    assert!(world.are_ready());
    world.deliver(0, &late);
    assert!(world.are_ready());
    assert_eq!(world.ends[0].port.broken, []);
}

/// Each knows the other by a former life. If they answered by naming the one that they know, each answer would
/// be answered in the same way.
#[test]
fn two_ends_that_name_former_lives_do_not_argue_for_ever() {
    let mut world = World::new();
    world.up(0);
    let first = world.newest(1);
    world.up(1);
    let second = world.newest(0);
    world.restart(0, false);
    world.deliver(0, &second);
    world.restart(1, false);
    world.deliver(1, &first);
    world.mail.clear();
    world.quiet(2000);
    assert!(world.are_ready());
}

/// A peer that was READY when this end was not yet has written, and another life of it follows.
#[test]
fn an_arena_that_a_former_life_has_written_is_granted_anew() {
    let mut world = World::both_up();
    while world.ends[1].state() != State::Ready {
        assert!(world.ends[0].state() == State::Hello && !world.mail.is_empty());
        let (to, bytes) = world.mail.remove(0);
        // Its acknowledgement is what gets lost.
        let acknowledges = |m: Message| m.body == Body::HelloAck;
        if to == 1 || !Message::parse(&bytes).is_ok_and(acknowledges) {
            world.deliver(to, &bytes);
        }
    }
    let granted = world.ends[0].port.granted;
    assert_eq!(world.ends[1].link.peer().map(|peer| peer.offer), granted);
    world.mail.clear();
    world.lost(1);
    assert_eq!(world.ends[0].state(), State::Hello);
    world.quiet(2000);
    assert!(world.are_ready());
    assert_ne!(world.ends[0].port.granted, granted);
}

/// One that ends a session by itself waits with its arena: the peer has not heard of it, and writes.
#[test]
fn an_arena_is_granted_when_the_peer_has_left_the_session_before() {
    let mut world = ready();
    world.mail.clear();
    world.lost(0);
    for _ in 0..5 {
        assert_eq!(world.ends[1].state(), State::Ready);
        assert_eq!(world.ends[0].port.granted, None);
        world.mail.clear();
        world.tick(TICK_MS);
    }
    world.quiet(2000);
    assert!(world.are_ready());
}

/// Data were lost: channels break at both ends, for the link, and both come back.
#[test]
fn loss_breaks_both_ends_and_heals() {
    let mut world = World::both_up();
    world.quiet(2000);
    assert!(world.are_ready());
    let before = [0, 1].map(|end| world.ends[end].link.me());
    world.lost(0);
    assert_eq!(world.ends[0].port.broken, [Reason::Link]);
    world.quiet(2000);
    assert!(world.are_ready());
    assert_eq!(world.ends[1].port.broken, [Reason::Restart]);
    for (end, before) in world.ends.iter().zip(before) {
        assert_ne!(end.link.me(), before, "a new session");
    }
}

/// Each grant zeroes an arena. A peer of another incarnation with each message gets it no more often than
/// the limit says, and costs the peer that follows no more than a moment.
#[test]
fn a_peer_of_many_incarnations_is_granted_the_arena_at_a_limited_rate() {
    const FLOOD_MS: u64 = 60_000;
    let mut world = World::new();
    world.up(0);
    let end = world.now + FLOOD_MS;
    for session in 1.. {
        if world.now >= end {
            break;
        }
        // Both ways: the tick grants as well as the message.
        if session % TICK_MS == 0 {
            world.tick(0);
        }
        world.forged(0, session);
    }
    let grants = world.ends[0].port.grants;
    let most = GRANT_BURST + FLOOD_MS / GRANT_MS;
    assert!(grants <= most, "{grants} grants, of {most} at most");
    assert!(grants >= most / 2, "{grants} grants: nothing was tested");
    world.mail.clear();
    world.up(1);
    world.quiet(GRANT_MS + 2 * HELLO_MAX_MS);
    assert!(world.are_ready());
}

/// A link that flaps, as one with a loose plug does, is READY again each time as soon as it is up.
#[test]
fn a_link_that_flaps_is_ready_at_once() {
    let mut world = ready();
    for flap in 1..GRANT_BURST {
        for end in 0..2 {
            world.down(end);
        }
        world.mail.clear();
        for end in 0..2 {
            world.up(end);
        }
        while !world.mail.is_empty() {
            let (to, bytes) = world.mail.remove(0);
            world.deliver(to, &bytes);
        }
        assert!(world.are_ready(), "flap {flap}");
    }
}
