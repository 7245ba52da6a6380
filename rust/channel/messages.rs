// SPDX-License-Identifier: GPL-2.0

//! The messages of the peers' kernels about channels.
//!
//! Messages can get lost and arrive twice. An end that waits for an answer repeats its request; an
//! end that gets a request again answers again. An area is in use until the peer has acknowledged
//! that it no longer writes into it, or until the arena was withdrawn from the peer.

use super::{
    conns::{Conn, Conns, Phase},
    end::Remote,
    Channels,
};
use crate::{
    fabric::Session,
    proto::wire::{self, Body, End},
    sys::errno::{ENOTCONN, EPROTO},
};
use kernel::prelude::*;

impl Channels {
    /// Handles a message of the peer.
    pub(super) fn on_message(&self, session: &mut Session<'_>, body: Body) -> Result {
        match body {
            Body::Connect { end, service } => self.on_connect(session, &end, service),
            Body::Accept { end, peer_conn } => self.on_accept(session, &end, peer_conn),
            Body::Reject { peer_conn, code } => self.on_reject(session, peer_conn, code),
            Body::Close {
                conn, peer_conn, ..
            } => self.on_close(session, conn, peer_conn),
            Body::CloseAck { peer_conn } => self.on_close_ack(session, peer_conn),
            // Not for channels.
            Body::Hello(_)
            | Body::HelloAck
            | Body::Heartbeat
            | Body::Bye
            | Body::Use(_)
            | Body::Hold(_) => Ok(()),
        }
    }

    /// Handles a request of the peer for a channel.
    fn on_connect(&self, session: &mut Session<'_>, end: &End, service: u32) -> Result {
        let per_link = self.per_link(session.link())?;
        let mut conns = per_link.conns.lock();
        if let Some(conn) = conns.find_peer(end.conn).and_then(|at| conns.table.get(at)) {
            // A repeated request: the answer was lost, or there is none yet.
            if matches!(conn.phase, Phase::Open) {
                session.send(conn.acceptance());
            }
            return Ok(());
        }
        let refusal = self.queue(session, &mut conns, end, service);
        if let Err(code) = refusal {
            session.send(Body::Reject {
                peer_conn: end.conn,
                code,
            });
        }
        Ok(())
    }

    /// Queues a connection of the peer until a user accepts it. Fails with the reason to reject it. A
    /// request that finds no listener, or no place in its queue, costs no memory; one that waits has
    /// pages of the arena, so that the arena bounds how many there are, and they are zeroed when it is
    /// accepted.
    fn queue(
        &self,
        session: &Session<'_>,
        conns: &mut Conns,
        end: &End,
        service: u32,
    ) -> Result<(), u32> {
        if conns.was_closed(end.conn) {
            return Err(wire::REJECT_CLOSED);
        }
        let offer = session.peer().ok_or(wire::REJECT_INVALID)?.offer;
        if !end.inside(offer.bytes) {
            return Err(wire::REJECT_INVALID);
        }
        let listener = self.listener(service).ok_or(wire::REJECT_REFUSED)?;
        let place = listener.reserve().ok_or(wire::REJECT_REFUSED)?;
        // The user that listens pays.
        let (channel, charges) = self
            .make(session, conns, listener.payer(), service, end.shape)
            .map_err(|_| wire::REJECT_NO_ROOM)?;
        channel.remote.populate(Remote {
            conn: end.conn,
            area_at: end.area_offset as usize,
        });
        let conn = Conn::new(channel.clone(), Phase::Waiting(listener), charges);
        self.add(conns, conn).map_err(|_| wire::REJECT_NO_ROOM)?;
        if !place.fill(channel.clone()) {
            if let Some(at) = conns.find(&channel) {
                conns.remove(at);
            }
            return Err(wire::REJECT_REFUSED);
        }
        Ok(())
    }

    /// Handles that the peer has accepted a connection.
    fn on_accept(&self, session: &mut Session<'_>, end: &End, peer_conn: u32) -> Result {
        let per_link = self.per_link(session.link())?;
        let mut conns = per_link.conns.lock();
        let Some(at) = conns.find_own(peer_conn) else {
            session.send(Body::Close {
                conn: peer_conn,
                peer_conn: end.conn,
                reason: wire::CLOSE_UNKNOWN,
            });
            return Ok(());
        };
        let conn = conns.table.get(at).ok_or(ENOENT)?;
        // Otherwise it is open already, or is being closed.
        if !matches!(conn.phase, Phase::Connecting) {
            return Ok(());
        }
        let channel = conn.channel.clone();
        let offer = session.peer().ok_or(ENOTCONN)?.offer;
        let opened = if end.shape == channel.made.shape && end.inside(offer.bytes) {
            channel.remote.populate(Remote {
                conn: end.conn,
                area_at: end.area_offset as usize,
            });
            per_link.open(&mut conns, at)
        } else {
            Err(EPROTO.into())
        };
        if opened.is_err() {
            channel.refuse(wire::REJECT_INVALID);
            if let Some(conn) = conns.table.get_mut(at) {
                conn.close(wire::CLOSE_PROTOCOL);
                if let Some(body) = conn.request() {
                    session.send(body);
                }
            }
        }
        Ok(())
    }

    fn on_reject(&self, session: &Session<'_>, peer_conn: u32, code: u32) -> Result {
        let mut conns = self.per_link(session.link())?.conns.lock();
        let at = conns.find_own(peer_conn).ok_or(ENOENT)?;
        let conn = conns.table.get(at).ok_or(ENOENT)?;
        if matches!(conn.phase, Phase::Connecting) {
            conn.channel.refuse(code);
            // The peer knows the area and has not used it.
            conns.remove(at);
        }
        Ok(())
    }

    /// Handles that the peer has closed its end: it does not write to this host's area any more.
    fn on_close(&self, session: &mut Session<'_>, conn: u32, own: u32) -> Result {
        let per_link = self.per_link(session.link())?;
        let mut conns = per_link.conns.lock();
        let at = match own {
            0 => conns.find_peer(conn),
            own => conns.find_own(own),
        };
        if let Some(at) = at {
            let found = conns.table.get(at).ok_or(ENOENT)?;
            let channel = found.channel.clone();
            if found.peer_conn() != 0 && found.peer_conn() != conn {
                return Ok(());
            }
            match &found.phase {
                Phase::Open => {
                    channel.close_by_peer(&self.mapping);
                }
                Phase::Waiting(listener) => {
                    listener.remove(&channel);
                    channel.refuse(wire::REJECT_CLOSED);
                    conns.remove(at);
                }
                Phase::Connecting => {
                    channel.refuse(wire::REJECT_CLOSED);
                    conns.remove(at);
                }
                Phase::Closing(_) => {
                    conns.remove(at);
                }
            }
            conns.remember(conn);
        }
        session.send(Body::CloseAck { peer_conn: conn });
        Ok(())
    }

    fn on_close_ack(&self, session: &Session<'_>, own: u32) -> Result {
        let mut conns = self.per_link(session.link())?.conns.lock();
        let at = conns.find_own(own).ok_or(ENOENT)?;
        if matches!(conns.table.get(at).ok_or(ENOENT)?.phase, Phase::Closing(_)) {
            conns.remove(at);
        }
        Ok(())
    }
}
