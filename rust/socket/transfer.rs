// SPDX-License-Identifier: GPL-2.0

//! Sending and receiving: what `read` and `write` of a socket's file do, and the calls of clients in the kernel.
//!
//! Bytes are copied once, between the memory of the caller and a half. What of the memory is not there is fetched with
//! nothing of the port held, since another program may provide it.

use super::{
    access::Access,
    end::{Receiving, Sending, State},
    ready::complain,
    Socket, Sockets,
};
use crate::{
    fabric::Node,
    hw::Port,
    proto::socket::stream::{Fault, Found},
    sys::{errno::EPROTO, iter, task},
    verbs::Engine,
};
use kernel::{
    iov::{IovIterDest, IovIterSource},
    prelude::*,
    sync::{
        atomic::{Acquire, Relaxed, Release},
        lock::{mutex::MutexBackend, Guard},
        Mutex,
    },
    time::Msecs,
};

/// The most bytes that are moved at once: then the other end may begin with them.
const PIECE: usize = 16 << 10;
/// After how many milliseconds a load that has failed is repeated.
const REPEAT_MS: Msecs = 20;

impl Socket {
    /// Has the caller be the only one of its direction. `EAGAIN`: another call is, with `nonblock`; `ERESTARTSYS`: a
    /// signal came.
    fn turn<'a, T>(
        &self,
        lock: &'a Mutex<T>,
        nonblock: bool,
    ) -> Result<Guard<'a, T, MutexBackend>> {
        if let Some(guard) = lock.try_lock() {
            return Ok(guard);
        }
        if nonblock {
            return Err(EAGAIN);
        }
        let mut guard = None;
        self.queued.fetch_add(1, Relaxed);
        let waited = self.waiters.wait(|| {
            guard = lock.try_lock();
            guard.is_some()
        });
        self.queued.fetch_sub(1, Relaxed);
        waited.and_then(|()| guard.ok_or(EINTR))
    }

    /// Ends a turn: another call may be waiting for it.
    fn pass<T>(&self, turn: Guard<'_, T, MutexBackend>) {
        drop(turn);
        if self.queued.load(Relaxed) != 0 {
            self.wake_all();
        }
    }

    /// Tells the peer what it may send, as soon as it can be told. Does not wait.
    pub(super) fn greet(&self, node: &Node, port: &dyn Port) {
        // A call that has the lock tells the peer itself.
        let Some(mut receiving) = self.receiving.try_lock() else {
            return;
        };
        self.give_back(node, port, &mut receiving, true);
    }

    /// Looks for what has come. `None`: it cannot be looked at now.
    pub(super) fn look(
        &self,
        port: &dyn Port,
        receiving: &mut Receiving,
    ) -> Result<Option<Found>, Fault> {
        let Some(access) = Access::new(self, port) else {
            return Ok(None);
        };
        let (own, remote) = (access.own(), access.remote());
        let receiver = &mut receiving.receiver;
        let Ok(found) = access.loads(|| receiver.look(&own, &remote)) else {
            return Ok(None);
        };
        self.input.set_mark(Some(receiver.mark()));
        Ok(Some(found?))
    }

    /// Tells the peer of what was taken, if it is enough; of `all`, at the start.
    pub(super) fn give_back(
        &self,
        node: &Node,
        port: &dyn Port,
        receiving: &mut Receiving,
        all: bool,
    ) {
        // While it is quiesced nothing is said; the next call does.
        let Some(access) = Access::new(self, port) else {
            return;
        };
        let (own, peer) = (access.own(), access.peer());
        let receiver = &mut receiving.receiver;
        match all {
            true => receiver.flush(&peer),
            false => receiver.settle(&own, &peer),
        }
        if receiver.needs_kick(&own, &peer) {
            node.ring_wake(port, self.made.link);
        }
    }

    /// Copies up to `most` bytes of what was found, and returns how many it could. `None`: not now.
    fn copy(
        &self,
        port: &dyn Port,
        receiving: &Receiving,
        most: usize,
        to: &mut IovIterDest<'_>,
    ) -> Option<usize> {
        let access = Access::new(self, port)?;
        let ring = access.source();
        iter::attempt(to, |to| {
            let copy = || receiving.receiver.copy(&ring, most, to);
            access.loads(copy).ok()
        })
    }

    /// Sends up to `most` bytes, as far as there is room and they are in memory, and returns how many. `None`: not now.
    fn put(
        &self,
        node: &Node,
        port: &dyn Port,
        sending: &mut Sending,
        most: usize,
        from: &mut IovIterSource<'_>,
    ) -> Result<Option<usize>, Fault> {
        // While it is quiesced nothing is sent.
        let Some(access) = Access::new(self, port) else {
            return Ok(None);
        };
        let (own, peer) = (access.own(), access.peer());
        let sender = &mut sending.sender;
        let count = sender.send(&own, &peer, most, from)?;
        self.output.set_mark(sender.mark());
        if sender.needs_kick(&own, &peer) {
            node.ring_wake(port, self.made.link);
        }
        Ok(Some(count))
    }

    /// Sends the end, once no other call sends and the peer can be reached. Errors as [`Sockets::shut_down`].
    pub(super) fn finish(&self, node: &Node) -> Result {
        self.finished.store(true, Release);
        // A call that waits for room returns.
        self.wake_all();
        let interrupted = |e| if e == ERESTARTSYS { EINTR } else { e };
        let mut sending = self.turn(&self.sending, false).map_err(interrupted)?;
        let sent = self.waiters.wait(|| {
            if self.state() != State::Open {
                return true;
            }
            let Ok(port) = node.port() else {
                return true;
            };
            self.put_end(node, &**port, &mut sending) || node.is_closed()
        });
        self.pass(sending);
        sent.map_err(interrupted)
    }

    /// Sends the end at once. Returns false if another call sends, or the peer cannot be reached now.
    pub(super) fn finish_now(&self, node: &Node) -> bool {
        match (node.port(), self.sending.try_lock()) {
            (Ok(port), Some(mut sending)) => self.put_end(node, &**port, &mut sending),
            _ => false,
        }
    }

    /// Sends the end. Returns false if the peer cannot be reached now.
    fn put_end(&self, node: &Node, port: &dyn Port, sending: &mut Sending) -> bool {
        let Some(access) = Access::new(self, port) else {
            return false;
        };
        let (own, peer) = (access.own(), access.peer());
        sending.sender.end(&peer);
        if sending.sender.needs_kick(&own, &peer) {
            node.ring_wake(port, self.made.link);
        }
        true
    }
}

