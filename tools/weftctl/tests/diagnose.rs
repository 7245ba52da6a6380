// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The checks of `diagnose`, fed with what guests have recorded and with changes of
//! that; the collector, fed with folders that look like a host.

#![allow(clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use weftctl::diagnose::snapshot::{Bar, Family, Function, Link, Manager, Port, Rate, Vf};
use weftctl::diagnose::{
    Finding, Level, Snapshot, collect, diagnose, is_settling, is_wrong, picture,
};
use weftctl::multiroot::{Assignment, Component, Given, Hierarchy, Hwid, Known, Place, State};
use weftctl::tree;

fn recorded(name: &str) -> Snapshot {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnose");
    let text = fs::read_to_string(dir.join(name).with_extension("json")).expect("a record");
    serde_json::from_str(&text).expect("JSON")
}

fn ids(found: &[Finding], level: Level) -> Vec<&'static str> {
    found.iter().filter(|f| f.level == level).map(|f| f.id).collect()
}

/// A change of a record, and the one finding above a note that has to come of it.
type Case = (&'static str, fn(&mut Snapshot), &'static str, Level, &'static str);

fn check(cases: &[Case]) {
    for (record, change, id, level, word) in cases {
        let mut snapshot = recorded(record);
        change(&mut snapshot);
        let found = diagnose(&snapshot);
        let wrong: Vec<_> = found.iter().filter(|f| f.level != Level::Note).collect();
        assert_eq!(wrong.len(), 1, "{id}: {found:?}");
        assert_eq!((wrong[0].id, wrong[0].level), (*id, *level), "{found:?}");
        let said = format!("{} {} {}", wrong[0].at, wrong[0].what, wrong[0].mend);
        assert!(said.contains(word), "{id} does not say {word:?}: {said}");
        assert!(!wrong[0].mend.is_empty(), "{id} says nothing of how to mend it");
        assert!(is_wrong(&found));
        for utf8 in [false, true] {
            let drawn = picture(&snapshot, &found, utf8).join("\n");
            let mark = if utf8 { '✗' } else { 'X' };
            // A link that waits, or is bad, has a mark of its own.
            let marked = drawn.contains(mark) || drawn.contains('?') || drawn.contains(id);
            assert!(
                *level != Level::Fault || wrong[0].at.to_string() == "host" || marked,
                "{drawn}"
            );
            assert!(utf8 || drawn.is_ascii(), "{drawn}");
        }
    }
}

fn function(s: &mut Snapshot) -> &mut Function {
    s.functions.first_mut().expect("a function")
}

fn port(s: &mut Snapshot) -> &mut Port {
    function(s).port.as_mut().expect("a port")
}

fn link(s: &mut Snapshot) -> &mut Link {
    port(s).links.first_mut().expect("a link")
}

fn aer(s: &mut Snapshot, severity: &str) {
    let counts = [("DLP".to_owned(), 3)].into();
    function(s).aer.insert(severity.into(), counts);
}

/// The log ends with a probe of the port.
fn failed(s: &mut Snapshot, lines: &[&str]) {
    let log = s.log.as_mut().expect("a log");
    log.extend(lines.iter().map(|line| format!("weft 0000:01:00.0: {line}")));
}

/// A virtual function that has all that its driver wants, and this.
fn vf(s: &mut Snapshot) -> &mut Vf {
    let links = port(s).links.len() as u64;
    function(s).vfs = vec![Vf {
        number: 3,
        function: "0000:01:02.6".into(),
        driver: Some("weft".into()),
        state: "driven".into(),
        slots: links,
        apertures: links,
        doorbells: 2 * links,
        pages: 2 * links,
        bytes: 1 << 20,
        links: (1 << links) - 1,
        ..Vf::default()
    }];
    function(s).vfs.first_mut().expect("it")
}

#[test]
fn mr_8_virtual_functions() {
    check(&[
        (
            "well",
            |s| vf(s).links = 0,
            "vf-no-links",
            Level::Warning,
            "`weftctl vf set weft0 3 links=",
        ),
        ("well", |s| vf(s).slots = 0, "vf-quota", Level::Warning, "`weftctl vf set weft0 3 slots="),
        ("well", |s| vf(s).bytes = 1 << 17, "vf-quota", Level::Warning, "131072 bytes of "),
        (
            "well",
            |s| (vf(s).pages, s.functions[0].vfs[0].doorbells) = (1, 0),
            "vf-quota",
            Level::Warning,
            "`weftctl vf set weft0 3 doorbells=",
        ),
        (
            "well",
            |s| {
                vf(s).driver = None;
                s.functions[0].vfs[0].state = "idle".into();
            },
            "vf-idle",
            Level::Warning,
            "`echo 0000:01:02.6 >/sys/bus/pci/drivers_probe`",
        ),
    ]);
    let mut snapshot = recorded("well");
    // One that was there.
    let line =
        "weft 0000:01:02.0: weft2: virtual function, hardware id 0x0800000000000001, 4 links";
    snapshot.log.get_or_insert_default().push(line.into());
    assert!(!is_wrong(&diagnose(&snapshot)));
    vf(&mut snapshot).driver = Some("vfio-pci".into());
    assert!(!is_wrong(&diagnose(&snapshot)));
    vf(&mut snapshot).rate = 1 << 20;
    let found = diagnose(&snapshot);
    let rate = found.iter().find(|f| f.id == "vf-rate").expect("a note");
    assert_eq!(rate.mend, "`weftctl vf set weft0 3 rate=0 rings=0`");
    assert!(rate.what.contains("1048576 bytes by DMA in a second"), "{}", rate.what);
    assert!(!is_wrong(&found));
}

/// This end wants two lanes of the third generation.
fn saving(s: &mut Snapshot) -> &mut Link {
    let link = link(s);
    link.power = Some("auto".into());
    (link.target_speed, link.target_width, link.speed) = (Some(3), Some(2), 3);
    link
}

fn hello(s: &mut Snapshot) -> &mut Link {
    let link = link(s);
    link.state = "hello".into();
    link.peer_version = Some(0);
    link
}

fn ivshmem(s: &mut Snapshot) {
    *function(s) = Function {
        address: "0000:02:00.0".into(),
        family: Family::Ivshmem,
        vendor_now: Some(0x1af4),
        ..Function::default()
    };
    s.nodes.clear();
    s.log = Some(Vec::new());
}

/// A link over a route.
fn far(state: &str) -> Link {
    let lid = Some(3);
    let state = state.into();
    let peer_hwid = "0x0000000000000007".into();
    Link { number: 4, state, lid, hops: Some(2), peer_hwid, ..Link::default() }
}

#[test]
fn what_leads_over_switches_and_hosts_is_drawn() {
    let mut snapshot = recorded("well");
    link(&mut snapshot).state = "switch".into();
    port(&mut snapshot).links.push(far("ready"));
    let found = diagnose(&snapshot);
    assert_eq!(found, [], "nothing, not even a note");
    let drawn = picture(&snapshot, &found, false);
    assert!(drawn[0].ends_with("-+- link 0 == gen4 x8 == switch"), "{drawn:?}");
    assert_eq!(drawn[4].trim_start(), "`- link 4 == 2 hops == 0x7 ready");
    let lost = |s: &mut Snapshot| port(s).links.push(far("down"));
    check(&[("well", lost, "no-route", Level::Fault, "weft-fabric route walk HOST 3")]);
}

#[test]
fn what_is_well_is_called_so() {
    let snapshot = recorded("well");
    let found = diagnose(&snapshot);
    assert_eq!(found, [], "nothing, not even a note");
    let drawn = picture(&snapshot, &found, false);
    assert_eq!(
        drawn[0],
        "this host -- weft.ko -- 0000:01:00.0 -- /dev/weft0 -+- link 0 == gen4 x8 == 0x2 ready"
    );
    assert_eq!(drawn[3].trim_start(), "`- link 3, no cable");
}

#[test]
fn the_host() {
    check(&[
        ("well", |s| s.module.loaded = false, "module-not-loaded", Level::Fault, "insmod weft.ko"),
        (
            "well",
            |s| (s.module.loaded, s.module.installed) = (false, true),
            "module-not-loaded",
            Level::Fault,
            "`modprobe weft`",
        ),
        (
            "well",
            |s| (s.module.loaded, s.module.other_kernels) = (false, vec!["6.1.0".into()]),
            "module-other-kernel",
            Level::Fault,
            "installed for 6.1.0",
        ),
        (
            "well",
            |s| (s.module.loaded, s.module.signed_only) = (false, true),
            "module-unsigned",
            Level::Fault,
            "sign-file",
        ),
        (
            "well",
            |s| {
                s.module.loaded = false;
                let line = "Loading of unsigned module is rejected".to_owned();
                s.log.get_or_insert_default().push(line);
            },
            "module-unsigned",
            Level::Fault,
            "is rejected",
        ),
        (
            "well",
            |s| {
                s.module.loaded = false;
                let line = "weft: disagrees about version of symbol pci_enable_device_mem".into();
                s.log.get_or_insert_default().push(line);
            },
            "module-other-kernel",
            Level::Fault,
            "disagrees",
        ),
        ("well", |s| s.functions.clear(), "port-removed", Level::Fault, "0000:01:00.0"),
        (
            "well",
            |s| {
                s.functions.clear();
                s.nodes.clear();
                s.log = None;
            },
            "no-port",
            Level::Fault,
            "1234:7ef7",
        ),
        ("well", |s| s.nodes[0].exists = false, "no-node", Level::Fault, "devtmpfs"),
        ("well", |s| s.nodes[0].usable = false, "permission", Level::Fault, "groupadd"),
        (
            "well",
            |s| (s.nodes[0].usable, s.user.group_exists) = (false, true),
            "permission",
            Level::Fault,
            "70-weft.rules",
        ),
        (
            "well",
            |s| {
                (s.nodes[0].usable, s.user.group_exists) = (false, true);
                s.nodes[0].group = "weft".into();
            },
            "permission",
            Level::Fault,
            "usermod -aG weft",
        ),
        (
            "well",
            |s| {
                (s.nodes[0].usable, s.user.group_exists, s.user.listed) = (false, true, true);
                s.nodes[0].group = "weft".into();
            },
            "permission",
            Level::Fault,
            "log in again",
        ),
        ("well", |s| s.user.open_files = Some(16), "few-files", Level::Warning, "ulimit -n"),
        (
            "well",
            |s| s.user.address_space = Some(1 << 20),
            "small-address-space",
            Level::Warning,
            "ulimit -v",
        ),
    ]);
}

#[test]
fn the_function() {
    check(&[
        ("unbound", |_| (), "port-unbound", Level::Fault, "/sys/bus/pci/drivers/weft/bind"),
        ("unbound", |s| s.log = None, "port-unbound", Level::Fault, "only root"),
        (
            "unbound",
            |s| function(s).driver = Some("vfio-pci".into()),
            "other-driver",
            Level::Fault,
            "given to a guest",
        ),
        (
            "unbound",
            |s| function(s).driver_override = Some("vfio-pci".into()),
            "driver-override",
            Level::Fault,
            "driver_override",
        ),
        (
            "unbound",
            |s| function(s).bars[2] = Bar { start: 0, end: 0xfff_ffff, flags: 0x2014_220c },
            "bar-unassigned",
            Level::Fault,
            "BAR 2",
        ),
        (
            "unbound",
            |s| function(s).bars[2] = Bar::default(),
            "bar-unassigned",
            Level::Fault,
            "BAR 2",
        ),
        (
            "unbound",
            |s| s.command_line.push("pci=realloc,nomsi".into()),
            "msi-off",
            Level::Fault,
            "nomsi",
        ),
        ("unbound", |s| function(s).vectors = Some(13), "few-vectors", Level::Fault, "has 13"),
        (
            "unbound",
            |s| failed(s, &["needs 16 MSI-X vectors", "probe: step 7 (interrupts) failed: -28"]),
            "probe-failed",
            Level::Fault,
            "needs 16 MSI-X vectors",
        ),
        (
            "unbound",
            |s| failed(s, &["link 0: down", "probe: step 6 (arenas) failed: -12"]),
            "probe-failed",
            Level::Fault,
            "\"arenas\": Cannot allocate memory `modprobe",
        ),
        (
            "unbound",
            |s| failed(s, &["probe: step 2 (enable) failed: -5, as fail_probe wants"]),
            "probe-failed",
            Level::Fault,
            "fail_probe",
        ),
        (
            "unbound",
            |s| {
                let why = "arena_kib=3 is not a power of two from 256 to 65536";
                failed(s, &["probe: step 2 (enable) failed: -5", why]);
                failed(s, &["probe with driver weft failed with error -22"]);
            },
            "bad-parameter",
            Level::Fault,
            "arena_kib=3",
        ),
        // A log in which nothing is where it should be.
        ("unbound", |s| failed(s, &["probe: step "]), "probe-failed", Level::Fault, "no reason"),
        (
            "well",
            |s| function(s).vendor_now = Some(0xffff),
            "function-gone",
            Level::Fault,
            "rescan",
        ),
        ("well", |s| port(s).present = Some(false), "function-gone", Level::Fault, "all ones"),
        ("well", |s| function(s).command = Some(0x405), "memory-off", Level::Fault, "setpci"),
        ("well", |s| function(s).command = Some(0x403), "bus-master-off", Level::Fault, "setpci"),
        ("well", |s| function(s).power = Some("D3hot".into()), "no-power", Level::Fault, "control"),
        ("well", |s| function(s).interrupts = Some(0), "interrupts-lost", Level::Fault, "dmesg"),
        (
            "well",
            |s| function(s).slot_max = Some(Rate { speed: 8.0, width: 1 }),
            "slow-slot",
            Level::Warning,
            "2.5 GT/s x1 of 8 GT/s x1",
        ),
        ("well", |s| aer(s, "fatal"), "aer", Level::Warning, "3 DLP"),
        ("well", |s| aer(s, "nonfatal"), "aer", Level::Warning, "3 DLP"),
        (
            "unbound",
            |s| {
                ivshmem(s);
                function(s).driver_override = Some("weft-ivshmem".into());
                function(s).driver = Some("weft-ivshmem".into());
                let link = Link { state: "hello".into(), ..Link::default() };
                function(s).port = Some(Port { links: vec![link], ..Port::default() });
            },
            "peer-absent",
            Level::Fault,
            "ivshmem-server",
        ),
    ]);
    // Correctable errors were corrected.
    let mut snapshot = recorded("well");
    aer(&mut snapshot, "correctable");
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Note), ["aer"]);
    assert!(!is_wrong(&found));
    // An ivshmem that was not given to Weft is a fault only if there is nothing else.
    let mut snapshot = recorded("unbound");
    ivshmem(&mut snapshot);
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Fault), ["no-port", "ivshmem-unbound"]);
    let mend = &found.iter().find(|f| f.id == "ivshmem-unbound").expect("found").mend;
    assert!(mend.contains("echo weft-ivshmem >/sys/bus/pci/devices/0000:02:00.0/driver_override"));
    let mut snapshot = recorded("well");
    let mut other = recorded("unbound");
    ivshmem(&mut other);
    snapshot.functions.append(&mut other.functions);
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Note), ["ivshmem-unbound"]);
    assert!(!is_wrong(&found));
}

