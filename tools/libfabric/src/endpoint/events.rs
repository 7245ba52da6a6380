// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What becomes of events of the driver: completions of operations, and other commands.
//!
//! An operation that is taken back may end by a message all the same, and what the driver says of both comes in any
//! order: its number is given away when all is said.

use super::bits::{BEGIN, DATA, REGION, SLAB, TAG, TAGGED};
use super::engine::{Engine, Rings};
use super::operations::{Accessing, Operation, What};
use super::told::{Outcome, Report, Side};
use crate::base::error_of;
use crate::completion::Done;
use crate::fi::*;
use std::ffi::c_int;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use weft::matching::{Event, EventKind};

/// Events that are handled before others get the lock.
const BATCH: usize = 256;
/// Events whose places are given back together.
const GIVE_BACK: usize = 64;

impl<R: Rings> Engine<R> {
    /// Handles events of the driver, not all of them if there are many. Returns whether there were any.
    pub fn progress(&mut self, report: &mut impl Report) -> bool {
        let mut handled = 0;
        let mut fed = false;
        while handled < BATCH {
            let Some(event) = self.rings.take() else { break };
            handled += 1;
            fed |= event.status != libc::ENOSPC as u32;
            self.handle(&event, report);
            if handled % GIVE_BACK == 0 {
                let _ = self.rings.give_back();
            }
        }
        if handled > 0 {
            // If the port is gone, nothing waits for room.
            let _ = self.rings.give_back();
        }
        if fed {
            // Whatever has ended may have left an entry.
            self.feed();
            self.post_more();
        }
        self.claim_more();
        if self.early.has_searches() {
            self.answer_searches(report);
        }
        if !self.waiting.is_empty() {
            self.flush();
        }
        if !self.late.is_empty() {
            self.catch_up(report);
        }
        if !self.fenced.is_empty() {
            self.pass(report);
        }
        handled > 0
    }

    /// The same, for a thread that does so again and again: if there are none, the driver's work is done in it.
    pub fn poll(&mut self, report: &mut impl Report) -> bool {
        // A port that is gone has no work, and the events that it has left are handled all the same.
        self.progress(report) || self.rings.poll().is_ok() && self.progress(report)
    }

    fn handle(&mut self, event: &Event, report: &mut impl Report) {
        let number = event.context;
        if number == BEGIN {
            return;
        }
        if number & SLAB != 0 {
            return self.handle_slab(event, (number & !SLAB) as usize);
        }
        if number & REGION != 0 {
            return self.handle_region(event, report);
        }
        match event.kind {
            EventKind::Sent => self.sent(event, report),
            EventKind::Received => self.received(event, report),
            EventKind::Command => self.commanded(event, report),
            _ => {}
        }
    }

    fn handle_slab(&mut self, event: &Event, slab: usize) {
        let changed = match event.kind {
            EventKind::Unlinked => self.overflow.unlinked(slab),
            EventKind::Freed => self.overflow.freed(slab),
            // There was no entry for it: as if it had been filled, and read.
            EventKind::Command if event.status != 0 => {
                let _ = self.overflow.unlinked(slab) && self.overflow.freed(slab);
                let command = self.overflow.next().map(|slab| {
                    let number = SLAB | slab as u64;
                    (number, self.overflow.command(slab, number))
                });
                self.starved.extend(command);
                false
            }
            _ => false,
        };
        if changed {
            self.supply();
        }
    }

    fn sent(&mut self, event: &Event, report: &mut impl Report) {
        let Some(operation) = self.operations.remove(event.context) else { return };
        self.sends = self.sends.saturating_sub(1);
        let (injected, flags, side) = match &operation.what {
            What::Remote(access) if operation.kind & FI_READ != 0 => {
                (access.injected, operation.kind, Side::Read)
            }
            What::Remote(access) => (access.injected, operation.kind, Side::Write),
            What::Send { injected, .. } => (*injected, FI_SEND | operation.kind, Side::Send),
            _ => (false, FI_SEND | operation.kind, Side::Send),
        };
        self.injected = self.injected.saturating_sub(usize::from(injected));
        let (error, prov_errno) = match &operation.what {
            What::Remote(access) => accessed(access, event),
            _ if event.status == 0 => (0, 0),
            _ => (error_of(event.status as c_int), event.status as c_int),
        };
        let done = of(&operation, flags, error, prov_errno);
        report.report(Outcome::of(done, side, operation.telling));
    }

