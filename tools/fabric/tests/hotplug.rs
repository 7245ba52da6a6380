// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Components come and go while others work: hosts, endpoints, and a switch with what
//! is below it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Port;
use common::pcim::Pcim;
use common::queue::{Queue, eventually};
use common::world::{Host, World};
use std::collections::{BTreeMap, BTreeSet};
use weft_fabric::wire::abi::*;
use weft_proto::mr::plan::Entry;

/// Two hosts and an endpoint at one switch; another endpoint and a third host, which is
/// not there yet, behind a second one.
const FABRIC: &str = r#"
    host = [
        { name = "h1", hwid = 11 }, { name = "h2", hwid = 22 },
        { name = "h3", hwid = 33, plugged = false },
    ]
    endpoint = [
        { name = "near", kind = "copy", ves = 2 },
        { name = "far", kind = "copy", ves = 2, blade = "C" },
    ]
    switch = [
        { name = "s1", ports = 4, routes = true },
        { name = "s2", ports = 4, routes = true },
    ]
    link = [
        { ends = ["h1:0", "s1:0"] }, { ends = ["h2:0", "s1:1"] },
        { ends = ["s1:2", "near:0"] }, { ends = ["s1:3", "s2:0"] },
        { ends = ["s2:1", "far:0"] }, { ends = ["s2:2", "h3:0"] },
    ]
"#;
const SLOT: u32 = WEFT_SPACE_PLUG;

fn physical(port: u32) -> u32 {
    (port << 8) | WEFT_PLUG_PHYSICAL
}

/// h1 and h2 share both endpoints.
fn fabric() -> (World, Pcim) {
    let mut world = World::start(FABRIC, &["h1", "h2"]);
    let mut pcim = Pcim::new(0, 1);
    pcim.discover(&mut world);
    for (ve, root) in [(0, "h1"), (1, "h2")] {
        pcim.assign("near", ve, root);
        pcim.assign("far", ve, root);
    }
    pcim.carry_out(&mut world);
    world.hosts[0].presence.clear();
    (world, pcim)
}

fn queue(world: &mut World, pcim: &Pcim, endpoint: &str, host: usize) -> Queue {
    Queue::of(world, pcim, endpoint, host, host as u8, 1, 0, 0)
}

/// The next interrupt of the host that programs the switches.
fn interrupt(world: &mut World) -> (u64, u8, u32) {
    let mut next = None;
    world.until("an interrupt of a hot-plug controller", |hosts| {
        if !hosts[0].presence.is_empty() {
            next = Some(hosts[0].presence.remove(0));
        }
        next.is_some()
    });
    next.unwrap()
}

#[test]
fn hp_1_presence_detect_change_goes_to_the_host_that_programs_the_switch() {
    let (mut world, pcim) = fabric();
    let s1 = pcim.named("s1");
    let there = WEFT_PLUG_PRESENT | WEFT_PLUG_POWER | WEFT_PLUG_LINK;
    assert_eq!(world.read(0, &[0], SLOT, physical(2)), there);

    // Announced, and then pulled.
    world.daemon.json(&["unplug", "near", "--announce"]);
    assert_eq!(interrupt(&mut world), (s1, 2, there | WEFT_PLUG_ANNOUNCED));
    world.daemon.json(&["unplug", "near"]);
    assert_eq!(interrupt(&mut world).2 & WEFT_PLUG_PRESENT, 0);
    let gone = WEFT_PLUG_POWER | WEFT_PLUG_CHANGED;
    assert_eq!(world.read(0, &[0], SLOT, physical(2)), gone);
    let mirror = WEFT_CS_PORT + 2 * WEFT_CS_PORT_STRIDE + WEFT_CS_PORT_PLUG;
    assert_eq!(world.read(0, &[0], WEFT_SPACE_CONFIG, mirror), gone);
    // The host that programs it takes notice; no other can.
    let notice = WEFT_PLUG_POWER | WEFT_PLUG_CHANGED;
    assert_eq!(world.config(1, &[0], SLOT, physical(2), Some((notice, 0))).0, WEFT_CFG_STALE);
    assert_eq!(world.config(0, &[0], SLOT, physical(2), Some((notice, 1))).0, WEFT_CFG_OK);
    assert_eq!(world.read(0, &[0], SLOT, physical(2)), WEFT_PLUG_POWER);

    // Surprise: it is back, without a word before.
    world.daemon.json(&["plug", "near"]);
    let back = interrupt(&mut world);
    assert_eq!((back.0, back.1), (s1, 2));
    assert_eq!(
        back.2 & (WEFT_PLUG_PRESENT | WEFT_PLUG_CHANGED),
        WEFT_PLUG_PRESENT | WEFT_PLUG_CHANGED
    );
    for (command, why) in [
        (["plug", "near"], "plugged in already"),
        (["unplug", "h3"], "not plugged in"),
        (["unplug", "nothing"], "called \"nothing\""),
    ] {
        let out = world.daemon.cli(&command);
        assert!(!out.status.success());
        assert!(String::from_utf8_lossy(&out.stderr).contains(why));
    }
}

