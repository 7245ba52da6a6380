// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint and its aliases have in common: all but the flags of operations that are given none.

use super::engine::Engine;
use super::sinks::{Bound, Live, Reporter};
use super::task::Task;
use super::told::{Outcome, Report};
use crate::av::Av;
use crate::base::lock;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::fi::*;
use crate::progress::Progress;
use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use weft::matching::Matching;

#[derive(Debug)]
pub struct Common {
    pub domain: Arc<Domain>,
    pub caps: u64,
    /// Bytes that a buffer for many messages has at least.
    pub least_room: AtomicUsize,
    /// Aliases that are not closed.
    pub aliases: AtomicUsize,
    pub bound: Mutex<Bound>,
    pub live: OnceLock<Live>,
}

impl Common {
    pub fn new(domain: Arc<Domain>, caps: u64, least_room: usize) -> Self {
        Common {
            domain,
            caps,
            least_room: AtomicUsize::new(least_room),
            aliases: AtomicUsize::new(0),
            bound: Mutex::default(),
            live: OnceLock::new(),
        }
    }

    /// What tells it apart from others.
    pub fn key(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// What it has when it is enabled.
    pub fn live(&self) -> Result<&Live, c_int> {
        self.live.get().ok_or(FI_EOPBADSTATE)
    }

    pub fn has_aliases(&self) -> bool {
        self.aliases.load(Ordering::Relaxed) > 0
    }

    pub fn bind_av(&self, av: &Arc<Av>) {
        lock(&self.bound).av = Some(av.clone());
    }

    pub fn bind_cq(&self, cq: &Arc<Cq>, flags: u64) -> Result<(), c_int> {
        if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(FI_EBADFLAGS);
        }
        let mut bound = lock(&self.bound);
        let Bound { sends, receives, .. } = &mut *bound;
        for (sink, flag) in [(sends, FI_TRANSMIT), (receives, FI_RECV)] {
            if flags & flag == 0 {
                continue;
            }
            if sink.cq.is_some() {
                return Err(FI_EINVAL);
            }
            sink.cq = Some(cq.clone());
            sink.selective = flags & FI_SELECTIVE_COMPLETION != 0;
        }
        Ok(())
    }

    pub fn bind_cntr(&self, cntr: &Arc<Cntr>, flags: u64) {
        lock(&self.bound).cntrs.push((cntr.clone(), flags));
    }

    /// Does something with the engine; what finds no place is tried again when events have been handled.
    pub fn with(
        &self,
        mut act: impl FnMut(&mut Engine<Matching>) -> Result<(), c_int>,
    ) -> Result<(), c_int> {
        let live = self.live()?;
        let mut engine = lock(&live.engine);
        let result = match act(&mut engine) {
            Err(FI_EAGAIN) if engine.progress(&mut self.reporter(live)) => act(&mut engine),
            result => result,
        };
        let holds = engine.holds();
        drop(engine);
        if holds {
            // Without the thread it begins when the program looks.
            let _ = self.domain.attendant.summon();
        }
        result
    }

    /// Begins a task.
    ///
    /// # Safety
    ///
    /// As [`Engine::begin`].
    pub unsafe fn begin(&self, task: &Task<'_>) -> Result<(), c_int> {
        // SAFETY: As the caller says.
        self.with(|engine| unsafe { engine.begin(task) })
    }

    /// Tells what has become of something.
    pub fn tell(&self, outcome: Outcome) {
        if let Ok(live) = self.live() {
            self.reporter(live).report(outcome);
        }
    }

    pub fn reporter<'a>(&'a self, live: &'a Live) -> Reporter<'a> {
        Reporter { live, deferred: &self.domain.deferred }
    }
}

impl Progress for Common {
    /// Handles what the driver has said, and begins what is due then.
    fn progress(&self) -> bool {
        let Some(live) = self.live.get() else { return false };
        let any = lock(&live.engine).progress(&mut self.reporter(live));
        self.domain.deferred.run();
        any
    }

    fn poll(&self) -> bool {
        let Some(live) = self.live.get() else { return false };
        let any = lock(&live.engine).poll(&mut self.reporter(live));
        self.domain.deferred.run();
        any
    }

    fn rest(&self) {
        if let Some(live) = self.live.get() {
            lock(&live.engine).rings().rest();
        }
    }

    fn is_settled(&self) -> bool {
        self.live.get().is_none_or(|live| lock(&live.engine).is_settled())
    }

    fn lend(&self, act: &mut dyn FnMut(BorrowedFd<'_>)) {
        if let Some(live) = self.live.get() {
            act(lock(&live.engine).rings().as_fd());
        }
    }

    fn holds(&self) -> bool {
        self.live.get().is_some_and(|live| lock(&live.engine).holds())
    }
}
