// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Routes through the daemon, with ports that are no QEMU: tables by command and
//! by configuration request, what may program, and that a change is answered when
//! it is in force.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, Port, command};
use serde_json::json;
use std::process::Stdio;
use weft_fabric::wire::{Packet, abi::*};

/// h1 and h2 at a switch, behind it another, which h3 is at.
const FABRIC: &str = r#"
    managers = ["h1", "h2"]
    host = [{ name = "h1", hwid = 11 }, { name = "h2", hwid = 22 }, { name = "h3", hwid = 33 }]
    switch = [
        { name = "s1", ports = 4, blade = "X" },
        { name = "s2", ports = 4, routes = true },
    ]
    link = [
        { ends = ["h1:0", "s1:0"] }, { ends = ["h2:0", "s1:1"] },
        { ends = ["s1:2", "s2:0"] }, { ends = ["s2:1", "h3:0"] },
    ]
"#;
const REMOTE: u16 = WEFT_MAX_LINKS as u16;
const OWN: u64 = WEFT_ROUTE_FROM_SELF as u64;

fn fabric() -> (Daemon, [Port; 3]) {
    let daemon = Daemon::start(FABRIC);
    let ports = ["h1", "h2", "h3"].map(|name| Port::join(&daemon, name).0);
    for (n, port) in ports.iter().enumerate() {
        port.enable();
        port.say(WEFT_FAB_LID, 0, [n as u64 + 1, 0, 0, 0, 0, 0], &[]);
    }
    daemon.json(&["wait", "--links", "--timeout", "30"]);
    (daemon, ports)
}

/// A request for a word of a node's configuration space or tables.
fn config(port: &Port, path: &[u8], space: u32, address: u32, write: Option<(u32, u32)>) -> Packet {
    let ctrl = path.len() as u32 | (space << 8) | if write.is_some() { WEFT_CFG_WRITE } else { 0 };
    let (data, term) = write.unwrap_or((0, 0));
    let arg = [9, ctrl.into(), address.into(), data.into(), term.into(), 0];
    port.say(WEFT_FAB_CONFIG, 0, arg, path);
    let reply = port.expect(WEFT_FAB_CONFIG_REPLY);
    assert_eq!(reply.arg[0], 9);
    reply
}

fn read(port: &Port, path: &[u8], space: u32, address: u32) -> u32 {
    let reply = config(port, path, space, address, None);
    assert_eq!(reply.arg[1] as u32, WEFT_CFG_OK);
    reply.arg[3] as u32
}

fn write(port: &Port, path: &[u8], space: u32, address: u32, data: u32, term: u32) -> u32 {
    config(port, path, space, address, Some((data, term))).arg[1] as u32
}

/// Tables of both switches by command, and h1's own entry.
fn program(daemon: &Daemon, h1: &Port) {
    for (end, vp) in [("s1:0", "1"), ("s1:2", "4"), ("s2:0", "4"), ("s2:1", "2")] {
        daemon.json(&["vp", "set", end, vp, "700"]);
    }
    daemon.json(&["route", "set", "s1", "3", "2"]);
    daemon.json(&["route", "set", "s2", "3", "1"]);
    h1.say(WEFT_FAB_ROUTE, 0, [5, 3 | (3 << 32), 1 << 8, OWN, 0, 8 << 32], &[]);
    let done = h1.expect(WEFT_FAB_ROUTE_ACK);
    assert_eq!((done.arg[0], done.arg[5]), (5, 8 << 32));
}

