// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the work and completion queues of users, and the engine that processes them.
//!
//! The rules of a queue pair are in `proto::qp`; this module applies them to the queues of users, to
//! registered memory ([`crate::mem`]) and to the link. It reaches links through `fabric` only, and
//! must not know files.
//!
//! # Locks
//!
//! Inside those of `fabric`, and in this order:
//!
//! 1. `Kicks::pages`, then `KickPage::owners`; or `Kicks::unflushed`;
//! 2. `Worker::core`, one per link: held by a run of the engine. Those of two links are never held at
//!    once;
//! 3. `Table::slots`. No other of these locks is taken while it is held;
//! 4. `Qp::inner`: those of two queue pairs are never held at once. [`crate::mem`] is called with it
//!    held;
//! 5. the locks of the [`Control`];
//! 6. completion queues and shared receive queues, a spin lock each, inside all others.
//!
//! `Worker::node` and `Kicks::node` are held briefly, and no lock is taken inside them.

mod control;
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
mod wait;
mod worker;

pub(crate) use self::{
    control::{Control, Reached},
    cq::{Cq, Next, MAX_CQS},
    engine::{Change, Engine, Wanted},
    kicks::{Bell, KickPage, PLACE},
    making::Making,
    qp::{Qp, State},
    srq::{Srq, MAX_SRQS},
    table::MAX_QPS,
    wait::Wait,
};
