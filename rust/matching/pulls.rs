// SPDX-License-Identifier: GPL-2.0

//! Goes on with what the interface pulls: stores what has come, asks for more, ends it.

use super::{
    initiator::errno,
    interface::{Interface, Worker},
    lists::Source,
    pull::{Chunk, Pull, Purpose},
    target::flags,
    to::To,
    CHUNK, CHUNKS,
};
use crate::proto::{
    envelope::Body,
    matching::outcome::Receipt,
    slot::{Event, Kind},
};
use kernel::{bindings, prelude::*};

impl Interface {
    /// Begins to pull a message that has met a buffer.
    pub(super) fn begin_pull(&self, receipt: &Receipt) -> Result {
        let header = &receipt.header;
        let peer = self.peer_of(header.source).ok_or(ENODEV)?;
        let event = Event {
            flags: flags(receipt.unlinked, receipt.is_truncated()),
            address: receipt.address,
            ..self.of_header(Kind::Received, receipt.context, 0, header)
        };
        let from = To::now(peer, Source(header.source).address());
        let purpose = Purpose::Message {
            event,
            silent: !receipt.full,
        };
        let pull = Pull {
            cookie: header.cookie,
            granted: true,
            whole: header.length,
            ..self.new_pull(from, purpose, receipt.address, receipt.length)?
        };
        self.state.lock().begin_pull(pull)
    }

    /// Makes a pull of so many bytes. `ENOMEM`.
    pub(super) fn new_pull(
        &self,
        from: To,
        purpose: Purpose,
        address: u64,
        length: u64,
    ) -> Result<Pull> {
        let mut state = self.state.lock();
        let chunks = state.chunks();
        let mut kept = state.take_chunks(length, chunks);
        drop(state);
        Pull::new(from, purpose, address, length, chunks, &mut kept)
    }

    /// Goes on with all that is pulled: stores what has come, asks for more, ends it. Returns whether there was
    /// something to be done.
    pub(super) fn pull(&self, worker: &mut Worker) -> bool {
        let mut any = false;
        let used = self.state.lock().pulls.used();
        for n in used {
            for chunk in 0..CHUNKS {
                any |= self.store_chunk(worker, n, chunk);
                any |= self.ask(n, chunk);
            }
            any |= self.end_pull(worker, n);
        }
        any
    }

    fn store_chunk(&self, worker: &mut Worker, n: usize, chunk: usize) -> bool {
        let mut state = self.state.lock();
        let Some(pull) = state.pulls.get_mut(n) else {
            return false;
        };
        let address = pull.address;
        let Some(place) = pull.chunks.get_mut(chunk) else {
            return false;
        };
        let (buffer, offset, length) = match core::mem::replace(place, Chunk::Copying) {
            Chunk::Come(buffer, offset, length) => (buffer, offset, length),
            other => {
                *place = other;
                return false;
            }
        };
        drop(state);
        let bytes = buffer.get(..length as usize).unwrap_or(&[]);
        let stored = self.mm.store(address.wrapping_add(offset), bytes);
        let left = stored.is_err_and(|e| worker.leaves(e));
        let mut state = self.state.lock();
        // No other ends it: that is of the same work.
        if let Some(pull) = state.pulls.get_mut(n) {
            match stored {
                Ok(()) => pull.stored += u64::from(length),
                Err(_) if left => {}
                Err(e) => pull.status = errno(e),
            }
            if let Some(place) = pull.chunks.get_mut(chunk) {
                *place = match left {
                    true => Chunk::Come(buffer, offset, length),
                    false => Chunk::Free(buffer),
                };
            }
        }
        !left
    }

    fn ask(&self, n: usize, chunk: usize) -> bool {
        let mut state = self.state.lock();
        let Some(pull) = state.pulls.get_mut(n) else {
            return false;
        };
        let left = pull.length - pull.asked;
        if left == 0
            || !pull.granted
            || pull.status != 0
            || pull.from.is_lost()
            || !pull.from.peer.has_room()
        {
            return false;
        }
        let Some(place) = pull.chunks.get_mut(chunk) else {
            return false;
        };
        let offset = pull.asked;
        let length = left.min(CHUNK as u64) as u32;
        match core::mem::replace(place, Chunk::Copying) {
            // That of the last chunk may be shorter.
            Chunk::Free(buffer) if buffer.len() >= length as usize => {
                *place = Chunk::Asked(buffer, offset, length);
            }
            other => {
                *place = other;
                return false;
            }
        }
        pull.asked += u64::from(length);
        let body = Body::Pull {
            offset,
            length,
            chunk: n as u64 | (chunk as u64) << 16 | u64::from(pull.tag) << 32,
        };
        pull.from.reply(self.address, pull.cookie, body);
        true
    }

    fn end_pull(&self, worker: &mut Worker, n: usize) -> bool {
        let mut state = self.state.lock();
        let Some(pull) = state.pulls.get(n) else {
            return false;
        };
        if !pull.is_over() {
            return false;
        }
        // Also of what has no bytes the other end has to say that it is there.
        let whole = pull.granted && pull.status == 0 && pull.stored == pull.length;
        let lost = pull.from.is_lost() && !whole;
        let status = match pull.status {
            0 if lost => bindings::ECONNRESET,
            status => status,
        };
        // What was stored otherwise may have gaps.
        let stored = if status == 0 { pull.stored } else { 0 };
        let (event, silent) = match pull.purpose {
            Purpose::Message { event, silent } => (event, silent),
            Purpose::Operation(operation) => {
                // One whose session is lost may be done again: that is decided with the others.
                if lost {
                    return false;
                }
                if let Some(pull) = state.pulls.take(n) {
                    // Another one may have the place before this one's program is told.
                    if let Some(operation) = state.operations.get_mut(operation) {
                        operation.pull = None;
                    }
                    state.complete(operation, status, stored);
                    self.say_over(&pull, status, stored);
                    state.keep_chunks(pull);
                }
                return true;
            }
        };
        if !self.rings.has_room(&worker.counts, 1) {
            return false;
        }
        if let Some(pull) = state.pulls.take(n) {
            self.say_over(&pull, status, stored);
            state.keep_chunks(pull);
        }
        drop(state);
        let event = Event {
            status,
            stored,
            ..event
        };
        self.received(worker, &event, silent);
        true
    }

    /// Tells the other end that no more is pulled, if it waits for that.
    fn say_over(&self, pull: &Pull, status: u32, stored: u64) {
        if matches!(pull.purpose, Purpose::Message { .. }) || pull.cookie != 0 {
            let (status, length) = (status as u8, stored);
            let body = Body::Done { status, length };
            pull.from.reply(self.address, pull.cookie, body);
        }
    }
}
