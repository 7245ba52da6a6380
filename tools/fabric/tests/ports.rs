// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The daemon as its ports see it, good ones and bad ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, Port, RAM, TWO, event, linked, memory, segment};
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use weft_fabric::wire::{PACKET_BYTES, Packet, abi::*};

fn same_file(a: &OwnedFd, b: &OwnedFd) -> bool {
    fstat(a).unwrap().st_ino == fstat(b).unwrap().st_ino
}

#[test]
fn neighbours_get_each_others_memory_and_doorbell() {
    let daemon = Daemon::start(TWO);
    let (h1, welcome) = Port::join(&daemon, "h1");
    assert_eq!(welcome.arg[1..4], [11, 1, 0], "hwid, links, traced");
    let info = h1.expect(WEFT_FAB_LINK_INFO);
    assert_eq!((info.link, info.arg), (0, [5, 16, 0, 0, 5, 16]), "no port at the far end");
    let (h2, welcome2) = Port::join(&daemon, "h2");
    assert_eq!(welcome2.arg[2], 2, "links are counted up to the last that has a cable");
    assert_eq!(h1.expect(WEFT_FAB_LINK_INFO).arg, [5, 16, 0, 1, 5, 16]);

    h1.enable();
    h2.enable();
    let up = h1.expect_with_fds(WEFT_FAB_LINK_UP);
    assert_eq!(up.packet.link, 0);
    let life = up.packet.arg[5] >> 32;
    assert!(life > welcome.arg[0].max(welcome2.arg[0]), "later than both generations");
    assert_eq!(up.packet.arg, [5, 16, 0, welcome2.arg[1], welcome2.arg[0], 1 | (life << 32)]);
    let up2 = h2.expect_with_fds(WEFT_FAB_LINK_UP);
    let arg = [5, 16, 1, 11, welcome.arg[0], life << 32];
    assert_eq!((up2.packet.link, up2.packet.arg), (1, arg));
    for (got, theirs) in [(&up.fds, &h2.fds), (&up2.fds, &h1.fds)] {
        assert_eq!(got.len(), 3);
        assert!(same_file(&got[0], &theirs[0]) && same_file(&got[1], &theirs[1]));
    }
    rustix::io::write(&up.fds[2], &1u64.to_ne_bytes()).unwrap();
    let mut count = [0; 8];
    rustix::io::read(&h2.fds[2], &mut count[..]).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1, "the doorbell rings at its owner");
}

#[test]
fn apertures_reach_the_neighbour_and_its_answer_the_owner() {
    let daemon = Daemon::start(TWO);
    let (h1, h2) = linked(&daemon);
    h1.say(WEFT_FAB_INBOUND, 0, [7, 0x4000, 0x2000, 3, 1, 9 << 32], &segment(0x1000, 0x2000));
    let told = h2.expect(WEFT_FAB_INBOUND);
    assert_eq!((told.link, &told.arg[..5]), (1, &[7, 0x4000, 0x2000, 3, 0][..]));
    assert_eq!(told.data, segment(0x1000, 0x2000));
    h2.say(WEFT_FAB_INBOUND_ACK, 1, [7, 0, 0, 0, 0, told.arg[5]], &[]);
    let done = h1.expect(WEFT_FAB_INBOUND_ACK);
    assert_eq!((done.arg[0], done.arg[5]), (7, 9 << 32));

    // A link that comes up again shows what is open.
    assert!(daemon.cli(&["link", "down", "h2:1"]).status.success());
    assert_eq!(h2.expect(WEFT_FAB_LINK_DOWN).link, 1);
    assert_eq!(h1.expect(WEFT_FAB_LINK_DOWN).link, 0);
    assert!(daemon.cli(&["link", "up", "h1:0"]).status.success());
    h2.expect(WEFT_FAB_LINK_UP);
    assert_eq!(h2.expect(WEFT_FAB_INBOUND).data, segment(0x1000, 0x2000));

    h2.say(WEFT_FAB_DENIED, 1, [0x4008, 1, 3, 17, 0, 0], &[]);
    let denied = h1.expect(WEFT_FAB_DENIED);
    assert_eq!((denied.link, &denied.arg[..4]), (0, &[0x4008, 1, 3, 17][..]));
}

