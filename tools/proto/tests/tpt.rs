// SPDX-License-Identifier: GPL-2.0 OR MIT

//! STags and the translation and protection table: who may, and which bytes are meant.

#![allow(clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use weft_proto::{
    stag::{Stag, MAX_INDEX},
    tpt::{page_order, Denied, Entry, Extent, Owner, PatBase, Piece, Rights, Span, Validation},
};

const PD: u64 = 7;
const KEY: u8 = 0x5a;
const SHIFT: u32 = 12;
const ALL: u32 = 0x1f;

fn stag(key: u8) -> Stag {
    Stag::new(3, key).expect("a small index")
}

fn owner(rights: u32) -> Owner {
    Owner {
        key: KEY,
        pd: PD,
        rights: Rights::of_region(rights).expect("rights of a region"),
    }
}

fn region(rights: u32, base: u64, length: u64, first_offset: u64) -> Entry {
    let extent = Extent { base, length };
    Entry::region(owner(rights), extent, SHIFT, first_offset).expect("a region")
}

fn window_owner(rights: Rights) -> Owner {
    Owner {
        key: 9,
        pd: PD,
        rights,
    }
}

/// The bytes of a span as numbers: page and byte in it, or the address.
fn places(span: Span) -> Vec<(Option<u32>, u64)> {
    span.pieces()
        .flat_map(|piece| match piece {
            Piece::Page {
                index,
                offset,
                bytes,
            } => (offset..offset + bytes)
                .map(|at| (Some(index), at))
                .collect::<Vec<_>>(),
            Piece::Address { address, bytes } => {
                (address..address + bytes).map(|at| (None, at)).collect()
            }
        })
        .collect()
}

#[test]
fn m_1_an_stag_is_an_index_and_a_key() {
    let stag = Stag::new(0x00ab_cdef, 0x12).expect("24 bits");
    assert_eq!(stag.0, 0xabcd_ef12);
    assert_eq!((stag.index(), stag.key()), (0x00ab_cdef, 0x12));
    assert_eq!(Stag::new(MAX_INDEX, 0), None);
    assert_eq!(Stag::new(MAX_INDEX - 1, 255), Some(Stag(u32::MAX)));
}

#[test]
fn m_2_an_entry_has_every_field() {
    let entry = region(ALL, 0x1_0000, 10_000, 0x123);
    assert_eq!(entry.rights.bits(), ALL);
    assert_eq!((entry.key, entry.pd), (KEY, PD));
    for who in [Validation::LOCAL, Validation::REMOTE, Validation::PARENT] {
        assert!(entry.validation.has(who));
    }
    assert_eq!((entry.pat_size, entry.page_shift), (3, SHIFT));
    assert_eq!((entry.first_offset, entry.length), (0x123, 10_000));
    assert_eq!(entry.pat_base, PatBase::Table(0));
}

#[test]
fn m_2_a_region_that_makes_no_sense_has_no_entry() {
    let try_one =
        |base, length, shift, first| Entry::region(owner(0), Extent { base, length }, shift, first);
    assert!(try_one(0, 1, 12, 4095).is_some());
    assert!(try_one(0, 0, 12, 0).is_none(), "no bytes");
    assert!(try_one(u64::MAX, 1, 12, 0).is_none(), "wraps");
    assert!(try_one(u64::MAX - 1, 1, 12, 0).is_some());
    assert!(try_one(0, 1, 12, 4096).is_none(), "beyond its first page");
    assert!(try_one(0, 1, 64, 0).is_none(), "no such page");
    assert!(try_one(0, u64::MAX, 12, 1).is_none(), "wraps in its pages");
    assert!(try_one(0, 1 << 45, 12, 0).is_none(), "too many pages");
}

#[test]
fn m_2_rights_that_make_no_sense_are_none() {
    for bits in 0..64 {
        let change = bits & 0b01100 != 0;
        let fits = bits & 32 == 0 && (!change || bits & 1 != 0);
        assert_eq!(Rights::of_region(bits).is_some(), fits, "{bits:#b}");
        let fits = bits & !0b01110 == 0;
        assert_eq!(Rights::of_window(bits).is_some(), fits, "{bits:#b}");
    }
}