    fn received(&mut self, event: &Event, report: &mut impl Report) {
        let source = report.source(event.source);
        let Some(operation) = self.operations.get(event.context) else { return };
        let mut outcome = arrived(operation, event, source);
        let over = match &mut operation.what {
            What::Receive(receive) => {
                if let Some((area, pieces)) = &receive.pieces {
                    // SAFETY: The program has given the pieces for this receive, which is over: so the driver does not
                    // write to the area any more.
                    unsafe { area.scatter(event.stored as usize, pieces) };
                    outcome.done.entry.buf =
                        pieces.first().map_or(null_mut(), |piece| piece.iov_base);
                }
                true
            }
            What::Many { filled, .. } => {
                let over = filled.ended(event.address, event.length, event.unlinked);
                if over && !filled.was_taken_back() {
                    outcome.done.entry.flags |= FI_MULTI_RECV;
                }
                over
            }
            What::Over => {
                self.operations.remove(event.context);
                return;
            }
            What::Drop => {
                // It was to be dropped: that nothing of it was stored is no error.
                let done = &mut outcome.done;
                (done.error, done.prov_errno, done.left, done.entry.len) = (0, 0, 0, 0);
                true
            }
            _ => return,
        };
        let taken_back =
            matches!(&operation.what, What::Many { filled, .. } if filled.was_taken_back());
        report.report(outcome);
        if over && taken_back {
            self.fail(event.context, FI_ECANCELED, 0, report);
        } else if over {
            self.end(event.context);
        }
    }

    pub(super) fn commanded(&mut self, event: &Event, report: &mut impl Report) {
        let number = event.context;
        let prov_errno = event.status as c_int;
        let source = report.source(event.source);
        let Some(operation) = self.operations.get(number) else { return };
        match &mut operation.what {
            What::Search { claims } => {
                let claims = *claims;
                let mut outcome = arrived(operation, event, source);
                // It says how long the message is; nothing was stored.
                outcome.done.entry.buf = null_mut();
                outcome.done.entry.len = event.length as usize;
                outcome.done.left = 0;
                outcome.counts = false;
                report.report(outcome);
                if claims && prov_errno == 0 {
                    operation.what = What::Claimed;
                } else {
                    self.end(number);
                }
            }
            What::Receive(receive) => {
                if receive.unlinking && matches!(prov_errno, 0 | libc::ENOENT) {
                    receive.unlinking = false;
                    if prov_errno == 0 {
                        self.fail(number, FI_ECANCELED, 0, report);
                    }
                    // Or a message was for it: it ends as others do.
                    return;
                }
                match receive.append {
                    Some(append) if prov_errno == libc::ENOSPC && !receive.unlinking => {
                        self.refused(number, &append);
                    }
                    // It was to be given back, and was never there.
                    Some(_) if prov_errno == libc::ENOSPC => {
                        self.fail(number, FI_ECANCELED, 0, report)
                    }
                    _ => self.fail(number, error_of(prov_errno), prov_errno, report),
                }
            }
            What::Many { append, filled, unlinking } => {
                if *unlinking && matches!(prov_errno, 0 | libc::ENOENT) {
                    *unlinking = false;
                    if prov_errno == 0 && filled.taken_back(event.data) {
                        self.fail(number, FI_ECANCELED, 0, report);
                    }
                    return;
                }
                if prov_errno == libc::ENOSPC && !*unlinking {
                    let append = *append;
                    self.refused(number, &append);
                } else if prov_errno == libc::ENOSPC {
                    self.fail(number, FI_ECANCELED, 0, report);
                } else {
                    self.fail(number, error_of(prov_errno), prov_errno, report);
                }
            }
            What::Drop => self.fail(number, error_of(prov_errno), prov_errno, report),
            What::Early => self.claimed(event),
            // The answer to a command that was not needed any more.
            What::Over => {
                self.operations.remove(number);
            }
            What::Send { .. } | What::Remote(_) | What::Claimed => {}
        }
    }

