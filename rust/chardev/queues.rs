// SPDX-License-Identifier: GPL-2.0

//! The ioctls of completion queues and shared receive queues: they make them, and wait for completions.

use super::{
    call::{check, Call},
    objects::{place, Object},
    qp::budget,
};
use crate::{
    proto::{cqe::CqShape, wqe::QueueShape},
    sys::{
        eventfd::EventFd,
        ext::{self, weft_cq_arm, weft_cq_create, weft_cq_wait, weft_srq_create},
        waitq::Deadline,
    },
    verbs::{Cq, Next, Srq, Wait},
};
use kernel::prelude::*;

/// The event descriptor that means none.
const NO_EVENT: i32 = -1;

/// `WEFT_CQ_CREATE`.
pub(super) fn cq_create(call: &Call<'_>, mut create: weft_cq_create) -> Result {
    check(create.flags == 0 && create.reserved == 0)?;
    let shape = CqShape::new(create.entries).ok_or(EINVAL)?;
    let event = match create.event_fd {
        NO_EVENT => None,
        fd => Some(EventFd::get(fd)?),
    };
    let file = call.file;
    let objects = file.objects_to_be()?;
    let room = objects.room()?;
    let cq = Cq::new(&file.payer, shape, event, file.waiters.clone())?;
    create.ring_bytes = cq.memory().bytes() as u64;
    create.cq = objects.add(room, Object::Cq(cq));
    create.ring_offset = place(create.cq);
    call.write(&create).inspect_err(|_| objects.undo(create.cq))
}

/// `WEFT_CQ_ARM`.
pub(super) fn cq_arm(call: &Call<'_>, arm: weft_cq_arm) -> Result {
    check(arm.flags == 0 && arm.reserved == 0)?;
    if call.file.objects()?.cq(arm.cq)?.arm(arm.consumed) {
        call.file.engine.user_sleeps(&call.file.node);
    }
    Ok(())
}

/// `WEFT_CQ_WAIT`.
pub(super) fn cq_wait(call: &Call<'_>, mut user: weft_cq_wait) -> Result {
    check(user.flags == 0)?;
    let file = call.file;
    let objects = file.objects()?;
    let wait = Wait {
        next: Next {
            cq: objects.cq(user.cq)?,
            consumed: user.consumed,
        },
        qp: match user.qp {
            0 => None,
            qp => Some(objects.qp(qp)?.qp.clone()),
        },
        budget: budget(user.budget),
    };
    let deadline = match user.timeout_ms {
        0 => None,
        ext::WEFT_CQ_FOREVER => Some(Deadline::NEVER),
        ms => Some(Deadline::new(ms)),
    }
    .filter(|_| !call.nonblock);
    let waited = file
        .engine
        .wait(&file.node, call.inside, wait, deadline.as_ref());
    match waited {
        Err(e) if e == ERESTARTSYS => {
            // A call that is begun anew, after a signal without a handler, waits for the rest.
            let left = deadline.and_then(|deadline| deadline.left());
            user.timeout_ms = left.map_or(ext::WEFT_CQ_FOREVER, |ms| ms.max(1));
            call.write(&user).map_err(|_| EINTR)?;
            Err(ERESTARTNOHAND)
        }
        waited => waited,
    }
}

/// `WEFT_SRQ_CREATE`.
pub(super) fn srq_create(call: &Call<'_>, mut create: weft_srq_create) -> Result {
    check(create.flags == 0 && create.reserved == 0)?;
    let shape = QueueShape::recv(create.entries, create.sges).ok_or(EINVAL)?;
    let file = call.file;
    let objects = file.objects()?;
    let pd = objects.pd(create.pd)?;
    let room = objects.room()?;
    let srq = Srq::new(&file.payer, pd, shape)?;
    create.stride = shape.stride();
    create.ring_bytes = srq.memory().bytes() as u64;
    create.srq = objects.add(room, Object::Srq(srq));
    create.ring_offset = place(create.srq);
    call.write(&create)
        .inspect_err(|_| objects.undo(create.srq))
}
