// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a program opens: a fabric, a domain in it, and what else there is in either. The only module that knows all
//! kinds of objects.

use crate::av;
use crate::base::{Object, absent, class, close, core_of, head, no_bind, no_control, text};
use crate::cntr::{self, Cntr};
use crate::cq::{self, Cq};
use crate::domain::Domain;
use crate::eq::{self, Eq};
use crate::fabric::{Fabric, api};
use crate::fi::*;
use crate::{NAME, atomics, endpoint, log, mr};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

static FABRIC_OPS: Ops = Ops {
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
    domain: open_domain,
    passive_ep: absent,
    eq_open: eq::open,
    wait_open: absent,
    trywait,
    domain2: absent,
};

/// `fi_fabric()`.
pub unsafe extern "C" fn open_fabric(
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
    let fid = FidFabric {
        fid: head(FI_CLASS_FABRIC, context, &FABRIC_OPS),
        ops: &FABRIC,
        api_version: 0,
    };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(Fabric), out) }
}

static DOMAIN_OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidDomain, Domain>,
    bind: no_bind,
    control: control_domain,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static DOMAIN: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: endpoint::open,
    scalable_ep: absent,
    cntr_open: cntr::open,
    poll_open: absent,
    stx_ctx: absent,
    srx_ctx: absent,
    query_atomic: atomics::query,
    query_collective: absent,
    endpoint2: absent,
};

/// `fi_control()` of a domain: its deferred work.
unsafe extern "C" fn control_domain(fid: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    let domain = core_of!(fid, FidDomain, Domain);
    // SAFETY: The program gives what the command wants.
    unsafe { endpoint::work::control(domain, command, arg) }
}

/// `fi_domain()`.
unsafe extern "C" fn open_domain(
    fabric: *mut FidFabric,
    info: *mut Info,
    out: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: Programs give what `fi_getinfo()` gave them, whose name is a string if it is not null; they have opened
    // the fabric and not closed it.
    let (name, api, caps) = unsafe {
        let name = (*info).domain_attr.as_ref().and_then(|attr| text(attr.name));
        (name, api(fabric), (*info).caps)
    };
    let fabric = core_of!(fabric, FidFabric, Fabric).clone();
    let domain = match name.and_then(|name| Domain::new(name, (api, caps), fabric)) {
        Some(Ok(domain)) => domain,
        Some(Err(error)) => {
            log::warning!(FI_LOG_DOMAIN, "{error}");
            return -FI_ENODEV;
        }
        None => return -FI_EINVAL,
    };
    let head = head(FI_CLASS_DOMAIN, context, &DOMAIN_OPS);
    let fid = FidDomain { fid: head, ops: &DOMAIN, mr: &mr::DOMAIN };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(domain), out) }
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
            assert_eq!(unsafe { open_fabric(&mut attr(name), &mut out, null_mut()) }, -FI_ENODATA);
        }
        // SAFETY: Likewise, and what is opened is closed.
        unsafe {
            assert_eq!(open_fabric(&mut attr(NAME.as_ptr()), &mut out, null_mut()), 0);
            (*out).api_version = crate::version(1, 9);
            assert_eq!(api(out), crate::version(1, 9));
            assert_eq!(((*(*out).fid.ops).close)(out.cast()), 0);
        }
    }
}
