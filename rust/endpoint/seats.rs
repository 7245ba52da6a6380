// SPDX-License-Identifier: GPL-2.0

//! Who has which seat of the port, and what is held there yet.

use super::{held::Held, Function};
use crate::hw::seats::{MAX_SEATS, OPENINGS};
use kernel::{prelude::*, sync::Arc};

/// A function that somebody wants to open, by what its hierarchy calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Hardware id of the endpoint.
    pub(crate) endpoint: u64,
    /// Which virtual endpoint of it,
    pub(crate) ve: u8,
    /// and which function of that.
    pub(crate) function: u32,
}

struct Seat {
    /// Somebody is about to have it, or has.
    wanted: Option<Wanted>,
    user: Option<Arc<Function>>,
    held: [Option<Held>; OPENINGS],
}

impl Seat {
    fn holds_any(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }
}

/// All of them.
pub(super) struct Table([Seat; MAX_SEATS]);

impl Table {
    pub(super) fn new() -> Self {
        Self(core::array::from_fn(|_| Seat {
            wanted: None,
            user: None,
            held: [const { None }; OPENINGS],
        }))
    }

    /// Takes one of the first `count` seats. `EBUSY`: somebody has that function; `ENOSPC`: there
    /// is no seat left.
    pub(super) fn reserve(&mut self, count: usize, wanted: Wanted) -> Result<usize> {
        if self.0.iter().any(|seat| seat.wanted == Some(wanted)) {
            return Err(EBUSY);
        }
        let seats = self.0.iter_mut().take(count).enumerate();
        for (n, seat) in seats {
            if seat.wanted.is_none() && !seat.holds_any() {
                seat.wanted = Some(wanted);
                return Ok(n);
            }
        }
        Err(ENOSPC)
    }

    pub(super) fn sit(&mut self, seat: usize, user: Arc<Function>) {
        if let Some(seat) = self.0.get_mut(seat) {
            seat.user = Some(user);
        }
    }

    /// Gives a seat back. To be dropped without the lock.
    pub(super) fn free(&mut self, seat: usize) -> Option<Arc<Function>> {
        let seat = self.0.get_mut(seat)?;
        seat.wanted = None;
        seat.user.take()
    }

    pub(super) fn users(&self) -> [Option<Arc<Function>>; MAX_SEATS] {
        core::array::from_fn(|n| self.0.get(n).and_then(|seat| seat.user.clone()))
    }

    /// Keeps memory that is not let go; what was there, to be dropped without the lock.
    pub(super) fn hold(&mut self, seat: usize, n: usize, held: Held) -> Option<Held> {
        self.0.get_mut(seat)?.held.get_mut(n)?.replace(held)
    }

    /// Whether an opening is held.
    pub(super) fn holds(&self, seat: usize, n: usize) -> bool {
        let held = self.0.get(seat).and_then(|seat| seat.held.get(n));
        held.is_some_and(Option::is_some)
    }

    pub(super) fn holds_any(&self) -> bool {
        self.0.iter().any(Seat::holds_any)
    }

    /// What is held at an opening.
    pub(super) fn take_held(&mut self, seat: usize, n: usize) -> Option<Held> {
        self.0.get_mut(seat)?.held.get_mut(n)?.take()
    }
}
