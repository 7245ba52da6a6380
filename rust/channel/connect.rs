// SPDX-License-Identifier: GPL-2.0

//! The requests of users: to listen, to connect, to accept, to close.

use super::{
    conns::{Conn, Phase},
    Channel, Channels, Listener, State,
};
use crate::{
    fabric::{Destination, Inside, Node, Session},
    proto::{
        cell::Shape,
        wire::{self, Body},
    },
    share::{Payer, Table},
    sys::{
        clock,
        errno::{
            EADDRINUSE, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENOBUFS, ENOTCONN,
            EPROTO,
        },
        waitq::WaitQueue,
    },
};
use kernel::{prelude::*, sync::Arc, time::Msecs};

/// The most services that files listen on at a port.
pub(crate) const MAX_LISTENERS: u32 = 4096;
/// The most connections that wait at a listener.
pub(crate) const MAX_BACKLOG: u32 = 64;
/// The longest time that a user waits for an answer.
pub(crate) const MAX_TIMEOUT_MS: Msecs = 60_000;

/// The channel that a user wants.
pub(crate) struct Wanted {
    /// Hardware id of the peer, 0 for any peer.
    pub(crate) peer: u64,
    /// The link, `None` for any.
    pub(crate) link: Option<usize>,
    pub(crate) service: u32,
    pub(crate) shape: Shape,
    pub(crate) timeout: Msecs,
}

