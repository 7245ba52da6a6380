// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Links between nodes without a host, under traffic that a host's port reports, by a
//! clock of the test's.

use crate::state::{Effect, Event, Fabric, PortId, Refusal};
use crate::topology::{Power, Problem, parse};
use crate::wire::{FromPort, LINKS, RouteEntry, abi};
use proptest::prelude::*;
use weft_proto::nm::power::{LEAST, PATIENCE, Rate, SAMPLE_MS};

/// h1 reaches h2 and the endpoint by the first of two cables between the switches.
const TOPOLOGY: &str = r#"
    host = [{ name = "h1" }, { name = "h2" }]
    endpoint = [{ name = "ep", kind = "copy", ves = 1 }]
    switch = [{ name = "s1", ports = 8 }, { name = "s2", ports = 8 }, { name = "j", ports = 2 }]
    link = [
        { ends = ["h1:0", "s1:0"] },
        { ends = ["h2:0", "s2:0"] },
        { ends = ["s2:1", "ep:0"], power = "auto" },
        { ends = ["s1:4", "s2:4"], power = "auto" },
        { ends = ["s1:5", "s2:5"] },
        { ends = ["s1:6", "j:0"], speed = 2 },
        { ends = ["j:1", "s2:6"], width = 4 },
    ]
"#;
const BETWEEN: &str = "s1:4";
const ENDPOINT: &str = "s2:1";
const JOINED: &str = "s1:6";
const MOST: (u8, u8) = (4, 8);
const DOWN: [(u8, u8); 6] = [(4, 4), (4, 2), (4, 1), (3, 1), (2, 1), (1, 1)];
/// From the most to the least, and a sample.
const IDLE_MS: u64 = (DOWN.len() as u64 * PATIENCE as u64 + 2) * SAMPLE_MS;
const STEP_MS: u64 = 10;

struct World {
    fabric: Fabric,
    now: u64,
    /// Each change of a link, by its first end, and when it was.
    changes: Vec<(u64, String, (u8, u8))>,
}

impl World {
    fn new() -> Self {
        let fabric = Fabric::new(parse(TOPOLOGY).expect("it is in order"), 1);
        let mut world = World { fabric, now: 0, changes: vec![] };
        for (host, name) in ["h1", "h2", "ep"].into_iter().enumerate() {
            let (version, name) = (u64::from(abi::WEFT_FAB_VERSION), name.to_owned());
            world.say(host, FromPort::Hello { version, hwid: 0, ram: 1 << 20, name });
            world.say(host, FromPort::Enable(true));
            world.say(host, FromPort::Lid(host as u32 + 1));
        }
        for (end, port) in [("s1", 4), ("s2", 0)] {
            world.fabric.change_route(end, 2, Some(port), 0).expect("a port");
        }
        for (end, port) in [("s1", 4), ("s2", 1)] {
            world.fabric.change_route(end, 3, Some(port), 0).expect("a port");
        }
        for end in ["s1:0", "s1:4", "s2:4", "s2:0", "s2:1"] {
            world.fabric.change_vp(end, 0, Some(1), 0).expect("a port");
        }
        let route =
            RouteEntry { lids: 2..=3, link: 0, vp: 0, own: true, from_links: 0, from_vps: 0 };
        world.say(0, FromPort::Route { entry: 0, sequence: 1, route: Some(route) });
        for remote in 0..2 {
            world.say(0, FromPort::Want { remote, lid: u32::from(remote) + 2 });
        }
        world
    }

    fn say(&mut self, host: usize, message: FromPort) {
        self.fabric.message(PortId(host as u64), message);
        self.take();
    }

    fn take(&mut self) {
        for effect in self.fabric.take_effects() {
            match effect {
                Effect::Event(Event::LinkRate { ends: [end, _], speed, width }) => {
                    self.changes.push((self.now, end, (speed, width)));
                }
                Effect::Close { why, .. } | Effect::Refuse { why, .. } => panic!("{why}"),
                _ => {}
            }
        }
    }

    /// h1 writes so many bytes a second to a remote, and reads so many, for so long.
    fn run(&mut self, ms: u64, remote: u8, [out, into]: [u64; 2]) {
        for _ in 0..ms / STEP_MS {
            self.now += STEP_MS;
            let [out, into] = [out, into].map(|bytes| bytes * STEP_MS / 1000);
            if (out, into) != (0, 0) {
                self.say(0, FromPort::Moved { link: LINKS as u8 + remote, out, into });
            }
            self.fabric.pass(self.now * 1000);
            self.fabric.sample();
            self.take();
        }
    }

