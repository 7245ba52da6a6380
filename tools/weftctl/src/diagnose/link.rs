// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of a link: why it is down, why it is up and not ready, why it is ready
//! and does not do what it should.

use super::finding::{Finding, Place};
use super::snapshot::{Family, Function, Link, Port};

/// A peer that is well rings back at once.
const OVERDUE_MS: u64 = 1000;

pub fn check(function: &Function, port: &Port) -> Vec<Finding> {
    let ready = port.links.iter().filter(|link| link.state == "ready").count();
    let is_first = function.address.ends_with(".0");
    let mut found = Vec::new();
    for link in &port.links {
        let at = || Place::link(&function.address, link.number);
        match (link.state.as_str(), function.family) {
            // Its links are always up, and lead to any peer that may come.
            ("ready", _) => found.extend(running(&at(), link, is_first)),
            (_, Family::Ivshmem) => found.extend(alone(&at(), link, ready)),
            ("switch", _) => found.extend(running(&at(), link, is_first)),
            ("down", _) if link.lid.is_some() => found.push(no_route(&at(), link)),
            ("down", _) if link.is_unplugged() => {}
            ("down", _) => found.push(down(&at(), link)),
            _ => found.push(hello(&at(), link, port.version)),
        }
        found.extend(arena(&at(), link));
        found.extend(history(&at(), link));
    }
    found
}

/// There is a cable, but no signal.
fn down(at: &Place, link: &Link) -> Finding {
    let before = match link.ended.as_str() {
        "bye" => "; its driver had said good-bye",
        "silence" => "; it had fallen silent before",
        _ => "",
    };
    if link.present == Some(false) {
        let (id, was) = match link.trained {
            0 => {
                ("peer-absent", "has never been up: there is a cable, and no host at its other end")
            }
            _ => (
                "peer-gone",
                "was up and is lost: no host is at the other end of the cable any more",
            ),
        };
        return Finding::fault(id, at.clone(), format!("{was}{before}"))
            .mend("is that host switched on? emulated: `weft-fabric status` names who is missing");
    }
    let (id, was) = match link.trained {
        0 => ("peer-not-enabled", "has never been up, though a host is at the other end"),
        _ if link.ended == "bye" => {
            ("peer-unloaded", "was up and went down, with a host still at the other end")
        }
        _ => ("link-lost", "was up and is lost, with a host still at the other end"),
    };
    Finding::fault(id, at.clone(), format!("{was}: its port is not enabled, or the link is switched off{before}"))
        .mend("there: `modprobe weft`, `weftctl diagnose`; in between: `weft-fabric status`, `weft-fabric link up END`")
}

/// The peer is no neighbour, and nothing leads to it now.
fn no_route(at: &Place, link: &Link) -> Finding {
    let lid = link.lid.unwrap_or(0);
    let what =
        format!("no route leads to the host of local id {lid} any more, or not back from there");
    Finding::fault("no-route", at.clone(), what).mend(format!(
        "a link on the way is down, an entry of a table is missing, or that host is gone: \
         `weftctl routes`; emulated: `weft-fabric route walk HOST {lid}` says where it ends",
    ))
}

/// There is a signal, but the two drivers do not agree.
fn hello(at: &Place, link: &Link, version: Option<u64>) -> Finding {
    // Of a message that was damaged, the version may be what was.
    let theirs = link.peer_version.filter(|v| *v != 0 && link.messages_bad == 0);
    if let (Some(theirs), Some(ours)) = (theirs, version) {
        if theirs != ours {
            let older = if theirs < ours { "there" } else { "here" };
            let what = format!(
                "the peer speaks version {theirs} of the protocol, this host version {ours}"
            );
            return Finding::fault("version-mismatch", at.clone(), what)
                .mend(format!("update weft.ko {older}, where it is older: `make install`, `modprobe -r weft; modprobe weft`"));
        }
    }
    let fault = |id, what: &str| Finding::fault(id, at.clone(), what);
    match link.hello_error.as_str() {
        "grant" => {
            return fault(
                "arena-refused",
                "the port does not take the arena, hence there is no hello",
            )
            .mend("see `dmesg`; with an IOMMU the memory may not be mapped for this function");
        }
        "withdraw" => {
            let what = "the peer fell silent and still holds what it was granted before";
            return fault("arena-held", what)
                .mend("unload the driver there, or restart that host: its port hangs");
        }
        "attach" => {
            let what = "the peer offers more memory than a window here can hold, or doorbells that \
                        no port has";
            return fault("arena-too-large", what).mend("there: `modprobe weft arena_kib=4096`; emulated: a larger slot-size of the port here");
        }
        _ => {}
    }
    if link.messages_bad != 0 {
        let what =
            format!("no hello is understood: {} messages came that are none", link.messages_bad);
        return fault("mailbox-corrupt", &what)
            .mend("is it a driver of Weft at the other end? the mailbox may damage messages");
    }
    let what = match (link.peer_version, link.ended.as_str()) {
        (Some(1..), _) => "is up and the peer speaks, but the two do not agree",
        (_, "silence") => "is up, but the peer fell silent",
        _ => "is up, but no hello came from the peer",
    };
    fault("peer-silent", what).mend(
        "there: is weft.ko loaded, the host alive? `weftctl diagnose`; a message that is lost is \
         sent again, so wait a second first",
    )
}

