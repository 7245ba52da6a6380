// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Endpoints that hosts share, and whose they are: [`known`] is what a port tells of
//! it, [`name`] how people call what is in it, [`wish`] what became of a wish, [`remedy`]
//! what mends it, [`change`] which lines of the wishes an order changes, [`vh`] a
//! hierarchy as a tree. Pure: knows nothing of how a port is asked.

pub mod change;
pub mod hwid;
pub mod known;
pub mod name;
pub mod remedy;
pub mod vh;
pub mod wish;

pub use hwid::Hwid;
pub use known::{Component, Given, Hierarchy, Known, Place};
pub use name::Names;
pub use wish::{State, Wish};
