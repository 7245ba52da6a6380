// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The state machine under random sequences of everything that can happen,
//! against ports that behave as the device model does: what they are told takes
//! effect when they acknowledge it, as late as the sequence wants, and answers
//! from before a link went down may still arrive after it is up again.

use super::{Effect, Event, Fabric, Fault, FaultState, PortId, Spoil};
use crate::topology::parse;
use crate::wire::{
    ENTRIES, FromPort, InboundPart, LINKS, MAX_PACKETS, PAGE, Peer, Segment, ToPort, abi,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const TOPOLOGY: &str = r#"
    host = [{ name = "h0" }, { name = "h1" }, { name = "h2" }]
    switch = [{ name = "s", ports = 8 }]
    link = [
        { ends = ["h0:0", "h1:0"] },
        { ends = ["h1:1", "h2:0"], speed = 5, width = 16 },
        { ends = ["h0:2", "s:7"] },
        { ends = ["s:0", "h2:3"], width = 4 },
    ]
"#;
const VERSION: u64 = abi::WEFT_FAB_VERSION as u64;
const HOSTS: usize = 3;
const CABLE_ENDS: [&str; 4] = ["h0:0", "h2:0", "h0:2", "s:0"];
/// (host, link) pairs that are joined.
const JOINED: [[(usize, usize); 2]; 3] = [[(0, 0), (1, 0)], [(1, 1), (2, 0)], [(0, 2), (2, 3)]];
const RAM: u64 = 64 * PAGE;

#[derive(Clone, Debug)]
enum Step {
    Hello(usize),
    Gone(usize),
    Reset(usize),
    Enable(usize, bool),
    Ctrl {
        host: usize,
        link: u8,
        disable: bool,
        speed: u8,
        width: u8,
    },
    Inbound {
        host: usize,
        entry: u16,
        allow: u8,
        pages: u64,
    },
    Ack(usize),
    Switch(usize, bool),
    Limit(usize, u8, u8),
    Mbox(usize, u8),
    Inject(Fault),
    Clear,
    /// Milliseconds.
    Pass(u64),
}

/// Few, so that they are hit again, and not of one function alone.
fn entry() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0, 1, ENTRIES as u16 - 1])
}

fn step() -> impl Strategy<Value = Step> {
    let host = || 0..HOSTS;
    prop_oneof![
        4 => host().prop_map(Step::Hello),
        1 => host().prop_map(Step::Gone),
        1 => host().prop_map(Step::Reset),
        4 => (host(), prop::bool::weighted(0.8)).prop_map(|(h, on)| Step::Enable(h, on)),
        1 => (host(), 0..LINKS as u8, any::<bool>(), 0u8..9, 0u8..40).prop_map(
            |(host, link, disable, speed, width)| Step::Ctrl { host, link, disable, speed, width }
        ),
        6 => (host(), entry(), 0u8..16, prop_oneof![Just(0u64), 1u64..40]).prop_map(
            |(host, entry, allow, pages)| Step::Inbound { host, entry, allow, pages }
        ),
        8 => host().prop_map(Step::Ack),
        1 => (0..CABLE_ENDS.len(), prop::bool::weighted(0.7)).prop_map(|(c, up)| Step::Switch(c, up)),
        1 => (0..CABLE_ENDS.len(), 1u8..=4, prop::sample::select(vec![1u8, 2, 4])).prop_map(
            |(c, speed, width)| Step::Limit(c, speed, width)
        ),
        2 => (host(), 0..LINKS as u8).prop_map(|(h, link)| Step::Mbox(h, link)),
        2 => fault().prop_map(Step::Inject),
        1 => Just(Step::Clear),
        4 => (0..400u64).prop_map(Step::Pass),
    ]
}

