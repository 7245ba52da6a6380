// SPDX-License-Identifier: GPL-2.0

//! What makes and ends connections by messages of the link queues: the engine carries the messages, in order
//! with those of queue pairs, and does not know what they are for.

use crate::{fabric::Node, hw::Port, proto::socket::message::Message};

/// The link that a message has come over, for a run of the engine.
#[derive(Clone, Copy)]
pub(crate) struct Reached<'a> {
    pub(crate) node: &'a Node,
    pub(crate) port: &'a dyn Port,
    pub(crate) link: usize,
}

/// The other end of such messages. Called with the link's `Worker::core` locked; must not call the engine.
pub(crate) trait Control: Send + Sync {
    /// Handles a message of the peer. Returns whether it took a search of all connections.
    fn arrived(&self, reached: &Reached<'_>, message: &Message) -> bool;

    /// Returns the oldest message that is to be sent over a link.
    fn next(&self, link: usize) -> Option<Message>;

    /// Forgets that message: it is sent.
    fn sent(&self, link: usize);

    /// Returns whether the peer may have sent messages that are waited for: the engine runs on its doorbells. Called
    /// in hard interrupts.
    fn listens(&self) -> bool;
}