impl Sockets {
    /// Ends a socket whose peer has broken the protocol, and returns the error of the call.
    fn broke(&self, node: &Node, engine: &Engine, socket: &Socket) -> Error {
        let link = socket.made.link;
        complain(node, socket);
        if let (Ok(per_link), Some(remote)) = (self.per_link(link), socket.remote.as_ref()) {
            per_link.fail(socket, EPROTO.into(), remote.id);
            let _ = engine.tell(node, link);
        }
        EPROTO.into()
    }

    /// Receives up to `most` bytes, and returns how many there were, 0 at the end of the stream. Sleeps until there is
    /// something. With `peeks` they are received again.
    ///
    /// `EAGAIN`: there is nothing, with `nonblock`; `ERESTARTSYS`: a signal came; `EFAULT`: nothing could be copied;
    /// `ECONNRESET`: the link, the session or the peer was lost; `ENETDOWN`: the port was removed; `EPROTO`: the peer
    /// broke the protocol.
    pub(crate) fn receive(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        (most, peeks): (usize, bool),
        nonblock: bool,
        to: &mut IovIterDest<'_>,
    ) -> Result<usize> {
        let mut receiving = socket.turn(&socket.receiving, nonblock)?;
        let mut got = 0;
        let over = (node, engine);
        let what = (most, peeks, &mut got);
        let result = self.take(over, socket, &mut receiving, what, nonblock, to);
        socket.pass(receiving);
        if !peeks {
            socket.received.fetch_add(got as u64, Relaxed);
        }
        match result {
            Err(e) if got == 0 => Err(e),
            _ => Ok(got),
        }
    }