/// Faults that change nothing of what a message says.
fn fault() -> impl Strategy<Value = Fault> {
    let end = || prop::sample::select(&["h0:0", "h1:0", "h1:1", "h2:0", "h0:2", "h2:3"][..]);
    let count = || prop::option::of(1..4u64);
    prop_oneof![
        (end(), 1..4u64).prop_map(|(e, count)| Fault::Flap {
            end: e.into(),
            count,
            period_ms: 100
        }),
        end().prop_map(|e| Fault::SurpriseDown { end: e.into() }),
        end().prop_map(|e| Fault::Slow {
            end: e.into(),
            latency_us: 150_000,
            bytes_per_second: 100
        }),
        (end(), count(), count(), any::<bool>()).prop_map(|(e, count, every, twice)| {
            let does = if twice { Spoil::Duplicate } else { Spoil::Drop };
            Fault::Mailbox { end: e.into(), does, count, every }
        }),
        end().prop_map(|e| Fault::StuckDoorbell { end: e.into() }),
    ]
}

/// What a port sees of one neighbour's entry. The owner's sequence number is in
/// its offset, so that it can be told how old it is.
type Seen = BTreeMap<u16, u64>;

#[derive(Default)]
struct Link {
    up: bool,
    life: u32,
    /// Its coming up, among all; answers from before are stale.
    epoch: u32,
    /// As received.
    told: Seen,
    /// As acknowledged: what its guest can reach.
    in_force: Seen,
    parts: Vec<InboundPart>,
}

struct Ack {
    link: u8,
    entry: u16,
    ticket: u32,
    epoch: u32,
    /// The owner's number, 0 for a withdrawal.
    version: u64,
}

/// A port, as far as the fabric can tell.
#[derive(Default)]
struct Port {
    id: Option<PortId>,
    generation: u32,
    links: [Link; LINKS],
    acks: VecDeque<Ack>,
    /// Version and allowed links of its own entries.
    open: BTreeMap<u16, (u64, u8)>,
    sequence: u32,
    /// Changes not answered.
    due: Vec<(u16, u32)>,
}

struct World {
    fabric: Fabric,
    ports: [Port; HOSTS],
    last_id: u64,
    last_generation: u32,
    last_epoch: u32,
    now_us: u64,
}

impl World {
    fn new() -> Self {
        let fabric = Fabric::new(parse(TOPOLOGY).expect("the topology is in order"), 100);
        World {
            fabric,
            ports: Default::default(),
            last_id: 0,
            last_generation: 100,
            last_epoch: 0,
            now_us: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Hello(host) => self.hello(host),
            Step::Gone(host) => {
                if let Some(id) = self.ports[host].id {
                    self.ports[host] = Port::default();
                    self.fabric.gone(id, "test".into());
                }
            }
            Step::Reset(host) => self.reset(host),
            Step::Enable(host, on) => self.say(host, FromPort::Enable(on)),
            Step::Ctrl { host, link, disable, speed, width } => {
                self.say(host, FromPort::LinkCtrl { link, disable, speed, width });
            }
            Step::Inbound { host, entry, allow, pages } => self.inbound(host, entry, allow, pages),
            Step::Ack(host) => self.ack(host),
            Step::Switch(cable, up) => {
                self.fabric.switch_cable(CABLE_ENDS[cable], up).expect("the cable is there");
            }
            Step::Limit(cable, speed, width) => {
                let end = CABLE_ENDS[cable];
                self.fabric
                    .limit_cable(end, Some(speed), Some(width), None)
                    .expect("within its limits");
            }
            Step::Mbox(host, link) => {
                let data = vec![host as u8, link];
                self.say(host, FromPort::Mbox { link, to: 1, from: 33, data });
            }
            Step::Inject(ref fault) => {
                // Refused if there is one like it.
                let _ = self.fabric.inject(fault.clone());
            }
            Step::Clear => self.fabric.clear_faults(None).expect("all can be cleared"),
            Step::Pass(ms) => {
                self.now_us += ms * 1000;
                self.fabric.pass(self.now_us);
                assert!(self.fabric.next_due().is_none_or(|due| due > self.now_us));
            }
        }
        self.deliver();
        self.check();
    }

