// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The regions that others reach by an endpoint, and how far each of their list entries is: in the lists or not, and
//! what the driver has been asked.

use crate::fi::*;
use crate::regions::Region;
use std::ffi::c_int;
use std::sync::Arc;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The driver was asked to append it,
    Appending,
    /// has done so,
    There,
    /// and was asked to take it out.
    Unlinking,
    /// It is in no list, but something that has met it is not over.
    Held,
    Gone,
    Failed(c_int),
}

/// A region, and its entries.
#[derive(Debug)]
pub struct Place {
    pub region: Arc<Region>,
    /// No more than two.
    pub entries: Vec<State>,
    /// All that is done there has events.
    pub counted: bool,
    /// It is to be forgotten when the driver has answered.
    pub abandoned: bool,
}

impl Place {
    pub fn is_over(&self) -> bool {
        self.entries.iter().all(|state| matches!(state, State::Gone | State::Failed(_)))
    }

    /// Whether the driver has to answer yet.
    pub fn waits(&self) -> bool {
        self.entries.iter().any(|state| matches!(state, State::Appending | State::Unlinking))
    }

    /// Which entries are to be taken out now: the driver is asked to.
    pub fn take_out(&mut self) -> Vec<usize> {
        let mut taken = Vec::new();
        for (n, state) in self.entries.iter_mut().enumerate() {
            if matches!(state, State::There | State::Held) {
                *state = State::Unlinking;
                taken.push(n);
            }
        }
        taken
    }

    /// Takes the answer to what the driver was asked of an entry: an error, and how much is not over there.
    pub fn answered(&mut self, entry: usize, error: c_int, left: u64) {
        let abandoned = self.abandoned;
        let Some(state) = self.entries.get_mut(entry) else { return };
        *state = match *state {
            State::Appending if error == 0 => State::There,
            State::Appending => State::Failed(error),
            // That it is in no list is no error.
            State::Unlinking if left == 0 || abandoned => State::Gone,
            State::Unlinking => State::Held,
            other => other,
        };
    }
}

/// The regions of an endpoint.
#[derive(Debug, Default)]
pub struct Exposed {
    places: Vec<Option<Place>>,
    /// Entries of all of them.
    entries: usize,
}

impl Exposed {
    /// Adds a region with so many entries, of `most` in all; returns its number. FI_ENOSPC: they are too many.
    pub fn add(
        &mut self,
        region: &Arc<Region>,
        count: usize,
        counted: bool,
        most: usize,
    ) -> Result<usize, c_int> {
        if self.entries + count > most {
            return Err(FI_ENOSPC);
        }
        self.entries += count;
        let entries = vec![State::Appending; count];
        let place = Some(Place { region: region.clone(), entries, counted, abandoned: false });
        match self.places.iter_mut().enumerate().find(|(_, free)| free.is_none()) {
            Some((at, free)) => {
                *free = place;
                Ok(at)
            }
            None => {
                self.places.push(place);
                Ok(self.places.len() - 1)
            }
        }
    }

    pub fn place(&mut self, at: usize) -> Option<&mut Place> {
        self.places.get_mut(at)?.as_mut()
    }

    pub fn forget(&mut self, at: usize) {
        if let Some(place) = self.places.get_mut(at).and_then(Option::take) {
            self.entries = self.entries.saturating_sub(place.entries.len());
        }
    }

    /// The number of a region.
    pub fn find(&self, region: &Arc<Region>) -> Option<usize> {
        let is = |place: &Option<Place>| {
            place.as_ref().is_some_and(|p| !p.abandoned && Arc::ptr_eq(&p.region, region))
        };
        self.places.iter().position(is)
    }
}
