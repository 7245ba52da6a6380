// SPDX-License-Identifier: GPL-2.0 OR MIT

//! libfabric's log and parameters, `FI_LOG_LEVEL` and `FI_WEFT_…`.

use crate::fi::*;
use std::ffi::{CStr, CString, c_int, c_void};

#[cfg(not(test))]
use crate::fi::{fi_log, fi_log_enabled, fi_param_define, fi_param_get};

/// Writes a line, if such lines are to be seen.
pub fn write(level: u32, subsystem: u32, line: u32, words: impl FnOnce() -> String) {
    let provider = crate::provider();
    // SAFETY: The provider is there for ever.
    if unsafe { fi_log_enabled(provider, level, subsystem) } == 0 {
        return;
    }
    let words = CString::new(words()).unwrap_or_default();
    // SAFETY: The format is of one string.
    unsafe {
        let (name, line) = (crate::NAME.as_ptr(), line as c_int);
        fi_log(provider, level, subsystem, name, line, c"%s\n".as_ptr(), words.as_ptr());
    }
}

macro_rules! info {
    ($subsystem:expr, $($arg:tt)*) => {
        $crate::log::write($crate::fi::FI_LOG_INFO, $subsystem, line!(), || format!($($arg)*))
    };
}
macro_rules! warning {
    ($subsystem:expr, $($arg:tt)*) => {
        $crate::log::write($crate::fi::FI_LOG_WARN, $subsystem, line!(), || format!($($arg)*))
    };
}
pub(crate) use {info, warning};

/// A parameter: a number that is set by `FI_WEFT_` and its name in capitals.
pub struct Parameter {
    name: &'static CStr,
    help: &'static CStr,
    default: usize,
    least: usize,
    most: usize,
}

/// List entries of an endpoint: half of them are for receives.
pub static ENTRIES: Parameter = Parameter {
    name: c"entries",
    help: c"List entries of an endpoint, for receives and messages that wait, 64 to 16384 (default: 4096)",
    default: 4096,
    least: 64,
    most: weft_entries(),
};
/// Memory for messages that wait.
pub static OVERFLOW: Parameter = Parameter {
    name: c"overflow_mib",
    help:
        c"Memory of an endpoint for messages that wait for a receive, 1 to 4096 MiB (default: 64)",
    default: 64,
    least: 1,
    most: 4096,
};

const fn weft_entries() -> usize {
    16384
}

impl Parameter {
    /// Tells libfabric that there is such a parameter.
    pub fn define(&self) {
        // SAFETY: libfabric copies the strings; the second has no conversions.
        unsafe {
            let (name, help) = (self.name.as_ptr(), self.help.as_ptr());
            fi_param_define(crate::provider(), name, FI_PARAM_SIZE_T, help);
        }
    }

    /// The value that is set, or the default.
    pub fn get(&self) -> usize {
        let mut value = self.default;
        // SAFETY: A parameter of this type is a size_t, and is not written if it is not set.
        unsafe {
            let to = (&raw mut value).cast::<c_void>();
            fi_param_get(crate::provider(), self.name.as_ptr(), to);
        }
        value.clamp(self.least, self.most)
    }
}

/// In place of libfabric, which tests of this crate are not linked with.
#[cfg(test)]
mod without {
    use super::*;
    use std::ffi::c_char;

    pub unsafe fn fi_log_enabled(_: *const Provider, _: u32, _: u32) -> c_int {
        0
    }

    pub unsafe fn fi_log(
        _: *const Provider,
        _: u32,
        _: u32,
        _: *const c_char,
        _: c_int,
        _: *const c_char,
        _: *const c_char,
    ) {
    }

    pub unsafe fn fi_param_define(_: *const Provider, _: *const c_char, _: u32, _: *const c_char) {}

    pub unsafe fn fi_param_get(_: *mut Provider, _: *const c_char, _: *mut c_void) {}
}
#[cfg(test)]
use without::{fi_log, fi_log_enabled, fi_param_define, fi_param_get};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_not_set_have_their_defaults() {
        assert_eq!((ENTRIES.get(), OVERFLOW.get()), (4096, 64));
    }
}