    /// As [`Self::run`], while the daemon does not run: it reads all of that when it does again.
    fn stall(&mut self, ms: u64, remote: u8, [out, into]: [u64; 2]) {
        self.now += ms;
        self.fabric.pass(self.now * 1000);
        let [out, into] = [out, into].map(|bytes| bytes * ms / 1000);
        self.say(0, FromPort::Moved { link: LINKS as u8 + remote, out, into });
        self.fabric.sample();
        self.take();
    }

    fn idle(&mut self, ms: u64) {
        self.run(ms, 0, [0, 0]);
    }

    fn set(&mut self, end: &str, rate: Option<(u8, u8)>, power: Power) -> Result<(), Refusal> {
        let (speed, width) = rate.unzip();
        let done = self.fabric.limit_cable(end, speed, width, Some(power));
        self.take();
        done
    }

    /// What the link at an end runs at.
    fn rate(&self, end: &str) -> (u8, u8) {
        let links = self.fabric.status().links;
        let link = links.iter().find(|l| l.ends.iter().any(|e| e == end)).expect("a link");
        (link.speed, link.width)
    }

    /// What it has run at since.
    fn rates(&mut self, end: &str) -> Vec<(u8, u8)> {
        let ours = self.changes.iter().filter(|(_, at, _)| at == end);
        let rates = ours.map(|(_, _, rate)| *rate).collect();
        self.changes.retain(|(_, at, _)| at != end);
        rates
    }
}

#[test]
fn n_8_an_idle_link_between_switches_slows_down_step_by_step_and_others_do_not() {
    let mut world = World::new();
    world.idle(IDLE_MS);
    let times: Vec<_> = world.changes.iter().filter(|c| c.1 == BETWEEN).map(|c| c.0).collect();
    let patience = u64::from(PATIENCE) * SAMPLE_MS;
    assert!(times.windows(2).all(|two| two[1] - two[0] >= patience), "{times:?}");
    assert_eq!(world.rates(BETWEEN), DOWN);
    assert_eq!(world.rates(ENDPOINT), DOWN, "the link of an endpoint has no host either");
    assert_eq!(world.changes, [], "none that was not asked to");
    world.idle(60_000);
    assert_eq!(world.changes, [], "and nothing more");
    let order = [BETWEEN, ENDPOINT, "s1:5", "s1:6", "s1:0"].map(|end| world.rate(end));
    assert_eq!(order, [LEAST_RATE, LEAST_RATE, MOST, (2, 4), MOST]);
}

const LEAST_RATE: (u8, u8) = (LEAST.speed, LEAST.width);

#[test]
fn n_8_a_load_in_either_direction_brings_it_up_at_once_and_once() {
    let mut world = World::new();
    world.idle(IDLE_MS);
    let load = MOST_BYTES * 5 / 8;
    for (remote, bytes) in [(0, [load, 0]), (0, [0, load]), (1, [load, 0])] {
        world.rates(BETWEEN);
        let busy = world.now;
        world.run(60_000, remote, bytes);
        let first = world.changes.iter().find(|c| c.1 == BETWEEN).expect("it got faster").0;
        assert!(first - busy <= SAMPLE_MS + STEP_MS, "{} ms", first - busy);
        // The sample in which it begins may have had a part of it.
        let up = world.rates(BETWEEN);
        assert!(up.len() <= 2 && up.last() == Some(&MOST), "{up:?}");
        assert_eq!(world.rate(ENDPOINT), if remote == 1 { MOST } else { LEAST_RATE });
        world.idle(16 * IDLE_MS);
        assert_eq!(world.rates(BETWEEN).last(), Some(&LEAST_RATE));
    }
}

#[test]
fn n_8_a_daemon_that_does_not_run_for_a_moment_takes_the_same_load_for_no_other() {
    let mut world = World::new();
    world.idle(IDLE_MS);
    // Less than a full link: one has it as fast as it can be, and then slow down.
    let load = [200_000_000, 0];
    world.run(1000, 0, load);
    let rate = world.rate(BETWEEN);
    assert_ne!(rate, LEAST_RATE);
    world.rates(BETWEEN);
    for ms in (STEP_MS..4 * SAMPLE_MS).step_by(STEP_MS as usize) {
        world.stall(ms, 0, load);
        world.run(2 * SAMPLE_MS, 0, load);
        assert_eq!(world.rates(BETWEEN), [], "{ms} ms");
    }
}