    fn say(&mut self, host: usize, message: FromPort) {
        if let Some(id) = self.ports[host].id {
            self.fabric.message(id, message);
        }
    }

    fn hello(&mut self, host: usize) {
        self.last_id += 1;
        let id = PortId(self.last_id);
        let name = format!("h{host}");
        self.fabric.message(id, FromPort::Hello { version: VERSION, hwid: 0, ram: RAM, name });
        if self.ports[host].id.is_some() {
            let effects = self.fabric.take_effects();
            assert!(
                effects.iter().any(|e| matches!(e, Effect::Refuse { port, .. } if *port == id))
            );
            assert!(!effects.iter().any(|e| matches!(e, Effect::Send { .. })));
        } else {
            self.ports[host].id = Some(id);
        }
    }

    fn reset(&mut self, host: usize) {
        // Its numbers begin again, and old answers are still under way.
        let Port { id, acks, mut links, .. } = std::mem::take(&mut self.ports[host]);
        let Some(id) = id else { return };
        for link in &mut links {
            // Until it is told, it may take the link for up.
            *link = Link { up: link.up, ..Link::default() };
        }
        self.ports[host] = Port { id: Some(id), acks, links, ..Port::default() };
        self.fabric.message(id, FromPort::Reset);
    }

    fn inbound(&mut self, host: usize, entry: u16, allow: u8, pages: u64) {
        let port = &mut self.ports[host];
        if port.id.is_none() {
            return;
        }
        port.sequence += 1;
        let sequence = port.sequence;
        // Every other page, so that each is a segment.
        let all: Vec<_> = (0..pages).map(|n| Segment { offset: n * PAGE, len: PAGE }).collect();
        let version = u64::from(sequence);
        if pages == 0 {
            port.open.remove(&entry);
        } else {
            port.open.insert(entry, (version, allow));
        }
        port.due.push((entry, sequence));
        let chunks: Vec<_> =
            if all.is_empty() { vec![vec![]] } else { all.chunks(16).map(Vec::from).collect() };
        for (n, segments) in chunks.iter().enumerate() {
            let part = InboundPart {
                entry,
                offset: if pages == 0 { 0 } else { version * PAGE },
                bytes: pages * PAGE,
                rights: 3,
                allow,
                sequence,
                first: n as u32 * 16,
                more: n + 1 < chunks.len(),
                segments: segments.clone(),
            };
            self.say(host, FromPort::Inbound(part));
        }
    }

    fn ack(&mut self, host: usize) {
        let Some(ack) = self.ports[host].acks.pop_front() else { return };
        let Ack { link, entry, ticket, epoch, version } = ack;
        let here = &mut self.ports[host].links[usize::from(link)];
        if here.up && here.epoch == epoch {
            if version == 0 {
                here.in_force.remove(&entry);
            } else {
                here.in_force.insert(entry, version);
            }
        }
        self.say(host, FromPort::InboundAck { link, entry, sequence: ticket });
    }

    fn deliver(&mut self) {
        for effect in self.fabric.take_effects() {
            match effect {
                Effect::Send { to, message, descriptors } => {
                    let host = self.ports.iter().position(|p| p.id == Some(to));
                    let host = host.expect("nothing is sent to a port that is gone");
                    self.receive(host, message, descriptors);
                }
                Effect::Close { why, .. } => panic!("a correct port was closed: {why}"),
                Effect::Event(Event::Complaint { why, .. }) => panic!("{why}"),
                Effect::Refuse { .. } | Effect::Event(_) => {}
                Effect::Counters { .. } | Effect::Withdrawn { .. } => {
                    panic!("it was not asked for")
                }
            }
        }
    }