#[test]
fn mailbox_messages_pass_while_the_link_is_up() {
    let daemon = Daemon::start(TWO);
    let (h1, h2) = linked(&daemon);
    let longest = [0xa5; WEFT_MBOX_BYTES as usize];
    for data in [&b"x"[..], &longest] {
        h1.say(WEFT_FAB_MBOX, 0, [1, 33, 0, 0, 0, 0], data);
        let got = h2.expect(WEFT_FAB_MBOX);
        assert_eq!((got.link, got.data.as_slice()), (1, data));
        assert_eq!(got.arg[..2], [1, 33]);
    }
    daemon.json(&["link", "down", "h1:0"]);
    h1.expect(WEFT_FAB_LINK_DOWN);
    h1.say(WEFT_FAB_MBOX, 0, [0; 6], b"lost");
    h1.say(WEFT_FAB_LINK_CTRL, 0, [0, 2, 0, 0, 0, 0], &[]);
    h2.expect(WEFT_FAB_LINK_DOWN);
    let next = h2.receive().unwrap().packet;
    assert_eq!(next.kind, WEFT_FAB_LINK_INFO, "and not the message sent before it");
    assert_eq!(next.arg[0], 2);
}

#[test]
fn death_of_a_port_is_told_and_answered_for() {
    let daemon = Daemon::start(TWO);
    let (h1, h2) = linked(&daemon);
    h1.say(WEFT_FAB_INBOUND, 0, [0, 0, 0x1000, 3, 1, 5 << 32], &segment(0, 0x1000));
    h2.expect(WEFT_FAB_INBOUND);
    drop(h2);
    assert_eq!(h1.expect(WEFT_FAB_LINK_DOWN).link, 0);
    assert_eq!(h1.expect(WEFT_FAB_INBOUND_ACK).arg[5], 5 << 32);
    assert_eq!(h1.expect(WEFT_FAB_LINK_INFO).arg[3], 0, "no port is plugged in");
}

#[test]
fn generations_increase_through_reset_return_and_restart() {
    let mut daemon = Daemon::start(TWO);
    let mut last = 0;
    let mut later = |welcome: Packet| {
        assert!(welcome.arg[0] > last, "{} after {last}", welcome.arg[0]);
        last = welcome.arg[0];
    };
    for _ in 0..3 {
        // More often than once a second, which the clock alone would not tell apart.
        for _ in 0..50 {
            let (h1, welcome) = Port::join(&daemon, "h1");
            later(welcome);
            h1.say(WEFT_FAB_RESET, 0, [0; 6], &[]);
            later(h1.expect(WEFT_FAB_WELCOME));
        }
        daemon.restart();
    }
}

#[test]
fn a_port_that_comes_back_at_once_takes_over_and_a_second_one_does_not() {
    let daemon = Daemon::start(TWO);
    for _ in 0..100 {
        // The end of the old connection and the new HELLO may be seen in any order.
        let (old, _) = Port::join(&daemon, "h1");
        drop(old);
    }
    let (first, _) = Port::join(&daemon, "h1");
    let second = Port::connect(&daemon);
    second.send_with(&Port::hello_packet("h1"), &second.fds.iter().collect::<Vec<_>>());
    let why = second.expect_end().unwrap();
    assert_eq!(why.kind, WEFT_FAB_REFUSED);
    assert!(String::from_utf8(why.data).unwrap().contains("h1 is connected already"));
    first.say(WEFT_FAB_RESET, 0, [0; 6], &[]);
    first.expect(WEFT_FAB_WELCOME);
}

/// The reason a HELLO is refused for; the connection ends with it.
fn refusal(daemon: &Daemon, packet: &Packet, fds: &[&OwnedFd]) -> String {
    let port = Port::connect(daemon);
    port.send_with(packet, fds);
    // What comes right after must not take the reason away.
    let _ = port.send_raw(&Packet { kind: WEFT_FAB_ENABLE, ..Packet::default() }.encode(), &[]);
    let last = port.expect_end().expect("a reason");
    assert_eq!(last.kind, WEFT_FAB_REFUSED);
    String::from_utf8(last.data).unwrap()
}

