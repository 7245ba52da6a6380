// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The seed's own tables, and the whole of the manager in fabrics that are well.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use weft_proto::nm::node::Role;
use weft_sim::{
    check,
    topology::{Kind, Topology},
    world::World,
};

/// Fig. 5, as section 5.2 has it: 2.p0 to 4.p2, 2.p2 to 3.p2.
fn chain_of_fig_5() -> World {
    let mut topology = Topology::new(3);
    topology.join((0, 0), (2, 2));
    topology.join((0, 2), (1, 2));
    World::new(topology, vec![2, 3, 4], 1)
}

/// The ports on the way from one node to another, as the one has found them.
fn ports(world: &World, from: usize, to: u64) -> Vec<u8> {
    let manager = world.manager(from).unwrap();
    manager.members().get(to).unwrap().path.ports().to_vec()
}

#[test]
fn n_3_the_chain_of_fig_5_gives_table_3() {
    let mut world = chain_of_fig_5();
    check::settle(&mut world, 1000, 5000).unwrap();
    let table = [
        (0, 3, vec![2]),
        (0, 4, vec![0]),
        (1, 2, vec![2]),
        (1, 4, vec![2, 0]),
        (2, 2, vec![2]),
        (2, 3, vec![2, 2]),
    ];
    for (from, to, way) in table {
        assert_eq!(ports(&world, from, to), way, "from {from} to {to}");
    }
}

#[test]
fn n_5_the_chain_of_fig_5_gives_table_4() {
    let mut world = chain_of_fig_5();
    check::settle(&mut world, 1000, 5000).unwrap();
    let kinds = [(0, Role::Master, 1), (1, Role::Standby, 3), (2, Role::Standby, 2)];
    for (node, role, lid) in kinds {
        let manager = world.manager(node).unwrap();
        assert_eq!((manager.role(), manager.info().lid), (role, lid));
        assert_eq!(manager.master(), 2);
    }
}

/// The figure is not in the text. Section 4.2 and Table 1 say: A.p0 is B, A.p3 is D; B has A, C at p0
/// and E at p3; F is behind C's p3. What is not said of the ports at the far ends is chosen here, and
/// a link between E and F closes the circle that section 4.2 speaks of: it is found later than the way
/// by C, since C comes before E.
#[test]
fn n_3_the_topology_of_fig_3_gives_table_1() {
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5];
    let mut topology = Topology::new(6);
    for (one, other) in [
        ((a, 0), (b, 1)),
        ((a, 3), (d, 1)),
        ((b, 0), (c, 1)),
        ((b, 3), (e, 1)),
        ((c, 3), (f, 1)),
        ((e, 0), (f, 0)),
    ] {
        assert!(topology.join(one, other));
    }
    let hwids: Vec<u64> = (10..16).collect();
    let mut world = World::new(topology, hwids.clone(), 1);
    check::settle(&mut world, 1000, 5000).unwrap();
    let table: [(usize, &[u8]); 6] =
        [(a, &[]), (b, &[0]), (d, &[3]), (c, &[0, 0]), (e, &[0, 3]), (f, &[0, 0, 3])];
    let found = world.manager(a).unwrap().members().all();
    let found: Vec<(u64, &[u8])> = found.iter().map(|m| (m.info.hwid, m.path.ports())).collect();
    assert_eq!(found, table.map(|(node, way)| (hwids[node], way)).to_vec());
}

#[test]
fn n_6_every_kind_of_fabric_gets_one_master_and_shortest_routes() {
    for kind in Kind::ALL {
        for nodes in [1, 2, 3, 5, 16, 25] {
            let topology = Topology::of(kind, nodes, 7);
            let hwids = (0..nodes as u64).map(|n| 1 + (n * 7919) % 10007).collect();
            let mut world = World::new(topology, hwids, nodes as u64);
            let result = check::settle(&mut world, 500, 10_000);
            assert!(result.is_ok(), "{kind} of {nodes}: {result:?}");
        }
    }
}
