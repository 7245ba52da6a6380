// SPDX-License-Identifier: GPL-2.0

//! What a link has to act upon, messages of its peer and the clock, and the work item that does it.
//!
//! Each link has its own, at normal priority: acting upon a message may take long, as when an arena is
//! zeroed or its withdrawal is waited for, and no other link waits for that. Whatever a peer sends, at
//! most [`DEPTH`] messages of it wait here; more are dropped, as a mailbox may.

use super::Node;
use crate::{
    proto::wire::Message,
    sys::{queue::Queue, work},
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Release},
        Arc, Mutex,
    },
    workqueue::{DelayedWork, WorkItem},
};

/// The most messages of a peer that wait: as many as one call of [`Node::drain`] reads.
pub(super) const DEPTH: usize = 32;

/// The inbox of a link.
#[pin_data]
pub(super) struct Inbox {
    link: usize,
    /// The node, while it has a port.
    #[pin]
    node: Mutex<Option<Arc<Node>>>,
    #[pin]
    queue: Mutex<Queue<Message>>,
    /// [`Link::tick`](crate::fabric::link::Link::tick) is to be called.
    due: Atomic<bool>,
    #[pin]
    work: DelayedWork<Inbox>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Inbox { self.work }
}

impl Inbox {
    pub(super) fn new(link: usize) -> Result<Arc<Self>> {
        let queue = Queue::new(Message::BLANK, DEPTH)?;
        Arc::pin_init(
            pin_init!(Self {
                link,
                node <- new_mutex!(None, "weft inbox node"),
                queue <- new_mutex!(queue, "weft inbox"),
                due: Atomic::new(false),
                work <- new_delayed_work!("weft inbox"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the node; `None`: its port is gone. Returns the one before.
    pub(super) fn set_node(&self, node: Option<Arc<Node>>) -> Option<Arc<Node>> {
        core::mem::replace(&mut *self.node.lock(), node)
    }

    /// Queues a message, with the port entered. Returns false if there is no room.
    pub(super) fn put(self: &Arc<Self>, message: Message) -> bool {
        let put = self.queue.lock().put(message);
        work::again_unbound_in(self, 0);
        put
    }

    /// Returns whether a message waits for which `f` returns true.
    pub(super) fn has(&self, f: &dyn Fn(&Message) -> bool) -> bool {
        self.queue.lock().any(f)
    }

    /// Has the link look at the clock, behind the messages that wait. To be called with the port entered.
    pub(super) fn tick(self: &Arc<Self>) {
        self.due.store(true, Release);
        work::again_unbound_in(self, 0);
    }

    /// Waits until the work item neither runs nor is queued. Sleeps.
    pub(super) fn cancel(self: &Arc<Self>) {
        work::cancel_delayed(self);
    }
}

impl WorkItem for Inbox {
    type Pointer = Arc<Inbox>;

    fn run(this: Arc<Inbox>) {
        let Some(node) = this.node.lock().clone() else {
            return;
        };
        let Some(port) = node.port_at_work() else {
            return;
        };
        // Limited: the clock has its turn.
        for _ in 0..DEPTH {
            let Some(message) = this.queue.lock().take() else {
                break;
            };
            // Without a destination there is no link, and the message is late.
            if let Ok(link) = node.link(&**port, this.link) {
                link.message(&*node, &**port, &message);
            }
        }
        if this.due.xchg(false, Full) {
            if let Ok(link) = node.link(&**port, this.link) {
                link.tick(&*node, &**port);
            }
        }
        if !this.queue.lock().is_empty() {
            // The port is entered: the revocation cancels work items only after it is left.
            work::again_unbound_in(&this, 0);
        }
    }
}
