// SPDX-License-Identifier: GPL-2.0

//! Structures of the user interface: each starts with its size, as the caller knows it.
//!
//! Members that the caller does not know are taken as zero; a tail that this driver does not know must
//! be zero. The rules are those of `copy_struct_from_user()`, `include/linux/uaccess.h`, but the size is
//! inside the structure, and is read once.

use crate::sys::ext;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};

/// Returns whether the current task has `CAP_SYS_ADMIN`, so that it may change what other tasks use.
///
/// Wraps `capable()`, `include/linux/capability.h`.
pub(crate) fn is_admin() -> bool {
    // SAFETY: Looks at the current task only.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as c_int) }
}

/// Returns whether the current task has `CAP_SYS_RESOURCE`, so that no share limits it.
///
/// Wraps `ns_capable_noaudit()`, `include/linux/capability.h`.
pub(crate) fn is_unlimited() -> bool {
    // SAFETY: Looks at the current task only.
    unsafe { ext::weft_is_unlimited() }
}

/// A structure of the user interface. Its first member is a `u32`, its size.
pub(crate) trait Extensible: AsBytes + FromBytes + Default {}

/// A structure of the user interface that is one of many, in an array: it never grows.
pub(crate) trait Element: AsBytes + FromBytes + Default {}

/// Lists the structures of the user interface that `chardev` uses.
macro_rules! structures {
    ($($kind:ident: $($name:ident)*;)*) => {$($(
        // SAFETY: Integers without padding.
        unsafe impl AsBytes for ext::$name {}
        // SAFETY: Any bytes are integers.
        unsafe impl FromBytes for ext::$name {}
        impl $kind for ext::$name {}
    )*)*};
}

structures! {
    Extensible:
        weft_port_info weft_link_info weft_chan_listen weft_chan_connect weft_chan_accept
        weft_chan_info weft_chan_kick weft_pd_alloc weft_mr_reg weft_mw_alloc weft_cq_create
        weft_srq_create weft_qp_create weft_qp_modify weft_qp_query weft_destroy weft_kick
        weft_cq_arm weft_cq_wait weft_limits weft_vf_migrate weft_fabric_nodes weft_fabric_routes
        weft_fabric_assignments weft_fabric_assignment weft_fabric_component weft_fabric_vh
        weft_fabric_slot weft_fabric_announce
        weft_sock_listen weft_sock_connect weft_sock_accept weft_sock_info weft_sock_shutdown
        weft_match_open weft_match_kick
        weft_ep_open weft_ep_query weft_ep_area weft_ep_free weft_ep_submit weft_ep_reap;
    Element:
        weft_ep_work weft_ep_done;
}

/// Copies element `n` of the array at address `array` from the caller's memory. `EFAULT` if it is not
/// readable. Sleeps.
pub(crate) fn read_element<T: Element>(array: u64, n: usize) -> Result<T> {
    let mut value = T::default();
    let mut reader = UserSlice::new(element::<T>(array, n)?, size_of::<T>()).reader();
    reader.read_slice(value.as_bytes_mut())?;
    Ok(value)
}

/// Copies element `n` to the array at address `array` in the caller's memory. `EFAULT` if it is not
/// writable. Sleeps.
pub(crate) fn write_element<T: Element>(array: u64, n: usize, value: &T) -> Result {
    let mut writer = UserSlice::new(element::<T>(array, n)?, size_of::<T>()).writer();
    writer.write_slice(value.as_bytes())
}

/// Returns the address of element `n`. `EFAULT` if it is none.
fn element<T>(array: u64, n: usize) -> Result<UserPtr> {
    let at = usize::try_from(array).map_err(|_| EFAULT)?;
    let at = n
        .checked_mul(size_of::<T>())
        .and_then(|n| at.checked_add(n));
    Ok(UserPtr::from_addr(at.ok_or(EFAULT)?))
}

/// A structure in the caller's memory, and its size as the caller knows it.
pub(crate) struct UserStruct {
    at: usize,
    bytes: usize,
}

impl UserStruct {
    /// Copies the structure from address `at`. `min` is the size of its first version, which every
    /// caller knows. Sleeps.
    ///
    /// # Errors
    ///
    /// `EFAULT` if it is not readable; `EINVAL` if it is smaller than `min`; `E2BIG` if it exceeds a
    /// page, or if the tail that this driver does not know is not zero.
    pub(crate) fn read<T: Extensible>(at: usize, min: usize) -> Result<(Self, T)> {
        let ptr = UserPtr::from_addr(at);
        let bytes = UserSlice::new(ptr, size_of::<u32>())
            .reader()
            .read::<u32>()?;
        let size = bytes.to_ne_bytes();
        let bytes = bytes as usize;
        if bytes < min {
            return Err(EINVAL);
        }
        if bytes > PAGE_SIZE {
            return Err(E2BIG);
        }
        let mut value = T::default();
        let known = value.as_bytes_mut();
        let count = bytes.min(known.len());
        let mut reader = UserSlice::new(ptr, bytes).reader();
        reader.read_slice(known.get_mut(..count).ok_or(EINVAL)?)?;
        while !reader.is_empty() {
            if reader.read::<u8>()? != 0 {
                return Err(E2BIG);
            }
        }
        // The size that was checked, even if the caller has changed it meanwhile.
        known
            .get_mut(..size.len())
            .ok_or(EINVAL)?
            .copy_from_slice(&size);
        Ok((Self { at, bytes }, value))
    }

    /// Copies `value` back, as much as the caller knows. `EFAULT` if it is not writable. Sleeps.
    pub(crate) fn write<T: Extensible>(&self, value: &T) -> Result {
        let known = value.as_bytes();
        let count = self.bytes.min(known.len());
        UserSlice::new(UserPtr::from_addr(self.at), self.bytes)
            .writer()
            .write_slice(known.get(..count).ok_or(EINVAL)?)
    }
}
