// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How much of a table each user may have.
//!
//! A user may have half of what the others leave. One user alone gets half of the table, a second one half
//! of the other half, and so on: `n` users that take all that they get leave `limit / 2^n`. A fixed part
//! for each user would be too small for one that is alone, or be used up by a few of them.

/// Returns the number of entries that a user may have in all, of a table of `limit` entries of which other
/// users have `others`.
pub const fn share(limit: u32, others: u32) -> u32 {
    limit.saturating_sub(others) / 2
}

/// Returns the number of routed links that a user may have in all, of `links` of which only other users have
/// `others`. There may be so few that half of what is left is none: one is what a user may have at least.
pub const fn share_of_links(links: u32, others: u32) -> u32 {
    let most = share(links, others);
    if most == 0 {
        1
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of `users` gets, one after the other.
    fn taken(limit: u32, users: u32) -> Vec<u32> {
        let mut all: Vec<u32> = Vec::new();
        for _ in 0..users {
            all.push(share(limit, all.iter().sum()));
        }
        all
    }

    #[test]
    fn a_user_that_is_alone_has_half() {
        assert_eq!(share(16384, 0), 8192);
        assert_eq!(share(32766, 0), 16383);
        assert_eq!(share(u32::MAX, 0), u32::MAX / 2);
    }

    #[test]
    fn users_leave_room_for_others() {
        assert_eq!(taken(16384, 4), [8192, 4096, 2048, 1024]);
        for limit in [2, 3, 100, 768, 16384, 32766] {
            for users in 1..8 {
                let left = limit - taken(limit, users).iter().sum::<u32>();
                assert!(left >= limit >> users, "{limit} {users}");
            }
        }
    }

    #[test]
    fn the_last_entry_is_no_users() {
        for limit in 0..100 {
            let left = limit - taken(limit, 40).iter().sum::<u32>();
            assert_eq!(left, limit.min(1));
        }
    }

    #[test]
    fn p_5_a_user_has_half_of_the_routed_links_and_one_at_least() {
        let most: Vec<u32> = [8, 4, 2, 1]
            .into_iter()
            .map(|links| share_of_links(links, 0))
            .collect();
        assert_eq!(most, [4, 2, 1, 1]);
        assert_eq!(
            (
                share_of_links(8, 4),
                share_of_links(8, 7),
                share_of_links(8, 8)
            ),
            (2, 1, 1)
        );
    }

    #[test]
    fn what_others_have_can_exceed_a_table_that_became_smaller() {
        assert_eq!(share(10, 11), 0);
        assert_eq!(share(0, u32::MAX), 0);
    }
}
