// SPDX-License-Identifier: GPL-2.0

//! PCI drivers with the callbacks that `kernel::pci::Driver` lacks: reset, error recovery,
//! system sleep, SR-IOV, attributes (`struct pci_driver` and `struct pci_error_handlers`,
//! `include/linux/pci.h`). The rest is left to the kernel crate.
//!
//! This file also hides the differences of the kernel series: how `probe` is called, and how tables of
//! ids are made.

mod sleep;

use self::sleep::Sleep;
use crate::sys::{
    raw_pci,
    sysfs::GroupsRef,
    virtfn::{self, Bound},
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    device::{Core, CoreInternal},
    driver, pci,
    prelude::*,
    sync::aref::ARef,
    time::{delay::fsleep, Delta, Instant, Monotonic},
    types::Opaque,
};

/// The state of the channel to the device after a bus error (`pci_channel_state_t`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The device can be accessed.
    Normal,
    /// The device cannot be accessed until it is reset.
    Frozen,
    /// The device is lost for good.
    Dead,
}

/// What the driver asks the PCI core to do after a bus error (`pci_ers_result_t`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    Recovered,
    NeedReset,
    Disconnect,
}

impl Recovery {
    fn raw(self) -> bindings::pci_ers_result_t {
        match self {
            Self::Recovered => bindings::pci_ers_result_PCI_ERS_RESULT_RECOVERED,
            Self::NeedReset => bindings::pci_ers_result_PCI_ERS_RESULT_NEED_RESET,
            Self::Disconnect => bindings::pci_ers_result_PCI_ERS_RESULT_DISCONNECT,
        }
    }
}

