// SPDX-License-Identifier: GPL-2.0

//! Channels: pairs of posted rings between users of two hosts.
//!
//! The kernel makes a channel, maps it and takes it away; its users move the data, by the rules of
//! `proto::ring`. Besides that, the kernel only puts them to sleep and wakes them. The end of a client in
//! the kernel is moved by the kernel itself ([`KernelEnd`]). This module reaches links through `fabric`
//! only, and must not know files, nor the interface of clients.
//!
//! # Locks
//!
//! Inside those of `fabric`, and in this order:
//!
//! 1. `Conns`, one per link: the connections and the allocation of the arena's pages;
//! 2. `Channels::listeners`;
//! 3. the queue of a [`Listener`];
//! 4. `Channel::maps`, also taken in page faults, that is, with `mmap_lock` held: the holder touches
//!    no user memory, and zaps mappings only after it has released the lock;
//! 5. `Channel::wakeup`, with interrupts off;
//! 6. `PerLink::awake`, with interrupts off: taken by the hard interrupt.
//!
//! `crate::share` is called with the first one held.

mod access;
mod channels;
mod connect;
mod conns;
mod end;
mod kernel;
mod listener;
mod messages;
mod pages;
mod place;
mod sleeper;

pub(crate) use self::{
    channels::Channels,
    connect::{Wanted, MAX_BACKLOG, MAX_LISTENERS, MAX_TIMEOUT_MS},
    end::{Channel, State},
    kernel::KernelEnd,
    listener::Listener,
    pages::Pages,
    sleeper::Sleeper,
};
