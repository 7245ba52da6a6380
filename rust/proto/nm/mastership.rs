// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The right to write tables: a master, and its term.
//!
//! A new master takes a term above all that it has found. Two that begin at once may take the same term;
//! then the lower hardware id wins, as everywhere.

use super::{
    super::bytes::{members, Malformed, Member, Reader, Writer},
    order::is_later,
};

/// A master and its term. The default is older than any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mastership {
    /// Rises with each master, in the order of [`super::order`]. 0 is the term of none.
    pub term: u32,
    /// Hardware id of the master.
    pub master: u64,
}

impl Mastership {
    /// Returns whether this mastership replaces `other`.
    pub fn beats(&self, other: &Self) -> bool {
        match self.term == other.term {
            true => self.master < other.master,
            false => other.term == 0 || (self.term != 0 && is_later(self.term, other.term)),
        }
    }
}

members! {
    Mastership { term, master };
}
