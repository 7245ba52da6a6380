// SPDX-License-Identifier: GPL-2.0

//! The ioctls `WEFT_EP_*`: a file uses a function of a shared endpoint.

use super::{
    call::{check, Call},
    file::Role,
};
use crate::{
    endpoint::{Function, Range, Request, Shape, Wanted, MAX_AREA, MAX_ENTRIES},
    proto::endpoint::{Completion, Op, Protocol, FLUSHED, MAX_BYTES, SEGMENTS},
    sys::{
        ext::{
            self, weft_ep_area, weft_ep_done, weft_ep_free, weft_ep_open, weft_ep_query,
            weft_ep_reap, weft_ep_submit, weft_ep_work,
        },
        user::{read_element, write_element},
    },
};
use kernel::prelude::*;

const MAX_BATCH: usize = ext::WEFT_EP_MAX_BATCH as usize;

const _: () = assert!(ext::WEFT_EP_MAX_ENTRIES == MAX_ENTRIES);
const _: () = assert!(ext::WEFT_EP_MAX_AREA as u64 == MAX_AREA);
const _: () = assert!(ext::WEFT_EP_MAX_WORK as u64 == MAX_BYTES);
const _: () = assert!(ext::WEFT_EP_MAX_SEGMENTS as usize == SEGMENTS);
const _: () = assert!(ext::WEFT_EP_DONE_FLUSHED == FLUSHED);
const _: () =
    assert!(ext::WEFT_EP_MAX_AREAS as usize == crate::hw::endpoint_slots::INBOUND_MAPPINGS - 1);

/// `WEFT_EP_OPEN`.
pub(super) fn open(call: &Call<'_>, open: weft_ep_open) -> Result {
    let (work, data, done) = (
        ext::WEFT_EP_PUSH_WORK,
        ext::WEFT_EP_PUSH_DATA,
        ext::WEFT_EP_PULL_DONE,
    );
    check(open.flags & !(work | data | done) == 0 && open.reserved == 0)?;
    check(open.entries.is_power_of_two() && open.entries <= MAX_ENTRIES)?;
    let wanted = Wanted {
        endpoint: open.endpoint,
        ve: open.ve.try_into().map_err(|_| ENOENT)?,
        function: open.function,
    };
    let shape = Shape {
        entries: open.entries,
        protocol: Protocol {
            push_wqe: open.flags & work != 0,
            push_data: open.flags & data != 0,
            pull_cqe: open.flags & done != 0,
        },
    };
    let file = call.file;
    file.node.may_begin()?;
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let function = file.endpoints.open(&file.node, wanted, shape, waiters)?;
        Ok(Role::Function(function))
    })
}

/// `WEFT_EP_QUERY`.
pub(super) fn query(call: &Call<'_>, mut query: weft_ep_query) -> Result {
    check(query.flags == 0)?;
    let info = call.file.function()?.info();
    query = weft_ep_query {
        size: query.size,
        broken: info.broken.map_or(0, |e| e.to_errno().unsigned_abs()),
        failed: info.failed,
        outstanding: info.outstanding,
        areas: info.areas,
        submitted: info.submitted,
        completed: info.completed,
        bytes: info.bytes,
        ..Default::default()
    };
    call.write(&query)
}

/// `WEFT_EP_AREA`.
pub(super) fn area(call: &Call<'_>, mut wanted: weft_ep_area) -> Result {
    let (read, write) = (ext::WEFT_EP_MAY_READ, ext::WEFT_EP_MAY_WRITE);
    check(wanted.flags != 0 && wanted.flags & !(read | write) == 0 && wanted.reserved == 0)?;
    check((1..=MAX_AREA).contains(&wanted.bytes))?;
    let file = call.file;
    let function = file.function()?;
    let rights = (wanted.flags & read != 0, wanted.flags & write != 0);
    let area = function.make_area(&file.endpoints, &file.node, wanted.bytes, rights)?;
    wanted.bytes = area.bytes();
    wanted.area = area.handle();
    wanted.offset = area.offset();
    call.write(&wanted).inspect_err(|_| {
        // The caller did not get the handle.
        let _ = function.free_area(&file.endpoints, &file.node, wanted.area);
    })
}

/// `WEFT_EP_FREE`.
pub(super) fn free(call: &Call<'_>, free: weft_ep_free) -> Result {
    check(free.flags == 0 && free.reserved == 0)?;
    let file = call.file;
    file.function()?
        .free_area(&file.endpoints, &file.node, free.area)
}

