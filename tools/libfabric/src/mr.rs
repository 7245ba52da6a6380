// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory regions. What a program sends, receives, puts and gets needs none: the driver reaches its memory by
//! addresses. A program that registers its buffers all the same may do so. One that others may read or write is a
//! [`Region`](crate::regions::Region): they reach it by its key, at offsets from its beginning.

use crate::base::{Object, absent, class, core_of, head, status};
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::fi::*;
use crate::regions::{KEYS, Region};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// The rights of others.
const REMOTE: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// What was registered.
#[derive(Debug)]
pub struct Mr {
    domain: Arc<Domain>,
    /// `None`: others may not reach it.
    region: Option<Arc<Region>>,
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close,
    bind,
    control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
/// Of a domain.
pub static DOMAIN: OpsMr = OpsMr { size: size_of::<OpsMr>(), reg, regv, regattr };

/// What a program wants to register.
#[derive(Clone, Copy)]
struct Asked {
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
}

/// Whether it can be registered, of so many pieces.
fn check(asked: &Asked, pieces: usize) -> Result<(), c_int> {
    // That a counter will be bound is all that can be said beforehand.
    if asked.flags & !FI_RMA_EVENT != 0 {
        return Err(FI_EBADFLAGS);
    }
    if asked.access & !(FI_SEND | FI_RECV | FI_READ | FI_WRITE | REMOTE) != 0 {
        return Err(FI_EOPNOTSUPP);
    }
    if asked.access & REMOTE == 0 {
        return Ok(());
    }
    match () {
        () if pieces != 1 || asked.offset != 0 => Err(FI_EINVAL),
        () if asked.key > KEYS => Err(FI_EKEYREJECTED),
        () => Ok(()),
    }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let mr = core_of!(fid, FidMr, Mr);
    if let Some(Err(error)) = mr.region.as_ref().map(|region| mr.domain.regions.remove(region)) {
        return -error;
    }
    // SAFETY: The program does not use it any more.
    unsafe { Object::<FidMr, Mr>::free(fid) };
    0
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    let mr = core_of!(fid, FidMr, Mr);
    // SAFETY: Both are objects of this provider, which the program has not closed.
    match unsafe { class(other) } {
        // All endpoints have it.
        FI_CLASS_EP => 0,
        FI_CLASS_CNTR => {
            let Some(region) = mr.region.as_ref().filter(|_| flags & REMOTE != 0) else {
                return -FI_EINVAL;
            };
            if mr.domain.caps & FI_RMA_EVENT == 0 {
                return -FI_EOPNOTSUPP;
            }
            let cntr = core_of!(other, FidCntr, Cntr).clone();
            status(mr.domain.regions.bind(region, cntr, flags & REMOTE))
        }
        _ => -FI_EINVAL,
    }
}

unsafe extern "C" fn control(_: *mut Fid, command: c_int, _: *mut c_void) -> c_int {
    if command == FI_ENABLE { 0 } else { -FI_ENOSYS }
}

/// Registers memory.
///
/// # Safety
///
/// The domain is not closed; there are `count` pieces of memory, which others may use, as `asked` says, until it is
/// closed; and `out` is where it is wanted.
unsafe fn give(
    domain: *mut Fid,
    (iov, count): (*const Iovec, usize),
    asked: Asked,
    context: *mut c_void,
    out: *mut *mut FidMr,
) -> c_int {
    if let Err(error) = check(&asked, count) {
        return -error;
    }
    let domain = core_of!(domain, FidDomain, Domain).clone();
    let region = match asked.access & REMOTE {
        0 => Ok(None),
        remote => {
            // SAFETY: There is one piece.
            let memory = unsafe { iov.read() };
            domain.regions.add(Region::new(asked.key, remote, memory)).map(Some)
        }
    };
    let region = match region {
        Ok(region) => region,
        Err(error) => return -error,
    };
    let mr = Mr { domain, region };
    let fid = FidMr { fid: head(FI_CLASS_MR, context, &OPS), mem_desc: null_mut(), key: asked.key };
    // SAFETY: As the caller says.
    unsafe { Object::give(fid, Arc::new(mr), out) }
}

unsafe extern "C" fn reg(
    domain: *mut Fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    out: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    let asked = Asked { access, offset, key, flags };
    let iov = Iovec { iov_base: buf.cast_mut(), iov_len: len };
    // SAFETY: Programs give a domain, memory, and where they want the region.
    unsafe { give(domain, (&iov, 1), asked, context, out) }
}

unsafe extern "C" fn regv(
    domain: *mut Fid,
    iov: *const Iovec,
    count: usize,
    access: u64,
    offset: u64,
    key: u64,
    flags: u64,
    out: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    let asked = Asked { access, offset, key, flags };
    // SAFETY: As for `reg`.
    unsafe { give(domain, (iov, count), asked, context, out) }
}

unsafe extern "C" fn regattr(
    domain: *mut Fid,
    attr: *const MrAttr,
    flags: u64,
    out: *mut *mut FidMr,
) -> c_int {
    // SAFETY: As for `reg`; only fields are read that all versions have.
    unsafe {
        let (iov, count) = ((*attr).mr_iov, (*attr).iov_count);
        let (access, offset, key) = ((*attr).access, (*attr).offset, (*attr).requested_key);
        let asked = Asked { access, offset, key, flags };
        give(domain, (iov, count), asked, (*attr).context, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_for_messages_or_for_others() {
        let plain = Asked { access: 0, offset: 0, key: 0, flags: 0 };
        let of = |access| Asked { access, ..plain };
        assert_eq!(check(&plain, 1), Ok(()));
        // Nothing is done of it: whatever its key is, and however many pieces it has.
        let local = Asked { key: u64::MAX, ..of(FI_SEND | FI_RECV | FI_READ | FI_WRITE) };
        assert_eq!(check(&local, 9), Ok(()));
        for remote in [of(FI_REMOTE_READ), of(FI_REMOTE_WRITE | FI_SEND), of(REMOTE)] {
            assert_eq!(check(&remote, 1), Ok(()));
            assert_eq!(check(&remote, 2), Err(FI_EINVAL));
            assert_eq!(check(&remote, 0), Err(FI_EINVAL));
            assert_eq!(check(&Asked { offset: 1, ..remote }, 1), Err(FI_EINVAL));
            assert_eq!(check(&Asked { key: KEYS, ..remote }, 1), Ok(()));
            assert_eq!(check(&Asked { key: KEYS + 1, ..remote }, 1), Err(FI_EKEYREJECTED));
            assert_eq!(check(&Asked { flags: FI_RMA_EVENT, ..remote }, 1), Ok(()));
            assert_eq!(check(&Asked { flags: 1, ..remote }, 1), Err(FI_EBADFLAGS));
        }
        assert_eq!(check(&of(FI_MSG), 1), Err(FI_EOPNOTSUPP));
    }
}