#[test]
fn the_port_and_its_links() {
    check(&[
        ("well", |s| port(s).fabric = Some(false), "fabric-gone", Level::Fault, "weft-fabric run"),
        ("no-peer", |_| (), "peer-not-enabled", Level::Fault, "modprobe weft"),
        (
            "no-peer",
            |s| link(s).present = Some(false),
            "peer-absent",
            Level::Fault,
            "never been up",
        ),
        (
            "no-peer",
            |s| (link(s).present, link(s).trained) = (Some(false), 2),
            "peer-gone",
            Level::Fault,
            "no host is at the other end",
        ),
        (
            "no-peer",
            |s| (link(s).trained, link(s).ended) = (1, "bye".into()),
            "peer-unloaded",
            Level::Fault,
            "good-bye",
        ),
        (
            "no-peer",
            |s| (link(s).trained, link(s).ended) = (1, "link".into()),
            "link-lost",
            Level::Fault,
            "weft-fabric link up",
        ),
        (
            "no-peer",
            |s| {
                (link(s).present, link(s).max_speed, link(s).max_width) =
                    (Some(false), Some(0), Some(0));
            },
            "no-cable",
            Level::Fault,
            "weft-fabric check",
        ),
        ("well", |s| _ = hello(s), "peer-silent", Level::Fault, "no hello"),
        ("well", |s| hello(s).ended = "silence".into(), "peer-silent", Level::Fault, "fell silent"),
        ("well", |s| hello(s).peer_version = Some(2), "version-mismatch", Level::Fault, "ko here"),
        ("well", |s| hello(s).peer_version = Some(0xff), "version-mismatch", Level::Fault, "255"),
        ("well", |s| hello(s).hello_error = "grant".into(), "arena-refused", Level::Fault, "IOMMU"),
        ("well", |s| hello(s).hello_error = "withdraw".into(), "arena-held", Level::Fault, "holds"),
        (
            "well",
            |s| hello(s).hello_error = "attach".into(),
            "arena-too-large",
            Level::Fault,
            "arena_kib",
        ),
        ("well", |s| hello(s).messages_bad = 7, "mailbox-corrupt", Level::Fault, "7 messages"),
        (
            "well",
            |s| {
                let link = hello(s);
                (link.peer_version, link.messages_bad) = (Some(37), 1);
            },
            "mailbox-corrupt",
            Level::Fault,
            "1 messages",
        ),
        ("well", |s| link(s).messages_bad = 7, "mailbox-corrupt", Level::Warning, "7 mailbox"),
        ("well", |s| link(s).speed = 2, "slow-link", Level::Warning, "gen2 x8, but can gen4 x8"),
        ("well", |s| link(s).width = 1, "slow-link", Level::Warning, "gen4 x1"),
        (
            "well",
            |s| (saving(s).width, link(s).speed) = (1, 2),
            "slow-link",
            Level::Warning,
            "gen2 x1",
        ),
        ("well", |s| link(s).echo_overdue = 1500, "doorbell-stuck", Level::Fault, "1500 ms"),
        ("well", |s| link(s).arena_wanted *= 4, "arena-small", Level::Warning, "of the 16384 KiB"),
        (
            "well",
            |s| _ = port(s).counters.insert("doorbells_denied".into(), 9),
            "port-errors",
            Level::Warning,
            "counters/doorbells_denied",
        ),
        (
            "well",
            |s| {
                let counters = &mut port(s).counters;
                counters.insert("rx_messages".into(), 319);
                counters.insert("messages_dropped".into(), 10);
            },
            "port-errors",
            Level::Warning,
            "than they were read: 10 (counters/messages_dropped)",
        ),
    ]);
}