fn request(work: &weft_ep_work) -> Result<Request> {
    let (sources, dests) = (usize::from(work.sources), usize::from(work.dests));
    let count = sources + dests;
    check(count <= SEGMENTS && work.reserved == [0; 5])?;
    let mut segments = [Range::default(); SEGMENTS];
    for (to, from) in segments.iter_mut().zip(&work.segment).take(count) {
        *to = Range {
            area: from.area,
            offset: from.offset,
            bytes: from.bytes.into(),
        };
    }
    Ok(Request {
        cookie: work.cookie,
        op: Op::of(work.op.into()).ok_or(EINVAL)?,
        sources,
        count,
        segments,
    })
}

/// Copies all requests to `to`. An error comes with the index of the request.
fn requests(submit: &weft_ep_submit, to: &mut KVec<Request>) -> Result<(), (usize, Error)> {
    let count = submit.count as usize;
    to.reserve(count, GFP_KERNEL).map_err(|e| (0, e.into()))?;
    for n in 0..count {
        let work = read_element::<weft_ep_work>(submit.work, n);
        let request = work.and_then(|work| request(&work));
        let request = request.map_err(|e| (n, e))?;
        to.push(request, GFP_KERNEL).map_err(|e| (n, e.into()))?;
    }
    Ok(())
}

/// `WEFT_EP_SUBMIT`.
pub(super) fn submit(call: &Call<'_>, mut submit: weft_ep_submit) -> Result {
    check(submit.flags == 0 && (1..=MAX_BATCH).contains(&(submit.count as usize)))?;
    let function = call.file.function()?;
    let mut all = KVec::new();
    let read = call.outside(|| Ok(requests(&submit, &mut all)))?;
    let posted = read.and_then(|()| function.submit(&call.file.node, &all));
    let (done, result) = match posted {
        Ok(done) => (done, Ok(())),
        Err((which, why)) => (which, Err(why)),
    };
    submit.done = done as u32;
    // If the result cannot be written, the call fails with that error; the requests are submitted all
    // the same, and complete.
    call.write(&submit)?;
    result
}

/// `WEFT_EP_REAP`.
pub(super) fn reap(call: &Call<'_>, mut reap: weft_ep_reap) -> Result {
    let room = reap.count as usize;
    check(reap.flags == 0 && (1..=MAX_BATCH).contains(&room))?;
    let function = call.file.function()?;
    let mut all = KVec::with_capacity(room, GFP_KERNEL)?;
    loop {
        let mut told = look(call, function, room, &mut all)?;
        if all.is_empty() {
            wait(call, function, reap.timeout_ms)?;
            told = look(call, function, room, &mut all)?;
        }
        // Another thread may have taken them.
        if all.is_empty() {
            return Err(EAGAIN);
        }
        reap.count = all.len() as u32;
        call.outside(|| tell(call, &reap, &all))
            .map_err(interrupted)?;
        // Removed only now: if the results cannot be written, none is lost.
        if function.told(told, reap.count) {
            return Ok(());
        }
        all.clear();
    }
}

/// Copies completions to the caller's memory.
fn tell(call: &Call<'_>, reap: &weft_ep_reap, all: &[Completion]) -> Result {
    for (n, done) in all.iter().enumerate() {
        let done = weft_ep_done {
            cookie: done.cookie,
            status: done.status,
            crc: done.crc,
            bytes: done.bytes,
        };
        write_element(reap.done, n, &done)?;
    }
    call.write(reap)
}

/// `EINTR` for a call that is not begun anew: it has changed its structure, or waited.
fn interrupted(why: Error) -> Error {
    match why == ERESTARTSYS {
        true => EINTR,
        false => why,
    }
}

/// Copies the next completions to `to`; returns the number that [`Function::told`] takes.
fn look(
    call: &Call<'_>,
    function: &Function,
    room: usize,
    to: &mut KVec<Completion>,
) -> Result<u32> {
    let file = call.file;
    function.reap(&file.endpoints, &file.node, room as u32, |done| {
        // There is room for `room` completions.
        let _ = to.push_within_capacity(*done);
    })
}

fn wait(call: &Call<'_>, function: &Function, timeout_ms: u32) -> Result {
    let file = call.file;
    let news = || function.has_news(&file.node);
    if timeout_ms == 0 || call.nonblock {
        return if news() { Ok(()) } else { Err(EAGAIN) };
    }
    let waited = call.inside.asleep(|| match timeout_ms {
        ext::WEFT_EP_FOREVER => file.waiters.wait(news),
        ms => file.waiters.wait_ms(news, ms),
    });
    waited.map_err(|e| if e == ETIMEDOUT { e } else { EINTR })
}
