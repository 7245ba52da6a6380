// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What network managers send, byte by byte, and the power policy.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use proptest::prelude::*;
use weft_proto::mac::{Mac, Tag, TAG_BYTES};
use weft_proto::nm::{
    mastership::Mastership,
    message::{
        listing::LISTED, page::PAGE_PORTS, Differ, Info, Listed, Listing, Message, Moves, Page,
        Piece, Taken, Write, MAX_PIECE,
    },
    packet::{
        Arrival, Direction, Error, Packet, ENVELOPE_BYTES, HEADER_BYTES, MAX_BYTES, MAX_PAYLOAD,
    },
    path::{Path, MAX_HOPS},
    port::{Port, PORTS},
    power::{Governor, Policy, Rate, Seen, LEAST, MOST_PATIENCE, PATIENCE, SAMPLE_MS, WORTH},
    seal::{Origin, Receiver},
    table::{Effects, Slot, Table},
};

fn encode(packet: &Packet) -> Vec<u8> {
    let mut buf = [0; MAX_BYTES];
    let len = packet.encode(&mut buf);
    buf[..len].to_vec()
}

#[test]
fn n_4_the_header_is_that_of_table_2() {
    // The table's own example: ports 0, 1, 2, 0 in turn.
    let path = Path::new(&[0, 1, 2, 0]).unwrap();
    let mut packet = Packet::new(Direction::ToMaster, path, b"payload").unwrap();
    assert_eq!(packet.arrive(3), Some(Arrival::Relay(1)));
    assert_eq!(packet.arrive(1), Some(Arrival::Relay(2)));
    let bytes = encode(&packet);
    let header = &bytes[ENVELOPE_BYTES..ENVELOPE_BYTES + HEADER_BYTES];
    let (fields, paths) = header.split_at(4);
    assert_eq!(fields, [0, 2, 4, 2], "method, direction, hops, passed");
    let (forward, rest) = paths.split_at(MAX_HOPS);
    assert_eq!(forward[..5], [0, 1, 2, 0, 0]);
    let (backward, size) = rest.split_at(MAX_HOPS);
    assert_eq!(backward[..4], [3, 1, 0, 0]);
    assert_eq!(size, [7, 0]);
    assert_eq!(&bytes[ENVELOPE_BYTES + HEADER_BYTES..], b"payload");
    assert_eq!(Packet::parse(&bytes), Ok(packet));
}

#[test]
fn n_4_the_way_back_is_the_way_reversed() {
    let path = Path::new(&[2, 0]).unwrap();
    let mut packet = Packet::new(Direction::Unknown, path, &[]).unwrap();
    assert_eq!(packet.arrive(1), Some(Arrival::Relay(0)));
    assert_eq!(packet.arrive(3), Some(Arrival::Here));
    assert_eq!(packet.way_back().ports(), [3, 1]);
}

struct Keyed;

impl Mac for Keyed {
    fn tag(&self, _message: &[u8]) -> Option<Tag> {
        Some([0xa5; TAG_BYTES])
    }
}

#[test]
fn n_4_the_longest_packet_fits_a_mailbox() {
    let path = Path::new(&[3; MAX_HOPS]).unwrap();
    assert!(path.then(0).is_none());
    let mut packet = Packet::new(Direction::Unknown, path, &[9; MAX_PAYLOAD]).unwrap();
    packet.seal(&Keyed, Origin::default(), Receiver::ANY);
    let bytes = encode(&packet);
    assert_eq!(bytes.len(), MAX_BYTES);
    assert_eq!(Packet::parse(&bytes), Ok(packet));
    assert!(Packet::new(Direction::Unknown, path, &[9; MAX_PAYLOAD + 1]).is_none());
    assert!(Packet::new(Direction::Unknown, Path::EMPTY, &[]).is_none());
}

