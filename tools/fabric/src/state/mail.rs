// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Mailbox messages on their way.

use super::Place;

/// A mailbox message, and the functions it goes between.
#[derive(Clone)]
pub(super) struct Mail {
    pub to: u8,
    pub from: u8,
    pub data: Vec<u8>,
}

/// A message that a slow link has not delivered yet.
pub(super) struct Late {
    pub due_us: u64,
    pub place: Place,
    /// Of the path; in another life of it the message is lost.
    pub life: u32,
    pub mail: Mail,
}
