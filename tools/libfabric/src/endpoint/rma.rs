// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Remote memory: `fi_read()`, `fi_write()` and their kind. An address is an offset from the beginning of a region.

use super::area::length;
use super::engine::pieces;
use super::messages::{piece, told};
use super::task::{Act, Task};
use super::{
    COMPLETE, Endpoint, Far, INJECT, LONGEST, Later, PIECES, REMOTE_PIECES, SEND_FLAGS, WHEN,
};
use crate::base::core_of;
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

pub static RMA: OpsRma = OpsRma {
    size: size_of::<OpsRma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

/// Flags of reads: nothing of them can be injected, and nothing is told to the other end.
const READ_FLAGS: u64 = COMPLETE | WHEN | FI_COMPLETION | FI_MORE;

impl Endpoint {
    /// Reads from a region.
    ///
    /// # Safety
    ///
    /// The pieces can be written until it is over.
    unsafe fn read(&self, far: &Far<'_>, pieces: &[Iovec]) -> Result<(), c_int> {
        check(far.flags, READ_FLAGS, pieces)?;
        // SAFETY: As the caller says.
        unsafe { self.reach(far, |remote| Task::new(Act::Read(remote), pieces)) }
    }

    /// Writes to a region, and tells its program of `data`, if there are any, whatever the flags say.
    ///
    /// # Safety
    ///
    /// The pieces can be read: now, if they are injected, or else until it is over.
    unsafe fn write(
        &self,
        far: &Far<'_>,
        data: Option<u64>,
        pieces: &[Iovec],
    ) -> Result<(), c_int> {
        check(far.flags, SEND_FLAGS, pieces)?;
        if far.flags & FI_INJECT != 0 && length(pieces) > INJECT {
            return Err(FI_EINVAL);
        }
        // SAFETY: As the caller says.
        unsafe { self.reach(far, |remote| Task::new(Act::Write(remote, data), pieces)) }
    }
}

/// Whether there is such an access.
fn check(flags: u64, allowed: u64, pieces: &[Iovec]) -> Result<(), c_int> {
    match () {
        () if pieces.len() > PIECES => Err(FI_EINVAL),
        () if flags & !allowed != 0 => Err(FI_EBADFLAGS),
        () if length(pieces) > LONGEST => Err(FI_EMSGSIZE),
        () => Ok(()),
    }
}

/// A place for reads.
fn source<'a>(ep: &Endpoint, at: (FiAddr, u64, u64), context: *mut c_void) -> Far<'a> {
    let (to, offset, key) = at;
    let flags = ep.flags_of_sends() & READ_FLAGS;
    Far { caps: FI_RMA | FI_READ, to, offset, key, context, flags, silent: false, later: None }
}

/// A place for writes.
fn target<'a>(ep: &Endpoint, at: (FiAddr, u64, u64), context: *mut c_void) -> Far<'a> {
    let flags = ep.flags_of_sends();
    Far { caps: FI_RMA | FI_WRITE, flags, ..source(ep, at, context) }
}

/// One that is injected.
fn injected<'a>(ep: &Endpoint, at: (FiAddr, u64, u64)) -> Far<'a> {
    let far = target(ep, at, null_mut());
    Far { flags: far.flags | FI_INJECT, silent: true, ..far }
}

/// The place that a message is for, and its pieces; FI_EINVAL: there is not just one place, as long as these.
///
/// # Safety
///
/// What it names is there for as long as the references are used.
unsafe fn parts<'a>(
    ep: &Endpoint,
    msg: &MsgRma,
    flags: u64,
    later: Option<&'a Later<'a>>,
) -> Result<(Far<'a>, &'a [Iovec]), c_int> {
    // SAFETY: As the caller says.
    let pieces = unsafe { pieces(msg.msg_iov, msg.iov_count) };
    if msg.rma_iov_count != REMOTE_PIECES || msg.rma_iov.is_null() {
        return Err(FI_EINVAL);
    }
    // SAFETY: There is one.
    let place = unsafe { &*msg.rma_iov };
    if place.len != length(pieces) {
        return Err(FI_EINVAL);
    }
    let far = Far { flags, later, ..source(ep, (msg.addr, place.addr, place.key), msg.context) };
    Ok((far, pieces))
}

/// Reads as a message says.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn read_by(
    ep: &Endpoint,
    msg: &MsgRma,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    // SAFETY: As the caller says.
    unsafe { parts(ep, msg, flags, later).and_then(|(far, pieces)| ep.read(&far, pieces)) }
}

/// Writes as a message says.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn write_by(
    ep: &Endpoint,
    msg: &MsgRma,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    // SAFETY: As the caller says.
    unsafe {
        let (far, pieces) = parts(ep, msg, flags, later)?;
        let far = Far { caps: FI_RMA | FI_WRITE, ..far };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        ep.write(&far, data, pieces)
    }
}

// SAFETY, of all of these: as in `messages.rs`.

unsafe extern "C" fn read(
    ep: *mut FidEp,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: FiAddr,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let far = source(ep, (from, addr, key), context);
    // SAFETY: As above.
    told(unsafe { ep.read(&far, &piece(buf, len)) })
}

unsafe extern "C" fn readv(
    ep: *mut FidEp,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: FiAddr,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let far = source(ep, (from, addr, key), context);
    // SAFETY: As above.
    told(unsafe { ep.read(&far, pieces(iov, count)) })
}

unsafe extern "C" fn readmsg(ep: *mut FidEp, msg: *const MsgRma, flags: u64) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { read_by(ep, &*msg, flags, None) })
}

unsafe extern "C" fn write(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: FiAddr,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let far = target(ep, (to, addr, key), context);
    // SAFETY: As above.
    told(unsafe { ep.write(&far, None, &piece(buf, len)) })
}

unsafe extern "C" fn writev(
    ep: *mut FidEp,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let far = target(ep, (to, addr, key), context);
    // SAFETY: As above.
    told(unsafe { ep.write(&far, None, pieces(iov, count)) })
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgRma, flags: u64) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { write_by(ep, &*msg, flags, None) })
}

unsafe extern "C" fn inject(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    to: FiAddr,
    addr: u64,
    key: u64,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { ep.write(&injected(ep, (to, addr, key)), None, &piece(buf, len)) })
}

unsafe extern "C" fn writedata(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: FiAddr,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let far = target(ep, (to, addr, key), context);
    // SAFETY: As above.
    told(unsafe { ep.write(&far, Some(data), &piece(buf, len)) })
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: FiAddr,
    addr: u64,
    key: u64,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { ep.write(&injected(ep, (to, addr, key)), Some(data), &piece(buf, len)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_is_refused() {
        let none = Iovec { iov_base: null_mut(), iov_len: 0 };
        let long = Iovec { iov_len: LONGEST, ..none };
        assert_eq!(check(READ_FLAGS, READ_FLAGS, &[none; PIECES]), Ok(()));
        assert_eq!(check(0, READ_FLAGS, &[none; PIECES + 1]), Err(FI_EINVAL));
        for flags in [FI_INJECT, FI_REMOTE_CQ_DATA, FI_MULTI_RECV] {
            assert_eq!(check(flags, READ_FLAGS, &[]), Err(FI_EBADFLAGS));
        }
        assert_eq!(check(FI_INJECT | FI_REMOTE_CQ_DATA, SEND_FLAGS, &[long]), Ok(()));
        let longer = Iovec { iov_len: 1, ..none };
        assert_eq!(check(0, SEND_FLAGS, &[long, longer]), Err(FI_EMSGSIZE));
    }
}