#[test]
fn a_hello_that_is_not_in_order_is_refused_with_a_reason() {
    let mut daemon = Daemon::start(TWO);
    let (ram, page, bell) = (memory(RAM), memory(WEFT_FAB_DOORBELL_BYTES.into()), event());
    let good = [&ram, &page, &bell];
    let hello = Port::hello_packet("h1");
    let with = |at: usize, value: u64| {
        let mut packet = hello.clone();
        packet.arg[at] = value;
        packet
    };

    for (packet, why) in [
        (with(0, 1), "version 1"),
        (with(1, 12), "hwid 11 in the topology"),
        (with(2, 0), "multiple of 4096"),
        (with(2, 4097), "multiple of 4096"),
        (with(2, 2 * RAM), "0x200000 are needed"),
        (Port::hello_packet("h9"), "no host is called \"h9\""),
        (Port::hello_packet(""), "no host is called \"\""),
    ] {
        let told = refusal(&daemon, &packet, &good);
        assert!(told.contains(why), "\"{told}\" does not say \"{why}\"");
    }

    let unsealed = memfd_create("unsealed", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&unsealed, RAM).unwrap();
    let small = memory(1024);
    let (socket, _peer) = UnixStream::pair().unwrap();
    let socket = OwnedFd::from(socket);
    for (fds, why) in [
        (&[][..], "0 descriptors"),
        (&good[..2], "2 descriptors"),
        (&[&ram, &page, &bell, &bell], "4 descriptors"),
        (&[&ram, &page, &page], "not an eventfd"),
        (&[&socket, &page, &bell], "not memory"),
        (&[&bell, &page, &ram], "not memory"),
        (&[&ram, &small, &bell], "doorbell page: the descriptor has 0x400"),
        (&[&unsealed, &page, &bell], "sealed"),
    ] {
        let told = refusal(&daemon, &hello, fds);
        assert!(told.contains(why), "\"{told}\" does not say \"{why}\"");
    }

    Port::join(&daemon, "h1");
    assert!(daemon.alive());
}

#[test]
fn a_peer_that_breaks_the_protocol_is_closed_and_no_other_is() {
    let mut daemon = Daemon::start(TWO);
    let mut events = daemon.events();
    let (h1, mut h2) = linked(&daemon);
    let idle = daemon.descriptors();
    let message = |kind, link, arg, data: &[u8]| Packet { kind, link, arg, data: data.into() };
    let seg = segment(0, 0x1000);
    let mut beyond = message(WEFT_FAB_MBOX, 0, [0; 6], b"x").encode();
    beyond[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());

    let offences: Vec<Vec<u8>> = vec![
        vec![1],
        vec![0xff; PACKET_BYTES - 1],
        vec![0xff; PACKET_BYTES],
        vec![0; PACKET_BYTES],
        vec![0; PACKET_BYTES + 1],
        vec![0x5a; 5000],
        beyond.to_vec(),
        Port::hello_packet("h2").encode().to_vec(),
        message(WEFT_FAB_WELCOME, 0, [0; 6], &[]).encode().to_vec(),
        message(WEFT_FAB_MBOX, 4, [0; 6], b"x").encode().to_vec(),
        message(WEFT_FAB_MBOX, 1, [0; 6], b"").encode().to_vec(),
        message(WEFT_FAB_MBOX, 1, [34, 0, 0, 0, 0, 0], b"x").encode().to_vec(),
        message(WEFT_FAB_FUNCTION_RESET, 0, [34, 0, 0, 0, 0, 0], &[]).encode().to_vec(),
        message(WEFT_FAB_LINK_CTRL, u16::MAX, [0; 6], &[]).encode().to_vec(),
        message(WEFT_FAB_INBOUND, 0, [34 * 32, 0, 0x1000, 3, 1, 0], &seg).encode().to_vec(),
        message(WEFT_FAB_INBOUND, 0, [u64::MAX, 0, 0x1000, 3, 1, 0], &seg).encode().to_vec(),
        message(WEFT_FAB_INBOUND, 0, [0, 0, 0x2000, 3, 1, 0], &seg).encode().to_vec(),
        message(WEFT_FAB_INBOUND, 0, [0, 0, 0x1000, 3, 1, 0], &segment(RAM, 0x1000))
            .encode()
            .to_vec(),
        message(WEFT_FAB_INBOUND, 0, [0, 0, 0x1000, 3, 1, 0], &seg[..9]).encode().to_vec(),
        message(WEFT_FAB_INBOUND_ACK, 1, [2000, 0, 0, 0, 0, 0], &[]).encode().to_vec(),
        message(WEFT_FAB_COUNTERS, 0, [0; 6], &[0; 7]).encode().to_vec(),
    ];
    for offence in offences {
        h2.send_raw(&offence, &[]).unwrap();
        h2.expect_end();
        h1.expect(WEFT_FAB_LINK_DOWN);
        assert_eq!(events.until("gone")["node"], "h2");
        (h2, _) = Port::join(&daemon, "h2");
        h2.enable();
        h1.expect(WEFT_FAB_LINK_UP);
    }

    // Descriptors where none belong, one and more than are looked at.
    for count in [1, 12] {
        let bell = event();
        let enable = Packet { kind: WEFT_FAB_ENABLE, ..Packet::default() };
        h2.send_with(&enable, &vec![&bell; count]);
        h2.expect_end();
        assert_eq!(events.until("gone")["node"], "h2");
        (h2, _) = Port::join(&daemon, "h2");
    }

    // The same before HELLO, where there is no port to name.
    for bytes in [vec![0; 3], message(WEFT_FAB_ENABLE, 0, [1; 6], &[]).encode().to_vec()] {
        let port = Port::connect(&daemon);
        port.send_raw(&bytes, &[]).unwrap();
        assert!(port.expect_end().is_none());
    }
    assert!(daemon.alive());
    assert_eq!(daemon.descriptors(), idle, "every descriptor was closed");
}

