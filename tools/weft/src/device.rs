// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Device files of ports.

use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags, open};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens a fresh file of a port.
pub fn open_file(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    open(path, OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::empty())
        .map_err(|e| Error::open(path, e.into()))
}
