// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How tasks begin: at once, or behind a fence. An operation with FI_FENCE waits until all that the endpoint has begun
//! before it, to the same target, is over; and what comes behind it, to that target, waits until it has begun.
//!
//! The driver knows no fences: what waits is kept here, and begins when an event says that something is over.

use super::engine::{Engine, Rings};
use super::task::{Act, Held, Parts, Task};
use super::told::Report;
use crate::fi::*;
use std::ffi::c_int;
use weft::matching::Address;

impl<R: Rings> Engine<R> {
    /// Begins what is to be begun, or keeps it behind a fence.
    ///
    /// # Safety
    ///
    /// What is sent can be read, now, if it is injected, or until it is over; what is received can be written as long.
    pub unsafe fn begin(&mut self, task: &Task<'_>) -> Result<(), c_int> {
        let waits = task.act.target().is_some_and(|to| self.waits(to, task.act.fence()));
        if !waits {
            // SAFETY: As the caller says.
            return unsafe { self.begin_or_keep(task) };
        }
        if self.fenced.len() >= self.limits.sends {
            return Err(FI_EAGAIN);
        }
        // SAFETY: As the caller says.
        self.fenced.push(unsafe { Held::of(task) });
        Ok(())
    }

    /// Whether something waits behind a fence, or for room, or for an entry.
    pub fn holds(&self) -> bool {
        !self.fenced.is_empty() || !self.late.is_empty() || self.unposted() > 0
    }

    /// Whether what goes to a target now has to wait.
    fn waits(&self, to: Address, fence: bool) -> bool {
        self.fenced.any_to(to) || fence && self.is_busy(to)
    }

    /// Whether something to a target has begun, or is about to, and is not over.
    fn is_busy(&self, target: Address) -> bool {
        self.operations.any_to(target) || self.late.any_to(target)
    }

    /// Begins what need not wait any more, in its order.
    pub(super) fn pass(&mut self, report: &mut impl Report) {
        let mut all = std::mem::take(&mut self.fenced);
        // What waits for room is older.
        let (mut behind, mut full) = (Vec::new(), !self.late.is_empty());
        while let Some(held) = all.pop() {
            let to = held.act.target();
            let blocked =
                |target| behind.contains(&target) || held.act.fence() && self.is_busy(target);
            if full || to.is_some_and(blocked) {
                behind.extend(to);
                self.fenced.push(held);
                continue;
            }
            // SAFETY: It was kept with what the program has given for it, until it is over.
            match unsafe { self.post_task(&held.task()) } {
                Ok(()) => {}
                Err(FI_EAGAIN) => {
                    full = true;
                    // Else it waits for what is under way, which has an event.
                    self.fenced.stuck = self.has_room();
                    self.fenced.push(held);
                }
                Err(error) => report.report(held.act.failed(error)),
            }
        }
    }

    /// # Safety
    ///
    /// As [`Self::begin`].
    pub(super) unsafe fn post_task(&mut self, task: &Task<'_>) -> Result<(), c_int> {
        let [first, compared, results] = task.pieces;
        // SAFETY: As the caller says.
        unsafe {
            match task.act {
                Act::Send(sending) => self.send(&sending, first),
                Act::Write(remote, data) => self.write(&remote, data, first),
                Act::Read(remote) => self.read(&remote, first),
                Act::Change(remote, change, length, fetches) => {
                    let results = fetches.then_some(results);
                    let parts = Parts { values: first, compared, results };
                    self.change(&remote, change, length, &parts)
                }
                Act::Receive(wanted, context, telling) => {
                    self.receive(&wanted, first, context, telling)
                }
                Act::ReceiveMany(wanted, context, telling, least) => match first {
                    [piece] => self.receive_many(&wanted, *piece, least, context, telling),
                    _ => Err(FI_EINVAL),
                },
            }
        }
    }
}
