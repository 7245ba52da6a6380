// SPDX-License-Identifier: GPL-2.0

//! The module itself.

use core::borrow::Borrow;
use kernel::bindings;

/// The owner of what the kernel calls back.
#[cfg(not(KERNEL_7_3))]
pub(crate) const OWNER: *mut bindings::module = crate::THIS_MODULE.as_ptr();
/// The owner of what the kernel calls back.
#[cfg(KERNEL_7_3)]
pub(crate) const OWNER: *mut bindings::module =
    <crate::WeftModule as kernel::ModuleMetadata>::THIS_MODULE.as_ptr();

/// A parameter of the module, of which 7.2 gives a reference and 7.3 the value.
pub(crate) fn param(value: impl Borrow<u32>) -> u32 {
    *value.borrow()
}
