// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Endpoints: how they are made and bound, and what their completions go to.
//!
//! What an endpoint does is in `engine.rs` and `remote.rs`, what it hears in `events.rs` and `exposing.rs`; the
//! operations of libfabric are in `messages.rs`, `tagged.rs`, `rma.rs` and `atomic.rs`.

mod area;
mod asked;
mod atomic;
mod backlog;
mod bits;
mod claims;
mod common;
mod early;
mod engine;
mod events;
mod exposed;
mod exposing;
mod fences;
mod filled;
mod integers;
mod late;
mod later;
mod life;
mod messages;
mod missing;
mod operations;
mod overflow;
mod reach;
mod receives;
mod remote;
mod rma;
mod settings;
mod sinks;
mod tagged;
mod task;
#[cfg(test)]
mod tests;
mod told;
pub mod work;

pub use bits::TAG;

use crate::address;
use crate::av::Av;
use crate::base::{Object, absent, class, copy_text, core_of, head, status};
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::fi::*;
use crate::regions::KEYS;
use asked::{Far, In, Out};
use bits::Wanted;
use common::Common;
use later::{How, Later};
use sinks::{Bound, Live};
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use task::{Act, Remote, Sending, Task};

/// Bytes of the longest message that can be injected.
pub const INJECT: usize = 1024;
/// Messages that a program may count on an endpoint to take at once.
pub const SENDS: usize = 256;
/// Messages that can be under way: the driver keeps as many that are not received yet.
pub const UNDER_WAY: usize = 4096;
/// Pieces of a message.
pub const PIECES: usize = 4;
/// Regions, and places in them, that an access is to.
pub const REMOTE_PIECES: usize = 1;
/// Bytes of the longest message.
pub const LONGEST: usize = 1 << 32;
/// Room that a buffer for many messages has at least, unless the program says another.
pub const LEAST_ROOM: usize = 64;

/// Flags of operations that make no difference: a completion says that the target has the message.
const COMPLETE: u64 = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
/// Flags that say when an operation that sends, or accesses, begins.
const WHEN: u64 = FI_TRIGGER | FI_FENCE;
/// Flags by which messages are sent.
pub const SEND_FLAGS: u64 =
    COMPLETE | WHEN | FI_INJECT | FI_COMPLETION | FI_MORE | FI_REMOTE_CQ_DATA;
/// Flags by which receives are posted.
pub const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_TRIGGER;

/// An endpoint, or an alias of one.
#[derive(Debug)]
pub struct Endpoint {
    common: Arc<Common>,
    /// Flags of operations that are given none.
    send_flags: AtomicU64,
    receive_flags: AtomicU64,
    is_alias: bool,
}

impl Deref for Endpoint {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
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
static CM: OpsCm = OpsCm {
    size: size_of::<OpsCm>(),
    setname: absent,
    getname,
    getpeer: absent,
    connect: absent,
    listen: absent,
    accept: absent,
    reject: absent,
    shutdown: absent,
    join: absent,
};
/// `fi_endpoint()`.
pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    info: *mut Info,
    out: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    // SAFETY: Programs give what `fi_getinfo()` gave them, or what it describes.
    let (info, tx, rx, ep) = unsafe {
        let info = &*info;
        (info, info.tx_attr.as_ref(), info.rx_attr.as_ref(), info.ep_attr.as_ref())
    };
    if ep.is_some_and(|ep| ep.kind != FI_EP_RDM) {
        return -FI_EINVAL;
    }
    let domain = core_of!(domain, FidDomain, Domain).clone();
    let endpoint = Endpoint {
        common: Arc::new(Common::new(domain, info.caps, LEAST_ROOM)),
        send_flags: AtomicU64::new(tx.map_or(0, |tx| tx.op_flags)),
        receive_flags: AtomicU64::new(rx.map_or(0, |rx| rx.op_flags)),
        is_alias: false,
    };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid_of(context), Arc::new(endpoint), out) }
}

/// What a program knows of an endpoint.
fn fid_of(context: *mut c_void) -> FidEp {
    FidEp {
        fid: head(FI_CLASS_EP, context, &OPS),
        ops: &settings::EP,
        cm: &CM,
        msg: &messages::MSG,
        rma: &rma::RMA,
        tagged: &tagged::TAGGED,
        atomic: &atomic::ATOMIC,
        collective: &missing::COLLECTIVE,
    }
}

