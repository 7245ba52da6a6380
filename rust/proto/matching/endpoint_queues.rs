// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The two match request queues of an endpoint, and which of them has its turn. This file is independent of other
//! endpoints.

use super::{
    queue::Queue,
    request::{Request, Work},
    storage::NONE,
};

/// The two kinds of match requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the program of the endpoint.
    Command = 0,
    /// From the network.
    Message = 1,
}

impl Kind {
    pub(super) const fn of(request: &Request) -> Self {
        match request.work {
            Work::Command(_) => Self::Command,
            Work::Message(_) => Self::Message,
        }
    }

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Command => Self::Message,
            Self::Message => Self::Command,
        }
    }
}

/// An endpoint, as the dispatcher knows it.
#[derive(Clone, Copy, Debug)]
pub struct EndpointQueues {
    pub(super) queues: [Queue; 2],
    /// The next in the ring of those that wait for their turn.
    pub(super) next: u32,
    /// Messages that found their entry in the cache, and are not done.
    pub(super) hits: u32,
    /// The line of the cache.
    pub(super) line: u32,
    pub(super) engine: u8,
    pub(super) open: bool,
    /// A request is being executed.
    pub(super) blocked: bool,
    /// The caller has deferred it.
    pub(super) deferred: bool,
    /// Messages are held.
    pub(super) held: bool,
    /// A message found the queue full.
    pub(super) refused: bool,
    /// The kind that was taken last.
    pub(super) last: Kind,
    /// The kind for which it waits for its turn.
    pub(super) waits: Option<Kind>,
}

impl EndpointQueues {
    /// Initial value for memory.
    pub const CLOSED: Self = Self {
        queues: [Queue::EMPTY; 2],
        next: NONE,
        hits: 0,
        line: NONE,
        engine: 0,
        open: false,
        blocked: false,
        deferred: false,
        held: false,
        refused: false,
        last: Kind::Message,
        waits: None,
    };

    pub(super) fn queue_mut(&mut self, kind: Kind) -> &mut Queue {
        let [commands, messages] = &mut self.queues;
        match kind {
            Kind::Command => commands,
            Kind::Message => messages,
        }
    }

    pub(super) fn waiting(&self, kind: Kind) -> u32 {
        let [commands, messages] = &self.queues;
        match kind {
            Kind::Command => commands.count,
            Kind::Message => messages.count,
        }
    }

    /// Returns the kind whose turn it is.
    pub(super) fn turn(&self) -> Option<Kind> {
        if self.blocked || self.deferred {
            return None;
        }
        let ready = |kind| self.waiting(kind) > 0 && !(kind == Kind::Message && self.held);
        let kind = [self.last.other(), self.last]
            .into_iter()
            .find(|kind| ready(*kind))?;
        // A command may unlink the entry that hits are using: it waits for them, and messages wait for it.
        (kind == Kind::Message || self.hits == 0).then_some(kind)
    }
}