/// Has the checksum right for whatever the bytes are.
fn seal(bytes: &mut [u8]) {
    let sum = weft_proto::crc::crc32c(bytes[ENVELOPE_BYTES..].iter().copied());
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn n_4_a_header_that_makes_no_sense_is_dropped() {
    let path = Path::new(&[0, 1]).unwrap();
    let good = encode(&Packet::new(Direction::Unknown, path, b"x").unwrap());
    let at = ENVELOPE_BYTES;
    for (place, value) in [
        (at, 1),                    // method
        (at + 1, 3),                // direction
        (at + 2, 0),                // no hops
        (at + 2, 33),               // too many
        (at + 3, 2),                // all of them passed
        (at + 4, 16),               // a port that no node has
        (at + 4 + 2 * MAX_HOPS, 2), // a longer payload
    ] {
        let mut bytes = good.clone();
        bytes[place] = value;
        assert_eq!(Packet::parse(&bytes), Err(Error::Checksum));
        seal(&mut bytes);
        assert_eq!(Packet::parse(&bytes), Err(Error::Value), "{place}: {value}");
    }
    // A flag that is not known, and one of a seal that is not there.
    for flags in [2, 1] {
        let mut bytes = good.clone();
        bytes[5] = flags;
        assert!(Packet::parse(&bytes).is_err(), "{flags}");
    }
    for len in 0..good.len() {
        assert!(Packet::parse(&good[..len]).is_err());
    }
}

fn messages() -> Vec<Message<'static>> {
    let port = Port {
        peer: 7,
        speed: 6,
        width: 32,
        excluded: true,
    };
    let page = Page::of(&[port; PORTS], 3);
    let mastership = Mastership { term: 3, master: 5 };
    let info = Info {
        hwid: 1,
        life: 2,
        lid: 3,
        next_lid: 4,
        mastership,
        change: 5,
        assignments: 6,
    };
    let write = Write {
        mastership,
        version: 8,
        to: 9,
        life: 10,
    };
    let piece = Piece {
        version: 1,
        total: 200,
        offset: 80,
        bytes: &[5; MAX_PIECE],
    };
    let mut listing = Listing::new(mastership, 1, 2);
    listing.of = 2 + LISTED as u16;
    while listing.push(Listed {
        hwid: 1,
        life: 2,
        lid: 3,
        change: 4,
    }) {}
    vec![
        Message::PortsRequest { first: 11 },
        Message::PortsReply { info, page },
        Message::Assign {
            write,
            lid: 1,
            next_lid: 2,
        },
        Message::Stage {
            write,
            piece: 31,
            of: 32,
            runs: &[1; MAX_PIECE],
        },
        Message::Commit { write, hops: 32 },
        Message::Rest { write, on: true },
        Message::Assignments { write, piece },
        Message::Ack {
            from: 1,
            taken: Taken::Order,
            mastership,
            differ: Differ {
                hops: 9,
                moves: Moves::Broken,
            },
        },
        Message::Poll {
            info,
            changed: true,
        },
        Message::PollAck { from: 1, master: 2 },
        Message::AssignmentsRequest { offset: 3 },
        Message::AssignmentsReply { piece },
        Message::Hierarchy { write, piece },
        Message::ListRequest { first: 5 },
        Message::ListReply { listing },
        Message::Amend {
            from: 1,
            life: 2,
            change: &[7; 117],
        },
    ]
}

#[test]
fn n_4_every_message_fits_a_packet_and_comes_back() {
    for message in messages() {
        let mut buf = [0; MAX_PAYLOAD];
        let len = message.encode(42, &mut buf).expect("fits");
        assert_eq!(Message::parse(&buf[..len]), Ok((42, message)));
    }
}

#[test]
fn a_part_of_a_list_has_nodes_that_are_in_the_list() {
    let parse = |listing: Listing| {
        let mut buf = [0; MAX_PAYLOAD];
        let len = Message::ListReply { listing }
            .encode(1, &mut buf)
            .expect("fits");
        Message::parse(&buf[..len]).is_ok()
    };
    let mut listing = Listing::new(Mastership { term: 3, master: 5 }, 1, 2);
    assert!(parse(listing), "there is no list");
    listing.of = 3;
    assert!(!parse(listing), "it would be asked for for ever");
    let node = Listed {
        hwid: 1,
        ..Listed::default()
    };
    assert!(listing.push(node));
    assert!(parse(listing));
    listing.of = 2;
    assert!(!parse(listing), "behind the end");
    listing.of = 3;
    assert!(listing.push(Listed::default()));
    assert!(!parse(listing), "a node without a hardware id");
}

#[test]
fn n_3_the_ports_of_a_switch_come_in_pages() {
    let port = |peer| Port {
        peer,
        speed: 3,
        width: 8,
        excluded: false,
    };
    let mut ports = [Port::NONE; PORTS];
    for (n, place) in ports.iter_mut().enumerate().filter(|(n, _)| *n != 5) {
        *place = port(n as u64 + 1);
    }
    // Only those with a neighbour take room.
    let first = Page::of(&ports, 0);
    assert_eq!(usize::from(first.next), PAGE_PORTS + 1);
    let second = Page::of(&ports, first.next);
    assert_eq!(second.next, 0);
    let told = first.ports.iter().zip(&second.ports);
    for ((one, other), port) in told.zip(&ports) {
        let mut told = [*one, *other];
        told.sort_by_key(|port| port.peer);
        assert_eq!(told, [Port::NONE, *port], "each once");
    }
    ports[7..].fill(Port::NONE);
    assert_eq!(Page::of(&ports, 0), Page { ports, next: 0 });
}

