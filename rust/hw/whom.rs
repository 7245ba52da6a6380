// SPDX-License-Identifier: GPL-2.0

//! Who has taken whose place.
//!
//! A function that moves leaves its hardware id to another one, and gets that one's: ids are exchanged,
//! so each is some function's, and no two have the same, whatever is reset, unbound or pulled and put
//! back. What was exchanged is kept here for as long as the module is loaded. It must not know what an
//! id is of.

use kernel::{
    prelude::*,
    sync::atomic::{Acquire, Atomic, Release},
};

/// How many can be somebody else at a time.
const PLACES: usize = 128;

/// One that is somebody else.
struct Place {
    /// By itself; 0: nobody.
    own: Atomic<u64>,
    /// Now; 0: not known yet.
    whom: Atomic<u64>,
}

/// Anybody reads; who writes has the only [`Exchange`].
static TABLE: [Place; PLACES] = [const {
    Place {
        own: Atomic::new(0),
        whom: Atomic::new(0),
    }
}; PLACES];

fn find(own: u64) -> Option<&'static Place> {
    TABLE.iter().find(|place| place.own.load(Acquire) == own)
}

/// Whom the function is now that is `own` by itself. Any context.
pub(crate) fn of(own: u64) -> u64 {
    if own == 0 {
        return 0;
    }
    match find(own).map_or(0, |place| place.whom.load(Acquire)) {
        0 => own,
        whom => whom,
    }
}

fn set(own: u64, whom: u64) -> Result {
    if let Some(place) = find(own) {
        place.whom.store(whom, Release);
        if own == whom {
            place.own.store(0, Release);
        }
        return Ok(());
    }
    if own == whom {
        return Ok(());
    }
    let place = find(0).ok_or(ENOSPC)?;
    place.whom.store(whom, Release);
    place.own.store(own, Release);
    Ok(())
}

/// The right to exchange ids: there is one at a time.
pub(crate) struct Exchange(());

static TAKEN: Atomic<bool> = Atomic::new(false);

impl Exchange {
    /// `None`: somebody else has it.
    pub(crate) fn new() -> Option<Self> {
        TAKEN
            .cmpxchg(false, true, Acquire)
            .is_ok()
            .then_some(Self(()))
    }

    /// Two functions, that are `one` and `other` by themselves, are each other from now on. `ENOSPC`:
    /// too many are somebody else; `EINVAL`: who one is is not known.
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
