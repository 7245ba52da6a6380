// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Rules of the manager, one at a time.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use weft_proto::nm::{
    mastership::Mastership,
    message::{Message, Write},
    node::Role,
    packet::{Direction, MAX_BYTES, MAX_PAYLOAD, Packet},
    path::Path,
};
use weft_sim::{
    check::{self, End},
    topology::{Kind, Topology},
    world::World,
};

fn settled(topology: Topology, hwids: Vec<u64>) -> World {
    let mut world = World::new(topology, hwids, 3);
    check::settle(&mut world, 500, 10_000).unwrap();
    world
}

fn lids(world: &World) -> Vec<u32> {
    let lid = |node| world.manager(node).map_or(0, |m| m.info().lid);
    (0..world.topology.len()).map(lid).collect()
}

/// A write of local id 77 from node 0's port 0 to its neighbour there.
fn forge(world: &mut World, write: Write) {
    let message = Message::Assign { write, lid: 77, next_lid: 78 };
    let mut payload = [0; MAX_PAYLOAD];
    let len = message.encode(1, &mut payload).unwrap();
    let path = Path::new(&[0]).unwrap();
    let packet = Packet::new(Direction::FromMaster, path, &payload[..len]).unwrap();
    let mut bytes = [0; MAX_BYTES];
    let len = packet.encode(&mut bytes);
    world.send((0, 0), bytes[..len].to_vec());
    world.run(5);
}

#[test]
fn n_6_a_write_needs_a_mastership_that_counts_and_names_its_reader() {
    // Node 1 has id 20; its master, node 0, is 10, 5 would be allowed but is not there, 30 is a node.
    let mut world = settled(Topology::chain(3), vec![10, 20, 30]);
    let info = *world.manager(1).unwrap().info();
    let good = Write { mastership: info.mastership, version: 1000, to: 20, life: info.life };
    let with = |term, master| Mastership { term, master };
    let term = info.mastership.term;
    let wrong = [
        Write { mastership: with(term - 1, 10), ..good },
        Write { mastership: with(term, 11), ..good },
        Write { mastership: with(term + 1, 30), ..good },
        Write { mastership: with(term + 1, 20), ..good },
        Write { mastership: with(term + 1, 5), ..good },
        Write { version: 0, ..good },
        Write { to: 30, ..good },
        Write { life: info.life + 1, ..good },
    ];
    for write in wrong {
        forge(&mut world, write);
        let now = world.manager(1).unwrap().info();
        assert_eq!((now.lid, now.mastership), (info.lid, info.mastership), "{write:?}");
    }
    forge(&mut world, good);
    assert_eq!(world.manager(1).unwrap().info().lid, 77);
    let higher = Write { mastership: with(term + 1, 10), ..good };
    forge(&mut world, higher);
    assert!(world.manager(1).unwrap().info().mastership.term > term);
    // The master, which is next to it, sees that it obeys a later one, and takes a term above.
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(world.manager(1).unwrap().master(), 10);
}

/// Something changes at the far end, so that the master has something to write.
fn change(world: &mut World, end: (usize, u8)) {
    for up in [false, true] {
        world.link(end, up);
        check::settle(world, 500, 20_000).unwrap();
    }
}

