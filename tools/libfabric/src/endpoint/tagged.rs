// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages with tags: `fi_tsend()` and its kind.

use super::engine::pieces;
use super::messages::{piece, told};
use super::{Endpoint, In, Later, Out};
use crate::base::core_of;
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

pub static TAGGED: OpsTagged = OpsTagged {
    size: size_of::<OpsTagged>(),
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

fn out<'a>(to: FiAddr, tag: u64, data: Option<u64>, context: *mut c_void, flags: u64) -> Out<'a> {
    Out::new((FI_TAGGED, tag), to, data, context, flags)
}

fn wanted<'a>(from: FiAddr, tag: u64, ignore: u64, context: *mut c_void, flags: u64) -> In<'a> {
    In { kind: FI_TAGGED, from, tag, ignore, context, flags, later: None }
}

/// Receives as a message says.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn receive_by(
    ep: &Endpoint,
    msg: &MsgTagged,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    let wanted = In { later, ..wanted(msg.addr, msg.tag, msg.ignore, msg.context, flags) };
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
    msg: &MsgTagged,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
    let out = Out { later, ..out(msg.addr, msg.tag, data, msg.context, flags) };
    // SAFETY: As the caller says.
    unsafe { ep.send(out, pieces(msg.msg_iov, msg.iov_count)) }
}

/// Flags of tagged receives that are given none: many messages for a buffer are for those without tags.
fn defaults(ep: &Endpoint) -> u64 {
    ep.flags_of_receives() & !FI_MULTI_RECV
}

// SAFETY, of all of these: as in `messages.rs`.

unsafe extern "C" fn recv(
    ep: *mut FidEp,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let wanted = wanted(from, tag, ignore, context, defaults(ep));
    // SAFETY: As above.
    told(unsafe { ep.receive(&wanted, &piece(buf, len)) })
}

unsafe extern "C" fn recvv(
    ep: *mut FidEp,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let wanted = wanted(from, tag, ignore, context, defaults(ep));
    // SAFETY: As above.
    told(unsafe { ep.receive(&wanted, pieces(iov, count)) })
}

unsafe extern "C" fn recvmsg(ep: *mut FidEp, msg: *const MsgTagged, flags: u64) -> isize {
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, tag, None, context, ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.send(out, &piece(buf, len)) })
}

unsafe extern "C" fn sendv(
    ep: *mut FidEp,
    iov: *const Iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, tag, None, context, ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.send(out, pieces(iov, count)) })
}

unsafe extern "C" fn sendmsg(ep: *mut FidEp, msg: *const MsgTagged, flags: u64) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { send_by(ep, &*msg, flags, None) })
}

unsafe extern "C" fn inject(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    to: FiAddr,
    tag: u64,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, tag, None, null_mut(), ep.flags_of_sends());
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, tag, Some(data), context, ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.send(out, &piece(buf, len)) })
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    buf: *const c_void,
    len: usize,
    data: u64,
    to: FiAddr,
    tag: u64,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let out = out(to, tag, Some(data), null_mut(), ep.flags_of_sends());
    // SAFETY: As above.
    told(unsafe { ep.inject(out, &piece(buf, len)) })
}
