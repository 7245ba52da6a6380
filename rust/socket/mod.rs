// SPDX-License-Identifier: GPL-2.0

//! Sockets: streams of bytes between programs of two hosts, with the errors that programs of TCP know.
//!
//! Each end has a half in its arena, `proto::socket`. The kernel moves the bytes, in the calls of the programs: what
//! is sent is in the memory of the other host, or ready to be fetched from there, when `write` returns. Messages of
//! the link queues make sockets and end them, see [`crate::verbs::Control`]. Documentation/sockets.rst explains what
//! programs see. This module must not know files.
//!
//! # Locks
//!
//! `Socket::sending` and `Socket::receiving` are outside those of `crate::verbs`, and never both held: a call that
//! sends or receives holds one, also while memory of its caller is fetched or it waits for the peer. Only a program's
//! calls wait for them, and can be interrupted; others try.
//!
//! Inside those of `fabric` and of `crate::verbs`, and in this order:
//!
//! 1. `PerLink::rests`; accesses of calls are waited for with it held, and take none of these locks;
//! 2. `Sockets::listeners`, then the queue of a [`Listener`];
//! 3. `PerLink::outbox`;
//! 4. `PerLink::table`, with interrupts off: taken by the hard interrupt;
//! 5. `Socket::wakeup`, with interrupts off.
//!
//! `crate::channel` and `crate::share` are called with the first one held at the most.

mod accept;
mod access;
mod calls;
mod end;
mod events;
mod listener;
mod per_link;
mod ready;
mod sockets;
mod transfer;

pub(crate) use self::{calls::Wanted, end::Socket, listener::Listener, sockets::Sockets};
