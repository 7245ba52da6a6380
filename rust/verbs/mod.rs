// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: work and completion queues of users, and the engine that works them off.
//!
//! What a queue pair does with what is posted and with what comes are the rules of `proto::qp`; here
//! they meet the queues of users, registered memory ([`crate::mem`]) and the link. This knows links by
//! `fabric`, and must not know files.
//!
//! # Locks
//!
//! Inside those of `fabric`, and in this order:
//!
//! 1. `Kicks::pages`, then `KickPage::owners`;
//! 2. `Worker::core`, one a link: a run of the engine. Two links' are never held at once;
//! 3. `Table::slots`, and never while it is held another of these;
//! 4. `Qp::inner`: two queue pairs' are never held at once. [`crate::mem`] is called with it held;
//! 5. completion queues and shared receive queues, a spin lock each, inside all others.
//!
//! `Worker::node` and `Kicks::node` are held for a moment only, and nothing inside it.

mod counts;
mod cq;
mod cx;
mod data;
mod engine;
mod env;
mod heap;
mod kicks;
mod making;
mod members;
mod moving;
mod posted;
mod qp;
mod run;
mod spares;
mod srq;
mod table;
mod traced;
mod trunk;
mod turns;
mod worker;

pub(crate) use self::{
    counts::{Counts, MAX_CQS, MAX_SRQS},
    cq::Cq,
    engine::{Change, Engine, Wanted},
    kicks::{Bell, KickPage, PLACE},
    making::Making,
    qp::{Qp, State},
    srq::Srq,
    table::MAX_QPS,
};
