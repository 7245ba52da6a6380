// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Multi-root management: computes the tables of the fabric with which root complexes share endpoints,
//! so that exactly the components that belong together reach each other.
//!
//! From the result of a traversal ([`inventory`]) and the administrator's assignments ([`assignment`])
//! the [`design`] computes the tree of every root complex, virtual planes on its links, a base and limit
//! in every address space, and the entries of all tables. Only the difference between the present
//! entries and the new ones is written ([`plan`]), so that components that are not concerned are not
//! touched. A host is told what it needs to know as its [`hierarchy`]. [`due`] decides when all this is
//! done, [`slot`] what hot-plug controllers are written. The folder is independent of how a component is accessed or a table written. Rules and limits:
//! `Documentation/multiroot.rst`.

pub mod aperture;
pub mod assignment;
pub mod design;
pub mod due;
pub mod hierarchy;
pub mod inventory;
pub mod list;
pub mod plan;
pub mod plane;
pub mod slot;
pub mod tree;
pub mod vpd;
