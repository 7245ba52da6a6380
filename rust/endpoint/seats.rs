// SPDX-License-Identifier: GPL-2.0

//! Who has which seat of the port, and what is held there yet.

use super::{function::Function, held::Held, wanted::Wanted};
use crate::hw::seats::{MAX_SEATS, OPENINGS};
use kernel::{prelude::*, sync::Arc};

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
pub(super) struct Table {
    seats: [Seat; MAX_SEATS],
    /// Functions that work no more, and have memory of the device's for their programs to look at.
    ended: KVec<Arc<Function>>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            seats: core::array::from_fn(|_| Seat {
                wanted: None,
                user: None,
                held: [const { None }; OPENINGS],
            }),
            ended: KVec::new(),
        }
    }

    /// Takes one of the first `count` seats. `EBUSY`: somebody has that function; `ENOSPC`: there
    /// is no seat left.
    pub(super) fn reserve(&mut self, count: usize, wanted: Wanted) -> Result<usize> {
        if self.seats.iter().any(|seat| seat.wanted == Some(wanted)) {
            return Err(EBUSY);
        }
        let seats = self.seats.iter_mut().take(count).enumerate();
        for (n, seat) in seats {
            if seat.wanted.is_none() && !seat.holds_any() {
                seat.wanted = Some(wanted);
                return Ok(n);
            }
        }
        Err(ENOSPC)
    }

    pub(super) fn sit(&mut self, seat: usize, user: Arc<Function>) {
        if let Some(seat) = self.seats.get_mut(seat) {
            seat.user = Some(user);
        }
    }

    /// Gives a seat back. To be dropped without the lock.
    pub(super) fn free(&mut self, seat: usize) -> Option<Arc<Function>> {
        let seat = self.seats.get_mut(seat)?;
        seat.wanted = None;
        seat.user.take()
    }

    pub(super) fn users(&self) -> [Option<Arc<Function>>; MAX_SEATS] {
        core::array::from_fn(|n| self.seats.get(n).and_then(|seat| seat.user.clone()))
    }

    /// Keeps memory that is not let go; what was there, to be dropped without the lock.
    pub(super) fn hold(&mut self, seat: usize, n: usize, held: Held) -> Option<Held> {
        self.seats.get_mut(seat)?.held.get_mut(n)?.replace(held)
    }

    /// Whether an opening is held.
    pub(super) fn holds(&self, seat: usize, n: usize) -> bool {
        let held = self.seats.get(seat).and_then(|seat| seat.held.get(n));
        held.is_some_and(Option::is_some)
    }

    pub(super) fn holds_any(&self) -> bool {
        self.seats.iter().any(Seat::holds_any)
    }

    /// After another attempt to close an opening: what was held there, if that went well. To be
    /// dropped without the lock.
    pub(super) fn settle_held(&mut self, seat: usize, n: usize, closed: Result) -> Option<Held> {
        let held = self.seats.get_mut(seat)?.held.get_mut(n)?;
        match closed {
            Ok(()) => held.take(),
            Err(why) => {
                if let Some(held) = held {
                    held.retried(why);
                }
                None
            }
        }
    }

    /// What is held at an opening.
    pub(super) fn take_held(&mut self, seat: usize, n: usize) -> Option<Held> {
        self.seats.get_mut(seat)?.held.get_mut(n)?.take()
    }

    /// Notes that the one on a seat has ended.
    pub(super) fn remember(&mut self, seat: usize) -> Result {
        let user = self.seats.get(seat).and_then(|seat| seat.user.clone());
        Ok(self.ended.push(user.ok_or(EINVAL)?, GFP_KERNEL)?)
    }

    /// Forgets one that has ended, or any. To be dropped without the lock.
    pub(super) fn recall(&mut self, function: Option<&Arc<Function>>) -> Option<Arc<Function>> {
        let its = |ended: &Arc<Function>| function.is_none_or(|f| Arc::ptr_eq(f, ended));
        let at = self.ended.iter().position(its)?;
        self.ended.remove(at).ok()
    }
}