#[test]
fn m_3_virtual_addresses_lead_through_the_table_and_physical_ones_do_not() {
    let entry = region(ALL, 0x1_0000, 10_000, 0x123);
    let span = entry
        .check(stag(KEY), PD, Rights::REMOTE_READ, 0x1_0000 + 4000, 5000)
        .expect("inside");
    let pieces: Vec<_> = span.pieces().collect();
    let page = |index, offset, bytes| Piece::Page {
        index,
        offset,
        bytes,
    };
    assert_eq!(
        pieces,
        [page(1, 0x123 + 4000 - 4096, 3901), page(2, 0, 1099)]
    );

    let extent = Extent {
        base: 0x100,
        length: 0x1000,
    };
    let entry = Entry::physical(owner(1), extent, 0xfee0_0000).expect("a region");
    assert_eq!(entry.pat_size, 0);
    let span = entry
        .check(stag(KEY), PD, Rights::LOCAL_WRITE, 0x180, 0xf80)
        .expect("inside");
    let address = Piece::Address {
        address: 0xfee0_0080,
        bytes: 0xf80,
    };
    assert_eq!(span.pieces().collect::<Vec<_>>(), [address]);
}

#[test]
fn m_4_a_physical_region_is_for_this_end_alone() {
    let extent = Extent {
        base: 0,
        length: 4096,
    };
    let entry = Entry::physical(owner(ALL), extent, 0x10_0000).expect("a region");
    for need in [
        Rights::REMOTE_READ,
        Rights::REMOTE_WRITE,
        Rights::REMOTE_ATOMIC,
    ] {
        let denied = entry.check(stag(KEY), PD, need, 0, 8);
        assert_eq!(denied, Err(Denied::Invalid), "{need:?}");
    }
    assert_eq!(
        entry.check(stag(KEY), PD + 1, Rights::LOCAL_READ, 0, 8),
        Err(Denied::Pd)
    );
    let window = window_owner(Rights::REMOTE_READ);
    assert_eq!(
        entry.window(stag(KEY), window, extent),
        Err(Denied::Invalid)
    );
}

#[test]
fn m_5_key_domain_rights_and_bounds_are_checked() {
    let entry = region(1 | 2 | 4, 1000, 100, 0);
    let check = |key, pd, need, to, len| entry.check(stag(key), pd, need, to, len).map(|_| ());
    assert_eq!(check(KEY, PD, Rights::REMOTE_WRITE, 1000, 100), Ok(()));
    assert_eq!(check(KEY, PD, Rights::LOCAL_READ, 1100, 0), Ok(()));
    let denied = [
        (KEY + 1, PD, Rights::REMOTE_READ, 1000, 1, Denied::Key),
        (KEY, PD + 1, Rights::REMOTE_READ, 1000, 1, Denied::Pd),
        (KEY, PD, Rights::REMOTE_ATOMIC, 1000, 8, Denied::Rights),
        (KEY, PD, Rights::MW_BIND, 1000, 1, Denied::Rights),
        (KEY, PD, Rights::REMOTE_READ, 999, 1, Denied::Bounds),
        (KEY, PD, Rights::REMOTE_READ, 1099, 2, Denied::Bounds),
        (KEY, PD, Rights::REMOTE_READ, 1101, 0, Denied::Bounds),
        (KEY, PD, Rights::REMOTE_READ, 1050, u64::MAX, Denied::Bounds),
        (KEY, PD, Rights::REMOTE_READ, u64::MAX, 2, Denied::Bounds),
    ];
    for (key, pd, need, to, len, why) in denied {
        assert_eq!(check(key, pd, need, to, len), Err(why), "{to} {len}");
    }
    // Who has all the rights may read, and write, only as the region says.
    let read_only = region(0, 0, 10, 0);
    let why = read_only.check(stag(KEY), PD, Rights::LOCAL_WRITE, 0, 1);
    assert_eq!(why, Err(Denied::Rights));
}

