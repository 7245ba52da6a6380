// SPDX-License-Identifier: GPL-2.0

//! What belongs to one port of this host: builds it, hands it from one function to another, and takes it
//! down.
//!
//! The node is made first and removed last, as open files and handlers hold references to it. The port
//! lives behind the node's gate: once [`Node::revoke`] has returned, nothing uses the port and it is
//! gone. If a step fails, dropping what was made undoes the steps before.
//!
//! The parts of a port are joined here; none of them knows this module, nor do they know each other
//! beyond what `Documentation/design.rst` draws. What the PCI core calls is in `driver`.

mod clients;
mod vfs;

use self::clients::Clients;
use crate::{
    channel::Channels,
    chardev::PortDevice,
    endpoint::Endpoints,
    fabric::Node,
    hw::{loopback, Events, Port, VfState},
    kclient::ClientPort,
    matching::Matching,
    mem::Memory,
    proto::mr::vpd::Vpd,
    share::Shares,
    socket::Sockets,
    sys::{
        chrdev::NodeReg,
        client::Shown,
        dma,
        errno::EOPNOTSUPP,
        ext,
        handover::{self, SavedState},
        module::param,
        pci as sys_pci,
        steps::Steps,
        vma::Mapping,
    },
    verbs::Engine,
};
use core::any::Any;
use kernel::{
    device::{self, Bound, Core},
    pci,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// The data of a bound function, the same for every kind of port.
pub(crate) struct Device {
    pub(crate) node: Arc<Node>,
    parts: Parts,
    /// The parts were left for another function, or are down: they are no longer this device's.
    left: Atomic<bool>,
}

/// The parts that may outlast the function.
#[derive(Clone)]
struct Parts {
    node: Arc<Node>,
    memory: Arc<Memory>,
    registration: Arc<NodeReg>,
    shares: Arc<Shares>,
    matching: Arc<Matching>,
    /// The port, as clients in the kernel see it.
    shown: Arc<Shown>,
}

impl Parts {
    fn take_down(&self) {
        // Clients close what they have while the peers can still be told. For that they may wait for their
        // calls.
        self.node.await_no_port();
        self.matching.close();
        self.shown.hide();
        self.registration.unregister();
        self.node.revoke();
        // The port is gone, and with it all that could use the memory that the device reaches.
        self.memory.close();
    }

    /// Detaches the parts from `dev` and leaves them for the function that takes its place. Returns
    /// false if they cannot be left; they are down then.
    fn leave(&self, dev: &pci::Device<Core<'_>>) -> bool {
        let Ok(saved) = KBox::new(Waiting(Some(self.clone())), GFP_KERNEL) else {
            self.take_down();
            return false;
        };
        self.node.park();
        // The port is gone, as above.
        self.memory.move_out();
        if let Err(e) = self.registration.move_to(None) {
            dev_warn!(dev, "the device node stays: {:?}\n", e);
        }
        // If the handover slot is no longer there, the parts come back and are dropped here.
        handover::leave(dev, saved).is_ok()
    }
}

/// Parts that wait for a function. Dropping this takes down the parts that no function has taken.
struct Waiting(Option<Parts>);

impl SavedState for Waiting {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(parts) = &self.0 {
            parts.take_down();
        }
    }
}

/// Takes the port from the node, and its memory from the device, if the probe fails.
struct Unwind<'a>(&'a Arc<Node>, &'a Memory);

impl Drop for Unwind<'_> {
    fn drop(&mut self) {
        self.0.revoke();
        self.1.close();
    }
}

