// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A shared endpoint at work: hosts with real memory give it copies and checksums to
//! do, by every combination of pushed and fetched, and get in each other's way nowhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::pcim::Pcim;
use common::queue::{ENTRIES, FROM, OWN_FROM, OWN_TO, Queue, TO, eventually, pattern};
use common::world::{OPEN_AT, World};
use weft_fabric::wire::abi::*;
use weft_proto::crc::crc32c;
use weft_proto::mr::plan::{Change, Entry};

/// Two hosts at a switch, behind it another with the endpoint.
const FABRIC: &str = r#"
    host = [{ name = "h1", hwid = 11 }, { name = "h2", hwid = 22 }]
    endpoint = [{ name = "ep", kind = "copy", ves = 3, functions = 2, serial = "EP" }]
    switch = [
        { name = "s1", ports = 4, routes = true },
        { name = "s2", ports = 4, routes = true },
    ]
    link = [
        { ends = ["h1:0", "s1:0"] }, { ends = ["h2:0", "s1:1"] },
        { ends = ["s1:2", "s2:0"] }, { ends = ["s2:1", "ep:0"] },
    ]
"#;
/// Both hosts have a virtual endpoint each.
fn shared() -> (World, Pcim, [Queue; 2]) {
    let mut world = World::start(FABRIC, &["h1", "h2"]);
    let mut pcim = Pcim::new(0, 1);
    pcim.discover(&mut world);
    pcim.assign("EP", 0, "h1");
    pcim.assign("EP", 1, "h2");
    pcim.carry_out(&mut world);
    let queues = [0, 1].map(|host| Queue::new(&mut world, &pcim, host, host as u8, 0, 0));
    (world, pcim, queues)
}

#[test]
fn q_1_a_function_says_what_it_is_and_where_its_queues_stand() {
    let (world, _pcim, [mut queue, second]) = shared();
    assert_eq!(queue.get(&world, WEFT_EP_ID).to_le_bytes(), *b"WFEP");
    assert_eq!(queue.get(&world, WEFT_EP_CAP), 7 | (12 << 8) | (24 << 16) | (1 << 24));
    assert_eq!(second.get(&world, WEFT_EP_FUNCTION), 1, "function 0 of virtual endpoint 1");
    for seed in 0..20 {
        queue.works(&world, seed);
    }
    let group = |queue: &Queue, group, register| queue.get(&world, group + register);
    eventually("the count of completions", || group(&queue, WEFT_EP_CQ, WEFT_EP_Q_DOORBELL) == 20);
    assert_eq!(group(&queue, WEFT_EP_WQ, WEFT_EP_Q_TAKEN), 20);
    assert_eq!(group(&queue, WEFT_EP_WQ, WEFT_EP_Q_OFFSET), (20 % 16) * WEFT_EP_WQE_BYTES);
    eventually("the offset of the next completion", || {
        group(&queue, WEFT_EP_CQ, WEFT_EP_Q_OFFSET) == (20 % 16) * WEFT_EP_CQE_BYTES
    });
}

#[test]
fn q_3_every_combination_of_push_and_pull_works_and_is_held_to() {
    let (mut world, pcim, _queues) = shared();
    for mode in 0..8 {
        let bit = |n: u32, bits| if mode & (1 << n) != 0 { bits } else { 0 };
        let mode = bit(0, WEFT_EP_WQE_PUSH) | bit(1, WEFT_EP_DATA_PUSH) | bit(2, WEFT_EP_CQE_PULL);
        let mut queue = Queue::new(&mut world, &pcim, 0, 0, 1, mode);
        for seed in 0..20 {
            queue.works(&world, seed);
        }
        // Data where the protocol does not have them are refused, whatever may reach them.
        queue.mode ^= WEFT_EP_DATA_PUSH;
        let own = queue.mode & WEFT_EP_DATA_PUSH != 0;
        let (from, to) = if own { (OWN_FROM, OWN_TO) } else { (FROM, TO) };
        queue.post(&world, WEFT_EP_COPY, &[(from, 64)], &[(to, 64)]);
        queue.ring(&world);
        assert_eq!(queue.wait(&world), (1020, WEFT_EP_PROTOCOL, 0, 0), "mode {mode:#x}");
        queue.mode ^= WEFT_EP_DATA_PUSH;
        queue.works(&world, 99);
        queue.disable(&world);
    }
}

