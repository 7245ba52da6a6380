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

mod channels;
mod connect;
mod conns;
mod end;
mod listener;
mod messages;
mod place;

pub(crate) use self::{
    channels::Channels,
    connect::Wanted,
    end::{Channel, State},
    listener::Listener,
};
