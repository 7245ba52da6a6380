// SPDX-License-Identifier: GPL-2.0

//! Weft: Linux hosts joined by PCI Express itself.
//!
//! The driver of the ports of a fabric. From above to below, and nobody knows who is above:
//!
//! - `chardev`: `/dev/weftN`;
//! - `queue`: channels; `fabric`: the node, its links, the hello with the neighbours;
//! - [`driver`]: binds the PCI functions, puts everything together and takes it apart;
//! - [`hw`]: the ports, one file per family;
//! - [`sys`]: safe wrappers over what the kernel crate lacks;
//! - [`proto`]: layouts and state machines, pure logic.
//!
//! # Locks
//!
//! The device lock is held in probe, unbind and reset. Inside a port the order is: setup of
//! windows and apertures, then mailbox; they nest in nothing of the port. Doorbells take no lock.

mod driver;
mod hw;
#[path = "proto/mod.rs"]
pub mod proto;
mod sys;