proptest! {
    /// Whatever comes, nothing breaks, and what is understood is what it says.
    #[test]
    fn n_4_spoilt_messages_do_no_harm(
        which in 0..12usize,
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut buf = [0; MAX_PAYLOAD];
        let len = messages()[which].encode(1, &mut buf).unwrap();
        let mut bytes = buf[..len].to_vec();
        for (at, value) in spoilt {
            let at = at.index(len);
            bytes[at] = value;
        }
        bytes.truncate(cut.index(len + 1));
        if let Ok((xid, message)) = Message::parse(&bytes) {
            let mut again = [0; MAX_PAYLOAD];
            let len = message.encode(xid, &mut again).unwrap();
            prop_assert_eq!(Message::parse(&again[..len]), Ok((xid, message)));
        }
    }

    #[test]
    fn n_6_pieces_of_routes_of_any_content_do_no_harm(
        pieces in prop::collection::vec((0..4u8, 1..4u8, prop::collection::vec(any::<u8>(), 0..40)), 0..12),
    ) {
        struct Fx;
        impl Effects for Fx {
            fn route(&mut self, lid: u32, port: Option<u8>) {
                assert!(lid != 0 && port.is_none_or(|port| port < 16));
            }
        }
        let mut table = Table::new([Slot::NONE; 8]);
        for (piece, of, runs) in pieces {
            if table.stage(piece, of, &runs) == Ok(true) {
                for hops in 1..=32 {
                    table.commit(hops, &mut Fx).unwrap();
                }
                prop_assert_eq!(table.differ(&[]), Differ::default());
            }
        }
        prop_assert!(table.routes().count() <= 8);
    }
}

const GEN3_X8: Rate = Rate { speed: 3, width: 8 };
const GEN1_X1: Rate = Rate { speed: 1, width: 1 };

/// Bytes of a sample of so many percent of a rate.
fn percent(rate: Rate, percent: u64) -> u64 {
    rate.bytes() * SAMPLE_MS / 1000 * percent / 100
}

/// A sample of a link that is as this end wants it.
fn sample(policy: &mut Policy, bytes: u64) -> Option<Rate> {
    policy.sample(bytes, SAMPLE_MS, policy.rate())
}

#[test]
fn n_8_a_link_follows_its_traffic_down_and_up() {
    let mut policy = Policy::new(GEN3_X8, GEN1_X1);
    let mut changes = Vec::new();
    for _ in 0..100 {
        changes.extend(sample(&mut policy, 0));
    }
    let steps = [(3, 4), (3, 2), (3, 1), (2, 1), (1, 1)];
    assert_eq!(changes, steps.map(|(speed, width)| Rate { speed, width }));
    // A busy one gets what it needs, twice as fast at least.
    let busy = percent(GEN1_X1, 80);
    assert_eq!(sample(&mut policy, busy), Some(Rate { speed: 2, width: 1 }));
    // A link that is full does not say how much more would come: the most, at once.
    let full = percent(policy.rate(), 95);
    assert_eq!(sample(&mut policy, full), Some(GEN3_X8));
    assert_eq!(sample(&mut policy, percent(GEN3_X8, 100)), None);
    assert_eq!(percent(GEN3_X8, 100), GEN3_X8.carries(SAMPLE_MS));
    // And never slower than is wanted of it.
    let mut policy = Policy::new(GEN3_X8, Rate { speed: 3, width: 2 });
    for _ in 0..100 {
        sample(&mut policy, 0);
    }
    assert_eq!(policy.rate(), Rate { speed: 3, width: 2 });
}

#[test]
fn n_8_the_policy_has_hysteresis() {
    let mut policy = Policy::new(GEN3_X8, GEN1_X1);
    // Low for less than its patience, again and again.
    for _ in 0..20 {
        for _ in 1..PATIENCE {
            assert_eq!(sample(&mut policy, 0), None);
        }
        assert_eq!(sample(&mut policy, percent(GEN3_X8, 50)), None);
    }
    // Constant traffic of any amount changes a link a few times, then no more.
    for load in 0..=100 {
        let bytes = percent(GEN3_X8, load);
        let mut policy = Policy::new(GEN3_X8, GEN1_X1);
        let changes = (0..1000).filter(|_| sample(&mut policy, bytes).is_some());
        let changes = changes.count();
        assert!(changes <= 5, "{load} %: {changes} times");
        assert!((0..1000).all(|_| sample(&mut policy, bytes).is_none()));
    }
    assert_eq!(policy.sample(1, 0, GEN3_X8), None, "no time has passed");
}