#[test]
fn mr_6_two_hosts_use_it_at_the_same_time_and_see_only_their_own() {
    let (mut world, _pcim, mut queues) = shared();
    // Each sees the memory of its own virtual endpoint, and at an address of its own.
    for (host, queue) in queues.iter().enumerate() {
        let seen = &world.hosts[host].seen[&queue.lid];
        let bytes = 2 * u64::from(WEFT_EP_FUNCTION_BYTES);
        let open: Vec<_> = seen.apertures.values().map(|(at, _, len)| (*at, *len)).collect();
        assert_eq!(open, [(queue.at, bytes)]);
    }
    // Both at once, long copies of one beside short ones of the other, in pieces.
    let long = pattern(1, 0x40000);
    world.hosts[0].put(FROM, &long);
    let mut short = 0;
    for round in 0..10 {
        let (from, to) =
            ([(FROM, 0x1fff8), (FROM + 0x1fff8, 0x20008)], [(TO, 0x30), (TO + 0x30, 0x3ffd0)]);
        world.hosts[0].put(TO, &[0; 0x40000]);
        queues[0].post(&world, WEFT_EP_COPY_CRC32C, &from, &to);
        queues[0].ring(&world);
        let done = loop {
            queues[1].works(&world, round);
            short += 1;
            if let Some(done) = queues[0].completed(&world) {
                break done;
            }
        };
        let sum = crc32c(long.iter().copied());
        assert_eq!(done, (1000 + u64::from(round), WEFT_EP_OK, sum, 0x40000));
        assert!(world.hosts[0].get(TO, 0x40000) == long);
    }
    assert!(short >= 10);
    // An address of the other's memory is an address of one's own.
    world.hosts[1].put(FROM, b"a secret of the second host.....");
    queues[0].post(&world, WEFT_EP_COPY, &[(FROM, 32)], &[(TO, 32)]);
    queues[0].ring(&world);
    assert_eq!(queues[0].wait(&world).1, WEFT_EP_OK);
    assert!(world.hosts[0].get(TO, 32) == long[..32]);
    world.settle();
}

#[test]
fn an_endpoint_that_is_stalled_works_on_when_that_is_cleared() {
    let (mut world, mut pcim, [mut queue, mut other]) = shared();
    queue.works(&world, 1);
    world.daemon.json(&["inject", "stalled-endpoint", "ep"]);
    queue.post(&world, WEFT_EP_COPY, &[(FROM, 64)], &[(TO, 64)]);
    queue.ring(&world);
    // It obeys orders, and looks for work between what these take.
    pcim.assign("EP", 2, "h1");
    pcim.carry_out(&mut world);
    assert_eq!(queue.completed(&world), None);
    world.daemon.json(&["inject", "clear"]);
    assert_eq!(queue.wait(&world).1, WEFT_EP_OK);
    other.works(&world, 2);
}

#[test]
fn a_wqe_that_makes_no_sense_hurts_no_other() {
    let (world, _pcim, [mut queue, mut other]) = shared();
    type Segments<'a> = &'a [(u64, u64)];
    let cases: [(u32, Segments<'_>, Segments<'_>, u32); 9] = [
        (99, &[], &[], WEFT_EP_BAD_WQE),
        (WEFT_EP_COPY, &[(FROM, 8)], &[], WEFT_EP_BAD_WQE),
        (WEFT_EP_CRC32C, &[(FROM, 8)], &[(TO, 8)], WEFT_EP_BAD_WQE),
        (WEFT_EP_CRC32C, &[(FROM, 8); 8], &[], WEFT_EP_BAD_WQE),
        (WEFT_EP_CRC32C, &[(FROM, 0)], &[], WEFT_EP_BAD_WQE),
        (WEFT_EP_COPY, &[(FROM, 9)], &[(TO, 8)], WEFT_EP_TOO_LONG),
        (WEFT_EP_CRC32C, &[(0, u64::MAX)], &[], WEFT_EP_TOO_LONG),
        (WEFT_EP_CRC32C, &[(OPEN_AT - 8, 16)], &[], WEFT_EP_UNREACHABLE),
        (WEFT_EP_CRC32C, &[(OPEN_AT + common::RAM - 8, 16)], &[], WEFT_EP_UNREACHABLE),
    ];
    for (op, sources, dests, status) in cases {
        queue.post_case(&world, op, sources, dests);
        queue.ring(&world);
        assert_eq!(queue.wait(&world).1, status, "{op} {sources:x?} {dests:x?}");
    }
    queue.post(&world, WEFT_EP_NOP, &[], &[]);
    queue.ring(&world);
    assert_eq!(queue.wait(&world).1, WEFT_EP_OK);
    queue.works(&world, 1);
    other.works(&world, 2);
}