    fn receive(&mut self, host: usize, message: ToPort, descriptors: Option<PortId>) {
        match message {
            ToPort::Welcome { generation, .. } => {
                assert!(generation > self.last_generation, "generations increase");
                self.last_generation = generation;
                let links = &self.ports[host].links;
                assert!(links.iter().all(|l| !l.up), "a new life begins with its links down");
                self.ports[host].generation = generation;
            }
            ToPort::LinkUp { link, far, peer: Peer { generation, life, .. }, .. } => {
                let far_host = neighbour(host, link).expect("only joined links come up").0;
                assert_eq!(neighbour(host, link), Some((far_host, usize::from(far))));
                assert_eq!(descriptors, self.ports[far_host].id, "of the neighbour, as it is now");
                assert_eq!(generation, self.ports[far_host].generation);
                let other = &self.ports[far_host].links[usize::from(far)];
                if other.up {
                    assert_eq!(life, other.life, "it lives at both ends");
                } else {
                    assert!(life > self.last_generation, "a life that no port has had");
                    self.last_generation = life;
                }
                let link = &mut self.ports[host].links[usize::from(link)];
                assert!(!link.up, "up twice");
                self.last_epoch += 1;
                *link = Link { up: true, life, epoch: self.last_epoch, ..Link::default() };
            }
            ToPort::LinkDown { link } => {
                self.ports[host].links[usize::from(link)] = Link::default();
            }
            ToPort::Inbound { link, part } => self.told(host, link, part),
            ToPort::InboundAck { entry, sequence } => self.answered(host, entry, sequence),
            ToPort::Mbox { link, to, from, data } => {
                assert_eq!((to, from), (1, 33));
                assert!(self.ports[host].links[usize::from(link)].up);
                let from = (usize::from(data[0]), usize::from(data[1]));
                assert_eq!(neighbour(host, link), Some(from));
            }
            ToPort::LinkInfo { link, info } => {
                let present =
                    neighbour(host, link).is_some_and(|(far, _)| self.ports[far].id.is_some());
                assert_eq!(info.present, present);
                assert!(info.speed <= info.max_speed && info.width <= info.max_width);
            }
            _ => {}
        }
    }

    fn told(&mut self, host: usize, link: u8, part: InboundPart) {
        let port = &mut self.ports[host];
        let here = &mut port.links[usize::from(link)];
        assert!(here.up, "nothing is seen through a link that is down");
        assert_eq!(part.allow, 0, "what else may see it is not said");
        let sent: usize = here.parts.iter().map(|p| p.segments.len()).sum();
        assert_eq!(part.first as usize, sent);
        let (entry, ticket, version) = (part.entry, part.sequence, part.offset / PAGE);
        let (more, bytes) = (part.more, part.bytes);
        here.parts.push(part);
        if more {
            return;
        }
        let segments = here.parts.drain(..).flat_map(|p| p.segments);
        assert_eq!(segments.map(|s| s.len).sum::<u64>(), bytes);
        if bytes == 0 {
            assert!(here.told.remove(&entry).is_some(), "withdrawn from one who never had it");
        } else {
            here.told.insert(entry, version);
        }
        port.acks.push_back(Ack { link, entry, ticket, epoch: here.epoch, version });
    }

    /// The owner is told that a change is over: no port may reach what was before.
    fn answered(&mut self, host: usize, entry: u16, sequence: u32) {
        let due = &mut self.ports[host].due;
        let at = due.iter().position(|d| *d == (entry, sequence));
        due.remove(at.expect("each change is answered once"));
        for link in 0..LINKS as u8 {
            let Some((far, far_link)) = neighbour(host, link) else { continue };
            if let Some(version) = self.ports[far].links[far_link].in_force.get(&entry) {
                assert!(*version >= u64::from(sequence), "an older aperture is still in force");
            }
        }
    }

