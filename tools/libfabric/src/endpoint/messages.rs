// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages without tags: `fi_send()` and its kind. They and tagged ones never match each other.

use super::engine::pieces;
use super::{Endpoint, In, Later, Out};
use crate::base::{core_of, refusal};
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

pub static MSG: OpsMsg = OpsMsg {
    size: size_of::<OpsMsg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

/// What an operation returns.
pub(super) fn told(result: Result<(), c_int>) -> isize {
    result.map_or_else(refusal, |()| 0)
}

/// A message, or a buffer, in one piece.
pub(super) fn piece(at: *const c_void, len: usize) -> [Iovec; 1] {
    [Iovec { iov_base: at.cast_mut(), iov_len: len }]
}

impl Endpoint {
    pub(super) fn flags_of_sends(&self) -> u64 {
        self.send_flags.load(Ordering::Relaxed)
    }

    pub(super) fn flags_of_receives(&self) -> u64 {
        self.receive_flags.load(Ordering::Relaxed)
    }

    /// Injects a message, for which there is no completion.
    ///
    /// # Safety
    ///
    /// The bytes can be read.
    pub(super) unsafe fn inject(&self, out: Out<'_>, pieces: &[Iovec]) -> Result<(), c_int> {
        let out = Out { flags: out.flags | FI_INJECT, silent: true, ..out };
        // SAFETY: As the caller says.
        unsafe { self.send(out, pieces) }
    }
}

impl Out<'_> {
    /// A message of a kind, with a tag. It has data for the completion queue if there are any, whatever the flags say.
    pub(super) fn new(
        (kind, tag): (u64, u64),
        to: FiAddr,
        data: Option<u64>,
        context: *mut c_void,
        flags: u64,
    ) -> Self {
        let has_data = if data.is_some() { FI_REMOTE_CQ_DATA } else { 0 };
        let flags = flags & !FI_REMOTE_CQ_DATA | has_data;
        Out { kind, to, tag, data, context, flags, silent: false, later: None }
    }
}

fn out<'a>(to: FiAddr, data: Option<u64>, context: *mut c_void, flags: u64) -> Out<'a> {
    Out::new((FI_MSG, 0), to, data, context, flags)
}

fn wanted<'a>(from: FiAddr, context: *mut c_void, flags: u64) -> In<'a> {
    In { kind: FI_MSG, from, tag: 0, ignore: 0, context, flags, later: None }
}

/// Receives as a message says.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn receive_by(
    ep: &Endpoint,
    msg: &Msg,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    let wanted = In { later, ..wanted(msg.addr, msg.context, flags) };
    // SAFETY: As the caller says.
    unsafe { ep.receive(&wanted, pieces(msg.msg_iov, msg.iov_count)) }
}

/// Sends as a message says.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn send_by(
    ep: &Endpoint,
    msg: &Msg,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
    let out = Out { later, ..out(msg.addr, data, msg.context, flags) };
    // SAFETY: As the caller says.
    unsafe { ep.send(out, pieces(msg.msg_iov, msg.iov_count)) }
}

// SAFETY, of all of these: the program gives memory that is there until the operation is over, or, if it is injected,
// until the function has returned; as many pieces as it says; and structures as libfabric's headers have them.

unsafe extern "C" fn recv(
    ep: *mut FidEp,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: FiAddr,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let wanted = wanted(from, context, ep.flags_of_receives());
    // SAFETY: As above.
    told(unsafe { ep.receive(&wanted, &piece(buf, len)) })
}

unsafe extern "C" fn recvv(
    ep: *mut FidEp,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: FiAddr,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let wanted = wanted(from, context, ep.flags_of_receives());
    // SAFETY: As above.
    told(unsafe { ep.receive(&wanted, pieces(iov, count)) })
}

unsafe extern "C" fn recvmsg(ep: *mut FidEp, msg: *const Msg, flags: u64) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { receive_by(ep, &*msg, flags, None) })
}

unsafe extern "C" fn send(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: FiAddr,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, None, context, ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.send(out, &piece(buf, len)) })
}

unsafe extern "C" fn sendv(
    ep: *mut FidEp,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, None, context, ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.send(out, pieces(iov, count)) })
}

unsafe extern "C" fn sendmsg(ep: *mut FidEp, msg: *const Msg, flags: u64) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { send_by(ep, &*msg, flags, None) })
}

unsafe extern "C" fn inject(ep: *mut FidEp, buf: *const c_void, len: usize, to: FiAddr) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, None, null_mut(), ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.inject(out, &piece(buf, len)) })
}

unsafe extern "C" fn senddata(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: FiAddr,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, Some(data), context, ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.send(out, &piece(buf, len)) })
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: FiAddr,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, Some(data), null_mut(), ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.inject(out, &piece(buf, len)) })
}