#[test]
fn hp_1_who_programs_a_switch_announces_at_it_what_will_come() {
    let (mut world, pcim) = fabric();
    let (s2, slot) = (pcim.named("s2"), physical(2));
    let announce = WEFT_PLUG_POWER | WEFT_PLUG_ANNOUNCE;
    let at_s2 = [0, 3];
    let write = |world: &mut World, host, data, term| {
        world.config(host, &at_s2, SLOT, slot, Some((data, term))).0
    };
    let announced = |world: &World| {
        let status = world.daemon.json(&["status"]);
        let s2 = status["switches"].as_array().unwrap().iter().find(|s| s["name"] == "s2").unwrap();
        let slots = s2["slots"].as_array().unwrap();
        slots.iter().find(|s| s["port"] == 2).unwrap()["announced"].as_bool().unwrap()
    };
    // Only the host that programs it can.
    assert_eq!(write(&mut world, 1, announce, 0), WEFT_CFG_STALE);
    assert!(!announced(&world));
    assert_eq!(write(&mut world, 0, announce, 1), WEFT_CFG_OK);
    let waits = WEFT_PLUG_POWER | WEFT_PLUG_ANNOUNCED;
    assert_eq!(interrupt(&mut world), (s2, 2, waits));
    assert_eq!(world.read(0, &at_s2, SLOT, slot), waits);
    assert!(announced(&world));
    // What takes notice of something else, and switches power, leaves it.
    assert_eq!(write(&mut world, 0, WEFT_PLUG_POWER | WEFT_PLUG_CHANGED, 1), WEFT_CFG_OK);
    assert_eq!(world.read(0, &at_s2, SLOT, slot), waits);
    // The next master finds it, and withdraws it.
    assert_eq!(write(&mut world, 1, WEFT_PLUG_POWER | WEFT_PLUG_WITHDRAW, 2), WEFT_CFG_OK);
    assert_eq!(world.read(1, &at_s2, SLOT, slot), WEFT_PLUG_POWER);
    // It is over when the component comes, and what is there cannot come.
    assert_eq!(write(&mut world, 0, announce, 3), WEFT_CFG_OK);
    assert_eq!(interrupt(&mut world), (s2, 2, waits));
    world.daemon.json(&["plug", "h3"]);
    let there = WEFT_PLUG_PRESENT | WEFT_PLUG_CHANGED | WEFT_PLUG_POWER;
    assert_eq!(interrupt(&mut world), (s2, 2, there));
    assert_eq!(write(&mut world, 0, announce, 3), WEFT_CFG_OK);
    assert_eq!(world.read(0, &at_s2, SLOT, slot), there);
}

