// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomic operations on regions: `fi_atomic()`, `fi_fetch_atomic()`, `fi_compare_atomic()` and their kind.

use super::integers::{Asked, Counted, NONE, Place};
use super::messages::told;
use super::{Endpoint, Far};
use crate::atomics::{Kind, change};
use crate::base::{core_of, status};
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

pub static ATOMIC: OpsAtomic = OpsAtomic {
    size: size_of::<OpsAtomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// Integers in one piece.
fn one(at: *const c_void, count: usize) -> Ioc {
    Ioc { addr: at.cast_mut(), count }
}

/// Whether there is an operation of a kind, and on how many integers.
///
/// # Safety
///
/// `count` is a place or null.
unsafe fn valid(datatype: u32, op: u32, kind: Kind, count: *mut usize) -> c_int {
    status(change(datatype, op, kind).map(|change| {
        if !count.is_null() {
            // SAFETY: As the caller says.
            unsafe { count.write(change.most()) };
        }
    }))
}

// SAFETY, of all of these: as in `messages.rs`.

unsafe extern "C" fn write(
    ep: *mut FidEp,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (values, mut desc) = (one(buf, count), desc);
    // SAFETY: As above.
    unsafe { writev(ep, &values, &mut desc, 1, to, addr, key, datatype, op, context) }
}

unsafe extern "C" fn writev(
    ep: *mut FidEp,
    iov: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let (kind, values) = (Kind::Base, (iov, count));
    let far = ep.place(Place { to, addr, key }, kind, context);
    let asked = Asked { datatype, op, kind, values, compared: NONE, results: NONE, count: None };
    // SAFETY: As above.
    told(unsafe { ep.change(&far, &asked) })
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgAtomic, flags: u64) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe {
        let asked = ep.asked_by(msg, flags, Kind::Base, (NONE, NONE));
        asked.and_then(|(far, asked)| ep.change(&far, &asked))
    })
}

unsafe extern "C" fn inject(
    ep: *mut FidEp,
    buf: *const c_void,
    count: usize,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let (kind, values) = (Kind::Base, one(buf, count));
    let far = ep.place(Place { to, addr, key }, kind, null_mut());
    let far = Far { flags: far.flags | FI_INJECT, silent: true, ..far };
    let values: Counted = (&values, 1);
    let asked = Asked { datatype, op, kind, values, compared: NONE, results: NONE, count: None };
    // SAFETY: As above.
    told(unsafe { ep.change(&far, &asked) })
}

unsafe extern "C" fn readwrite(
    ep: *mut FidEp,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (values, mut results) = (one(buf, count), one(result, count));
    let (none, results) = (null_mut(), &raw mut results);
    // SAFETY: As above.
    unsafe {
        readwritev(ep, &values, none, 1, results, none, 1, to, addr, key, datatype, op, context)
    }
}

unsafe extern "C" fn readwritev(
    ep: *mut FidEp,
    iov: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    results: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let (kind, values) = (Kind::Fetch, (iov, count));
    let far = ep.place(Place { to, addr, key }, kind, context);
    let results = (results.cast_const(), result_count);
    let asked = Asked { datatype, op, kind, values, compared: NONE, results, count: None };
    // SAFETY: As above.
    told(unsafe { ep.change(&far, &asked) })
}

unsafe extern "C" fn readwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    results: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let results = (results.cast_const(), result_count);
    // SAFETY: As above.
    told(unsafe {
        let asked = ep.asked_by(msg, flags, Kind::Fetch, (NONE, results));
        asked.and_then(|(far, asked)| ep.change(&far, &asked))
    })
}

unsafe extern "C" fn compwrite(
    ep: *mut FidEp,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (values, compared) = (one(buf, count), one(compare, count));
    let (none, mut results) = (null_mut(), one(result, count));
    let results = &raw mut results;
    // SAFETY: As above.
    unsafe {
        compwritev(
            ep, &values, none, 1, &compared, none, 1, results, none, 1, to, addr, key, datatype,
            op, context,
        )
    }
}

unsafe extern "C" fn compwritev(
    ep: *mut FidEp,
    iov: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compared: *const Ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    results: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let (kind, values) = (Kind::Compare, (iov, count));
    let far = ep.place(Place { to, addr, key }, kind, context);
    let compared = (compared, compare_count);
    let results = (results.cast_const(), result_count);
    let asked = Asked { datatype, op, kind, values, compared, results, count: None };
    // SAFETY: As above.
    told(unsafe { ep.change(&far, &asked) })
}

unsafe extern "C" fn compwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    compared: *const Ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    results: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let sides = ((compared, compare_count), (results.cast_const(), result_count));
    // SAFETY: As above.
    told(unsafe {
        let asked = ep.asked_by(msg, flags, Kind::Compare, sides);
        asked.and_then(|(far, asked)| ep.change(&far, &asked))
    })
}

unsafe extern "C" fn writevalid(
    _ep: *mut FidEp,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: As above.
    unsafe { valid(datatype, op, Kind::Base, count) }
}

unsafe extern "C" fn readwritevalid(
    _ep: *mut FidEp,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: As above.
    unsafe { valid(datatype, op, Kind::Fetch, count) }
}

unsafe extern "C" fn compwritevalid(
    _ep: *mut FidEp,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    // SAFETY: As above.
    unsafe { valid(datatype, op, Kind::Compare, count) }
}
