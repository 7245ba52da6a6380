// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a host is told of its hierarchy, byte by byte, and what it does not believe.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

use proptest::prelude::*;
use weft_proto::{
    mr::{
        hierarchy::{
            encode, Error, Gate, Given, Hierarchy, Place, BYTES, MAX_BYTES, MAX_ENDPOINTS,
            MAX_PLACES, WINDOW,
        },
        inventory::Kind,
    },
    nm::kind::{is_endpoint, is_host, NO_HOST, SHARED},
};

const SWITCH: u64 = NO_HOST | 7;
const ENDPOINT: u64 = NO_HOST | SHARED;
const HEAD: usize = 8;
const PLACE: usize = 48;

fn host() -> Place {
    Place {
        depth: 0,
        kind: Kind::Root,
        port: 0,
        hwid: 1,
        lid: 1,
        given: None,
    }
}

fn switch(n: u64, depth: u8, port: u8) -> Place {
    Place {
        depth,
        kind: Kind::Switch { ports: 16 },
        port,
        hwid: SWITCH + n,
        lid: 100 + n as u32,
        given: None,
    }
}

/// Endpoint number `n`, and the virtual endpoint `ve` of it, with place number `space`.
fn given(n: u64, depth: u8, port: u8, ve: u8, space: u64) -> Place {
    let base = WINDOW.0 + space * BYTES;
    Place {
        depth,
        kind: Kind::Endpoint {
            ves: 4,
            functions: 2,
        },
        port,
        hwid: ENDPOINT + n,
        lid: 200 + n as u32,
        given: Some(Given {
            ve,
            out: Gate { link: 3, vp: 15 },
            into: Gate { link: 0, vp: 1 },
            base,
            limit: base + BYTES - 1,
        }),
    }
}

/// Two switches, two virtual endpoints of one endpoint, one of another, and one that only is there.
fn places() -> Vec<Place> {
    let mut near = given(9, 2, 5, 0, 0);
    near.given = None;
    vec![
        host(),
        switch(0, 1, 0),
        given(1, 2, 2, 0, 0),
        given(1, 2, 2, 3, 1),
        switch(1, 2, 4),
        given(2, 3, 0, 1, 2),
        near,
    ]
}

fn bytes_of(vh: u16, places: &[Place]) -> Vec<u8> {
    let mut buf = [0xa5; MAX_BYTES];
    let len = encode(vh, places, &mut buf).expect("it is in order");
    buf[..len].to_vec()
}

#[test]
fn mr_3_a_hierarchy_comes_back_as_it_went() {
    let bytes = bytes_of(2, &places());
    assert_eq!(bytes.len(), HEAD + PLACE * places().len());
    let hierarchy = Hierarchy::parse(&bytes).unwrap();
    assert_eq!(hierarchy.vh(), 2);
    assert_eq!(hierarchy.places().collect::<Vec<_>>(), places());
    let ves: Vec<_> = hierarchy
        .given()
        .map(|(p, g)| (p.hwid - ENDPOINT, g.ve))
        .collect();
    assert_eq!(ves, [(1, 0), (1, 3), (2, 1)]);
    // The host alone: nothing is given to it, and it needs no number.
    let alone = bytes_of(0, &[host()]);
    assert_eq!(Hierarchy::parse(&alone).unwrap().given().count(), 0);
}

#[test]
fn mr_3_the_bytes_are_those_of_the_documentation() {
    let bytes = bytes_of(0x0203, &places());
    assert_eq!(bytes[..HEAD], [1, 7, 3, 2, 0, 0, 0, 0]);
    let one = &bytes[HEAD + 2 * PLACE..][..PLACE];
    assert_eq!(one[..4], [2, 3, 2, 1], "depth, kind, port, given");
    assert_eq!(one[4..12], (ENDPOINT + 1).to_le_bytes());
    assert_eq!(one[12..16], 201u32.to_le_bytes());
    assert_eq!(one[16..20], [0, 2, 4, 0], "ve, functions, ves");
    assert_eq!(one[20..24], [3, 15, 0, 1], "out and in");
    assert_eq!(one[24..32], WINDOW.0.to_le_bytes());
    assert_eq!(one[32..40], (WINDOW.0 + BYTES - 1).to_le_bytes());
    assert_eq!(one[40..], [0; 8]);
}

#[test]
fn mr_3_the_longest_hierarchy_has_room() {
    let mut all = vec![host(), switch(0, 1, 0)];
    all.extend((0..MAX_ENDPOINTS as u64).map(|n| given(n, 2, n as u8, 0, n)));
    let others = (0..(MAX_PLACES - all.len()) as u64).map(|n| Place {
        given: None,
        ..given(100 + n, 2, 0, 0, 0)
    });
    all.extend(others);
    assert!(bytes_of(2, &all).len() <= MAX_BYTES);
    assert_eq!(
        encode(2, &all, &mut [0; MAX_BYTES - PLACE]),
        None,
        "no room"
    );
    all.push(given(1000, 2, 1, 0, 60));
    assert_eq!(encode(2, &all, &mut [0; 2 * MAX_BYTES]), None, "too long");
    all.remove(5);
    assert_eq!(
        encode(2, &all, &mut [0; MAX_BYTES]).map(|_| ()),
        Some(()),
        "another one in its place"
    );
    all[30] = given(1001, 2, 1, 0, 61);
    assert_eq!(
        encode(2, &all, &mut [0; MAX_BYTES]),
        None,
        "a route too many"
    );
}

