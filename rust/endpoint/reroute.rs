// SPDX-License-Identifier: GPL-2.0

//! Carries an open function over a change of its route: what it was asked goes on where it was. The order
//! of the steps is that of [`crate::proto::endpoint::reroute`].
//!
//! Meanwhile the function is *held*: programs submit work, which waits, and reap what was done before.

use super::{
    area::Area,
    function::{Function, Inner, State},
    reason::Why,
    registers::Registers,
    wanted::find,
    Endpoints,
};
use crate::{
    fabric::Node,
    hw::{
        endpoint_slots::{EndpointSlots, InboundMapping},
        Port,
    },
    proto::endpoint::{
        reroute::{self, Seen, Step},
        WQE_BYTES,
    },
    sys::{area::wmb, clock, ext},
};
use core::ops::ControlFlow::{self, Break, Continue};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How long an endpoint is waited for that is to stop; after that it is asked again later.
const PAUSE_TIME: Delta = Delta::from_millis(20);
const PAUSE_POLL: Delta = Delta::from_micros(100);
/// How long steps may take in a row, beside the last of them. More than it takes if nothing changes meanwhile:
/// an endpoint that always says something else holds up neither the timer of the node nor programs.
const STEPS_TIME: Delta = Delta::from_millis(100);

impl Function {
    /// Has the function follow the hierarchy of this host. Returns why it must end, if it is not there as
    /// before.
    pub(super) fn follow_hierarchy(&self, node: &Node) -> Option<Why> {
        let Ok(there) = find(node, &self.made.wanted) else {
            return Some(Why::Withdrawn);
        };
        let (made, given) = (&self.made, &there.given);
        let same = there.lid == made.lid
            && (given.base, given.limit) == (made.given.base, made.given.limit);
        let mut inner = self.inner.lock();
        let at = inner.moves.unwrap_or(inner.into);
        match &mut inner.reroute {
            Some(reroute) if same => {
                if at != given.into {
                    reroute.lost(clock::now_ms());
                    inner.moves = Some(given.into);
                }
                None
            }
            None if same && *given == made.given => None,
            // The way to it is another one, or the endpoint has begun anew.
            _ => Some(Why::Route),
        }
    }

    /// Does for a held function what can be done now. Ends it if that is of no use. Sleeps.
    pub(super) fn keep_on(&self, endpoints: &Endpoints, port: &dyn Port) {
        let Some(slots) = port.endpoint_slots() else {
            return;
        };
        let mut inner = self.inner.lock();
        let end = match inner.state {
            State::Open => self.next_steps(slots, &mut inner),
            _ => None,
        };
        let held = inner.is_held();
        drop(inner);
        match end {
            Some(why) => self.end(endpoints, Some(port), why),
            // There may be completions, and there is room for work again.
            None if !held => self.wake(),
            None => {}
        }
    }

    /// Does steps until there is nothing to do now, or it takes too long. Returns why the function must end.
    fn next_steps(&self, slots: &dyn EndpointSlots, inner: &mut Inner) -> Option<Why> {
        let registers = self.registers(slots);
        let since = Instant::<Monotonic>::now();
        let end = loop {
            match self.next_step(slots, &registers, inner) {
                Ok(Continue(())) if since.elapsed() < STEPS_TIME || inner.is_filled() => {}
                Ok(Break(end)) => break end,
                // What fails is tried again as long as the function may be held.
                Ok(Continue(())) | Err(_) => break None,
            }
        };
        // The lock is given back: what is submitted from now on is not written yet.
        if let Some(reroute) = &mut inner.reroute {
            reroute.interrupted();
        }
        end
    }