#[test]
fn m_5_atomics_are_of_8_aligned_bytes_of_memory() {
    // TO and address differ in alignment: the address counts.
    let entry = region(ALL, 1, 100, 0x10);
    let check = |to, len| {
        entry
            .check(stag(KEY), PD, Rights::REMOTE_ATOMIC, to, len)
            .map(|_| ())
    };
    assert_eq!(check(1, 8), Ok(()));
    assert_eq!(check(9, 8), Ok(()));
    assert_eq!(check(8, 8), Err(Denied::Alignment));
    assert_eq!(check(1, 4), Err(Denied::Alignment));
    assert_eq!(check(97, 8), Err(Denied::Bounds));
}

#[test]
fn m_5_a_window_holds_for_peers_only_and_gives_no_more_than_its_region() {
    let entry = region(1 | 2 | 16, 0x1000, 0x3000, 0x80);
    let extent = Extent {
        base: 0x2000,
        length: 0x1800,
    };
    let rights = Rights::REMOTE_READ.with(Rights::REMOTE_WRITE);
    let window = entry
        .window(stag(KEY), window_owner(rights), extent)
        .expect("allowed");
    assert_eq!(window.pat_base, PatBase::Table(1));
    assert_eq!((window.first_offset, window.pat_size), (0x80, 2));
    let ok = |need, to| window.check(stag(9), PD, need, to, 8).map(|_| ());
    assert_eq!(ok(Rights::REMOTE_WRITE, 0x2000), Ok(()));
    assert_eq!(ok(Rights::REMOTE_WRITE, 0x1ff9), Err(Denied::Bounds));
    assert_eq!(ok(Rights::LOCAL_READ, 0x2000), Err(Denied::Invalid));
    let nested = window.window(stag(9), window_owner(rights), extent);
    assert_eq!(nested, Err(Denied::Invalid));

    let bind = |entry: Entry, key, owner: Owner, base, length| {
        entry
            .window(stag(key), owner, Extent { base, length })
            .map(|_| ())
    };
    let mine = window_owner(rights);
    let other = Owner { pd: PD + 1, ..mine };
    assert_eq!(bind(entry, 0, mine, 0x2000, 1), Err(Denied::Key));
    assert_eq!(bind(entry, KEY, other, 0x2000, 1), Err(Denied::Pd));
    assert_eq!(bind(entry, KEY, mine, 0xfff, 2), Err(Denied::Bounds));
    assert_eq!(bind(entry, KEY, mine, 0x3fff, 2), Err(Denied::Bounds));
    assert_eq!(bind(entry, KEY, mine, 0x2000, 0), Err(Denied::Bounds));
    let unbindable = region(1 | 2, 0x1000, 0x3000, 0);
    assert_eq!(bind(unbindable, KEY, mine, 0x1000, 1), Err(Denied::Rights));
    // What the owner may not write a peer may not by a window.
    let read_only = region(2 | 16, 0x1000, 0x3000, 0);
    assert_eq!(bind(read_only, KEY, mine, 0x1000, 1), Err(Denied::Rights));
    let reader = window_owner(Rights::REMOTE_READ);
    assert_eq!(bind(read_only, KEY, reader, 0x1000, 1), Ok(()));
}

#[test]
fn m_5_a_size_is_what_is_left() {
    let entry = region(2, 100, 50, 0);
    let size = |to| entry.size_from(stag(KEY), PD, Rights::REMOTE_READ, to);
    assert_eq!(size(100), Ok(50));
    assert_eq!(size(149), Ok(1));
    assert_eq!(size(150), Ok(0));
    assert_eq!(size(151), Err(Denied::Bounds));
    assert_eq!(size(99), Err(Denied::Bounds));
    assert_eq!(
        entry.size_from(stag(KEY), PD, Rights::REMOTE_WRITE, 100),
        Err(Denied::Rights)
    );
}

