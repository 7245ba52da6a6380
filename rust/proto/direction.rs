// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The lane of each message and the direction of each word, by the protocol of the queue pair.
//!
//! A message or word that comes in another way breaks the protocol. This file is independent of how
//! messages and words are sent.

use super::{
    protocol::Protocol,
    request::{Data, Lane, Message, Role},
    word::Says,
};

impl Protocol {
    /// Returns the lane of a message.
    pub const fn lane<P>(self, message: &Message<P>) -> Lane {
        if self.wqe && message.is_pullable() {
            Lane::Pulled
        } else {
            message.lane()
        }
    }

    /// Returns the lane of a request that uses `lane` if it is pushed.
    pub const fn requests(self, lane: Lane) -> Lane {
        if self.wqe {
            Lane::Pulled
        } else {
            lane
        }
    }

    /// Returns whether a word is posted locally to be pulled. Words of an initiator are always pushed.
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

    /// Returns whether the protocol allows a message by this lane, with its kind of data.
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

    /// Returns whether the protocol allows a word that comes pulled or pushed.
    pub const fn allows_word(self, pulled: bool, says: Says) -> bool {
        pulled == self.offers(says)
    }
}
