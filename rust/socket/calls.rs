// SPDX-License-Identifier: GPL-2.0

//! The requests of users: to listen, to connect, to accept, to shut down, to close.

use super::{
    end::{Making, Remote, State},
    listener::{Listener, Request},
    Socket, Sockets,
};
use crate::{
    channel::{Pages, MAX_LISTENERS},
    fabric::{Destination, Inside, Node, Session},
    proto::{
        protocol::Protocol,
        socket::{
            message::{Message, Reject, Says},
            Mode, Shape,
        },
    },
    share::{Charge, Payer, Table},
    sys::{
        clock,
        errno::{
            EADDRINUSE, ECONNABORTED, EHOSTUNREACH, EINPROGRESS, ENOBUFS, ENOTCONN, EOPNOTSUPP,
        },
        ext::weft_sock_info,
        waitq::WaitQueue,
    },
    verbs::Engine,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Relaxed, Release},
        Arc,
    },
    time::Msecs,
};

/// The socket that a user wants.
pub(crate) struct Wanted {
    /// Hardware id of the peer, 0 for any peer.
    pub(crate) peer: u64,
    /// The link, `None` for any.
    pub(crate) link: Option<usize>,
    pub(crate) service: u32,
    pub(crate) shape: Shape,
    pub(crate) timeout: Msecs,
}

impl Wanted {
    /// Returns the shape of halves of `bytes` for a mask of `WEFT_PULL_*`. `EINVAL`: there is none; `EOPNOTSUPP`: sockets
    /// do not have this combination.
    pub(crate) fn shape(protocol: u32, bytes: u32) -> Result<Shape> {
        let mode = match Protocol::of(protocol).ok_or(EINVAL)? {
            Protocol::PUSH => Mode::Push,
            Protocol {
                wqe: true,
                data: true,
                cqe: false,
            } => Mode::Pull,
            _ => return Err(EOPNOTSUPP.into()),
        };
        Shape::new(mode, bytes).ok_or(EINVAL)
    }
}

/// Names the limit that a program knows from other sockets.
fn no_room(error: Error) -> Error {
    match error {
        e if e == ENOSPC => ENOBUFS.into(),
        e => e,
    }
}