#[test]
fn a_queue_that_is_set_up_wrongly_or_overrun_says_so() {
    let (world, _pcim, [mut queue, mut other]) = shared();
    let failed = |why: u32| why << WEFT_EP_FAILED.trailing_zeros();
    let [wq, cq] = queue.queues().map(|at| at as u32);
    for (register, value) in [
        (WEFT_EP_WQ + WEFT_EP_Q_BASE, wq + 8),
        (WEFT_EP_WQ + WEFT_EP_Q_LIMIT, wq + 3 * WEFT_EP_WQE_BYTES - 1),
        (WEFT_EP_CQ + WEFT_EP_Q_LIMIT, cq - 1),
        (WEFT_EP_CQ + WEFT_EP_Q_LIMIT + 4, 77),
    ] {
        queue.disable(&world);
        queue.enable(&world);
        queue.disable(&world);
        queue.set(&world, register, value);
        queue.set(&world, WEFT_EP_CTRL, WEFT_EP_ENABLE);
        queue.ring(&world);
        queue.status_is(&world, failed(WEFT_EP_FAIL_SETUP));
    }
    queue.enable(&world);
    queue.set(&world, WEFT_EP_WQ + WEFT_EP_Q_DOORBELL, ENTRIES as u32 + 1);
    queue.ring(&world);
    queue.status_is(&world, failed(WEFT_EP_FAIL_OVERRUN));
    queue.enable(&world);
    queue.works(&world, 3);
    other.works(&world, 4);
}

#[test]
fn completions_that_are_not_taken_stop_the_queue_and_lose_nothing() {
    let (world, _pcim, [mut queue, _other]) = shared();
    for _ in 0..ENTRIES {
        queue.post(&world, WEFT_EP_NOP, &[], &[]);
    }
    queue.ring(&world);
    let passed = |queue: &Queue| queue.get(&world, WEFT_EP_CQ + WEFT_EP_Q_DOORBELL);
    eventually("a full queue", || passed(&queue) == ENTRIES as u32);
    for _ in 0..ENTRIES {
        queue.post(&world, WEFT_EP_NOP, &[], &[]);
    }
    queue.ring(&world);
    for n in 0..2 * ENTRIES {
        assert_eq!(queue.wait(&world).0, 1000 + n);
        queue.ring(&world);
    }
}

/// What a host's WQE comes to when something on the way is missing.
fn stops(world: &World, queue: &mut Queue) {
    queue.post(world, WEFT_EP_CRC32C, &[(FROM, 64)], &[]);
    queue.ring(world);
    let failed = WEFT_EP_FAIL_WQ << WEFT_EP_FAILED.trailing_zeros();
    queue.status_is(world, failed);
}

/// What traffic goes by.
#[derive(Debug)]
enum Step {
    Entry(Entry),
    Route((u64, u32), u8),
}

impl Step {
    fn set(&self, world: &mut World, pcim: &Pcim, put: bool) {
        match *self {
            Step::Entry(entry) if put => pcim.write(world, Change::Put(entry)),
            Step::Entry(entry) => pcim.write(world, Change::Take(entry)),
            Step::Route(at, port) => pcim.route(world, at, port, put),
        }
    }
}