#[test]
fn n_6_no_version_and_no_term_is_the_last() {
    let with = |write: &dyn Fn(Write) -> Write| {
        let mut world = settled(Topology::chain(3), vec![10, 20, 30]);
        let info = *world.manager(1).unwrap().info();
        let good = Write { mastership: info.mastership, version: 1, to: 20, life: info.life };
        // What is forged names the true master, and comes from where it is.
        forge(&mut world, write(good));
        assert_eq!(world.manager(1).unwrap().info().lid, 77, "it was taken");
        change(&mut world, (1, 1));
        world
    };
    for version in [1 << 31, 1000, u32::MAX - (1 << 23)] {
        let world = with(&|good| Write { version, ..good });
        assert_eq!(world.manager(2).unwrap().master(), 10);
    }
    for term in [1 << 31, u32::MAX - (1 << 23), 1000] {
        let mastership = Mastership { term, master: 10 };
        let mut world = with(&|good| Write { mastership, version: 1 << 31, ..good });
        assert_eq!(world.manager(2).unwrap().master(), 10);
        // The next master, and the first one when it is back.
        world.power_off(0);
        check::settle(&mut world, 500, 20_000).unwrap();
        let master = world.manager(1).unwrap().info().mastership;
        assert_eq!((master.master, world.manager(2).unwrap().info().mastership), (20, master));
        world.power_on(0);
        check::settle(&mut world, 500, 20_000).unwrap();
        assert_eq!(world.manager(2).unwrap().info().mastership.master, 10);
    }
}

#[test]
fn n_5_a_stranger_with_the_lowest_id_is_left_out() {
    let mut world = World::off(Topology::ring(5), vec![50, 40, 30, 20, 1], 3);
    world.allowed = vec![20, 30, 40, 50];
    for node in 0..5 {
        world.power_on(node);
    }
    world.run(5000);
    // Without it the ring is a chain.
    for node in 0..4 {
        assert_eq!(world.manager(node).unwrap().master(), 20, "node {node}");
        assert!(world.manager(node).unwrap().members().get(1).is_none());
    }
    // What it writes, by right of a term of its own, is not taken, nor does it pass.
    let before = lids(&world);
    let to = world.manager(0).unwrap().info();
    let write = Write {
        mastership: Mastership { term: to.mastership.term + 9, master: 1 },
        version: 1,
        to: to.hwid,
        life: to.life,
    };
    let message = Message::Assign { write, lid: 77, next_lid: 78 };
    let mut payload = [0; MAX_PAYLOAD];
    let len = message.encode(1, &mut payload).unwrap();
    for path in [&[0][..], &[0, 0], &[1], &[1, 1]] {
        let path = Path::new(path).unwrap();
        let packet = Packet::new(Direction::FromMaster, path, &payload[..len]).unwrap();
        let mut bytes = [0; MAX_BYTES];
        let len = packet.encode(&mut bytes);
        world.send((4, path.first().unwrap()), bytes[..len].to_vec());
        world.run(20);
    }
    assert_eq!(lids(&world)[..4], before[..4]);
}

#[test]
fn n_5_a_living_node_keeps_its_local_id() {
    let hwids = vec![13, 17, 11, 19, 12, 18];
    let mut world = settled(Topology::ring(6), hwids);
    let first = lids(&world);
    // The master, 11, dies: 12 follows. It comes back with nothing in its memory and a new id.
    world.power_off(2);
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(world.manager(0).unwrap().master(), 12);
    world.power_on(2);
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(world.manager(0).unwrap().master(), 11);
    let now = lids(&world);
    for node in [0, 1, 3, 4, 5] {
        assert_eq!(now[node], first[node]);
    }
    assert!(!first.contains(&now[2]), "an id was given away again");
    // The ring breaks into two fabrics, which grow together again.
    for end in [(0, 0), (3, 0)] {
        world.link(end, false);
    }
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(check::components(&world).len(), 2);
    assert_eq!(lids(&world), now);
    for end in [(3, 0), (0, 0)] {
        world.link(end, true);
        check::settle(&mut world, 500, 20_000).unwrap();
    }
    assert_eq!(lids(&world), now);
}

