// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which routed link a program takes, and which one a call of a host.

use weft_proto::reach::{Counts, Reach, Refused, Use, CALL_BURST, CALL_MS, KEEP_MS, LAPSE_MS};

const IDLE: Use = Use {
    own: false,
    peer: false,
    unanswered: false,
    parted: false,
};
const OWN: Use = Use { own: true, ..IDLE };
const PEER: Use = Use { peer: true, ..IDLE };

/// Each link leads to the host of its number plus 1, taken by a program at the time of its number.
fn led(count: usize) -> Reach<8> {
    let mut reach = Reach::new(count);
    for link in 0..count {
        reach.lead(link, link as u64 + 1, false, link as u64);
    }
    reach
}

#[test]
fn p_5_a_program_takes_what_is_free_then_the_least_recently_used_idle_link() {
    let mut reach: Reach<8> = Reach::new(3);
    for (hwid, now) in [(10, 5), (11, 6), (12, 7)] {
        let link = reach.choose(|_| OWN).unwrap();
        assert_eq!(reach.host_at(link), None);
        reach.lead(link, hwid, false, now);
    }
    reach.note(|link| if link == 0 { OWN } else { IDLE }, 100);
    assert_eq!(reach.choose(|_| IDLE), Ok(1));
    reach.lead(1, 13, false, 101);
    assert_eq!(reach.choose(|_| IDLE), Ok(2));
    assert_eq!((reach.link_to(11), reach.link_to(13)), (None, Some(1)));
}

#[test]
fn p_5_a_link_in_use_stays_and_all_in_use_are_counted() {
    let reach = led(3);
    for free in 0..3 {
        assert_eq!(
            reach.choose(|link| if link == free { IDLE } else { OWN }),
            Ok(free)
        );
    }
    assert_eq!(reach.choose(|_| OWN), Err(Counts { own: 3, peers: 0 }));
    assert_eq!(
        reach.choose(|link| if link == 2 { PEER } else { OWN }),
        Err(Counts { own: 2, peers: 1 })
    );
}

#[test]
fn peers_claims_hold_half_of_the_links_at_most() {
    let reach = led(4);
    assert_eq!(
        reach.choose(|link| if link < 2 { PEER } else { OWN }),
        Err(Counts { own: 2, peers: 2 })
    );
    // What is idle goes first.
    assert_eq!(
        reach.choose(|link| if link < 3 { PEER } else { IDLE }),
        Ok(3)
    );
    assert_eq!(
        reach.choose(|link| if link < 3 { PEER } else { OWN }),
        Ok(0)
    );
    assert_eq!(reach.choose(|_| PEER), Ok(0));
}

#[test]
fn p_5_a_call_ends_nothing_that_is_in_use_or_was_a_moment_ago() {
    let mut reach = led(2);
    let now = 10 * LAPSE_MS;
    for uses in [OWN, PEER] {
        assert_eq!(reach.answer(|_| uses, now), Err(Refused::InUse));
    }
    reach.note(|_| OWN, now);
    assert_eq!(
        reach.answer(|_| IDLE, now + LAPSE_MS - 1),
        Err(Refused::InUse)
    );
    assert_eq!(reach.answer(|_| IDLE, now + LAPSE_MS), Ok(0));
    reach.free(1);
    assert_eq!(reach.answer(|_| OWN, now + LAPSE_MS), Ok(1));
}

#[test]
fn calls_get_half_of_the_links_until_a_program_uses_them() {
    for (count, share) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
        let mut reach: Reach<8> = Reach::new(count);
        let now = 1000;
        for call in 0..share {
            let link = reach.answer(|_| IDLE, now).unwrap();
            reach.lead(link, 100 + call as u64, true, now);
        }
        assert_eq!(reach.answer(|_| IDLE, now), Err(Refused::Share), "{count}");
        // A program takes them nevertheless.
        assert!(reach.choose(|_| IDLE).is_ok());
        // A program has accepted: the link is no longer of those.
        reach.note(|link| if link == 0 { OWN } else { IDLE }, now);
        let next = reach.answer(|link| if link == 0 { OWN } else { IDLE }, now);
        assert_eq!(next.is_ok(), count > 1, "{count}");
    }
}

#[test]
fn calls_are_followed_at_a_limited_rate() {
    let mut reach: Reach<8> = Reach::new(8);
    let mut followed = 0;
    for now in 0..10 * CALL_MS {
        if let Ok(link) = reach.answer(|_| IDLE, now) {
            // The caller goes away at once.
            reach.free(link);
            followed += 1;
        }
    }
    assert_eq!(followed, CALL_BURST + 10 - 1);
}

