// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Multi-root management: who shares which endpoint, and what the tables of the fabric have to say so
//! that exactly those reach each other.
//!
//! From what a traversal has found ([`inventory`]) and what the administrator assignments ([`assignment`]) the
//! [`design`] makes the tree of every root complex, virtual planes on the links of it, a base and limit
//! in every address space, and the entries of all tables. What has to be written is the difference
//! between the entries that are and those that are to be ([`plan`]), so that who is not concerned is
//! not touched. What a host needs to know of it, it is told as its [`hierarchy`]. When all that is done is
//! said by [`due`]. Nothing here may know how a component is reached or a table written. Rules and limits:
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
pub mod tree;
pub mod vpd;