/// A port at a switch, with a manager that has found a host behind it.
fn managed(s: &mut Snapshot) -> &mut Port {
    let port = port(s);
    (port.links[0].state, port.links[0].trained) = ("switch".into(), 1);
    let manager = Manager {
        role: "standby".into(),
        lid: 2,
        term: 1,
        nodes: 3,
        routes: 2,
        ..Manager::default()
    };
    port.manager = Some(Manager { master: "0x0000000000000001".into(), ..manager });
    let node = |hwid: &str, lid, kind: &str, links| {
        let (hwid, kind) = (hwid.to_owned(), kind.to_owned());
        tree::Node { hwid, lid, kind, known: true, links, own: lid == 2, ..tree::Node::default() }
    };
    port.nodes =
        vec![node("0x1", 1, "host", 2), node("0x2", 2, "host", 0), node("0x101", 3, "switch", 1)];
    let far = Link {
        peer_hwid: "0x0000000000000001".into(),
        peer_version: port.version,
        lid: Some(1),
        readied: 1,
        ..far("ready")
    };
    port.links.push(far);
    port
}

fn manager(s: &mut Snapshot) -> &mut Manager {
    managed(s).manager.as_mut().expect("a manager")
}

#[test]
fn a_missing_key_is_said_also_where_nothing_works_for_want_of_it() {
    let mut snapshot = recorded("well");
    managed(&mut snapshot);
    mismatched(&mut snapshot, "here");
    port(&mut snapshot).manager.as_mut().expect("a manager").lid = 0;
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Fault), ["switch-unmanaged"]);
    assert_eq!(ids(&found, Level::Warning), ["key-missing"]);
    let mut snapshot = recorded("well");
    manager(&mut snapshot).authenticated = Some("nothing".into());
    assert_eq!(ids(&diagnose(&snapshot), Level::Note), ["no-authentication"]);
}

