// SPDX-License-Identifier: GPL-2.0

//! Structures of the user interface: each starts with its size as the caller knows it.
//!
//! What the caller does not know of is taken as zero; a tail that this driver does not know of must
//! be zero. The same as `copy_struct_from_user()`, with the size inside, which is read once.

use crate::sys::ext;
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};

/// Whether the task that calls may change what others have: it has `CAP_SYS_ADMIN`.
pub(crate) fn is_admin() -> bool {
    // SAFETY: Looks at the current task only.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as c_int) }
}

/// A structure of the user interface. Its first member is a `u32`, its size.
pub(crate) trait Extensible: AsBytes + FromBytes + Default {
    /// Bytes of its first version, which every caller knows.
    const MIN: usize;
}

macro_rules! extensible {
    ($($name:ident: $min:literal,)*) => {$(
        // SAFETY: Integers without padding.
        unsafe impl AsBytes for ext::$name {}
        // SAFETY: Any bytes are integers.
        unsafe impl FromBytes for ext::$name {}
        impl Extensible for ext::$name {
            const MIN: usize = $min;
        }
        const _: () = assert!($min <= size_of::<ext::$name>());
    )*};
}

extensible! {
    weft_port_info: 40,
    weft_link_info: 64,
    weft_chan_listen: 16,
    weft_chan_connect: 40,
    weft_chan_accept: 16,
    weft_chan_info: 96,
    weft_chan_kick: 8,
    weft_pd_alloc: 16,
    weft_mr_reg: 56,
    weft_mw_alloc: 24,
    weft_cq_create: 40,
    weft_srq_create: 48,
    weft_qp_create: 112,
    weft_qp_modify: 40,
    weft_qp_query: 64,
    weft_destroy: 16,
    weft_kick: 16,
    weft_cq_arm: 24,
    weft_limits: 56,
    weft_vf_migrate: 56,
    weft_fabric_nodes: 336,
    weft_fabric_routes: 280,
    weft_fabric_wishes: 32,
    weft_fabric_wish: 48,
    weft_fabric_component: 160,
    weft_fabric_vh: 88,
    weft_ep_open: 32,
    weft_ep_query: 48,
    weft_ep_area: 32,
    weft_ep_free: 16,
    weft_ep_submit: 24,
    weft_ep_reap: 24,
}

/// A structure of the user interface that is one of many, in an array: it never grows.
pub(crate) trait Element: AsBytes + FromBytes + Default {}

macro_rules! elements {
    ($($name:ident,)*) => {$(
        // SAFETY: Integers without padding.
        unsafe impl AsBytes for ext::$name {}
        // SAFETY: Any bytes are integers.
        unsafe impl FromBytes for ext::$name {}
        impl Element for ext::$name {}
    )*};
}

elements! {
    weft_ep_work,
    weft_ep_done,
}

/// Copies element `n` of an array in the caller's memory.
pub(crate) fn read_element<T: Element>(array: u64, n: usize) -> Result<T> {
    let mut value = T::default();
    let mut reader = UserSlice::new(element::<T>(array, n)?, size_of::<T>()).reader();
    reader.read_slice(value.as_bytes_mut())?;
    Ok(value)
}

/// Copies element `n` to such an array.
pub(crate) fn write_element<T: Element>(array: u64, n: usize, value: &T) -> Result {
    let mut writer = UserSlice::new(element::<T>(array, n)?, size_of::<T>()).writer();
    writer.write_slice(value.as_bytes())
}

fn element<T>(array: u64, n: usize) -> Result<UserPtr> {
    let at = usize::try_from(array).map_err(|_| EFAULT)?;
    let at = n
        .checked_mul(size_of::<T>())
        .and_then(|n| at.checked_add(n));
    Ok(UserPtr::from_addr(at.ok_or(EFAULT)?))
}

/// A structure in the caller's memory, and how much of it the caller knows.
pub(crate) struct UserStruct {
    at: usize,
    bytes: usize,
}

impl UserStruct {
    /// Copies the structure at address `at`.
    pub(crate) fn read<T: Extensible>(at: usize) -> Result<(Self, T)> {
        let ptr = UserPtr::from_addr(at);
        let bytes = UserSlice::new(ptr, size_of::<u32>())
            .reader()
            .read::<u32>()?;
        let size = bytes.to_ne_bytes();
        let bytes = bytes as usize;
        if bytes < T::MIN {
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
        // Whatever the caller has made of it meanwhile.
        known
            .get_mut(..size.len())
            .ok_or(EINVAL)?
            .copy_from_slice(&size);
        Ok((Self { at, bytes }, value))
    }

    /// Copies back as much as the caller knows.
    pub(crate) fn write<T: Extensible>(&self, value: &T) -> Result {
        let known = value.as_bytes();
        let count = self.bytes.min(known.len());
        UserSlice::new(UserPtr::from_addr(self.at), self.bytes)
            .writer()
            .write_slice(known.get(..count).ok_or(EINVAL)?)
    }
}
