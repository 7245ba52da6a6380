// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends of a link with a few queue pairs, which run the QP machine of the module over two buffers.
//!
//! `end` is as much of an engine as there must be: it takes what has come, and gives turns. Each of its
//! steps is one that the driver's engine may take at any time.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod end;
pub mod env;
pub mod user;
pub mod world;

pub use crate::trunk::Memory;
