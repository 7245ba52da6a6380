// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory regions. Messages need none: the driver reaches the memory of the program by its addresses. A program that
//! registers its buffers all the same may do so; a region for remote access is refused, as there is none.

use crate::base::{Object, absent, close, core_of, head, no_bind};
use crate::domain::Domain;
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// A region. It has nothing but its domain.
#[derive(Debug)]
pub struct Mr {
    _domain: Arc<Domain>,
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidMr, Mr>,
    bind: no_bind,
    control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
/// Of a domain.
pub static DOMAIN: OpsMr = OpsMr { size: size_of::<OpsMr>(), reg, regv, regattr };

/// Whether a region can be of use for what it is registered for.
fn check(access: u64, flags: u64) -> Result<(), c_int> {
    if flags != 0 {
        return Err(FI_EBADFLAGS);
    }
    if access & !(FI_SEND | FI_RECV | FI_READ | FI_WRITE) != 0 {
        return Err(FI_EOPNOTSUPP);
    }
    Ok(())
}

unsafe extern "C" fn control(_: *mut Fid, command: c_int, _: *mut c_void) -> c_int {
    if command == FI_ENABLE { 0 } else { -FI_ENOSYS }
}

/// Gives a region, if it can be of use.
///
/// # Safety
///
/// The domain is not closed, and `out` is where the region is wanted.
unsafe fn give(
    domain: *mut Fid,
    (access, flags): (u64, u64),
    key: u64,
    context: *mut c_void,
    out: *mut *mut FidMr,
) -> c_int {
    if let Err(error) = check(access, flags) {
        return -error;
    }
    let mr = Mr { _domain: core_of!(domain, FidDomain, Domain).clone() };
    let fid = FidMr { fid: head(FI_CLASS_MR, context, &OPS), mem_desc: null_mut(), key };
    // SAFETY: As the caller says.
    unsafe { Object::give(fid, Arc::new(mr), out) }
}

unsafe extern "C" fn reg(
    domain: *mut Fid,
    _buf: *const c_void,
    _len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    out: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: Programs give a domain, and where they want the region.
    unsafe { give(domain, (access, flags), key, context, out) }
}

unsafe extern "C" fn regv(
    domain: *mut Fid,
    _iov: *const Iovec,
    _count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    out: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: As for `reg`.
    unsafe { give(domain, (access, flags), key, context, out) }
}

unsafe extern "C" fn regattr(
    domain: *mut Fid,
    attr: *const MrAttr,
    flags: u64,
    out: *mut *mut FidMr,
) -> c_int {
    // SAFETY: As for `reg`; only fields are read that all versions have.
    unsafe {
        let (access, key) = ((*attr).access, (*attr).requested_key);
        give(domain, (access, flags), key, (*attr).context, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_for_messages() {
        assert_eq!(check(FI_SEND | FI_RECV, 0), Ok(()));
        assert_eq!(check(0, 0), Ok(()));
        assert_eq!(check(FI_SEND | FI_REMOTE_READ, 0), Err(FI_EOPNOTSUPP));
        assert_eq!(check(FI_REMOTE_WRITE, 0), Err(FI_EOPNOTSUPP));
        assert_eq!(check(FI_SEND, 1), Err(FI_EBADFLAGS));
    }
}
