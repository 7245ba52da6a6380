// SPDX-License-Identifier: GPL-2.0

//! Binds the PCI functions: the callbacks of the PCI core for each kind of port.

use crate::{
    attrs,
    device::Device,
    hw::{
        ivshmem::{self, Ivshmem},
        weft_port::WeftPort,
        MAX_ARENA,
    },
    sys::{
        ext,
        module::param,
        pci::{self as sys_pci, Channel, Driver, Recovery},
        sysfs::GroupsRef,
        trace,
    },
};
use kernel::{device::Core, pci, prelude::*};

/// What the drivers have in common: everything but the probe.
macro_rules! common_callbacks {
    () => {
        type Data = Device;

        fn groups() -> GroupsRef<Device> {
            attrs::groups()
        }

        fn remove(dev: &pci::Device<Core<'_>>, data: &Device) {
            if !sys_pci::is_present(dev) {
                trace::port_event(dev.as_ref(), trace::Port::Gone, 0);
            }
            // Before the port is taken away: virtual functions say goodbye through it.
            sys_pci::disable_vfs(dev);
            data.unbind(dev);
        }

        fn sriov_configure(dev: &pci::Device<Core<'_>>, data: &Device, count: u32) -> Result {
            data.set_vfs(dev, count)
        }

        fn reset_prepare(_dev: &pci::Device<Core<'_>>, data: &Device) {
            data.node.rest();
        }

        fn reset_done(dev: &pci::Device<Core<'_>>, data: &Device) {
            data.is_back(dev, "a reset");
        }

        fn sleep(_dev: &pci::Device<Core<'_>>, data: &Device) {
            data.node.reset_prepare();
        }

        fn wake(dev: &pci::Device<Core<'_>>, data: &Device) {
            data.is_back(dev, "sleep");
        }

        fn error_detected(_dev: &pci::Device<Core<'_>>, data: &Device, left: Channel) -> Recovery {
            match left {
                Channel::Dead => {
                    data.node.give_up();
                    Recovery::Disconnect
                }
                // It is not known what was lost on the way: begin anew in either case.
                Channel::Normal | Channel::Frozen => {
                    data.node.reset_prepare();
                    Recovery::NeedReset
                }
            }
        }

        fn slot_reset(dev: &pci::Device<Core<'_>>, _data: &Device) -> Recovery {
            sys_pci::restore_state(dev);
            if sys_pci::is_present(dev) {
                Recovery::Recovered
            } else {
                Recovery::Disconnect
            }
        }

        fn resume(dev: &pci::Device<Core<'_>>, data: &Device) {
            data.is_back(dev, "an error of the bus");
        }
    };
}

/// Returns the size of an arena in bytes, from the module parameter. `EINVAL`: it is out of range.
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

/// Binds every Weft port: physical and virtual functions.
pub(crate) struct WeftDriver;

sys_pci::alias_table!(
    WEFT_TABLE,
    WEFT_MODULE_TABLE,
    sys_pci::id(ext::WEFT_VENDOR_ID, ext::WEFT_DEVICE_ID_PF, false),
    sys_pci::id(ext::WEFT_VENDOR_ID, ext::WEFT_DEVICE_ID_VF, false)
);

impl Driver for WeftDriver {
    const IDS: pci::IdTable<()> = &WEFT_TABLE;

    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Device> {
        let arena = arena_bytes(dev)?;
        Device::bring_up(dev, |events, steps| {
            WeftPort::probe(dev, events, arena, steps)
        })
    }

    common_callbacks!();
}

/// Binds an `ivshmem-doorbell` if `driver_override` or `new_id` says so: the device may as well belong
/// to another program.
pub(crate) struct IvshmemDriver;

sys_pci::override_table!(
    IVSHMEM_TABLE,
    sys_pci::id(ivshmem::VENDOR_ID, ivshmem::DEVICE_ID, true)
);

impl Driver for IvshmemDriver {
    const IDS: pci::IdTable<()> = &IVSHMEM_TABLE;

    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Device> {
        Device::bring_up(dev, |events, steps| Ivshmem::probe(dev, events, steps))
    }

    common_callbacks!();
}
