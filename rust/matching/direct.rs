// SPDX-License-Identifier: GPL-2.0

//! Messages that a task takes for its own interface: matched together, and stored from where they were taken out.
//!
//! Nothing else of the interface waits then, and short messages alone are taken so: no memory is kept for them, and no
//! request. What meets a page that is not there is left to the thread, which stores it before anything else.

use super::{
    held::{Direct, Item, BYTES},
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
use kernel::{bindings, sync::Arc};

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
        let direct = &mut worker.direct;
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
                |receipt, unexpected| direct.add(receipt, unexpected, now.get()),
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
        // Nothing is added meanwhile.
        let mut direct = core::mem::replace(&mut worker.direct, Direct::EMPTY);
        let mut any = false;
        while let Some(item) = direct.next() {
            if !self.rings.has_room(&worker.counts, EVENTS) || !self.store_item(worker, item) {
                break;
            }
            direct.note();
            any = true;
        }
        worker.direct = direct;
        any
    }

    /// Returns false if it is left to the thread.
    fn store_item(&self, worker: &mut Worker, item: &Item) -> bool {
        let receipt = &item.receipt;
        // On the stack: there the kernel need not find out which object it would be a part of.
        let bytes = item.raw();
        let bytes = bytes.get(..receipt.eager() as usize).unwrap_or(&[]);
        let stored = match bytes.is_empty() {
            true => Ok(()),
            false => self.mm.store(receipt.address, bytes),
        };
        if stored.is_err_and(|e| worker.leaves(e)) {
            return false;
        }
        let status = stored.map_or_else(errno, |()| 0);
        match item.unexpected {
            true => self.kept(worker, receipt, status),
            false => self.has_met(worker, receipt, status),
        }
        true
    }

    /// Answers messages that are not stored: the interface is closed.
    pub(super) fn drop_now(&self, worker: &mut Worker) {
        while let Some(item) = worker.direct.next() {
            self.answer(&item.receipt.header, bindings::ENXIO, 0);
            worker.direct.note();
        }
    }
}
