// SPDX-License-Identifier: GPL-2.0

//! Configuration requests, for as long as this host is the master of the fabric.
//!
//! The port is entered for each request alone, so that its removal waits for one request at most. This
//! must not know what the registers mean.

use super::Network;
use crate::{
    hw::Router,
    proto::nm::path::Path,
    sys::{errno::ESTALE, ext},
};
use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How long a request is repeated if it times out, or if another write is in its way.
const PATIENCE: Delta = Delta::from_secs(5);
/// The pause between two writes.
const AGAIN: Delta = Delta::from_millis(5);

/// The requests. Errors of all are those of [`Router`], and `ESTALE`: this host is not the master in
/// that term any more; `ENODEV`: the port is not there now.
pub(super) struct Bus<'a> {
    pub(super) network: &'a dyn Network,
    term: u32,
}

impl<'a> Bus<'a> {
    pub(super) fn new(network: &'a dyn Network, term: u32) -> Self {
        Self { network, term }
    }

    /// Checks that this host is the master in its term. `ESTALE`: it is not.
    pub(super) fn is_master(&self) -> Result {
        match self.network.is_master(self.term) {
            true => Ok(()),
            false => Err(ESTALE.into()),
        }
    }

    /// Does one request.
    fn once<R>(&self, f: impl FnOnce(&dyn Router) -> Result<R>) -> Result<R> {
        self.is_master()?;
        let port = self.network.port_at_work().ok_or(ENODEV)?;
        f(port.router().ok_or(ENODEV)?)
    }

    /// Reads a register or an entry of a table. Repeats a request that times out: a host that is stopped
    /// may block it for a while.
    pub(super) fn read(&self, path: &Path, space: u32, addr: u32) -> Result<u32> {
        let since = Instant::<Monotonic>::now();
        loop {
            match self.once(|router| router.cfg_read(path.ports(), space, addr)) {
                Err(e) if e == ETIMEDOUT && since.elapsed() < PATIENCE => {}
                done => return done,
            }
        }
    }

    /// Reads a register of the node itself.
    pub(super) fn reg(&self, path: &Path, reg: u32) -> Result<u32> {
        self.read(path, ext::WEFT_SPACE_CONFIG, reg)
    }

    /// Reads a value of two registers, the lower half first.
    pub(super) fn read64(&self, path: &Path, space: u32, addr: u32) -> Result<u64> {
        let low = self.read(path, space, addr)?;
        let high = self.read(path, space, addr + 4)?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Writes an entry of a table, and repeats the write until it is in force: writing twice does no
    /// harm.
    pub(super) fn write(&self, path: &Path, space: u32, addr: u32, data: u32) -> Result {
        let since = Instant::<Monotonic>::now();
        loop {
            match self.once(|router| router.cfg_write(path.ports(), space, addr, data, self.term)) {
                Err(e) if (e == ETIMEDOUT || e == EBUSY) && since.elapsed() < PATIENCE => {}
                done => return done,
            }
            fsleep(AGAIN);
        }
    }
}
