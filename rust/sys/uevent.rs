// SPDX-License-Identifier: GPL-2.0

//! Events of a device for udev.

use crate::sys::raw_dev;
use kernel::{
    bindings, fmt, pci,
    prelude::*,
    str::{CStrExt, CString},
};

/// The most variables of an event.
const MAX: usize = 8;

/// Says that `dev` has changed, with variables of the form `NAME=value`. Sleeps. There may be no listener,
/// and for want of memory none is told.
pub(crate) fn change(dev: &pci::Device, variables: &[fmt::Arguments<'_>]) {
    let mut strings = [const { None }; MAX];
    for (string, variable) in strings.iter_mut().zip(variables) {
        match CString::try_from_fmt(*variable) {
            Ok(made) => *string = Some(made),
            Err(_) => return,
        }
    }
    // One more than there are, and that one is null.
    let mut env: [*mut c_char; MAX + 1] = [core::ptr::null_mut(); MAX + 1];
    for (place, string) in env.iter_mut().zip(strings.iter().flatten()) {
        *place = string.as_char_ptr().cast_mut();
    }
    // SAFETY: The device is held; the strings are there during the call, which does not write to them,
    // and the list ends with null.
    unsafe {
        bindings::kobject_uevent_env(
            &raw mut (*raw_dev(dev)).kobj,
            bindings::kobject_action_KOBJ_CHANGE,
            env.as_mut_ptr(),
        );
    }
}
