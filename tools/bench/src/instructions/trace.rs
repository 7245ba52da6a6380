// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Agreement with what has the emulator write down instructions: when that begins and ends.

use super::clock;
use crate::{Result, appears};
use std::path::Path;

/// What is done for a trace is announced, and begins when the trace does.
pub struct Trace<'a> {
    /// Where that is said, by files.
    folder: &'a Path,
}

impl<'a> Trace<'a> {
    pub fn new(folder: &'a str) -> Self {
        Trace { folder: Path::new(folder) }
    }

    /// Does `work`, batches of so many `messages`, when it may be traced.
    pub fn of(&self, name: &str, messages: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("ready {name} {messages} {:#x}", clock as fn() -> u64 as usize);
        appears(&self.folder.join(format!("{name}.begin")))?;
        work()?;
        println!("done {name}");
        appears(&self.folder.join(format!("{name}.end")))
    }
}
