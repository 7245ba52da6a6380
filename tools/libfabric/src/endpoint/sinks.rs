// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What was bound to an endpoint, and hears of its operations: completion queues and counters.

use super::engine::Engine;
use super::told::{Outcome, Report, Side};
use crate::av::Av;
use crate::cntr::Cntr;
use crate::cq::Cq;
use crate::deferred::Deferred;
use crate::fi::*;
use std::sync::{Arc, Mutex};
use weft::matching::{Address, Matching};

/// What completions of one direction go to.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    pub cq: Option<Arc<Cq>>,
    /// Only what asks for it is reported.
    pub selective: bool,
}

impl Sink {
    /// Whether the success of an operation with these flags is reported.
    pub fn reports(&self, flags: u64) -> bool {
        !self.selective || flags & FI_COMPLETION != 0
    }
}

/// What was bound to an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    pub av: Option<Arc<Av>>,
    pub sends: Sink,
    pub receives: Sink,
    /// Each with flags of what it counts.
    pub cntrs: Vec<(Arc<Cntr>, u64)>,
}

impl Bound {
    /// Whether a counter counts any of these.
    pub fn counts(&self, flags: u64) -> bool {
        self.cntrs.iter().any(|(_, of)| of & flags != 0)
    }
}

/// What an endpoint has when it is enabled.
#[derive(Debug)]
pub struct Live {
    pub av: Arc<Av>,
    pub sends: Sink,
    pub receives: Sink,
    pub cntrs: Vec<(Arc<Cntr>, u64)>,
    pub address: Address,
    /// Sources are looked for in the address vector.
    pub sources: bool,
    pub engine: Mutex<Engine<Matching>>,
}

/// Reports to the queues and counters of an endpoint.
pub struct Reporter<'a> {
    pub live: &'a Live,
    pub deferred: &'a Deferred,
}

impl Report for Reporter<'_> {
    fn report(&mut self, outcome: Outcome) {
        let Outcome { done, side, reported, counts, work } = outcome;
        let failed = done.error != 0;
        if counts {
            let of = self.live.cntrs.iter().filter(|(_, flags)| flags & side.flag() != 0);
            of.for_each(|(cntr, _)| cntr.count(failed));
        }
        if let Some(number) = work {
            self.deferred.over(number, failed);
        }
        let sink = match side {
            Side::Send | Side::Read | Side::Write => &self.live.sends,
            Side::Receive | Side::RemoteRead | Side::RemoteWrite => &self.live.receives,
        };
        // What others fail to do here is theirs.
        let told = reported || failed && !side.is_remote();
        if let Some(cq) = sink.cq.as_ref().filter(|_| told) {
            cq.push(done);
        }
    }

    fn source(&self, source: (u64, u16)) -> FiAddr {
        match self.live.sources {
            true => self.live.av.table().find(source).unwrap_or(FI_ADDR_UNSPEC),
            false => FI_ADDR_UNSPEC,
        }
    }
}
