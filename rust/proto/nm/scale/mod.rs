// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The network manager of a fabric of tens of thousands of nodes.
//!
//! No node but the master has a list of the others. The lowest id spreads from neighbour to neighbour and stops
//! where a lower one is known already; on its way it makes a tree ([`tree`]). The numbers of nodes are reported up
//! the tree, and local ids are granted down the tree, in areas. Routes are told from neighbour to neighbour
//! ([`routes`]): a node has one to each node of its area, and one to each other area, which is less than four
//! times the root of the number of nodes. Hardware ids are found in the master's [`directory`].

pub mod area;
pub mod directory;
pub mod entry;
pub mod group;
pub mod letter;
pub mod link;
pub mod names;
pub mod node;
pub mod routes;
pub mod state;
pub mod store;
pub mod sum;
pub mod tree;
pub mod update;

pub use node::{Effects, Memory, Node, Parts};
