// SPDX-License-Identifier: GPL-2.0

//! The parameters of a queue pair: its domain, its queues, its protocol.

use super::{cq::Cq, srq::Srq};
use crate::{
    mem::{Pd, Use},
    proto::{protocol::Protocol, wqe::QueueShape},
};

/// The parameters of a queue pair.
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
