// SPDX-License-Identifier: GPL-2.0

//! The ioctls of queue pairs, and `WEFT_KICK`.

use super::{
    call::{check, Call},
    objects::{place, Object},
    open_qp::OpenQp,
};
use crate::{
    mem::{Use, Users},
    proto::{protocol::Protocol, wqe::QueueShape},
    sys::ext::{self, weft_kick, weft_qp_create, weft_qp_modify, weft_qp_query},
    verbs::{Bell, Change, Making, State, Wanted},
};
use kernel::{prelude::*, sync::Arc};

/// The budget of `WEFT_KICK` if the caller gives none, and the largest one.
const DEFAULT_BUDGET: u32 = ext::WEFT_KICK_DEFAULT;
const MAX_BUDGET: u32 = ext::WEFT_KICK_MOST;

const RIGHTS: u32 =
    ext::WEFT_ACCESS_REMOTE_READ | ext::WEFT_ACCESS_REMOTE_WRITE | ext::WEFT_ACCESS_REMOTE_ATOMIC;

/// `WEFT_QP_CREATE`.
pub(super) fn create(call: &Call<'_>, mut create: weft_qp_create) -> Result {
    check(create.flags == 0)?;
    let protocol = Protocol::of(create.protocol).ok_or(EINVAL)?;
    call.file.node.may_begin()?;
    let send = QueueShape::send(create.send_entries, create.send_sges, create.inline_bytes);
    let recv = if create.srq == 0 {
        let shape = QueueShape::recv(create.recv_entries, create.recv_sges);
        Some(shape.ok_or(EINVAL)?)
    } else {
        check(create.recv_entries == 0 && create.recv_sges == 0)?;
        None
    };
    let send = send.ok_or(EINVAL)?;
    let objects = call.file.objects()?;
    let pd = objects.pd(create.pd)?;
    let making = Making {
        pd: Use::new(pd.clone())?,
        send_cq: Use::new(objects.cq(create.send_cq)?)?,
        recv_cq: Use::new(objects.cq(create.recv_cq)?)?,
        srq: match create.srq {
            0 => None,
            srq => {
                let srq = objects.srq(srq)?;
                check(Arc::ptr_eq(srq.pd(), &pd))?;
                Some(Use::new(srq)?)
            }
        },
        send,
        recv,
        protocol,
    };
    let room = objects.room()?;
    let engine = call.file.engine.clone();
    let payer = &call.file.payer;
    let page = objects.kick_page(&engine, &call.file.node, payer)?.cloned();
    let qp = engine.create(payer, making)?;
    let bell = match &page {
        Some(page) => Some(page.add(&qp).inspect_err(|_| engine.destroy(&qp))?),
        None => None,
    };
    let kick = page.zip(bell.as_ref().map(|bell| bell.bit));
    let open = Arc::new(
        OpenQp {
            qp: qp.clone(),
            engine: engine.clone(),
            users: Users::new(),
            kick: kick.clone(),
        },
        GFP_KERNEL_ACCOUNT,
    )
    .inspect_err(|_| {
        if let Some((page, bit)) = &kick {
            page.remove(*bit);
        }
        engine.destroy(&qp);
    })?;
    create.qpn = qp.number();
    create.send_stride = send.stride();
    create.recv_stride = recv.map_or(0, |recv| recv.stride());
    create.ring_bytes = qp.memory().bytes() as u64;
    create.send_at = 0;
    create.recv_at = qp.recv_at() as u32;
    let none = Bell::default();
    let bell = bell.as_ref().unwrap_or(&none);
    create.kick_page_offset = bell.page_offset;
    create.kick_offset = bell.offset;
    create.kick_value = bell.value;
    create.kick_bit = bell.bit;
    create.qp = objects.add(room, Object::Qp(open));
    create.ring_offset = place(create.qp);
    call.write(&create).inspect_err(|_| objects.undo(create.qp))
}

/// `WEFT_QP_MODIFY`.
pub(super) fn modify(call: &Call<'_>, modify: weft_qp_modify) -> Result {
    let known = ext::WEFT_QP_STATE | ext::WEFT_QP_ACCESS | ext::WEFT_QP_PATH;
    check(modify.flags == 0 && modify.mask & !known == 0)?;
    let asked = |bit| modify.mask & bit != 0;
    let mut change = Change::default();
    if asked(ext::WEFT_QP_STATE) {
        change.state = Some(State::of(modify.state).ok_or(EINVAL)?);
    }
    if asked(ext::WEFT_QP_ACCESS) {
        check(modify.access & !RIGHTS == 0)?;
        change.access = Some(modify.access);
    }
    if asked(ext::WEFT_QP_PATH) {
        check(modify.peer_qpn != 0 && modify.peer_qpn >> 24 == 0)?;
        change.path = Some(Wanted {
            peer: modify.peer,
            link: match modify.link {
                ext::WEFT_ANY_LINK => None,
                link => Some(link as usize),
            },
            peer_qpn: modify.peer_qpn,
        });
    }
    let open = call.file.objects()?.qp(modify.qp)?;
    let file = call.file;
    open.engine
        .modify(&file.node, &file.payer, call.inside, &open.qp, &change)
}

/// `WEFT_QP_QUERY`.
pub(super) fn query(call: &Call<'_>, mut query: weft_qp_query) -> Result {
    check(query.flags == 0 && query.reserved == 0)?;
    let open = call.file.objects()?.qp(query.qp)?;
    let status = open.engine.query(&open.qp);
    query = weft_qp_query {
        size: query.size,
        qp: query.qp,
        state: status.state as u32,
        why: status.why,
        access: status.access,
        protocol: open.qp.protocol().bits(),
        link: status
            .path
            .map_or(ext::WEFT_ANY_LINK, |path| path.link as u32),
        peer_qpn: status.peer_qpn,
        peer: status.path.map_or(0, |path| path.peer),
        sent: status.sent,
        received: status.received,
        ..Default::default()
    };
    call.write(&query)
}

/// `WEFT_KICK`.
pub(super) fn kick(call: &Call<'_>, kick: weft_kick) -> Result {
    check(kick.flags == 0)?;
    let objects = call.file.objects()?;
    let open = match kick.qp {
        0 => None,
        qp => Some(objects.qp(qp)?),
    };
    let qp = open.as_ref().map(|open| &open.qp);
    let budget = budget(kick.budget);
    call.file.engine.kick(&call.file.node, qp, budget)
}

/// Returns the budget that a caller of `WEFT_KICK` or `WEFT_CQ_WAIT` has.
pub(super) fn budget(wanted: u32) -> usize {
    let budget = match wanted {
        0 => DEFAULT_BUDGET,
        budget => budget.min(MAX_BUDGET),
    };
    budget as usize
}
