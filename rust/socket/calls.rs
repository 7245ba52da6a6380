// SPDX-License-Identifier: GPL-2.0

//! The requests of users: to connect, to shut down, to close. Those of listeners are in `accept`.

use super::{
    end::{Making, State},
    Socket, Sockets,
};
use crate::{
    channel::Pages,
    fabric::{Destination, Inside, Node, Session},
    proto::{
        protocol::Protocol,
        socket::{message::Says, Mode, Shape},
    },
    share::{Charge, Payer},
    sys::{
        clock,
        errno::{EHOSTUNREACH, EINPROGRESS, ENOBUFS, ENOTCONN, EOPNOTSUPP},
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
    /// What the listener is told before it accepts.
    pub(crate) data: u64,
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
    pub(super) fn are_there(&self) -> Result {
        match self.supported {
            true => Ok(()),
            false => Err(EOPNOTSUPP.into()),
        }
    }

    /// Makes a socket on the link of `session`, in the table. Lines and WQEs of its half are zeros; in its ring there may be
    /// what the same peer has sent before, or was sent. Errors as [`Pages::new`], but
    /// `ENOBUFS` for `ENOSPC`.
    pub(super) fn make(
        &self,
        session: &Session<'_>,
        payer: &Payer,
        (service, shape): (u32, Shape),
        charge: Option<Charge>,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Socket>> {
        let (link, port) = (session.link(), session.port());
        let per_link = self.per_link(link)?;
        let (bytes, start) = (shape.bytes() as usize, shape.start());
        let making = Making {
            id: self.new_id(per_link),
            link,
            service,
            shape,
            peer: session.peer().ok_or(ENOTCONN)?.id,
            pages: Pages::new(&self.channels, link, payer, bytes).map_err(no_room)?,
            _charge: charge,
        };
        port.arena(link)?.zero(making.at(), start)?;
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
                data: wanted.data,
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

    /// Sends no more. Does not wait. `EAGAIN`: the peer cannot be told now; the waiters are woken when it can. `ENOTCONN`:
    /// there is no connection.
    pub(crate) fn finish(&self, node: &Node, socket: &Socket) -> Result {
        match socket.state() {
            State::Open => {}
            State::Draining | State::PeerClosed => return Ok(()),
            _ => return Err(socket.error().unwrap_or(ENOTCONN.into())),
        }
        socket.finished.store(true, Release);
        match socket.finish_now(node) {
            true => Ok(()),
            false => Err(EAGAIN),
        }
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