#[test]
fn n_8_a_link_that_the_other_end_slows_is_no_reason_to_change() {
    let mut policy = Policy::new(GEN3_X8, GEN1_X1);
    // Full as it is: this end wants the most already, whatever the other wants.
    for _ in 0..100 {
        assert_eq!(
            policy.sample(percent(GEN1_X1, 100), SAMPLE_MS, GEN1_X1),
            None
        );
    }
    // Half of what it is: it would be next to nothing, were the link as fast as this end wants it.
    for _ in 0..100 {
        assert_eq!(
            policy.sample(percent(GEN1_X1, 50), SAMPLE_MS, GEN1_X1),
            None
        );
    }
    // Slow at this end, too, it goes up for what is full.
    while policy.sample(0, SAMPLE_MS, GEN1_X1).is_some() || policy.rate() != GEN1_X1 {}
    let up = policy.sample(percent(GEN1_X1, 80), SAMPLE_MS, GEN1_X1);
    assert_eq!(up, Some(Rate { speed: 2, width: 1 }));
}

#[test]
fn n_8_an_end_goes_by_its_samples_and_begins_at_the_most_when_the_link_comes_up() {
    let mut seen = Seen {
        most: GEN3_X8,
        is: GEN3_X8,
        trained: 1,
        carried: [0; 2],
    };
    let mut governor = Governor::default();
    governor.look(0, Some(seen));
    assert_eq!(
        (governor.due(), governor.target()),
        (None, None),
        "not asked"
    );
    governor.set(true);
    // Idle, and looked at far too often: no sooner than samples allow, and on to the bottom.
    let idle = |governor: &mut Governor, from: u64, seen: &mut Seen| {
        let mut down = vec![];
        for now in from..from + 60_000 {
            let before = governor.target();
            governor.look(now, Some(*seen));
            seen.is = governor.target().unwrap_or(seen.most);
            down.extend((governor.target() != before).then(|| now - from));
        }
        assert_eq!(governor.target(), Some(LEAST));
        let patience = u64::from(PATIENCE) * SAMPLE_MS;
        assert_eq!(down, [1, 2, 3, 4, 5].map(|n| n * patience));
    };
    idle(&mut governor, 0, &mut seen);
    // What comes in counts as what goes out, and what was there before it looked does not.
    let busy = percent(LEAST, 80);
    seen.carried = [busy / 2, busy];
    governor.look(60_000, Some(seen));
    assert_eq!(governor.target(), Some(Rate { speed: 2, width: 1 }));
    // In another life of the link, also if it was not seen down.
    seen.trained += 1;
    governor.look(60_100, Some(seen));
    assert_eq!((governor.is_auto(), governor.target()), (true, None));
    idle(&mut governor, 60_100, &mut seen);
    governor.look(130_000, None);
    assert_eq!(
        (governor.is_auto(), governor.target(), governor.due()),
        (true, None, None)
    );
    governor.look(131_000, Some(seen));
    assert_eq!(governor.due(), Some(131_000 + SAMPLE_MS));
    governor.set(false);
    assert_eq!((governor.due(), governor.target()), (None, None));
}

#[test]
fn n_8_an_end_knows_what_a_link_is_when_neither_end_saves_power() {
    let mut seen = Seen {
        most: GEN3_X8,
        is: GEN3_X8,
        trained: 1,
        carried: [0; 2],
    };
    let mut governor = Governor::default();
    assert_eq!(governor.free(), None);
    governor.set(true);
    let mut now = 0;
    // So many samples with so many percent of load, over a link that is no faster than `limit`; half as fast with `ahead`.
    let mut run = |governor: &mut Governor, samples: u32, load: u64, limit: Rate, ahead: bool| {
        for _ in 0..samples {
            now += SAMPLE_MS;
            seen.is = governor.target().unwrap_or(seen.most);
            if seen.is.bytes() > limit.bytes() {
                seen.is = limit;
            }
            if ahead && seen.is.width > 1 {
                seen.is.width /= 2;
            }
            seen.carried[1] += percent(seen.is, load);
            governor.look(now, Some(seen));
        }
    };
    // Whether the other end is a step ahead or not: down to the bottom, up for a load, and down again.
    for ahead in [true, false] {
        run(&mut governor, 1, 0, GEN3_X8, false);
        run(&mut governor, 6 * PATIENCE, 0, GEN3_X8, ahead);
        assert_eq!(
            (governor.target(), governor.free()),
            (Some(LEAST), Some(GEN3_X8))
        );
        run(&mut governor, 1, 95, GEN3_X8, ahead);
        assert_eq!((governor.target(), governor.free()), (None, Some(GEN3_X8)));
        governor.set(false);
        assert_eq!(governor.free(), None);
        governor.set(true);
    }
    // An administrator lets it be no more than this, and then more: seen when there is traffic.
    let limit = Rate { speed: 2, width: 4 };
    run(&mut governor, 2, 50, GEN3_X8, false);
    assert_eq!(governor.free(), Some(GEN3_X8));
    run(&mut governor, 1, 50, limit, false);
    assert_eq!(governor.free(), Some(limit));
    run(&mut governor, 6 * PATIENCE, 0, limit, false);
    assert_eq!(
        (governor.target(), governor.free()),
        (Some(LEAST), Some(limit))
    );
    run(&mut governor, 2, 95, GEN3_X8, false);
    assert_eq!(governor.free(), Some(GEN3_X8));
}