    fn check(&self) {
        let status = self.fabric.status();
        for (joined, shown) in JOINED.iter().zip(&status.links) {
            let [a, b] = joined.map(|(host, link)| &self.ports[host].links[link]);
            assert_eq!(a.up, b.up, "a link is up for both or for neither");
            assert_eq!(a.up, shown.up);
            assert_eq!(shown.up, shown.why_down.is_none());
            for [(owner, from), (far, at)] in [*joined, [joined[1], joined[0]]] {
                let open = self.ports[owner].open.iter();
                let allowed = open.filter(|(_, (_, allow))| allow & (1 << from) != 0);
                let seen: Seen = allowed.map(|(entry, (version, _))| (*entry, *version)).collect();
                let far = &self.ports[far].links[at];
                assert_eq!(far.told, if far.up { seen } else { Seen::new() });
            }
        }
    }

    /// When all have answered, nothing waits.
    fn drain(&mut self) {
        for host in 0..HOSTS {
            while !self.ports[host].acks.is_empty() {
                self.step(&Step::Ack(host));
            }
        }
        for (host, port) in self.ports.iter().enumerate() {
            assert_eq!(port.due, [], "h{host} was not answered");
        }
        assert!(self.fabric.status().nodes.iter().all(|n| n.waiting_for.is_empty()));
    }
}

fn neighbour(host: usize, link: u8) -> Option<(usize, usize)> {
    let here = (host, usize::from(link));
    JOINED.iter().find_map(|[a, b]| match here {
        _ if here == *a => Some(*b),
        _ if here == *b => Some(*a),
        _ => None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_invariants_hold(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for host in 0..HOSTS {
            world.step(&Step::Hello(host));
            world.step(&Step::Enable(host, true));
        }
        for step in &steps {
            world.step(step);
        }
        world.drain();
    }
}

/// Two connected hosts whose link is up, and their ports.
fn pair() -> World {
    let mut world = World::new();
    for host in 0..2 {
        world.step(&Step::Hello(host));
        world.step(&Step::Enable(host, true));
    }
    assert!(world.fabric.status().links[0].up);
    world
}

#[test]
fn a_change_waits_for_the_neighbour_that_sees_it() {
    let mut world = pair();
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 1, pages: 33 });
    assert_eq!(world.ports[0].due, [(1, 1)]);
    assert_eq!(world.fabric.status().nodes[0].waiting_for, ["h1"]);
    world.step(&Step::Ack(1));
    assert_eq!(world.ports[0].due, []);
}

#[test]
fn a_change_that_no_host_sees_is_answered_at_once() {
    let mut world = pair();
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 0, pages: 1 });
    assert_eq!(world.ports[0].due, []);
}

#[test]
fn taking_the_permission_away_withdraws() {
    let mut world = pair();
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 1, pages: 1 });
    world.step(&Step::Ack(1));
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 2, pages: 1 });
    assert!(world.ports[1].links[0].told.is_empty());
    assert_eq!(world.ports[0].due, [(1, 2)]);
    world.step(&Step::Ack(1));
    assert_eq!(world.ports[0].due, []);
}

#[test]
fn death_of_the_neighbour_answers_for_it() {
    let mut world = pair();
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 1, pages: 1 });
    world.step(&Step::Gone(1));
    assert_eq!(world.ports[0].due, []);
}

#[test]
fn an_answer_to_an_older_life_of_the_owner_does_not_count() {
    let mut world = pair();
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 1, pages: 1 });
    // The same entry with the same number of the owner's, after its reset.
    world.step(&Step::Reset(0));
    world.step(&Step::Enable(0, true));
    world.step(&Step::Inbound { host: 0, entry: 1, allow: 1, pages: 2 });
    world.step(&Step::Ack(1));
    assert_eq!(world.ports[0].due, [(1, 1)], "that was the answer to the first");
    world.step(&Step::Ack(1));
    assert_eq!(world.ports[0].due, []);
}

/// What comes of one message of a port with 64 pages of RAM.
fn fate(message: FromPort) -> Option<String> {
    let mut world = pair();
    world.say(0, message);
    world.fabric.take_effects().into_iter().find_map(|e| match e {
        Effect::Close { why, .. } => Some(why),
        _ => None,
    })
}