/// Leaves the parts again, if the probe of the function that was to get them fails.
struct Again<'a, 'b>(&'a Parts, &'a pci::Device<Core<'b>>);

impl Drop for Again<'_, '_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// What makes connections of a port.
type Connecting = (Arc<Channels>, Arc<Engine>, Arc<Sockets>, Arc<Matching>);

impl Device {
    /// `EOPNOTSUPP`: users could not map what the device and peers write.
    fn check_memory(dev: &device::Device) -> Result {
        if !dma::is_encrypted() {
            return Ok(());
        }
        dev_err!(
            dev,
            "the memory of this guest is encrypted (SEV, TDX): ports do not work in such a guest\n"
        );
        Err(EOPNOTSUPP.into())
    }

    /// Returns whether the vital product data of the function, if it has any that are in order, say that it supports sockets.
    fn has_sockets(dev: &pci::Device<Core<'_>>) -> bool {
        let mut data = [0; ext::WEFT_CS_VPD_BYTES as usize];
        let vpd = match sys_pci::read_vpd(dev, &mut data) {
            Ok(have) => Vpd::parse(data.get(..have).unwrap_or_default()).ok(),
            Err(_) => None,
        };
        vpd.is_none_or(|vpd| vpd.sockets)
    }

    /// Does the part of the probe that is the same for every kind of port; `make` makes the port.
    pub(crate) fn bring_up(
        dev: &pci::Device<Core<'_>>,
        make: impl FnOnce(Arc<dyn Events>, &mut Steps<'_>) -> Result<KBox<dyn Port>>,
    ) -> Result<Self> {
        let bound: &device::Device<Bound> = dev.as_ref();
        let mut steps = Steps::new(bound, param(crate::module_parameters::fail_probe.value()));
        let waiting = handover::fetch(dev);
        if let Some(parts) = waiting.and_then(|mut saved| {
            let waiting = saved.as_any().downcast_mut::<Waiting>();
            waiting.and_then(|waiting| waiting.0.take())
        }) {
            return Self::adopt(dev, parts, &mut steps, make);
        }
        steps.step("memory encryption", || Self::check_memory(bound))?;
        let auto = param(crate::module_parameters::link_power.value()) != 0;
        let node = steps.step("node", || Node::new(bound, auto))?;
        let memory = steps.step("memory", || Memory::new(bound, node.home().clone()))?;
        let unwind = Unwind(&node, &memory);
        let port = loopback::join(bound, node.clone(), make(node.clone(), &mut steps)?)?;
        steps.step("saved state", || sys_pci::save_state(dev))?;
        steps.step("manager", || node.add_manager(&*port))?;
        let (hwid, links) = (port.identity().hwid, port.links());
        // Removed before the port if the start fails; until the start no file finds a port behind it.
        let register = || {
            let shares = Shares::new()?;
            let sockets = Self::has_sockets(dev);
            let (registration, parts) =
                Self::register(&node, &memory, shares.clone(), bound, sockets)?;
            Ok((Arc::new(registration, GFP_KERNEL)?, parts, shares))
        };
        let (registration, (channels, engine, sockets, matching), shares) =
            steps.step("character device", register)?;
        steps.step("start", || node.open(port))?;
        let shown = steps.step("clients in the kernel", || {
            let port = ClientPort {
                node: node.clone(),
                channels,
                engine,
                sockets,
                shares: shares.clone(),
                minor: registration.minor() as u32,
            };
            let port = Arc::new(port, GFP_KERNEL)?;
            let shown = Arc::new(Shown::new(port.clone())?, GFP_KERNEL)?;
            matching.serve(port);
            Ok(shown)
        })?;
        // Marked in the log, so that virtual functions that come and go are not mistaken for removed
        // devices.
        let virt = match u32::from(dev.device_id()) {
            ext::WEFT_DEVICE_ID_VF => "virtual function, ",
            _ => "",
        };
        dev_info!(
            dev,
            "weft{}: {}hardware id {:#018x}, {} links\n",
            registration.minor(),
            virt,
            hwid,
            links
        );
        core::mem::forget(unwind);
        Ok(Self::new(Parts {
            node,
            memory,
            registration,
            shares,
            matching,
            shown,
        }))
    }

    /// Gives `node` its channels, its engine, its sockets, if it is to have any, and its functions of shared endpoints, and
    /// makes `/dev/weftN`. Returns that and the first three.
    fn register(
        node: &Arc<Node>,
        memory: &Arc<Memory>,
        shares: Arc<Shares>,
        dev: &device::Device<Bound>,
        has_sockets: bool,
    ) -> Result<(NodeReg, Connecting)> {
        // All files of a port share one address space, in which each mapping has an offset of its own.
        let mapping = Arc::new(Mapping::new()?, GFP_KERNEL)?;
        let channels = Channels::new(node.home(), mapping.clone())?;
        let sockets = Sockets::new(&channels, has_sockets)?;
        let engine = Engine::new(node.home(), memory, sockets.clone())?;
        let endpoints = Endpoints::new(dev, mapping)?;
        engine.serve(node);
        endpoints.serve(node);
        let clients = Clients::new(
            channels.clone(),
            engine.clone(),
            sockets.clone(),
            endpoints.clone(),
        )?;
        node.set_client(clients)?;
        let matching = Matching::new()?;
        let device = PortDevice {
            node: node.clone(),
            channels: channels.clone(),
            memory: memory.clone(),
            engine: engine.clone(),
            sockets: sockets.clone(),
            endpoints,
            matching: matching.clone(),
            shares,
        };
        let registration = NodeReg::with_parent(Arc::new(device, GFP_KERNEL)?, dev)?;
        Ok((registration, (channels, engine, sockets, matching)))
    }

    /// Does the same for a function that takes the place of another one, whose files stay open.
    fn adopt(
        dev: &pci::Device<Core<'_>>,
        parts: Parts,
        steps: &mut Steps<'_>,
        make: impl FnOnce(Arc<dyn Events>, &mut Steps<'_>) -> Result<KBox<dyn Port>>,
    ) -> Result<Self> {
        let bound: &device::Device<Bound> = dev.as_ref();
        let again = Again(&parts, dev);
        let node = &parts.node;
        let port = loopback::join(bound, node.clone(), make(node.clone(), steps)?)?;
        steps.step("saved state", || sys_pci::save_state(dev))?;
        let hwid = port.identity().hwid;
        steps.step("registered memory", || parts.memory.move_in(bound))?;
        steps.step("character device", || {
            parts.registration.move_to(Some(bound))
        })?;
        steps.step("start", || parts.node.adopt(bound, port))?;
        let minor = parts.registration.minor();
        dev_info!(dev, "weft{}: is {:#018x} now\n", minor, hwid);
        core::mem::forget(again);
        Ok(Self::new(parts))
    }

    fn new(parts: Parts) -> Self {
        Self {
            node: parts.node.clone(),
            parts,
            left: Atomic::new(false),
        }
    }

    /// Returns what the users of the port have.
    pub(crate) fn shares(&self) -> &Shares {
        &self.parts.shares
    }

    fn take_down(&self) {
        if !self.left.load(Relaxed) {
            self.parts.take_down();
        }
    }

    /// Handles the removal of the function from the driver.
    pub(crate) fn unbind(&self, dev: &pci::Device<Core<'_>>) {
        if handover::is_for(dev) && !self.node.is_closed() {
            let left = self.parts.leave(dev);
            // If they were not left, they are down.
            self.left.store(true, Relaxed);
            if !left {
                dev_warn!(dev, "no function takes its place\n");
            }
            return;
        }
        self.take_down();
    }

    /// Enables `count` virtual functions, or disables all if it is 0. `EBUSY`: one is in use; and errors of
    /// [`vfs::enable`].
    pub(crate) fn set_vfs(&self, dev: &pci::Device<Core<'_>>, count: u32) -> Result {
        if count != 0 {
            self.node.port()?.vfs().ok_or(ENODEV)?;
            return vfs::enable(dev, count);
        }
        // VFs of a function that does not answer are not in use. A program that begins to use a VF after
        // this check finds it gone.
        if let Ok(port) = self.node.port() {
            let vfs = port.vfs().ok_or(ENODEV)?;
            for n in 0..vfs.count() {
                if vfs.get(n).is_ok_and(|vf| vf.state == VfState::Used) {
                    dev_err!(dev, "VF {} is in use: end its users, or unbind it\n", n);
                    return Err(EBUSY);
                }
            }
        }
        sys_pci::disable_vfs(dev);
        Ok(())
    }

    /// Brings the function back after a reset, sleep or an error: it has lost the contents of its
    /// registers, and works again.
    pub(crate) fn is_back(&self, dev: &pci::Device<Core<'_>>, from: &str) {
        // The caller that asked for it gets no result from a driver, so the log has it.
        match self.node.reset_done() {
            Ok(()) => dev_info!(dev, "is back from {}\n", from),
            Err(e) => dev_err!(dev, "does not come back from {}: {}\n", from, e.to_errno()),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.take_down();
    }
}