/// A PCI driver. The device lock is held in every callback, and except in `probe` the device is
/// bound.
pub(crate) trait Driver: Sized + Send + Sync + 'static {
    type Data: Send + Sync + 'static;

    const IDS: pci::IdTable<()>;

    /// Returns the attribute groups. Their files are created after `probe` and removed before `remove`.
    fn groups() -> GroupsRef<Self::Data>;

    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Self::Data>;

    fn remove(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// Stops all access to the function, which is about to be reset.
    fn reset_prepare(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// Takes the function into use again after a reset. Its configuration space is restored.
    fn reset_done(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    fn error_detected(dev: &pci::Device<Core<'_>>, data: &Self::Data, left: Channel) -> Recovery;

    /// Is called after the link was reset. The driver restores the configuration space.
    fn slot_reset(dev: &pci::Device<Core<'_>>, data: &Self::Data) -> Recovery;

    /// Resumes normal operation: all drivers that the bus error concerns have recovered.
    fn resume(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// Stops all access to the function, which goes to sleep with the system.
    fn sleep(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// Takes the function into use again after sleep. Its configuration space is restored; the contents
    /// of its registers are lost.
    fn wake(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// Enables `count` virtual functions, or disables them if `count` is 0. A write to `sriov_numvfs`
    /// calls this; the kernel has checked the number.
    fn sriov_configure(dev: &pci::Device<Core<'_>>, data: &Self::Data, count: u32) -> Result;
}

/// Implements the kernel crate's [`pci::Driver`] for a [`Driver`].
pub(crate) struct Glue<T: Driver>(PhantomData<T>);

impl<T: Driver> pci::Driver for Glue<T> {
    type IdInfo = ();
    type Data<'bound> = T::Data;
    const ID_TABLE: pci::IdTable<()> = T::IDS;

    #[cfg(not(KERNEL_7_3))]
    fn probe<'bound>(
        dev: &'bound pci::Device<Core<'_>>,
        _info: &'bound (),
    ) -> impl PinInit<T::Data, Error> + 'bound {
        T::probe(dev)
    }

    #[cfg(KERNEL_7_3)]
    fn probe<'bound>(
        dev: &'bound pci::Device<Core<'_>>,
        _info: Option<&'bound ()>,
    ) -> impl PinInit<T::Data, Error> + 'bound {
        T::probe(dev)
    }

    fn unbind<'bound>(dev: &'bound pci::Device<Core<'_>>, data: Pin<&T::Data>) {
        T::remove(dev, data.get_ref());
    }
}

/// Registers a [`Driver`]: `driver::Registration<Adapter<T>>`.
pub(crate) struct Adapter<T: Driver>(PhantomData<T>);

// SAFETY: Same layout and data as `pci::Adapter<Glue<T>>`.
unsafe impl<T: Driver> driver::DriverLayout for Adapter<T> {
    type DriverType = bindings::pci_driver;
    type DriverData<'bound> = T::Data;
    const DEVICE_DRIVER_OFFSET: usize = core::mem::offset_of!(Self::DriverType, driver);
}

impl<T: Driver> Adapter<T> {
    const ERR: bindings::pci_error_handlers = bindings::pci_error_handlers {
        error_detected: Some(Self::error_detected),
        slot_reset: Some(Self::slot_reset),
        resume: Some(Self::resume),
        reset_prepare: Some(Self::reset_prepare),
        reset_done: Some(Self::reset_done),
        ..pin_init::zeroed()
    };
    const ERR_REF: &'static bindings::pci_error_handlers = &Self::ERR;

    /// Calls `f` with the device and the driver's data.
    ///
    /// # Safety
    ///
    /// The caller is a callback of the PCI core or of power management. Both hold the device lock and
    /// call bound drivers only, hence after `probe` has succeeded.
    pub(super) unsafe fn with<R>(
        pdev: *mut bindings::pci_dev,
        f: impl FnOnce(&pci::Device<Core<'_>>, &T::Data) -> R,
    ) -> R {
        // SAFETY: By the requirements; `pci::Device` is transparent around `struct pci_dev`.
        let dev = unsafe { &*pdev.cast::<pci::Device<CoreInternal<'_>>>() };
        // SAFETY: Set after `probe`, and of this type, by `pci::Adapter<Glue<T>>`.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data>() };
        f(dev, data.get_ref())
    }

    /// Calls `f` with each virtual function of `pf` that this driver is bound to, with the device lock
    /// of the virtual function held.
    ///
    /// The lock of the PF is taken first, as in the PCI core. A reset of the whole bus holds the locks
    /// of all functions and calls the driver for each: a virtual function is skipped if its lock is not
    /// free within a second. Sleeps.
    ///
    /// # Safety
    ///
    /// As [`Adapter::with`], for `pf`.
    unsafe fn with_vfs(
        pf: *mut bindings::pci_dev,
        mut f: impl FnMut(&pci::Device<Core<'_>>, &T::Data),
    ) {
        const PATIENCE: Delta = Delta::from_secs(1);
        let since = Instant::<Monotonic>::now();
        for vf in virtfn::each(pf) {
            let locked = loop {
                let locked = vf.try_lock();
                if locked.is_some() || since.elapsed() >= PATIENCE {
                    break locked;
                }
                fsleep(Delta::from_millis(1));
            };
            // The bound driver does not change under the locks; the PF's is held by the requirements.
            // The driver core sets a driver before `probe` and clears it after `remove`, both under the
            // lock.
            if locked.is_some() && vf.bound() == Bound::SameAsPf {
                // SAFETY: This driver is bound, as the check says, and the lock is held.
                unsafe { Self::with(vf.raw(), &mut f) };
            }
        }
    }

    extern "C" fn error_detected(
        pdev: *mut bindings::pci_dev,
        state: bindings::pci_channel_state_t,
    ) -> bindings::pci_ers_result_t {
        let left = match state {
            bindings::pci_channel_io_normal => Channel::Normal,
            bindings::pci_channel_io_frozen => Channel::Frozen,
            _ => Channel::Dead,
        };
        // SAFETY: Called by the PCI core.
        unsafe { Self::with(pdev, |dev, data| T::error_detected(dev, data, left)) }.raw()
    }

    extern "C" fn slot_reset(pdev: *mut bindings::pci_dev) -> bindings::pci_ers_result_t {
        // SAFETY: Called by the PCI core.
        unsafe { Self::with(pdev, T::slot_reset) }.raw()
    }

    extern "C" fn resume(pdev: *mut bindings::pci_dev) {
        // SAFETY: Called by the PCI core.
        unsafe { Self::with(pdev, T::resume) }
    }

    extern "C" fn reset_prepare(pdev: *mut bindings::pci_dev) {
        // The reset of a PF resets its virtual functions, too; the PCI core does not notify their
        // drivers. They are prepared first, as they may still send messages through the PF.
        let prepare = |dev: &pci::Device<Core<'_>>, data: &T::Data| {
            T::reset_prepare(dev, data);
            if let Err(e) = save_state(dev) {
                dev_err!(
                    dev,
                    "cannot save the configuration space: {}\n",
                    e.to_errno()
                );
            }
        };
        // SAFETY: Called by the PCI core.
        unsafe {
            Self::with_vfs(pdev, prepare);
            Self::with(pdev, T::reset_prepare);
        }
    }

    extern "C" fn sriov_configure(pdev: *mut bindings::pci_dev, count: c_int) -> c_int {
        // Not negative: the kernel has compared it with the number that the function supports.
        let wanted = u32::try_from(count).unwrap_or(0);
        // SAFETY: Called by the PCI core, with the device lock held, for a device that is bound.
        let done = unsafe { Self::with(pdev, |dev, data| T::sriov_configure(dev, data, wanted)) };
        match done {
            Ok(()) => count,
            Err(e) => e.to_errno(),
        }
    }

    extern "C" fn reset_done(pdev: *mut bindings::pci_dev) {
        // The PCI core has enabled them again, with an empty configuration space.
        let done = |dev: &pci::Device<Core<'_>>, data: &T::Data| {
            // Again, for a function that was skipped then, as its lock was held.
            T::reset_prepare(dev, data);
            restore_state(dev);
            T::reset_done(dev, data);
        };
        // SAFETY: Called by the PCI core.
        unsafe {
            Self::with(pdev, T::reset_done);
            Self::with_vfs(pdev, done);
        }
    }
}

// SAFETY: Delegates to `pci::Adapter<Glue<T>>`, which fulfils the requirements.
unsafe impl<T: Driver> driver::RegistrationOps for Adapter<T> {
    unsafe fn register(
        pdrv: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        // SAFETY: The driver is not registered yet, hence nothing else reads it.
        unsafe {
            (*pdrv.get()).err_handler = Self::ERR_REF;
            (*pdrv.get()).sriov_configure = Some(Self::sriov_configure);
            (*pdrv.get()).dev_groups = T::groups().as_ptr();
            (*pdrv.get()).driver.pm = Sleep::<T>::OPS_REF;
        }
        // SAFETY: By the requirements of this function.
        unsafe { <pci::Adapter<Glue<T>> as driver::RegistrationOps>::register(pdrv, name, module) }
    }

    unsafe fn unregister(pdrv: &Opaque<Self::DriverType>) {
        // SAFETY: By the requirements of this function.
        unsafe { <pci::Adapter<Glue<T>> as driver::RegistrationOps>::unregister(pdrv) }
    }
}

/// Makes an entry of an id table (`struct pci_device_id`, `include/linux/device-id/pci.h`).
///
/// `pci::DeviceId` cannot be made otherwise for a vendor that `pci::Vendor` does not list. With
/// `override_only` the entry matches a device only if its `driver_override` names the driver.
pub(crate) const fn id(vendor: u32, device: u32, override_only: bool) -> pci::DeviceId {
    let id = bindings::pci_device_id {
        vendor,
        device,
        subvendor: bindings::PCI_ANY_ID as u32,
        subdevice: bindings::PCI_ANY_ID as u32,
        class: 0,
        class_mask: 0,
        driver_data: 0,
        override_only: override_only as u32,
    };
    // SAFETY: `pci::DeviceId` is transparent around `struct pci_device_id`.
    unsafe { core::mem::transmute(id) }
}

/// Defines the id table of a driver that binds to its devices automatically, and the alias in the
/// module.
macro_rules! alias_table {
    ($table:ident, $module_table:ident, $($id:expr),+) => {
        #[cfg(not(KERNEL_7_3))]
        kernel::pci_device_table!($table, $module_table, (), [$(($id, ())),+]);
        #[cfg(KERNEL_7_3)]
        kernel::pci_device_table!($table, (), [$(($id, ())),+]);
    };
}
pub(crate) use alias_table;

/// Defines the id table of a driver that binds to a device only on request (`driver_override`). There is
/// no alias in the module.
///
/// The table must not be empty: on 7.2 a device bound by `driver_override` takes the data of the
/// first entry, and `new_id` requires an entry with the same `driver_data`, 0.
macro_rules! override_table {
    ($table:ident, $id:expr) => {
        #[cfg(not(KERNEL_7_3))]
        const $table: kernel::device_id::IdArray<kernel::pci::DeviceId, (), 1> =
            kernel::device_id::IdArray::new([($id, ())]);
        #[cfg(KERNEL_7_3)]
        static $table: kernel::device_id::IdArray<kernel::pci::DeviceId, (), 1> =
            kernel::device_id::IdArray::new_without_index([$id]);
    };
}
pub(crate) use override_table;

/// A device with its memory space enabled. Dropping this clears bus mastering and disables the device
/// (`pci_clear_master()`, `pci_disable_device()`, `include/linux/pci.h`).
pub(crate) struct Enabled(ARef<pci::Device>);

impl Enabled {
    /// Enables the device for memory access. Wraps `pci_enable_device_mem()`, `include/linux/pci.h`.
    pub(crate) fn new(dev: &pci::Device<Core<'_>>) -> Result<Self> {
        dev.enable_device_mem()?;
        Ok(Self(ARef::from(&**dev)))
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        // SAFETY: Enabled in `new`. Bus mastering ends first: the device must not write to memory that
        // is freed.
        unsafe {
            bindings::pci_clear_master(raw_pci(&self.0));
            bindings::pci_disable_device(raw_pci(&self.0));
        }
    }
}

/// Reads the beginning of the vital product data of the function into `to`, and returns how many bytes there are.
///
/// Wraps `pci_read_vpd()`, `include/linux/pci.h`. Sleeps. Errors: `ENODEV`, the function has none; others of reading
/// it.
pub(crate) fn read_vpd(dev: &pci::Device<Core<'_>>, to: &mut [u8]) -> Result<usize> {
    // SAFETY: `to` has room for so many bytes.
    let read = unsafe { bindings::pci_read_vpd(raw_pci(dev), 0, to.len(), to.as_mut_ptr().cast()) };
    match usize::try_from(read) {
        Ok(count) => Ok(count),
        // An errno: it fits.
        Err(_) => Err(Error::from_errno(read as c_int)),
    }
}

/// Saves the configuration space, for [`restore_state`].
///
/// Wraps `pci_save_state()`, `include/linux/pci.h`, and returns its errors.
pub(crate) fn save_state(dev: &pci::Device<Core<'_>>) -> Result {
    // SAFETY: The device lock is held.
    kernel::error::to_result(unsafe { bindings::pci_save_state(raw_pci(dev)) })
}

/// Restores the saved configuration space, and saves it again for the next call.
///
/// Wraps `pci_restore_state()` and `pci_save_state()`, `include/linux/pci.h`.
pub(crate) fn restore_state(dev: &pci::Device<Core<'_>>) {
    // SAFETY: The device lock is held.
    unsafe {
        bindings::pci_restore_state(raw_pci(dev));
        bindings::pci_save_state(raw_pci(dev));
    }
}

/// Enables `count` virtual functions. Their drivers are bound before this returns.
///
/// Wraps `pci_enable_sriov()`, `include/linux/pci.h`.
///
/// # Errors
///
/// `EINVAL` if `count` exceeds a C `int`; else what `pci_enable_sriov()` returns.
///
/// # Context
///
/// Sleeps. The device lock is held.
pub(crate) fn enable_vfs(dev: &pci::Device<Core<'_>>, count: u32) -> Result {
    let count = c_int::try_from(count)?;
    // SAFETY: The device is bound and its lock is held.
    kernel::error::to_result(unsafe { bindings::pci_enable_sriov(raw_pci(dev), count) })
}

/// Disables the virtual functions that are enabled. Their drivers are unbound when this returns.
///
/// Wraps `pci_disable_sriov()`, `include/linux/pci.h`.
///
/// # Context
///
/// Sleeps. The device lock is held.
pub(crate) fn disable_vfs(dev: &pci::Device<Core<'_>>) {
    // SAFETY: As above. For a device without SR-IOV, or with no VF enabled, the call does nothing.
    unsafe { bindings::pci_disable_sriov(raw_pci(dev)) }
}

/// The memory that the same BAR of all virtual functions needs.
#[derive(Clone, Copy)]
pub(crate) struct VfBar {
    /// Bytes of one virtual function's.
    pub(crate) bytes: u64,
    /// How many virtual functions it is for: as many as the function can have, however many are enabled.
    pub(crate) count: u32,
    /// It has addresses.
    pub(crate) is_assigned: bool,
}

/// Returns the memory of BAR number `bar` of the virtual functions; `None` if they have no such BAR.
///
/// Reads `struct pci_dev`, `include/linux/pci.h`, and wraps `pci_sriov_get_totalvfs()`. The device lock is held.
pub(crate) fn vf_bar(dev: &pci::Device<Core<'_>>, bar: u32) -> Option<VfBar> {
    let raw = raw_pci(dev);
    // SAFETY: The device is bound and its lock is held.
    let count = unsafe { bindings::pci_sriov_get_totalvfs(raw) };
    // It is signed in some kernels.
    let count = u32::try_from(i64::from(count))
        .ok()
        .filter(|count| *count != 0)?;
    let n = bindings::PCI_IOV_RESOURCES as usize + bar as usize;
    // SAFETY: As above: the kernel changes resources of a bound device only with its lock held.
    let found = unsafe { (*raw).resource.get(n) }?;
    let all = found.end.wrapping_sub(found.start).wrapping_add(1);
    let has = found.flags != 0 && all != 0;
    has.then(|| VfBar {
        bytes: all / u64::from(count),
        count,
        is_assigned: !found.parent.is_null(),
    })
}

/// Returns whether the function responds to a read of its configuration space; for a VF, whether its PF
/// does.
///
/// Wraps `pci_device_is_present()`, `include/linux/pci.h`. Does not sleep.
pub(crate) fn is_present(dev: &pci::Device) -> bool {
    // SAFETY: The device is held.
    unsafe { bindings::pci_device_is_present(raw_pci(dev)) }
}
