// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How an endpoint is enabled: it opens a matching interface; and what is done before it is closed.

use super::bits::BEGIN;
use super::common::Common;
use super::engine::{Engine, Limits};
use super::{Bound, Live, SENDS, UNDER_WAY};
use crate::base::lock;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::domain::Domain;
use crate::fi::*;
use crate::progress::Progress;
use crate::regions::Exposes;
use crate::{address, log};
use std::ffi::c_int;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft::matching::{EventKind, Matching, MatchingOptions};

/// Slots of a command ring: a short message takes two, one to a region three.
const COMMANDS: u32 = 2 * SENDS as u32;
const EVENTS: u32 = 1024;
/// As few list entries as an endpoint is content with.
const FEWEST: usize = 64;
/// How long the driver may take to begin.
const BEGINS: Duration = Duration::from_secs(5);
/// How long an endpoint that is closed waits for what was injected.
const ENDS: Duration = Duration::from_secs(1);

/// Opens a matching interface. One with fewer entries will do, if the user has its share of them.
fn interface(domain: &Domain) -> Result<(Matching, usize), c_int> {
    let mut entries = log::ENTRIES.get();
    loop {
        let options = MatchingOptions::default().entries(entries as u32);
        match domain.port.matching(&options.commands(COMMANDS).events(EVENTS)) {
            Ok(matching) => return Ok((matching, entries)),
            Err(weft::Error::Share { .. } | weft::Error::Limit(_)) if entries / 2 >= FEWEST => {
                entries /= 2;
            }
            Err(error) => {
                log::warning!(FI_LOG_EP_CTRL, "no matching interface: {error}");
                return Err(match error {
                    weft::Error::Share { .. } | weft::Error::Limit(_) => FI_ENOSPC,
                    weft::Error::Gone => FI_ENODEV,
                    _ => FI_EIO,
                });
            }
        }
    }
}

/// Waits until an interface matches: what was before it in the ring is done then.
fn begin(engine: &mut Engine<Matching>) -> Result<(), c_int> {
    let end = Instant::now() + BEGINS;
    loop {
        if let Some(event) = engine.rings().take() {
            match (event.kind, event.status) {
                (EventKind::Command, 0) if event.context == BEGIN => return Ok(()),
                // It was not there before: no message has come, so a command has failed.
                (EventKind::Command, _) => return Err(FI_ENOSPC),
                _ => {}
            }
        } else {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || engine.rings().wait(Some(left)).is_err() {
                return Err(FI_EIO);
            }
        }
    }
}

impl Common {
    /// Opens an interface, and has it match.
    pub(super) fn enable(self: &Arc<Self>) -> Result<(), c_int> {
        let bound = lock(&self.bound).clone();
        let av = bound.av.clone().ok_or(FI_ENOAV)?;
        let directions = [(FI_SEND | FI_READ | FI_WRITE, &bound.sends), (FI_RECV, &bound.receives)];
        for (caps, sink) in directions {
            if self.caps & caps != 0 && sink.cq.is_none() && !bound.counts(caps) {
                return Err(FI_ENOCQ);
            }
        }
        let Bound { sends, receives, cntrs, .. } = bound;
        if self.live.get().is_some() {
            return Err(FI_EOPBADSTATE);
        }
        let (matching, entries) = interface(&self.domain)?;
        let address = matching.address();
        let overflow = log::OVERFLOW.get() << 20;
        let limits = Limits {
            sends: SENDS,
            under_way: UNDER_WAY,
            receives: entries / 2,
            regions: entries / 4,
            overflow,
        };
        let mut engine = Engine::new(matching, limits);
        begin(&mut engine)?;
        let sources = self.caps & FI_SOURCE != 0;
        let engine = Mutex::new(engine);
        let live = Live { av, sends, receives, cntrs, address, sources, engine };
        self.live.set(live).map_err(|_| FI_EOPBADSTATE)?;
        log::info!(FI_LOG_EP_CTRL, "enabled {} with {entries} entries", address::name(&address));
        self.join()
    }

    /// All queues and counters that it is bound to, each once.
    fn targets(live: &Live) -> (Vec<&Arc<Cq>>, Vec<&Arc<Cntr>>) {
        let sinks = [&live.sends, &live.receives];
        let mut cqs: Vec<_> = sinks.iter().filter_map(|sink| sink.cq.as_ref()).collect();
        cqs.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let mut cntrs: Vec<&Arc<Cntr>> = Vec::new();
        for (cntr, _) in &live.cntrs {
            if !cntrs.iter().any(|known| Arc::ptr_eq(known, cntr)) {
                cntrs.push(cntr);
            }
        }
        (cqs, cntrs)
    }

    /// Has its events handled when a queue or counter of its is looked at.
    fn join(self: &Arc<Self>) -> Result<(), c_int> {
        let Some(live) = self.live.get() else { return Ok(()) };
        let (cqs, cntrs) = Self::targets(live);
        let member: Arc<dyn Progress> = self.clone();
        self.domain.attendant.add(&member)?;
        cqs.into_iter().try_for_each(|cq| cq.add(&member))?;
        cntrs.into_iter().try_for_each(|cntr| cntr.add(&member))?;
        let place: Arc<dyn Exposes> = self.clone();
        self.domain.regions.join(&place)
    }

    pub(super) fn leave(self: &Arc<Self>) {
        let Some(live) = self.live.get() else { return };
        let place: Arc<dyn Exposes> = self.clone();
        self.domain.regions.leave(&place);
        let (cqs, cntrs) = Self::targets(live);
        let member: Arc<dyn Progress> = self.clone();
        self.domain.attendant.forget(&member);
        cqs.into_iter().for_each(|cq| cq.forget(&member));
        cntrs.into_iter().for_each(|cntr| cntr.forget(&member));
    }

    /// Waits until what was injected is with its targets: a program that has injected its last message closes the
    /// endpoint.
    pub(super) fn finish(&self) {
        let Some(live) = self.live.get() else { return };
        let end = Instant::now() + ENDS;
        let mut engine = lock(&live.engine);
        while engine.is_injecting() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || engine.rings().wait(Some(left)).is_err() {
                return;
            }
            engine.progress(&mut self.reporter(live));
        }
    }
}
