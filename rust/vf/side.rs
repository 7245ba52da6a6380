// SPDX-License-Identifier: GPL-2.0

//! One of the two functions of a migration: a VF number at a port that may be removed at any time.

use crate::{
    fabric::Node,
    hw::{Vf, VfQuota, VirtualFunctions},
    proto::pair::Ask,
    sys::virtfn::{Bound, VirtFn},
};
use kernel::{
    device::Device,
    prelude::*,
    sync::aref::ARef,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// A quota of nothing.
const NOTHING: VfQuota = VfQuota {
    slots: 0,
    apertures: 0,
    doorbells: 0,
    pages: 0,
    bytes: 0,
    links: 0,
    channels: 0,
    peers: 0,
    rate: 0,
    rings: 0,
};

/// How often to look whether its driver has answered.
const POLL: Delta = Delta::from_millis(2);

/// A virtual function.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    node: &'a Node,
    n: usize,
}

impl<'a> Side<'a> {
    pub(super) fn new(node: &'a Node, n: usize) -> Self {
        Self { node, n }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        core::ptr::eq(self.node, other.node) && self.n == other.n
    }

    pub(super) fn number(&self) -> usize {
        self.n
    }

    pub(super) fn pf(&self) -> ARef<Device> {
        self.node.dev()
    }

    /// Calls `f` with the VFs of the port. `ENODEV`: the port is gone; `ENOENT`: it can have no such VF.
    fn with<R>(&self, f: impl FnOnce(&dyn VirtualFunctions) -> Result<R>) -> Result<R> {
        let port = self.node.port()?;
        let vfs = port.vfs().ok_or(ENOENT)?;
        if self.n >= vfs.count() {
            return Err(ENOENT);
        }
        f(vfs)
    }

    pub(super) fn vf(&self) -> Result<Vf> {
        self.with(|vfs| vfs.get(self.n))
    }

    pub(super) fn can_migrate(&self) -> Result<bool> {
        self.with(|vfs| Ok(vfs.can_migrate()))
    }

    pub(super) fn can_renumber(&self) -> Result<bool> {
        self.with(|vfs| Ok(vfs.can_renumber()))
    }

    /// Returns whether both are VFs of the same port.
    pub(super) fn is_sibling(&self, other: &Self) -> bool {
        core::ptr::eq(self.node, other.node)
    }

    /// Exchanges the numbers by which neighbours know this VF and its sibling `other`.
    pub(super) fn renumber(&self, other: &Self) -> Result {
        self.with(|vfs| vfs.renumber(self.n, other.n))
    }

    pub(super) fn offers(&self) -> Result<[u32; 4]> {
        self.with(|vfs| Ok(vfs.offers()))
    }

    pub(super) fn own_hwid(&self) -> Result<u64> {
        self.with(|vfs| Ok(vfs.own_hwid(self.n)))
    }

    /// Returns the bit of its own neighbours in a quota.
    pub(super) fn peer_index(&self) -> Result<u64> {
        self.with(|vfs| Ok(vfs.peer_index(self.n)))
    }

    pub(super) fn set_quota(&self, quota: &VfQuota) -> Result {
        self.with(|vfs| vfs.change(self.n, &|to| *to = *quota))
    }

    /// Takes its whole quota away.
    pub(super) fn cut(&self) -> Result {
        self.set_quota(&NOTHING)
    }

    /// Asks the driver of the VF for something.
    pub(super) fn ask(&self, ask: Ask) -> Result {
        self.with(|vfs| vfs.ask(self.n, ask))?;
        self.node.hurry();
        Ok(())
    }

    /// Returns how much it has that cannot outlast it, as its driver says. `ETIMEDOUT`: the driver does
    /// not answer within `limit`. Sleeps.
    pub(super) fn look(&self, limit: Delta) -> Result<u32> {
        self.ask(Ask::Look)?;
        let since = Instant::<Monotonic>::now();
        let left = loop {
            match self.vf()?.left {
                Some(left) => break Ok(left),
                None if since.elapsed() >= limit => break Err(ETIMEDOUT),
                None => fsleep(POLL),
            }
        };
        self.leave_alone();
        left
    }

    /// Ends what the driver was asked for, even if the port does not answer now: the next driver is
    /// asked for nothing either.
    pub(super) fn leave_alone(&self) {
        if let Some(port) = self.node.port_though_silent() {
            if let Some(vfs) = port.vfs() {
                // A VF that does not exist is asked for nothing either.
                let _ = vfs.ask(self.n, Ask::GoOn);
            }
        }
        self.node.hurry();
    }

    /// Returns the VF as a device of this system. `None`: it does not exist any more.
    pub(super) fn device(&self) -> Option<VirtFn> {
        VirtFn::find(&self.pf(), self.n)
    }

    pub(super) fn bound(&self) -> Bound {
        self.device().map_or(Bound::None, |device| device.bound())
    }

    /// Returns whether it does not exist any more. A VF that does not answer, or whose PF is being
    /// reset, may still exist.
    pub(super) fn is_gone(&self) -> bool {
        self.node.is_closed() || self.device().is_none()
    }
}