#[test]
fn hp_1_a_virtual_controller_disconnects_one_hierarchy_at_one_port() {
    let (mut world, pcim) = fabric();
    let mut queues = [0, 1].map(|host| queue(&mut world, &pcim, "near", host));
    let s1 = pcim.named("s1");
    let vh = pcim.hierarchy("h1");
    let vp = pcim.entries.iter().find_map(|e| match *e {
        Entry::Plane { switch, port: 2, vp, vh: of } if (switch, of) == (s1, vh) => Some(vp),
        _ => None,
    });
    let slot = (2 << 8) | u32::from(vp.unwrap());
    let on = WEFT_PLUG_PRESENT | WEFT_PLUG_POWER | WEFT_PLUG_LINK;
    assert_eq!(world.read(0, &[0], SLOT, slot), on);
    assert_eq!(world.config(0, &[0], SLOT, slot, Some((0, 1))).0, WEFT_CFG_OK);
    // In force: h1 has let go of it, and only of it.
    let lid = pcim.lid("near");
    assert!(!world.hosts[0].seen.contains_key(&lid));
    assert!(world.hosts[0].seen.contains_key(&pcim.lid("far")));
    assert_eq!(world.read(0, &[0], SLOT, slot), WEFT_PLUG_PRESENT | WEFT_PLUG_CHANGED);
    // Nor does the endpoint reach h1, but h2.
    let walk = |lid: &str| world.daemon.json(&["route", "walk", "near", lid]);
    assert_eq!((&walk("1")["at"], &walk("1")["why"]), (&"s1".into(), &"no_vp".into()));
    assert_eq!(walk("2")["at"], "h2");
    queues[1].works(&world, 1);
    let notice = WEFT_PLUG_POWER | WEFT_PLUG_CHANGED;
    assert_eq!(world.config(0, &[0], SLOT, slot, Some((notice, 1))).0, WEFT_CFG_OK);
    let mut again = queue(&mut world, &pcim, "near", 0);
    again.works(&world, 2);
    queues[1].works(&world, 3);
    // A slot without power: the link is down, for both.
    assert_eq!(world.config(0, &[0], SLOT, physical(2), Some((0, 1))).0, WEFT_CFG_OK);
    assert!(world.hosts.iter().all(|h| !h.seen.contains_key(&lid)));
    let bad = [physical(4), (1 << 8) | 16, 0x10000];
    assert!(bad.iter().all(|at| world.config(0, &[0], SLOT, *at, None).0 == WEFT_CFG_BAD));
}

#[test]
fn hp_2_an_endpoint_goes_and_comes_and_the_other_works_on() {
    let (mut world, mut pcim) = fabric();
    let mut others = [0, 1].map(|host| queue(&mut world, &pcim, "far", host));
    let mut own = queue(&mut world, &pcim, "near", 0);
    own.works(&world, 1);
    let before = pcim.entries.clone();
    world.daemon.json(&["unplug", "near"]);
    world.until("it to be let go of", |hosts| !hosts[0].seen.contains_key(&own.lid));
    let mut work =
        |world: &World| others.iter_mut().for_each(|q| (0..4).for_each(|n| q.works(world, n)));
    work(&world);
    pcim.discover(&mut world);
    let not = pcim.design().1;
    assert_eq!(not.len(), 2, "nothing but the assignments for it: {not:?}");
    pcim.carry_out_what_can_be(&mut world);
    work(&world);
    world.daemon.json(&["plug", "near"]);
    world.daemon.json(&["wait", "--links", "--timeout", "30"]);
    work(&world);
    pcim.discover(&mut world);
    pcim.carry_out(&mut world);
    work(&world);
    let far = pcim.lid("far");
    let of_far = |entries: &[Entry]| -> Vec<_> {
        let ours = |e: &&Entry| matches!(e, Entry::Own { lid, .. } if *lid == far);
        entries.iter().filter(ours).copied().collect()
    };
    assert_eq!(of_far(&before), of_far(&pcim.entries), "planes are kept");
    let mut back = queue(&mut world, &pcim, "near", 0);
    back.works(&world, 7);
    // The others' queues have never been set up anew.
    work(&world);
}

#[test]
fn hp_2_a_switch_goes_with_all_that_is_below_and_forgets_its_tables() {
    let (mut world, mut pcim) = fabric();
    let mut near = [0, 1].map(|host| queue(&mut world, &pcim, "near", host));
    world.daemon.json(&["unplug", "s2"]);
    let far = pcim.lid("far");
    world.until("all below to be let go of", |hosts| {
        hosts.iter().all(|h| !h.seen.contains_key(&far))
    });
    near.iter_mut().for_each(|q| q.works(&world, 1));
    pcim.discover(&mut world);
    assert_eq!(pcim.found.components().len(), 4, "two hosts, a switch, an endpoint");
    pcim.carry_out_what_can_be(&mut world);
    world.daemon.json(&["plug", "s2"]);
    let tables = world.daemon.json(&["route", "show", "s2"]);
    let routes = tables["routes"].as_array().unwrap();
    assert!(routes.iter().all(|r| r["first"] != far), "{routes:?}");
    pcim.discover(&mut world);
    pcim.carry_out(&mut world);
    let mut again = queue(&mut world, &pcim, "far", 1);
    again.works(&world, 2);
    near.iter_mut().for_each(|q| q.works(&world, 3));
}

