// SPDX-License-Identifier: GPL-2.0 OR MIT

//! When a master looks after the hierarchies: not more often because it is asked more often.

use weft_proto::mr::due::{Causes, Due, End, AGAIN_MS, LONGEST_MS};

const TERM: u32 = 3;

fn begun() -> Causes {
    let mut causes = Causes::default();
    assert_eq!(causes.settled(Some((TERM, 1))), Due::Now);
    assert_eq!(causes.begin(), Some(TERM));
    causes
}

#[test]
fn mr_3_what_could_not_be_done_waits_however_often_it_is_asked_for() {
    let mut causes = begun();
    let mut before = 0;
    for expected in [500, 1000, 2000, 4000, 8000, 16_000, 16_000] {
        assert_eq!(causes.settled(Some((TERM, 1))), Due::No, "it runs");
        assert_eq!(causes.end(End::Later), Some(expected));
        assert!((AGAIN_MS..=LONGEST_MS).contains(&expected) && expected >= before);
        before = expected;
        for _ in 0..3 {
            // The network manager looks at the fabric, and finds what it had found.
            assert_eq!(causes.settled(None), Due::No);
            assert_eq!(causes.settled(Some((TERM, 1))), Due::In(expected));
        }
        assert_eq!(causes.begin(), Some(TERM));
    }
    assert_eq!(causes.end(End::Done), None);
    assert_eq!(causes.settled(Some((TERM, 1))), Due::No);
}

#[test]
fn mr_3_another_cause_does_not_wait_for_what_could_not_be_done() {
    let mut causes = begun();
    causes.end(End::Later);
    assert_eq!(causes.settled(Some((TERM, 2))), Due::Now, "found");
    causes.begin();
    causes.end(End::Later);
    causes.plugged();
    assert_eq!(causes.settled(Some((TERM, 2))), Due::Now, "plugged");
    causes.begin();
    causes.end(End::Lost);
    assert_eq!(causes.settled(Some((TERM + 1, 2))), Due::Now, "term");
    assert_eq!(causes.begin(), Some(TERM + 1));
    assert_eq!(causes.end(End::Done), None);
}

#[test]
fn mr_3_a_host_that_is_not_the_master_has_nothing_to_do() {
    let mut causes = begun();
    assert_eq!(causes.settled(None), Due::No);
    assert_eq!(causes.end(End::Lost), Some(AGAIN_MS));
    assert_eq!(causes.begin(), None);
    assert_eq!(causes.settled(None), Due::No);
    // It was asked while it was about to find out: then it was not done.
    assert_eq!(causes.settled(Some((TERM, 1))), Due::Now);
}