proptest! {
    /// Each byte of an access is the one that a table of single bytes says, once and in order.
    #[test]
    fn m_3_pieces_are_the_bytes_that_were_meant(
        base in 0u64..1 << 60,
        length in 1u64..40_000,
        first in 0u64..4096,
        to in 0u64..50_000,
        len in 0u64..50_000,
        part in (0u64..20_000, 0u64..20_000),
    ) {
        let entry = region(ALL, base, length, first);
        let checked = entry.check(stag(KEY), PD, Rights::LOCAL_READ, base + to, len);
        prop_assert_eq!(checked.is_ok(), to <= length && len <= length - to);
        let Ok(span) = checked else { return Ok(()) };
        let all: Vec<_> = (0..len)
            .map(|i| first + to + i)
            .map(|at| (Some((at / 4096) as u32), at % 4096))
            .collect();
        prop_assert_eq!(&places(span), &all);
        prop_assert!(all.iter().all(|(page, _)| page.is_some_and(|p| p < entry.pat_size)));
        let (at, count) = part;
        match span.part(at, count) {
            Some(part) => prop_assert_eq!(&places(part)[..], &all[at as usize..][..count as usize]),
            None => prop_assert!(at + count > len),
        }
    }

    /// A window's bytes are its region's with the same TO.
    #[test]
    fn m_5_a_window_shows_the_bytes_of_its_region(
        base in 0u64..1 << 60,
        length in 1u64..40_000,
        first in 0u64..4096,
        from in 0u64..40_000,
        count in 1u64..40_000,
        to in 0u64..40_000,
        len in 0u64..5_000,
    ) {
        let entry = region(ALL, base, length, first);
        let extent = Extent { base: base + from, length: count };
        let bound = entry.window(stag(KEY), window_owner(Rights::REMOTE_READ), extent);
        prop_assert_eq!(bound.is_ok(), from + count <= length);
        let Ok(window) = bound else { return Ok(()) };
        let by = |entry: &Entry, key| {
            entry.check(stag(key), PD, Rights::REMOTE_READ, base + to, len)
        };
        match by(&window, 9) {
            Ok(span) => {
                prop_assert!(to >= from && to + len <= from + count);
                prop_assert_eq!(places(span), places(by(&entry, KEY).expect("inside")));
            }
            Err(why) => {
                prop_assert_eq!(why, Denied::Bounds);
                prop_assert!(to < from || to + len > from + count);
            }
        }
    }

    /// No access gets through with another key, domain or right, whatever the entry is.
    #[test]
    fn m_5_nothing_is_allowed_that_was_not_given(
        rights in 0u32..32,
        need in 0u32..32,
        key in any::<u8>(),
        pd in 5u64..9,
        to in 0u64..200,
        len in 0u64..200,
    ) {
        let Some(given) = Rights::of_region(rights) else { return Ok(()) };
        let Some(need) = Rights::of_region(need | 1) else { return Ok(()) };
        let extent = Extent { base: 0, length: 100 };
        let entry = Entry::region(Owner { key: KEY, pd: PD, rights: given }, extent, SHIFT, 0)
            .expect("a region");
        if entry.check(stag(key), pd, need, to, len).is_ok() {
            prop_assert_eq!((key, pd), (KEY, PD));
            prop_assert_eq!(need.bits() & !rights, 0);
            prop_assert!(to + len <= 100);
        }
    }

    /// Larger pages say of every small page where it is, as the runs do; and none larger would do.
    #[test]
    fn m_2_the_page_size_fits_the_memory(
        lengths in prop::collection::vec(1u64..40, 1..6),
        gaps in prop::collection::vec((0u64..5, 1u64..4), 1..6),
        start in 0u64..64,
        most in 0u32..6,
    ) {
        let mut runs = Vec::new();
        let mut frame = start;
        for (count, (shift, gap)) in lengths.iter().zip(&gaps) {
            runs.push((frame, *count));
            frame += count + (gap << shift);
        }
        let order = page_order(runs.iter().copied(), most);
        prop_assert!(order <= most);
        let frames: Vec<_> = runs.iter().flat_map(|&(first, n)| first..first + n).collect();
        // With pages of so many small ones: does one address for each page tell all?
        let tells = |order: u32| {
            let small = 1u64 << order;
            let skip = frames[0] % small;
            frames.iter().enumerate().all(|(i, &frame)| {
                let at = skip + i as u64;
                let begin = i as u64 - (i as u64).min(at % small);
                let begins = frames[begin as usize] - (skip + begin) % small;
                begins % small == 0 && frame == begins + at % small
            })
        };
        prop_assert!(tells(order));
        prop_assert!(order == most || !tells(order + 1));
    }
}
