// SPDX-License-Identifier: GPL-2.0

//! The ioctls that make protection domains, regions and windows, and the one that destroys an object.

use super::{
    call::{check, Call},
    objects::Object,
};
use crate::{
    channel,
    mem::{self, Pd, Region, Wanted, Window},
    proto::{cqe, wqe},
    share::Table,
    sys::ext::{self, weft_destroy, weft_limits, weft_mr_reg, weft_mw_alloc, weft_pd_alloc},
    verbs,
};
use kernel::prelude::*;

/// `WEFT_LIMITS`.
pub(super) fn limits(call: &Call<'_>, mut limits: weft_limits) -> Result {
    check(limits.flags == 0)?;
    let share = |table, limit| call.file.payer.share(table, limit);
    limits = weft_limits {
        size: limits.size,
        stags: mem::MAX_STAGS,
        pds: mem::MAX_PDS,
        mr_bytes: mem::MAX_REGION,
        qps: verbs::MAX_QPS,
        cqs: verbs::MAX_CQS,
        srqs: verbs::MAX_SRQS,
        queue_entries: wqe::MAX_ENTRIES,
        cq_entries: cqe::MAX_CQ_ENTRIES,
        sges: wqe::MAX_SGES as u32,
        inline_bytes: wqe::MAX_INLINE as u32,
        engine: engine(call)?,
        qp_share: share(Table::Qps, verbs::MAX_QPS),
        cq_share: share(Table::Cqs, verbs::MAX_CQS),
        srq_share: share(Table::Srqs, verbs::MAX_SRQS),
        stag_share: share(Table::Stags, mem::MAX_STAGS),
        pd_share: share(Table::Pds, mem::MAX_PDS),
        listeners: channel::MAX_LISTENERS,
        listener_share: share(Table::Listeners, channel::MAX_LISTENERS),
        ..Default::default()
    };
    call.write(&limits)
}

/// Returns the hardware features that the engine uses, a mask of `WEFT_ENGINE_*`.
fn engine(call: &Call<'_>) -> Result<u32> {
    let port = call.file.node.port()?;
    let kicks = port
        .user_doorbells()
        .and_then(|bells| bells.kick_page())
        .map_or(0, |_| ext::WEFT_ENGINE_KICK_PAGE);
    let moves = port.mover(0).map_or(0, |_| ext::WEFT_ENGINE_DMA);
    Ok(kicks | moves)
}

/// `WEFT_PD_ALLOC`.
pub(super) fn pd_alloc(call: &Call<'_>, mut alloc: weft_pd_alloc) -> Result {
    check(alloc.flags == 0 && alloc.reserved == 0)?;
    let objects = call.file.objects_to_be()?;
    let room = objects.room()?;
    let pd = Pd::new(&call.file.memory, &call.file.payer)?;
    alloc.pd = objects.add(room, Object::Pd(pd));
    call.write(&alloc).inspect_err(|_| objects.undo(alloc.pd))
}

/// `WEFT_MR_REG`.
pub(super) fn mr_reg(call: &Call<'_>, mut reg: weft_mr_reg) -> Result {
    check(reg.flags == 0 && reg.reserved == 0)?;
    let wanted = Wanted {
        addr: reg.addr,
        length: reg.length,
        base: reg.base,
        access: reg.access,
        key: reg.key.try_into().map_err(|_| EINVAL)?,
    };
    wanted.check()?;
    let objects = call.file.objects()?;
    let pd = objects.pd(reg.pd)?;
    let room = objects.room()?;
    let pinned = call.outside(|| wanted.pin())?;
    let region = Region::new(&call.file.memory, &call.file.payer, pd, &wanted, pinned)?;
    reg.stag = region.stag();
    reg.mr = objects.add(room, Object::Region(region));
    call.write(&reg).inspect_err(|_| objects.undo(reg.mr))
}

/// `WEFT_MW_ALLOC`.
pub(super) fn mw_alloc(call: &Call<'_>, mut alloc: weft_mw_alloc) -> Result {
    check(alloc.flags == 0 && alloc.reserved == 0)?;
    let objects = call.file.objects()?;
    let pd = objects.pd(alloc.pd)?;
    let room = objects.room()?;
    let window = Window::new(&call.file.memory, &call.file.payer, pd)?;
    alloc.stag = window.stag();
    alloc.mw = objects.add(room, Object::Window(window));
    call.write(&alloc).inspect_err(|_| objects.undo(alloc.mw))
}

/// `WEFT_DESTROY`.
pub(super) fn destroy(call: &Call<'_>, destroy: weft_destroy) -> Result {
    check(destroy.flags == 0 && destroy.reserved == 0)?;
    call.file.objects()?.destroy(destroy.handle)
}
