// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The pages of an arena are handed out once, and come back whole.

use proptest::prelude::*;
use weft_proto::pages::{Pages, Run, MAX_PAGES};

#[test]
fn takes_the_lowest_gap_that_fits() {
    let mut pages = Pages::new(100);
    let runs: Vec<_> = [10, 20, 30].map(|n| pages.take(n).expect("room")).to_vec();
    assert_eq!(
        runs.iter().map(|r| r.first).collect::<Vec<_>>(),
        [0, 10, 30]
    );
    assert!(pages.give(runs[1]));
    assert_eq!(pages.take(21).map(|r| r.first), Some(60));
    assert_eq!(pages.take(20).map(|r| r.first), Some(10));
    assert_eq!(pages.free_pages(), 19);
    assert_eq!(pages.take(20), None);
    assert_eq!(pages.take(0), None);
}

#[test]
fn refuses_what_was_not_taken() {
    let mut pages = Pages::new(64);
    let run = pages.take(8).expect("room");
    assert!(
        !pages.give(Run { first: 4, count: 8 }),
        "half of it is free"
    );
    assert!(
        !pages.give(Run {
            first: 60,
            count: 8
        }),
        "beyond the end"
    );
    assert!(
        !pages.give(Run {
            first: usize::MAX,
            count: 2
        }),
        "overflow"
    );
    assert!(pages.give(run));
    assert!(!pages.give(run), "twice");
    assert_eq!(pages.free_pages(), 64);
}

#[test]
fn an_arena_that_is_too_large_is_used_in_part() {
    let mut pages = Pages::new(MAX_PAGES + 1);
    assert_eq!(pages.total(), MAX_PAGES);
    assert!(pages.take(MAX_PAGES + 1).is_none());
    assert!(pages.take(MAX_PAGES).is_some());
    pages.reset(3);
    assert_eq!((pages.total(), pages.free_pages()), (3, 3));
}

proptest! {
    /// Against a list of booleans.
    #[test]
    fn is_what_a_list_would_be(
        total in 1usize..300,
        steps in prop::collection::vec((any::<bool>(), 1usize..40, any::<prop::sample::Index>()), 1..200),
    ) {
        let mut pages = Pages::new(total);
        let mut model = vec![false; total];
        let mut runs: Vec<Run> = Vec::new();
        for (take, count, which) in steps {
            if take || runs.is_empty() {
                let first = model.windows(count).position(|w| w.iter().all(|taken| !taken));
                let run = pages.take(count);
                prop_assert_eq!(run, first.map(|first| Run { first, count }));
                if let Some(run) = run {
                    model[run.first..run.first + run.count].fill(true);
                    runs.push(run);
                }
            } else {
                let run = runs.swap_remove(which.index(runs.len()));
                prop_assert!(pages.give(run));
                model[run.first..run.first + run.count].fill(false);
            }
            prop_assert_eq!(pages.free_pages(), model.iter().filter(|taken| !**taken).count());
        }
    }
}
