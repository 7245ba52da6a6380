// SPDX-License-Identifier: GPL-2.0

//! Events of a device for udev.

use crate::sys::raw_dev;
use kernel::{
    bindings,
    device::Device,
    fmt,
    prelude::*,
    str::{CStrExt, CString},
};

/// The most variables of an event.
const MAX: usize = 8;

/// Sends a "change" event of `dev`, with up to 8 variables of the form `NAME=value`.
///
/// Errors are ignored: without memory no event is sent.
///
/// Wraps `kobject_uevent_env()`, `include/linux/kobject.h`. Sleeps.
pub(crate) fn change(dev: &Device, variables: &[fmt::Arguments<'_>]) {
    let mut strings = [const { None }; MAX];
    for (string, variable) in strings.iter_mut().zip(variables) {
        match CString::try_from_fmt(*variable) {
            Ok(made) => *string = Some(made),
            Err(_) => return,
        }
    }
    // One more than there are variables, so that the list ends with a null pointer.
    let mut env: [*mut c_char; MAX + 1] = [core::ptr::null_mut(); MAX + 1];
    for (place, string) in env.iter_mut().zip(strings.iter().flatten()) {
        *place = string.as_char_ptr().cast_mut();
    }
    // SAFETY: The device is held; the strings exist during the call, which does not write to them, and
    // the list ends with null.
    unsafe {
        bindings::kobject_uevent_env(
            &raw mut (*raw_dev(dev)).kobj,
            bindings::kobject_action_KOBJ_CHANGE,
            env.as_mut_ptr(),
        );
    }
}
