// SPDX-License-Identifier: GPL-2.0

//! A virtual function as a device of this system: whose it is, and how it gets another driver.

use crate::sys::raw_pci;
use core::ptr::NonNull;
use kernel::{
    bindings,
    device::Device,
    ffi::{c_long, c_void},
    pci,
    prelude::*,
    str::{CStrExt, CString},
};

/// The driver that is bound to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    None,
    /// The driver that its physical function has, too.
    SameAsPf,
    Other,
}

/// A virtual function that is there, held.
pub(crate) struct VirtFn(NonNull<bindings::pci_dev>);

impl VirtFn {
    /// VF `n` of `pf`. `None`: it is not enabled, or gone, or `pf` is no PCI function. Sleeps not.
    pub(crate) fn find(pf: &Device, n: usize) -> Option<Self> {
        let pf = <&pci::Device>::try_from(pf).ok()?;
        each(raw_pci(pf)).find(|vf| {
            // SAFETY: It is held, and a virtual function.
            usize::try_from(unsafe { bindings::pci_iov_vf_id(vf.raw()) }) == Ok(n)
        })
    }

    pub(super) fn raw(&self) -> *mut bindings::pci_dev {
        self.0.as_ptr()
    }

    /// Its device lock. `None`: it is taken.
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        // SAFETY: The mutex of a device that is held.
        let locked = unsafe { bindings::mutex_trylock(&raw mut (*self.raw()).dev.mutex) } != 0;
        locked.then(|| Locked(self))
    }

    /// To be compared with that of others.
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Returns the driver that is bound to it, which may change at once.
    pub(crate) fn bound(&self) -> Bound {
        let vf = self.raw();
        // SAFETY: The device is held, and as long as it is so is its PF. The drivers' addresses are
        // compared, and not followed; each is one word that the driver core changes as a whole.
        unsafe {
            let own = (&raw const (*vf).dev.driver).read_volatile();
            let pf = (*vf).__bindgen_anon_1.physfn;
            if own.is_null() {
                Bound::None
            } else if own == (&raw const (*pf).dev.driver).read_volatile() {
                Bound::SameAsPf
            } else {
                Bound::Other
            }
        }
    }

    /// Takes it from the driver that its physical function has, too. Sleeps, as long as that takes; no
    /// device lock is held. `EAGAIN`: its device lock is taken; `EBUSY`: another driver has it,
    /// which is not waited for, for that may take as long as it likes.
    pub(crate) fn release(&self) -> Result {
        match self.try_lock().map(|_locked| self.bound()) {
            None => return Err(EAGAIN),
            Some(Bound::None) => return Ok(()),
            Some(Bound::Other) => return Err(EBUSY),
            Some(Bound::SameAsPf) => {}
        }
        // Until the lock is taken again, a user would have to unbind it, to bind it elsewhere and to
        // open it for that driver to be waited for. The driver core has nothing that leaves no gap.
        // SAFETY: The device is held.
        unsafe { bindings::device_release_driver(&raw mut (*self.raw()).dev) }
        Ok(())
    }

    /// Gives it to the driver that wants it, `driver_override` first, if it has none. Sleeps; no device
    /// lock is held. `EAGAIN`: its device lock is taken; `ENODEV`: no driver takes it.
    pub(crate) fn attach(&self) -> Result {
        if self.try_lock().is_none() {
            return Err(EAGAIN);
        }
        // A worker does it: probing creates threads, which fails in a task that a signal is about to end. The function
        // would be left without a driver.
        // SAFETY: The device is held until the call has ended; the worker takes it for what it is.
        let attached = unsafe {
            bindings::work_on_cpu_key(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                Some(attach),
                (&raw mut (*self.raw()).dev).cast(),
                kernel::static_lock_class!().as_ptr(),
            )
        };
        match attached {
            1 => Ok(()),
            0 => Err(ENODEV),
            errno => Err(i32::try_from(errno).map_or(EINVAL, Error::from_errno)),
        }
    }

    /// Tells user space that it has taken a place, by a "change" event with `WEFT_HWID`. Sleeps.
    pub(crate) fn announce(&self, hwid: u64) -> Result {
        let text = CString::try_from_fmt(fmt!("WEFT_HWID={:#018x}", hwid))?;
        let mut env = [text.as_char_ptr().cast_mut(), core::ptr::null_mut()];
        // SAFETY: The device is held; the list ends with a null pointer, and is read during the call.
        let sent = unsafe {
            bindings::kobject_uevent_env(
                &raw mut (*self.raw()).dev.kobj,
                bindings::kobject_action_KOBJ_CHANGE,
                env.as_mut_ptr().cast(),
            )
        };
        kernel::error::to_result(sent)
    }
}

impl Drop for VirtFn {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { bindings::pci_dev_put(self.raw()) }
    }
}

/// Has a driver take the device `dev`, as `device_attach()`, `include/linux/device.h`.
///
/// # Safety
///
/// `dev` is a `struct device`, held for the duration of the call.
unsafe extern "C" fn attach(dev: *mut c_void) -> c_long {
    // SAFETY: By the requirements of this function.
    unsafe { bindings::device_attach(dev.cast()) as c_long }
}

/// A virtual function whose device lock is held.
pub(super) struct Locked<'a>(&'a VirtFn);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: Locked by `try_lock`, by this thread: it is not `Send`, as the pointer inside is not
        // `Sync`.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.raw()).dev.mutex) }
    }
}

/// The virtual functions of `pf`, which is only compared, as far as they are there.
pub(super) fn each(pf: *mut bindings::pci_dev) -> impl Iterator<Item = VirtFn> {
    Each {
        pf,
        last: core::ptr::null_mut(),
    }
}

struct Each {
    pf: *mut bindings::pci_dev,
    /// The last device that was looked at, held; null: none yet, or no more.
    last: *mut bindings::pci_dev,
}

impl Iterator for Each {
    type Item = VirtFn;

    fn next(&mut self) -> Option<VirtFn> {
        const ANY: u32 = bindings::PCI_ANY_ID as u32;
        loop {
            // SAFETY: Takes over the reference to the last one, and gives one to the next.
            self.last = unsafe { bindings::pci_get_device(ANY, ANY, self.last) };
            let found = NonNull::new(self.last)?;
            // SAFETY: Held by that reference. What it is does not change; the union tells of the PF in
            // one that is virtual.
            let ours = unsafe {
                bindings::pci_dev::is_virtfn_raw(self.last) != 0
                    && (*self.last).__bindgen_anon_1.physfn == self.pf
            };
            if ours {
                // SAFETY: It is held; this is a reference more.
                unsafe { bindings::pci_dev_get(self.last) };
                return Some(VirtFn(found));
            }
        }
    }
}

impl Drop for Each {
    fn drop(&mut self) {
        // SAFETY: The reference is ours; there may be none.
        unsafe { bindings::pci_dev_put(self.last) }
    }
}
