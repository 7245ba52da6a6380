// SPDX-License-Identifier: GPL-2.0 OR MIT

//! When a task begins: at once, or when a counter has come so far, as FI_TRIGGER or deferred work says.

use super::Endpoint;
use super::common::Common;
use super::sinks::Live;
use super::task::{Held, Task};
use super::told::Telling;
use crate::base::{class, core_of};
use crate::cntr::Cntr;
use crate::deferred::{Completion, Kind, Place, Waiting, Work};
use crate::fi::*;
use crate::tally::{Hold, Tally};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The counter that deferred work waits for, and the one that its end is counted by.
#[derive(Clone, Copy, Debug)]
pub struct Later<'a> {
    pub tally: &'a Arc<Tally>,
    pub threshold: u64,
    pub completion: Option<&'a Arc<Tally>>,
    /// The address of what the program has given.
    pub key: usize,
}

/// How something is to begin, and how its end is told.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    pub flags: u64,
    pub context: *mut c_void,
    pub receives: bool,
    /// There is no completion, whatever the flags say.
    pub silent: bool,
    /// It is deferred work.
    pub later: Option<&'a Later<'a>>,
}

/// A task that waits.
#[derive(Debug)]
struct Pending {
    common: Arc<Common>,
    held: Held,
}

impl Work for Pending {
    fn begin(&self) -> Result<(), c_int> {
        // SAFETY: What the program has given for it is there until it is over, or taken back.
        unsafe { self.common.begin(&self.held.task()) }
    }

    fn fail(&self, error: c_int) {
        self.common.tell(self.held.act.failed(error));
    }

    fn place(&self) -> Option<Place> {
        let receives = self.held.act.target().is_none();
        Some(Place { endpoint: self.common.key(), receives })
    }
}

/// What has counted, of a counter of the program.
///
/// # Safety
///
/// It is null, or an object of this provider that is not closed.
pub unsafe fn tally_of<'a>(cntr: *mut FidCntr) -> Result<&'a Arc<Tally>, c_int> {
    // SAFETY: As the caller says.
    if cntr.is_null() || unsafe { class(cntr.cast()) } != FI_CLASS_CNTR {
        return Err(FI_EINVAL);
    }
    Ok(&core_of!(cntr, FidCntr, Cntr).tally)
}

impl Endpoint {
    /// Has a task begin.
    ///
    /// # Safety
    ///
    /// As [`Engine::begin`](super::engine::Engine::begin); with FI_TRIGGER the context is what fi_trigger(3) says.
    pub(super) unsafe fn start<'t>(
        &self,
        how: &How<'_>,
        make: impl FnOnce(&Live, Telling) -> Result<Task<'t>, c_int>,
    ) -> Result<(), c_int> {
        let live = self.live()?;
        let sink = if how.receives { &live.receives } else { &live.sends };
        let reported = !how.silent && sink.reports(how.flags);
        let triggered = how.flags & FI_TRIGGER != 0;
        if self.caps & FI_TRIGGER == 0 && (triggered || how.later.is_some()) {
            return Err(FI_EOPNOTSUPP);
        }
        let deferred = &self.domain.deferred;
        if let Some(later) = how.later {
            let number = deferred.number();
            let reported = how.flags & FI_COMPLETION != 0;
            let task = make(live, Telling { reported, work: Some(number) })?;
            let hold = later.completion.map(Hold::new);
            let counted = hold.map(|hold| Box::new(|failed| hold.count(failed)) as Completion);
            let kind = (Kind::Deferred, later.key);
            // SAFETY: As the caller says.
            return unsafe {
                self.wait_for(later.tally, later.threshold, kind, (number, counted), &task)
            };
        }
        let task = make(live, reported.into())?;
        if !triggered {
            // SAFETY: As the caller says.
            return unsafe { self.begin(&task) };
        }
        let context = how.context.cast::<TriggeredContext>();
        // SAFETY: As the caller says.
        let context = unsafe { context.as_ref() }.ok_or(FI_EINVAL)?;
        if context.event_type != FI_TRIGGER_THRESHOLD {
            return Err(FI_ENOSYS);
        }
        // SAFETY: As the caller says.
        let tally = unsafe { tally_of(context.cntr) }?;
        let kind = (Kind::Triggered, how.context.addr());
        // SAFETY: As the caller says.
        unsafe {
            let number = deferred.number();
            self.wait_for(tally, context.threshold as u64, kind, (number, None), &task)
        }
    }

    /// # Safety
    ///
    /// As [`Held::of`].
    unsafe fn wait_for(
        &self,
        tally: &Arc<Tally>,
        threshold: u64,
        (kind, key): (Kind, usize),
        (number, completion): (u64, Option<Completion>),
        task: &Task<'_>,
    ) -> Result<(), c_int> {
        if !tally.is_of(&self.domain.deferred) {
            return Err(FI_EINVAL);
        }
        // SAFETY: As the caller says.
        let held = unsafe { Held::of(task) };
        let work = Arc::new(Pending { common: self.common().clone(), held });
        tally.defer(Waiting { number, kind, key, threshold, work, completion })
    }
}