impl Channels {
    /// Listens on `service`; connections count for `payer`. `EADDRINUSE`: another file listens on it;
    /// `ENOSPC`: the port has [`MAX_LISTENERS`]; `EDQUOT`: `payer` has its share.
    pub(crate) fn listen(
        &self,
        payer: Arc<Payer>,
        service: u32,
        backlog: usize,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Listener>> {
        let charge = payer.take(Table::Listeners, MAX_LISTENERS, 1)?;
        let listener = Listener::new(service, backlog, waiters, (payer, charge))?;
        let mut listeners = self.listeners.lock();
        if listeners.iter().any(|other| other.service() == service) {
            return Err(EADDRINUSE.into());
        }
        listeners.push(listener.clone(), GFP_KERNEL_ACCOUNT)?;
        Ok(listener)
    }

    /// Removes the listener of a closed file, and refuses the connections that wait.
    pub(crate) fn unlisten(&self, node: &Node, listener: &Arc<Listener>) {
        self.listeners
            .lock()
            .retain(|other| !Arc::ptr_eq(other, listener));
        for channel in listener.close() {
            // If the link is not READY any more, no peer waits for an answer.
            let _ = node.with_link(channel.made.link, |session| {
                let mut conns = self.per_link(channel.made.link)?.conns.lock();
                if let Some(at) = conns.find(&channel) {
                    conns.remove(at);
                    channel.refuse(wire::REJECT_REFUSED);
                    session.send(Body::Reject {
                        peer_conn: channel.remote.as_ref().map_or(0, |remote| remote.conn),
                        code: wire::REJECT_REFUSED,
                    });
                }
                Ok(())
            });
        }
    }

    /// Connects, and waits for the answer; the errors are those of `WEFT_CHAN_CONNECT`. `waiters` is
    /// woken whenever the state of the channel changes.
    pub(crate) fn connect(
        &self,
        node: &Node,
        payer: &Payer,
        inside: &Inside<'_>,
        wanted: &Wanted,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Channel>> {
        let since = clock::now_ms();
        let channel = self.ask(node, payer, inside, wanted, &waiters)?;
        let passed = clock::now_ms().saturating_sub(since) as Msecs;
        let left = wanted.timeout.saturating_sub(passed);
        let answered = || channel.state() != State::Pending || node.is_closed();
        let waited = inside.asleep(|| waiters.wait_ms(answered, left));
        if let State::Pending = channel.state() {
            self.give_up(node, &channel);
        }
        // The answer may have come while this end gave up.
        match channel.state() {
            State::Open | State::PeerClosed => Ok(channel),
            State::Refused(wire::REJECT_NO_ROOM) => Err(ENOBUFS.into()),
            State::Refused(wire::REJECT_CLOSED) => Err(ECONNRESET.into()),
            State::Refused(wire::REJECT_INVALID) => Err(EPROTO.into()),
            State::Refused(_) => Err(ECONNREFUSED.into()),
            State::Broken(_) => Err(ECONNRESET.into()),
            State::Pending if node.is_closed() => Err(ENODEV),
            State::Pending => Err(match waited {
                Err(e) if e == ERESTARTSYS => EINTR,
                Err(e) => e,
                Ok(()) => ECONNRESET.into(),
            }),
        }
    }

    /// Sends the request over the first link that leads to the wanted peer. Errors as [`Node::reach`].
    fn ask(
        &self,
        node: &Node,
        payer: &Payer,
        inside: &Inside<'_>,
        wanted: &Wanted,
        waiters: &Arc<WaitQueue>,
    ) -> Result<Arc<Channel>> {
        let to = Destination {
            peer: wanted.peer,
            link: wanted.link,
            end: 0,
        };
        let held = node.reach(payer, inside, to, wanted.timeout)?;
        let asked = node.with_link(held.link(), |session| {
            // The link may have had another session meanwhile.
            if session.peer().is_none_or(|peer| peer.id.hwid != held.peer) {
                return Err(ENOTCONN.into());
            }
            self.request(session, payer, wanted, waiters)
        });
        match asked {
            Err(e) if e == ENOTCONN => Err(EHOSTUNREACH.into()),
            other => other,
        }
    }

    fn request(
        &self,
        session: &mut Session<'_>,
        payer: &Payer,
        wanted: &Wanted,
        waiters: &Arc<WaitQueue>,
    ) -> Result<Arc<Channel>> {
        let mut conns = self.per_link(session.link())?.conns.lock();
        let (channel, charges) =
            self.make(session, &mut conns, payer, wanted.service, wanted.shape)?;
        channel.set_waiters(waiters.clone());
        let conn = Conn::new(channel.clone(), Phase::Connecting, charges);
        let body = conn.request();
        Self::zero(session, &channel).inspect_err(|_| conns.give(channel.made.run))?;
        self.add(&mut conns, conn)?;
        if let Some(body) = body {
            session.send(body);
        }
        Ok(channel)
    }

    /// Closes a connection: the caller of [`Self::connect`] does not wait for the answer any more.
    fn give_up(&self, node: &Node, channel: &Arc<Channel>) {
        // If the link is not READY any more, the connection is gone.
        let _ = node.with_link(channel.made.link, |session| {
            let mut conns = self.per_link(channel.made.link)?.conns.lock();
            let at = conns.find(channel).ok_or(ENOENT)?;
            if let Some(conn) = conns.table.get_mut(at) {
                if matches!(conn.phase, Phase::Connecting) {
                    conn.close(wire::CLOSE_GAVE_UP);
                    if let Some(body) = conn.request() {
                        session.send(body);
                    }
                }
            }
            Ok(())
        });
    }

    /// Accepts the oldest connection that waits; the errors are those of `WEFT_CHAN_ACCEPT`.
    /// `waiters` is that of the file that becomes the end of the channel.
    pub(crate) fn accept(
        &self,
        node: &Node,
        inside: &Inside<'_>,
        listener: &Listener,
        waiters: Arc<WaitQueue>,
        nonblock: bool,
    ) -> Result<Arc<Channel>> {
        let channel = loop {
            if node.is_closed() {
                return Err(ENODEV);
            }
            match listener.pop() {
                Some(channel) => break channel,
                None if nonblock => return Err(EAGAIN),
                None => inside.asleep(|| listener.wait(|| node.is_closed()))?,
            }
        };
        let link = channel.made.link;
        let opened = node.with_link(link, |session| {
            let per_link = self.per_link(link)?;
            let mut conns = per_link.conns.lock();
            let at = conns.find(&channel).ok_or(ECONNABORTED)?;
            channel.set_waiters(waiters);
            let zeroed = Self::zero(session, &channel);
            match zeroed.and_then(|()| per_link.open(&mut conns, at)) {
                Ok(()) => {
                    if let Some(conn) = conns.table.get(at) {
                        session.send(conn.acceptance());
                    }
                    Ok(())
                }
                Err(e) => {
                    conns.remove(at);
                    session.send(Body::Reject {
                        peer_conn: channel.remote.as_ref().map_or(0, |remote| remote.conn),
                        code: wire::REJECT_NO_ROOM,
                    });
                    Err(e)
                }
            }
        });
        match opened {
            Ok(()) => {
                node.touch(link);
                Ok(channel)
            }
            Err(e) if e == ENOTCONN => Err(ECONNABORTED.into()),
            Err(e) => Err(e),
        }
    }

    /// Closes this end of a channel: the file is closed, hence unmapped.
    pub(crate) fn close(&self, node: &Node, channel: &Channel) {
        channel.trace_release();
        let link = channel.made.link;
        let Ok(per_link) = self.per_link(link) else {
            return;
        };
        per_link.ignore(channel);
        let told = node.with_link(link, |session| {
            let mut conns = per_link.conns.lock();
            let at = conns.find(channel).ok_or(ENOENT)?;
            if channel.state() == State::PeerClosed {
                // The peer does not write into the area any more.
                conns.remove(at);
            } else if let Some(conn) = conns.table.get_mut(at) {
                conn.close(wire::CLOSE_USER);
                if let Some(body) = conn.request() {
                    session.send(body);
                }
            }
            Ok(())
        });
        if told.is_err() {
            // The link broke. If its arena is still to be withdrawn, no copy is needed.
            let mut conns = per_link.conns.lock();
            conns.forget_wreck(channel);
        }
    }
}
