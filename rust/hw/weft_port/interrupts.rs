// SPDX-License-Identifier: GPL-2.0

//! The interrupt handlers of a Weft port: each reports events to the layer above.

use super::{
    chip::Chip,
    layout::{
        dma_vector, echo, endpoint_bell, endpoint_vector, far_vector, kick, wake, DOORBELL_VECTOR,
        ERROR_VECTOR, LINK_VECTOR, MBOX_VECTOR,
    },
    limit::PERIOD_MS,
};
use crate::sys::{
    ext,
    irq::{Handler, Next},
    trace, work,
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, msecs_to_jiffies, Delta},
    workqueue::WorkItem,
};

/// The name of each error, by its bit.
const ERRORS: [(u32, &CStr); 12] = [
    (ext::WEFT_ERR_OUT_WRITE, c"own write dropped"),
    (ext::WEFT_ERR_OUT_READ, c"own read answered by all ones"),
    (ext::WEFT_ERR_IN_DENIED, c"a neighbour's access refused"),
    (ext::WEFT_ERR_IN_INVALID, c"aperture not in memory"),
    (ext::WEFT_ERR_DB_DENIED, c"doorbell refused"),
    (ext::WEFT_ERR_MSG_DROPPED, c"mailbox full, message dropped"),
    (ext::WEFT_ERR_FABRIC_LOST, c"fabric lost"),
    (ext::WEFT_ERR_UNMAP_LATE, c"unmapped while in use"),
    (ext::WEFT_ERR_DMA, c"DMA transfer failed"),
    (ext::WEFT_ERR_ROUTE_DENIED, c"a route ended here"),
    (ext::WEFT_ERR_POISONED, c"data came poisoned"),
    (ext::WEFT_ERR_TIMEOUT, c"own read without an answer"),
];

/// The delay before an error is cleared. The port reports no error meanwhile, so that the errors of a
/// neighbour cannot keep this host busy.
const ERROR_PAUSE: Delta = Delta::from_millis(10);

impl Chip {
    /// Returns those of `doorbells` that were rung.
    fn pending(&self, doorbells: u32) -> u32 {
        match self.read(ext::WEFT_R_DB_PENDING) {
            u32::MAX => 0,
            pending => pending & doorbells,
        }
    }

    /// Handles those of `doorbells`, which share a vector, that were rung. A work item looks at those that
    /// are rung too often.
    fn some_rung(self: &Arc<Self>, doorbells: u32) {
        match self.pending(doorbells & !self.limits.limited()) {
            0 => {}
            rung => self.answer(rung),
        }
    }

    /// Handles doorbells that were rung. Any context.
    fn answer(self: &Arc<Self>, doorbells: u32) {
        // Before the rings are read: a doorbell that is rung from here on is seen again.
        self.write(ext::WEFT_R_DB_PENDING, doorbells);
        let near = self.caps.links;
        let links = near + self.caps.far;
        for link in 0..links {
            for (doorbell, is_wake) in [(wake(near, link), true), (echo(near, link), false)] {
                if doorbells & 1 << doorbell != 0 {
                    self.charge(doorbell);
                    self.rung(link, is_wake);
                }
            }
        }
        for slot in 0..self.caps.endpoint_slots {
            let doorbell = endpoint_bell(links, slot);
            if doorbells & 1 << doorbell != 0 {
                self.charge(doorbell);
                self.events.called(slot);
            }
        }
    }

    /// Counts a ring, and queues the work item if the doorbell was masked for it.
    fn charge(self: &Arc<Self>, doorbell: u32) {
        if self.limits.charge(&self.regs, doorbell) {
            // The port is not stopped: it cancels the work item when the last handler has run.
            work::again_unbound_in(self, msecs_to_jiffies(PERIOD_MS));
        }
    }

    /// Reports that doorbell `wake`, or else `echo`, of `link` was rung.
    fn rung(&self, link: usize, wake: bool) {
        if wake {
            trace::port_event(&self.dev, trace::Port::Wake, link as u64);
            self.events.wake(link);
        } else {
            trace::port_event(&self.dev, trace::Port::Echo, link as u64);
            self.events.echo(link);
        }
    }

