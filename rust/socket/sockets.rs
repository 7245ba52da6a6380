// SPDX-License-Identifier: GPL-2.0

//! The sockets of a port, and how they handle messages of their peers.

use super::{
    end::{Remote, State},
    listener::{Listener, Request},
    per_link::PerLink,
    Socket,
};
use crate::{
    channel::Channels,
    hw::MAX_LINKS,
    proto::socket::{
        message::{Message, Reject, Says},
        Half,
    },
    sys::errno::{ECONNREFUSED, ECONNRESET, ENOBUFS, EOPNOTSUPP, EPROTO},
    verbs::{Control, Reached},
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

/// The sockets of a port.
#[pin_data]
pub(crate) struct Sockets {
    pub(super) channels: Arc<Channels>,
    /// The vital product data of the port do not say that it has none.
    pub(super) supported: bool,
    #[pin]
    pub(super) links: [PerLink; MAX_LINKS],
    #[pin]
    pub(super) listeners: Mutex<KVec<Arc<Listener>>>,
    last_id: Atomic<u32>,
    /// No socket is made any more.
    pub(super) ending: Atomic<bool>,
    /// A program has had a socket, or has listened.
    used: Atomic<bool>,
}

impl Sockets {
    /// Makes the sockets of a port, whose halves are pages of the arenas of `channels`.
    pub(crate) fn new(channels: &Arc<Channels>, supported: bool) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                channels: channels.clone(),
                supported,
                links <- pin_init::pin_init_array_from_fn(|_| PerLink::new()),
                listeners <- new_mutex!(KVec::new(), "weft socket listeners"),
                last_id: Atomic::new(0),
                ending: Atomic::new(false),
                used: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns how many bytes the sockets of a link have sent since the last call.
    pub(crate) fn take_sent(&self, link: usize) -> u64 {
        self.links.get(link).map_or(0, PerLink::take_sent)
    }

    pub(super) fn per_link(&self, link: usize) -> Result<&PerLink> {
        self.links.get(link).ok_or(EINVAL)
    }

    /// Returns an id that no socket of the link has.
    pub(super) fn new_id(&self, per_link: &PerLink) -> u32 {
        loop {
            let id = self.last_id.fetch_add(1, Relaxed).wrapping_add(1);
            if id != 0 && per_link.find(id).is_none() {
                return id;
            }
        }
    }

    /// From now on what peers send is waited for.
    pub(super) fn is_used_now(&self) {
        self.used.store(true, Relaxed);
    }

    fn listener(&self, service: u32) -> Option<Arc<Listener>> {
        let listeners = self.listeners.lock();
        let mut all = listeners.iter();
        all.find(|listener| listener.service == service).cloned()
    }

    /// Has a request wait at its listener, or rejects it.
    fn request(
        &self,
        link: usize,
        from: u32,
        service: u32,
        (half, data): (Half, u64),
    ) -> Result<(), Reject> {
        if !self.supported {
            return Err(Reject::Unsupported);
        }
        let listener = match self.ending.load(Relaxed) {
            true => None,
            false => self.listener(service),
        };
        let request = Request {
            link,
            session: self.links.get(link).map_or(0, PerLink::session),
            from,
            half,
            data,
        };
        match listener.is_some_and(|listener| listener.add(request)) {
            true => Ok(()),
            false => Err(Reject::Refused),
        }
    }

    /// Handles the answer to a request.
    fn accepted(&self, reached: &Reached<'_>, per_link: &PerLink, to: u32, from: u32, half: Half) {
        let Some(socket) = per_link.find(to) else {
            return;
        };
        let remote = Remote {
            id: from,
            // An offset behind a window; that all of the half is there is checked at each access.
            base: half.base as usize,
        };
        if half.shape != socket.made.shape {
            per_link.fail(&socket, EPROTO.into(), from);
            return;
        }
        if per_link.open(&socket, remote) {
            socket.greet(reached.node, reached.port);
            socket.wake_all();
        }
    }

    fn rejected(per_link: &PerLink, to: u32, why: Reject) {
        let error = match why {
            Reject::Refused => ECONNREFUSED,
            Reject::NoRoom => ENOBUFS,
            Reject::Unsupported => EOPNOTSUPP,
        };
        if let Some(socket) = per_link.find(to) {
            let waits = |state| match state {
                State::Connecting | State::Closing => Some(State::Ended(error.into())),
                _ => None,
            };
            // The peer knows of no half that is open.
            if socket.remote.as_ref().is_none() && socket.change(waits).is_some() {
                per_link.remove(&socket);
                socket.wake_all();
            }
        }
    }

    /// Handles that the peer has closed its end, or has withdrawn its request. Returns whether that can be confirmed.
    fn closed_by_peer(
        &self,
        link: usize,
        per_link: &PerLink,
        (to, from): (u32, u32),
        aborts: bool,
    ) -> bool {
        let is_it = |socket: &Arc<Socket>| socket.remote.as_ref().is_some_and(|r| r.id == from);
        per_link.changing(|_| {
            let socket = match to {
                0 => {
                    for listener in &*self.listeners.lock() {
                        listener.remove(|request| request.link == link && request.from == from);
                    }
                    per_link.find_peer(from)
                }
                to => per_link.find(to),
            };
            let Some(socket) = socket.filter(is_it) else {
                return true;
            };
            if aborts {
                socket.failure.populate(ECONNRESET.into());
            }
            socket.close_by_peer()
        })
    }
}

impl Control for Sockets {
    fn arrived(&self, reached: &Reached<'_>, message: &Message) -> bool {
        let Some(per_link) = self.links.get(reached.link) else {
            return false;
        };
        let Message { to, from, says } = *message;
        let answer = match says {
            Says::Init {
                service,
                half,
                data,
            } => {
                let request = self.request(reached.link, from, service, (half, data));
                request.err().map(|why| (Says::Reject(why), from, 0))
            }
            Says::Accept(half) => {
                self.accepted(reached, per_link, to, from, half);
                None
            }
            Says::Reject(why) => {
                Self::rejected(per_link, to, why);
                None
            }
            Says::Close { aborts } => self
                .closed_by_peer(reached.link, per_link, (to, from), aborts)
                .then_some((Says::Closed, from, to)),
            Says::Closed => {
                if let Some(socket) = per_link.find(to) {
                    if socket.state() == State::Closing {
                        per_link.remove(&socket);
                    }
                }
                None
            }
        };
        if let Some((says, to, from)) = answer {
            // Without memory for it the peer waits until its user gives up.
            let _ = per_link.post(Message { to, from, says });
        }
        matches!(message.says, Says::Close { .. }) && message.to == 0
    }

    fn next(&self, link: usize) -> Option<Message> {
        self.links.get(link)?.first()
    }

    fn sent(&self, link: usize) {
        if let Some(per_link) = self.links.get(link) {
            per_link.forget_first();
        }
    }

    fn listens(&self) -> bool {
        self.used.load(Relaxed)
    }
}
