// SPDX-License-Identifier: GPL-2.0

//! Bindings that the kernel crate does not have: the user interface, the registers of the Weft port, the
//! shim and the tracepoints. `bindgen`, run by Kbuild, makes them from `c/bindings_ext.h`.

#![allow(
    clippy::all,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_cast_constness
)]

use kernel::bindings::*;
use pin_init::MaybeZeroable;

include!(env!("WEFT_EXT"));
