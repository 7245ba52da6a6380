// SPDX-License-Identifier: GPL-2.0 OR MIT

//! L-1, L-2, L-3 and L-6: the engine beside its model, under random sequences of all operations, states and
//! hand-overs. `WEFT_MATCHING_CASES` is the number of sequences of the long run, which takes minutes for ten
//! million and is to be built with `--release`.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

mod matching;

use matching::{play, Numbers, ALL_ANSWERS};
use proptest::prelude::*;
use std::time::Instant;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn l_2_an_engine_does_what_its_model_does(
        words in prop::collection::vec(any::<u64>(), 1..160),
    ) {
        play(words);
    }
}

/// Short sequences for the most part, in which entries run out by the size of the pool.
#[test]
fn l_2_many_sequences_are_as_in_the_model() {
    let named = std::env::var("WEFT_MATCHING_CASES");
    let cases = named.map_or(20_000, |count| count.parse().expect("a number"));
    let begun = Instant::now();
    let (mut steps, mut answers) = (0, 0);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for case in 0..cases {
        let length = 12 + numbers.next().expect("endless") as usize % 48;
        steps += length;
        let first = numbers.0;
        let words: Vec<u64> = numbers.by_ref().take(length).collect();
        match std::panic::catch_unwind(|| play(words)) {
            Ok(played) => answers |= played,
            Err(_) => panic!("case {case}, which begins with {first:#x}"),
        }
    }
    assert_eq!(answers, ALL_ANSWERS, "all that can come of a step has");
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{cases} cases, {steps} steps, {:.0} cases/s, {:.0} steps/s",
        f64::from(cases) / seconds,
        steps as f64 / seconds
    );
}