proptest! {
    /// Whatever the traffic is: a step down is behind a whole wait of little traffic, and a link that is full is
    /// the fastest with the next sample.
    #[test]
    fn n_8_no_traffic_makes_a_link_flap(
        phases in prop::collection::vec((1..40u32, 0..120u64), 1..60),
    ) {
        let mut policy = Policy::new(GEN3_X8, GEN1_X1);
        let mut low = 0;
        for (samples, load) in phases {
            for _ in 0..samples {
                let before = policy.rate();
                let bytes = percent(before, load);
                low = if load < 25 { low + 1 } else { 0 };
                let changed = sample(&mut policy, bytes);
                match changed {
                    Some(rate) if rate.bytes() < before.bytes() => {
                        prop_assert!(low >= PATIENCE, "down after {low} samples");
                        low = 0;
                    }
                    Some(_) => prop_assert!(load > 75, "up at {load} %"),
                    None => {}
                }
                if load > 90 {
                    prop_assert_eq!(policy.rate(), GEN3_X8);
                }
            }
        }
    }

    /// Traffic that comes and goes, with any period: a link goes up once a period at the most, and not at all any
    /// more if the pauses are shorter than what makes a rest worth while.
    #[test]
    fn n_8_traffic_that_oscillates_changes_a_link_once_a_period_at_the_most(
        busy in 1..200u32,
        pause in 1..(3 * WORTH * PATIENCE),
    ) {
        let mut policy = Policy::new(GEN3_X8, GEN1_X1);
        let mut late = 0;
        for period in 0..40 {
            let mut ups = 0;
            for at in 0..busy + pause {
                let before = policy.rate();
                // All that the link at its fastest carries; a slower one is full.
                let bytes = if at < busy { percent(before, 100) } else { 0 };
                if let Some(rate) = sample(&mut policy, bytes) {
                    ups += u32::from(rate.bytes() > before.bytes());
                    late += u32::from(period >= 20);
                }
            }
            prop_assert!(ups <= 1, "{ups} times up in a period");
        }
        if pause < WORTH * PATIENCE {
            prop_assert_eq!(late, 0, "it has not learnt");
        }
    }
}

#[test]
fn n_8_traffic_that_always_comes_back_changes_a_link_less_and_less() {
    // As bad as can be: as soon as the link is slower it is full.
    let mut policy = Policy::new(GEN3_X8, GEN1_X1);
    let mut at = Vec::new();
    for now in 0..40_000 {
        let bytes = match policy.rate() == GEN3_X8 {
            true => 0,
            false => percent(policy.rate(), 100),
        };
        if sample(&mut policy, bytes).is_some_and(|rate| rate != GEN3_X8) {
            at.push(now);
        }
    }
    let waits: Vec<u32> = at
        .windows(2)
        .map(|pair| u32::try_from(pair[1] - pair[0]).unwrap())
        .collect();
    for (wait, n) in waits.iter().zip(1..) {
        assert_eq!(*wait, (PATIENCE << n).min(MOST_PATIENCE) + 1, "{waits:?}");
    }
    assert_eq!(*waits.last().unwrap(), MOST_PATIENCE + 1);
    // A rest that was worth while is none to be sorry for.
    let mut quiet =
        |samples| (0..samples).fold(0, |n, _| n + u32::from(sample(&mut policy, 0).is_some()));
    quiet(10 * MOST_PATIENCE);
    quiet(WORTH * MOST_PATIENCE);
    assert!(sample(&mut policy, percent(GEN3_X8, 60)).is_some());
    for n in 1..PATIENCE {
        assert_eq!(sample(&mut policy, 0), None, "{n}");
    }
    assert!(sample(&mut policy, 0).is_some());
}
