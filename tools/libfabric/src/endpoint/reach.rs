// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The regions of a domain, at an endpoint: how long a program waits until others can reach one, and until they cannot
//! any more.

use super::Live;
use super::common::Common;
use super::engine::Engine;
use crate::base::lock;
use crate::fi::*;
use crate::progress::Progress;
use crate::regions::{Exposes, Region};
use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft::matching::Matching;

/// How long the driver may take to answer, and what is under way to end.
const ENDS: Duration = Duration::from_secs(5);
/// How long to wait for a slot, and before it is asked again whether something is over.
const SOON: Duration = Duration::from_millis(1);

/// Handles events until something is known; `None`: time is up, or the port is gone.
fn known<T>(
    common: &Common,
    live: &Live,
    engine: &mut Engine<Matching>,
    end: Instant,
    look: impl Fn(&mut Engine<Matching>) -> Option<T>,
) -> Option<T> {
    loop {
        if let Some(known) = look(engine) {
            return Some(known);
        }
        if engine.progress(&mut common.reporter(live)) {
            continue;
        }
        let left = end.saturating_duration_since(Instant::now());
        // Nothing tells that there is a slot.
        let nap = if engine.is_settled() { left } else { left.min(SOON) };
        if left.is_zero() || engine.rings().wait(Some(nap)).is_err() {
            return None;
        }
    }
}

impl Common {
    /// The rights that others have by this endpoint.
    fn rights(&self, region: &Region) -> u64 {
        match self.caps & (FI_RMA | FI_ATOMIC) {
            0 => 0,
            _ => self.caps & region.access & (FI_REMOTE_READ | FI_REMOTE_WRITE),
        }
    }
}

impl Exposes for Common {
    fn expose(&self, region: &Arc<Region>) -> Result<(), c_int> {
        let rights = self.rights(region);
        let Some(live) = self.live.get().filter(|_| rights != 0) else { return Ok(()) };
        let mut engine = lock(&live.engine);
        let at = engine.expose(region, rights, self.caps & FI_RMA_EVENT != 0)?;
        let end = Instant::now() + ENDS;
        let appended = known(self, live, &mut engine, end, |engine| engine.appended(at));
        if appended != Some(Ok(())) {
            engine.abandon(at);
        }
        appended.unwrap_or(Err(FI_EIO))
    }

    fn withdraw(&self, region: &Arc<Region>) -> Result<(), c_int> {
        let Some(live) = self.live.get() else { return Ok(()) };
        let mut engine = lock(&live.engine);
        let Some(at) = engine.exposed_as(region) else { return Ok(()) };
        let end = Instant::now() + ENDS;
        loop {
            engine.withdraw(at);
            match known(self, live, &mut engine, end, |engine| engine.withdrawn(at)) {
                Some(true) => return Ok(()),
                Some(false) if Instant::now() < end => {}
                // Of a port that is gone nothing is to come; it is found out below.
                None if Instant::now() < end => {}
                _ => return Err(FI_EBUSY),
            }
            // Something is pulled to it, or got from it, and has no event.
            if engine.rings().wait(Some(SOON)).is_err() {
                // The port is gone, and with it all that was under way.
                return Ok(());
            }
        }
    }

    fn events(self: Arc<Self>) -> Arc<dyn Progress> {
        self
    }
}
