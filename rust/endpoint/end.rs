// SPDX-License-Identifier: GPL-2.0

//! How an open function ends: how that is detected, and what is given back.

use super::{
    area::Backing,
    function::{Function, Inner, State},
    held::close,
    reason::Why,
    registers::Registers,
    Endpoints,
};
use crate::{
    hw::Port,
    sys::{clock, ext},
};
use kernel::time::{delay::fsleep, Delta, Instant, Monotonic};

/// How long an endpoint may take to stop its work; after that its memory is closed to it.
const STOP_TIME: Delta = Delta::from_millis(100);
const STOP_POLL: Delta = Delta::from_micros(100);

impl Function {
    /// Marks the function as broken and wakes its program; [`Self::watch`] then gives back what it
    /// has. Returns false if it was broken before.
    pub(super) fn doom(&self, why: Why) -> bool {
        let mut inner = self.inner.lock();
        let first = !matches!(inner.state, State::Broken(_));
        if first {
            inner.state = State::Broken(why);
        }
        drop(inner);
        self.wake();
        first
    }

    /// Returns whether it is broken, and has not given back what it has.
    pub(super) fn holds_on(&self) -> bool {
        self.inner.lock().holds_on()
    }

    /// Holds the function if its route has changed, or ends it if it cannot be held. Does what can be done for
    /// one that is held.
    pub(super) fn look(&self, endpoints: &Endpoints, port: &dyn Port) {
        let Some(slots) = port.endpoint_slots() else {
            return;
        };
        let mut inner = self.inner.lock();
        let lost = inner.state == State::Open && slots.route(self.made.slot) != inner.route;
        let mut ends = false;
        match &mut inner.reroute {
            Some(reroute) if lost && reroute.works() => reroute.lost(clock::now_ms()),
            Some(_) => {}
            None => ends = lost,
        }
        let held = inner.is_held();
        drop(inner);
        if ends {
            self.end(endpoints, Some(port), Why::Route);
        } else if held {
            self.keep_on(endpoints, port);
        }
    }

    /// Checks a function with outstanding work, and ends it if it has failed without notice. Releases
    /// a broken one.
    pub(super) fn watch(&self, endpoints: &Endpoints, port: &dyn Port) {
        if self.holds_on() {
            return self.end(endpoints, Some(port), Why::Closed);
        }
        self.look(endpoints, port);
        let Some(slots) = port.endpoint_slots() else {
            return;
        };
        let registers = self.registers(slots);
        let mut inner = self.inner.lock();
        if inner.state != State::Open || inner.is_held() || inner.ledger.outstanding() == 0 {
            return;
        }
        // The endpoint closes its memory before this host learns that the function was taken away.
        let open = slots.is_open(self.made.slot);
        let status = match open {
            true => registers.get(ext::WEFT_EP_STATUS),
            false => 0,
        };
        let ready = self.is_ready(Some(&registers), &inner);
        let theirs = registers.get(ext::WEFT_EP_ROUTE);
        let way = slots.route(self.made.slot) == inner.route;
        let mut held = false;
        if let Some(reroute) = &mut inner.reroute {
            match way {
                true if open => reroute.heard(theirs, clock::now_ms()),
                true => {}
                false => reroute.lost(clock::now_ms()),
            }
            held = !reroute.works();
        }
        drop(inner);
        if held {
            return self.keep_on(endpoints, port);
        }
        let failed = (status & ext::WEFT_EP_FAILED) >> ext::WEFT_EP_FAILED.trailing_zeros();
        if ready {
            // Its doorbell was lost, or the program has not looked yet.
            self.wake();
        } else if !open || status == u32::MAX {
            self.end(
                endpoints,
                Some(port),
                if way { Why::Withdrawn } else { Why::Route },
            );
        } else if failed != 0 || status & ext::WEFT_EP_ENABLED == 0 {
            self.end(endpoints, Some(port), Why::Failed(failed));
        }
    }

    /// Ends the function, for the reason `why` unless it was broken before, and gives back what it
    /// has. Sleeps.
    pub(super) fn end(&self, endpoints: &Endpoints, port: Option<&dyn Port>, why: Why) {
        if let (true, Some(failure)) = (self.doom(why), why.failure()) {
            endpoints.failed(&self.made.wanted, failure);
        }
        let mut inner = self.inner.lock();
        if core::mem::take(&mut inner.has_slot) {
            self.stop(endpoints, port, &mut inner);
        }
        drop(inner);
        self.wake();
    }

    fn stop(&self, endpoints: &Endpoints, port: Option<&dyn Port>, inner: &mut Inner) {
        let slots = port.and_then(|port| port.endpoint_slots());
        let registers = slots.map(|slots| self.registers(slots));
        let slot = self.made.slot;
        if let Some(registers) = &registers {
            self.disable(registers, STOP_TIME);
        }
        // Areas in memory of this host stay mapped for the program, except if the file is closed or
        // the port is gone.
        let keeps = !matches!(inner.state, State::Broken(Why::Closed | Why::Removed));
        let mut kept = false;
        for area in self.all_areas().into_iter().flatten() {
            let of_host = area.is_of_host();
            let closed = match of_host {
                true => close(slots, slot, area.n),
                false => Ok(()),
            };
            if keeps && of_host && closed.is_ok() {
                kept = true;
                continue;
            }
            let memory = area.take();
            endpoints.zap(&area);
            drop(endpoints.let_go_of(slot, area.n, memory, closed));
        }
        // Completions that have come are reported as they are, all other work as flushed.
        if let Some(queues) = inner.queues.take() {
            let queues = Backing::Host(queues);
            let queues = endpoints.let_go_of(slot, 0, queues, close(slots, slot, 0));
            inner.queues = queues;
        }
        while let Ok(true) = self.take(registers.as_ref(), inner) {}
        inner.ledger.flush();
        inner.queues = None;
        if let Some(slots) = slots {
            slots.leave(slot);
        }
        endpoints.set_bell(slot, None);
        // While it has its slot: a search for all functions that have memory finds it by the slot, or
        // in the list of ended ones.
        if kept && endpoints.slots.lock().remember(slot).is_err() {
            self.drop_areas(endpoints, inner);
        }
        let user = endpoints.slots.lock().free(slot);
        drop(user);
    }

    /// Drops the areas that were kept in memory of this host.
    pub(super) fn forget(&self, endpoints: &Endpoints) {
        let inner = self.inner.lock();
        self.drop_areas(endpoints, &inner);
    }

    /// Drops the areas; the inbound mappings are closed. `_inner` is locked, so that a caller that
    /// waits for the lock finds none.
    fn drop_areas(&self, endpoints: &Endpoints, _inner: &Inner) {
        for area in self.all_areas().into_iter().flatten() {
            let memory = area.take();
            endpoints.zap(&area);
            drop(memory);
        }
    }

    /// Disables the function, and waits up to `time` for the endpoint to report that.
    pub(super) fn disable(&self, registers: &Registers<'_>, time: Delta) {
        if registers.set(ext::WEFT_EP_CTRL, 0).is_err() {
            return;
        }
        registers.ring();
        let since = Instant::<Monotonic>::now();
        while registers.get(ext::WEFT_EP_STATUS) != 0 && since.elapsed() < time {
            fsleep(STOP_POLL);
        }
    }
}