/// A message has shown how keys do not match.
fn mismatched(s: &mut Snapshot, how: &str) {
    let manager = manager(s);
    manager.key_mismatch = how.into();
    manager.key_mismatch_hwid = "0x0000000000000002".into();
}

#[test]
fn p_5_at_scale_no_host_is_missed_because_it_is_not_listed() {
    let mut snapshot = recorded("well");
    managed(&mut snapshot).nodes.retain(|node| node.own);
    assert_eq!(ids(&diagnose(&snapshot), Level::Fault), ["no-host"]);
    let manager = port(&mut snapshot).manager.as_mut().expect("a manager");
    manager.mode = "scale".into();
    assert_eq!(diagnose(&snapshot), [], "nothing is wrong");
}

#[test]
fn the_fabric() {
    let mut snapshot = recorded("well");
    managed(&mut snapshot);
    let found = diagnose(&snapshot);
    assert_eq!(found, [], "nothing is wrong");
    assert!(!is_settling(&snapshot));
    check(&[
        (
            "well",
            |s| manager(s).role = "unknown".into(),
            "switch-unmanaged",
            Level::Fault,
            "no master is known",
        ),
        (
            "well",
            |s| manager(s).lid = 0,
            "switch-unmanaged",
            Level::Fault,
            "the master 0x1 has given",
        ),
        (
            "well",
            |s| manager(s).routes = 0,
            "switch-unmanaged",
            Level::Fault,
            "the switch may not obey the master 0x1",
        ),
        (
            "well",
            |s| {
                let state = link(s).state.clone();
                manager(s).role = "unknown".into();
                link(s).state = state;
            },
            "no-master",
            Level::Warning,
            "weftctl events",
        ),
        (
            "well",
            |s| {
                let state = link(s).state.clone();
                manager(s).lid = 0;
                link(s).state = state;
            },
            "no-lid",
            Level::Warning,
            "0x1 has given this host no local id",
        ),
        (
            "well",
            |s| managed(s).nodes[2].known = false,
            "node-silent",
            Level::Warning,
            "switch 0x101 (LID 3)",
        ),
        (
            "well",
            |s| {
                managed(s).nodes[2].known = false;
                port(s).manager.as_mut().expect("a manager").allow = 2;
            },
            "not-allowed",
            Level::Warning,
            "`echo 0x101 >manager/allow`",
        ),
        (
            "well",
            |s| {
                // A neighbour that says hello, and is not on the list.
                managed(s).links[0].state = "ready".into();
                port(s).manager.as_mut().expect("a manager").allow = 1;
                port(s).links[0].peer_hwid = "0x0000000000000009".into();
            },
            "not-allowed",
            Level::Warning,
            "`echo 0x9 >manager/allow`",
        ),
        (
            "well",
            |s| mismatched(s, "here"),
            "key-missing",
            Level::Warning,
            "`weftctl key set FILE` here",
        ),
        (
            "well",
            |s| mismatched(s, "there"),
            "key-missing",
            Level::Warning,
            "on host 0x2: `weftctl key set FILE`",
        ),
        (
            "well",
            |s| mismatched(s, "differs"),
            "key-differs",
            Level::Warning,
            "`weftctl key set FILE` on both",
        ),
        (
            "well",
            |s| managed(s).nodes[2].links = 0,
            "no-route",
            Level::Fault,
            "weft-fabric route walk NODE 3",
        ),
        (
            "well",
            |s| {
                manager(s).routes = 1;
                port(s).nodes.clear();
            },
            "no-route",
            Level::Fault,
            "of 2 other nodes 1 have no route",
        ),
        (
            "well",
            |s| managed(s).links.truncate(4),
            "no-window",
            Level::Fault,
            "host 0x1 (LID 1) is 2 links away, and no window is left",
        ),
        (
            "well",
            |s| {
                managed(s).links.truncate(4);
                port(s).nodes.remove(0);
            },
            "no-host",
            Level::Fault,
            "behind the switch",
        ),
    ]);
    manager(&mut snapshot).excluded = 1;
    assert_eq!(ids(&diagnose(&snapshot), Level::Note), ["link-excluded"]);
    let full = managed(&mut snapshot);
    full.links.truncate(4);
    let used = full.manager.as_mut().expect("a manager");
    (used.routed_links, used.routed_used, used.routed_claimed) = (Some(8), 6, 2);
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Note), ["links-in-use"]);
    assert!(!is_wrong(&found));
    let said = "all 8 links over routes are in use: 6 by this host, 2 by other hosts";
    assert!(found[0].what.ends_with(said), "{found:?}");
    // What comes by itself is worth another look, unless there is no host at all.
    manager(&mut snapshot).lid = 0;
    assert!(is_settling(&snapshot));
    let mut alone = recorded("no-peer");
    let role = "unknown".into();
    port(&mut alone).manager = Some(Manager { role, ..Manager::default() });
    assert!(!is_settling(&alone));
    assert!(!diagnose(&alone).iter().any(|found| found.id == "no-master"));
}

