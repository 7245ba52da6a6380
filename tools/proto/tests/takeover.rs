// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A master that begins where another one ended, with nothing but the tables and the assignments: a host that keeps
//! an endpoint keeps it with all its numbers and its place, and who was put in another's place is noticed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test may.

#[allow(dead_code)] // Shared with others.
#[path = "mr/fabric.rs"]
mod fabric;

use fabric::{assignments_of, empty, endpoint, picks, root, routes, shape, switch, Found};
use proptest::{prelude::*, sample::Index};
use weft_proto::mr::{
    aperture::{Aperture, Apertures, Association},
    assignment::{annotate, seen, Assignment, Seen},
    design::{design, Why},
    hierarchy,
    inventory::End,
    list::{Full, List},
    plan::{changes, Change, Entry},
    plane::{Hierarchy, Plane, Planes},
    tree::Reach,
    vpd::{wanted, Vpd},
};

type Numbers = Planes<Vec<Hierarchy>, Vec<Plane>>;

fn numbers() -> Numbers {
    Planes::new(vec![Hierarchy::NONE; 16], vec![Plane::NONE; 1024])
}

/// What a master designs, and what of it is in tables that it reads back.
fn designed(
    found: &Found,
    assignments: &[Assignment],
    numbers: &mut Numbers,
    seed: u64,
) -> Vec<Entry> {
    let mut entries = List::new(vec![Entry::NONE; 4096]);
    let mut reach = vec![Reach::NONE; found.components().len()];
    let there = routes(found, seed);
    let by = |at: u64, lid: u32| match found.get(at) {
        Some(component) if component.is_root() => Some(0),
        _ => there.get(&(at, lid)).copied(),
    };
    let told =
        |assignment: &Assignment, done: Result<(), Why>| assert_eq!(done, Ok(()), "{assignment:?}");
    design(
        found,
        &by,
        assignments,
        numbers,
        &mut reach,
        &mut entries,
        told,
    )
    .unwrap();
    entries.all().to_vec()
}

fn is_read_back(entry: &&Entry) -> bool {
    matches!(entry, Entry::Plane { .. } | Entry::Base { .. })
}

