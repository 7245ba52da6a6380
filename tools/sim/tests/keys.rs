// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fabrics that attest no hardware ids, with a key for messages: masters come and go, keys change, and what
//! was sent is sent again.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use weft_proto::nm::node::Mismatch;
use weft_sim::{
    check,
    rng::Rng,
    topology::{Kind, Topology},
    world::World,
};

const KEY: u64 = 7;
const LIMIT: u64 = 20_000;

fn keyed(topology: Topology, hwids: Vec<u64>, key: impl Fn(usize) -> u64) -> World {
    let mut world = World::off(topology, hwids, 3);
    world.give_keys(KEY);
    for node in 0..world.topology.len() {
        if !world.topology.is_switch(node) {
            world.keys[node] = key(node);
        }
        world.power_on(node);
    }
    world
}

fn master(world: &World, node: usize) -> u64 {
    world.manager(node).unwrap().info().mastership.master
}

#[test]
fn n_5_masters_are_elected_one_after_the_other_in_a_fabric_with_a_key() {
    for kind in Kind::ALL {
        let topology = Topology::of(kind, 8, 3);
        let hwids = (10..10 + topology.len() as u64).collect();
        let mut world = keyed(topology, hwids, |_| KEY);
        check::settle(&mut world, 500, LIMIT).unwrap();
        let hosts: Vec<_> =
            (0..world.topology.len()).filter(|node| !world.topology.is_switch(*node)).collect();
        // Each in turn goes, and is back with an empty memory: also one that was master already.
        for node in hosts.iter().take(3).chain(&hosts[..1]) {
            world.power_off(*node);
            check::settle(&mut world, 500, LIMIT).unwrap();
            world.power_on(*node);
            check::settle(&mut world, 500, LIMIT).unwrap();
            assert_eq!(master(&world, hosts[3]), world.hwids[hosts[0]], "{kind:?}");
        }
        // All have believed all; what is refused is late, from before a life or a master.
        assert!(hosts.iter().all(|n| world.manager(*n).unwrap().mismatch(world.now()).is_none()));
    }
}

#[test]
fn n_5_hosts_without_the_key_are_left_out_by_those_with_it() {
    // 10 has none, 11 another one. Of them, 13 and 14, the first two are the lowest.
    let key = |node| [0, 8, KEY, KEY, KEY][node];
    let mut world = keyed(Topology::of(Kind::Torus, 5, 3), (10..15).collect(), key);
    world.run(LIMIT);
    let standing = |world: &World| {
        let info = [2, 3, 4].map(|node| *world.manager(node).unwrap().info());
        info.map(|info| (info.mastership.master, info.lid))
    };
    let before = standing(&world);
    assert!(before.iter().all(|(master, lid)| *master == 12 && *lid != 0), "{before:?}");
    for node in [2, 3, 4] {
        let manager = world.manager(node).unwrap();
        assert!(manager.unsealed() > 0);
        assert!(manager.members().all().iter().all(|m| !m.known || m.info.hwid >= 12));
    }
    let mismatches: Vec<_> =
        (0..5).filter_map(|node| world.manager(node).unwrap().mismatch(world.now())).collect();
    for how in [Mismatch::Here, Mismatch::There, Mismatch::Differs] {
        assert!(mismatches.iter().any(|(found, _)| *found == how), "{how:?}: {mismatches:?}");
    }
    world.run(LIMIT);
    assert_eq!(standing(&world), before, "nor do they change anything later");
    // With the key they are as all others.
    for node in [0, 1] {
        world.set_key(node, KEY);
    }
    check::settle(&mut world, 500, 2 * LIMIT).unwrap();
    assert_eq!(master(&world, 4), 10);
}

#[test]
fn n_5_a_key_that_changes_host_by_host_leaves_one_fabric_in_the_end() {
    let mut world = keyed(Topology::of(Kind::Ring, 6, 3), (10..16).collect(), |_| KEY);
    check::settle(&mut world, 500, LIMIT).unwrap();
    let lids = |world: &World| -> Vec<u32> {
        (0..6).map(|node| world.manager(node).unwrap().info().lid).collect()
    };
    let before = lids(&world);
    for key in [8, 0, KEY] {
        for node in [3, 0, 5, 1, 2, 4] {
            world.set_key(node, key);
            world.run(700);
        }
        check::settle(&mut world, 500, 2 * LIMIT).unwrap();
        assert_eq!(lids(&world), before, "each keeps its local id");
    }
}

#[test]
fn n_5_what_was_sent_before_changes_nothing_when_it_is_sent_again() {
    let mut world = keyed(Topology::of(Kind::Ring, 5, 3), (10..15).collect(), |_| KEY);
    world.record = Some(vec![]);
    check::settle(&mut world, 500, LIMIT).unwrap();
    // The lowest goes and comes; so there are two masters, and two lives of one.
    world.power_off(0);
    check::settle(&mut world, 500, LIMIT).unwrap();
    world.power_on(0);
    check::settle(&mut world, 500, LIMIT).unwrap();
    let recorded = world.record.take().unwrap();
    assert!(recorded.len() > 200, "{}", recorded.len());
    let standing = |world: &World| {
        let infos = (0..5).map(|node| *world.manager(node).unwrap().info());
        infos.map(|info| (info.mastership, info.lid, info.life, info.change)).collect::<Vec<_>>()
    };
    let before = standing(&world);
    let settled = world.manager(0).unwrap().settled();
    // All of it, in the same order, and then in any.
    let mut rng = Rng::new(5);
    for turn in 0..3 {
        for n in 0..recorded.len() {
            let at = if turn == 0 { n } else { rng.below(recorded.len() as u64) as usize };
            let (from, bytes) = &recorded[at];
            world.send(*from, bytes.clone());
            world.run(1);
            assert_eq!(standing(&world), before, "turn {turn}, message {at}");
            assert_eq!(world.manager(0).unwrap().settled(), settled, "turn {turn}, message {at}");
        }
    }
    check::settle(&mut world, 500, LIMIT).unwrap();
}