#[test]
fn p_5_idle_links_are_given_back_and_unanswered_ones_soon() {
    let mut reach: Reach<8> = Reach::new(2);
    reach.lead(0, 1, false, 0);
    reach.lead(1, 2, true, 1);
    assert_eq!(reach.due(|_| IDLE, KEEP_MS - 1), None);
    assert_eq!(reach.due(|_| OWN, KEEP_MS), None);
    assert_eq!(reach.due(|_| IDLE, KEEP_MS), Some(0));
    reach.note(|link| if link == 0 { PEER } else { IDLE }, KEEP_MS);
    // Whether it was called makes no difference.
    assert_eq!(reach.due(|_| PEER, KEEP_MS + 1), None);
    assert_eq!(reach.due(|_| IDLE, KEEP_MS + 1), Some(1));
    reach.free(1);
    assert_eq!(reach.due(|_| IDLE, 2 * KEEP_MS - 1), None);
    assert_eq!((reach.host_at(0), reach.host_at(1)), (Some(1), None));
    reach.set_keep(0);
    assert_eq!(reach.due(|_| IDLE, u64::MAX - 1), None);
    // A host that has no link back is not waited for.
    let unanswered = Use {
        unanswered: true,
        ..IDLE
    };
    assert_eq!(reach.due(|_| unanswered, KEEP_MS + LAPSE_MS - 1), None);
    assert_eq!(reach.due(|_| unanswered, KEEP_MS + LAPSE_MS), Some(0));
    // Nor is one that has given its own back, unless something here uses the link.
    let parted = Use {
        parted: true,
        ..unanswered
    };
    assert_eq!(reach.due(|_| parted, KEEP_MS), Some(0));
    assert_eq!(
        reach.due(
            |_| Use {
                own: true,
                ..parted
            },
            u64::MAX
        ),
        None
    );
}

#[test]
fn calls_beyond_their_share_take_turns() {
    let mut reach: Reach<8> = Reach::new(4);
    reach.lead(0, 1, false, 0);
    for (link, now) in [(1, 10), (2, 20)] {
        reach.lead(link, 10 + link as u64, true, now);
    }
    // The third link leads nowhere, and the first was idle for longest: neither is for calls now.
    assert_eq!(reach.answer(|_| IDLE, 9 + LAPSE_MS), Err(Refused::Share));
    assert_eq!(reach.answer(|_| IDLE, 10 + LAPSE_MS), Ok(1));
    reach.lead(1, 20, true, 10 + LAPSE_MS);
    assert_eq!(reach.answer(|_| IDLE, 20 + LAPSE_MS), Ok(2));
    assert_eq!(reach.answer(|_| PEER, 20 + LAPSE_MS), Err(Refused::Share));
}

/// Hosts of two links each. One after the other connects to each other one, and closes again: each
/// connection comes about, though there are far more pairs than links.
#[test]
fn p_5_all_hosts_reach_all_over_time() {
    const HOSTS: usize = 9;
    let mut hosts: Vec<Reach<8>> = (0..HOSTS).map(|_| Reach::new(2)).collect();
    let (mut now, mut met) = (0, 0);
    for from in 0..HOSTS {
        for to in (0..HOSTS).filter(|to| *to != from) {
            now += CALL_MS;
            let link = hosts[from].link_to(to as u64).unwrap_or_else(|| {
                let link = hosts[from].choose(|_| IDLE).unwrap();
                hosts[from].lead(link, to as u64, false, now);
                link
            });
            // The hello is repeated until it is followed.
            let until = now + LAPSE_MS + 1000;
            let back = loop {
                if let Some(back) = hosts[to].link_to(from as u64) {
                    break back;
                }
                if let Ok(back) = hosts[to].answer(|_| IDLE, now) {
                    hosts[to].lead(back, from as u64, true, now);
                    break back;
                }
                now += 200;
                assert!(now < until, "{from} does not reach {to}");
            };
            let used = |at: usize| move |link| if link == at { OWN } else { IDLE };
            hosts[from].note(used(link), now);
            hosts[to].note(used(back), now);
            met += 1;
        }
    }
    assert_eq!(met, HOSTS * (HOSTS - 1));
}

#[test]
fn a_use_that_is_over_at_once_counts() {
    let mut reach: Reach<8> = Reach::new(2);
    reach.lead(0, 1, true, 0);
    reach.lead(1, 2, false, 1);
    reach.touch(0, 2);
    assert_eq!(reach.choose(|_| IDLE), Ok(1));
    assert_eq!(reach.due(|_| IDLE, LAPSE_MS + 2), None);
    assert_eq!(reach.due(|_| IDLE, KEEP_MS + 1), Some(1));
}