#[test]
fn mr_7_an_entry_of_any_kind_less_stops_exactly_that_traffic() {
    let (mut world, pcim, [mut first, mut second]) = shared();
    let lid = first.lid;
    first.works(&world, 0);
    second.works(&world, 0);
    let (h1, vh, own) = (pcim.named("h1"), pcim.hierarchy("h1"), world.hosts[0].lid);
    let mut kinds = [0; 5];
    // What is the first host's alone, and whether the endpoint is out of its reach without
    // it, or it out of the endpoint's. The way to the endpoint is both hosts'; the rest is
    // the second's.
    let entries = pcim.entries.iter().filter_map(|entry| {
        let (kind, away) = match *entry {
            Entry::Plane { vh: of, .. } if of == vh => (0, true),
            Entry::Open { root, .. } if root == h1 => (2, false),
            Entry::Own { root, .. } if root == h1 => (3, true),
            Entry::Base { root: of, .. } if of == own => (4, true),
            _ => return None,
        };
        Some((kind, away, Step::Entry(*entry)))
    });
    let routes = pcim.routes.iter().filter(|((_, lid), _)| *lid == own);
    let routes = routes.map(|(at, port)| (1, false, Step::Route(*at, *port)));
    for (kind, away, step) in entries.chain(routes) {
        kinds[kind] += 1;
        step.set(&mut world, &pcim, false);
        let seen = world.hosts[0].seen.get(&lid);
        assert_eq!(seen.is_some_and(|s| !s.apertures.is_empty()), !away, "{step:?}");
        if !away {
            stops(&world, &mut first);
        }
        // It is the same for the second host, at any moment.
        second.works(&world, 5);
        step.set(&mut world, &pcim, true);
        world.until("the endpoint to be open again", |hosts| {
            hosts[0].seen.get(&lid).is_some_and(|s| !s.apertures.is_empty())
        });
        // What was gone both ways comes back one way first: until it works, it fails.
        eventually("the way back", || {
            first.enable(&world);
            first.post(&world, WEFT_EP_NOP, &[], &[]);
            first.ring(&world);
            let mut known = false;
            eventually("an end", || {
                known = first.completed(&world).is_some();
                known || first.get(&world, WEFT_EP_STATUS) != WEFT_EP_ENABLED
            });
            known
        });
        first.works(&world, 6);
    }
    assert_eq!(kinds, [4, 2, 1, 1, 1], "each kind was there");
    // The route to the endpoint: it stops both hosts, at that switch.
    let (at, port) = pcim.routes.iter().find(|((_, to), _)| *to == lid).unwrap();
    pcim.route(&mut world, *at, *port, false);
    assert!(world.hosts.iter().all(|h| !h.seen.contains_key(&lid)));
}

/// What a function does in HOLD, that has its queues, or some of them, in its own memory or in the host's.
fn holds(mode: u32) {
    const BYTES: u64 = 0x40000;
    let (mut world, pcim, [mut first, mut second]) = shared();
    first.mode = WEFT_EP_HOLD | mode;
    first.enable(&world);
    let data = pattern(3, BYTES as usize);
    world.hosts[0].put(FROM, &data);
    world.hosts[0].put(TO, &[0; BYTES as usize]);
    let sum = crc32c(data.iter().copied());
    let post = |world: &World, queue: &mut Queue| {
        queue.post(world, WEFT_EP_COPY_CRC32C, &[(FROM, BYTES)], &[(TO, BYTES)]);
        queue.ring(world);
    };
    post(&world, &mut first);
    second.works(&world, 1);
    assert_eq!(first.completed(&world), None, "the host has agreed to no route");
    first.go(&world);
    assert_eq!(first.wait(&world), (1000, WEFT_EP_OK, sum, BYTES));
    let own = world.hosts[0].lid;
    let back: Vec<_> = pcim.routes.iter().filter(|((_, lid), _)| *lid == own).collect();
    for round in 0..5u64 {
        // Some are done, one is under way, some wait.
        for _ in 0..3 {
            post(&world, &mut first);
        }
        let route = first.get(&world, WEFT_EP_ROUTE);
        let (at, port) = back[round as usize % back.len()];
        pcim.route(&mut world, *at, *port, false);
        eventually("no route", || first.get(&world, WEFT_EP_ROUTE) == 0);
        post(&world, &mut first);
        second.works(&world, 5);
        first.status_is(&world, WEFT_EP_ENABLED);
        let before = first.get(&world, WEFT_EP_WQ + WEFT_EP_Q_TAKEN);
        pcim.route(&mut world, *at, *port, true);
        eventually("another route", || first.get(&world, WEFT_EP_ROUTE) > route);
        // It does nothing yet, and says that it has looked.
        // What is open, as soon as the endpoint knows that, what is not, and nothing.
        let probe = [OPEN_AT, OPEN_AT - 8, 0][round as usize % 3];
        first.set(&world, WEFT_EP_PROBE, probe as u32);
        first.set(&world, WEFT_EP_PROBE + 4, (probe >> 32) as u32);
        let mut token = WEFT_EP_ROUTE_LAST;
        eventually("what is open to be reached", || {
            token += 1;
            first.set(&world, WEFT_EP_GO, token);
            first.ring(&world);
            eventually("an answer", || first.get(&world, WEFT_EP_GO_SEEN) == token);
            first.get(&world, WEFT_EP_PROBED) == u32::from(probe == OPEN_AT)
        });
        second.works(&world, 6);
        assert_eq!(first.get(&world, WEFT_EP_WQ + WEFT_EP_Q_TAKEN), before);
        first.go(&world);
        for n in 0..4 {
            let cookie = 1001 + 4 * round + n;
            assert_eq!(first.wait(&world), (cookie, WEFT_EP_OK, sum, BYTES));
        }
        assert!(world.hosts[0].get(TO, BYTES as usize) == data);
        world.hosts[0].put(TO, &[0; BYTES as usize]);
    }
    // The host can stop it at any time, and end it then.
    post(&world, &mut first);
    let token = WEFT_EP_ROUTE_LAST + 99;
    first.set(&world, WEFT_EP_GO, token);
    first.ring(&world);
    eventually("an answer", || first.get(&world, WEFT_EP_GO_SEEN) == token);
    first.disable(&world);
    assert_eq!(first.get(&world, WEFT_EP_GO_SEEN), 0, "the next one has seen nothing yet");
    first.enable(&world);
    first.go(&world);
    post(&world, &mut first);
    assert_eq!(first.wait(&world), (1000, WEFT_EP_OK, sum, BYTES));
}

