// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Endpoints that hosts share, and whose they are: [`known`] is what a port tells of
//! it, [`name`] how people call what is in it, [`assignment`] what became of an assignment, [`remedy`]
//! what mends it, [`change`] which lines of the assignments an order changes, [`vh`] a
//! hierarchy as a tree, [`slot`] a port of a switch in words. Pure: knows nothing of how a port is asked.

pub mod assignment;
pub mod change;
pub mod hwid;
pub mod known;
pub mod name;
pub mod remedy;
pub mod slot;
pub mod vh;

pub use assignment::{Assignment, State};
pub use hwid::Hwid;
pub use known::{Component, Given, Hierarchy, Known, Place};
pub use name::Names;
pub use slot::Slot;
