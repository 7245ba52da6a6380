// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The right to write tables: a master, and its term.
//!
//! A new master takes a term above all that it has found. Two that begin at once may take the same term;
//! then the lower hardware id wins, as everywhere.

use super::super::bytes::{members, Malformed, Member, Reader, Writer};

/// A master and its term. The default is older than any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mastership {
    /// Rises with each master. 0 is the term of none.
    pub term: u32,
    /// Hardware id of the master.
    pub master: u64,
}

impl Mastership {
    /// Returns whether this mastership replaces `other`.
    pub fn beats(&self, other: &Self) -> bool {
        self.term > other.term || (self.term == other.term && self.master < other.master)
    }
}

members! {
    Mastership { term, master };
}
