// SPDX-License-Identifier: GPL-2.0

//! Which hardware id each function has after migrations.
//!
//! A function that moves leaves its hardware id to another one, and gets that one's: ids are exchanged,
//! so each is some function's, and no two have the same, whatever is reset, unbound or pulled and put
//! back. What was exchanged on this host is kept here for as long as the module is loaded; what was exchanged
//! between hosts the fabric keeps, and it is here as it was told last. It must not know what an id is of.

use crate::proto::relocation::lines::MAX_CARRIED;
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
    carried(native(own))
}

/// Returns the id that the function would have now, if none were exchanged between hosts. Any context.
pub(crate) fn native(own: u64) -> u64 {
    if own == 0 {
        return 0;
    }
    match find(own).map_or(0, |place| place.id.load(Acquire)) {
        0 => own,
        id => id,
    }
}

/// How many functions of the fabric can have the id of another host's, by all ports of this host: each is a member of
/// the fabric by itself, and has what that says.
const FABRIC_PLACES: usize = 4 * MAX_CARRIED;

/// A function, of any host, that has the id of another host's.
struct Carrier {
    /// The port whose fabric says so; 0: the place is free.
    by: Atomic<u64>,
    /// 0: not known yet. Written last, and cleared first.
    function: Atomic<u64>,
    id: Atomic<u64>,
}

/// Read in any context; written by the manager of the port. Only the id in a place changes while it is not free.
static CARRIERS: [Carrier; FABRIC_PLACES] = [const {
    Carrier {
        by: Atomic::new(0),
        function: Atomic::new(0),
        id: Atomic::new(0),
    }
}; FABRIC_PLACES];

/// Iterates over the places that have both, each with the function and its id.
fn carriers() -> impl Iterator<Item = (&'static Carrier, u64, u64)> {
    let all = CARRIERS.iter().map(|place| {
        let function = place.function.load(Acquire);
        (place, function, place.id.load(Acquire))
    });
    all.filter(|(_, function, id)| *function != 0 && *id != 0)
}

/// Returns the id that a function, of any host, has by the word of the fabric. Any context.
pub(crate) fn carried(function: u64) -> u64 {
    carriers()
        .find(|(_, of, _)| *of == function)
        .map_or(function, |(.., id)| id)
}

/// Returns the function, of any host, that has an id by the word of the fabric. Any context.
pub(crate) fn carrier(id: u64) -> u64 {
    carriers()
        .find(|(.., of)| *of == id)
        .map_or(id, |(_, function, _)| function)
}

/// Stores what the fabric of the port `by` says: functions, each with the id that it has. Called by one thread
/// of the port at a time. Returns whether there was room for all; the others are left out.
pub(crate) fn set_carriers<I: Iterator<Item = (u64, u64)>>(
    by: u64,
    all: &mut dyn FnMut() -> I,
) -> bool {
    for (place, function, _) in carriers() {
        let mut still = all();
        if place.by.load(Acquire) == by && still.all(|(of, _)| of != function) {
            place.function.store(0, Release);
            place.id.store(0, Release);
            place.by.store(0, Release);
        }
    }
    let mut room = true;
    for (function, id) in all() {
        let mut mine = carriers().filter(|(place, ..)| place.by.load(Acquire) == by);
        if let Some((place, ..)) = mine.find(|(_, of, _)| *of == function) {
            place.id.store(id, Release);
            continue;
        }
        // Managers of two ports may look for one at the same time.
        let free = CARRIERS
            .iter()
            .find(|place| place.by.cmpxchg(0, by, Acquire).is_ok());
        if let Some(place) = free {
            place.id.store(id, Release);
            place.function.store(function, Release);
        }
        room &= free.is_some();
    }
    room
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
        let (of_one, of_other) = (native(one), native(other));
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
