// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages between hosts that a PCI Express fabric joins.
//!
//! A *port* of this host, `/dev/weftN`, has links to other hosts. A *channel* is a pair of rings
//! between a program here and one there; the one that listens on a service number accepts, the one that
//! connects names the peer and that number. Messages are whole, in order, and carry a 64-bit tag of
//! the sender's. Once a channel is connected a message is a few stores into the peer's memory: no
//! system call and no interrupt, unless the other end sleeps.
//!
//! ```no_run
//! # fn main() -> weft::Result<()> {
//! use std::time::Duration;
//! use weft::{Connect, Port};
//!
//! let port = Port::open(0)?;
//! let mut channel = port.connect(&Connect::to_link(0, 7000))?;
//! channel.send(b"hello", 1, None)?;
//! let mut answer = Vec::new();
//! let tag = channel.recv(&mut answer, Some(Duration::from_secs(5)))?;
//! println!("{tag}: {} bytes", answer.len());
//! channel.finish(None)?;
//! # Ok(())
//! # }
//! ```
//!
//! # When things go wrong
//!
//! A channel does not repair itself. When the link goes down or the peer is restarted, it is
//! *broken*, with a reason ([`Reason`]): what had arrived can still be received, and what the peer
//! has consumed is known ([`Sender::consumed`]); everything else may be lost, and the program
//! connects again. Errors say what can be done about them ([`Error::hint`]).
//!
//! # With an event loop
//!
//! Channels, their halves and listeners lend their descriptor ([`std::os::fd::AsFd`]). It is readable
//! when a message may have come, or the channel ended, and writable when there is room for what was
//! refused last. Before the descriptor is waited for, [`Receiver::before_sleep`] has to be called. It
//! has to be waited for *level-triggered* (with epoll: no `EPOLLET`): it is the call that finds
//! nothing which tells the peer to ring.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod ioctl;
#[allow(unsafe_code)]
mod mapping;

#[allow(missing_docs, non_camel_case_types, dead_code)]
#[rustfmt::skip]
mod abi;

mod assignments;
mod channel;
mod component;
mod connect;
mod cq;
mod device;
mod endpoint;
mod entry;
mod error;
mod fabric;
mod hierarchy;
mod link;
mod listener;
pub mod matching;
mod migrate;
mod mr;
mod mw;
pub mod net;
mod objects;
mod pd;
mod port;
mod qp;
mod queue;
mod receiver;
mod request;
mod sender;
mod shared;
mod slot;
mod srq;
mod stag;
mod status;
#[cfg(test)]
mod tests;
mod time;
mod told;
pub mod verbs;

pub use assignments::{Assignment, AssignmentState, AssignmentStatus, Assignments};
pub use channel::Channel;
pub use component::Component;
pub use connect::Connect;
pub use cq::{Completion, Cq};
pub use endpoint::{
    Access, Done, DoneStatus, EndpointArea, Function, FunctionOptions, FunctionStatus, Part, Work,
};
pub use error::{Error, Reason, Result};
pub use fabric::{Fabric, FabricNode, FabricPort, FabricRoute, NodeKind};
pub use hierarchy::{Given, Hierarchy, Place};
pub use link::{Link, LinkState, Peer, Power};
pub use listener::Listener;
pub use migrate::{Migrate, Migration, Outcome};
pub use mr::{Mr, Rights};
pub use mw::Mw;
pub use objects::{Limits, Objects, Share};
pub use pd::Pd;
pub use port::{Guards, Port, PortKind, Protection};
pub use qp::{Protocol, Qp, QpOptions, QpPath, QpState, QpStatus};
pub use receiver::Receiver;
pub use request::{Operation, Request};
pub use sender::Sender;
pub use shared::State;
pub use slot::Slot;
pub use srq::Srq;
pub use stag::{Remote, Sge};
pub use status::Status;

/// Services from this number on are the kernel's own: no program listens on them, or connects to them.
pub const FIRST_KERNEL_SERVICE: u32 = abi::WEFT_SERVICE_KERNEL;

/// The longest payload that travels without the bulk ring, in bytes.
pub const INLINE_BYTES: usize = weft_proto::cell::INLINE_BYTES;