impl Sockets {
    /// Listens on `service`. `EADDRINUSE`: another file listens on it; `ENOSPC`: the port has [`MAX_LISTENERS`];
    /// `EDQUOT`: `payer` has its share; `EOPNOTSUPP`: the port says that it has no sockets.
    pub(crate) fn listen(
        &self,
        payer: &Payer,
        service: u32,
        backlog: usize,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Listener>> {
        self.are_there()?;
        let charge = payer.take(Table::Listeners, MAX_LISTENERS, 1)?;
        let listener = Listener::new(service, backlog, waiters, charge)?;
        let mut listeners = self.listeners.lock();
        if listeners.iter().any(|other| other.service == service) {
            return Err(EADDRINUSE.into());
        }
        listeners.push(listener.clone(), GFP_KERNEL_ACCOUNT)?;
        self.is_used_now();
        Ok(listener)
    }

    fn are_there(&self) -> Result {
        match self.supported {
            true => Ok(()),
            false => Err(EOPNOTSUPP.into()),
        }
    }

    /// Removes the listener of a closed file, and rejects the requests that wait.
    pub(crate) fn unlisten(&self, node: &Node, engine: &Engine, listener: &Arc<Listener>) {
        self.listeners
            .lock()
            .retain(|other| !Arc::ptr_eq(other, listener));
        for request in listener.close() {
            self.reject(node, engine, &request, Reject::Refused);
        }
    }

    /// Rejects a request.
    fn reject(&self, node: &Node, engine: &Engine, request: &Request, why: Reject) {
        if let Ok(per_link) = self.per_link(request.link) {
            if per_link.session() == request.session {
                // Without memory for it the peer waits until its user gives up.
                let _ = per_link.post(Message {
                    to: request.from,
                    from: 0,
                    says: Says::Reject(why),
                });
                // If the port is gone, no peer waits.
                let _ = engine.tell(node, request.link);
            }
        }
    }

    /// Makes a socket on the link of `session`, with a half of zeros, in the table. Errors as [`Pages::new`], but
    /// `ENOBUFS` for `ENOSPC`.
    fn make(
        &self,
        session: &Session<'_>,
        payer: &Payer,
        (service, shape): (u32, Shape),
        charge: Option<Charge>,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Socket>> {
        let (link, port) = (session.link(), session.port());
        let per_link = self.per_link(link)?;
        let bytes = shape.bytes() as usize;
        let making = Making {
            id: self.new_id(per_link),
            link,
            service,
            shape,
            peer: session.peer().ok_or(ENOTCONN)?.id,
            pages: Pages::new(&self.channels, link, payer, bytes).map_err(no_room)?,
            _charge: charge,
        };
        port.arena(link)?.zero(making.at(), bytes)?;
        let socket = Socket::new(making, waiters)?;
        per_link.add(&socket)?;
        Ok(socket)
    }

    /// Connects. With `nonblock` it does not wait for the answer: the second value is `EINPROGRESS`; otherwise it waits.
    /// `EHOSTUNREACH` and others as [`Node::reach`]; `ENOBUFS`: the arena of the link has no room for another half, here
    /// or at the peer; `EDQUOT`: `payer` has its share of it; `ETIMEDOUT`: no answer came in time; `EINTR`: a signal
    /// came; `ECONNREFUSED`: nothing listens, or the backlog is full; `EOPNOTSUPP`: this port or the peer has no sockets.
    pub(crate) fn connect(
        &self,
        (node, engine): (&Node, &Engine),
        (payer, inside): (&Payer, &Inside<'_>),
        wanted: &Wanted,
        waiters: Arc<WaitQueue>,
        nonblock: bool,
    ) -> Result<(Arc<Socket>, Result)> {
        self.are_there()?;
        let since = clock::now_ms();
        let to = Destination {
            peer: wanted.peer,
            link: wanted.link,
            end: 0,
        };
        self.is_used_now();
        let mut held = node.reach(payer, inside, to, wanted.timeout)?;
        let (link, peer, charge) = (held.link(), held.peer, held.take_charge());
        let made = node.with_link(link, |session| {
            // The link may have had another session meanwhile.
            if session.peer().is_none_or(|there| there.id.hwid != peer) {
                return Err(EHOSTUNREACH.into());
            }
            let what = (wanted.service, wanted.shape);
            let socket = self.make(session, payer, what, charge, waiters.clone())?;
            let per_link = self.per_link(link)?;
            let request = Says::Init {
                service: wanted.service,
                half: socket.made.half(),
            };
            per_link.say(&socket, request).inspect_err(|_| {
                per_link.remove(&socket);
            })?;
            Ok(socket)
        });
        let socket = made.map_err(|e| match e {
            e if e == ENOTCONN => EHOSTUNREACH.into(),
            e => e,
        })?;
        drop(held);
        engine.tell(node, link)?;
        if nonblock && socket.state() == State::Connecting {
            return Ok((socket, Err(EINPROGRESS.into())));
        }
        let passed = clock::now_ms().saturating_sub(since) as Msecs;
        let left = wanted.timeout.saturating_sub(passed);
        let answered = || socket.state() != State::Connecting || node.is_closed();
        let waited = inside.asleep(|| waiters.wait_ms(answered, left));
        if socket.state() == State::Connecting {
            self.close(node, engine, &socket);
            return Err(match waited {
                Err(e) if e == ERESTARTSYS => EINTR,
                Err(e) => e,
                Ok(()) => ENODEV,
            });
        }
        match socket.error() {
            Some(error) => Err(error),
            None => Ok((socket, Ok(()))),
        }
    }

    /// Accepts the oldest request. `waiters` is that of the file that becomes the end of the connection. `EAGAIN`: none
    /// waits, with `nonblock`; `ECONNABORTED`: the peer has given up, or its link was lost; `ENOBUFS`: the arena of the
    /// link has no room for another half; `EDQUOT`: `payer` has its share of it.
    pub(crate) fn accept(
        &self,
        (node, engine): (&Node, &Engine),
        (payer, inside): (&Payer, &Inside<'_>),
        listener: &Listener,
        waiters: Arc<WaitQueue>,
        nonblock: bool,
    ) -> Result<Arc<Socket>> {
        loop {
            if node.is_closed() {
                return Err(ENODEV);
            }
            let Some(request) = listener.first() else {
                if nonblock {
                    return Err(EAGAIN);
                }
                inside.asleep(|| listener.wait(|| node.is_closed()))?;
                continue;
            };
            let waiters = waiters.clone();
            match self.take_request(node, payer, listener, &request, waiters) {
                Ok(Some(socket)) => {
                    engine.tell(node, request.link)?;
                    node.touch(request.link);
                    return Ok(socket);
                }
                Ok(None) => {}
                Err(e) => {
                    // It is still there if its link was lost.
                    listener.take(&request);
                    if e == ENOTCONN {
                        return Err(ECONNABORTED.into());
                    }
                    self.reject(node, engine, &request, Reject::NoRoom);
                    return Err(e);
                }
            }
        }
    }

    /// Takes a request from its listener, and makes the socket that answers it. `None`: it is not there any more. Errors as
    /// [`Self::accept`], but `ENOTCONN` if its link was lost.
    fn take_request(
        &self,
        node: &Node,
        payer: &Payer,
        listener: &Listener,
        request: &Request,
        waiters: Arc<WaitQueue>,
    ) -> Result<Option<Arc<Socket>>> {
        node.with_link(request.link, |session| {
            let per_link = self.per_link(request.link)?;
            if per_link.session() != request.session {
                return Err(ENOTCONN.into());
            }
            per_link.changing(|rests| {
                // Another call may have accepted it, or the peer withdrawn it: its half is not to be written then.
                if !listener.take(request) {
                    return Ok(None);
                }
                let far = session.port().far_links();
                let charge = payer.take_link(&far, request.link)?;
                let what = (listener.service, request.half.shape);
                let socket = self.make(session, payer, what, charge, waiters)?;
                let remote = Remote {
                    id: request.from,
                    base: request.half.base as usize,
                };
                socket.open(remote, rests);
                socket.greet(node, session.port());
                let answer = Says::Accept(socket.made.half());
                per_link.say(&socket, answer).inspect_err(|_| {
                    per_link.remove(&socket);
                })?;
                Ok(Some(socket))
            })
        })
    }

    /// Sends no more, with `sends`; receives no more, with `receives`. `ENOTCONN`: there is no connection; `EINTR`: a
    /// signal came while another call was sending.
    pub(crate) fn shut_down(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        sends: bool,
        receives: bool,
    ) -> Result {
        if !matches!(
            socket.state(),
            State::Open | State::Draining | State::PeerClosed
        ) {
            return Err(socket.error().unwrap_or(ENOTCONN.into()));
        }
        if receives {
            socket.deaf.store(true, Release);
            self.has_drained(node, engine, socket);
        }
        if sends {
            socket.finish(node)?;
        }
        socket.wake_all();
        Ok(())
    }

    /// Tells the peer, if it waits for that, that all that it has left was fetched.
    pub(super) fn has_drained(&self, node: &Node, engine: &Engine, socket: &Socket) {
        let per_link = self.per_link(socket.made.link);
        if per_link.is_ok_and(|per_link| per_link.drained(socket)) {
            self.tell(node, engine, socket, Says::Closed);
        }
    }

    /// Sends the peer a message of the socket, for which there is room: see [`per_link`](super::per_link).
    fn tell(&self, node: &Node, engine: &Engine, socket: &Socket, says: Says) {
        if let Ok(per_link) = self.per_link(socket.made.link) {
            let _ = per_link.say(socket, says);
            // If the port is gone, no peer waits.
            let _ = engine.tell(node, socket.made.link);
        }
    }

    /// Closes this end: the file is closed. Until the peer has confirmed, the half stays: the peer may still store into
    /// it, or fetch what was sent.
    pub(crate) fn close(&self, node: &Node, engine: &Engine, socket: &Arc<Socket>) {
        let Ok(per_link) = self.per_link(socket.made.link) else {
            return;
        };
        socket.finish_now(node);
        let old = socket.change(|state| match state {
            State::Connecting | State::Open => Some(State::Closing),
            State::Draining | State::PeerClosed => Some(State::Ended(ENOTCONN.into())),
            State::Closing | State::Ended(_) => None,
        });
        socket.accesses.revoke(|| ());
        match old {
            // Of a request that has no answer: it is withdrawn.
            Some(State::Connecting | State::Open) => {
                self.tell(node, engine, socket, Says::Close { aborts: false });
            }
            Some(was) => {
                // The peer stores nothing any more.
                per_link.remove(socket);
                if was == State::Draining {
                    self.tell(node, engine, socket, Says::Closed);
                }
            }
            None => {}
        }
    }
}

impl Socket {
    /// Returns the result of `WEFT_SOCK_INFO`.
    pub(crate) fn info(&self) -> weft_sock_info {
        use crate::sys::ext;
        let made = &self.made;
        let (state, error) = match (self.state(), self.error()) {
            (_, Some(error)) => (ext::WEFT_SOCK_ENDED, -error.to_errno() as u32),
            (State::Connecting, _) => (ext::WEFT_SOCK_CONNECTING, 0),
            (State::Open, _) => (ext::WEFT_SOCK_OPEN, 0),
            (State::Draining | State::PeerClosed, _) => (ext::WEFT_SOCK_PEER_CLOSED, 0),
            (State::Closing | State::Ended(_), _) => (ext::WEFT_SOCK_ENDED, 0),
        };
        weft_sock_info {
            state,
            error,
            peer_hwid: made.peer.hwid,
            peer_generation: made.peer.generation,
            link: made.link as u32,
            service: made.service,
            protocol: match made.shape.mode() {
                Mode::Push => 0,
                Mode::Pull => ext::WEFT_PULL_WQE | ext::WEFT_PULL_DATA,
            },
            bytes: made.shape.bytes(),
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
            buffer_full: self.full.load(Relaxed),
            ..Default::default()
        }
    }
}
