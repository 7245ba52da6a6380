// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which hardware ids a node of a large fabric asks its master for, and what it makes of the answers.

use weft_proto::nm::scale::names::{Names, ABSENT_MS, FRESH_MS, GIVEN_UP_MS, QUESTIONS};

#[test]
fn n_5_a_name_is_asked_for_once_and_known_when_it_is_answered() {
    let mut names: Names<4> = Names::new();
    assert_eq!(names.look(10, 7), None);
    assert_eq!(names.next(10), Some(7));
    assert_eq!(names.next(11), None, "one at a time");
    assert_eq!(names.look(12, 7), None);
    names.answer(20, 7, 99);
    assert_eq!(names.look(21, 7), Some(99));
    assert_eq!(names.next(21), None, "it is fresh");
    assert_eq!(names.due(21), None);
}

#[test]
fn n_5_a_name_that_is_looked_for_is_asked_for_anew_and_counts_meanwhile() {
    let mut names: Names<4> = Names::new();
    names.look(0, 7);
    names.next(0);
    names.answer(0, 7, 99);
    assert_eq!(names.look(FRESH_MS, 7), Some(99));
    assert_eq!(names.next(FRESH_MS), Some(7));
    names.answer(FRESH_MS + 5, 7, 100);
    assert_eq!(
        names.look(FRESH_MS + 5, 7),
        Some(100),
        "it has started again"
    );
}

#[test]
fn n_5_a_node_that_is_not_there_is_soon_asked_for_again() {
    let mut names: Names<4> = Names::new();
    names.look(0, 7);
    names.next(0);
    names.answer(1, 7, 0);
    assert_eq!(names.look(2, 7), Some(0));
    assert_eq!(names.next(2), None);
    assert_eq!(names.look(1 + ABSENT_MS, 7), Some(0));
    assert_eq!(names.next(1 + ABSENT_MS), Some(7));
}

#[test]
fn n_5_a_master_that_does_not_answer_is_given_up_and_the_next_name_has_its_turn() {
    let mut names: Names<4> = Names::new();
    names.look(0, 7);
    names.look(1, 8);
    assert_eq!(names.next(1), Some(7));
    assert_eq!(names.due(1), Some(1 + GIVEN_UP_MS));
    assert_eq!(names.next(GIVEN_UP_MS), None);
    assert_eq!(names.next(1 + GIVEN_UP_MS), Some(8));
    assert_eq!(
        names.look(1 + GIVEN_UP_MS, 7),
        Some(0),
        "no such node, as far as is known"
    );
    // One that was known stays.
    names.answer(5000, 8, 42);
    names.look(5000 + FRESH_MS, 8);
    assert_eq!(names.next(5000 + FRESH_MS), Some(8));
    names.next(5000 + FRESH_MS + GIVEN_UP_MS);
    assert_eq!(names.look(5000 + FRESH_MS + GIVEN_UP_MS, 8), Some(42));
}

#[test]
fn n_5_the_name_that_was_not_looked_for_the_longest_makes_room() {
    let mut names: Names<2> = Names::new();
    for (now, hwid) in [(0, 7), (1, 8)] {
        names.look(now, hwid);
        names.next(now);
        names.answer(now, hwid, hwid as u32);
    }
    names.look(2, 7);
    names.look(3, 9);
    assert_eq!(names.look(4, 7), Some(7));
    assert_eq!(names.next(4), Some(9));
    assert_eq!(names.look(5, 8), None, "it has made room");
}

#[test]
fn p_5_no_more_is_asked_in_a_second_than_the_limit_whatever_calls() {
    let mut names: Names<8> = Names::new();
    let mut asked = 0;
    for now in 0..1000 {
        names.look(now, now + 1);
        if let Some(hwid) = names.next(now) {
            names.answer(now, hwid, 1);
            asked += 1;
        }
    }
    assert_eq!(asked, QUESTIONS);
}
