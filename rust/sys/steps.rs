// SPDX-License-Identifier: GPL-2.0

//! The numbered steps of a probe: a step that fails is logged by its name; a test can make one fail.

use kernel::{device::Device, prelude::*};

/// Counts the steps. The module parameter `fail_probe=N` makes step N fail after it is done, so that
/// its own undoing is tested, too; an N beyond the last step has no effect.
pub(crate) struct Steps<'a> {
    dev: &'a Device,
    done: u32,
    fail: u32,
}

impl<'a> Steps<'a> {
    /// Begins with no step done; step `fail` fails.
    pub(crate) fn new(dev: &'a Device, fail: u32) -> Self {
        Self { dev, done: 0, fail }
    }

    /// Does the next step, `f`, and returns its result; `EIO` if it is the step that is to fail. Errors
    /// are logged with `name`.
    pub(crate) fn step<T>(&mut self, name: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.done += 1;
        let asked = self.done == self.fail;
        let result = f().and_then(|v| if asked { Err(EIO) } else { Ok(v) });
        if let Err(e) = &result {
            dev_err!(
                self.dev,
                "probe: step {} ({}) failed: {}{}\n",
                self.done,
                name,
                e.to_errno(),
                if asked { ", as fail_probe wants" } else { "" }
            );
        }
        result
    }
}
