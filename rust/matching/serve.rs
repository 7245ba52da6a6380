// SPDX-License-Identifier: GPL-2.0

//! Gets and atomic operations of others that have met a buffer of this interface.
//!
//! What is got, and what integers were, is a [`Grant`] until its initiator has it. Up to [`CHUNK`] bytes are sent at
//! once, and the grant is over then: it waits for room in the channel to the host, and for no process there. More is
//! asked for by the initiator.

use super::{
    grant::{self, Grant},
    initiator::errno,
    interface::{Interface, Worker},
    lists::Source,
    target::flags,
    to::To,
    CHUNK, CHUNKS, GRANTS,
};
use crate::{
    proto::{
        envelope::Body,
        matching::{
            atomic::Change,
            outcome::Receipt,
            request::{Message, Op},
        },
        slot::{Event, Kind},
    },
    sys::errno::{ECONNRESET, EMSGSIZE},
};
use kernel::{bindings, prelude::*};

impl Interface {
    /// Returns whether an operation of another can be carried out: its bytes may need a grant.
    pub(super) fn can_serve(&self, op: Op) -> bool {
        let grants = matches!(op, Op::Get | Op::Fetch);
        !grants || self.state.lock().grants.free(0..GRANTS).is_some()
    }

    /// Carries a get or an atomic operation out, which has met a buffer.
    pub(super) fn carry_for(
        &self,
        worker: &mut Worker,
        receipt: &Receipt,
        message: &Message,
    ) -> Result {
        // Of two pages one may be there: all of them are changed by the thread.
        if message.op != Op::Get && worker.leaves(EAGAIN) {
            return Err(EAGAIN);
        }
        let kind = match message.op {
            Op::Get => Kind::Got,
            _ => Kind::Changed,
        };
        let mut event = Event {
            flags: flags(receipt.unlinked, receipt.is_truncated()),
            address: receipt.address,
            stored: receipt.length,
            ..self.of_header(kind, receipt.context, 0, &receipt.header)
        };
        let result = match message.op {
            Op::Get => self.grant(receipt, None, &event),
            op => self.change(receipt, message).and_then(|values| match op {
                Op::Fetch => self.grant(receipt, Some(values), &event),
                _ => {
                    self.state.lock().put_spare(values);
                    self.answer(&receipt.header, 0, receipt.length);
                    Ok(true)
                }
            }),
        };
        match result {
            // The event is posted when the bytes are sent.
            Ok(false) => return Ok(()),
            Ok(true) => {}
            Err(e) => {
                event.status = errno(e);
                event.stored = 0;
                self.answer(&receipt.header, event.status, 0);
            }
        }
        self.received(worker, &event, !receipt.full);
        Ok(())
    }

    /// Has bytes for the initiator. Returns false: they are to be sent.
    fn grant(&self, receipt: &Receipt, values: Option<KVVec<u8>>, event: &Event) -> Result<bool> {
        let source = Source(receipt.header.source);
        let peer = self.peer_of(receipt.header.source).ok_or(ENODEV);
        let mut state = self.state.lock();
        let tag = state.next_tag();
        let place = state.grants.free(0..GRANTS);
        match (peer, place) {
            (Ok(peer), Some(n)) => {
                let grant = Grant {
                    tag,
                    to: To::now(peer, source.address()),
                    cookie: receipt.header.cookie,
                    address: receipt.address,
                    length: receipt.length,
                    values,
                    told: false,
                    over: None,
                    asked: [None; CHUNKS],
                    event: *event,
                    silent: !receipt.full,
                };
                state.grants.put(n, grant);
                Ok(false)
            }
            (peer, _) => {
                if let Some(values) = values {
                    state.put_spare(values);
                }
                peer.and(Err(EBUSY))
            }
        }
    }

    /// Changes integers. Returns memory whose first bytes are what they were.
    fn change(&self, receipt: &Receipt, message: &Message) -> Result<KVVec<u8>> {
        let arrival = self.state.lock().take_arrival(message.payload);
        let mut arrival = arrival.ok_or(ENODEV)?;
        let changed = match arrival.change {
            // All of them, or none.
            _ if receipt.is_truncated() => Err(EMSGSIZE.into()),
            Some(change) => self.apply(change, receipt, &mut arrival.buffer),
            None => Err(EINVAL),
        };
        match changed {
            Ok(()) => Ok(arrival.buffer),
            Err(e) => {
                self.state.lock().put_spare(arrival.buffer);
                Err(e)
            }
        }
    }

