// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fabric: there is one, of which each port of this host is a domain. What a program opens in it is in `tree.rs`.

use crate::fi::FidFabric;

/// A fabric.
#[derive(Debug)]
pub struct Fabric;

/// Which version of the interface a fabric is used by.
///
/// # Safety
///
/// It is one of this provider, and not closed.
pub unsafe fn api(fabric: *mut FidFabric) -> u32 {
    // SAFETY: As the caller says; libfabric wrote it before the program had the fabric.
    unsafe { (&raw const (*fabric).api_version).read() }
}
