// SPDX-License-Identifier: GPL-2.0

//! A virtual function as a device of this system: whose it is, and how it gets another driver.

use crate::sys::raw_pci;
use core::ptr::NonNull;
use kernel::{
    bindings, pci,
    prelude::*,
    str::{CStrExt, CString},
};

/// Who is bound to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    Nobody,
    /// The driver that its physical function has, too.
    SameAsPf,
    Other,
}

/// A virtual function that is there, held.
pub(crate) struct VirtFn(NonNull<bindings::pci_dev>);

impl VirtFn {
    /// VF `n` of `pf`. `None`: it is not enabled, or gone. Sleeps not.
    pub(crate) fn find(pf: &pci::Device, n: usize) -> Option<Self> {
        let pf = raw_pci(pf);
        let mut vf = core::ptr::null_mut();
        loop {
            // SAFETY: Takes over the reference to the last one, and gives one to the next.
            vf = unsafe {
                bindings::pci_get_device(
                    bindings::PCI_ANY_ID as u32,
                    bindings::PCI_ANY_ID as u32,
                    vf,
                )
            };
            let found = NonNull::new(vf)?;
            // SAFETY: Held by that reference. What it is does not change; the union tells of the PF in
            // one that is virtual, and the PF of a VF outlives it.
            let ours = unsafe {
                bindings::pci_dev::is_virtfn_raw(vf) != 0
                    && (*vf).__bindgen_anon_1.physfn == pf
                    && usize::try_from(bindings::pci_iov_vf_id(vf)) == Ok(n)
            };
            if ours {
                return Some(Self(found));
            }
        }
    }

    /// To be compared with that of others.
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Who is bound to it: it may change at once.
    pub(crate) fn bound(&self) -> Bound {
        let vf = self.0.as_ptr();
        // SAFETY: The device is held, and as long as it is so is its PF. The drivers' addresses are
        // compared, and not followed; each is one word that the driver core changes as a whole.
        unsafe {
            let own = (&raw const (*vf).dev.driver).read_volatile();
            let pf = (*vf).__bindgen_anon_1.physfn;
            if own.is_null() {
                Bound::Nobody
            } else if own == (&raw const (*pf).dev.driver).read_volatile() {
                Bound::SameAsPf
            } else {
                Bound::Other
            }
        }
    }

    /// Takes it from its driver. Sleeps, as long as that takes; no device lock is held.
    pub(crate) fn release(&self) {
        // SAFETY: The device is held.
        unsafe { bindings::device_release_driver(&raw mut (*self.0.as_ptr()).dev) }
    }

    /// Gives it to the driver that wants it, `driver_override` first, if it has none. Sleeps; no device
    /// lock is held. `ENODEV`: nobody takes it.
    pub(crate) fn attach(&self) -> Result {
        // SAFETY: The device is held.
        match unsafe { bindings::device_attach(&raw mut (*self.0.as_ptr()).dev) } {
            1 => Ok(()),
            0 => Err(ENODEV),
            errno => Err(Error::from_errno(errno)),
        }
    }

    /// Tells user space that it has taken a place, by a "change" event with `WEFT_HWID`. Sleeps.
    pub(crate) fn announce(&self, hwid: u64) -> Result {
        let text = CString::try_from_fmt(fmt!("WEFT_HWID={:#018x}", hwid))?;
        let mut env = [text.as_char_ptr().cast_mut(), core::ptr::null_mut()];
        // SAFETY: The device is held; the list ends with a null pointer, and is read during the call.
        let sent = unsafe {
            bindings::kobject_uevent_env(
                &raw mut (*self.0.as_ptr()).dev.kobj,
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
        unsafe { bindings::pci_dev_put(self.0.as_ptr()) }
    }
}