/// What is wrong with a hierarchy in which one thing is changed.
fn why(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let mut bytes = bytes_of(2, &places());
    change(&mut bytes);
    Hierarchy::parse(&bytes).expect_err("it is not in order")
}

#[test]
fn mr_3_what_makes_no_sense_is_not_believed() {
    let put = |place: usize, at: usize, value: &'static [u8]| {
        move |bytes: &mut Vec<u8>| {
            bytes[HEAD + place * PLACE + at..][..value.len()].copy_from_slice(value);
        }
    };
    for (value, expected) in [
        (why(|b| b.truncate(3)), Error::Length),
        (why(|b| b.truncate(HEAD)), Error::Length),
        (why(|b| b.truncate(b.len() - 1)), Error::Length),
        (why(|b| b.push(0)), Error::Length),
        (why(|b| b[0] = 2), Error::Version(2)),
        (why(|b| b[1] = 6), Error::Length),
        (why(|b| b[2] = 0), Error::Value),
        (why(|b| b[2] = 1), Error::Value),
        (why(|b| b[7] = 1), Error::Value),
        (why(put(0, 0, &[1])), Error::Order),
        (why(put(1, 0, &[0])), Error::Order),
        (why(put(1, 0, &[2])), Error::Order),
        (why(put(4, 0, &[3])), Error::Order),
        (why(put(5, 0, &[33])), Error::Value),
        (why(put(1, 1, &[4])), Error::Value),
        (why(put(1, 1, &[3])), Error::Value),
        (why(put(1, 2, &[16])), Error::Value),
        (why(put(1, 3, &[1])), Error::Value),
        (why(put(2, 3, &[3])), Error::Value),
        (why(put(6, 3, &[1])), Error::Value),
        (why(put(2, 3, &[0])), Error::Value),
        (why(put(0, 4, &[0])), Error::Value),
        (why(put(2, 12, &[0; 4])), Error::Value),
        (why(put(2, 15, &[1])), Error::Value),
        (why(put(2, 16, &[4])), Error::Value),
        (why(put(2, 17, &[0])), Error::Value),
        (why(put(1, 18, &[0])), Error::Value),
        (why(put(2, 19, &[1])), Error::Value),
        (why(put(2, 20, &[4])), Error::Value),
        (why(put(2, 21, &[0])), Error::Value),
        (why(put(2, 23, &[16])), Error::Value),
        (why(put(2, 40, &[1])), Error::Value),
        // The same virtual endpoint twice, and one endpoint by two ways, or with two local ids.
        (why(put(3, 16, &[0])), Error::Twice),
        (why(put(3, 21, &[14])), Error::Twice),
        (why(put(3, 12, &[77])), Error::Twice),
        (why(put(5, 12, &[201])), Error::Twice),
        // Outside of the window, not whole pages, on each other.
        (why(put(2, 29, &[0])), Error::Space),
        (why(put(2, 24, &[1])), Error::Space),
        (why(put(2, 32, &[0])), Error::Space),
        (why(put(3, 27, &[0])), Error::Space),
    ] {
        assert_eq!(value, expected);
    }
    // Of one endpoint that is told of at two places.
    let mut apart = places();
    apart.swap(3, 5);
    apart[3].depth = 2;
    apart[5].depth = 2;
    assert_eq!(encode(2, &apart, &mut [0; MAX_BYTES]), None);
}

#[test]
fn mr_1_an_id_says_what_a_node_is() {
    for (hwid, host, endpoint) in [
        (5, true, false),
        (SHARED | 5, true, false),
        (NO_HOST | 5, false, false),
        (NO_HOST | SHARED | 5, false, true),
    ] {
        assert_eq!(
            (is_host(hwid), is_endpoint(hwid)),
            (host, endpoint),
            "{hwid:#x}"
        );
    }
}

proptest! {
    /// Whatever comes, nothing breaks; what is believed is what it says, and in order.
    #[test]
    fn mr_3_spoilt_hierarchies_do_no_harm(
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        whole in prop::bool::weighted(0.8),
    ) {
        let mut bytes = bytes_of(2, &places());
        for (at, value) in spoilt {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        if let Ok(hierarchy) = Hierarchy::parse(&bytes) {
            let places: Vec<_> = hierarchy.places().collect();
            prop_assert_eq!(&bytes_of(hierarchy.vh(), &places), &bytes);
            let given: Vec<_> = hierarchy.given().collect();
            for (n, (place, one)) in given.iter().enumerate() {
                prop_assert!(is_endpoint(place.hwid) && place.lid != 0);
                prop_assert!(WINDOW.0 <= one.base && one.limit <= WINDOW.1);
                for (_, other) in &given[..n] {
                    prop_assert!(one.limit < other.base || other.limit < one.base);
                }
            }
        }
    }

    #[test]
    fn mr_3_any_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Hierarchy::parse(&bytes);
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        let _ = Hierarchy::parse(&bytes);
    }
}
