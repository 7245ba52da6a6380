// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The module's `rust/proto/`, as a crate.
//!
//! The very same files; nothing is added here but a place where cargo finds them. They are tested
//! here, and the library and the tools take them from here. `scripts/proto-users` knows this file.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[path = "../../../rust/proto/mod.rs"]
mod proto;

pub use proto::*;
