// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `weft-fabric`: what lies between the emulated Weft ports. It reads a topology,
//! joins the ports of one machine's QEMUs, hands each neighbour the descriptors of
//! the other's memory and doorbells, and keeps the links. Data never pass through it.
//!
//! [`topology`] and [`wire`] know only their formats, [`state`] is a state machine
//! without input or output, [`firmware`] is what runs in switches, [`daemon`] gives it sockets, and [`cli`] talks to the
//! daemon through [`control`].
#![forbid(unsafe_code)]

pub mod cli;
pub mod control;
pub mod daemon;
pub mod firmware;
pub mod state;
pub mod topology;
pub mod wire;