#[test]
fn hp_2_a_function_that_holds_goes_on_where_it_was_by_another_route() {
    for mode in [0, WEFT_EP_WQE_PUSH, WEFT_EP_CQE_PULL, WEFT_EP_WQE_PUSH | WEFT_EP_CQE_PULL] {
        holds(mode);
    }
}

#[test]
fn mr_5_what_a_host_opens_for_reading_is_not_written() {
    let (mut world, _pcim, [_first, mut second]) = shared();
    let lid = second.lid;
    // Completions are read at the endpoint, so that only data meet the host's entry.
    second.mode = WEFT_EP_CQE_PULL;
    let entry =
        world.daemon.json(&["route", "show", "h2"])["routes"][0]["vp"].as_u64().unwrap() as u8;
    world.hosts[1].open_as(lid, Some(entry), WEFT_RIGHT_READ);
    world.settle();
    second.enable(&world);
    second.post(&world, WEFT_EP_CRC32C, &[(FROM, 64)], &[]);
    second.post(&world, WEFT_EP_COPY, &[(FROM, 64)], &[(TO, 64)]);
    second.ring(&world);
    assert_eq!(second.wait(&world).1, WEFT_EP_OK);
    assert_eq!(second.wait(&world).1, WEFT_EP_UNREACHABLE);
    world.until("the refusal to be reported", |hosts| hosts[1].denied == 1);
}

#[test]
fn mr_7_a_virtual_endpoint_is_wiped_before_another_host_has_it() {
    let (mut world, mut pcim, [mut first, _second]) = shared();
    first.works(&world, 1);
    first.write(&world, true, OWN_FROM, b"what the first host leaves behind");
    pcim.assignments.remove(0);
    pcim.carry_out(&mut world);
    assert!(!world.hosts[0].seen.contains_key(&first.lid));
    pcim.assign("EP", 0, "h2");
    pcim.carry_out(&mut world);
    let lid = first.lid;
    world.until("both virtual endpoints to be the second host's", |hosts| {
        hosts[1].seen.get(&lid).is_some_and(|s| s.apertures.len() == 2)
    });
    let mut moved = first.moved(1);
    assert_eq!(moved.read(&world, true, OWN_FROM, 36), [0; 36]);
    assert_eq!(moved.get(&world, WEFT_EP_CTRL), 0, "and is not enabled");
    moved.enable(&world);
    moved.works(&world, 2);
}

