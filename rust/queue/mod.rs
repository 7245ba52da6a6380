// SPDX-License-Identifier: GPL-2.0

//! Channels: pairs of posted rings between users of two hosts.
//!
//! The kernel makes a channel, maps it and takes it away; the data are moved by its users, with the
//! rules of `proto::ring`. What is left to the kernel is to put them to sleep and to wake them up.
//! This knows links by `fabric`, and must not know files.
//!
//! # Locks
//!
//! Inside those of `fabric`, and in this order:
//!
//! 1. `Conns`, one a link: the connections and who has which pages of the arena;
//! 2. `Channels::listeners`;
//! 3. the queue of a [`Listener`];
//! 4. `Channel::maps`, also taken in page faults, that is, with `mmap_lock` held: whoever holds it
//!    touches no user memory, and zaps no mapping but after giving it back;
//! 5. `Channel::wakeup`, with interrupts off;
//! 6. `PerLink::awake`, with interrupts off: taken by the hard interrupt.
//!
//! And of queue pairs, inside those of `fabric`, too:
//!
//! 1. `Kicks::pages`, then `KickPage::owners`;
//! 2. `Worker::core`, one a link: a run of the engine. Two links' are never held at once;
//! 3. `Table::slots`, and never while it is held another of these;
//! 4. `Qp::inner`: two queue pairs' are never held at once. [`crate::mem`] is called with it held;
//! 5. completion queues and shared receive queues, a spin lock each, inside all others.
//!
//! `Worker::node` and `Kicks::node` are held for a moment only, and nothing inside it.

mod channel;
mod channels;
mod connect;
mod conns;
mod counts;
mod cq;
mod cx;
mod data;
mod engine;
mod env;
mod heap;
mod kicks;
mod listener;
mod making;
mod messages;
mod moving;
mod place;
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
    channel::{Channel, State},
    channels::Channels,
    connect::Wanted,
    counts::{Counts, MAX_CQS, MAX_SRQS},
    cq::Cq,
    engine::{Change, Engine, Wanted as WantedPath},
    kicks::{Bell, KickPage, PLACE},
    listener::Listener,
    making::Making as QpMaking,
    qp::{Qp, State as QpState},
    srq::Srq,
    table::MAX_QPS,
};
