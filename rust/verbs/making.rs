// SPDX-License-Identifier: GPL-2.0

//! What a queue pair is made of: its domain, its queues, its protocol.

use super::{cq::Cq, srq::Srq};
use crate::{
    mem::{Pd, Use},
    proto::{protocol::Protocol, wqe::QueueShape},
};

/// What a queue pair is made of.
pub(crate) struct Making {
    pub(crate) pd: Use<Pd>,
    pub(crate) send_cq: Use<Cq>,
    pub(crate) recv_cq: Use<Cq>,
    pub(crate) srq: Option<Use<Srq>>,
    pub(crate) send: QueueShape,
    /// `None` with a shared receive queue.
    pub(crate) recv: Option<QueueShape>,
    pub(crate) protocol: Protocol,
}