#[test]
fn a_change_of_tables_is_answered_when_it_is_in_force() {
    let (daemon, [h1, _h2, h3]) = fabric();
    program(&daemon, &h1);
    h1.say(WEFT_FAB_WANT, REMOTE, [3, 0, 0, 0, 0, 0], &[]);
    let up = h1.expect_with_fds(WEFT_FAB_REMOTE_UP);
    assert_eq!((up.packet.link, &up.packet.arg[..2]), (REMOTE, &[3, 2][..]), "hops and gate");
    assert_eq!((up.packet.arg[3], up.fds.len()), (33, 3));

    let walk = daemon.json(&["route", "walk", "h1", "3"]);
    assert_eq!(walk["at"], "h3");
    assert_eq!(walk["hops"][1], json!({"from": "s1:2", "to": "s2:0"}));
    assert_eq!(daemon.json(&["route", "show", "h1"])["remotes"][0]["up"], true);

    // It is taken from h1, which does not confirm yet.
    let del = command(&["route", "del", "s2", "3", "--json", "--dir"])
        .arg(&daemon.dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let down = h1.expect(WEFT_FAB_REMOTE_DOWN);
    assert_eq!(down.arg[..2], [WEFT_STOP_ROUTE.into(), 2]);
    let walk = daemon.json(&["route", "walk", "h1", "3"]);
    assert_eq!((&walk["at"], &walk["why"]), (&json!("s2"), &json!("no_route")));
    let ticket = down.arg[5];
    assert_ne!(ticket, 0);
    h1.say(WEFT_FAB_REMOTE_ACK, REMOTE, [0, 0, 0, 0, 0, ticket], &[]);
    assert!(del.wait_with_output().unwrap().status.success());

    // What is refused from now on is counted at the switch.
    h1.say(WEFT_FAB_DENIED, REMOTE, [0, 1, 5, 0, 0, 0], &[]);
    assert_eq!(read(&h1, &[0, 2], WEFT_SPACE_CONFIG, WEFT_CS_STOPPED + 8 * WEFT_STOP_ROUTE), 5);
    let status = daemon.json(&["status"]);
    assert_eq!(status["switches"][1]["stopped"], json!({"no_route": 5}));
    drop(h3);
}

#[test]
fn a_holder_that_does_not_let_go_is_named() {
    let (daemon, [h1, _h2, _h3]) = fabric();
    program(&daemon, &h1);
    h1.say(WEFT_FAB_WANT, REMOTE, [3, 0, 0, 0, 0, 0], &[]);
    h1.expect_with_fds(WEFT_FAB_REMOTE_UP);
    let out = daemon.cli(&["vp", "del", "s2:1", "2"]);
    assert_eq!(out.status.code(), Some(1));
    let why = String::from_utf8(out.stderr).unwrap();
    assert!(why.contains("h1 still reaches"), "{why}");
}

#[test]
fn a_port_has_one_configuration_request() {
    let (daemon, [h1, h2, _h3]) = fabric();
    program(&daemon, &h1);
    h1.say(WEFT_FAB_WANT, REMOTE, [3, 0, 0, 0, 0, 0], &[]);
    h1.expect_with_fds(WEFT_FAB_REMOTE_UP);
    let ctrl = u64::from(1 | (WEFT_SPACE_ROUTE << 8) | WEFT_CFG_WRITE);
    h2.say(WEFT_FAB_CONFIG, 0, [1, ctrl, 3, 0, 1, 0], &[0]);
    let down = h1.expect(WEFT_FAB_REMOTE_DOWN);
    // It is not answered while h1 has not let go. h1 itself is to wait as well.
    h1.say(WEFT_FAB_CONFIG, 0, [1, ctrl, 3, 0, 2, 0], &[0]);
    h1.say(WEFT_FAB_REMOTE_ACK, REMOTE, [0, 0, 0, 0, 0, down.arg[5]], &[]);
    assert_eq!(h2.expect(WEFT_FAB_CONFIG_REPLY).arg[..2], [1, WEFT_CFG_OK.into()]);
    assert_eq!(h1.expect(WEFT_FAB_CONFIG_REPLY).arg[..2], [1, WEFT_CFG_OK.into()]);

    daemon.json(&["route", "set", "s1", "3", "2"]);
    h1.expect_with_fds(WEFT_FAB_REMOTE_UP);
    h2.say(WEFT_FAB_CONFIG, 0, [2, ctrl, 3, 0, 3, 0], &[0]);
    h1.expect(WEFT_FAB_REMOTE_DOWN);
    h2.say(WEFT_FAB_CONFIG, 0, [3, ctrl, 3, 0, 3, 0], &[0]);
    h2.expect_end();
}

#[test]
fn traffic_is_counted_at_every_cable_of_its_route() {
    let (daemon, [h1, _h2, _h3]) = fabric();
    program(&daemon, &h1);
    h1.say(WEFT_FAB_WANT, REMOTE, [3, 0, 0, 0, 0, 0], &[]);
    h1.expect_with_fds(WEFT_FAB_REMOTE_UP);
    h1.say(WEFT_FAB_TRAFFIC, REMOTE, [2, 128, 1, 8, 1, 0], &[]);
    assert_eq!(read(&h1, &[0, 2], WEFT_SPACE_CONFIG, WEFT_CS_PORT + 0x40 + 0x18), 136);
    let cables = daemon.json(&["traffic"]);
    let passed = json!({"tlps": 3, "bytes": 136, "doorbells": 1});
    let none = json!({"tlps": 0, "bytes": 0, "doorbells": 0});
    for cable in [0, 2, 3] {
        assert_eq!(cables[cable]["traffic"], json!([passed, none]), "{cable}");
    }
    assert_eq!(cables[1]["traffic"], json!([none, none]), "not on its way");
}

#[test]
fn n_8_both_ends_of_each_link_of_a_route_hear_what_it_has_carried() {
    let (daemon, [h1, h2, h3]) = fabric();
    program(&daemon, &h1);
    h1.say(WEFT_FAB_WANT, REMOTE, [3, 0, 0, 0, 0, 0], &[]);
    h1.expect_with_fds(WEFT_FAB_REMOTE_UP);
    h1.say(WEFT_FAB_MOVED, REMOTE, [100, 7, 0, 0, 0, 0], &[]);
    h1.say(WEFT_FAB_MOVED, REMOTE, [1, 0, 0, 0, 0, 0], &[]);
    for carried in [[100, 7], [101, 7]] {
        let [out, into] = carried;
        assert_eq!(h1.expect(WEFT_FAB_MOVED).arg[..2], [out, into]);
        assert_eq!(h3.expect(WEFT_FAB_MOVED).arg[..2], [into, out]);
    }
    // Not on its way: what it hears of is its own.
    h2.say(WEFT_FAB_MOVED, 0, [5, 0, 0, 0, 0, 0], &[]);
    assert_eq!(h2.expect(WEFT_FAB_MOVED).arg[..2], [5, 0]);
}

#[test]
fn configuration_space_tells_what_a_node_is() {
    let (_daemon, [h1, _h2, _h3]) = fabric();
    let space = WEFT_SPACE_CONFIG;
    assert_eq!(read(&h1, &[0], space, WEFT_CS_ID), (WEFT_DEVICE_ID_SWITCH << 16) | WEFT_VENDOR_ID);
    assert_eq!(read(&h1, &[0], space, WEFT_CS_PORTS), 4, "four ports, in by 0");
    assert_eq!(read(&h1, &[0, 2], space, WEFT_CS_PORTS), 4, "in by 0 as well");
    assert_eq!(read(&h1, &[0, 1], space, WEFT_CS_ID), (WEFT_DEVICE_ID_PF << 16) | WEFT_VENDOR_ID);
    assert_eq!(read(&h1, &[0, 1], space, WEFT_CS_HWID), 22);
    assert_eq!(read(&h1, &[0, 2, 1], space, WEFT_CS_HWID), 33);
    let status = |port: u32| read(&h1, &[0], space, WEFT_CS_PORT + port * WEFT_CS_PORT_STRIDE);
    assert_eq!(
        status(0),
        WEFT_LINK_UP | WEFT_LINK_PRESENT | WEFT_LINK_ROLE_EP | (4 << 4) | (8 << 8)
    );
    assert_eq!(status(2) & WEFT_LINK_SWITCH, WEFT_LINK_SWITCH);
    assert_eq!(status(3), 0, "nothing is plugged in");

    let vpd: Vec<u8> = (0..WEFT_CS_VPD_BYTES / 4)
        .flat_map(|n| read(&h1, &[0], space, WEFT_CS_VPD + 4 * n).to_le_bytes())
        .collect();
    assert_eq!((vpd[0], &vpd[3..14]), (0x82, &b"Weft switch"[..]));
    let find = |key: &[u8]| vpd.windows(key.len()).position(|w| w == key).unwrap();
    assert_eq!(&vpd[find(b"V0")..][..4], b"V0\x01X", "the blade");
    let checksum = find(b"RV") + 3;
    assert_eq!(vpd[..=checksum].iter().fold(0u8, |sum, b| sum.wrapping_add(*b)), 0);

    for (path, hops) in [(&[3][..], 0), (&[0, 3], 1), (&[0, 1, 1], 2), (&[0, 9], 1)] {
        let reply = config(&h1, path, space, WEFT_CS_ID, None);
        assert_eq!((reply.arg[1] as u32, reply.arg[2]), (WEFT_CFG_NO_PATH, hops), "{path:?}");
    }
}

#[test]
fn ports_of_hosts_pass_on_what_reads_registers_and_nothing_else() {
    let (_daemon, [h1, _h2, _h3]) = fabric();
    // Into h2 and out again, to h3.
    let (around, there) = (&[0, 1, 0, 2, 1], &[0, 1, 0]);
    assert_eq!(read(&h1, around, WEFT_SPACE_CONFIG, WEFT_CS_HWID), 33);
    assert_eq!(read(&h1, there, WEFT_SPACE_CONFIG, WEFT_CS_PORTS), 4 | (1 << 8));
    for (space, write) in [
        (WEFT_SPACE_ROUTE, None),
        (WEFT_SPACE_VP, None),
        (WEFT_SPACE_PLUG, None),
        (WEFT_SPACE_CONFIG, Some((0, 9))),
        (WEFT_SPACE_ROUTE, Some((WEFT_TABLE_VALID | 2, 9))),
    ] {
        let reply = config(&h1, there, space, 3, write);
        assert_eq!((reply.arg[1] as u32, reply.arg[2]), (WEFT_CFG_NO_PATH, 2), "{space} {write:?}");
    }
    assert_eq!(read(&h1, &[0], WEFT_SPACE_CONFIG, WEFT_CS_TERM), 0, "nothing was written");
}

#[test]
fn the_highest_term_programs() {
    let (daemon, [h1, h2, h3]) = fabric();
    let (route, vp) = (WEFT_SPACE_ROUTE, WEFT_SPACE_VP);
    let entry = WEFT_TABLE_VALID | 2;
    assert_eq!(write(&h1, &[0], route, 3, entry, 5), WEFT_CFG_OK);
    assert_eq!(read(&h2, &[0], route, 3), entry);
    assert_eq!(read(&h2, &[0], WEFT_SPACE_CONFIG, WEFT_CS_MASTER), 11);
    assert_eq!(read(&h2, &[0], WEFT_SPACE_CONFIG, WEFT_CS_TERM), 5);

    // An earlier term, and this term by another: refused, with the term in force.
    for term in [0, 4, 5] {
        let reply = config(&h2, &[0], route, 3, Some((0, term)));
        assert_eq!((reply.arg[1] as u32, reply.arg[3]), (WEFT_CFG_STALE, 5), "term {term}");
    }
    assert_eq!(read(&h1, &[0], route, 3), entry, "nothing has changed");
    assert_eq!(write(&h1, &[0], vp, (2 << 8) | 4, WEFT_TABLE_VALID | 700, 5), WEFT_CFG_OK);
    assert_eq!(write(&h2, &[0], route, 3, 0, 6), WEFT_CFG_OK, "a new master");
    assert_eq!(write(&h1, &[0], vp, (2 << 8) | 4, 0, 5), WEFT_CFG_STALE, "the old one");
    assert_eq!(read(&h1, &[0], vp, (2 << 8) | 4), WEFT_TABLE_VALID | 700);
    assert_eq!(read(&h1, &[0, 2], WEFT_SPACE_CONFIG, WEFT_CS_TERM), 0, "each switch for itself");

    // A port that is no manager, hosts, and what makes no sense.
    assert_eq!(write(&h3, &[0, 0], route, 3, entry, 99), WEFT_CFG_READ_ONLY);
    assert_eq!(write(&h2, &[0, 0], route, 3, entry, 99), WEFT_CFG_READ_ONLY);
    assert_eq!(write(&h2, &[0], WEFT_SPACE_CONFIG, WEFT_CS_TERM, 0, 99), WEFT_CFG_READ_ONLY);
    for (space, address, data) in [
        (route, 0, entry),
        (route, 3, WEFT_TABLE_VALID | 4),
        (vp, 4 << 8, WEFT_TABLE_VALID | 1),
        (vp, 16, WEFT_TABLE_VALID | 1),
        (vp, 1, WEFT_TABLE_VALID),
        (3, 0, 0),
    ] {
        assert_eq!(write(&h2, &[0], space, address, data, 6), WEFT_CFG_BAD, "{space} {address}");
    }
    assert_eq!(config(&h2, &[0, 0], route, 3, None).arg[1] as u32, WEFT_CFG_BAD);

    // The administrator is not asked for a term.
    daemon.json(&["route", "set", "s1", "3", "1"]);
    assert_eq!(read(&h1, &[0], route, 3), WEFT_TABLE_VALID | 1);
}

#[test]
fn commands_name_what_is_wrong() {
    let (daemon, _ports) = fabric();
    for (args, why) in [
        (&["route", "show", "s9"][..], "called \"s9\""),
        (&["route", "set", "h1", "3", "1"], "h1 is a host"),
        (&["route", "set", "s1", "3", "4"], "ports 0 to 3"),
        (&["route", "set", "s1", "0", "1"], "LID 0"),
        (&["route", "walk", "s1", "3"], "no host is called \"s1\""),
        (&["vp", "set", "s1:4", "1", "7"], "ports 0 to 3"),
        (&["vp", "set", "s1:0", "16", "7"], "VPs 0 to 15"),
        (&["vp", "set", "s1:0", "1", "0"], "VH 0"),
        (&["vp", "set", "s1", "1", "7"], "NODE:PORT"),
    ] {
        let out = daemon.cli(args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(text.contains(why), "{args:?}: {text}");
    }
    daemon.json(&["vp", "set", "s1:0", "1", "7"]);
    let out = daemon.cli(&["vp", "set", "s1:0", "2", "7"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("another VP at s1:0"));
    let shown = daemon.cli(&["vp", "show", "s1"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "PORT  VP  VH\n0     1   7\n");
}
