// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How often something may be done.

use weft_proto::ratelimit::RateLimit;

#[test]
fn a_burst_is_free_and_then_it_is_one_in_each_interval() {
    let mut limit = RateLimit::new(3, 100);
    assert_eq!(
        [1000; 5].map(|now| limit.pass(now)),
        [true, true, true, false, false]
    );
    assert_eq!(
        [1099, 1100, 1101, 1199, 1200].map(|now| limit.pass(now)),
        [false, true, false, false, true]
    );
}

#[test]
fn credit_comes_back_up_to_the_burst_and_no_further() {
    let mut limit = RateLimit::new(2, 100);
    assert_eq!([0; 3].map(|now| limit.pass(now)), [true, true, false]);
    assert_eq!([1 << 40; 3].map(|now| limit.pass(now)), [true, true, false]);
}

/// In any span of time there are no more than the burst and one for each interval of it.
#[test]
fn no_span_has_more_than_its_share() {
    let (burst, interval) = (4, 50);
    let mut limit = RateLimit::new(burst, interval);
    let passed: Vec<u64> = (0..5000).filter(|now| limit.pass(*now)).collect();
    for (n, first) in passed.iter().enumerate() {
        for (count, last) in (1..).zip(&passed[n..]) {
            assert!(count <= burst + (last - first) / interval);
        }
    }
}
