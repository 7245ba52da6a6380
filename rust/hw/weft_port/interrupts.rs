// SPDX-License-Identifier: GPL-2.0

//! The interrupt handlers of a Weft port: each reports events to the layer above.

use super::{
    chip::Chip,
    layout::{
        dma_vector, echo, endpoint_bell, endpoint_vector, far_vector, kick, wake, DOORBELL_VECTOR,
        ERROR_VECTOR, LINK_VECTOR, MBOX_VECTOR,
    },
};
use crate::sys::{
    ext,
    irq::{Handler, Next},
    trace,
};
use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
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
    /// Handles the doorbells of endpoint slots, which share a vector.
    fn endpoints_rung(&self) {
        let pending = self.read(ext::WEFT_R_DB_PENDING);
        if pending == u32::MAX {
            return;
        }
        // Before the queues are read: a doorbell that is rung from here on raises another interrupt.
        self.write(ext::WEFT_R_DB_PENDING, pending & self.endpoint_bells());
        let links = self.caps.links + self.caps.far;
        for slot in (0..self.caps.endpoint_slots)
            .filter(|slot| pending & 1 << endpoint_bell(links, *slot) != 0)
        {
            self.events.called(slot);
        }
    }

    /// Handles the doorbells of routed links, which share a vector.
    fn far_rung(&self) {
        let near = (1 << (kick(self.caps.links) + 1)) - 1;
        let pending = self.read(ext::WEFT_R_DB_PENDING);
        if pending == u32::MAX {
            return;
        }
        // Before the rings are read: a doorbell that is rung from here on raises another interrupt.
        self.write(
            ext::WEFT_R_DB_PENDING,
            pending & !near & !self.endpoint_bells(),
        );
        for link in self.caps.links..self.caps.links + self.caps.far {
            if pending & 1 << wake(self.caps.links, link) != 0 {
                self.rung(link, true);
            }
            if pending & 1 << echo(self.caps.links, link) != 0 {
                self.rung(link, false);
            }
        }
    }

    /// Reports that doorbell `wake`, or else `echo`, of `link` was rung.
    fn rung(&self, link: usize, wake: bool) {
        if wake {
            trace::port_event(&self.pdev, trace::Port::Wake, link as u64);
            self.events.wake(link);
        } else {
            trace::port_event(&self.pdev, trace::Port::Echo, link as u64);
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
            trace::port_event(&self.pdev, trace::Port::Gone, 0);
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
        trace::port_error(&self.pdev, status, info, addr);
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

impl Handler for Chip {
    fn hard(&self, vector: u32) -> Next {
        let Some(doorbell) = vector.checked_sub(DOORBELL_VECTOR) else {
            return Next::Thread;
        };
        if vector == dma_vector(self.caps.links) {
            self.moved();
            return Next::Done;
        }
        if vector == far_vector(self.caps.links) {
            self.far_rung();
            return Next::Done;
        }
        if vector == endpoint_vector(self.caps.links) {
            self.endpoints_rung();
            return Next::Done;
        }
        if doorbell == kick(self.caps.links) {
            self.write(ext::WEFT_R_DB_MASK, !self.doorbells() | 1 << doorbell);
            self.events.kicked();
            return Next::Done;
        }
        // Before the rings are read: a doorbell that is rung from here on raises another interrupt.
        self.write(ext::WEFT_R_DB_PENDING, 1 << doorbell);
        let link = (doorbell / 2) as usize;
        self.rung(link, doorbell == wake(self.caps.links, link));
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
