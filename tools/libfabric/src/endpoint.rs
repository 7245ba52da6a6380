// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Endpoints: how they are made and bound, and what their completions go to.
//!
//! What an endpoint does is in `engine.rs` and `remote.rs`, what it hears in `events.rs` and `exposing.rs`; the
//! operations of libfabric are in `messages.rs`, `tagged.rs`, `rma.rs` and `atomic.rs`.

mod area;
mod atomic;
mod engine;
mod events;
mod exposed;
mod exposing;
mod filled;
mod integers;
mod life;
mod messages;
mod missing;
mod operations;
mod overflow;
mod reach;
mod remote;
mod rma;
mod settings;
mod sinks;
mod tagged;
#[cfg(test)]
mod tests;
mod told;

pub use engine::TAG;

use crate::address;
use crate::av::Av;
use crate::base::{Object, absent, class, copy_text, core_of, head, lock, status};
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::fi::*;
use crate::progress::Progress;
use crate::regions::KEYS;
use engine::{Engine, Sending, Wanted};
use remote::Remote;
use sinks::{Bound, Live, Reporter};
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use weft::matching::Matching;

/// Bytes of the longest message that can be injected.
pub const INJECT: usize = 1024;
/// Messages that an endpoint can have under way.
pub const SENDS: usize = 256;
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
/// Flags by which messages are sent.
pub const SEND_FLAGS: u64 = COMPLETE | FI_INJECT | FI_COMPLETION | FI_MORE | FI_REMOTE_CQ_DATA;
/// Flags by which receives are posted.
pub const RECEIVE_FLAGS: u64 = FI_COMPLETION | FI_MORE | FI_MULTI_RECV;

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    domain: Arc<Domain>,
    caps: u64,
    /// Flags of operations that are given none.
    send_flags: AtomicU64,
    receive_flags: AtomicU64,
    least_room: AtomicUsize,
    bound: Mutex<Bound>,
    live: OnceLock<Live>,
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
        domain,
        caps: info.caps,
        send_flags: AtomicU64::new(tx.map_or(0, |tx| tx.op_flags)),
        receive_flags: AtomicU64::new(rx.map_or(0, |rx| rx.op_flags)),
        least_room: AtomicUsize::new(LEAST_ROOM),
        bound: Mutex::default(),
        live: OnceLock::new(),
    };
    let fid = FidEp {
        fid: head(FI_CLASS_EP, context, &OPS),
        ops: &settings::EP,
        cm: &CM,
        msg: &messages::MSG,
        rma: &rma::RMA,
        tagged: &tagged::TAGGED,
        atomic: &atomic::ATOMIC,
        collective: &missing::COLLECTIVE,
    };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(endpoint), out) }
}

