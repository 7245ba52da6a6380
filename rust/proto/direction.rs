// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which way each message and each word goes, by the protocol of its queue pair.
//!
//! What has come by another way is no part of the protocol. This must not know how anything is sent.

use super::{
    protocol::Protocol,
    request::{Data, Lane, Message, Role},
    word::Says,
};

impl Protocol {
    /// Which way a message goes.
    pub const fn lane(self, message: &Message) -> Lane {
        if self.wqe && message.is_pullable() {
            Lane::Pulled
        } else {
            message.lane()
        }
    }

    /// Which way a request goes that would be pushed by `lane`.
    pub const fn requests(self, lane: Lane) -> Lane {
        if self.wqe {
            Lane::Pulled
        } else {
            lane
        }
    }

    /// Whether a word is put down to be pulled. What an initiator says never is.
    pub const fn offers(self, says: Says) -> bool {
        let responder = !matches!(
            says,
            Says::Done {
                to: Role::Responder,
                ..
            }
        );
        responder && self.cqe
    }

    /// Whether this is how a message comes, and data with it.
    pub fn allows(self, lane: Lane, message: &Message) -> bool {
        let data = match message {
            Message::Send { data, .. } | Message::Write { data, .. } => match data {
                Data::Inline(inline) => !self.data || inline.as_bytes().is_empty(),
                Data::Eager { .. } => !self.data,
                Data::Long(_) => true,
            },
            Message::Read {
                length, extents, ..
            } => {
                if self.data {
                    extents.as_slice().is_empty()
                } else {
                    extents.bytes() >= u64::from(*length)
                }
            }
            Message::Lend { .. } => !self.data,
            Message::Offer { .. } => self.data,
            _ => true,
        };
        data && lane == self.lane(message)
    }

    /// Whether this is how a word comes.
    pub const fn allows_word(self, pulled: bool, says: Says) -> bool {
        pulled == self.offers(says)
    }
}