#[test]
fn descriptors_go_with_their_ports() {
    let daemon = Daemon::start(TWO);
    let mut events = daemon.events();
    let idle = daemon.descriptors();
    for _ in 0..50 {
        let (h1, h2) = linked(&daemon);
        drop((h1, h2));
        events.until("gone");
        events.until("gone");
    }
    assert_eq!(daemon.descriptors(), idle);
}

#[test]
fn a_reader_that_does_not_read_holds_no_other_up() {
    let mut daemon = Daemon::start(TWO);
    let (h1, h2) = linked(&daemon);
    // Far more than sockets hold. h2 reads nothing.
    for _ in 0..20_000 {
        h1.say(WEFT_FAB_MBOX, 0, [0; 6], &[0; 256]);
    }
    // An answer to what was sent last: all before it has been dealt with.
    h1.say(WEFT_FAB_RESET, 0, [0; 6], &[]);
    h1.expect(WEFT_FAB_WELCOME);
    let status = daemon.json(&["status"]);
    assert!(status["dropped"]["h2"].as_u64().unwrap() > 10_000, "{status}");
    assert_eq!(status["nodes"][1]["connected"], true);

    assert!(daemon.alive());
    // What it was sent in time is still there to be read, in order.
    assert_eq!(h2.expect(WEFT_FAB_MBOX).data, [0; 256]);
    h2.expect(WEFT_FAB_LINK_DOWN);
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let daemon = Daemon::start(TWO);
    assert!(Port::connect(&daemon).expect_end().is_none());
}

#[test]
fn traced_mode_is_told_now_and_at_the_next_welcome() {
    let daemon = Daemon::start(TWO);
    let (h1, welcome) = Port::join(&daemon, "h1");
    assert_eq!(welcome.arg[3], 0);
    daemon.json(&["trace", "h1", "on"]);
    assert_eq!(h1.expect(WEFT_FAB_TRACE).arg[0], 1);
    h1.say(WEFT_FAB_RESET, 0, [0; 6], &[]);
    assert_eq!(h1.expect(WEFT_FAB_WELCOME).arg[3], 1);
    daemon.json(&["trace", "h1", "off"]);
    assert_eq!(h1.expect(WEFT_FAB_TRACE).arg[0], 0);
}

#[test]
fn a_port_is_told_whether_its_fabric_attests_hardware_ids() {
    let daemon = Daemon::start(&format!("attests = false\n{TWO}"));
    let (_, welcome) = Port::join(&daemon, "h1");
    assert_eq!(welcome.arg[4..], [u64::from(WEFT_FAB_UNATTESTED), 0]);
}

#[test]
fn adversarial_mode_is_told_with_its_seed_now_and_at_the_next_welcome() {
    let daemon = Daemon::start(TWO);
    let (h1, welcome) = Port::join(&daemon, "h1");
    assert_eq!(welcome.arg[4..], [0, 0]);
    daemon.json(&["adversarial", "h1", "on", "--seed", "77"]);
    assert_eq!(h1.expect(WEFT_FAB_ADVERSARIAL).arg[..2], [1, 77]);
    assert_eq!(daemon.json(&["status"])["nodes"][0]["adversarial"], 77);
    h1.say(WEFT_FAB_RESET, 0, [0; 6], &[]);
    assert_eq!(h1.expect(WEFT_FAB_WELCOME).arg[4..], [1, 77]);
    daemon.json(&["adversarial", "h1", "off"]);
    assert_eq!(h1.expect(WEFT_FAB_ADVERSARIAL).arg[..2], [0, 0]);
    assert!(daemon.json(&["status"])["nodes"][0]["adversarial"].is_null());
}