/// The master, which has found a host and an endpoint with two virtual endpoints.
fn sharing(s: &mut Snapshot) -> &mut Known {
    let component = |kind: &str, hwid, name: &str, lid| Component {
        kind: kind.into(),
        hwid: Hwid(hwid),
        lid,
        there: true,
        vpd_in_order: true,
        serial_number: name.into(),
        ves: if kind == "endpoint" { 2 } else { 0 },
        ..Component::default()
    };
    let known = &mut managed(s).known;
    known.components =
        Some(vec![component("host", 1, "rc1", 1), component("endpoint", 0x9, "ep1", 4)]);
    known.assignments =
        vec![Assignment { endpoint: Hwid(9), ve: 1, root: Hwid(1), state: Some(State::Done) }];
    known
}

fn assignment(s: &mut Snapshot, state: State) {
    sharing(s).assignments[0].state = Some(state);
}

fn component(s: &mut Snapshot, n: usize) -> &mut Component {
    &mut sharing(s).components.as_mut().expect("components")[n]
}

#[test]
fn mr_3_shared_endpoints() {
    let mut snapshot = recorded("well");
    sharing(&mut snapshot);
    assert_eq!(diagnose(&snapshot), [], "nothing is wrong");
    assert!(!is_settling(&snapshot));
    check(&[
        (
            "well",
            |s| assignment(s, State::Waits),
            "assignment-waits",
            Level::Warning,
            "endpoint ep1.1",
        ),
        (
            "well",
            |s| assignment(s, State::NoEndpoint),
            "assignment-no-endpoint",
            Level::Fault,
            "`weftctl withdraw ep1.1`",
        ),
        (
            "well",
            |s| assignment(s, State::NoVe),
            "assignment-no-ve",
            Level::Fault,
            "it has 2, from 0 on: `weftctl withdraw ep1.1` takes it back, `weftctl assign ep1 rc1`",
        ),
        (
            "well",
            |s| assignment(s, State::NoRoot),
            "assignment-no-host",
            Level::Fault,
            "is host rc1 on",
        ),
        (
            "well",
            |s| {
                assignment(s, State::NoLid);
                let known = &mut port(s).known;
                known.components.as_mut().expect("components")[0].lid = 0;
            },
            "assignment-no-lid",
            Level::Fault,
            "host rc1 was found, and its driver takes no part: is it alive? `modprobe weft` there",
        ),
        (
            "well",
            |s| {
                assignment(s, State::NoLid);
                let known = &mut port(s).known;
                known.components.as_mut().expect("components")[1].lid = 0;
            },
            "assignment-no-lid",
            Level::Fault,
            "endpoint ep1 does not answer",
        ),
        (
            "well",
            |s| assignment(s, State::NoWay),
            "assignment-no-way",
            Level::Fault,
            "`routes = true`",
        ),
        (
            "well",
            |s| assignment(s, State::NoPlane),
            "assignment-no-plane",
            Level::Fault,
            "tree --vh all",
        ),
        (
            "well",
            |s| assignment(s, State::NoRoom),
            "assignment-no-room",
            Level::Fault,
            "tree --vh rc1",
        ),
        (
            "well",
            |s| assignment(s, State::Failed),
            "assignment-not-written",
            Level::Fault,
            "`dmesg`",
        ),
        (
            "well",
            |s| assignment(s, State::NotTaken),
            "assignment-not-taken",
            Level::Fault,
            "is host rc1 alive?",
        ),
        (
            "well",
            |s| assignment(s, State::Other(99)),
            "assignment-unknown",
            Level::Fault,
            "of one release",
        ),
        (
            "well",
            |s| component(s, 1).vpd_in_order = false,
            "vpd-broken",
            Level::Warning,
            "its hardware id, 0x9, names it",
        ),
        (
            "well",
            |s| {
                component(s, 0).hwid = Hwid(0x77);
            },
            "host-no-driver",
            Level::Warning,
            "host rc1",
        ),
        (
            "well",
            |s| {
                let places = vec![
                    Place { kind: "host".into(), hwid: Hwid(2), ..Place::default() },
                    Place {
                        kind: "endpoint".into(),
                        hwid: Hwid(9),
                        depth: 1,
                        given: Some(Given::default()),
                        ..Place::default()
                    },
                ];
                sharing(s).hierarchies = vec![Hierarchy { root: Hwid(2), number: 2, places }];
                port(s).endpoint_slots = Some(0);
            },
            "endpoint-no-slots",
            Level::Warning,
            "1 virtual endpoints are this host's",
        ),
    ]);
    // What comes by itself is worth another look.
    for (state, settling) in [(State::Waits, true), (State::NotTaken, true), (State::NoWay, false)]
    {
        assignment(&mut snapshot, state);
        assert_eq!(is_settling(&snapshot), settling, "{state}");
    }
    component(&mut snapshot, 1).replaced = true;
    assert_eq!(ids(&diagnose(&snapshot), Level::Note), ["component-replaced"]);
    sharing(&mut snapshot).assignments.clear();
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Note), ["endpoint-unassigned"]);
    let note = found.iter().find(|f| f.id == "endpoint-unassigned").expect("a note");
    assert_eq!(note.mend, "`weftctl assign ep1 HOST`; hosts: rc1");
    // A standby does not say what became of an assignment.
    sharing(&mut snapshot).assignments[0].state = None;
    port(&mut snapshot).known.components = None;
    assert_eq!(diagnose(&snapshot), []);
}

