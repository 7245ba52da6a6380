// SPDX-License-Identifier: GPL-2.0

//! The sockets of a link, by their ids, and the messages that are to be sent to its peer.

use super::{
    end::{Remote, State},
    Socket,
};
use crate::{
    proto::socket::message::{Message, Says},
    sys::irqlock::{new_spinlock_irq, SpinLockIrq},
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode},
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The most messages that wait to be sent: far more than a peer that obeys the protocol causes. Beyond it the peer gets
/// no answer.
const MOST_WAITING: usize = 16384;

/// The sockets of a link.
#[pin_data]
pub(super) struct PerLink {
    #[pin]
    table: SpinLockIrq<RBTree<u32, Arc<Socket>>>,
    #[pin]
    outbox: Mutex<KVVec<Message>>,
    /// Messages in it: each run of the engine looks.
    waiting: Atomic<usize>,
    /// Sockets in the table.
    count: Atomic<u32>,
    /// Bytes that were sent since [`Self::take_sent`].
    sent: Atomic<u64>,
    /// Counts sessions.
    session: Atomic<u64>,
    /// Quiesced. Locked while sockets are quiesced, and while one is opened, or closed by its peer: a socket that is
    /// quiesced writes nothing to its peer, and a request that the peer has withdrawn is not accepted.
    #[pin]
    rests: Mutex<bool>,
}

impl PerLink {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            table <- new_spinlock_irq!(RBTree::new(), c"weft sockets"),
            outbox <- new_mutex!(KVVec::new(), "weft socket messages"),
            waiting: Atomic::new(0),
            count: Atomic::new(0),
            sent: Atomic::new(0),
            session: Atomic::new(0),
            rests <- new_mutex!(false, "weft sockets rest"),
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Counts bytes that a socket has sent.
    pub(super) fn has_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns how many bytes were sent since the last call.
    pub(super) fn take_sent(&self) -> u64 {
        self.sent.xchg(0, Relaxed)
    }

    pub(super) fn session(&self) -> u64 {
        self.session.load(Relaxed)
    }

    /// Begins a session. Called with the link locked.
    pub(super) fn begin(&self) {
        self.session.fetch_add(1, Relaxed);
        // What was sent in the session before may have gone to another peer.
        self.sent.store(0, Relaxed);
        *self.rests.lock() = false;
    }

    /// Quiesces all sockets: when this returns, nothing is written to the peer until [`Self::go_on`]. Sleeps.
    pub(super) fn rest(&self) {
        let mut rests = self.rests.lock();
        if !core::mem::replace(&mut *rests, true) {
            self.all().for_each(|socket| socket.rest());
        }
    }

    pub(super) fn go_on(&self) {
        let mut rests = self.rests.lock();
        if core::mem::take(&mut *rests) {
            self.all().for_each(|socket| socket.go_on());
        }
    }

    /// Opens a socket whose other half is known, quiesced if the others are. Returns false if it was not waiting for that.
    pub(super) fn open(&self, socket: &Socket, remote: Remote) -> bool {
        self.changing(|rests| socket.open(remote, rests))
    }

    /// Calls `f` while no other socket is opened, closed by its peer, or quiesced; with whether they are quiesced. Sleeps.
    pub(super) fn changing<R>(&self, f: impl FnOnce(bool) -> R) -> R {
        let rests = self.rests.lock();
        f(*rests)
    }

    /// As [`Socket::drained`]. Sleeps.
    pub(super) fn drained(&self, socket: &Socket) -> bool {
        self.changing(|_| socket.drained())
    }

    /// Adds a socket, and makes room for its messages: posting those does not fail. `EEXIST`: its id is that of another
    /// one.
    pub(super) fn add(&self, socket: &Arc<Socket>) -> Result {
        // A request or an answer, Close, and Closed.
        let most = 3 * (self.count() as usize + 1);
        self.outbox.lock().reserve(most, GFP_KERNEL)?;
        let node = RBTreeNode::new(socket.made.id, socket.clone(), GFP_KERNEL_ACCOUNT)?;
        let mut table = self.table.lock();
        if table.get(&socket.made.id).is_some() {
            drop(table);
            drop(node);
            return Err(EEXIST);
        }
        let replaced = table.insert(node);
        drop(table);
        drop(replaced);
        self.count.fetch_add(1, Relaxed);
        Ok(())
    }