fn part() -> InboundPart {
    InboundPart {
        entry: 0,
        offset: 0,
        bytes: PAGE,
        rights: 3,
        allow: 1,
        sequence: 1,
        first: 0,
        more: false,
        segments: vec![Segment { offset: 0, len: PAGE }],
    }
}

#[test]
fn a_change_must_fit_the_owners_ram() {
    assert_eq!(fate(FromPort::Inbound(part())), None);
    let top = InboundPart { offset: u64::MAX - PAGE + 1, ..part() };
    assert_eq!(fate(FromPort::Inbound(top)), None, "the last page of the aperture space");
    let segment = |offset, len| InboundPart { segments: vec![Segment { offset, len }], ..part() };
    for (bad, why) in [
        (segment(RAM, PAGE), "leaves the RAM"),
        (segment(u64::MAX - PAGE + 1, PAGE), "leaves the RAM"),
        (segment(1, PAGE), "not aligned"),
        (segment(0, 0), "empty"),
        (segment(0, 2 * PAGE), "for an aperture of"),
        (InboundPart { offset: 7, ..part() }, "not aligned"),
        (InboundPart { offset: u64::MAX - PAGE + 1, bytes: 2 * PAGE, ..part() }, "too high"),
        (InboundPart { first: 1, ..part() }, "does not continue"),
        (InboundPart { segments: vec![], ..part() }, "0 segments"),
        (InboundPart { bytes: 0, ..part() }, "1 segments"),
        (InboundPart { bytes: 0, segments: vec![], more: true, ..part() }, "0 segments"),
    ] {
        let told = fate(FromPort::Inbound(bad.clone())).unwrap_or_default();
        assert!(told.contains(why), "{bad:?}: \"{told}\" does not say \"{why}\"");
    }
}

#[test]
fn an_answer_to_what_was_never_sent_is_an_offence() {
    let mut world = pair();
    world.step(&Step::Inbound { host: 1, entry: 1, allow: 1, pages: 1 });
    world.say(0, FromPort::InboundAck { link: 0, entry: 1, sequence: 1 << 20 });
    assert!(world.fabric.take_effects().iter().any(|e| matches!(e, Effect::Close { .. })));
    assert!(fate(FromPort::InboundAck { link: 1, entry: 0, sequence: 0 }).is_some());
}

#[test]
fn what_neighbours_never_confirm_is_bounded() {
    let mut world = pair();
    let id = world.ports[0].id.expect("connected");
    for sequence in 0..4 * MAX_PACKETS as u32 {
        world.fabric.message(id, FromPort::Inbound(InboundPart { sequence, ..part() }));
        if world.fabric.take_effects().iter().any(|e| matches!(e, Effect::Close { .. })) {
            assert!(sequence as usize > MAX_PACKETS);
            return;
        }
    }
    panic!("the flood was never stopped");
}

#[test]
fn a_function_that_was_reset_gets_a_new_generation() {
    let mut world = pair();
    let mut last = world.last_generation;
    for function in [1, 33, 1] {
        world.say(1, FromPort::FunctionReset { function });
        let Ok([Effect::Send { to, message, .. }]) =
            <[Effect; 1]>::try_from(world.fabric.take_effects())
        else {
            panic!("one answer, and the links stay up");
        };
        assert_eq!(Some(to), world.ports[1].id);
        let ToPort::Generation { generation, function: of } = message else {
            panic!("{message:?}");
        };
        assert!(of == function && generation > last);
        last = generation;
    }
    world.last_generation = last;
    world.step(&Step::Reset(1));
    assert!(world.ports[1].generation > last);
}

