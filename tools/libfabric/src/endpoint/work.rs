// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Deferred work of a domain: `fi_control()` with FI_QUEUE_WORK, FI_CANCEL_WORK and FI_FLUSH_WORK. All that a program
//! gives for it is read at once, but for the bytes of messages.

use super::later::{Later, tally_of};
use super::{Endpoint, atomic, messages, rma, tagged};
use crate::base::{class, core_of, status};
use crate::deferred::{Kind, Waiting};
use crate::domain::Domain;
use crate::fi::*;
use crate::tally::{Counting, Tally};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What work cannot be: its bytes are read when it begins, and it is one operation, which ends once.
const NEVER: u64 = FI_INJECT | FI_TRIGGER | FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD;

/// `fi_control()` of a domain.
///
/// # Safety
///
/// `arg` is what the command says; what it names are objects of this provider, which are not closed.
pub unsafe fn control(domain: &Arc<Domain>, command: c_int, arg: *mut c_void) -> c_int {
    let work = arg.cast::<DeferredWork>();
    // SAFETY: As the caller says.
    match (command, unsafe { work.as_ref() }) {
        // SAFETY: Likewise.
        (FI_QUEUE_WORK, Some(asked)) => status(unsafe { queue(domain, asked) }),
        (FI_CANCEL_WORK, Some(_)) => status(domain.deferred.cancel(arg.addr())),
        (FI_FLUSH_WORK, Some(asked)) if !asked.triggering_cntr.is_null() => {
            // SAFETY: Likewise.
            status(unsafe { tally_of(asked.triggering_cntr) }.map(|tally| tally.flush()))
        }
        (FI_FLUSH_WORK, _) => {
            domain.deferred.flush(None);
            0
        }
        (FI_QUEUE_WORK | FI_CANCEL_WORK, None) => -FI_EINVAL,
        _ => -FI_ENOSYS,
    }
}

/// An endpoint of the domain, for work with these flags.
///
/// # Safety
///
/// It is null, or an object of this provider that is not closed.
unsafe fn endpoint<'a>(
    domain: &Arc<Domain>,
    ep: *mut FidEp,
    flags: u64,
) -> Result<&'a Endpoint, c_int> {
    // SAFETY: As the caller says.
    if ep.is_null() || unsafe { class(ep.cast()) } != FI_CLASS_EP {
        return Err(FI_EINVAL);
    }
    let endpoint = core_of!(ep, FidEp, Endpoint);
    match () {
        () if !Arc::ptr_eq(&endpoint.domain, domain) => Err(FI_EINVAL),
        () if flags & NEVER != 0 => Err(FI_ENOSYS),
        () => Ok(endpoint),
    }
}

/// # Safety
///
/// As [`control`].
unsafe fn queue(domain: &Arc<Domain>, asked: &DeferredWork) -> Result<(), c_int> {
    // SAFETY: As the caller says.
    let tally = unsafe { tally_of(asked.triggering_cntr) }?;
    let completion = match asked.completion_cntr.is_null() {
        true => None,
        // SAFETY: As the caller says.
        false => Some(unsafe { tally_of(asked.completion_cntr) }?),
    };
    let of_domain = |tally: &Arc<Tally>| tally.is_of(&domain.deferred);
    if asked.op.is_null() || !of_domain(tally) || !completion.is_none_or(of_domain) {
        return Err(FI_EINVAL);
    }
    let key = std::ptr::from_ref(asked).addr();
    let later = Later { tally, threshold: asked.threshold, completion, key };
    let (op, later) = (asked.op, Some(&later));
    // As a message says, which is in a structure of its kind.
    macro_rules! by {
        ($kind:ty, $act:path) => {{
            let op = &*op.cast::<$kind>();
            $act(endpoint(domain, op.ep, op.flags)?, &op.msg, op.flags, later)
        }};
    }
    // SAFETY: As the caller says; what is read is of the type that the kind of the operation says.
    unsafe {
        match asked.op_type {
            FI_OP_RECV => by!(OpMsg, messages::receive_by),
            FI_OP_SEND => by!(OpMsg, messages::send_by),
            FI_OP_TRECV => by!(OpTagged, tagged::receive_by),
            FI_OP_TSEND => by!(OpTagged, tagged::send_by),
            FI_OP_READ => by!(OpRma, rma::read_by),
            FI_OP_WRITE => by!(OpRma, rma::write_by),
            FI_OP_ATOMIC => by!(OpAtomic, atomic::write_by),
            FI_OP_FETCH_ATOMIC => {
                let OpFetchAtomic { ep, msg, fetch, flags } = &*op.cast::<OpFetchAtomic>();
                let ep = endpoint(domain, *ep, *flags)?;
                atomic::fetch_by(ep, (msg, fetch), *flags, later)
            }
            FI_OP_COMPARE_ATOMIC => {
                let OpCompareAtomic { ep, msg, fetch, compare, flags } =
                    &*op.cast::<OpCompareAtomic>();
                let ep = endpoint(domain, *ep, *flags)?;
                atomic::compare_by(ep, (msg, fetch, compare), *flags, later)
            }
            FI_OP_CNTR_SET | FI_OP_CNTR_ADD => {
                let OpCntr { cntr, value } = &*op.cast::<OpCntr>();
                let target = tally_of(*cntr)?;
                if !of_domain(target) || completion.is_some() {
                    return Err(FI_EINVAL);
                }
                let work = Counting::new(target, *value, asked.op_type == FI_OP_CNTR_ADD);
                tally.defer(Waiting {
                    number: domain.deferred.number(),
                    kind: Kind::Deferred,
                    key,
                    threshold: asked.threshold,
                    work: Arc::new(work),
                    completion: None,
                })
            }
            _ => Err(FI_ENOSYS),
        }
    }
}
