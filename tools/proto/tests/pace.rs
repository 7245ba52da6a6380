// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is told to udev: not more often than so many times in any second, and the last of it always.

use proptest::prelude::*;
use weft_proto::pace::{Pace, PERIOD_MS};

#[test]
fn a_few_are_told_at_once_and_the_next_when_the_first_is_a_second_old() {
    let mut pace = Pace::<3>::new();
    for now in [5, 5, 400] {
        assert_eq!(pace.wait(now), None);
    }
    assert_eq!(pace.wait(401), Some(604));
    assert_eq!(pace.wait(1004), Some(1));
    assert_eq!(pace.wait(1005), None);
    assert_eq!(pace.wait(1005), None);
    assert_eq!(pace.wait(1005), Some(395));
}

proptest! {
    /// A state changes at any times. The teller looks at each change, and when it was told to look again.
    #[test]
    fn never_more_in_a_second_and_the_last_state_is_told_within_one(
        steps in prop::collection::vec(0..700u64, 1..300),
    ) {
        const MOST: usize = 4;
        let mut pace = Pace::<MOST>::new();
        let (mut now, mut state, mut said) = (0, 0, 0);
        let mut again = None;
        let mut told = Vec::new();
        let mut look = |now: u64, state: usize, said: &mut usize, told: &mut Vec<u64>| {
            if *said == state {
                return None;
            }
            let wait = pace.wait(now);
            if wait.is_none() {
                *said = state;
                told.push(now);
            }
            wait.map(|ms| now + ms)
        };
        for step in steps {
            let until = now + step;
            while let Some(at) = again.filter(|at| *at <= until) {
                again = look(at, state, &mut said, &mut told);
            }
            now = until;
            state += 1;
            again = look(now, state, &mut said, &mut told);
        }
        if let Some(at) = again {
            prop_assert!(at <= now + PERIOD_MS);
            prop_assert_eq!(look(at, state, &mut said, &mut told), None);
        }
        prop_assert_eq!(said, state);
        for few in told.windows(MOST + 1) {
            prop_assert!(few[MOST] - few[0] >= PERIOD_MS, "{:?}", few);
        }
    }
}
