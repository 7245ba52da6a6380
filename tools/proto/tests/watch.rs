// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What announces new work at an end of a link: users that run the engine, a doorbell of the peer, or polls.

use weft_proto::watch::{Watch, SOON};

/// A user that runs the engine so often is expected to do so again, and for so many jiffies.
const POLLER: usize = 8;
const PATIENCE: usize = 12;

/// A user runs the engine `times` times, each of which sends `count` cells; returns after how many jiffies the work item is
/// to run after the last.
fn runs(watch: &mut Watch, times: usize, count: usize) -> usize {
    (0..times).fold(0, |_, _| {
        watch.sent(count, count);
        watch.user_ran()
    })
}

#[test]
fn a_user_that_polls_is_expected_for_some_jiffies() {
    let mut watch = Watch::new();
    assert_eq!(runs(&mut watch, POLLER - 1, 0), 0);
    watch.begins();
    assert!(!watch.expects_users());
    assert_eq!(runs(&mut watch, 1, 0), SOON);
    for jiffy in 0..PATIENCE {
        watch.begins();
        assert!(watch.expects_users(), "jiffy {jiffy}");
    }
    // It has not come back, and is expected as late as at first the next time.
    watch.begins();
    assert!(!watch.expects_users());
    assert_eq!(runs(&mut watch, POLLER - 1, 0), 0);
}

#[test]
fn a_user_that_polls_is_expected_however_often_the_work_item_runs_meanwhile() {
    let mut watch = Watch::new();
    // Of each message it sends one, and polls once at least until the answer is there.
    for _ in 0..POLLER {
        assert!(!watch.expects_users());
        for count in [1, 0] {
            runs(&mut watch, 1, count);
            watch.begins();
            watch.holds_off();
            watch.sleeps(true);
        }
        // As after a doorbell.
        watch.took(1);
        if !watch.expects_users() {
            watch.begins();
        }
    }
    assert!(watch.expects_users());
}

#[test]
fn a_user_that_posts_and_does_something_else_is_not_expected() {
    let mut watch = Watch::new();
    for _ in 0..4 * POLLER {
        assert_eq!(runs(&mut watch, 1, 1), 0);
        watch.begins();
        assert!(!watch.expects_users());
        // The work item polls until nothing has come for a while.
        watch.holds_off();
        watch.sleeps(true);
    }
}

#[test]
fn a_user_that_sends_all_the_time_is_expected_unless_it_pauses() {
    let mut watch = Watch::new();
    assert_eq!(runs(&mut watch, POLLER, 1), SOON);
    watch.begins();
    assert!(watch.expects_users());
}

#[test]
fn a_user_that_sleeps_is_not_expected() {
    let mut watch = Watch::new();
    runs(&mut watch, POLLER, 0);
    watch.begins();
    watch.user_sleeps();
    assert!(!watch.expects_users());
    assert_eq!(runs(&mut watch, 1, 0), 0);
}

#[test]
fn a_loaded_link_is_polled_sixteen_times_more() {
    let mut watch = Watch::new();
    watch.took(8);
    for _ in 0..16 {
        assert!(watch.holds_off());
    }
    // 32 are to come meanwhile for as many polls again.
    assert!(!watch.holds_off());
    watch.took(8);
    assert!(watch.holds_off());
    watch.took(32);
    for _ in 0..15 + 16 {
        assert!(watch.holds_off());
    }
    assert!(!watch.holds_off());
}

#[test]
fn answers_alone_are_no_load() {
    let mut watch = Watch::new();
    for _ in 0..100 {
        watch.took(1);
        watch.sent(1, 0);
        watch.begins_again();
    }
    watch.took(1);
    assert!(!watch.holds_off());
}

#[test]
fn what_an_echo_is_missing_for_is_doubted_from_the_second_run_on() {
    let mut watch = Watch::new();
    watch.took(1);
    assert!(!watch.is_asleep());
    watch.sleeps(false);
    assert!(!watch.is_asleep());
    assert!(!watch.doubts());
    assert!(watch.doubts());
    watch.sleeps(true);
    assert!(watch.is_asleep() && !watch.doubts());
}