    /// Handles the interrupt of the DMA engine.
    fn moved(&self) {
        let bits = self.read(ext::WEFT_R_DMA_PENDING);
        if bits == u32::MAX {
            return;
        }
        // Before the rings are read: a request that is done from here on raises another interrupt.
        self.write(ext::WEFT_R_DMA_PENDING, bits);
        for link in (0..self.caps.links + self.caps.far).filter(|link| bits & 1 << link != 0) {
            self.events.moved(link);
        }
    }

    fn link_event(&self) {
        let bits = self.read(ext::WEFT_R_EVENT);
        if bits == u32::MAX {
            trace::port_event(&self.dev, trace::Port::Gone, 0);
        } else {
            // Before the status is read: a change from here on is another event.
            self.write(
                ext::WEFT_R_EVENT,
                bits & (ext::WEFT_EVENT_LINK | ext::WEFT_EVENT_ROUTE),
            );
        }
        self.events.links_changed();
    }

    fn mbox_event(&self) {
        let own = ext::WEFT_EVENT_MBOX | ext::WEFT_EVENT_FUNCTION | ext::WEFT_EVENT_PLUG;
        let bits = self.read(ext::WEFT_R_EVENT);
        if bits != u32::MAX {
            // Before messages are read: one that arrives from here on is another event. Only bits that
            // were read are cleared, so that an event since then is not lost.
            self.write(ext::WEFT_R_EVENT, bits & own);
            if bits & ext::WEFT_EVENT_PLUG != 0 {
                self.events.plugged();
            }
        }
        self.events.message();
    }

    fn error_event(&self) {
        self.write(ext::WEFT_R_EVENT, ext::WEFT_EVENT_ERROR);
        let status = self.read(ext::WEFT_R_ERR_STATUS);
        if status == 0 || status == u32::MAX {
            return;
        }
        // Info and address are those of the first error; they are read before its bit is cleared.
        let info = self.read(ext::WEFT_R_ERR_INFO);
        let addr = self.regs.read64(ext::WEFT_R_ERR_ADDR as usize);
        trace::port_error(&self.dev, status, info, addr);
        for (bit, what) in ERRORS {
            if status & bit == 0 {
                continue;
            }
            let first = 1u32.checked_shl(info & 0xff) == Some(bit);
            let addr = if first { addr } else { 0 };
            self.events.error(what, addr);
        }
        fsleep(ERROR_PAUSE);
        self.write(ext::WEFT_R_ERR_STATUS, status);
    }
}

impl WorkItem for Chip {
    type Pointer = Arc<Chip>;

    /// Looks at the doorbells that are masked because they were rung too often.
    fn run(this: Arc<Chip>) {
        let limited = this.limits.limited();
        let rung = this.pending(limited);
        if rung != 0 {
            this.answer(rung);
        }
        if this.limits.look_again(&this.regs, limited) {
            // As above.
            work::again_unbound_in(&this, msecs_to_jiffies(PERIOD_MS));
        }
    }
}

impl Handler for Chip {
    fn hard(self: &Arc<Self>, vector: u32) -> Next {
        let Some(doorbell) = vector.checked_sub(DOORBELL_VECTOR) else {
            return Next::Thread;
        };
        if vector == dma_vector(self.caps.links) {
            self.moved();
            return Next::Done;
        }
        if vector == far_vector(self.caps.links) {
            self.some_rung(self.far_bells());
        } else if vector == endpoint_vector(self.caps.links) {
            self.some_rung(self.endpoint_bells());
        } else if doorbell == kick(self.caps.links) {
            self.limits.mask(&self.regs, doorbell);
            self.events.kicked();
        } else {
            self.answer(1 << doorbell);
        }
        Next::Done
    }

    fn thread(&self, vector: u32) {
        match vector {
            LINK_VECTOR => self.link_event(),
            MBOX_VECTOR => self.mbox_event(),
            ERROR_VECTOR => self.error_event(),
            _ => {}
        }
    }
}
