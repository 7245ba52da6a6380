// SPDX-License-Identifier: GPL-2.0

//! Sending and receiving: what `read`, `write` and `poll` of a socket's file do.
//!
//! Bytes go by a buffer of the kernel, since the memory of a program may be one that another program provides, which
//! nothing of the link may wait for.

use super::{
    access::Access,
    end::{Receiving, Sending, State},
    Socket, Sockets,
};
use crate::{
    fabric::Node,
    hw::Port,
    proto::socket::stream::{Fault, Found},
    sys::{errno::EPROTO, file::events},
    verbs::Engine,
};
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Relaxed, Release},
        lock::{mutex::MutexBackend, Guard},
        Mutex,
    },
    time::Msecs,
};

/// The most bytes that are moved at once.
const BUFFER: usize = 16 << 10;
/// After how many milliseconds a load that has failed is repeated.
const REPEAT_MS: Msecs = 20;

/// Sets the length of a buffer to `bytes`, or to [`BUFFER`] if that is less.
fn sized(buffer: &mut KVec<u8>, bytes: u64) -> Result<&mut [u8]> {
    // At most `BUFFER`: no bits are lost.
    let bytes = bytes.min(BUFFER as u64) as usize;
    if buffer.len() < bytes {
        // Whole powers of two: the buffer soon has its size.
        buffer.resize(bytes.next_power_of_two(), 0, GFP_KERNEL_ACCOUNT)?;
    }
    buffer.get_mut(..bytes).ok_or(EINVAL)
}

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

    /// Returns whether a call that receives is to go on: there may be something, or there never will be. If not, the peer
    /// is asked to ring.
    fn may_receive(&self, node: &Node) -> bool {
        match self.state() {
            State::Connecting => node.is_closed(),
            State::Open => self.deaf.load(Acquire) || node.is_closed() || self.can(node, true),
            State::Draining | State::PeerClosed => !self.accesses.is_closed(),
            _ => true,
        }
    }

    fn may_send(&self, node: &Node) -> bool {
        match self.state() {
            State::Connecting => node.is_closed(),
            State::Open => self.finished.load(Acquire) || node.is_closed() || self.can(node, false),
            _ => true,
        }
    }

    /// Returns whether there is something to receive, or room to send, and it can be done now. Waiters are woken when it
    /// can.
    fn can(&self, node: &Node, recv: bool) -> bool {
        // Quiesced: `go_on` wakes all.
        !self.accesses.is_closed()
            && node
                .port()
                .is_ok_and(|port| self.is_ready(node, &**port, recv, true))
    }

    /// Returns the state of poll, a mask of [`events`]. For those in `want` that have not come the peer is asked to ring.
    pub(crate) fn poll(&self, node: &Node, want: u32) -> u32 {
        let ended = events::IN | events::OUT | events::RDHUP | events::HUP;
        let Ok(port) = node.port() else {
            return ended | events::ERR;
        };
        if self.error().is_some() {
            return ended | events::ERR;
        }
        let state = self.state();
        let mut got = match state {
            State::Connecting => return 0,
            State::Open => 0,
            // The peer takes nothing any more.
            State::Draining | State::PeerClosed => events::OUT | events::RDHUP,
            _ => return ended,
        };
        let still = self.accesses.is_closed();
        let ready = |recv, bit| !still && self.is_ready(node, &**port, recv, want & bit != 0);
        if state != State::Open || self.deaf.load(Acquire) || ready(true, events::IN) {
            got |= events::IN;
        }
        if state == State::Open && (self.finished.load(Acquire) || ready(false, events::OUT)) {
            got |= events::OUT;
        }
        got
    }

    /// Looks for what has come. `None`: it cannot be looked at now.
    fn look(&self, port: &dyn Port, receiving: &mut Receiving) -> Result<Option<Found>, Fault> {
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

    /// Tells the peer of what was taken; of all, before sleep.
    fn give_back(&self, node: &Node, port: &dyn Port, receiving: &mut Receiving, all: bool) {
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

    /// Copies up to `most` bytes of what was found into the buffer, and returns them. `None`: not now.
    fn copy<'a>(
        &self,
        port: &dyn Port,
        receiving: &'a mut Receiving,
        most: u64,
    ) -> Result<Option<&'a [u8]>> {
        let Some(access) = Access::new(self, port) else {
            return Ok(None);
        };
        let Receiving { receiver, buffer } = receiving;
        let buffer = sized(buffer, most)?;
        let ring = access.source();
        match access.loads(|| receiver.copy(&ring, buffer)) {
            Ok(()) => Ok(Some(buffer)),
            Err(_) => Ok(None),
        }
    }

    /// Sends what there is room for of the bytes `part` of the buffer, and returns how many.
    fn put(
        &self,
        node: &Node,
        port: &dyn Port,
        sending: &mut Sending,
        part: Range<usize>,
    ) -> Result<usize, Fault> {
        // While it is quiesced nothing is sent.
        let Some(access) = Access::new(self, port) else {
            return Ok(0);
        };
        let (own, peer) = (access.own(), access.peer());
        let Sending { sender, buffer } = sending;
        let count = sender.send(&own, &peer, buffer.get(part).unwrap_or_default())?;
        self.output.set_mark(sender.mark());
        if sender.needs_kick(&own, &peer) {
            node.ring_wake(port, self.made.link);
        }
        Ok(count)
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

    /// Sends the end at once, if no other call sends and the peer can be reached: the file is being closed.
    pub(super) fn finish_now(&self, node: &Node) {
        if let (Ok(port), Some(mut sending)) = (node.port(), self.sending.try_lock()) {
            self.put_end(node, &**port, &mut sending);
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
        node.complain(fmt!(
            "link {}: the peer broke the protocol of a socket: it ends",
            link
        ));
        if let (Ok(per_link), Some(remote)) = (self.per_link(link), socket.remote.as_ref()) {
            per_link.fail(socket, EPROTO.into(), remote.id);
            let _ = engine.tell(node, link);
        }
        EPROTO.into()
    }

    /// Receives up to `most` bytes, and has `to` copy them, which returns how many it could. Returns how many there were, 0
    /// at the end of the stream. Sleeps until there is something.
    ///
    /// `EAGAIN`: there is nothing, with `nonblock`; `ERESTARTSYS`: a signal came; `EFAULT`: nothing could be copied;
    /// `ECONNRESET`: the link, the session or the peer was lost; `ENETDOWN`: the port was removed; `EPROTO`: the peer
    /// broke the protocol.
    pub(crate) fn receive(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        most: usize,
        nonblock: bool,
        to: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize> {
        let mut receiving = socket.turn(&socket.receiving, nonblock)?;
        let mut got = 0;
        let over = (node, engine);
        let result = self.take(over, socket, &mut receiving, (most, &mut got), nonblock, to);
        socket.pass(receiving);
        socket.received.fetch_add(got as u64, Relaxed);
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
        (most, got): (usize, &mut usize),
        nonblock: bool,
        to: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result {
        while *got < most && !socket.deaf.load(Acquire) {
            if let Some(error) = socket.error() {
                return Err(error);
            }
            // What was sent before the peer closed has come by then.
            let closed = matches!(socket.state(), State::Draining | State::PeerClosed);
            let port = node.port()?;
            let found = socket.look(&**port, receiving);
            let copied = match found {
                Ok(Some(Found::Bytes(count))) => {
                    let wanted = count.min((most - *got) as u64);
                    socket.copy(&**port, receiving, wanted)?
                }
                _ => None,
            };
            // The memory of the program is accessed with nothing of the port held.
            drop(port);
            if let Some(bytes) = copied {
                let count = to(bytes);
                if count == 0 {
                    return Err(EFAULT);
                }
                receiving.receiver.take(count as u64);
                *got += count;
                socket.input.set_mark(Some(receiving.receiver.mark()));
                socket.give_back(node, &**node.port()?, receiving, false);
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
                Some(Found::Nothing) => socket.give_back(node, &**node.port()?, receiving, true),
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

    /// Sends `bytes` bytes, which `from` copies, in order, and returns how many were sent. Sleeps until there is room for
    /// all; with `nonblock`, sends those that there is room for.
    ///
    /// `EPIPE`: the peer has closed its end, or this one sends no more. Others as [`Self::receive`].
    pub(crate) fn send(
        &self,
        (node, engine): (&Node, &Engine),
        socket: &Socket,
        bytes: usize,
        nonblock: bool,
        from: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<usize> {
        let mut sending = socket.turn(&socket.sending, nonblock)?;
        let mut sent = 0;
        // Copied of the program's memory, and not sent yet.
        let (mut held, mut done) = (0, 0);
        let result = loop {
            if sent == bytes {
                break Ok(());
            }
            // The state before the error: one that ends meanwhile is waited for, and found to have ended.
            let state = socket.state();
            if let Some(error) = socket.error() {
                break Err(error);
            }
            match state {
                State::Connecting | State::Open if !socket.finished.load(Acquire) => {}
                _ => break Err(EPIPE),
            }
            if held == done {
                let room = match sized(&mut sending.buffer, (bytes - sent) as u64) {
                    Ok(room) => room,
                    Err(e) => break Err(e),
                };
                (held, done) = (from(room), 0);
                if held == 0 {
                    break Err(EFAULT);
                }
            }
            let put = match node.port() {
                Ok(port) => socket.put(node, &**port, &mut sending, done..held),
                Err(e) => break Err(e),
            };
            let Ok(count) = put else {
                break Err(self.broke(node, engine, socket));
            };
            done += count;
            sent += count;
            if count != 0 {
                continue;
            }
            if nonblock {
                break Err(EAGAIN);
            }
            if let Err(e) = socket.waiters.wait(|| socket.may_send(node)) {
                break Err(e);
            }
        };
        socket.pass(sending);
        socket.sent.fetch_add(sent as u64, Relaxed);
        match result {
            Err(e) if sent == 0 => Err(e),
            _ => Ok(sent),
        }
    }
}