impl Endpoint {
    fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// An alias, with other flags of operations that are given none, of one direction.
    fn alias(&self, flags: u64) -> Result<Self, c_int> {
        let alias = Endpoint {
            common: self.common.clone(),
            send_flags: AtomicU64::new(self.flags_of_sends()),
            receive_flags: AtomicU64::new(self.flags_of_receives()),
            is_alias: true,
        };
        alias.default_flags(true, &mut { flags })?;
        self.aliases.fetch_add(1, Ordering::Relaxed);
        Ok(alias)
    }

    /// Sends a message.
    ///
    /// # Safety
    ///
    /// The pieces can be read: now, if the message is injected, or else until it is over.
    unsafe fn send(&self, mut sending: Out<'_>, pieces: &[Iovec]) -> Result<(), c_int> {
        let bytes = area::length(pieces);
        if pieces.len() > PIECES {
            return Err(FI_EINVAL);
        }
        if sending.flags & !SEND_FLAGS != 0 {
            return Err(FI_EBADFLAGS);
        }
        if bytes > LONGEST {
            return Err(FI_EMSGSIZE);
        }
        let inject = sending.flags & FI_INJECT != 0;
        if inject && bytes > INJECT {
            return Err(FI_EINVAL);
        }
        if self.caps & FI_SEND == 0 || self.caps & sending.kind == 0 {
            return Err(FI_EOPNOTSUPP);
        }
        sending.data = sending.data.filter(|_| sending.flags & FI_REMOTE_CQ_DATA != 0);
        let Out { kind, tag, data, context, flags, silent, later, .. } = sending;
        let how = How { flags, context, receives: false, silent, later };
        let make = |live: &Live, telling| {
            let to = live.av.table().get(sending.to).ok_or(FI_EINVAL)?;
            let fence = flags & FI_FENCE != 0;
            let sending = Sending { to, kind, tag, data, context, telling, inject, fence };
            Ok(Task::new(Act::Send(sending), pieces))
        };
        // SAFETY: As the caller says.
        unsafe { self.start(&how, make) }
    }

