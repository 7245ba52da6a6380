// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a program can set of an endpoint, and ask of it; and how it takes receives back.

use super::{Endpoint, RECEIVE_FLAGS, SEND_FLAGS};
use crate::base::{absent, core_of, lock, refusal};
use crate::fi::*;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

pub static EP: OpsEp = OpsEp {
    size: size_of::<OpsEp>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: absent,
    rx_ctx: absent,
    rx_size_left,
    tx_size_left,
};

impl Endpoint {
    /// Gets or sets the flags of operations that are given none: `flags` says of which direction.
    pub(super) fn default_flags(&self, set: bool, flags: &mut u64) -> Result<(), c_int> {
        let directions = FI_TRANSMIT | FI_RECV;
        let (of, allowed) = match *flags & directions {
            FI_TRANSMIT => (&self.send_flags, SEND_FLAGS),
            FI_RECV => (&self.receive_flags, RECEIVE_FLAGS),
            _ => return Err(FI_EINVAL),
        };
        if !set {
            *flags = of.load(Ordering::Relaxed);
            return Ok(());
        }
        let new = *flags & !directions;
        if new & !allowed != 0 {
            return Err(FI_EBADFLAGS);
        }
        of.store(new, Ordering::Relaxed);
        Ok(())
    }
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    let Some(live) = endpoint.live.get() else { return refusal(FI_EOPBADSTATE) };
    let cancelled = lock(&live.engine).cancel(context, &mut endpoint.reporter(live));
    // Or it waits for a counter.
    let deferred = &endpoint.domain.deferred;
    let key = endpoint.common().key();
    match cancelled.or_else(|_| deferred.cancel_triggered(key, context.addr())) {
        Ok(()) => 0,
        Err(error) => refusal(error),
    }
}

unsafe extern "C" fn getopt(
    fid: *mut Fid,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut usize,
) -> c_int {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    let value = match (level, name) {
        (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) => endpoint.least_room.load(Ordering::Relaxed),
        (FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE) => 0,
        _ => return -FI_ENOPROTOOPT,
    };
    // SAFETY: The program says how much room there is.
    unsafe {
        let room = len.replace(size_of::<usize>());
        if room < size_of::<usize>() {
            return -FI_ETOOSMALL;
        }
        to.cast::<usize>().write_unaligned(value);
    }
    0
}

unsafe extern "C" fn setopt(
    fid: *mut Fid,
    level: c_int,
    name: c_int,
    from: *const c_void,
    len: usize,
) -> c_int {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOPROTOOPT;
    }
    if len != size_of::<usize>() {
        return -FI_EINVAL;
    }
    // SAFETY: The program gives as much as it says.
    let least = unsafe { from.cast::<usize>().read_unaligned() };
    if u32::try_from(least).is_err() {
        return -FI_EINVAL;
    }
    endpoint.least_room.store(least, Ordering::Relaxed);
    0
}

/// How many sends, and receives, can be begun.
fn room(fid: *mut FidEp) -> Option<(usize, usize)> {
    let live = core_of!(fid, FidEp, Endpoint).live.get()?;
    Some(lock(&live.engine).room())
}

unsafe extern "C" fn rx_size_left(fid: *mut FidEp) -> isize {
    room(fid).map_or(refusal(FI_EOPBADSTATE), |(_, receives)| receives as isize)
}

unsafe extern "C" fn tx_size_left(fid: *mut FidEp) -> isize {
    room(fid).map_or(refusal(FI_EOPBADSTATE), |(sends, _)| sends as isize)
}
