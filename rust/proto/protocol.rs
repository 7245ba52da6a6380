// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which way what the ends of a queue pair tell each other goes: pushed by who has it, or pulled by
//! who wants it.
//!
//! Requests, data and completions each, as both ends have agreed. What has come by another way is no
//! part of the protocol. This file must not know how anything is sent, or who is told.

use super::{
    request::{Data, Lane, Message, Role},
    word::Says,
};

/// `WEFT_PULL_WQE`.
const WQE: u32 = 1 << 0;
/// `WEFT_PULL_DATA`.
const DATA: u32 = 1 << 1;
/// `WEFT_PULL_CQE`.
const CQE: u32 = 1 << 2;

/// The protocol of a queue pair. By default everything is pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Requests are pulled,
    pub wqe: bool,
    /// data,
    pub data: bool,
    /// what a responder says of requests.
    pub cqe: bool,
}

impl Protocol {
    /// Everything is pushed.
    pub const PUSH: Self = Self {
        wqe: false,
        data: false,
        cqe: false,
    };

    /// Of a mask of `WEFT_PULL_*`; `None` if there are other bits.
    pub const fn of(bits: u32) -> Option<Self> {
        if bits & !(WQE | DATA | CQE) != 0 {
            return None;
        }
        Some(Self {
            wqe: bits & WQE != 0,
            data: bits & DATA != 0,
            cqe: bits & CQE != 0,
        })
    }

    /// As a mask of `WEFT_PULL_*`.
    pub const fn bits(self) -> u32 {
        let wqe = if self.wqe { WQE } else { 0 };
        let data = if self.data { DATA } else { 0 };
        let cqe = if self.cqe { CQE } else { 0 };
        wqe | data | cqe
    }

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
