// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The network manager of a fabric of tens of thousands of nodes.
//!
//! No node knows the others. The lowest id spreads from neighbour to neighbour and stops where a lower
//! one is known already; on its way it makes a tree. Up that tree goes how many nodes there are, down
//! it go intervals of local ids, and these are the routes. What a node keeps does not depend on how many
//! there are.

pub mod node;
pub mod set;
pub mod state;

pub use node::{Effects, Node};