#[test]
fn n_5_of_two_nodes_with_one_id_that_of_the_masters_fabric_keeps_it() {
    // Two chains that have never met, with ids 1 and 2 each.
    let mut topology = Topology::chain(2);
    topology.peers.extend(Topology::new(2).peers);
    topology.join((2, 0), (3, 0));
    topology.join((1, 0), (2, 1));
    let mut world = World::off(topology, vec![8, 9, 5, 6], 3);
    world.link((1, 0), false);
    for node in 0..4 {
        world.power_on(node);
    }
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(lids(&world), [1, 2, 1, 2]);
    world.link((1, 0), true);
    check::settle(&mut world, 500, 10_000).unwrap();
    let now = lids(&world);
    assert_eq!(now[2..], [1, 2], "the master's own");
    assert!(now[0] > 2 && now[1] > 2, "{now:?}");
}

#[test]
fn n_6_a_silent_master_is_replaced_at_once() {
    let mut world = settled(Topology::torus(9), (1..10).collect());
    // It hangs: its links stay up, it says nothing. Only polls can tell.
    world.hang(0);
    let since = world.now();
    while (1..9).any(|n| world.manager(n).unwrap().master() != 2) {
        world.run(10);
        assert!(world.now() - since < 10_000, "no master");
    }
    let ms = world.now() - since;
    // A poll, its repetitions, and an exploration in which the silent one is asked in vain.
    assert!(ms < 500 + 2 * 1300 + 500, "after {ms} ms");
}

#[test]
fn n_6_a_node_without_time_is_not_missing_for_good_in_the_list_of_a_standby() {
    let mut world = settled(Topology::ring(6), (1..7).collect());
    let listed = |world: &World| {
        let members = world.manager(5).unwrap().members().all().iter();
        members.filter(|m| m.known).count()
    };
    world.link((0, 0), false);
    while world.manager(0).unwrap().settled().is_some() {
        world.run(1);
    }
    while world.manager(0).unwrap().settled().is_none() {
        world.run(1);
    }
    // The master has written all, and standbys are about to look. The last in the row has no time for them.
    world.hang(1);
    world.run(1500);
    assert_eq!(listed(&world), 5);
    world.go_on(1);
    world.run(2500);
    assert_eq!(listed(&world), 6);
}

fn way(world: &World, from: usize, to: usize) -> Vec<usize> {
    let lid = world.manager(to).unwrap().info().lid;
    let (mut at, mut way) = (from, vec![from]);
    while at != to {
        let port = world.route(at, lid).unwrap();
        at = world.passes((at, port)).unwrap().0;
        way.push(at);
        assert!(way.len() < 20);
    }
    way
}

#[test]
fn n_8_routes_avoid_slow_and_excluded_links_and_come_back() {
    let mut world = settled(Topology::ring(5), (1..6).collect());
    assert_eq!(way(&world, 0, 1), [0, 1]);
    // One lane of the first generation costs more than four links of the third with eight.
    world.set_wire((0, 0), |wire| (wire.speed, wire.width) = (1, 1));
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(way(&world, 0, 1), [0, 4, 3, 2, 1]);
    world.set_wire((0, 0), |wire| (wire.speed, wire.width) = (3, 8));
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(way(&world, 0, 1), [0, 1]);
    world.set_wire((0, 0), |wire| wire.excluded = true);
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(way(&world, 0, 1), [0, 4, 3, 2, 1]);
    // Where it is the only way it is excluded all the same, and the manager still uses it.
    world.link((2, 0), false);
    check::settle(&mut world, 500, 10_000).unwrap();
    let lid = world.manager(1).unwrap().info().lid;
    assert_eq!(check::follow(&world, 0, lid), End::Nowhere);
    assert_eq!(world.manager(1).unwrap().master(), 1);
}

/// h0 and h1 at switch 2, which is joined to switch 3, where h4 is.
fn two_switches() -> Topology {
    let mut topology = Topology::new(5);
    topology.switches = vec![false, false, true, true];
    for (a, b) in [((0, 0), (2, 0)), ((1, 0), (2, 14)), ((2, 15), (3, 7)), ((4, 3), (3, 0))] {
        assert!(topology.join(a, b));
    }
    topology
}