#[test]
fn hp_2_functions_that_are_held_are_told_while_they_are() {
    let mut snapshot = recorded("well");
    for (functions, held, ids_told) in [
        (None, None, vec![]),
        (Some(2), Some(0), vec![]),
        (Some(2), Some(1), vec!["endpoint-held"]),
    ] {
        port(&mut snapshot).endpoint_functions = functions;
        port(&mut snapshot).endpoint_held = held;
        let found = diagnose(&snapshot);
        assert_eq!(ids(&found, Level::Note), ids_told, "{found:?}");
        assert!(!is_wrong(&found));
        assert!(found.iter().all(|f| f.what.starts_with("1 of 2 functions")), "{found:?}");
    }
}

#[test]
fn mr_7_a_function_that_has_failed_is_told_to_the_administrator() {
    let mut snapshot = recorded("well");
    port(&mut snapshot).endpoint_failures = 2;
    snapshot.log = None;
    let mut said = |failure: Option<&str>| {
        let line =
            |what| format!("endpoint 0xc000: function 0 of virtual endpoint 1 has failed: {what}");
        if let Some(line) = failure.map(line) {
            snapshot.log.get_or_insert_default().push(format!("weft 0000:01:00.0: {line}"));
        }
        let found = diagnose(&snapshot);
        assert_eq!(ids(&found, Level::Note), ["endpoint-failed"], "{found:?}");
        assert!(!is_wrong(&found));
        format!("{} {}", found[0].what, found[0].mend)
    };
    assert!(said(None).contains("`dmesg` says which"));
    for (failure, words) in [
        ("work-queue", "`weft-fabric route walk ENDPOINT LID`"),
        ("completion-queue", "is the way back there?"),
        ("setup", "a release that fits"),
        ("overrun", "a release that fits"),
        ("disabled", "who else writes"),
        ("nonsense", "`weftctl withdraw`"),
        ("unknown", "`dmesg` says which"),
    ] {
        let said = said(Some(failure));
        let head = "2 functions of shared endpoints have failed under their programs \
                    (endpoint_failures); the last: endpoint 0xc000: function 0 of virtual endpoint 1 \
                    has failed: ";
        assert!(said.starts_with(&format!("{head}{failure} a program that goes on")), "{said}");
        assert!(said.contains(words), "{failure}: {said}");
    }
}

#[test]
fn what_has_passed_is_a_note() {
    let mut snapshot = recorded("well");
    port(&mut snapshot).counters.insert("in_denied".into(), 2);
    let link = link(&mut snapshot);
    (link.trained, link.readied, link.ended, link.channels_broken) = (2, 3, "silence".into(), 1);
    let found = diagnose(&snapshot);
    let notes = ["port-errors", "link-flapped", "peer-returned", "channels-broken"];
    assert_eq!(ids(&found, Level::Note), notes);
    assert!(!is_wrong(&found));
}

#[test]
fn a_few_messages_dropped_are_a_note() {
    let mut snapshot = recorded("well");
    let counters = &mut port(&mut snapshot).counters;
    counters.insert("rx_messages".into(), 320);
    counters.insert("messages_dropped".into(), 10);
    let found = diagnose(&snapshot);
    assert_eq!(ids(&found, Level::Note), ["port-errors"]);
    assert!(!is_wrong(&found));
}

#[test]
fn a_snapshot_without_anything_does_no_harm() {
    let nothing = Snapshot::default();
    let found = diagnose(&nothing);
    assert_eq!(ids(&found, Level::Fault), ["module-not-loaded", "no-port"]);
    assert_eq!(picture(&nothing, &found, false), ["this host -X- weft.ko  module-not-loaded"]);
}

/// Files of a host below `root`.
fn host(root: &Path, files: &[(&str, &[u8])]) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, content).expect("a file");
    }
}

const DEVICE: &str = "sys/bus/pci/devices/0000:01:00.0";