/// Bytes a second of the fastest.
const MOST_BYTES: u64 = 250_000_000 * 8 * 8;

#[test]
fn n_8_what_the_administrator_allows_is_not_exceeded_and_no_policy_is_forced() {
    let mut world = World::new();
    let busy = [MOST_BYTES, 0];
    world.set(BETWEEN, Some((3, 2)), Power::Auto).unwrap();
    world.run(60_000, 0, busy);
    assert_eq!((world.rate(BETWEEN), world.rates(BETWEEN)), ((3, 2), vec![]));
    world.idle(IDLE_MS);
    assert_eq!(world.rates(BETWEEN), [(3, 1), (2, 1), (1, 1)], "what is below is left to it");
    world.set(BETWEEN, None, Power::Performance).unwrap();
    assert_eq!((world.rate(BETWEEN), world.rates(BETWEEN)), ((3, 2), vec![(3, 2)]));
    world.idle(60_000);
    assert_eq!((world.rate(BETWEEN), world.rates(BETWEEN)), ((3, 2), vec![]), "pinned");
    world.set(BETWEEN, Some(MOST), Power::Performance).unwrap();
    world.run(IDLE_MS, 0, [0, 0]);
    assert_eq!(world.rate(BETWEEN), MOST);
}

#[test]
fn n_8_a_link_that_comes_up_begins_at_the_most() {
    let mut world = World::new();
    for end in ["cable", "switch"] {
        world.idle(IDLE_MS);
        assert_eq!(world.rates(BETWEEN), DOWN, "{end}");
        if end == "cable" {
            world.fabric.switch_cable(BETWEEN, false).unwrap();
            world.fabric.switch_cable(BETWEEN, true).unwrap();
        } else {
            world.fabric.unplug("s2").unwrap();
            world.fabric.plug("s2").unwrap();
        }
        assert_eq!(world.rate(BETWEEN), MOST, "{end}");
        world.take();
        world.rates(BETWEEN);
    }
}

#[test]
fn n_8_each_switch_goes_by_the_cable_at_its_own_port() {
    let mut world = World::new();
    // The other end has no objection.
    world.set(JOINED, None, Power::Auto).unwrap();
    world.idle(IDLE_MS);
    assert_eq!((world.rate(JOINED), world.rates(JOINED).first()), (LEAST_RATE, Some(&(2, 2))));
    world.set("s2:6", None, Power::Auto).unwrap();
    world.set(JOINED, None, Power::Performance).unwrap();
    assert_eq!(world.rate(JOINED), (2, 4), "it has not looked for so long");
    world.idle(IDLE_MS);
    assert_eq!(world.rate(JOINED), LEAST_RATE);
}

#[test]
fn the_links_of_hosts_are_the_hosts_to_slow() {
    let mut world = World::new();
    for end in ["h1:0", "s2:0"] {
        let why = world.set(end, None, Power::Auto).unwrap_err().to_string();
        assert!(why.contains("linkN/power"), "{why}");
        world.set(end, None, Power::Performance).unwrap();
    }
    let text = TOPOLOGY.replace(r#"["h2:0", "s2:0"]"#, r#"["h2:0", "s2:0"], power = "auto""#);
    let problems = parse(&text).unwrap_err();
    assert_eq!(problems.len(), 1);
    let Problem { line, message } = &problems[0];
    assert!(*line == 7 && message.starts_with("link h2:0--s2:0: power"), "{line}: {message}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn n_8_with_constant_traffic_it_comes_to_rest(
        shift in 0..12u32,
        part in 0..1000u64,
        back in any::<bool>(),
    ) {
        let mut world = World::new();
        let load = (MOST_BYTES >> shift) * (1000 + part) / 1000;
        world.run(2 * IDLE_MS, 0, if back { [0, load] } else { [load, 0] });
        prop_assert!(world.rates(BETWEEN).len() <= DOWN.len() + 2);
        world.run(60_000, 0, if back { [0, load] } else { [load, 0] });
        prop_assert_eq!(world.rates(BETWEEN), vec![]);
        // Neither too slow nor much too fast.
        let (speed, width) = world.rate(BETWEEN);
        let bytes = Rate { speed, width }.bytes();
        prop_assert!((speed, width) == MOST || load * 100 <= bytes * 75, "{load} of {bytes}");
        prop_assert!((speed, width) == LEAST_RATE || load * 100 >= bytes * 25, "{load} of {bytes}");
    }
}