    /// Does something to a region of another.
    ///
    /// # Safety
    ///
    /// As [`Engine::begin`](engine::Engine::begin), of the task that is made.
    unsafe fn reach<'t>(
        &self,
        far: &Far<'_>,
        make: impl FnOnce(Remote) -> Task<'t>,
    ) -> Result<(), c_int> {
        if self.caps & far.caps != far.caps {
            return Err(FI_EOPNOTSUPP);
        }
        if far.key > KEYS {
            return Err(FI_ENOKEY);
        }
        let Far { offset, key, context, flags, silent, later, .. } = *far;
        let how = How { flags, context, receives: false, silent, later };
        let made = |live: &Live, telling| {
            let to = live.av.table().get(far.to).ok_or(FI_EINVAL)?;
            let (inject, fence) = (flags & FI_INJECT != 0, flags & FI_FENCE != 0);
            Ok(make(Remote { to, key, offset, context, telling, inject, fence }))
        };
        // SAFETY: As the caller says.
        unsafe { self.start(&how, made) }
    }

    /// Posts a receive, searches, or receives what was claimed, as the flags say.
    ///
    /// # Safety
    ///
    /// The pieces can be written until the receive is over.
    unsafe fn receive(&self, asked: &In<'_>, pieces: &[Iovec]) -> Result<(), c_int> {
        let flags = asked.flags;
        let searches = FI_PEEK | FI_CLAIM | FI_DISCARD;
        let allowed = match asked.kind {
            FI_TAGGED => FI_COMPLETION | FI_MORE | FI_TRIGGER | searches,
            _ => RECEIVE_FLAGS,
        };
        let (peek, claim) = (flags & FI_PEEK != 0, flags & FI_CLAIM != 0);
        let drops = flags & FI_DISCARD != 0;
        let many = flags & FI_MULTI_RECV != 0;
        if flags & !allowed != 0 || (drops && !peek && !claim) || (peek && claim && drops) {
            return Err(FI_EBADFLAGS);
        }
        // What was found, or is not there, is found now.
        if flags & FI_TRIGGER != 0 && flags & searches != 0 {
            return Err(FI_EBADFLAGS);
        }
        if pieces.len() > PIECES || (many && pieces.len() != 1) {
            return Err(FI_EINVAL);
        }
        if self.caps & FI_RECV == 0 || self.caps & asked.kind == 0 {
            return Err(FI_EOPNOTSUPP);
        }
        let least = self.least_room.load(Ordering::Relaxed);
        let wanted = |live: &Live| -> Result<Wanted, c_int> {
            let directed = self.caps & FI_DIRECTED_RECV != 0 && asked.from != FI_ADDR_UNSPEC;
            let source = match directed {
                true => {
                    let from = live.av.table().get(asked.from).ok_or(FI_EINVAL)?;
                    Some((from.hwid, from.endpoint))
                }
                false => None,
            };
            let In { kind, tag, ignore, .. } = *asked;
            Ok(Wanted { kind, tag, ignore, source })
        };
        let context = asked.context;
        if peek || claim {
            let live = self.live()?;
            let (wanted, reported) = (wanted(live)?, live.receives.reports(flags));
            return self.with(|engine| match peek {
                true => engine.search(&wanted, context, reported, claim, drops),
                // SAFETY: As the caller says.
                false => unsafe { engine.receive_claimed(pieces, context, reported, drops) },
            });
        }
        let how = How { flags, context, receives: true, silent: false, later: asked.later };
        let make = |live: &Live, telling| {
            let wanted = wanted(live)?;
            let act = match many {
                true => Act::ReceiveMany(wanted, context, telling, least),
                false => Act::Receive(wanted, context, telling),
            };
            Ok(Task::new(act, pieces))
        };
        // SAFETY: As the caller says.
        unsafe { self.start(&how, make) }
    }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    if endpoint.is_alias {
        endpoint.aliases.fetch_sub(1, Ordering::Relaxed);
    } else if endpoint.has_aliases() {
        return -FI_EBUSY;
    } else {
        endpoint.domain.deferred.forget(endpoint.common.key());
        endpoint.common.finish();
        endpoint.common.leave();
    }
    // SAFETY: The program does not use it any more.
    unsafe { Object::<FidEp, Endpoint>::free(fid) };
    0
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    if endpoint.live.get().is_some() {
        return -FI_EOPBADSTATE;
    }
    // SAFETY: Both are objects of this provider, which the program has not closed.
    match unsafe { class(other) } {
        FI_CLASS_AV => {
            endpoint.bind_av(core_of!(other, FidAv, Av));
            0
        }
        FI_CLASS_CQ => status(endpoint.bind_cq(core_of!(other, FidCq, Cq), flags)),
        FI_CLASS_CNTR => {
            endpoint.bind_cntr(core_of!(other, FidCntr, Cntr), flags);
            0
        }
        // It has no events.
        FI_CLASS_EQ => 0,
        _ => -FI_EINVAL,
    }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    match command {
        FI_ENABLE => status(endpoint.common.enable()),
        FI_ALIAS if !arg.is_null() => {
            // SAFETY: The program says what it wants, and where.
            let (out, flags) = unsafe {
                let asked = &*arg.cast::<Alias>();
                (asked.fid, asked.flags)
            };
            match endpoint.alias(flags) {
                // SAFETY: Likewise; the endpoint is not closed. An endpoint begins with what all objects do.
                Ok(alias) => unsafe {
                    Object::give(fid_of((*fid).context), Arc::new(alias), out.cast::<*mut FidEp>())
                },
                Err(error) => -error,
            }
        }
        FI_GETOPSFLAG | FI_SETOPSFLAG if !arg.is_null() => {
            // SAFETY: The program gives flags, or the place of flags.
            let flags = unsafe { &mut *arg.cast::<u64>() };
            status(endpoint.default_flags(command == FI_SETOPSFLAG, flags))
        }
        _ => -FI_ENOSYS,
    }
}

unsafe extern "C" fn getname(fid: *mut Fid, to: *mut c_void, len: *mut usize) -> c_int {
    let Some(live) = core_of!(fid, FidEp, Endpoint).live.get() else { return -FI_EOPBADSTATE };
    // SAFETY: The program says how much room there is.
    unsafe { copy_text(address::name(&live.address).as_bytes(), to, len) }
}
