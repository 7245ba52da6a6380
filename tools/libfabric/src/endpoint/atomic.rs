// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomic operations on regions: `fi_atomic()`, `fi_fetch_atomic()`, `fi_compare_atomic()` and their kind.

use super::integers::{Asked, Counted, NONE, Place};
use super::messages::told;
use super::{Endpoint, Far, Later};
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

/// Changes integers: operands, what is compared, and where it is told what they were.
unsafe fn act(
    ep: *mut FidEp,
    place: Place,
    kind: Kind,
    [values, compared, results]: [Counted; 3],
    (datatype, op): (u32, u32),
    context: *mut c_void,
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    let far = ep.place(place, kind, context);
    let asked = Asked { datatype, op, kind, values, compared, results, count: None };
    // SAFETY: As above.
    told(unsafe { ep.change(&far, &asked) })
}

/// Changes those that a message names, with its flags: what is compared, and where it is told what they were.
unsafe fn act_by(
    ep: *mut FidEp,
    (msg, flags): (*const MsgAtomic, u64),
    kind: Kind,
    sides: (Counted, Counted),
) -> isize {
    let ep = core_of!(ep, FidEp, Endpoint);
    // SAFETY: As above.
    told(unsafe { change_by(ep, &*msg, (flags, None), kind, sides) })
}

unsafe fn change_by(
    ep: &Endpoint,
    msg: &MsgAtomic,
    when: (u64, Option<&Later<'_>>),
    kind: Kind,
    sides: (Counted, Counted),
) -> Result<(), c_int> {
    // SAFETY: As above.
    unsafe {
        let (far, asked) = ep.asked_by(msg, when, kind, sides)?;
        ep.change(&far, &asked)
    }
}

/// Changes integers as a message says.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn write_by(
    ep: &Endpoint,
    msg: &MsgAtomic,
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    // SAFETY: As the caller says.
    unsafe { change_by(ep, msg, (flags, later), Kind::Base, (NONE, NONE)) }
}

/// Changes integers as a message says, and is told what they were.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn fetch_by(
    ep: &Endpoint,
    (msg, fetch): (&MsgAtomic, &MsgFetch),
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    let results = (fetch.msg_iov.cast_const(), fetch.iov_count);
    // SAFETY: As the caller says.
    unsafe { change_by(ep, msg, (flags, later), Kind::Fetch, (NONE, results)) }
}

/// Compares integers as a message says, changes them, and is told what they were.
///
/// # Safety
///
/// As those of C below.
pub(super) unsafe fn compare_by(
    ep: &Endpoint,
    (msg, fetch, compare): (&MsgAtomic, &MsgFetch, &MsgCompare),
    flags: u64,
    later: Option<&Later<'_>>,
) -> Result<(), c_int> {
    let results = (fetch.msg_iov.cast_const(), fetch.iov_count);
    let sides = ((compare.msg_iov, compare.iov_count), results);
    // SAFETY: As the caller says.
    unsafe { change_by(ep, msg, (flags, later), Kind::Compare, sides) }
}

unsafe extern "C" fn write(
    ep: *mut FidEp,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    to: FiAddr,
    addr: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let place = Place { to, addr, key };
    let values = one(buf, count);
    // SAFETY: As above.
    unsafe { act(ep, place, Kind::Base, [(&values, 1), NONE, NONE], (datatype, op), context) }
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
    let place = Place { to, addr, key };
    // SAFETY: As above.
    unsafe { act(ep, place, Kind::Base, [(iov, count), NONE, NONE], (datatype, op), context) }
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgAtomic, flags: u64) -> isize {
    // SAFETY: As above.
    unsafe { act_by(ep, (msg, flags), Kind::Base, (NONE, NONE)) }
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
    let place = Place { to, addr, key };
    let (values, results) = (one(buf, count), one(result, count));
    // SAFETY: As above.
    unsafe {
        act(ep, place, Kind::Fetch, [(&values, 1), NONE, (&results, 1)], (datatype, op), context)
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
    let place = Place { to, addr, key };
    let results = (results.cast_const(), result_count);
    // SAFETY: As above.
    unsafe { act(ep, place, Kind::Fetch, [(iov, count), NONE, results], (datatype, op), context) }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    results: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let results = (results.cast_const(), result_count);
    // SAFETY: As above.
    unsafe { act_by(ep, (msg, flags), Kind::Fetch, (NONE, results)) }
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
    let place = Place { to, addr, key };
    let (values, results) = (one(buf, count), one(result, count));
    let compared = one(compare, count);
    // SAFETY: As above.
    unsafe {
        act(
            ep,
            place,
            Kind::Compare,
            [(&values, 1), (&compared, 1), (&results, 1)],
            (datatype, op),
            context,
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
    let place = Place { to, addr, key };
    let (compared, results) = ((compared, compare_count), (results.cast_const(), result_count));
    // SAFETY: As above.
    unsafe {
        act(ep, place, Kind::Compare, [(iov, count), compared, results], (datatype, op), context)
    }
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
    let sides = ((compared, compare_count), (results.cast_const(), result_count));
    // SAFETY: As above.
    unsafe { act_by(ep, (msg, flags), Kind::Compare, sides) }
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
