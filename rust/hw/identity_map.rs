// SPDX-License-Identifier: GPL-2.0

//! Which hardware id each function has after migrations.
//!
//! A function that moves leaves its hardware id to another one, and gets that one's: ids are exchanged,
//! so each is some function's, and no two have the same, whatever is reset, unbound or pulled and put
//! back. What was exchanged is kept here for as long as the module is loaded. It must not know what an
//! id is of.

use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Release},
};

/// How many functions can have another's id at a time.
const PLACES: usize = 128;

/// A function that has another's id.
struct Place {
    /// The id that it has by itself; 0: the place is free.
    own: Atomic<u64>,
    /// The id that it has now; 0: not known yet.
    id: Atomic<u64>,
}

/// Read in any context; written by the holder of the only [`Exchange`].
static TABLE: [Place; PLACES] = [const {
    Place {
        own: Atomic::new(0),
        id: Atomic::new(0),
    }
}; PLACES];

fn find(own: u64) -> Option<&'static Place> {
    TABLE.iter().find(|place| place.own.load(Acquire) == own)
}

/// Returns the id that the function has now that is `own` by itself. Any context.
pub(crate) fn of(own: u64) -> u64 {
    if own == 0 {
        return 0;
    }
    match find(own).map_or(0, |place| place.id.load(Acquire)) {
        0 => own,
        id => id,
    }
}

fn set(own: u64, id: u64) -> Result {
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

/// The right to exchange ids: there is one at a time.
pub(crate) struct Exchange(());

static TAKEN: Atomic<bool> = Atomic::new(false);

impl Exchange {
    /// `None`: it is taken.
    pub(crate) fn new() -> Option<Self> {
        TAKEN
            .cmpxchg(false, true, Acquire)
            .is_ok()
            .then_some(Self(()))
    }

    /// Exchanges the ids of two functions that are `one` and `other` by themselves. `ENOSPC`: too many
    /// have another's id; `EINVAL`: the id of one is not known.
    pub(crate) fn exchange(&self, one: u64, other: u64) -> Result {
        if one == 0 || other == 0 || one == other {
            return Err(EINVAL);
        }
        let (of_one, of_other) = (of(one), of(other));
        set(one, of_other)?;
        set(other, of_one).inspect_err(|_| {
            // There is a place for it, or needs none.
            let _ = set(one, of_one);
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        TAKEN.store(false, Release);
    }
}
