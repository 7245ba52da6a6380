// SPDX-License-Identifier: GPL-2.0

//! A virtual function as a PCI device of this system: which driver it has, and how that is changed.

use crate::sys::raw_pci;
use core::ptr::NonNull;
use kernel::{
    bindings, pci,
    prelude::*,
    str::{CStrExt, CString},
};

/// The driver that is bound to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// None.
    Nobody,
    /// The driver that is bound to its physical function, too.
    SameAsPf,
    /// Another driver.
    Other,
}

/// A reference to the `struct pci_dev` of an enabled virtual function.
pub(crate) struct VirtFn(NonNull<bindings::pci_dev>);

impl VirtFn {
    /// Returns VF `n` of `pf`, or `None` if it is not enabled or gone.
    ///
    /// Wraps `pci_get_device()` and `pci_iov_vf_id()`, `include/linux/pci.h`. Does not sleep.
    pub(crate) fn find(pf: &pci::Device, n: usize) -> Option<Self> {
        each(raw_pci(pf)).find(|vf| {
            // SAFETY: It is held, and a virtual function.
            usize::try_from(unsafe { bindings::pci_iov_vf_id(vf.raw()) }) == Ok(n)
        })
    }

    /// Returns the `struct pci_dev`.
    pub(super) fn raw(&self) -> *mut bindings::pci_dev {
        self.0.as_ptr()
    }

    /// Takes the device lock. Returns `None` if it is held by another task.
    ///
    /// Wraps `mutex_trylock()`, `include/linux/mutex.h`. Does not sleep.
    pub(super) fn try_lock(&self) -> Option<Locked<'_>> {
        // SAFETY: The mutex of a device that is held.
        let locked = unsafe { bindings::mutex_trylock(&raw mut (*self.raw()).dev.mutex) } != 0;
        locked.then(|| Locked(self))
    }

    /// Returns the address of the `struct pci_dev`, to be compared with that of other devices.
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Returns the driver that is bound to the VF. Without the device lock this may change at once.
    pub(crate) fn bound(&self) -> Bound {
        let vf = self.raw();
        // SAFETY: There is a reference to the device, which keeps its PF. The addresses of the drivers
        // are compared, not followed; each is one word that the driver core changes as a whole.
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

    /// Unbinds the driver that the VF shares with its PF. Succeeds if no driver is bound.
    ///
    /// Wraps `device_release_driver()`, `include/linux/device.h`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the device lock is held; `EBUSY` if another driver is bound: to unbind that could
    /// take any time.
    ///
    /// # Context
    ///
    /// Sleeps until the driver is unbound. The caller holds no device lock.
    pub(crate) fn release(&self) -> Result {
        match self.try_lock().map(|_locked| self.bound()) {
            None => return Err(EAGAIN),
            Some(Bound::None) => return Ok(()),
            Some(Bound::Other) => return Err(EBUSY),
            Some(Bound::SameAsPf) => {}
        }
        // The driver core has no call that keeps the lock from the check to the unbinding. This waits
        // for another driver only if, in between, the VF is unbound, bound to that driver and opened.
        // SAFETY: The device is held.
        unsafe { bindings::device_release_driver(&raw mut (*self.raw()).dev) }
        Ok(())
    }

    /// Binds the VF to a driver that matches it, `driver_override` first. Succeeds if a driver is bound
    /// already.
    ///
    /// Wraps `device_attach()`, `include/linux/device.h`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the device lock is held; `ENODEV` if no driver takes the VF.
    ///
    /// # Context
    ///
    /// Sleeps. The caller holds no device lock.
    pub(crate) fn attach(&self) -> Result {
        if self.try_lock().is_none() {
            return Err(EAGAIN);
        }
        // SAFETY: The device is held.
        match unsafe { bindings::device_attach(&raw mut (*self.raw()).dev) } {
            1 => Ok(()),
            0 => Err(ENODEV),
            errno => Err(Error::from_errno(errno)),
        }
    }

    /// Tells user space which identity has arrived at the VF, by a "change" event with `WEFT_HWID=hwid`.
    ///
    /// Wraps `kobject_uevent_env()`, `include/linux/kobject.h`, and returns its errors; `ENOMEM` if
    /// there is no memory for the text. Sleeps.
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

/// A virtual function with its device lock held.
pub(super) struct Locked<'a>(&'a VirtFn);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: Locked by `try_lock` in this thread: the guard is not `Send`, as the pointer inside is
        // not `Sync`.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.raw()).dev.mutex) }
    }
}

/// Returns the virtual functions of `pf` that exist. The pointer `pf` is compared, not followed.
///
/// Wraps `pci_get_device()`, `include/linux/pci.h`.
pub(super) fn each(pf: *mut bindings::pci_dev) -> impl Iterator<Item = VirtFn> {
    Each {
        pf,
        last: core::ptr::null_mut(),
    }
}

struct Each {
    pf: *mut bindings::pci_dev,
    /// The last device that was looked at, with a reference; null before the first and after the last.
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
            // SAFETY: Held by that reference. Whether it is a VF does not change; in a VF the member of
            // the union that is valid is `physfn`.
            let ours = unsafe {
                bindings::pci_dev::is_virtfn_raw(self.last) != 0
                    && (*self.last).__bindgen_anon_1.physfn == self.pf
            };
            if ours {
                // SAFETY: It is held; this takes one more reference.
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
