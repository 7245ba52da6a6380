// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The users of a link are quiesced for a while only, however it is asked for.

use proptest::prelude::*;
use weft_proto::quiesce::{Quiesce, QUIESCE_MS};

/// Interval at which a driver asks again.
const EVERY_MS: u64 = 4;

/// Asks from `from` on until it is refused; when that was.
fn until_refused(quiesce: &mut Quiesce, from: u64) -> u64 {
    let mut now = from;
    while quiesce.request(now) {
        assert!(quiesce.is_on());
        now += EVERY_MS;
    }
    assert!(!quiesce.is_on());
    now
}

#[test]
fn a_quiesce_that_is_asked_for_without_end_ends_and_does_not_come_back_at_once() {
    let mut quiesce = Quiesce::default();
    let begun = 123_456;
    let refused = until_refused(&mut quiesce, begun);
    assert_eq!(refused - begun, QUIESCE_MS);
    let mut now = refused;
    while !quiesce.request(now) {
        now += EVERY_MS;
    }
    assert_eq!(now - refused, QUIESCE_MS);
    assert_eq!(until_refused(&mut quiesce, now) - now, QUIESCE_MS);
}

#[test]
fn a_moment_without_a_quiesce_is_no_new_beginning() {
    let mut quiesce = Quiesce::default();
    let mut now = 1000;
    assert!(quiesce.request(now));
    now += QUIESCE_MS - 10;
    assert!(quiesce.request(now));
    quiesce.end(now);
    now += 1;
    assert!(quiesce.request(now));
    assert!(quiesce.request(now + 10));
    assert!(!quiesce.request(now + 11));
}

#[test]
fn quiesces_with_as_much_time_between_them_are_not_limited() {
    let mut quiesce = Quiesce::default();
    for n in 0..100 {
        let now = 1000 + n * 6000;
        assert!(quiesce.request(now));
        assert!(quiesce.request(now + 2999));
        quiesce.end(now + 3000);
    }
}

proptest! {
    /// Whatever is asked for when: in any stretch of time users are quiesced for no longer than they are not, and
    /// the limit.
    #[test]
    fn of_any_time_users_have_their_part(
        steps in prop::collection::vec((any::<bool>(), 1..5000u64), 1..200),
    ) {
        let mut quiesce = Quiesce::default();
        let mut now = 1;
        // (from, to) of each quiesce; while it is wanted, a driver asks every few milliseconds.
        let mut was: Vec<(u64, u64)> = Vec::new();
        for (wanted, ms) in steps {
            let until = now + ms;
            if !wanted {
                quiesce.end(now);
            }
            while wanted && now < until {
                let next = (now + EVERY_MS).min(until);
                if quiesce.request(now) {
                    match was.last_mut() {
                        Some(last) if last.1 == now => last.1 = next,
                        _ => was.push((now, next)),
                    }
                }
                now = next;
            }
            now = until;
        }
        for (n, first) in was.iter().enumerate() {
            let mut on = 0;
            for (from, to) in &was[n..] {
                on += to - from;
                let off = to - first.0 - on;
                prop_assert!(on <= off + QUIESCE_MS + EVERY_MS, "from {} to {to}: {on}", first.0);
            }
        }
    }
}
