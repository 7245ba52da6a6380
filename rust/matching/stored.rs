// SPDX-License-Identifier: GPL-2.0

//! Messages that are stored, and of which their source is told: one answer for all of a source since the last one.
//!
//! It is sent when there is nothing to be stored for now, or when it is for many. This file must not know lists.

use super::{
    held::Stored,
    interface::{Interface, Worker},
    lists::{answer, Source},
    OPERATIONS,
};
use crate::proto::{envelope::Body, matching::request::Header};

/// An answer is for so many at most: the source can have as many under way again meanwhile.
const MOST: usize = OPERATIONS / 2;

impl Interface {
    /// Notes that a message is stored, whose bytes have all come with it: those of a source in their order.
    pub(super) fn note_stored(&self, worker: &mut Worker, header: &Header) {
        let source = Source(header.source);
        let same = worker.stored.as_mut().filter(|all| all.source == source);
        if let Some(all) = same {
            all.cookie = header.cookie;
            all.count += 1;
            if all.count >= MOST {
                self.say_stored(worker);
            }
            return;
        }
        self.say_stored(worker);
        worker.stored = self.peer_of(header.source).map(|peer| Stored {
            peer,
            source,
            cookie: header.cookie,
            count: 1,
        });
    }

    /// Tells a source what is stored.
    pub(super) fn say_stored(&self, worker: &mut Worker) {
        let Some(all) = worker.stored.take() else {
            return;
        };
        let number = self.address.endpoint;
        all.peer
            .reply(&answer(number, all.source, all.cookie, Body::Stored));
    }
}
