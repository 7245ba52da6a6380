// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages and accesses that find no room with the driver: they wait behind each other, and begin when something before
//! them is over.
//!
//! A program that is told FI_EAGAIN tries again. MPI does so in MPI_Isend, and receives nothing meanwhile: ranks that all
//! send more than there is room for would wait for each other for ever. The order of messages to a target is that in
//! which the program has posted them, with what waits behind fences (`fences.rs`), too.

use super::engine::{Engine, Rings};
use super::task::{Held, Task};
use super::told::Report;
use crate::fi::*;
use std::ffi::c_int;

/// How many wait at most: a program that has more does not take what has come.
pub const LATE: usize = 1 << 16;

impl<R: Rings> Engine<R> {
    /// Begins what waits for nothing but room, or keeps it until there is some.
    ///
    /// # Safety
    ///
    /// As [`Engine::begin`].
    pub(super) unsafe fn begin_or_keep(&mut self, task: &Task<'_>) -> Result<(), c_int> {
        // What receives needs no room of this kind.
        let goes = task.act.target().is_some();
        let begun = match goes && !self.late.is_empty() {
            true => Err(FI_EAGAIN),
            // SAFETY: As the caller says.
            false => unsafe { self.post_task(task) },
        };
        if begun != Err(FI_EAGAIN) || !goes || self.late.len() >= LATE {
            return begun;
        }
        // SAFETY: As the caller says.
        self.late.push(unsafe { Held::of(task) });
        self.late.stuck = self.has_room();
        Ok(())
    }

    /// Begins what there is room for now, in its order.
    pub(super) fn catch_up(&mut self, report: &mut impl Report) {
        self.late.stuck = false;
        while let Some(held) = self.late.pop() {
            // SAFETY: It was kept with what the program has given for it, until it is over.
            match unsafe { self.post_task(&held.task()) } {
                Ok(()) => {}
                Err(FI_EAGAIN) => {
                    self.late.push_front(held);
                    // Else it waits for what is under way, which has an event.
                    self.late.stuck = self.has_room();
                    return;
                }
                Err(error) => report.report(held.act.failed(error)),
            }
        }
    }
}
