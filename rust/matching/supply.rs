// SPDX-License-Identifier: GPL-2.0

//! Bytes that hosts have asked for: of messages that the interface sends, and of buffers that their gets have met.

use super::{
    grant,
    initiator::errno,
    interface::{Interface, Worker},
    state::State,
    to::{Asked, To},
    CHUNKS, OPERATIONS,
};
use crate::{proto::envelope::Body, sys::errno::ECONNRESET};
use kernel::prelude::*;

/// What was asked for, and of which memory.
struct Supply {
    asked: Asked,
    to: To,
    cookie: u64,
    address: u64,
}

impl Interface {
    /// Sends bytes that hosts have asked for. Returns whether some were sent.
    pub(super) fn supply(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        let state = self.state.lock();
        let (operations, grants) = (state.asked, state.asked_of_grants);
        drop(state);
        let grants = grants.map(|n| OPERATIONS + n);
        for n in Iterator::chain(operations, grants) {
            any |= self.supply_one(worker, n);
        }
        any
    }

    fn supply_one(&self, worker: &mut Worker, n: usize) -> bool {
        // Taken out before the bytes are sent: the next ones are asked for as soon as these are there.
        let Some(supply) = take(&mut self.state.lock(), n) else {
            return false;
        };
        if worker.found_full(&supply.to) {
            self.put_back(n, &supply);
            return false;
        }
        let Asked {
            offset,
            length,
            chunk,
        } = supply.asked;
        let read = match worker.bounce.get_mut(..length as usize) {
            Some(bytes) => self.mm.load(supply.address.wrapping_add(offset), bytes),
            None => Err(EINVAL),
        };
        if read.is_err_and(|e| worker.leaves(e)) {
            self.put_back(n, &supply);
            return false;
        }
        let status = read.map_or_else(|e| errno(e) as u8, |()| 0);
        let body = Body::Data { chunk, status };
        let envelope = supply.to.envelope(self.address, supply.cookie, body);
        let bytes = worker.bounce.get(..length as usize).unwrap_or(&[]);
        let payload = if status == 0 { bytes } else { &[] };
        let sent = supply.to.peer.send(supply.to.epoch, &envelope, payload);
        if sent.is_ok() || sent.is_err_and(|e| e == ECONNRESET) {
            return true;
        }
        worker.find_full(&supply.to);
        self.put_back(n, &supply);
        false
    }

    /// Puts back what was taken out. There is a place, as long as no more is asked for than may be.
    fn put_back(&self, n: usize, supply: &Supply) {
        let mut state = self.state.lock();
        if let Some((cookie, places)) = places(&mut state, n) {
            let place = places.iter_mut().find(|place| place.is_none());
            if let Some(place) = place.filter(|_| cookie == supply.cookie) {
                *place = Some(supply.asked);
                match n.checked_sub(OPERATIONS) {
                    None => state.asked.insert(n),
                    Some(n) => state.asked_of_grants.insert(n),
                }
            }
        }
    }
}

/// Returns what is asked for of an operation, or behind those of a grant, and by what the host knows that.
fn places(state: &mut State, n: usize) -> Option<(u64, &mut [Option<Asked>; CHUNKS])> {
    match n.checked_sub(OPERATIONS) {
        None => {
            let operation = state.operations.get_mut(n)?;
            Some((operation.id?.0, &mut operation.asked))
        }
        Some(n) => {
            let grant = state.grants.get_mut(n)?;
            Some((grant::number_of(n, grant.tag), &mut grant.asked))
        }
    }
}

/// Takes out what was asked for.
fn take(state: &mut State, n: usize) -> Option<Supply> {
    let found = places(state, n).and_then(|(cookie, places)| {
        let asked = places.iter_mut().find_map(Option::take)?;
        Some((cookie, asked))
    });
    let Some((cookie, asked)) = found else {
        // No more, or it is over.
        match n.checked_sub(OPERATIONS) {
            None => state.asked.remove(n),
            Some(n) => state.asked_of_grants.remove(n),
        }
        return None;
    };
    let (to, address) = match n.checked_sub(OPERATIONS) {
        None => {
            let operation = state.operations.get(n)?;
            (operation.to.clone()?, operation.address)
        }
        Some(n) => {
            let grant = state.grants.get(n)?;
            (grant.to.clone(), grant.address)
        }
    };
    Some(Supply {
        asked,
        to,
        cookie,
        address,
    })
}