/// No peer yet, over ivshmem.
fn alone(at: &Place, link: &Link, ready: usize) -> Option<Finding> {
    if ready > 0 || link.number != 0 {
        return None;
    }
    let (id, what) = match link.present {
        Some(true) => ("peer-silent", "a host was at the other end, and does not answer"),
        _ => ("peer-absent", "no other host uses this memory yet"),
    };
    Some(
        Finding::fault(id, at.clone(), what).mend(
            "at another host with the same ivshmem-server: load the driver and bind its ivshmem",
        ),
    )
}

/// Slow because this end has it follow its traffic, and wants it no faster now. The other end, which sees the same,
/// may be a step ahead: half as fast.
fn is_as_wanted(link: &Link) -> bool {
    let rate = |speed: u64, width: u64| width << speed.min(8);
    let wanted = link.target_speed.zip(link.target_width);
    link.power.as_deref() == Some("auto")
        && wanted
            .is_some_and(|(speed, width)| 2 * rate(link.speed, link.width) >= rate(speed, width))
}

/// What keeps a link that is ready from being good.
fn running(at: &Place, link: &Link, is_first: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    // What is on the way of a route is not this host's.
    let most = link.max_speed.zip(link.max_width).filter(|_| link.lid.is_none());
    // A link is shared by the functions of an endpoint, and its speed is said of the first one, which sets it.
    let most = most.filter(|_| link.power.is_some() || is_first);
    if let Some((speed, width)) = most {
        if link.speed < speed || link.width < width {
            let what =
                format!("runs at gen{} x{}, but can gen{speed} x{width}", link.speed, link.width);
            found.push(match is_as_wanted(link) {
                true => Finding::note("link-saves-power", at.clone(), what).mend(
                    "it has little to carry, and gets faster with its traffic; `echo performance` \
                     to `power` of the link in sysfs if it is not to do so",
                ),
                false => Finding::warning("slow-link", at.clone(), what).mend(
                    "look at the cable, and at `power` of the link at its other end; emulated: \
                     `weft-fabric link set END --speed … --width …`",
                ),
            });
        }
    }
    if link.echo_overdue > OVERDUE_MS {
        let what = format!(
            "the peer was asked to ring back {} ms ago and has not: a doorbell is stuck",
            link.echo_overdue
        );
        found.push(Finding::fault("doorbell-stuck", at.clone(), what).mend(
            "transfers wait for ever: `echo 1 >/sys/bus/pci/devices/…/reset` here or there; is \
             that host alive? `weftctl ping`",
        ));
    }
    if link.messages_bad != 0 {
        let what = format!("{} mailbox messages were damaged", link.messages_bad);
        found.push(
            Finding::warning("mailbox-corrupt", at.clone(), what)
                .mend("what matters is sent again; if it rises, look at the port and its cable"),
        );
    }
    found
}

/// Less memory than asked for.
fn arena(at: &Place, link: &Link) -> Option<Finding> {
    let (has, wanted) = (link.arena_bytes, link.arena_wanted);
    (has < wanted).then(|| {
        let what = format!(
            "has {} KiB for channels of the {} KiB asked for: there was no contiguous memory",
            has >> 10,
            wanted >> 10
        );
        Finding::warning("arena-small", at.clone(), what).mend(
            "load the driver early after a boot, or ask for less: `modprobe weft arena_kib=…`",
        )
    })
}

/// What has happened before, to be known when something is lost now.
fn history(at: &Place, link: &Link) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut note = |id, what: String| found.push(Finding::note(id, at.clone(), what));
    if link.trained > 1 && link.max_speed.is_some() {
        note("link-flapped", format!("came up {} times since the driver was bound", link.trained));
    }
    if link.readied > 1 {
        let why = match link.ended.as_str() {
            "link" => "the link went down",
            "silence" => "the peer was silent for too long",
            "bye" => "the peer's driver went away",
            "restart" => "the peer came back in another life",
            _ => "this port was reset",
        };
        let what = format!("became ready {} times; last it ended as {why}", link.readied);
        note("peer-returned", what);
    }
    if link.channels_broken != 0 {
        note("channels-broken", format!("{} channels broke", link.channels_broken));
    }
    found
}