    /// Does the next step. Breaks if there is nothing more to do now, with the reason if the function must end.
    fn next_step(
        &self,
        slots: &dyn EndpointSlots,
        registers: &Registers<'_>,
        inner: &mut Inner,
    ) -> Result<ControlFlow<Option<Why>>> {
        let seen = self.see(registers, slots);
        let Some(reroute) = &mut inner.reroute else {
            return Ok(Break(None));
        };
        match reroute.step(&seen, clock::now_ms()) {
            Step::Wait => return Ok(Break(None)),
            Step::Pause(token) => self.pause(registers, token)?,
            Step::Open(theirs) => {
                self.open_again(slots, inner)?;
                if let Some(reroute) = &mut inner.reroute {
                    reroute.opened(theirs);
                }
            }
            Step::Fill => self.fill(registers, inner)?,
            Step::Go(theirs) => {
                wmb();
                registers.set(ext::WEFT_EP_GO, theirs)?;
                registers.ring();
            }
            Step::Works(ours) => {
                inner.route = Some(ours);
                return Ok(Break(None));
            }
            Step::Gone | Step::Late { back: false } => return Ok(Break(Some(Why::Route))),
            Step::Failed(code) => return Ok(Break(Some(Why::Failed(code)))),
            Step::Late { back: true } => {
                return Ok(Break(Some(Why::Failed(ext::WEFT_EP_FAIL_CQ))));
            }
        }
        Ok(Continue(()))
    }

    fn see(&self, registers: &Registers<'_>, slots: &dyn EndpointSlots) -> Seen {
        let before = registers.route().filter(|_| slots.is_open(self.made.slot));
        let status = registers.get(ext::WEFT_EP_STATUS);
        let seen = reroute::Registers {
            ctrl: registers.get(ext::WEFT_EP_CTRL),
            enabled: status & ext::WEFT_EP_ENABLED != 0,
            failed: (status & ext::WEFT_EP_FAILED) >> ext::WEFT_EP_FAILED.trailing_zeros(),
            route: registers.get(ext::WEFT_EP_ROUTE),
            go: registers.get(ext::WEFT_EP_GO),
            go_seen: registers.get(ext::WEFT_EP_GO_SEEN),
            probed: registers.get(ext::WEFT_EP_PROBED) == 1,
        };
        Seen {
            route: before.filter(|_| status != u32::MAX && registers.route() == before),
            registers: seen,
        }
    }

    /// Has the function do nothing more, and waits for a moment until it does so. `EBUSY`: it has not said
    /// so yet.
    fn pause(&self, registers: &Registers<'_>, token: u32) -> Result {
        registers.set(ext::WEFT_EP_GO, token)?;
        registers.ring();
        let since = Instant::<Monotonic>::now();
        while registers.get(ext::WEFT_EP_GO_SEEN) != token {
            if since.elapsed() >= PAUSE_TIME {
                return Err(EBUSY);
            }
            fsleep(PAUSE_POLL);
        }
        Ok(())
    }

    /// Opens all memory to the function once more, by the gate by which it comes in now: when this returns
    /// the endpoint has it. Errors as of [`EndpointSlots::open`].
    fn open_again(&self, slots: &dyn EndpointSlots, inner: &mut Inner) -> Result {
        let slot = self.made.slot;
        if let Some(into) = inner.moves {
            slots.take(slot, self.remote(into))?;
            inner.into = into;
            inner.moves = None;
        }
        if let Some(mapping) = self.queue_mapping(inner)? {
            slots.open(slot, 0, mapping)?;
        }
        let areas = self.all_areas();
        let areas = areas.iter().flatten();
        let open = |(n, mapping): (usize, InboundMapping)| slots.open(slot, n, mapping);
        areas
            .filter_map(|area: &Arc<Area>| Some((area.n, area.mapping()?)))
            .try_for_each(open)
    }

    /// Writes once more what may not have arrived: work in the function's memory, and the counts.
    fn fill(&self, registers: &Registers<'_>, inner: &mut Inner) -> Result {
        let ledger = &inner.ledger;
        let (done, posted) = (ledger.done(), ledger.posted());
        if self.made.places.wq.own {
            let window = registers.window()?;
            for n in 0..ledger.outstanding() {
                let element = ledger.element(done.wrapping_add(n));
                let wqe = inner.wqes.get(element).ok_or(EIO)?;
                window.copy_out(self.made.places.wq.at as usize + element * WQE_BYTES, wqe)?;
            }
        }
        self.expect(registers, inner);
        registers.taken(done)?;
        wmb();
        registers.set(ext::WEFT_EP_WQ + ext::WEFT_EP_Q_DOORBELL, posted)
    }
}
