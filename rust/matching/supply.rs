// SPDX-License-Identifier: GPL-2.0

//! Bytes that hosts have asked for: of messages that the interface sends, and of buffers that their gets have met.

use super::{
    grant,
    initiator::errno,
    interface::{Interface, Worker},
    state::{State, GRANTED},
    to::{Asked, To},
    CHUNKS,
};
use crate::{proto::envelope::Body, sys::errno::ECONNRESET};
use kernel::prelude::*;

/// Memory of which bytes are asked for, and what of.
struct Source {
    to: To,
    cookie: u64,
    address: u64,
}

impl Interface {
    /// Sends bytes that hosts have asked for. Returns whether some were sent.
    pub(super) fn supply(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        let state = self.state.lock();
        let (mut operation, grants) = (state.asked.next(0), state.asked_of_grants);
        drop(state);
        while let Some(n) = operation {
            any |= self.supply_one(worker, n);
            operation = self.state.lock().asked.next(n + 1);
        }
        for n in grants {
            any |= self.supply_one(worker, GRANTED + n);
        }
        any
    }

    fn supply_one(&self, worker: &mut Worker, n: usize) -> bool {
        // Taken out before the bytes are sent: the next ones are asked for as soon as these are there.
        let mut state = self.state.lock();
        let Some((source, places)) = source(&mut state, n) else {
            // It is over, as an operation or as a grant.
            match n < GRANTED {
                true => state.forget_asked(n),
                false => state.note_asked_of(n, false),
            }
            return false;
        };
        if worker.found_full(&source.to) {
            return false;
        }
        let Some(asked) = places.iter_mut().find_map(Option::take) else {
            state.note_asked_of(n, false);
            return false;
        };
        drop(state);
        let Asked {
            offset,
            length,
            chunk,
        } = asked;
        let read = match worker.bounce.get_mut(..length as usize) {
            Some(bytes) => self.mm.load(source.address.wrapping_add(offset), bytes),
            None => Err(EINVAL),
        };
        if read.is_err_and(|e| worker.leaves(e)) {
            self.put_back(n, &source, asked);
            return false;
        }
        let status = read.map_or_else(|e| errno(e) as u8, |()| 0);
        let body = Body::Data { chunk, status };
        let envelope = source.to.envelope(self.address, source.cookie, body);
        let bytes = worker.bounce.get(..length as usize).unwrap_or(&[]);
        let payload = if status == 0 { bytes } else { &[] };
        let sent = source.to.peer.send(source.to.epoch, &envelope, payload);
        if sent.is_ok() || sent.is_err_and(|e| e == ECONNRESET) {
            return true;
        }
        worker.find_full(&source.to);
        self.put_back(n, &source, asked);
        false
    }

    /// Puts back what was taken out. There is a place, as long as no more is asked for than may be.
    fn put_back(&self, n: usize, from: &Source, asked: Asked) {
        let mut state = self.state.lock();
        if let Some((source, places)) = source(&mut state, n) {
            let place = places.iter_mut().find(|place| place.is_none());
            if let Some(place) = place.filter(|_| source.cookie == from.cookie) {
                *place = Some(asked);
                state.note_asked_of(n, true);
            }
        }
    }
}

/// Returns the memory of an operation, or behind those of a grant, and what is asked for of it. `None`: it is over.
fn source(state: &mut State, n: usize) -> Option<(Source, &mut [Option<Asked>; CHUNKS])> {
    match n.checked_sub(GRANTED) {
        None => {
            let operation = state.operations.get(n)?;
            let source = Source {
                to: operation.to.clone()?,
                cookie: operation.id?.0,
                address: operation.address,
            };
            Some((source, state.asks.get_mut(n)?))
        }
        Some(n) => {
            let grant = state.grants.get_mut(n)?;
            let source = Source {
                to: grant.to.clone(),
                cookie: grant::number_of(n, grant.tag),
                address: grant.address,
            };
            Some((source, &mut grant.asked))
        }
    }
}