    /// As [`Self::receive`]; adds what it has received to `got`, also if it fails then.
    fn take(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        receiving: &mut Receiving,
        (most, peeks, got): (usize, bool, &mut usize),
        nonblock: bool,
        to: &mut IovIterDest<'_>,
    ) -> Result {
        while *got < most && !socket.deaf.load(Acquire) {
            if let Some(error) = socket.error() {
                return Err(error);
            }
            // What was sent before the peer closed has come by then.
            let closed = socket.is_closed_by_peer();
            let port = node.port()?;
            let found = socket.look(&**port, receiving);
            let copied = match found {
                Ok(Some(Found::Bytes(count))) => {
                    let wanted = (most - *got).min(if peeks { usize::MAX } else { PIECE });
                    // At most what is wanted: no bits are lost.
                    let wanted = count.min(wanted as u64) as usize;
                    socket.copy(&**port, receiving, wanted, to)
                }
                _ => None,
            };
            if let Some(count) = copied.filter(|count| *count != 0) {
                *got += count;
                if peeks {
                    break;
                }
                receiving.receiver.take(count as u64);
                socket.input.set_mark(Some(receiving.receiver.mark()));
                socket.give_back(node, &**port, receiving, false);
                continue;
            }
            drop(port);
            if copied.is_some() {
                fetched(|| iter::fetch_dest(to, most - *got))?;
                continue;
            }
            if *got != 0 {
                break;
            }
            let Ok(found) = found else {
                return Err(self.broke(node, engine, socket));
            };
            match found {
                Some(Found::End | Found::Nothing) if closed => {
                    self.has_drained(node, engine, socket);
                    break;
                }
                Some(Found::End) => {
                    socket.deaf.store(true, Release);
                    break;
                }
                Some(Found::Nothing) => socket.give_back(node, &**node.port()?, receiving, false),
                // It cannot be loaded now.
                Some(Found::Bytes(_)) | None => {}
            }
            if nonblock {
                return Err(EAGAIN);
            }
            // Unless the link is quiesced, a load has failed.
            let again = found != Some(Found::Nothing) && !socket.accesses.is_closed();
            self.rest(socket, again, || socket.may_receive(node))?;
        }
        Ok(())
    }

    /// Sleeps until `ready`, or, if a load is to be repeated, a little.
    fn rest(&self, socket: &Socket, again: bool, ready: impl Fn() -> bool) -> Result {
        if !again {
            return socket.waiters.wait(ready);
        }
        match socket.waiters.wait_ms(|| false, REPEAT_MS) {
            Err(e) if e == ETIMEDOUT => Ok(()),
            waited => waited,
        }
    }

    /// Sends `bytes` bytes, and returns how many were sent. Sleeps until there is room for all; with `nonblock`, sends
    /// those that there is room for.
    ///
    /// `EPIPE`: the peer has closed its end, or this one sends no more. Others as [`Self::receive`].
    pub(crate) fn send(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        bytes: usize,
        nonblock: bool,
        from: &mut IovIterSource<'_>,
    ) -> Result<usize> {
        let mut sending = socket.turn(&socket.sending, nonblock)?;
        let mut sent = 0;
        let over = (node, engine);
        let result = self.give(
            over,
            socket,
            &mut sending,
            (bytes, &mut sent),
            nonblock,
            from,
        );
        socket.pass(sending);
        socket.sent.fetch_add(sent as u64, Relaxed);
        match result {
            Err(e) if sent == 0 => Err(e),
            _ => Ok(sent),
        }
    }

    /// As [`Self::send`]; adds what it has sent to `sent`, also if it fails then.
    fn give(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        sending: &mut Sending,
        (bytes, sent): (usize, &mut usize),
        nonblock: bool,
        from: &mut IovIterSource<'_>,
    ) -> Result {
        while *sent < bytes {
            // The state before the error: one that ends meanwhile is waited for, and found to have ended.
            let state = socket.state();
            if let Some(error) = socket.error() {
                return Err(error);
            }
            match state {
                State::Connecting | State::Open if !socket.finished.load(Acquire) => {}
                _ => return Err(EPIPE),
            }
            let most = (bytes - *sent).min(PIECE);
            let Ok(put) = socket.put(node, &**node.port()?, sending, most, from) else {
                return Err(self.broke(node, engine, socket));
            };
            match put {
                Some(count) if count != 0 => {
                    *sent += count;
                    self.per_link(socket.made.link)?.has_sent(count);
                }
                // There is room, and the memory is not there.
                Some(_) if sending.sender.mark().is_none() => {
                    fetched(|| iter::fetch_source(from, bytes - *sent))?;
                }
                _ if nonblock => return Err(EAGAIN),
                _ => socket.waiters.wait(|| socket.may_send(node))?,
            }
        }
        Ok(())
    }
}

/// Has `fetch` fetch memory of the caller, to which a copy then goes on. `EFAULT`: it is not there; `ERESTARTSYS`: the
/// task is killed.
fn fetched(fetch: impl FnOnce() -> bool) -> Result {
    if !fetch() {
        return Err(EFAULT);
    }
    // It may be taken away before it is accessed, and that again and again.
    match task::is_killed() {
        true => Err(ERESTARTSYS),
        false => Ok(()),
    }
}