    /// Ends a receive with an error.
    pub(super) fn fail(
        &mut self,
        number: u64,
        error: c_int,
        prov_errno: c_int,
        report: &mut impl Report,
    ) {
        let Some(operation) = self.operations.get(number) else { return };
        let mut flags = FI_RECV | operation.kind;
        if matches!(operation.what, What::Many { .. }) {
            flags |= FI_MULTI_RECV;
        }
        let done = of(operation, flags, error, prov_errno);
        let mut outcome = Outcome::of(done, Side::Receive, operation.telling);
        outcome.counts &= !matches!(operation.what, What::Search { .. });
        report.report(outcome);
        self.end(number);
    }

    /// A receive is over. Its number is free, unless the driver has to say something of it yet.
    fn end(&mut self, number: u64) {
        self.receives = self.receives.saturating_sub(1);
        let Some(operation) = self.operations.get(number) else { return };
        self.buffers = self.buffers.saturating_sub(usize::from(operation.what.append().is_some()));
        let unlinking = match &operation.what {
            What::Receive(receive) => receive.unlinking,
            What::Many { unlinking, .. } => *unlinking,
            _ => false,
        };
        if unlinking {
            operation.what = What::Over;
        } else {
            self.operations.remove(number);
        }
    }
}

/// What has become of an access: an error, and that of the driver. What was read goes where the pieces are.
fn accessed(access: &Accessing, event: &Event) -> (c_int, c_int) {
    match event.status as c_int {
        // The region ends before what is meant does.
        0 if event.stored < access.length as u64 => (error_of(libc::EMSGSIZE), libc::EMSGSIZE),
        0 => {
            if let Some((area, pieces)) = &access.pieces {
                // SAFETY: The program has given the pieces for this access, which is over: so the driver does not write
                // to the area any more.
                unsafe { area.scatter(access.length, pieces) };
            }
            (0, 0)
        }
        libc::ENOENT => (FI_ENOKEY, libc::ENOENT),
        errno => (error_of(errno), errno),
    }
}

/// What is told of an operation, without a message.
fn of(operation: &Operation, flags: u64, error: c_int, prov_errno: c_int) -> Done {
    let context = operation.context;
    Done {
        entry: CqTaggedEntry {
            op_context: context,
            flags,
            len: 0,
            buf: null_mut(),
            data: 0,
            tag: 0,
        },
        source: FI_ADDR_UNSPEC,
        error,
        prov_errno,
        left: 0,
    }
}

/// What is told of a message that has come, or was found, or was to.
fn arrived(operation: &Operation, event: &Event, source: FiAddr) -> Outcome {
    let mut flags = FI_RECV | operation.kind;
    if event.bits & DATA != 0 {
        flags |= FI_REMOTE_CQ_DATA;
    }
    let prov_errno = event.status as c_int;
    let error = match prov_errno {
        0 if event.truncated => FI_ETRUNC,
        0 => 0,
        errno => error_of(errno),
    };
    let mut done = of(operation, flags, error, prov_errno);
    done.entry.len = event.stored as usize;
    // An address that the program has exposed by posting it.
    done.entry.buf = with_exposed_provenance_mut(event.address as usize);
    done.entry.data = if event.bits & DATA != 0 { event.data } else { 0 };
    done.entry.tag = if event.bits & TAGGED != 0 { event.bits & TAG } else { 0 };
    done.left = event.length.saturating_sub(event.stored) as usize;
    if prov_errno == 0 {
        done.source = source;
    }
    Outcome::of(done, Side::Receive, operation.telling)
}