#[test]
fn a_host_is_read() {
    let temp = tempfile::tempdir().expect("a folder");
    let mut config = vec![0; 256];
    // Status: capabilities, from 0x40: another, then MSI-X with 16 vectors.
    config[..8].copy_from_slice(&[0x34, 0x12, 0xf7, 0x7e, 6, 0, 0x10, 0]);
    config[0x34] = 0x40;
    config[0x40..0x42].copy_from_slice(&[0x10, 0x50]);
    config[0x50..0x54].copy_from_slice(&[0x11, 0, 15, 0x80]);
    let file = |name: &str| format!("{DEVICE}/{name}");
    let aer = b"RxErr 2\nBadTLP 0\nTOTAL_ERR_COR 2\n";
    let resource = "0x00000000fe800000 0x00000000fe83ffff 0x0000000000040200\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    host(
        temp.path(),
        &[
            ("proc/sys/kernel/osrelease", b"7.2.0\n"),
            ("proc/interrupts", b" CPU0 CPU1\n 24: 5 2 PCI-MSIX-0000:01:00.0 0-edge weft-0000:01:00.0-link\n 25: 1 0 PCI-MSIX-0000:01:00.0 1-edge weft-0000:01:00.0-mailbox\n 26: 9 9 PCI-MSI 1 other\n"),
            ("proc/self/status", b"Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"),
            ("proc/self/limits", b"Limit  Soft  Hard  Units\nMax open files            32                   1048576              files\nMax address space         unlimited            unlimited            bytes\n"),
            ("etc/passwd", b"root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n"),
            ("etc/group", b"root:x:0:\nweft:x:990:bob,ann\n"),
            ("lib/modules/6.1.0/modules.dep", b"updates/weft.ko.xz:\n"),
            ("lib/modules/7.2.0/modules.dep", b"kernel/a.ko: kernel/b.ko\n"),
            ("dev/kmsg", b"6,1,2,-;weft: loading out-of-tree\n6,2,3,-;usb: else\n6,3,4,-;pci 0000:01:00.0: BAR 0\n"),
            (&file("vendor"), b"0x1234\n"),
            (&file("device"), b"0x7ef7\n"),
            (&file("config"), &config),
            (&file("resource"), resource.as_bytes()),
            (&file("power_state"), b"D0\n"),
            (&file("driver_override"), b"(null)\n"),
            (&file("current_link_speed"), b"16.0 GT/s PCIe\n"),
            (&file("current_link_width"), b"8\n"),
            (&file("max_link_speed"), b"16.0 GT/s PCIe\n"),
            (&file("max_link_width"), b"16\n"),
            (&file("aer_dev_correctable"), aer),
            (&file("weft/weft0/dev"), b"240:0\n"),
            (&file("hwid"), b"0x0000000000000007\n"),
            (&file("present"), b"1\n"),
            (&file("link0/state"), b"hello\n"),
            (&file("link0/peer_version"), b"3\n"),
            (&file("link1/state"), b"down\n"),
            (&file("link6/state"), b"ready\n"),
            (&file("link6/lid"), b"9\n"),
            (&file("link6/hops"), b"3\n"),
            (&file("manager/role"), b"master\n"),
            (&file("manager/routes"), b"4\n"),
            (&file("counters/interrupts"), b"8\n"),
            ("sys/class/weft/weft0/dev", b"240:0\n"),
            ("sys/bus/pci/devices/0000:02:00.0/vendor", b"0x8086\n"),
        ],
    );
    let seen = collect(temp.path());
    assert_eq!(seen.kernel, "7.2.0");
    assert_eq!(seen.module.other_kernels, ["6.1.0"]);
    assert!(!seen.module.loaded && !seen.module.installed);
    let log = seen.log.clone().expect("a log");
    assert_eq!(log, ["weft: loading out-of-tree", "pci 0000:01:00.0: BAR 0"]);
    assert_eq!(seen.functions.len(), 1);
    let function = &seen.functions[0];
    assert_eq!((function.vendor_now, function.command), (Some(0x1234), Some(6)));
    assert_eq!(function.vectors, Some(16));
    assert_eq!(function.interrupts, Some(8));
    assert_eq!(function.bars[0], Bar { start: 0xfe80_0000, end: 0xfe83_ffff, flags: 0x40200 });
    assert_eq!(function.driver_override, None);
    assert_eq!(function.slot, Some(Rate { speed: 16.0, width: 8 }));
    assert_eq!(function.slot_max, Some(Rate { speed: 16.0, width: 16 }));
    assert_eq!(function.aer["correctable"], [("RxErr".to_owned(), 2)].into());
    let port = function.port.as_ref().expect("a port");
    assert_eq!((port.name.as_str(), port.hwid.as_str()), ("weft0", "0x0000000000000007"));
    assert_eq!((port.present, port.fabric), (Some(true), None));
    assert_eq!(port.links.len(), 3);
    let far = &port.links[2];
    assert_eq!((far.number, far.lid, far.hops, port.links[1].lid), (6, Some(9), Some(3), None));
    let manager = port.manager.as_ref().expect("a manager");
    assert_eq!((manager.role.as_str(), manager.routes, manager.lid), ("master", 4, 0));
    assert_eq!((port.links[0].state.as_str(), port.links[0].peer_version), ("hello", Some(3)));
    assert_eq!(port.counters["interrupts"], 8);
    assert_eq!(seen.nodes.len(), 1);
    assert!(!seen.nodes[0].exists);
    assert_eq!((seen.user.id, seen.user.listed, seen.user.open_files), (1000, true, Some(32)));
    assert_eq!(seen.user.address_space, None);
    assert_eq!(seen.unseen, []);
}

#[test]
fn what_cannot_be_read_is_told() {
    let temp = tempfile::tempdir().expect("a folder");
    let seen = collect(temp.path());
    let missed: Vec<_> = seen.unseen.iter().map(|u| u.what.as_str()).collect();
    assert!(missed.contains(&"the PCI functions"), "{missed:?}");
    assert!(missed.iter().any(|what| what.contains("log")), "{missed:?}");
    // A function that is gone reads all ones, and a list of capabilities may lead nowhere.
    let mut looped = vec![0; 256];
    looped[6] = 0x10;
    looped[0x34] = 0x40;
    looped[0x40..0x42].copy_from_slice(&[0x10, 0x40]);
    for (config, vectors) in [(vec![0xff; 256], None), (looped, Some(0)), (vec![0; 64], None)] {
        let file = |name: &str| format!("{DEVICE}/{name}");
        host(
            temp.path(),
            &[
                (&file("vendor"), b"0x1234\n"),
                (&file("device"), b"0x7ef7\n"),
                (&file("config"), &config),
            ],
        );
        let seen = collect(temp.path());
        assert_eq!(seen.functions[0].vectors, vectors);
        assert_eq!(seen.functions[0].is_gone(), config[0] == 0xff);
        let told = seen.unseen.iter().any(|u| u.what.contains("MSI-X"));
        assert_eq!(told, config.len() == 64, "only what lies too far is told of");
    }
}