#[test]
fn hp_2_a_host_is_added_and_gets_its_endpoint() {
    let (mut world, mut pcim) = fabric();
    let mut near = queue(&mut world, &pcim, "near", 1);
    // Before it is plugged in it is unknown.
    let early = Port::connect(&world.daemon);
    early.send_with(&Port::hello_packet("h3"), &early.fds.iter().collect::<Vec<_>>());
    let why = String::from_utf8_lossy(&early.expect(WEFT_FAB_REFUSED).data).into_owned();
    assert!(why.contains("weft-fabric plug h3"), "{why}");
    world.daemon.json(&["plug", "h3", "--announce"]);
    assert_eq!(
        interrupt(&mut world).2 & (WEFT_PLUG_ANNOUNCED | WEFT_PLUG_PRESENT),
        WEFT_PLUG_ANNOUNCED
    );
    world.daemon.json(&["plug", "h3"]);
    let slot = interrupt(&mut world);
    assert_eq!((slot.0, slot.1), (pcim.named("s2"), 2));
    let host = Host::join(&world.daemon, "h3", 3);
    world.hosts.push(host);
    world.daemon.json(&["wait", "--links", "--timeout", "30"]);
    pcim.discover(&mut world);
    let far = pcim.named("far");
    pcim.assignments.retain(|w| (w.endpoint, w.ve) != (far, 1));
    pcim.assign("far", 1, "h3");
    pcim.carry_out(&mut world);
    let mut new = Queue::of(&mut world, &pcim, "far", 2, 1, 1, 0, 0);
    new.works(&world, 1);
    near.works(&world, 2);
    // And is pulled out again.
    world.daemon.json(&["unplug", "h3"]);
    world.until("its connection to end", |hosts| hosts[2].ended);
    near.works(&world, 3);
}

/// Entries without the numbers that depend on what was before: local ids, hierarchies
/// and planes.
fn shape(pcim: &Pcim) -> BTreeMap<(u64, &'static str, u64, u8), usize> {
    let by_lid: BTreeMap<u32, u64> =
        pcim.found.components().iter().map(|c| (c.lid, c.hwid)).collect();
    let roots = pcim.found.components().iter().filter(|c| c.is_root());
    let by_vh: BTreeMap<u16, u64> = roots
        .filter(|c| pcim.assignments.iter().any(|w| w.root == c.hwid))
        .map(|c| (pcim.hierarchy_of(c.hwid), c.hwid))
        .collect();
    let mut all = BTreeMap::new();
    for entry in &pcim.entries {
        let key = match *entry {
            Entry::Plane { switch, port, vh, .. } => (switch, "plane", by_vh[&vh], port),
            Entry::Open { root, from, link, .. } => (root, "open", by_lid[&from], link),
            Entry::Own { root, lid, link, .. } => (root, "own", by_lid[&lid], link),
            Entry::Base { endpoint, ve, root, .. } => (endpoint, "base", by_lid[&root], ve),
        };
        *all.entry(key).or_default() += 1;
    }
    for ((switch, lid), port) in &pcim.routes {
        *all.entry((*switch, "route", by_lid[lid], *port)).or_default() += 1;
    }
    all
}

#[test]
fn hp_2_a_hundred_changes_leave_the_tables_of_a_fresh_start() {
    let (mut world, mut pcim) = fabric();
    let fresh = shape(&pcim);
    let mut witness = queue(&mut world, &pcim, "near", 1);
    let mut out: BTreeSet<&str> = BTreeSet::new();
    let mut random = 88172645463325252u64;
    for n in 0..100 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let name = ["far", "s2"][(random % 2) as usize];
        let command = if out.remove(name) { "plug" } else { "unplug" };
        if command == "unplug" {
            out.insert(name);
        }
        world.daemon.json(&[command, name]);
        if n % 7 == 0 {
            world.daemon.json(&["wait", "--links", "--timeout", "30"]);
            pcim.discover(&mut world);
            pcim.carry_out_what_can_be(&mut world);
        }
        witness.works(&world, n as u8);
    }
    for name in out {
        world.daemon.json(&["plug", name]);
    }
    world.daemon.json(&["wait", "--links", "--timeout", "30"]);
    pcim.discover(&mut world);
    pcim.carry_out(&mut world);
    assert_eq!(shape(&pcim), fresh);
    witness.works(&world, 1);
    let mut far = queue(&mut world, &pcim, "far", 0);
    far.works(&world, 2);
    eventually("what the switches say to be what was written", || {
        let status = world.daemon.json(&["status"]);
        let far = status["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "far").unwrap();
        far["endpoint"]["ves"].as_array().unwrap().iter().all(|ve| !ve["vp"].is_null())
    });
}
