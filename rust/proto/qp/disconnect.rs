// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a queue pair leaves its peer.

use crate::proto::request::Gone;

/// GONE, and to which queue pair of the peer it goes; 0: to any that has named the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// The receiver.
    pub to: u32,
    /// What it is told.
    pub gone: Gone,
}

impl Disconnect {
    /// There is no queue pair `qpn`, for any that has named it.
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

    /// The answer to a GONE that has come for `qpn`, which does nothing for its sender: the sender can
    /// use again what it had leased.
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
