// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The fabric: there is one, of which each port of this host is a domain.

use crate::base::{Object, absent, class, close, core_of, head, no_bind, no_control};
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::eq::Eq;
use crate::fi::*;
use crate::{NAME, domain, eq};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// A fabric.
#[derive(Debug)]
pub struct Fabric;

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidFabric, Fabric>,
    bind: no_bind,
    control: no_control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static FABRIC: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain: domain::open,
    passive_ep: absent,
    eq_open: eq::open,
    wait_open: absent,
    trywait,
    domain2: absent,
};

/// `fi_fabric()`.
pub unsafe extern "C" fn open(
    attr: *mut FabricAttr,
    out: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: Programs give what `fi_getinfo()` gave them.
    let name = unsafe { (*attr).name };
    // SAFETY: A name is a string, if it is not null.
    if name.is_null() || unsafe { CStr::from_ptr(name) } != NAME {
        return -FI_ENODATA;
    }
    // libfabric writes the version that the program asked for when this has returned.
    let fid = FidFabric { fid: head(FI_CLASS_FABRIC, context, &OPS), ops: &FABRIC, api_version: 0 };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(Fabric), out) }
}

/// Which version of the interface a fabric is used by.
///
/// # Safety
///
/// It is one of this provider, and not closed.
pub unsafe fn api(fabric: *mut FidFabric) -> u32 {
    // SAFETY: As the caller says; libfabric wrote it before the program had the fabric.
    unsafe { (&raw const (*fabric).api_version).read() }
}

/// `fi_trywait()`: whether the descriptors of queues may be waited for.
unsafe extern "C" fn trywait(_: *mut FidFabric, fids: *mut *mut Fid, count: c_int) -> c_int {
    for n in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: Programs give so many objects that they have not closed.
        let (fid, class) = unsafe {
            let fid = fids.add(n).read();
            (fid, class(fid))
        };
        let may = match class {
            FI_CLASS_CQ => core_of!(fid, FidCq, Cq).try_wait(),
            FI_CLASS_CNTR => core_of!(fid, FidCntr, Cntr).try_wait(),
            FI_CLASS_EQ => core_of!(fid, FidEq, Eq).try_wait(),
            _ => return -FI_EINVAL,
        };
        if !may {
            return -FI_EAGAIN;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn attr(name: *const std::ffi::c_char) -> FabricAttr {
        FabricAttr {
            fabric: null_mut(),
            name: name.cast_mut(),
            prov_name: null_mut(),
            prov_version: 0,
            api_version: 0,
        }
    }

    #[test]
    fn only_its_own_fabric_is_opened() {
        let mut out = null_mut();
        for name in [std::ptr::null(), c"other".as_ptr()] {
            // SAFETY: The pointers are of this test.
            assert_eq!(unsafe { open(&mut attr(name), &mut out, null_mut()) }, -FI_ENODATA);
        }
        // SAFETY: Likewise, and what is opened is closed.
        unsafe {
            assert_eq!(open(&mut attr(NAME.as_ptr()), &mut out, null_mut()), 0);
            (*out).api_version = crate::version(1, 9);
            assert_eq!(api(out), crate::version(1, 9));
            assert_eq!(((*(*out).fid.ops).close)(out.cast()), 0);
        }
    }
}
