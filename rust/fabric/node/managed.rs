// SPDX-License-Identifier: GPL-2.0

//! The fabric manager of a node whose port has routes: when it runs, and what other modules use of it.

use super::{
    super::{Manager, Reaching},
    function::{OfFunction, GUIDE},
    host::OfNode,
    Node, MANAGING, SHARING,
};
use crate::{
    fabric::View,
    hw::Port,
    proto::{mr::due::Due, reach::Counts},
    sys::{registry::Entry, work},
};
use kernel::{prelude::*, sync::Arc, time::msecs_to_jiffies, workqueue::WorkItem};

impl WorkItem<MANAGING> for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        let Some(port) = this.port_at_work() else {
            return;
        };
        let delay = match (this.manager(), this.far()) {
            (Some(manager), _) => manager.run(&*this, &**port),
            (None, Some(far)) => far.run(&*this, &OfFunction(&this), &**port),
            (None, None) => None,
        };
        if let Some(delay) = delay {
            // The gate is entered here, as in the timer.
            work::again_unbound_in::<_, MANAGING>(&this, msecs_to_jiffies(delay));
        }
    }
}

impl WorkItem<SHARING> for Node {
    type Pointer = Arc<Node>;

    fn run(this: Arc<Node>) {
        let Some(manager) = this.manager() else {
            return;
        };
        // Not with the port entered: this takes long, and removal of the port must not wait for it.
        let again = manager.pcim().run(&OfNode::new(&this, manager));
        if let (Some(_port), Some(delay)) = (this.port_at_work(), again) {
            work::again_unbound_in::<_, SHARING>(&this, msecs_to_jiffies(delay));
        }
    }
}

impl Node {
    /// Gives the node a manager of the fabric, if `port`, which is to become its port, has routes, and what aims
    /// the routed links, if it can have any. `EBUSY`: it has either.
    pub(crate) fn add_manager(&self, port: &dyn Port) -> Result {
        if let Some(vfs) = port.vfs() {
            vfs.set_guide(&GUIDE);
        }
        let count = port.far_links().len();
        let router = port.router();
        if count == 0 && router.is_none() {
            return Ok(());
        }
        let far = Reaching::new(port.links(), count)?;
        if let Some(router) = router {
            let manager = Manager::new(far.clone(), router.routes())?;
            *self.listed.lock() = Some(Entry::new(manager.clone())?);
            if !self.manager.populate(manager) {
                return Err(EBUSY);
            }
        }
        match self.far.populate(far) {
            true => Ok(()),
            false => Err(EBUSY),
        }
    }

    /// Returns the routed links, if the port can have any.
    pub(crate) fn far(&self) -> Option<&Reaching> {
        self.far.as_ref().map(|far| &**far)
    }

    /// Returns the manager of the fabric, if the port has routes.
    pub(crate) fn manager(&self) -> Option<&Manager> {
        self.manager.as_ref().map(|manager| &**manager)
    }

    /// Calls [`Manager::allow`], and has the manager look at all nodes again.
    pub(crate) fn allow(&self, hwid: u64) -> Result {
        self.manager().ok_or(ENODEV)?.allow(hwid)?;
        self.manage();
        Ok(())
    }

    /// Calls [`Pcim::announce`](super::super::Pcim::announce) as the master that this host is, and has all slots
    /// looked at. Sleeps.
    pub(crate) fn announce(&self, slot: (u64, u8), on: bool) -> Result {
        let manager = self.manager().ok_or(ENODEV)?;
        let term = manager.look(View::standing).term;
        let network = OfNode::new(self, manager);
        manager.pcim().announce(&network, term, slot, on)?;
        self.manage();
        Ok(())
    }

    /// Calls [`Manager::set_key`], and has the manager look at all nodes again.
    pub(crate) fn set_key(&self, text: &[u8]) -> Result {
        self.manager().ok_or(ENODEV)?.set_key(text)?;
        self.manage();
        Ok(())
    }

    /// Calls [`Manager::set_full_nodes`], and has the manager look whether there are more.
    pub(crate) fn set_full_nodes(&self, nodes: u64) -> Result {
        self.manager().ok_or(ENODEV)?.set_full_nodes(nodes)?;
        self.manage();
        Ok(())
    }

    /// Returns what messages of managers are believed by: an attestation of the fabric, and a key. `ENOENT`: the
    /// port has no manager.
    pub(crate) fn authentication(&self) -> Result<(bool, bool)> {
        let manager = self.manager().ok_or(ENOENT)?;
        let port = self.port()?;
        let attests = port.router().is_some_and(|router| router.attests());
        Ok((attests, manager.keyring().nonce() != 0))
    }

    /// Returns the number of routed links, and how many are in use. `ENOENT`: the port cannot have any.
    pub(crate) fn routed(&self) -> Result<(usize, Counts)> {
        Ok(self.far().ok_or(ENOENT)?.routed(self))
    }

    /// Sets the links that no route leads over, a bit each. `EINVAL`: there is no such link.
    pub(crate) fn exclude(&self, links: u64) -> Result {
        let manager = self.manager().ok_or(ENODEV)?;
        if links >> self.port()?.links() != 0 {
            return Err(EINVAL);
        }
        manager.exclude(links as u32);
        self.manage();
        Ok(())
    }

    /// Schedules the manager, or what aims routed links without one, to look at what has changed.
    pub(in crate::fabric) fn manage(&self) {
        if self.manager().is_none() && self.far().is_none() {
            return;
        }
        if let Some(me) = &*self.me.lock() {
            work::run_unbound_in::<_, MANAGING>(me, 0);
        }
    }

    /// Schedules the multi-root management as `due` says.
    pub(in crate::fabric) fn manage_hierarchies(&self, due: Due) {
        if due == Due::No {
            return;
        }
        if let Some(me) = &*self.me.lock() {
            match due {
                Due::In(ms) => work::again_unbound_in::<_, SHARING>(me, msecs_to_jiffies(ms)),
                _ => work::run_unbound_in::<_, SHARING>(me, 0),
            }
        }
    }

    /// Cancels the work items of the manager and of the multi-root management. Sleeps.
    pub(super) fn cancel_managing(self: &Arc<Self>) {
        work::cancel_delayed::<_, MANAGING>(self);
        work::cancel_delayed::<_, SHARING>(self);
    }

    /// Wakes callers that wait for the manager: they find that there is no port.
    pub(super) fn wake_manager(&self) {
        if let Some(manager) = self.manager() {
            manager.wake();
        }
    }

    /// Returns the hardware id of the neighbour on `link`, while known.
    pub(in crate::fabric) fn peer_hwid(&self, port: &dyn Port, link: usize) -> Option<u64> {
        self.link(port, link).ok()?.peer_hwid()
    }
}
