// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The order of terms and of versions, which are numbers of 32 bits that rise.
//!
//! A node obeys no earlier number than the one that it has. If that were the order of integers, a single
//! message with the highest number would have a node refuse all that come after. So a number is *earlier*
//! than another one only if it is at most [`WINDOW`] behind, around the end of the numbers; all others are
//! later. Numbers that rise by one each time are in their usual order, and whatever numbers the nodes of a
//! fabric have, there is one that is later than all of them: [`after`] finds it. This file is independent of
//! what is numbered.

/// How far behind a number is taken for an earlier one. For 256 nodes, each with another number, these are half
/// of all numbers.
pub const WINDOW: u32 = 1 << 23;

/// Returns whether `a` is later than `b`.
pub fn is_later(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) >= WINDOW
}

/// Returns the number after `number`; 0 is none.
pub fn next(number: u32) -> u32 {
    number.wrapping_add(1).max(1)
}

/// Returns a number that is later than `number` and than all of `others`: the first one in this order, so
/// that one of `others` that is out of all proportion changes nothing. Of `others` 0 is none.
pub fn after(number: u32, others: impl Iterator<Item = u32> + Clone) -> u32 {
    let mut found = next(number);
    // Each turn passes one of them.
    for _ in others.clone() {
        let mut ahead = others.clone().filter(|n| *n != 0 && !is_later(found, *n));
        match ahead.next() {
            Some(other) => found = next(other),
            None => break,
        }
    }
    found
}
