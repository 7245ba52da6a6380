// SPDX-License-Identifier: GPL-2.0

//! One of the two functions of a migration: a number, at a port that may go away at any time.

use crate::{
    fabric::Node,
    hw::{Vf, VfQuota, VirtualFunctions},
    proto::pair::Ask,
    sys::virtfn::{Bound, VirtFn},
};
use kernel::{
    pci,
    prelude::*,
    sync::aref::ARef,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// Nothing at all.
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

/// How often it is looked whether its driver has answered.
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

    pub(super) fn pf(&self) -> ARef<pci::Device> {
        self.node.pci()
    }

    /// `ENODEV`: the port is gone; `ENOENT`: it can have no such VF.
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

    /// Whether both are of one physical function.
    pub(super) fn is_sibling(&self, other: &Self) -> bool {
        core::ptr::eq(self.node, other.node)
    }

    /// It and its sibling `other` exchange the numbers by which neighbours know them.
    pub(super) fn renumber(&self, other: &Self) -> Result {
        self.with(|vfs| vfs.renumber(self.n, other.n))
    }

    pub(super) fn offers(&self) -> Result<[u32; 4]> {
        self.with(|vfs| Ok(vfs.offers()))
    }

    pub(super) fn own_hwid(&self) -> Result<u64> {
        self.with(|vfs| Ok(vfs.own_hwid(self.n)))
    }

    /// The bit of its own neighbours in a quota.
    pub(super) fn peer_index(&self) -> Result<u64> {
        self.with(|vfs| Ok(vfs.peer_index(self.n)))
    }

    pub(super) fn set_quota(&self, quota: &VfQuota) -> Result {
        self.with(|vfs| vfs.change(self.n, &|to| *to = *quota))
    }

    /// It may use nothing any more.
    pub(super) fn cut(&self) -> Result {
        self.set_quota(&NOTHING)
    }

    /// Asks its driver.
    pub(super) fn ask(&self, ask: Ask) -> Result {
        self.with(|vfs| vfs.ask(self.n, ask))?;
        self.node.hurry();
        Ok(())
    }

    /// How much there is of it that cannot outlast it, as its driver says: `ETIMEDOUT` if it does not.
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

    /// Its driver is asked for nothing from now on, also if the function does not answer now.
    pub(super) fn leave_alone(&self) {
        if let Some(port) = self.node.port_though_silent() {
            if let Some(vfs) = port.vfs() {
                // One that there is not is asked for nothing either.
                let _ = vfs.ask(self.n, Ask::GoOn);
            }
        }
        self.node.hurry();
    }

    /// It as a device of this system. `None`: it is not there any more.
    pub(super) fn device(&self) -> Option<VirtFn> {
        VirtFn::find(&self.pf(), self.n)
    }

    pub(super) fn bound(&self) -> Bound {
        self.device().map_or(Bound::None, |device| device.bound())
    }

    /// Whether it does not exist any more. One that does not answer, or whose PF is being reset, may.
    pub(super) fn is_gone(&self) -> bool {
        self.node.is_closed() || self.device().is_none()
    }
}
