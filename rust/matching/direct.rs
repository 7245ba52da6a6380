// SPDX-License-Identifier: GPL-2.0

//! Messages that a task takes for its own interface: matched together, and stored from where they were taken out.
//!
//! Nothing else of the interface waits then, and short messages alone are taken so: no memory is kept for them, and no
//! request. What meets a page that is not there is left to the thread, which stores it before anything else.

use super::{
    held::{Item, BYTES},
    initiator::errno,
    interface::{Interface, Worker},
    lists::Source,
    peer::{Peer, Taker, TAKEN},
    target::EVENTS,
};
use crate::{
    proto::{
        envelope::{Body, Envelope},
        matching::request::{Message, Op},
    },
    sys::client::Short,
};
use kernel::{bindings, prelude::*, sync::Arc};

/// The task that does the work of an interface.
pub(super) struct Own<'a>(pub(super) &'a Interface, pub(super) &'a mut Worker);

impl Taker for Own<'_> {
    fn take(&mut self, peer: &Arc<Peer>, all: &[Short]) -> usize {
        self.0.take_now(self.1, peer, all)
    }
}

impl Interface {
    /// Takes the first messages of a host that are for this interface, and for a buffer.
    fn take_now(&self, worker: &mut Worker, peer: &Arc<Peer>, all: &[Short]) -> usize {
        let Some(first) = all.first().and_then(|short| self.own(peer, short)) else {
            return 0;
        };
        let busy = worker.now.is_some() || worker.command.is_some() || worker.giving;
        if busy || !worker.direct.is_empty() || !peer.has_room() {
            return 0;
        }
        let mut rest = all.iter().take(TAKEN).skip(1);
        let mut next = Some(first);
        let mut bytes = [0; BYTES];
        let items = &mut worker.direct.items;
        let now = core::cell::Cell::new(&[] as &[u8]);
        let taken = self.matcher.with_lists(|lists, matcher| {
            lists.match_now(
                matcher,
                self.address.endpoint,
                || {
                    let next = next.take().or_else(|| self.own(peer, rest.next()?));
                    let (message, payload) = next?;
                    now.set(payload);
                    Some(message)
                },
                |receipt, unexpected| {
                    let payload = now.get();
                    if let Some(to) = bytes.get_mut(..payload.len()) {
                        to.copy_from_slice(payload);
                    }
                    let item = Item {
                        receipt: *receipt,
                        unexpected,
                        bytes,
                    };
                    // There are places for all.
                    let _ = items.push_within_capacity(item);
                },
            )
        });
        self.store_now(worker);
        taken
    }

    /// Returns a message, and its bytes, if it is one that can be taken so.
    fn own<'a>(&self, peer: &Peer, short: &'a Short) -> Option<(Message, &'a [u8])> {
        let behind = short.payload();
        let (envelope, at) = Envelope::decode(short.tag, behind, behind.len())?;
        let Body::Eager(said) = envelope.body else {
            return None;
        };
        let source = Source::new(peer.number, envelope.from.endpoint)?;
        let bytes = behind.get(at..).filter(|bytes| bytes.len() <= BYTES)?;
        let message = Message {
            op: Op::Put,
            source: source.0,
            bits: said.bits,
            length: said.length,
            eager: bytes.len() as u32,
            offset: None,
            data: said.data,
            cookie: envelope.cookie,
            sequence: said.sequence,
            payload: u64::MAX,
        };
        (envelope.to == self.address).then_some((message, bytes))
    }

    /// Stores messages that are matched. Returns whether there were any, and room for their events.
    pub(super) fn store_now(&self, worker: &mut Worker) -> bool {
        let before = worker.direct.stored;
        if worker.direct.is_empty() {
            return false;
        }
        // Nothing is added meanwhile.
        let items = core::mem::replace(&mut worker.direct.items, KVVec::new());
        for item in items.iter().skip(before) {
            if !self.rings.has_room(&worker.counts, EVENTS) || !self.store_item(worker, item) {
                break;
            }
            worker.direct.stored += 1;
        }
        worker.direct.items = items;
        let now = worker.direct.stored;
        if now == worker.direct.items.len() {
            worker.direct.clear();
        }
        now > before
    }

    /// Returns false if it is left to the thread.
    fn store_item(&self, worker: &mut Worker, item: &Item) -> bool {
        let Item {
            receipt,
            unexpected,
            bytes,
        } = item;
        let bytes = bytes.get(..receipt.eager() as usize).unwrap_or(&[]);
        let stored = match bytes.is_empty() {
            true => Ok(()),
            false => self.mm.store(receipt.address, bytes),
        };
        if stored.is_err_and(|e| worker.leaves(e)) {
            return false;
        }
        let status = stored.map_or_else(errno, |()| 0);
        match unexpected {
            true => self.kept(worker, receipt, status),
            false => self.has_met(worker, receipt, status),
        }
        true
    }

    /// Answers messages that are not stored: the interface is closed.
    pub(super) fn drop_now(&self, worker: &mut Worker) {
        for item in worker.direct.items.iter().skip(worker.direct.stored) {
            self.answer(&item.receipt.header, bindings::ENXIO, 0);
        }
        worker.direct.clear();
    }
}