    pub(super) fn find(&self, id: u32) -> Option<Arc<Socket>> {
        self.table.lock().get(&id).cloned()
    }

    /// Finds the socket that the peer has called `id` in its request.
    pub(super) fn find_peer(&self, id: u32) -> Option<Arc<Socket>> {
        self.all()
            .find(|socket| socket.remote.as_ref().is_some_and(|remote| remote.id == id))
    }

    /// Removes a socket. Returns whether it was there.
    pub(super) fn remove(&self, socket: &Socket) -> bool {
        let mut table = self.table.lock();
        let id = socket.made.id;
        let is_it = |other: &Arc<Socket>| core::ptr::eq(&**other, socket);
        let gone = match table.get(&id).is_some_and(is_it) {
            true => table.remove_node(&id),
            false => None,
        };
        drop(table);
        let removed = gone.is_some();
        if removed {
            self.count.fetch_sub(1, Relaxed);
        }
        // It may have been the last reference.
        drop(gone);
        removed
    }

    /// Iterates over the sockets, in the order of their ids. The table is not locked while the caller has an item.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Socket>> + '_ {
        let mut next = Some(0);
        core::iter::from_fn(move || {
            let table = self.table.lock();
            let found = table.cursor_lower_bound(&next?)?;
            let (id, socket) = found.current();
            next = id.checked_add(1);
            Some(socket.clone())
        })
    }

    /// Calls `f` with each socket, with interrupts off.
    pub(super) fn for_each(&self, f: impl Fn(&Socket)) {
        if self.count() != 0 {
            self.table.lock().values().for_each(|socket| f(socket));
        }
    }

    /// Has a message sent by the next run of the engine. `ENOMEM`, also if too many wait.
    pub(super) fn post(&self, message: Message) -> Result {
        let mut outbox = self.outbox.lock();
        if outbox.len() >= MOST_WAITING {
            return Err(ENOMEM);
        }
        outbox.push(message, GFP_KERNEL)?;
        self.waiting.store(outbox.len(), Relaxed);
        Ok(())
    }

    /// As [`Self::post`], a message of `socket` to its peer; of a request that has no answer, to none of its sockets.
    pub(super) fn say(&self, socket: &Socket, says: Says) -> Result {
        self.post(Message {
            to: socket.remote.as_ref().map_or(0, |remote| remote.id),
            from: socket.made.id,
            says,
        })
    }

    /// Ends a socket of the link whose peer has broken the protocol: calls of the program fail with `error`. `remote` is the
    /// peer's id of it. Sleeps.
    pub(super) fn fail(&self, socket: &Socket, error: Error, remote: u32) {
        socket.failure.populate(error);
        let old = socket.change(|state| match state {
            State::Connecting | State::Open | State::Draining => Some(State::Closing),
            _ => None,
        });
        socket.accesses.revoke(|| ());
        socket.wake_all();
        let says = match old {
            Some(State::Draining) => {
                // The peer has closed its end: nothing of it comes.
                self.remove(socket);
                Says::Closed
            }
            Some(_) => Says::Close { aborts: true },
            None => return,
        };
        // There is room: see `Self::add`.
        let _ = self.post(Message {
            to: remote,
            from: socket.made.id,
            says,
        });
    }

    /// Returns the oldest message. One that is posted meanwhile may not be seen: the run of the engine after it sees it.
    pub(super) fn first(&self) -> Option<Message> {
        if self.waiting.load(Relaxed) == 0 {
            return None;
        }
        self.outbox.lock().first().copied()
    }

    pub(super) fn forget_first(&self) {
        let mut outbox = self.outbox.lock();
        let _ = outbox.remove(0);
        self.waiting.store(outbox.len(), Relaxed);
    }

    /// Forgets all messages: the session has ended.
    pub(super) fn clear(&self) {
        let mut outbox = self.outbox.lock();
        outbox.clear();
        self.waiting.store(0, Relaxed);
    }
}
