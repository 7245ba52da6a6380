// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How others reach a region by an endpoint: by entries of its lists, which stay.
//!
//! A region has an entry without events, for what its program does not hear of, and one with, for what comes with data
//! for the completion queue. So a region stays reachable while its program looks at no queue: what takes no room in
//! the event ring waits for none. Match bits tell the entries apart. If the program counts what others do, both have
//! events.

use super::bits::{DATA, FETCHES, REGION, REMOTE, WITH_DATA};
use super::engine::{Engine, Rings};
use super::exposed::State;
use super::told::{Outcome, Report, Side};
use crate::base::error_of;
use crate::completion::Done;
use crate::fi::*;
use crate::regions::Region;
use std::ffi::c_int;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Arc;
use weft::matching::{Append, Command, Criteria, Event, EventKind, Memory, Rights};

/// What an entry is known by.
fn number(at: usize, entry: usize) -> u64 {
    REGION | ((at as u64) << 1) | entry as u64
}

impl<R: Rings> Engine<R> {
    /// Lets others reach a region by this endpoint, with rights of FI_REMOTE_READ and FI_REMOTE_WRITE. Returns by which
    /// number it is known. FI_ENOSPC: there are as many entries as there can be.
    pub fn expose(
        &mut self,
        region: &Arc<Region>,
        access: u64,
        counted: bool,
    ) -> Result<usize, c_int> {
        let (read, write) = (access & FI_REMOTE_READ != 0, access & FI_REMOTE_WRITE != 0);
        // Data come with what is written alone.
        let count = if write { 2 } else { 1 };
        let at = self.exposed.add(region, count, counted, self.limits.regions)?;
        let Iovec { iov_base, iov_len } = region.memory();
        // SAFETY: The program has registered it, and closes the region before it uses the memory for something else;
        // that waits until the driver uses it no more.
        let memory = unsafe { Memory::new(iov_base.cast(), iov_len) };
        for entry in 0..count {
            let with = if entry == 0 { 0 } else { WITH_DATA };
            // As receives are, so that they cost no class of their own.
            let criteria =
                Criteria { bits: REMOTE | with | region.key, ignore: DATA, source: None };
            let rights = Rights { read, write, silent: entry == 0 && !counted };
            let append = Append::region(criteria, memory, number(at, entry), rights);
            // If the port is gone, there is no other to reach it.
            let _ = self.give(number(at, entry), Command::append(&append));
        }
        Ok(at)
    }

    /// Whether a region is in the lists; `None`: the driver has not said yet.
    pub fn appended(&mut self, at: usize) -> Option<Result<(), c_int>> {
        let Some(place) = self.exposed.place(at) else { return Some(Ok(())) };
        if place.waits() {
            return None;
        }
        Some(place.entries.iter().try_for_each(|state| match state {
            State::Failed(error) => Err(*error),
            _ => Ok(()),
        }))
    }

    /// The number of a region.
    pub fn exposed_as(&self, region: &Arc<Region>) -> Option<usize> {
        self.exposed.find(region)
    }

    /// Has a region taken out of the lists, as far as that was not begun.
    pub fn withdraw(&mut self, at: usize) {
        let taken = self.exposed.place(at).map(|place| place.take_out()).unwrap_or_default();
        for entry in taken {
            let _ = self.give(number(at, entry), Command::unlink(number(at, entry)));
        }
    }

    /// Whether nothing uses the memory of a region any more, which is forgotten then; `None`: the driver has not said
    /// yet.
    pub fn withdrawn(&mut self, at: usize) -> Option<bool> {
        let Some(place) = self.exposed.place(at) else { return Some(true) };
        if place.waits() {
            return None;
        }
        let over = place.is_over();
        if over {
            self.exposed.forget(at);
        }
        Some(over)
    }

    /// Has a region taken out, and forgotten, when the driver has answered: no other knows its key.
    pub fn abandon(&mut self, at: usize) {
        self.withdraw(at);
        let Some(place) = self.exposed.place(at) else { return };
        place.abandoned = true;
        if place.is_over() {
            self.exposed.forget(at);
        }
    }

    /// Handles an event of an entry.
    pub(super) fn handle_region(&mut self, event: &Event, report: &mut impl Report) {
        let of = event.context & !REGION;
        let (at, entry) = ((of >> 1) as usize, (of & 1) as usize);
        let Some(place) = self.exposed.place(at) else { return };
        let prov_errno = event.status as c_int;
        let error = match prov_errno {
            0 if event.truncated => FI_ETRUNC,
            0 => 0,
            errno => error_of(errno),
        };
        let side = match event.kind {
            EventKind::Command => {
                place.answered(entry, error, event.data);
                if place.abandoned {
                    self.abandon(at);
                }
                return;
            }
            EventKind::Received => Side::RemoteWrite,
            EventKind::Got => Side::RemoteRead,
            EventKind::Changed if event.data == FETCHES => Side::RemoteRead,
            EventKind::Changed => Side::RemoteWrite,
            _ => return,
        };
        let counts = place.counted;
        if counts {
            place.region.count(side.flag(), error != 0);
        }
        let has_data = event.kind == EventKind::Received && event.bits & WITH_DATA != 0;
        let entry = CqTaggedEntry {
            op_context: null_mut(),
            flags: FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
            len: event.stored as usize,
            // An address that the program has exposed by registering it.
            buf: with_exposed_provenance_mut(event.address as usize),
            data: event.data,
            tag: 0,
        };
        let source = report.source(event.source);
        let done = Done { entry, source, error, prov_errno, left: 0 };
        report.report(Outcome { done, side, reported: has_data && error == 0, counts, work: None });
    }
}
