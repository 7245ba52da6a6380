// SPDX-License-Identifier: GPL-2.0

//! The module: its owner pointer and its parameters.

use core::borrow::Borrow;
use kernel::bindings;

/// The module pointer (`THIS_MODULE`), the owner of tables of callbacks.
#[cfg(not(KERNEL_7_3))]
pub(crate) const OWNER: *mut bindings::module = crate::THIS_MODULE.as_ptr();
/// The module pointer (`THIS_MODULE`), the owner of tables of callbacks.
#[cfg(KERNEL_7_3)]
pub(crate) const OWNER: *mut bindings::module =
    <crate::WeftModule as kernel::ModuleMetadata>::THIS_MODULE.as_ptr();

/// Returns the value of a module parameter. The kernel crate returns a reference on 7.2, the value on
/// 7.3.
pub(crate) fn param(value: impl Borrow<u32>) -> u32 {
    *value.borrow()
}
