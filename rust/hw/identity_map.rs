// SPDX-License-Identifier: GPL-2.0

//! The identity map: maps the own hardware id of a function to the one that it carries after a
//! migration.
//!
//! A migration exchanges the hardware ids of two functions: each id belongs to one function, and no two
//! functions have the same, whatever is reset, unbound, or unplugged and plugged again. The map is kept
//! for as long as the module is loaded. This file must not know what an id belongs to.

use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Release},
};

/// The maximum number of functions that can carry another id than their own.
const PLACES: usize = 128;

/// An entry of the map.
struct Place {
    /// The function's own id; 0: the entry is free.
    own: Atomic<u64>,
    /// The id that the function carries; 0: not known yet.
    whom: Atomic<u64>,
}

/// The map. Reads need no lock; only the holder of the single [`Exchange`] writes.
static TABLE: [Place; PLACES] = [const {
    Place {
        own: Atomic::new(0),
        id: Atomic::new(0),
    }
}; PLACES];

fn find(own: u64) -> Option<&'static Place> {
    TABLE.iter().find(|place| place.own.load(Acquire) == own)
}

/// Returns the id that the function with the own id `own` carries now; 0 for 0. Any context.
pub(crate) fn of(own: u64) -> u64 {
    if own == 0 {
        return 0;
    }
    match find(own).map_or(0, |place| place.id.load(Acquire)) {
        0 => own,
        id => id,
    }
}

/// Maps `own` to `whom`; removes the entry if they are the same. `ENOSPC` if the map is full.
fn set(own: u64, whom: u64) -> Result {
    if let Some(place) = find(own) {
        place.id.store(id, Release);
        if own == id {
            place.own.store(0, Release);
        }
        return Ok(());
    }
    if own == id {
        return Ok(());
    }
    let place = find(0).ok_or(ENOSPC)?;
    place.id.store(id, Release);
    place.own.store(own, Release);
    Ok(())
}

/// The right to exchange ids. There is one at a time.
pub(crate) struct Exchange(());

static TAKEN: Atomic<bool> = Atomic::new(false);

impl Exchange {
    /// Returns the right to exchange ids, or `None` if another caller has it.
    pub(crate) fn new() -> Option<Self> {
        TAKEN
            .cmpxchg(false, true, Acquire)
            .is_ok()
            .then_some(Self(()))
    }

    /// Exchanges the ids that two functions carry; `one` and `other` are their own ids.
    ///
    /// `ENOSPC` if the map is full, and nothing is exchanged then; `EINVAL` if an id is 0, thus not
    /// known, or if both are the same.
    pub(crate) fn exchange(&self, one: u64, other: u64) -> Result {
        if one == 0 || other == 0 || one == other {
            return Err(EINVAL);
        }
        let (of_one, of_other) = (of(one), of(other));
        set(one, of_other)?;
        set(other, of_one).inspect_err(|_| {
            // Cannot fail: there is an entry for it, or none is needed.
            let _ = set(one, of_one);
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        TAKEN.store(false, Release);
    }
}