proptest! {
    /// The next master has nothing to write, whatever assignments there were before.
    #[test]
    fn mr_7_the_next_master_takes_the_numbers_that_tables_have(
        shape in shape(),
        before in picks(),
        after in picks(),
        seed in any::<u64>(),
    ) {
        let found = shape.inventory(|_| false);
        let mut first = numbers();
        designed(&found, &assignments_of(&shape, &before), &mut first, seed);
        let assignments = assignments_of(&shape, &after);
        let entries = designed(&found, &assignments, &mut first, seed);
        let tables: Vec<_> = entries.iter().filter(is_read_back).copied().collect();
        let mut next = numbers();
        next.adopt(&found, &tables).unwrap();
        prop_assert_eq!(designed(&found, &assignments, &mut next, seed), entries);
    }

    /// Tables that were left half written, or that do not fit together, become what they should be.
    #[test]
    fn mr_7_half_written_tables_are_put_in_order(
        shape in shape(),
        picks in picks(),
        gone in prop::collection::vec(any::<bool>(), 64),
        odd in prop::collection::vec((any::<Index>(), 1u8..16, 2u16..9), 0..6),
        seed in any::<u64>(),
    ) {
        let found = shape.inventory(|_| false);
        let assignments = assignments_of(&shape, &picks);
        let entries = designed(&found, &assignments, &mut numbers(), seed);
        let mut tables: Vec<_> = entries.iter().filter(is_read_back).copied().collect();
        let mut gone = gone.iter().cycle();
        tables.retain(|_| *gone.next().unwrap());
        for (at, vp, vh) in odd {
            let [a, b] = *at.get(&shape.links());
            for End { hwid, port } in [a, b].into_iter().filter(|e| e.hwid / 100 == 2) {
                tables.push(Entry::Plane { switch: hwid, port, vp, vh });
            }
        }
        tables.sort_unstable();
        tables.dedup();
        let mut next = numbers();
        next.adopt(&found, &tables).unwrap();
        let to_be = designed(&found, &assignments, &mut next, seed);
        let mut are = tables.clone();
        for change in changes(&tables, &to_be) {
            match change {
                Change::Take(entry) => are.retain(|e| *e != entry),
                Change::Put(entry) => are.push(entry),
            }
        }
        are.sort_unstable();
        prop_assert_eq!(are, to_be);
    }

    /// Places follow from local ids: no two masters give different ones, whatever was before.
    #[test]
    fn mr_4_every_master_gives_the_same_places(
        shape in shape(),
        before in picks(),
        after in picks(),
    ) {
        let mut found = empty();
        for mut component in shape.components() {
            (component.bytes, component.window) = (hierarchy::BYTES, hierarchy::WINDOW);
            found.found(component).unwrap();
        }
        let assignments = assignments_of(&shape, &after);
        let mut one = Apertures::new(vec![Aperture::NONE; 64]);
        for space in (0..shape.roots).map(|n| 100 + n) {
            let mut old = Apertures::new(vec![Aperture::NONE; 64]);
            for assignments in [&assignments_of(&shape, &before), &assignments] {
                old.settle(&found, assignments, space, |claim| panic!("{claim:?}")).unwrap();
            }
            one.settle(&found, &assignments, space, |claim| panic!("{claim:?}")).unwrap();
            prop_assert_eq!(one.all(), old.all());
            let inside = |a: &Aperture| a.association == Association::Own
                || (hierarchy::WINDOW.0 <= a.base && a.limit <= hierarchy::WINDOW.1);
            prop_assert!(one.all().iter().all(inside));
        }
    }

    /// What was seen travels with the text, and all else in it stays as it was.
    #[test]
    fn mr_1_what_was_seen_travels_with_the_assignments(
        lines in prop::collection::vec("(# [a-z]{0,9}|[1-9a-f]{1,4}\\.[0-9] [1-9a-f]{1,3}|seen [1-9] [0-9a-f]{1,8})", 0..9),
        all in prop::collection::btree_map(1u64.., any::<u32>(), 0..9),
        absent in any::<u16>(),
        room in 0usize..700,
    ) {
        let text = lines.join("\n");
        let all: Vec<_> = all.into_iter().map(|(hwid, digest)| Seen { hwid, digest }).collect();
        let there = |hwid: u64| absent & (1 << (hwid % 16)) == 0;
        let mut to = vec![0; room];
        let stays = |text: &str| -> Vec<String> {
            text.lines().filter(|l| !l.starts_with("seen ")).map(str::to_owned).collect()
        };
        let Some(bytes) = annotate(text.as_bytes(), &all, there, &mut to) else {
            let least: usize = stays(&text).iter().map(|l| l.len() + 1).sum();
            prop_assert!(least + 1 > room);
            return Ok(());
        };
        let noted = std::str::from_utf8(&to[..bytes]).unwrap();
        prop_assert_eq!(stays(noted), stays(&text));
        let kept: Vec<_> = seen(noted.as_bytes()).collect();
        let whole: Vec<_> = all.iter().filter(|s| kept.contains(s)).copied().collect();
        prop_assert_eq!(&kept, &whole, "in their order, and none that was not said");
        if kept.len() < all.len() {
            // No member that is there goes as long as one is listed that is not, and was before it.
            let lost = |s: &&Seen| !kept.contains(s);
            let first = all.iter().filter(lost).position(|s| there(s.hwid));
            let absent = kept.iter().filter(|s| !there(s.hwid)).count();
            prop_assert!(first.is_none() || absent == 0, "{:?} of {:?}", kept, all);
        }
        // To note it again changes nothing.
        let mut again = vec![0; room];
        let twice = annotate(noted.as_bytes(), &all, there, &mut again);
        prop_assert_eq!(&again[..twice.unwrap()], noted.as_bytes());
    }

    /// A reader that stops when it has what is wanted misses nothing, and ends with any data.
    #[test]
    fn mr_1_no_more_vpd_are_read_than_there_are(noise in prop::collection::vec(any::<u8>(), 0..99)) {
        let mut data = vec![0x82, 4, 0, b'W', b'e', b'f', b't', 0x90, 0, 0];
        for (key, text) in [(b"PN", "WEFT"), (b"SN", "one"), (b"V0", "A"), (b"V1", "1")] {
            data.extend(key);
            data.push(text.len() as u8);
            data.extend(text.bytes());
        }
        data.extend(*b"RV\x01\0");
        data[8] = (data.len() - 10) as u8;
        let sum = data.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
        *data.last_mut().unwrap() = 0u8.wrapping_sub(sum);
        data.push(0x78);
        let end = data.len();
        data.extend(&noise);
        let mut have = 0;
        while wanted(&data[..have]) > have {
            have += 1;
        }
        prop_assert_eq!(have, end);
        let vpd = Vpd::parse(&data[..have]).unwrap();
        prop_assert_eq!(Some(vpd), Vpd::parse(&data).ok());
        prop_assert_eq!(vpd.digest(), Vpd::parse(&data).unwrap().digest());
        let other = Vpd { sockets: false, ..vpd };
        prop_assert_ne!(vpd.digest(), other.digest());
        let mut have = 0;
        while have < noise.len() && wanted(&noise[..have]) > have {
            have += 1;
        }
    }
}

#[test]
fn mr_7_an_empty_hierarchy_belongs_to_no_host() {
    let mut found = empty();
    for component in [root(0), switch(0), endpoint(0)] {
        found.found(component).unwrap();
    }
    for (hwid, port) in [(100, 0), (300, 1)] {
        found
            .joined(End { hwid, port: 0 }, End { hwid: 200, port })
            .unwrap();
    }
    let plane = |port| Entry::Plane {
        switch: 200,
        port,
        vp: 4,
        vh: 9,
    };
    let base = |root| Entry::Base {
        endpoint: 300,
        ve: 0,
        vp: 4,
        root,
    };
    let mut numbers = numbers();
    numbers.adopt(&found, &[plane(0), plane(1)]).unwrap();
    assert_eq!(numbers.hierarchy(100), None);
    // Local id 77 is no node's.
    numbers.adopt(&found, &[plane(1), base(77)]).unwrap();
    assert_eq!(numbers.hierarchy(100), None);
    numbers.adopt(&found, &[plane(1), base(100)]).unwrap();
    assert_eq!(numbers.hierarchy(100), Some(9));
    // The common one is taken from none.
    let common = Entry::Plane {
        switch: 200,
        port: 0,
        vp: 3,
        vh: 1,
    };
    let mut little = Planes::new(vec![Hierarchy::NONE; 0], vec![Plane::NONE; 0]);
    assert_eq!(little.adopt(&found, &[common]), Ok(()));
    assert_eq!(little.adopt(&found, &[plane(0)]), Err(Full));
}
