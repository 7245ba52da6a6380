// SPDX-License-Identifier: GPL-2.0

//! PCI drivers with the callbacks that `kernel::pci::Driver` lacks: reset, error recovery,
//! sleep, attributes. The rest is left to the kernel crate.
//!
//! It also hides in what the series differ: how `probe` is called, and how tables of ids are made.

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

/// What a bus error leaves of the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// It can be talked to.
    Normal,
    /// It cannot, until it is reset.
    Frozen,
    /// It never will again.
    Dead,
}

/// What the driver wants after a bus error.
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

    /// Made after `probe`, gone before `remove`.
    fn groups() -> GroupsRef<Self::Data>;

    fn probe(dev: &pci::Device<Core<'_>>) -> Result<Self::Data>;

    fn remove(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// The function will be reset: it must not be touched.
    fn reset_prepare(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// It has been, and its configuration space is as it was.
    fn reset_done(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    fn error_detected(dev: &pci::Device<Core<'_>>, data: &Self::Data, left: Channel) -> Recovery;

    /// The link was reset. The configuration space is to be restored.
    fn slot_reset(dev: &pci::Device<Core<'_>>, data: &Self::Data) -> Recovery;

    /// Everybody concerned has recovered.
    fn resume(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// The system is going to sleep, and the function with it: it must not be touched.
    fn sleep(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// It is awake again, its configuration space as it was; what it had in its registers is lost.
    fn wake(dev: &pci::Device<Core<'_>>, data: &Self::Data);

    /// There shall be `count` virtual functions, 0 to disable them: by `sriov_numvfs`, which the
    /// kernel has checked.
    fn sriov_configure(dev: &pci::Device<Core<'_>>, data: &Self::Data, count: u32) -> Result;
}

/// What the kernel crate sees of a [`Driver`].
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
    /// To be called by a callback of the PCI core, or of power management, which hold the device lock
    /// and call drivers only that are bound, hence after `probe` has succeeded.
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

    /// Calls `f` with each virtual function of `pf` that this driver is bound to, its device lock held.
    ///
    /// The lock of the PF is taken first, as in the PCI core. A reset of the whole bus holds those of all
    /// functions, and calls the driver for each: a lock that is not to be had is not waited for for long.
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
            // Who is bound does not change under the locks: the PF's is held by the requirements. A driver
            // is set before `probe`, and cleared after `remove`, which are done under the lock.
            if locked.is_some() && vf.bound() == Bound::SameAsPf {
                // SAFETY: By that this driver is bound, and the lock is held.
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
        // Its virtual functions are reset with it, of which the PCI core tells no driver. They go first:
        // they may have something to say through it.
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
        // Not negative: the kernel has compared it with what the function has.
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
            // Again, for one that was locked by others then.
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
        // SAFETY: The driver is not registered yet, hence nothing else looks at it.
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

/// An id. (`pci::Vendor` holds listed vendors only.) `override_only`: matches a device only whose
/// `driver_override` names the driver.
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

/// The table of a driver that takes devices by itself, with its alias in the module.
macro_rules! alias_table {
    ($table:ident, $module_table:ident, $($id:expr),+) => {
        #[cfg(not(KERNEL_7_3))]
        kernel::pci_device_table!($table, $module_table, (), [$(($id, ())),+]);
        #[cfg(KERNEL_7_3)]
        kernel::pci_device_table!($table, (), [$(($id, ())),+]);
    };
}
pub(crate) use alias_table;

/// The table of a driver that takes a device only when it is told to, and has no alias.
///
/// The table must not be empty: on 7.2 a device bound by `driver_override` takes the data of its
/// first entry, and `new_id` wants an entry with the same `driver_data`, 0.
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

/// A device that was enabled; disabled when this is dropped.
pub(crate) struct Enabled(ARef<pci::Device>);

impl Enabled {
    pub(crate) fn new(dev: &pci::Device<Core<'_>>) -> Result<Self> {
        dev.enable_device_mem()?;
        Ok(Self(ARef::from(&**dev)))
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        // SAFETY: Enabled in `new`. Without mastership first: nothing of the device may land in
        // memory that is freed.
        unsafe {
            bindings::pci_clear_master(raw_pci(&self.0));
            bindings::pci_disable_device(raw_pci(&self.0));
        }
    }
}

/// Saves the configuration space, for [`restore_state`].
pub(crate) fn save_state(dev: &pci::Device<Core<'_>>) -> Result {
    // SAFETY: The device lock is held.
    kernel::error::to_result(unsafe { bindings::pci_save_state(raw_pci(dev)) })
}

/// Restores it, and keeps it for another time.
pub(crate) fn restore_state(dev: &pci::Device<Core<'_>>) {
    // SAFETY: The device lock is held.
    unsafe {
        bindings::pci_restore_state(raw_pci(dev));
        bindings::pci_save_state(raw_pci(dev));
    }
}

/// Enables `count` virtual functions. Sleeps: their drivers are bound before this returns.
pub(crate) fn enable_vfs(dev: &pci::Device<Core<'_>>, count: u32) -> Result {
    let count = c_int::try_from(count)?;
    // SAFETY: The device is bound and its lock is held.
    kernel::error::to_result(unsafe { bindings::pci_enable_sriov(raw_pci(dev), count) })
}

/// Disables the virtual functions that are enabled: their drivers are unbound when this returns.
pub(crate) fn disable_vfs(dev: &pci::Device<Core<'_>>) {
    // SAFETY: As above. Of a device without SR-IOV, or with nothing enabled, it does nothing.
    unsafe { bindings::pci_disable_sriov(raw_pci(dev)) }
}

/// Whether the function is there, by its configuration space. Sleeps not.
pub(crate) fn is_present(dev: &pci::Device) -> bool {
    // SAFETY: The device is held.
    unsafe { bindings::pci_device_is_present(raw_pci(dev)) }
}
