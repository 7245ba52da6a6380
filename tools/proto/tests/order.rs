// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The order of terms and versions: there is always a later one.

use proptest::prelude::*;
use weft_proto::nm::{
    mastership::Mastership,
    order::{after, is_later, next, WINDOW},
};

#[test]
fn n_6_numbers_that_rise_are_in_their_order_also_around_the_end() {
    for number in [1, 2, 1000, u32::MAX - 1, u32::MAX] {
        let mut later = number;
        for _ in 0..1000 {
            later = next(later);
            assert!(is_later(later, number) && !is_later(number, later));
        }
        assert!(!is_later(number, number));
    }
    assert_eq!(next(u32::MAX), 1, "0 is none");
}

#[test]
fn n_6_a_number_out_of_proportion_is_not_the_last() {
    assert!(is_later(8, u32::MAX) && !is_later(u32::MAX, 8));
    assert!(is_later(8, 1 << 31) && is_later(1 << 31, 8));
    assert_eq!(after(7, [u32::MAX, 3, 0].into_iter()), 8);
    assert_eq!(after(7, [u32::MAX, 9, 8].into_iter()), 10);
    assert_eq!(after(u32::MAX, [u32::MAX - 5, 2].into_iter()), 3);
    let with = |term, master| Mastership { term, master };
    assert!(with(8, 10).beats(&with(u32::MAX, 10)));
    assert!(with(u32::MAX, 10).beats(&Mastership::default()));
    assert!(!Mastership::default().beats(&with(u32::MAX, 10)));
    assert!(with(5, 10).beats(&with(5, 11)) && !with(5, 11).beats(&with(5, 10)));
}

proptest! {
    #[test]
    fn n_6_whatever_numbers_256_nodes_have_there_is_a_later_one(
        own: u32,
        mut others in prop::collection::vec(any::<u32>(), 0..256),
        near in prop::collection::vec(0..3 * WINDOW, 0..32),
    ) {
        // Some of them where the search begins.
        others.extend(near.iter().map(|by| own.wrapping_add(*by)));
        others.truncate(256);
        let found = after(own, others.iter().copied());
        prop_assert!(found != 0);
        for other in others.into_iter().chain([own]).filter(|other| *other != 0) {
            prop_assert!(is_later(found, other), "{found} after {other}");
        }
    }

    #[test]
    fn n_6_the_worst_numbers_leave_a_later_one(own: u32, by in 1..WINDOW) {
        let others = (0..256).map(|n: u32| own.wrapping_add(n.wrapping_mul(by)));
        let found = after(own, others.clone());
        prop_assert!(others.filter(|other| *other != 0).all(|other| is_later(found, other)));
    }
}
