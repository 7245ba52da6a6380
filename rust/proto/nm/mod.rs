// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The network manager: finds the nodes of the fabric, elects the master, gives local ids, and sets up
//! routes.
//!
//! [`node::Node`] is the manager of one node in a fabric of up to a few hundred, in which every node
//! explores; [`scale::Node`] is that of one in a fabric of tens of thousands, in which nodes report up
//! a tree; [`modes::Modes`] is the one first and the other later. All act through a trait of effects only, take times in milliseconds, and live in memory that
//! the caller provides. Formats, rules and limits: `Documentation/manager.rst`. The manager is
//! independent of how a neighbour is reached, and of what a route is used for.

pub mod allow;
pub mod ask;
pub mod assignments;
pub mod doubt;
pub mod explore;
pub mod kept;
pub mod kind;
pub mod lid;
pub mod mastership;
pub mod member;
pub mod message;
pub mod modes;
pub mod node;
pub mod order;
pub mod packet;
pub mod path;
pub mod port;
pub mod power;
pub mod route;
pub mod scale;
pub mod seal;
pub mod table;