#[test]
fn mr_7_a_base_function_obeys_the_highest_term_and_refuses_nonsense() {
    let (mut world, _pcim, _queues) = shared();
    let path = [0, 2, 1];
    let base = WEFT_SPACE_BASE;
    let ve = |n: u32, register| (n << 8) | register;
    let mut write =
        |host, address, data, term| world.config(host, &path, base, address, Some((data, term)));
    assert_eq!(write(1, ve(2, WEFT_BASE_ROOT), 2, 0), (WEFT_CFG_STALE, 1));
    assert_eq!(write(1, ve(2, WEFT_BASE_ROOT), 2, 1), (WEFT_CFG_STALE, 1), "another's term");
    let valid = WEFT_TABLE_VALID;
    for (address, data, why) in [
        (ve(2, WEFT_BASE_VE), valid | 5, "no host to work for"),
        (ve(3, WEFT_BASE_VE), 0, "no such virtual endpoint"),
        (ve(0, WEFT_BASE_ROOT), 2, "it is in use"),
        (ve(0, WEFT_BASE_VE), valid | 9, "it would move"),
        (ve(2, WEFT_BASE_VE), valid | 16, "no such plane"),
        (ve(0, 0x40), 0, "no such register"),
    ] {
        assert_eq!(write(0, address, data, 1).0, WEFT_CFG_BAD, "{why}");
    }
    assert_eq!(write(0, ve(0, WEFT_BASE_FUNCTIONS), 0, 1).0, WEFT_CFG_READ_ONLY);
    // A plane has one root complex.
    let taken = world.read(0, &path, base, ve(1, WEFT_BASE_VE));
    let mut write =
        |host, address, data, term| world.config(host, &path, base, address, Some((data, term))).0;
    assert_eq!(write(0, ve(2, WEFT_BASE_ROOT), 77, 1), WEFT_CFG_OK);
    assert_eq!(write(0, ve(2, WEFT_BASE_VE), taken, 1), WEFT_CFG_BAD);
    // A new master has its word, and the old one is told.
    assert_eq!(write(1, ve(2, WEFT_BASE_ROOT), 2, 5), WEFT_CFG_OK);
    assert_eq!(write(1, ve(2, WEFT_BASE_VE), taken, 5), WEFT_CFG_OK);
    assert_eq!(write(0, ve(2, WEFT_BASE_VE), 0, 1), WEFT_CFG_STALE);
    assert_eq!(world.read(0, &path, WEFT_SPACE_CONFIG, WEFT_CS_TERM), 5);
    assert_eq!(world.read(0, &path, WEFT_SPACE_CONFIG, WEFT_CS_MASTER), 22);
    assert_eq!(world.read(0, &path, base, ve(2, WEFT_BASE_FUNCTIONS)), 4 | (2 << 8));
}

#[test]
fn a_base_function_finishes_one_write_before_it_takes_the_next() {
    let (mut world, _pcim, [_first, mut second]) = shared();
    let ctrl = 3 | (WEFT_SPACE_BASE << 8) | WEFT_CFG_WRITE;
    let path = [0, 2, 1];
    let ask = |world: &World, host: usize, address: u32, term: u64| {
        let arg = [9, ctrl.into(), address.into(), 0, term, 0];
        world.hosts[host].port.say(WEFT_FAB_CONFIG, 0, arg, &path);
    };
    // It takes the first host's part away, which has not let go; a new master has to wait.
    ask(&world, 0, WEFT_BASE_VE, 1);
    ask(&world, 1, 2 << 8, 2);
    let reply = world.hosts[1].port.expect(WEFT_FAB_CONFIG_REPLY);
    assert_eq!(reply.arg[1], u64::from(WEFT_CFG_BUSY_THERE));
    let lid = second.lid;
    world.until("the first host to let go", |hosts| hosts[0].seen[&lid].apertures.is_empty());
    let mut busy = WEFT_CFG_BUSY_THERE;
    while busy == WEFT_CFG_BUSY_THERE {
        busy = world.config(1, &path, WEFT_SPACE_BASE, 2 << 8, Some((0, 2))).0;
    }
    assert_eq!(busy, WEFT_CFG_OK);
    second.works(&world, 1);
}

#[test]
fn no_node_can_pass_for_an_endpoint() {
    let daemon = common::Daemon::start(FABRIC);
    let port = common::Port::connect(&daemon);
    let hello = common::Port::hello_packet("ep");
    port.send_with(&hello, &port.fds.iter().collect::<Vec<_>>());
    let refused = port.expect(WEFT_FAB_REFUSED);
    let why = String::from_utf8_lossy(&refused.data).into_owned();
    assert!(why.contains("ep is an endpoint"), "{why}");
}