#[test]
fn hardware_ids_stay_unique() {
    let mut world = World::new();
    let derived = world.fabric.topology().hosts[1].hwid;
    let mut hello = |id, hwid, name: &str| {
        let name = name.into();
        world
            .fabric
            .message(PortId(id), FromPort::Hello { version: VERSION, hwid, ram: RAM, name });
        world.fabric.take_effects().into_iter().find_map(|e| match e {
            Effect::Refuse { why, .. } => Some(why),
            _ => None,
        })
    };
    assert!(hello(1, derived, "h0").is_some_and(|why| why.contains("which h1 has")));
    assert_eq!(hello(2, 77, "h0"), None);
    assert!(hello(3, 77, "h1").is_some_and(|why| why.contains("which h0 has")));
    assert_eq!(hello(4, 0, "h1"), None);
    assert!(hello(5, 0, "h9").is_some_and(|why| why.contains("h0, h1, h2")));
}

#[test]
fn targets_and_limits_meet_at_the_least() {
    let mut world = pair();
    let rate = |world: &World| {
        let link = &world.fabric.status().links[0];
        (link.up, link.speed, link.width)
    };
    assert_eq!(rate(&world), (true, 4, 8));
    world.step(&Step::Ctrl { host: 0, link: 0, disable: false, speed: 9, width: 6 });
    assert_eq!(rate(&world), (true, 4, 4), "six lanes are none; the next fewer are four");
    world.step(&Step::Limit(0, 3, 2));
    assert_eq!(rate(&world), (true, 3, 2));
    world.step(&Step::Ctrl { host: 0, link: 0, disable: true, speed: 0, width: 0 });
    assert_eq!(rate(&world), (false, 3, 2));
}

/// The messages that reach h1 of those that h0 sends, each of one byte, and when.
fn arrivals(world: &mut World, sent: &[u8]) -> Vec<(u64, Vec<u8>)> {
    for byte in sent {
        world.say(0, FromPort::Mbox { link: 0, to: 0, from: 0, data: vec![*byte; 8] });
    }
    let mut got = vec![];
    loop {
        for effect in world.fabric.take_effects() {
            if let Effect::Send { message: ToPort::Mbox { data, .. }, .. } = effect {
                got.push((world.now_us, data));
            }
        }
        let Some(due) = world.fabric.next_due() else { return got };
        world.now_us = due;
        world.fabric.pass(due);
    }
}

fn first_bytes(world: &mut World, sent: &[u8]) -> Vec<u8> {
    arrivals(world, sent).iter().map(|(_, data)| data[0]).collect()
}

fn mailbox(does: Spoil, count: Option<u64>, every: Option<u64>) -> Fault {
    Fault::Mailbox { end: "h0:0".into(), does, count, every }
}

#[test]
fn messages_are_dropped_and_doubled_as_often_as_asked() {
    let mut world = pair();
    world.fabric.inject(mailbox(Spoil::Drop, Some(2), None)).unwrap();
    assert_eq!(first_bytes(&mut world, &[1, 2, 3]), [3]);
    assert!(world.fabric.faults().is_empty(), "it has struck twice");
    world.fabric.inject(mailbox(Spoil::Duplicate, None, Some(2))).unwrap();
    assert_eq!(first_bytes(&mut world, &[1, 2, 3, 4]), [1, 2, 2, 3, 4, 4]);
    world.fabric.clear_faults(None).unwrap();
    assert_eq!(first_bytes(&mut world, &[1, 2]), [1, 2]);
}

#[test]
fn a_corrupted_message_differs_in_one_byte() {
    let mut world = pair();
    world.fabric.inject(mailbox(Spoil::Corrupt, None, None)).unwrap();
    for (_, data) in arrivals(&mut world, &[0; 100]) {
        assert_eq!(data.iter().filter(|b| **b != 0).count(), 1, "{data:?}");
    }
}

#[test]
fn a_slow_link_delays_in_order_and_loses_nothing() {
    let mut world = pair();
    let slow = Fault::Slow { end: "h1:0".into(), latency_us: 5000, bytes_per_second: 1000 };
    let number = world.fabric.inject(slow).unwrap();
    let got = arrivals(&mut world, &[1, 2, 3]);
    let want: Vec<_> = [1, 2, 3].map(|n: u8| (5000 + 8000 * u64::from(n), vec![n; 8])).to_vec();
    assert_eq!(got, want, "8 ms each on the wire, and 5 ms of latency");
    // What is on its way is not overtaken by what comes when the link is fast again.
    world.say(0, FromPort::Mbox { link: 0, to: 0, from: 0, data: vec![4; 8] });
    world.fabric.clear_faults(Some(number)).unwrap();
    assert_eq!(first_bytes(&mut world, &[5]), [4, 5]);
}

