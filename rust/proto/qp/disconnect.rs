// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Disconnect messages of a queue pair.

use crate::proto::request::Gone;

/// A GONE message and its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// Queue pair of the peer; 0: any that has named the sender.
    pub to: u32,
    /// The contents.
    pub gone: Gone,
}

impl Disconnect {
    /// Returns the message that there is no queue pair `qpn`, for any queue pair that has named it.
    pub const fn unknown(qpn: u32) -> Self {
        Self {
            to: 0,
            gone: Gone {
                qpn,
                refuses: true,
                epoch: 0,
                peer_epoch: 0,
            },
        }
    }

    /// Returns the answer to a GONE that has come for `qpn`, which serves its sender no more: the sender
    /// can reuse the memory that it had leased.
    pub const fn answer(qpn: u32, gone: &Gone) -> Self {
        Self {
            to: gone.qpn,
            gone: Gone {
                qpn,
                refuses: true,
                epoch: 0,
                peer_epoch: gone.epoch,
            },
        }
    }
}