#[test]
fn the_program_judges_a_record() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnose/unbound.json");
    let run = |json: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weftctl"));
        command.args(json.then_some("--json")).arg("diagnose").arg("--from").arg(&file);
        command.output().expect("it runs")
    };
    let out = run(true);
    assert_eq!(out.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(report["ok"], false);
    assert_eq!(report["findings"][0]["id"], "port-unbound");
    assert_eq!(report["findings"][0]["level"], "fault");
    assert_eq!(report["findings"][0]["at"], "0000:01:00.0");
    assert_eq!(report["ports"][0]["address"], "0000:01:00.0");
    let text = String::from_utf8(run(false).stdout).expect("text");
    assert!(text.contains("fault: 0000:01:00.0: no driver is bound"), "{text}");
    assert!(text.contains("this host -- weft.ko -X- 0000:01:00.0"), "{text}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_weftctl"));
    let out = command.args(["diagnose", "--from", "/etc/hostname"]).output().expect("it runs");
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("is no record"));
}

#[test]
fn a_port_that_was_not_asked_for_is_not_said_to_be_gone() {
    let mut snapshot = recorded("well");
    let mut other = function(&mut snapshot).clone();
    other.address = "0000:02:00.0".into();
    other.port.as_mut().expect("a port").name = "weft1".into();
    snapshot.functions.push(other);
    for (n, address) in ["0000:01:00.0", "0000:02:00.0"].iter().enumerate() {
        let line = format!("weft {address}: weft{n}: hardware id 0x0000000000000001, 4 links");
        snapshot.log.get_or_insert_default().push(line);
    }
    let temp = tempfile::tempdir().expect("a folder");
    let file = temp.path().join("record");
    let judged = |snapshot: &Snapshot| {
        fs::write(&file, serde_json::to_string(snapshot).expect("JSON")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_weftctl"));
        command.args(["--json", "--port", "weft0", "diagnose", "--from"]).arg(&file);
        let out = command.output().expect("it runs");
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        report["findings"].clone()
    };
    assert_eq!(judged(&snapshot), serde_json::json!([]));
    // One that only the log knows of is.
    snapshot.functions.pop();
    assert_eq!(judged(&snapshot)[0]["id"], "port-removed");
}

/// What checks call their findings, by their sources.
fn kinds() -> BTreeSet<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diagnose");
    let mut kinds = BTreeSet::from(["aer", "permission"].map(String::from));
    for file in ["endpoints", "fabric", "function", "host", "link", "port", "vf"] {
        let source = fs::read_to_string(top.join(format!("{file}.rs"))).expect("source");
        let words = source.split('"').skip(1).step_by(2);
        let is_kind = |word: &&str| {
            word.contains('-') && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
        };
        kinds.extend(words.filter(is_kind).map(String::from));
    }
    // A driver's name.
    assert!(kinds.remove("vfio-pci"));
    assert!(kinds.len() > 70, "{}", kinds.len());
    kinds
}

/// The kinds never change: scripts and the manual name them.
#[test]
fn the_manual_names_every_kind() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(top.join("../../Documentation/man/weftctl.8")).expect("manual");
    let page = page.replace("\\-", "-");
    let words: BTreeSet<_> = page.split(|c: char| !c.is_ascii_lowercase() && c != '-').collect();
    for kind in kinds() {
        assert!(words.contains(kind.as_str()), "the manual lacks {kind}");
    }
}

/// A row of a table of Documentation/diagnose.rst: what is in its first and in its last column.
fn rows(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    let mut last = (0, String::new());
    for line in page.lines() {
        if line.starts_with("===") && line.contains(' ') {
            last = (line.rfind(' ').expect("columns"), String::new());
        } else if last.0 != 0 && !line.trim().is_empty() {
            if let Some(kind) = line.strip_prefix("``").and_then(|rest| rest.split("``").next()) {
                assert!(!rows.contains_key(kind), "{kind} is there twice");
                last.1 = kind.to_owned();
            }
            let tests: String = line.chars().skip(last.0).collect();
            let tests = tests.split([',', ' ']).filter(|test| !test.is_empty()).map(String::from);
            let row: &mut Vec<String> = rows.entry(last.1.clone()).or_default();
            row.extend(tests);
        }
    }
    rows.remove("");
    rows
}

#[test]
fn the_table_of_findings_is_true() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: String| fs::read_to_string(top.join(&file)).expect(&file);
    let rows = rows(&read("Documentation/diagnose.rst".into()));
    assert_eq!(rows.keys().cloned().collect::<BTreeSet<_>>(), kinds());
    for (kind, tests) in &rows {
        let name = format!("\"{kind}\"");
        assert!(!tests.is_empty(), "{kind} has no test");
        for test in tests {
            let file = match test.as_str() {
                "unit" => "tools/weftctl/tests/diagnose.rs".into(),
                module => format!("tools/testing/hosts/{module}.py"),
            };
            assert!(read(file).contains(&name), "{test} does not name {kind}");
        }
        let alone = tests.len() == 1 || !tests.iter().any(|test| test == "unit");
        assert!(alone, "{kind}: {tests:?}");
    }
}

#[test]
fn n_8_a_link_that_saves_power_is_no_fault() {
    let mut snapshot = recorded("well");
    saving(&mut snapshot).width = 2;
    let found = diagnose(&snapshot);
    assert!(ids(&found, Level::Note).contains(&"link-saves-power"), "{found:?}");
    assert!(!is_wrong(&found), "{found:?}");
    let said = &found.iter().find(|f| f.id == "link-saves-power").expect("it").what;
    assert_eq!(said, "runs at gen3 x2, but can gen4 x8");
    // The other end may be a step ahead.
    saving(&mut snapshot).width = 1;
    assert!(!is_wrong(&diagnose(&snapshot)), "a step");
    // A second function has the same link, and no say in its speed.
    let slow = link(&mut snapshot);
    (slow.power, slow.target_speed, slow.target_width) = (None, None, None);
    let is_said = |s: &Snapshot| diagnose(s).iter().any(|finding| finding.id == "slow-link");
    assert!(is_said(&snapshot), "the first function");
    let address = &mut snapshot.functions[0].address;
    *address = address.replace(".0", ".1");
    assert!(!is_said(&snapshot), "a second function");
}
