// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The network manager of a fabric of tens of thousands of nodes.
//!
//! No node has a list of the others. The lowest id spreads from neighbour to neighbour and stops where a
//! lower one is known already; on its way it makes a tree. The numbers of nodes are reported up the
//! tree, and intervals of local ids are granted down the tree; the intervals are the routes. The memory
//! of a node does not depend on the number of nodes.

pub mod node;
pub mod set;
pub mod state;

pub use node::{Effects, Node};
