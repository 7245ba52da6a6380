// SPDX-License-Identifier: GPL-2.0

//! Memory of the host that an endpoint reaches, and what becomes of it when that cannot be taken
//! back: somebody's machine stands still, and holds on to it. It is nobody else's until it was let
//! go.

use super::{area::Backing, memory::Memory, Endpoints};
use crate::hw::{
    seats::{Seats, MAX_SEATS, OPENINGS},
    Port,
};
use kernel::{pci, prelude::*};

/// Memory that was not let go.
pub(super) struct Held {
    memory: Memory,
    /// The port does not answer, so nobody reaches anything by it.
    silent: bool,
}

impl Held {
    /// It could not be let go once more.
    pub(super) fn retried(&mut self, why: Error) {
        self.silent = why == ENODEV;
    }
}

/// Closes an opening. `ENODEV` without a port.
pub(super) fn close(seats: Option<&dyn Seats>, seat: usize, n: usize) -> Result {
    seats.ok_or(ENODEV)?.close(seat, n)
}

impl Endpoints {
    /// Gives memory back whose opening was closed, or had none; it is in no mapping any more, for from
    /// here on it may be another's. If the opening could not be closed it is kept.
    pub(super) fn let_go_of(
        &self,
        seat: usize,
        n: usize,
        memory: Backing,
        closed: Result,
    ) -> Option<Memory> {
        let memory = memory.into_host()?;
        let Err(why) = closed else {
            return Some(memory);
        };
        let silent = why == ENODEV;
        let before = self.seats.lock().hold(seat, n, Held { memory, silent });
        // There is none: an opening that is held is not opened.
        drop(before);
        None
    }

    /// Lets go of what can be let go of now.
    pub(super) fn release_held_by(&self, port: &dyn Port) {
        let Some(seats) = port.seats() else {
            return;
        };
        for seat in 0..seats.count() {
            for n in 0..OPENINGS {
                // It stays there meanwhile: an opening that is held is not opened anew.
                if !self.seats.lock().holds(seat, n) {
                    continue;
                }
                let closed = seats.close(seat, n);
                let over = self.seats.lock().settle_held(seat, n, closed);
                drop(over);
            }
        }
    }

    /// The port is gone: what was not let go is lost, rather than written by a stranger.
    pub(super) fn give_up_held(&self, dev: &pci::Device) {
        for place in 0..MAX_SEATS * OPENINGS {
            let held = self
                .seats
                .lock()
                .take_held(place / OPENINGS, place % OPENINGS);
            if let Some(held) = held.filter(|held| !held.silent) {
                dev_err!(
                    dev,
                    "an endpoint still holds on to memory: {} KiB are given up for good\n",
                    held.memory.area.bytes() >> 10
                );
                core::mem::forget(held.memory);
            }
        }
    }
}