impl Endpoint {
    fn bind_cq(&self, cq: &Arc<Cq>, flags: u64) -> Result<(), c_int> {
        if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(FI_EBADFLAGS);
        }
        let mut bound = lock(&self.bound);
        let Bound { sends, receives, .. } = &mut *bound;
        for (sink, flag) in [(sends, FI_TRANSMIT), (receives, FI_RECV)] {
            if flags & flag == 0 {
                continue;
            }
            if sink.cq.is_some() {
                return Err(FI_EINVAL);
            }
            sink.cq = Some(cq.clone());
            sink.selective = flags & FI_SELECTIVE_COMPLETION != 0;
        }
        Ok(())
    }

    fn bind_cntr(&self, cntr: &Arc<Cntr>, flags: u64) {
        lock(&self.bound).cntrs.push((cntr.clone(), flags));
    }

    /// Does something with the engine; what finds no place is tried again when events have been handled.
    fn with(
        &self,
        mut act: impl FnMut(&Live, &mut Engine<Matching>) -> Result<(), c_int>,
    ) -> Result<(), c_int> {
        let live = self.live.get().ok_or(FI_EOPBADSTATE)?;
        let mut engine = lock(&live.engine);
        match act(live, &mut engine) {
            Err(FI_EAGAIN) if engine.progress(&mut Reporter(live)) => act(live, &mut engine),
            result => result,
        }
    }

    /// Sends a message.
    ///
    /// # Safety
    ///
    /// As [`Engine::send`].
    unsafe fn send(&self, mut sending: Out, pieces: &[Iovec]) -> Result<(), c_int> {
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
        self.with(|live, engine| {
            let to = live.av.table().get(sending.to).ok_or(FI_EINVAL)?;
            let Out { kind, tag, data, context, .. } = sending;
            let reported = !sending.silent && live.sends.reports(sending.flags);
            let sending = Sending { to, kind, tag, data, context, reported, inject };
            // SAFETY: As the caller says.
            unsafe { engine.send(&sending, pieces) }
        })
    }

    /// Does something to a region of another.
    fn reach(
        &self,
        far: &Far,
        mut act: impl FnMut(&mut Engine<Matching>, &Remote) -> Result<(), c_int>,
    ) -> Result<(), c_int> {
        if self.caps & far.caps != far.caps {
            return Err(FI_EOPNOTSUPP);
        }
        if far.key > KEYS {
            return Err(FI_ENOKEY);
        }
        self.with(|live, engine| {
            let to = live.av.table().get(far.to).ok_or(FI_EINVAL)?;
            let Far { offset, key, context, .. } = *far;
            let reported = !far.silent && live.sends.reports(far.flags);
            let inject = far.flags & FI_INJECT != 0;
            act(engine, &Remote { to, key, offset, context, reported, inject })
        })
    }

    /// Posts a receive, searches, or receives what was claimed, as the flags say.
    ///
    /// # Safety
    ///
    /// As [`Engine::receive`].
    unsafe fn receive(&self, asked: &In, pieces: &[Iovec]) -> Result<(), c_int> {
        let flags = asked.flags;
        let searches = FI_PEEK | FI_CLAIM | FI_DISCARD;
        let allowed = match asked.kind {
            FI_TAGGED => FI_COMPLETION | FI_MORE | searches,
            _ => RECEIVE_FLAGS,
        };
        let (peek, claim) = (flags & FI_PEEK != 0, flags & FI_CLAIM != 0);
        let drops = flags & FI_DISCARD != 0;
        let many = flags & FI_MULTI_RECV != 0;
        if flags & !allowed != 0 || (drops && !peek && !claim) || (peek && claim && drops) {
            return Err(FI_EBADFLAGS);
        }
        if pieces.len() > PIECES || (many && pieces.len() != 1) {
            return Err(FI_EINVAL);
        }
        if self.caps & FI_RECV == 0 || self.caps & asked.kind == 0 {
            return Err(FI_EOPNOTSUPP);
        }
        let least = self.least_room.load(Ordering::Relaxed);
        self.with(|live, engine| {
            let directed = self.caps & FI_DIRECTED_RECV != 0 && asked.from != FI_ADDR_UNSPEC;
            let source = match directed {
                true => {
                    let from = live.av.table().get(asked.from).ok_or(FI_EINVAL)?;
                    Some((from.hwid, from.endpoint))
                }
                false => None,
            };
            let In { kind, tag, ignore, context, .. } = *asked;
            let wanted = Wanted { kind, tag, ignore, source };
            let reported = live.receives.reports(flags);
            match pieces {
                _ if peek => engine.search(&wanted, context, reported, claim, drops),
                // SAFETY: As the caller says.
                _ if claim => unsafe { engine.receive_claimed(pieces, context, reported, drops) },
                // SAFETY: As the caller says.
                [piece] if many => unsafe {
                    engine.receive_many(&wanted, *piece, least, context, reported)
                },
                // SAFETY: As the caller says.
                _ => unsafe { engine.receive(&wanted, pieces, context, reported) },
            }
        })
    }
}

/// What a program asks to be sent.
#[derive(Clone, Copy)]
struct Out {
    kind: u64,
    to: FiAddr,
    tag: u64,
    data: Option<u64>,
    context: *mut c_void,
    flags: u64,
    /// There is no completion, whatever the flags say.
    silent: bool,
}

/// A place in a region that a program asks for.
#[derive(Clone, Copy)]
struct Far {
    /// Capabilities that it takes.
    caps: u64,
    to: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
    flags: u64,
    /// There is no completion, whatever the flags say.
    silent: bool,
}

/// What a program asks to receive.
#[derive(Clone, Copy)]
struct In {
    kind: u64,
    from: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
    flags: u64,
}

impl Progress for Endpoint {
    /// Handles what the driver has said.
    fn progress(&self) -> bool {
        let Some(live) = self.live.get() else { return false };
        lock(&live.engine).progress(&mut Reporter(live))
    }

    fn poll(&self) -> bool {
        let Some(live) = self.live.get() else { return false };
        lock(&live.engine).poll(&mut Reporter(live))
    }

    fn rest(&self) {
        if let Some(live) = self.live.get() {
            lock(&live.engine).rings().rest();
        }
    }

    fn is_settled(&self) -> bool {
        self.live.get().is_none_or(|live| lock(&live.engine).is_settled())
    }

    fn lend(&self, act: &mut dyn FnMut(BorrowedFd<'_>)) {
        if let Some(live) = self.live.get() {
            act(lock(&live.engine).rings().as_fd());
        }
    }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let endpoint = core_of!(fid, FidEp, Endpoint);
    endpoint.finish();
    endpoint.leave();
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
            lock(&endpoint.bound).av = Some(core_of!(other, FidAv, Av).clone());
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
        FI_ENABLE => status(endpoint.enable()),
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
