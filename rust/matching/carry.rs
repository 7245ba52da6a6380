// SPDX-License-Identifier: GPL-2.0

//! A request that was executed, for the thread of its interface to carry out.

use crate::proto::matching::{dispatch::Job, outcome::Reply};

/// A request, and what has come of it.
pub(super) struct Carry {
    pub(super) job: Job,
    pub(super) reply: Reply,
}