#[test]
fn n_5_a_switch_takes_part_and_is_never_master() {
    let mut world = settled(two_switches(), vec![40, 30, 1, 2, 20]);
    let role = |world: &World, node| world.manager(node).unwrap().role();
    assert_eq!(role(&world, 4), Role::Master);
    let first = lids(&world);
    assert_eq!(way(&world, 0, 4), [0, 2, 3, 4]);
    for host in [4, 1, 0] {
        world.power_off(host);
        world.run(5000);
    }
    // Only switches are left.
    for switch in [2, 3] {
        assert_eq!(role(&world, switch), Role::Unknown);
        assert_eq!(world.manager(switch).unwrap().master(), 0);
        let due = world.manager(switch).unwrap().due(world.now());
        assert!(due.is_some(), "it asks now and then whether its master is there again");
    }
    // A host that comes finds what they remember.
    world.power_on(0);
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(role(&world, 0), Role::Master);
    assert_eq!(lids(&world)[2..4], first[2..4]);
    assert!(!first.contains(&lids(&world)[0]), "its id was another life's");
}

#[test]
fn n_6_a_switch_has_its_master_again_that_was_silent_and_does_not_know() {
    let mut world = settled(two_switches(), vec![40, 30, 1, 2, 20]);
    for host in [0, 1] {
        world.power_off(host);
    }
    check::settle(&mut world, 500, 10_000).unwrap();
    let before = world.manager(4).unwrap().info().mastership;
    world.hang(4);
    world.run(3000);
    assert_eq!(world.manager(2).unwrap().role(), Role::Unknown);
    world.go_on(4);
    world.run(4000);
    // Nothing has changed that would have the master write to it.
    assert_eq!(world.manager(4).unwrap().info().mastership, before);
    for switch in [2, 3] {
        let manager = world.manager(switch).unwrap();
        assert_eq!((manager.role(), manager.master()), (Role::Standby, 20), "node {switch}");
    }
}

#[test]
fn n_5_no_one_obeys_a_switch() {
    let mut world = settled(two_switches(), vec![40, 30, 1, 2, 20]);
    // From host 0 to the switch next to it, by right of a switch whose id is lower than its own.
    let info = *world.manager(2).unwrap().info();
    let lower = world.hwids[2] - 1;
    let mastership = Mastership { term: info.mastership.term + 1, master: lower };
    let write = Write { mastership, version: 1, to: info.hwid, life: info.life };
    forge(&mut world, write);
    assert_eq!(world.manager(2).unwrap().info().lid, info.lid);
}

#[test]
fn n_6_a_node_that_was_written_to_by_others_gets_a_master_above_them() {
    let mut world = settled(two_switches(), vec![40, 30, 1, 2, 20]);
    let alien = Mastership { term: 70, master: 99 };
    world.hosts[3].as_mut().unwrap().manager.accept(alien);
    world.run(2000);
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(world.manager(3).unwrap().info().mastership, Mastership { term: 71, master: 20 });
}

#[test]
fn n_3_every_host_knows_which_have_come_and_gone() {
    let mut world = World::off(two_switches(), vec![40, 30, 1, 2, 20], 3);
    let known = |world: &World, node: usize| {
        let members = world.manager(node).unwrap().members().all();
        let known = members.iter().filter(|m| m.known);
        let mut known: Vec<_> = known.map(|m| (m.info.hwid, m.info.lid)).collect();
        known.sort_unstable();
        known
    };
    for node in [4, 3, 2, 1, 0] {
        world.power_on(node);
        check::settle(&mut world, 300, 10_000).unwrap();
    }
    let mut all: Vec<_> = world.hwids.iter().copied().zip(lids(&world)).collect();
    all.sort_unstable();
    for host in [0, 1, 4] {
        assert_eq!(known(&world, host), all, "host {host}");
    }
    world.power_off(0);
    check::settle(&mut world, 300, 10_000).unwrap();
    all.retain(|(hwid, _)| *hwid != 40);
    for host in [1, 4] {
        assert_eq!(known(&world, host), all, "host {host}");
    }
}

