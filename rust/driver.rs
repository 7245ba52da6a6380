// SPDX-License-Identifier: GPL-2.0

//! Binds the PCI functions: puts the parts of a port together, and takes them apart.
//!
//! The node comes first and goes last, as open files and handlers hold on to it. The port lives
//! behind the node's gate: once [`Node::revoke`] has returned, nobody uses it and it is gone.
//! Whatever fails on the way, dropping what is there undoes it.

use crate::{
    attrs, chardev,
    fabric::Node,
    hw::{
        ivshmem::{self, Ivshmem},
        weft_port::{WeftPort, MAX_ARENA},
        Events, Port, VfState,
    },
    mem::Memory,
    sys::{
        berth::{self, Cargo},
        chrdev::NodeReg,
        ext,
        module::param,
        pci::{self as sys_pci, Channel, Driver, Recovery},
        steps::Steps,
        sysfs::GroupsRef,
        trace,
    },
};
use core::any::Any;
use kernel::{
    device::Core,
    pci,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// What a bound function has; the same for every kind of port.
pub(crate) struct Data {
    pub(crate) node: Arc<Node>,
    parts: Parts,
    /// They wait for another function.
    left: Atomic<bool>,
}

/// What may outlast the function.
#[derive(Clone)]
struct Parts {
    node: Arc<Node>,
    memory: Arc<Memory>,
    registration: Arc<NodeReg>,
}

impl Parts {
    fn take_down(&self) {
        self.registration.unregister();
        self.node.revoke();
        // The port is gone, and with it whoever would use what the device can reach.
        self.memory.close();
    }

    /// Takes them from `dev`, for the function that is to be in its place. False: they may not wait, and
    /// are down.
    fn leave(&self, dev: &pci::Device<Core<'_>>) -> bool {
        let Ok(cargo) = KBox::new(Waiting(Some(self.clone())), GFP_KERNEL) else {
            self.take_down();
            return false;
        };
        self.node.park();
        // The port is gone, as above.
        self.memory.move_out();
        if let Err(e) = self.registration.move_to(None) {
            dev_warn!(dev, "the device node stays: {:?}\n", e);
        }
        // Who holds the place gives it up when nothing is to be left any more: then it is dropped here.
        berth::leave(dev, cargo).is_ok()
    }
}

/// Parts without a function: dropped, if they do not get another one.
struct Waiting(Option<Parts>);

impl Cargo for Waiting {
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

/// Takes the port from the node, and memory from the device, if the probe fails.
struct Unwind<'a>(&'a Arc<Node>, &'a Memory);

impl Drop for Unwind<'_> {
    fn drop(&mut self) {
        self.0.revoke();
        self.1.close();
    }
}

/// Has parts wait again, if the probe of the function that was to get them fails.
struct Again<'a, 'b>(&'a Parts, &'a pci::Device<Core<'b>>);

impl Drop for Again<'_, '_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

impl Data {
    /// The part of the probe that is the same for every kind of port; `make` makes the port.
    fn bring_up(
        dev: &pci::Device<Core<'_>>,
        make: impl FnOnce(Arc<dyn Events>, &mut Steps<'_>) -> Result<KBox<dyn Port>>,
    ) -> Result<Self> {
        let mut steps = Steps::new(dev, param(crate::module_parameters::fail_probe.value()));
        let waiting = berth::fetch(dev);
        if let Some(parts) = waiting.and_then(|mut cargo| {
            let waiting = cargo.as_any().downcast_mut::<Waiting>();
            waiting.and_then(|waiting| waiting.0.take())
        }) {
            return Self::adopt(dev, parts, &mut steps, make);
        }
        let node = steps.step("node", || Node::new(dev))?;
        let memory = steps.step("memory", || Memory::new(dev, node.home().clone()))?;
        let unwind = Unwind(&node, &memory);
        let port = make(node.clone(), &mut steps)?;
        steps.step("saved state", || sys_pci::save_state(dev))?;
        steps.step("manager", || node.add_manager(&*port))?;
        let (hwid, links) = (port.identity().hwid, port.links());
        // Gone before the port is, should the start fail; until then nobody finds a port behind it.
        let register = || {
            let registration = chardev::register(&node, &memory, dev)?;
            Ok(Arc::new(registration, GFP_KERNEL)?)
        };
        let registration = steps.step("character device", register)?;
        steps.step("start", || node.open(port))?;
        // Who reads the log has to tell those that come and go from those that were pulled.
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
        }))
    }

    /// The same of one that takes the place of another, whose files stay open.
    fn adopt(
        dev: &pci::Device<Core<'_>>,
        parts: Parts,
        steps: &mut Steps<'_>,
        make: impl FnOnce(Arc<dyn Events>, &mut Steps<'_>) -> Result<KBox<dyn Port>>,
    ) -> Result<Self> {
        let again = Again(&parts, dev);
        let port = make(parts.node.clone(), steps)?;
        steps.step("saved state", || sys_pci::save_state(dev))?;
        let hwid = port.identity().hwid;
        steps.step("registered memory", || parts.memory.move_in(dev))?;
        steps.step("character device", || parts.registration.move_to(Some(dev)))?;
        steps.step("start", || parts.node.adopt(dev, port))?;
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

    fn take_down(&self) {
        if !self.left.load(Relaxed) {
            self.parts.take_down();
        }
    }

    /// The function is taken from the driver.
    fn unbind(&self, dev: &pci::Device<Core<'_>>) {
        if berth::is_for(dev) && !self.node.is_closed() {
            let left = self.parts.leave(dev);
            // If not, they are down.
            self.left.store(true, Relaxed);
            if !left {
                dev_warn!(dev, "no function takes its place\n");
            }
            return;
        }
        self.take_down();
    }

    /// Enables that many virtual functions, or disables them.
    fn set_vfs(&self, dev: &pci::Device<Core<'_>>, count: u32) -> Result {
        if count != 0 {
            self.node.port()?.vfs().ok_or(ENODEV)?;
            return sys_pci::enable_vfs(dev, count);
        }
        // Nobody uses VFs of a function that does not answer. Who begins to use one from here on
        // finds it gone.
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

    /// The function has lost what was in its registers, and works again.
    fn is_back(&self, dev: &pci::Device<Core<'_>>, from: &str) {
        // Whoever asked for it is not told by a driver how it went: the log is.
        match self.node.reset_done() {
            Ok(()) => dev_info!(dev, "is back from {}\n", from),
            Err(e) => dev_err!(dev, "does not come back from {}: {}\n", from, e.to_errno()),
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// What the drivers have in common: everything but the probe.
macro_rules! common_callbacks {
    () => {
        type Data = Data;

        fn groups() -> GroupsRef<Data> {
            attrs::groups()
        }

        fn remove(dev: &pci::Device<Core<'_>>, data: &Data) {
            if !sys_pci::is_present(dev) {
                trace::port_event(dev, trace::Port::Gone, 0);
            }
            // While the port is there: virtual functions say goodbye through it.
            sys_pci::disable_vfs(dev);
            data.unbind(dev);
        }

        fn sriov_configure(dev: &pci::Device<Core<'_>>, data: &Data, count: u32) -> Result {
            data.set_vfs(dev, count)
        }

        fn reset_prepare(_dev: &pci::Device<Core<'_>>, data: &Data) {
            data.node.rest();
        }

        fn reset_done(dev: &pci::Device<Core<'_>>, data: &Data) {
            data.is_back(dev, "a reset");
        }

        fn sleep(_dev: &pci::Device<Core<'_>>, data: &Data) {
            data.node.reset_prepare();
        }

        fn wake(dev: &pci::Device<Core<'_>>, data: &Data) {
            data.is_back(dev, "sleep");
        }

        fn error_detected(_dev: &pci::Device<Core<'_>>, data: &Data, left: Channel) -> Recovery {
            data.node.reset_prepare();
            match left {
                Channel::Dead => Recovery::Disconnect,
                // What was lost on the way is not known: begin anew in either case.
                Channel::Normal | Channel::Frozen => Recovery::NeedReset,
            }
        }

        fn slot_reset(dev: &pci::Device<Core<'_>>, _data: &Data) -> Recovery {
            sys_pci::restore_state(dev);
            if sys_pci::is_present(dev) {
                Recovery::Recovered
            } else {
                Recovery::Disconnect
            }
        }

        fn resume(dev: &pci::Device<Core<'_>>, data: &Data) {
            data.is_back(dev, "an error of the bus");
        }
    };
}

/// Bytes of an arena, as the module's parameter wants it.
fn arena_bytes(dev: &pci::Device<Core<'_>>) -> Result<usize> {
    const MIN_KIB: u32 = 256;
    const MAX_KIB: u32 = (MAX_ARENA >> 10) as u32;
    let kib = param(crate::module_parameters::arena_kib.value());
    if !kib.is_power_of_two() || !(MIN_KIB..=MAX_KIB).contains(&kib) {
        dev_err!(
            dev,
            "arena_kib={} is not a power of two from {} to {}\n",
            kib,
            MIN_KIB,
            MAX_KIB
        );
        return Err(EINVAL);
    }
    Ok((kib as usize) << 10)
}

/// Takes every Weft port: physical functions and virtual ones.
pub(crate) struct WeftDriver;

sys_pci::alias_table!(
    WEFT_TABLE,
    WEFT_MODULE_TABLE,
    sys_pci::id(ext::WEFT_VENDOR_ID, ext::WEFT_DEVICE_ID_PF, false),
    sys_pci::id(ext::WEFT_VENDOR_ID, ext::WEFT_DEVICE_ID_VF, false)
);

impl Driver for WeftDriver {
    const IDS: pci::IdTable<()> = &WEFT_TABLE;

    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Data> {
        let arena = arena_bytes(dev)?;
        Data::bring_up(dev, |events, steps| {
            WeftPort::probe(dev, events, arena, steps)
        })
    }

    common_callbacks!();
}

/// Takes an `ivshmem-doorbell` that it is told to, by `driver_override` or `new_id`: the device may
/// as well be another program's.
pub(crate) struct IvshmemDriver;

sys_pci::override_table!(
    IVSHMEM_TABLE,
    sys_pci::id(ivshmem::VENDOR_ID, ivshmem::DEVICE_ID, true)
);

impl Driver for IvshmemDriver {
    const IDS: pci::IdTable<()> = &IVSHMEM_TABLE;

    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Data> {
        Data::bring_up(dev, |events, steps| Ivshmem::probe(dev, events, steps))
    }

    common_callbacks!();
}