    fn apply(&self, change: Change, receipt: &Receipt, operands: &mut [u8]) -> Result {
        let (width, length) = (change.integer.bytes(), usize::try_from(receipt.length)?);
        let mut at = 0;
        while at < length {
            let page = self.mm.hold(receipt.address.wrapping_add(at as u64))?;
            while at < length {
                let address = receipt.address.wrapping_add(at as u64);
                if !page.has(address) {
                    break;
                }
                let old = page.change(address, width, |old| {
                    change.apply(old, operands, length, at)
                })?;
                // In the place of the operand, which is not needed any more.
                let end = at + usize::from(width);
                let to = operands.get_mut(at..end).ok_or(EINVAL)?;
                for (to, from) in to.iter_mut().zip(old.to_le_bytes()) {
                    *to = from;
                }
                at = end;
            }
        }
        Ok(())
    }

    /// Sends the first bytes of grants, and tells the program of those that are over. Returns whether there were any.
    pub(super) fn serve(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        let used = self.state.lock().grants.used();
        for n in used {
            any |= self.tell_granted(worker, n);
            any |= self.end_grant(worker, n);
        }
        any
    }

    fn tell_granted(&self, worker: &mut Worker, n: usize) -> bool {
        let mut state = self.state.lock();
        let Some(grant) = state.grants.get_mut(n) else {
            return false;
        };
        if grant.told || grant.over.is_some() || worker.found_full(&grant.to) {
            return false;
        }
        // What is asked for next may come before this goes on.
        grant.told = true;
        let (to, address, length) = (grant.to.clone(), grant.address, grant.length);
        let (cookie, number) = (grant.cookie, grant::number_of(n, grant.tag));
        let values = grant.values.take();
        drop(state);
        let first = length.min(CHUNK as u64) as usize;
        let read = match (&values, worker.bounce.get_mut(..first)) {
            (Some(_), _) => Ok(()),
            (None, Some(bytes)) => self.mm.load(address, bytes),
            (None, None) => Err(EINVAL),
        };
        let left = read.is_err_and(|e| worker.leaves(e));
        let all = first as u64 == length;
        let bytes = values.as_deref().unwrap_or(&worker.bounce);
        let failed = |e| if left { None } else { Some(e) };
        let sent = read.map_err(failed).and_then(|()| {
            let grant = if all { 0 } else { number };
            let envelope = to.envelope(self.address, cookie, Body::Granted { length, grant });
            let payload = bytes.get(..first).unwrap_or(&[]);
            match to.peer.send(to.epoch, &envelope, payload) {
                Err(e) if e == ECONNRESET => Err(Some(e)),
                sent => sent.map_err(|_| None),
            }
        });
        let mut state = self.state.lock();
        let over = match sent {
            Ok(()) => all.then_some(0),
            Err(Some(e)) => Some(errno(e)),
            Err(None) => None,
        };
        let again = matches!(sent, Err(None));
        if again && !left {
            worker.find_full(&to);
        }
        let mut left = values;
        if let Some(grant) = state.grants.get_mut(n) {
            if again {
                grant.told = false;
                grant.values = left.take();
            }
            grant.over = grant.over.or(over);
        }
        if let Some(values) = left {
            state.put_spare(values);
        }
        drop(state);
        // In another session the initiator may have begun it again.
        if let Some(status) = over.filter(|status| *status != 0 && !to.is_lost()) {
            let (status, length) = (status as u8, 0);
            to.reply(self.address, cookie, Body::Done { status, length });
        }
        !again
    }

    fn end_grant(&self, worker: &mut Worker, n: usize) -> bool {
        let mut state = self.state.lock();
        let Some(grant) = state.grants.get_mut(n) else {
            return false;
        };
        if grant.over.is_none() && grant.to.is_lost() {
            grant.over = Some(bindings::ECONNRESET);
        }
        let Some(status) = grant.over else {
            return false;
        };
        if !self.rings.has_room(&worker.counts, 1) {
            return false;
        }
        let (event, silent) = (
            Event {
                status,
                stored: if status == 0 { grant.event.stored } else { 0 },
                ..grant.event
            },
            grant.silent,
        );
        let values = grant.values.take();
        state.grants.take(n);
        if let Some(values) = values {
            state.put_spare(values);
        }
        drop(state);
        self.received(worker, &event, silent);
        true
    }
}