#[test]
fn n_6_assignments_outlive_their_master() {
    let mut world = settled(Topology::tree(7), vec![9, 3, 8, 7, 6, 5, 4]);
    let assignments: Vec<u8> = (0..1000u32).map(|n| (n * 7) as u8).collect();
    assert!(!world.set_assignments(0, &assignments), "of a standby");
    assert!(world.set_assignments(1, &assignments));
    check::settle(&mut world, 500, 10_000).unwrap();
    world.power_off(1);
    check::settle(&mut world, 500, 20_000).unwrap();
    for node in [0, 2, 3] {
        assert_eq!(world.manager(node).unwrap().assignments().bytes(), assignments);
    }
    // A master that begins with nothing fetches them.
    world.power_on(1);
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(world.manager(1).unwrap().role(), Role::Master);
    assert_eq!(world.manager(1).unwrap().assignments().bytes(), assignments);
    assert!(!world.set_assignments(1, &[0; 5000]), "more than there is room for");
    assert!(world.set_assignments(1, b""));
    check::settle(&mut world, 500, 20_000).unwrap();
    assert_eq!(world.manager(2).unwrap().assignments().bytes(), b"");
}

#[test]
fn n_3_a_fabric_that_is_too_wide_is_noticed() {
    let mut world = World::new(Topology::chain(36), (1..37).collect(), 3);
    world.run(3000);
    let members = world.manager(0).unwrap().members();
    assert_eq!(members.all().len(), 33);
    assert_eq!(members.left_out(), (false, true));
    for kind in [Kind::Ring, Kind::Torus] {
        let world = settled(Topology::of(kind, 36, 0), (1..37).collect());
        assert_eq!(world.manager(0).unwrap().members().left_out(), (false, false));
    }
}

#[test]
fn n_6_a_standby_that_sees_a_port_in_between_has_it_as_it_is_in_the_end() {
    // A survey of node 2 begins in the 40 ms for which its port is narrow; what it tells the master then is
    // lost, so that the master looks when the port is wide again.
    for at in (0..300).step_by(20) {
        let mut world = settled(Topology::chain(3), vec![10, 20, 30]);
        world.set_wire((0, 0), |wire| wire.width = 4);
        world.run(at);
        world.faults.lost = 1000;
        world.set_wire((2, 1), |wire| wire.width = 2);
        world.run(1);
        world.faults.lost = 0;
        world.run(40);
        world.set_wire((2, 1), |wire| wire.width = 8);
        check::settle(&mut world, 500, 10_000).unwrap_or_else(|why| panic!("{at} ms: {why}"));
    }
}

#[test]
fn n_6_a_master_says_when_its_tables_are_others_than_before() {
    let mut world = settled(Topology::ring(4), vec![10, 20, 30, 40]);
    let settled = |world: &World| world.manager(0).unwrap().settled();
    let first = settled(&world);
    assert!(first.is_some());
    assert_eq!(world.manager(1).unwrap().settled(), None, "a standby has none");
    // Looked at anew, and found as it was.
    world.set_wire((2, 0), |wire| wire.width = 4);
    world.set_wire((2, 0), |wire| wire.width = 8);
    check::settle(&mut world, 500, 10_000).unwrap();
    assert_eq!(settled(&world), first);
    world.set_wire((2, 0), |wire| wire.width = 4);
    world.run(300);
    assert_ne!(settled(&world), first);
    check::settle(&mut world, 500, 10_000).unwrap();
    let second = settled(&world);
    assert!(second.is_some() && second != first);
    assert!(world.set_assignments(0, b"something"));
    assert_eq!(settled(&world), None, "it has something to do");
    check::settle(&mut world, 500, 10_000).unwrap();
    assert!(![None, first, second].contains(&settled(&world)));
}