#[test]
fn what_is_on_its_way_is_lost_with_the_link() {
    let mut world = pair();
    let slow = Fault::Slow { end: "h1:0".into(), latency_us: 5000, bytes_per_second: 0 };
    world.fabric.inject(slow).unwrap();
    world.say(0, FromPort::Mbox { link: 0, to: 0, from: 0, data: vec![1; 8] });
    world.step(&Step::Switch(0, false));
    world.step(&Step::Switch(0, true));
    assert_eq!(first_bytes(&mut world, &[2]), [2]);
}

#[test]
fn a_link_that_was_lost_trains_before_it_is_up_again() {
    let mut world = pair();
    world.fabric.inject(Fault::SurpriseDown { end: "h1:0".into() }).unwrap();
    assert!(first_bytes(&mut world, &[1]).is_empty());
    assert!(world.fabric.status().links[0].up, "no port is told");
    world.fabric.clear_faults(None).unwrap();
    assert!(!world.fabric.status().links[0].up);
    world.now_us = world.fabric.next_due().expect("it trains");
    world.fabric.pass(world.now_us);
    assert!(world.fabric.status().links[0].up);
    assert_eq!(first_bytes(&mut world, &[2]), [2]);
}

#[test]
fn a_flap_ends_by_itself_with_the_link_up() {
    let mut world = pair();
    let flap = Fault::Flap { end: "h0:0".into(), count: 2, period_ms: 10 };
    world.fabric.inject(flap).unwrap();
    let mut seen = vec![];
    while let Some(due) = world.fabric.next_due() {
        seen.push((world.now_us, world.fabric.status().links[0].up));
        world.now_us = due;
        world.fabric.pass(due);
    }
    assert_eq!(seen, [(0, false), (5000, true), (10_000, false)]);
    assert!(world.fabric.status().links[0].up && world.fabric.faults().is_empty());
}

#[test]
fn ports_are_told_of_faults_that_they_act_out_and_of_their_end() {
    let mut world = pair();
    let told = |world: &mut World| {
        let mut told = vec![];
        let mut ended = false;
        for effect in world.fabric.take_effects() {
            match effect {
                Effect::Send { to, message: ToPort::Fault { times, .. }, .. } => {
                    told.push((world.ports.iter().position(|p| p.id == Some(to)), times));
                }
                Effect::Event(Event::Fault { state: FaultState::Over, .. }) => ended = true,
                _ => {}
            }
        }
        told.sort_unstable();
        (told, ended)
    };
    let both = Fault::SurpriseDown { end: "h0:0".into() };
    let always = crate::wire::abi::WEFT_FAB_FAULT_ALWAYS;
    world.fabric.inject(both).unwrap();
    assert_eq!(told(&mut world).0, [(Some(0), always), (Some(1), always)]);
    world.fabric.clear_faults(None).unwrap();
    assert_eq!(told(&mut world).0, [(Some(0), 0), (Some(1), 0)]);
    let one = Fault::PoisonedRead { end: "h1:0".into(), count: Some(3) };
    world.fabric.inject(one).unwrap();
    assert_eq!(told(&mut world).0, [(Some(1), 3)]);
    let kind = crate::wire::abi::WEFT_FAB_FAULT_POISONED_READ.into();
    world.say(0, FromPort::FaultUsed { link: 0, kind });
    assert!(!told(&mut world).1, "that is not who has it");
    world.say(1, FromPort::FaultUsed { link: 0, kind });
    assert!(told(&mut world).1);
}
