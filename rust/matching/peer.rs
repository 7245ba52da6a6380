// SPDX-License-Identifier: GPL-2.0

//! A host that interfaces have to do with: a channel to it, for what they send, and one from it.
//!
//! One work item a host connects, takes what comes and gives it to the interfaces, and sends their answers. It waits
//! for no interface and no other host. A task that looks for itself again and again takes what comes, and sends
//! answers, in its place ([`Peer::attend`]). When either channel ends, the session does: its number changes, and all
//! that is under way is over. This file must not know what envelopes say.
//!
//! # The end
//!
//! A host that closes its last interface may just have answered, by a channel that it has made for that answer
//! alone. If it closed both channels then, its peer, which still accepts the one, might see the other one closed,
//! end the session, and report as lost what has arrived. That peer cannot tell: a channel that comes while the
//! other one is over may be of the next session. So the host closes neither. It sends its answers, and behind them
//! that no more will come; the peer, when it has taken them all, ends the session. A host that does not is waited
//! for as long as a connection takes.

use super::{polled::Polled, REPLIES};
use crate::{
    proto::envelope::{Envelope, BEHIND},
    sys::{
        client::{Channel, Pieces, Short},
        errno::{ECONNRESET, ENOTCONN, EPROTO},
        ext::{self, weft_channel_attr, weft_destination},
        waitq::{Callback, Deadline, WaitQueue, Woken},
        work,
    },
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    time::{Jiffies, Msecs},
    workqueue::{DelayedWork, WorkItem},
};

/// What ports with interfaces listen on: of the services that no program gets to.
pub(super) const SERVICE: u32 = ext::WEFT_SERVICE_KERNEL + 1;
/// A channel: its bulk ring has room for some of the longest messages.
const CELLS: u32 = 256;
const BULK: u32 = 128 << 10;
/// How long to wait for an answer to a connection, and for peers to end their sessions.
pub(super) const TIMEOUT_MS: Msecs = 2000;
/// Messages that are taken in one run, and short ones at once.
const BUDGET: usize = 64;
pub(super) const TAKEN: usize = 16;
/// How long a host is left to the tasks that look for what it sends, after the last one has looked.
const LEFT: Jiffies = 2;

/// Has the work item of a host run.
struct Hurry(Arc<Peer>);

impl Woken for Hurry {
    fn woken(&self, _events: u32) {
        self.0.hurry();
    }
}

/// An end of a channel, and what is called when it changes. The callback goes first.
pub(super) struct Connected {
    _callback: Callback<Hurry>,
    channel: KBox<dyn Channel>,
}

impl Connected {
    pub(super) fn attach(
        peer: &Arc<Peer>,
        waiters: &Arc<WaitQueue>,
        channel: KBox<dyn Channel>,
    ) -> Result<Self> {
        Ok(Self {
            _callback: Callback::new(waiters, Hurry(peer.clone()))?,
            channel,
        })
    }

    /// Returns whether an end by which this host sends is closed by the peer, or its link lost: nothing comes there,
    /// and what is sent may be the only thing that tells it otherwise. The callback is called when that changes. The
    /// caller has locked the end.
    fn is_over(&self) -> bool {
        !self.channel.next().is_err_and(|e| e == EAGAIN)
    }
}

pub(super) fn waiters() -> Result<Arc<WaitQueue>> {
    WaitQueue::shared(c"weft matching", kernel::static_lock_class!(), GFP_KERNEL)
}

/// Returns whether a channel is one for envelopes.
pub(super) fn is_for_envelopes(attr: &weft_channel_attr) -> bool {
    (attr.cells, attr.bulk) == (CELLS, BULK) && attr.peer != 0
}

/// Answers that wait for room, in order.
struct Replies {
    /// [`REPLIES`] places.
    places: KVVec<Short>,
    first: usize,
    count: usize,
}

impl Replies {
    /// Returns false if there is no place.
    fn push(&mut self, what: &Envelope) -> bool {
        let at = (self.first + self.count) % REPLIES;
        let place = self.places.get_mut(at);
        let Some(place) = place.filter(|_| self.count < REPLIES) else {
            return false;
        };
        self.count += 1;
        fill(place, what, &[])
    }

    /// Returns the first ones that are behind each other in memory.
    fn next(&self) -> &[Short] {
        let end = (self.first + self.count).min(REPLIES);
        self.places.get(self.first..end).unwrap_or(&[])
    }

    fn pop(&mut self, count: usize) {
        self.first = (self.first + count) % REPLIES;
        self.count = self.count.saturating_sub(count);
    }
}

/// Makes a short message of an envelope and its payload. Returns false if it is too long for one.
pub(super) fn fill(place: &mut Short, what: &Envelope, payload: &[u8]) -> bool {
    let encoded = what.encode();
    let behind = encoded.behind();
    let Some(bytes) = place.room(encoded.first(), (8 * behind.len() + payload.len()) as u32) else {
        return false;
    };
    let Some((words, rest)) = bytes.split_at_mut_checked(8 * behind.len()) else {
        return false;
    };
    for (to, word) in Iterator::zip(words.chunks_exact_mut(8), behind) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    rest.copy_from_slice(payload);
    true
}

/// What a peer has sent, behind its envelope.
pub(super) struct Payload<'a> {
    place: Place<'a>,
    pub(super) bytes: usize,
}

enum Place<'a> {
    /// Behind so many bytes of the message that is next.
    Channel(&'a dyn Channel, usize),
    Here(&'a [u8]),
}

impl Payload<'_> {
    /// Copies it; `to` is as long as it is.
    pub(super) fn read(&self, to: &mut [u8]) -> Result {
        match self.place {
            _ if to.is_empty() => {}
            Place::Channel(channel, from) => channel.read(from, to)?,
            Place::Here(bytes) => to.copy_from_slice(bytes.get(..to.len()).ok_or(EPROTO)?),
        }
        Ok(())
    }
}

/// An end by which a host sends, and memory for what is taken out there.
struct Incoming {
    connected: Connected,
    /// [`TAKEN`] of them.
    taken: KVVec<Short>,
}

/// What takes messages itself, before others are asked: a task that looks for its own.
pub(super) trait Taker {
    /// Takes the first of these messages of a host, if they are for it. Returns how many.
    fn take(&mut self, peer: &Arc<Peer>, all: &[Short]) -> usize;
}

/// What a host needs of what all hosts of a port belong to.
pub(super) trait Above: Send + Sync {
    /// Connects to a host.
    fn connect(&self, to: &weft_destination, waiters: &Arc<WaitQueue>)
        -> Result<KBox<dyn Channel>>;

    /// Takes what a host has sent. `EAGAIN`: its payload cannot be read now, and nothing has become of it. Other errors
    /// end the session.
    fn hear(&self, peer: &Arc<Peer>, what: &Envelope, payload: &Payload<'_>) -> Result;

    /// Ends what is under way with a host, whose session is over.
    fn lost(&self, peer: &Peer);

    /// Rings all interfaces.
    fn ring_all(&self);
}

/// A host.
#[pin_data]
pub(super) struct Peer {
    pub(super) hwid: u64,
    /// By which the lists know it.
    pub(super) number: u32,
    above: Arc<dyn Above>,
    #[pin]
    incoming: Mutex<Option<Incoming>>,
    #[pin]
    outgoing: Mutex<Option<Connected>>,
    #[pin]
    replies: Mutex<Replies>,
    /// The number of the session. Each loss changes it.
    epoch: Atomic<u32>,
    /// Something is to be sent.
    wanted: Atomic<bool>,
    /// An interface has found no room.
    starved: Atomic<bool>,
    /// The session that is to end: more answers were to be sent than there can be, or nonsense has come. 0: none.
    broken: Atomic<u32>,
    /// No interface is left: the peer is to be told, behind the answers, that no more will come.
    ending: Atomic<bool>,
    /// It was told, or this host waits no longer: nothing is sent.
    closed: Atomic<bool>,
    polled: Polled,
    /// Answers are left to the tasks that look.
    left: Atomic<bool>,
    /// There is room for answers, or none waits.
    #[pin]
    room: WaitQueue,
    #[pin]
    work: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Peer { self.work }
}

impl WorkItem for Peer {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let looks = this.polled.lapse();
        if this.serve(looks) {
            work::again_unbound_in(&this, 0);
        } else if looks {
            work::again_unbound_in(&this, LEFT);
        }
    }
}

impl Peer {
    pub(super) fn new(above: Arc<dyn Above>, hwid: u64, number: u32) -> Result<Arc<Self>> {
        let replies = Replies {
            places: KVVec::from_elem(Short::EMPTY, REPLIES, GFP_KERNEL)?,
            first: 0,
            count: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                hwid,
                number,
                above,
                incoming <- new_mutex!(None, "weft matching incoming"),
                outgoing <- new_mutex!(None, "weft matching outgoing"),
                replies <- new_mutex!(replies, "weft matching replies"),
                epoch: Atomic::new(1),
                wanted: Atomic::new(false),
                starved: Atomic::new(false),
                broken: Atomic::new(0),
                ending: Atomic::new(false),
                closed: Atomic::new(false),
                polled: Polled::new(),
                left: Atomic::new(false),
                room <- WaitQueue::new(c"weft matching room", kernel::static_lock_class!()),
                work <- new_delayed_work!("weft matching peer"),
            }),
            GFP_KERNEL,
        )
    }

    /// Runs the work item now. Any context.
    pub(super) fn hurry(self: &Arc<Self>) {
        work::run_unbound_in(self, 0);
    }

    /// Returns the number of the session.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// Returns whether its channels are closed for good.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Has a connection made, if there is none.
    pub(super) fn want(self: &Arc<Self>) {
        if !self.wanted.xchg(true, kernel::sync::atomic::Full) {
            self.hurry();
        }
    }

    /// Sends an envelope with payload. `ENOTCONN`: there is no connection yet. `EAGAIN`: there is no room. In both
    /// cases all interfaces are rung when that has changed. `ECONNRESET`: the session is over, or another one.
    pub(super) fn send(self: &Arc<Self>, epoch: u32, what: &Envelope, payload: &[u8]) -> Result {
        self.send_by(epoch, |connected| transmit(connected, what, payload))
    }

    /// Sends short messages, likewise. Returns how many there was room for, 1 at least.
    pub(super) fn send_short(self: &Arc<Self>, epoch: u32, all: &[Short]) -> Result<usize> {
        self.send_by(epoch, |connected| connected.channel.send_short(all))
    }

    fn send_by<T>(
        self: &Arc<Self>,
        epoch: u32,
        send: impl Fn(&Connected) -> Result<T>,
    ) -> Result<T> {
        let outgoing = self.outgoing.lock();
        if self.epoch() != epoch || self.closed.load(Relaxed) {
            return Err(ECONNRESET.into());
        }
        let Some(connected) = &*outgoing else {
            drop(outgoing);
            self.want();
            return Err(ENOTCONN.into());
        };
        let full = |sent: &Result<T>| sent.as_ref().is_err_and(|e| *e == EAGAIN);
        let mut sent = send(connected);
        if full(&sent) {
            // What rings when there is room looks at this; there may be some already.
            self.starved.store(true, Relaxed);
            sent = send(connected);
        }
        if sent.is_err() && !full(&sent) {
            // The work item finds it out as well, and ends the session: this one, as it does not while the end is
            // locked.
            self.end();
            return Err(EAGAIN);
        }
        sent
    }

    /// Returns whether interfaces may take on what needs answers.
    pub(super) fn has_room(&self) -> bool {
        let room = || self.replies.lock().count < REPLIES / 2;
        if !room() {
            // As in `send`.
            self.starved.store(true, Relaxed);
            return room();
        }
        true
    }

    /// Waits until there is room for answers, or for as long as a connection takes. Sleeps.
    pub(super) fn wait_for_room(self: &Arc<Self>) {
        // If there is none then, the session ends.
        let _ = self.room.wait_ms(|| self.has_room(), TIMEOUT_MS);
    }

    /// Sends an answer, now or later. Without a place for it the session ends.
    pub(super) fn reply(self: &Arc<Self>, what: &Envelope) {
        if self.closed.load(Relaxed) {
            return;
        }
        if !self.replies.lock().push(what) {
            self.broken.store(self.epoch(), Relaxed);
        } else if self.polled.is_current() {
            // By the next call of a task, this one or another, or when none has come back.
            self.left.store(true, Relaxed);
            return;
        }
        self.hurry();
    }

    /// Takes what has come, for a task that does so again soon: until then no interrupt tells of more. `taker` takes what
    /// is for this task.
    pub(super) fn attend(self: &Arc<Self>, taker: &mut dyn Taker) {
        let Some(mut incoming) = self.incoming.try_lock() else {
            // The work item is at it.
            return;
        };
        // As long as this is locked, the work item is not cancelled for good.
        let Some(incoming) = &mut *incoming else {
            return;
        };
        if self.closed.load(Relaxed) {
            return;
        }
        if self.polled.renew() {
            // To notice that the task does not come back.
            work::again_unbound_in(self, LEFT);
        }
        if self.take_from(incoming, true, Some(taker)).is_err() {
            self.end();
        }
    }

    /// Sends the answers that were left to a task: to be called behind all that may have left some.
    #[inline]
    pub(super) fn answer_now(self: &Arc<Self>) {
        if self.left.load(Relaxed) {
            self.answer_left();
        }
    }

    fn answer_left(self: &Arc<Self>) {
        // What is left from here on is for the next call.
        self.left.store(false, Relaxed);
        let sent = self.answer();
        self.tell_room();
        // It connects, waits for room, and ends the session.
        if sent.is_err() || self.replies.lock().count != 0 {
            self.hurry();
        }
    }

    /// Has interrupts tell what comes: the task that has looked sleeps.
    pub(super) fn leave(self: &Arc<Self>) {
        if self.polled.end() {
            self.hurry();
        }
    }

    /// Has the session ended.
    pub(super) fn end(self: &Arc<Self>) {
        self.broken.store(self.epoch(), Relaxed);
        self.hurry();
    }

    /// Takes the channel that the peer has made. A former one is over, and with it the session, as with one that the
    /// peer has closed. `ENOMEM`: it is closed.
    pub(super) fn accept(self: &Arc<Self>, connected: Connected) -> Result {
        let taken = KVVec::from_elem(Short::EMPTY, TAKEN, GFP_KERNEL)?;
        // First: the work item may end the session meanwhile, because of the same channel.
        let epoch = self.epoch();
        if self.has_incoming() || self.over().is_some() {
            self.lose(epoch);
        }
        // Nothing is accepted that would not be closed.
        if !self.closed.load(Relaxed) {
            *self.incoming.lock() = Some(Incoming { connected, taken });
            self.hurry();
        }
        Ok(())
    }

    /// Returns whether it has sent something, or may have been sent something.
    pub(super) fn has_session(&self) -> bool {
        self.has_incoming() || self.outgoing.lock().is_some()
    }

    fn has_incoming(&self) -> bool {
        self.incoming.lock().is_some()
    }

    /// Returns the session, if there is an end by which this host sends, and it is over.
    fn over(&self) -> Option<u32> {
        let outgoing = self.outgoing.lock();
        let epoch = self.epoch();
        outgoing
            .as_ref()
            .filter(|connected| connected.is_over())
            .map(|_| epoch)
    }

    /// Ends the session with this number, unless that is over: what was found out about it says nothing of the next
    /// one.
    fn lose(self: &Arc<Self>, epoch: u32) {
        let mut incoming = self.incoming.lock();
        let mut outgoing = self.outgoing.lock();
        if self.epoch() != epoch {
            return;
        }
        let ends = (incoming.take(), outgoing.take());
        self.epoch.store(epoch.wrapping_add(1), Relaxed);
        self.wanted.store(false, Relaxed);
        self.replies.lock().count = 0;
        drop(outgoing);
        drop(incoming);
        drop(ends);
        self.above.lost(self);
        self.room.wake_all();
    }

    /// Has the peer told, behind the answers that wait, that no more will come: it ends the session then.
    pub(super) fn finish(self: &Arc<Self>) {
        self.ending.store(true, Relaxed);
        self.hurry();
    }

    /// Returns whether the peer has all answers, if it takes any.
    fn is_finished(&self) -> bool {
        let is_empty = self.replies.lock().count == 0;
        is_empty && self.outgoing.lock().is_none()
    }

    /// Closes the channels for good, when the peer has ended the session, or at `deadline`. [`Self::finish`] was
    /// called. The work item does not run any more. Sleeps.
    pub(super) fn close(self: &Arc<Self>, deadline: &Deadline) {
        // Also if the process was killed: its peers are told of what it has received.
        let _ = self
            .room
            .wait_through_until(|| self.is_finished(), deadline);
        self.closed.store(true, Relaxed);
        self.lose(self.epoch());
        work::cancel_delayed(self);
        // What it has made, or was accepted, meanwhile.
        self.lose(self.epoch());
        work::cancel_delayed(self);
    }

    /// Does what there is to be done; with `looks` no interrupt is to tell of what comes later. Returns whether there is
    /// more.
    fn serve(self: &Arc<Self>, looks: bool) -> bool {
        // Without answers nothing else would tell, and what was sent would wait for ever. Asked first: a peer that
        // closes it has sent its answers before, which are taken yet.
        let over = self.over();
        let done = self.take(looks).and_then(|more| {
            self.connect()?;
            self.answer()?;
            let epoch = self.epoch();
            match self.broken.load(Relaxed) == epoch || over == Some(epoch) && !more {
                true => Err(epoch),
                false => Ok(more),
            }
        });
        let more = match done {
            Ok(more) => more,
            Err(epoch) => {
                self.lose(epoch);
                return false;
            }
        };
        self.tell_room();
        more
    }

    /// Has those look again that have found no room.
    fn tell_room(&self) {
        if self.starved.xchg(false, kernel::sync::atomic::Full) {
            self.above.ring_all();
            self.room.wake_all();
        }
    }

    /// Takes what has come, some of it. Returns whether there is more, or the session that is over.
    fn take(self: &Arc<Self>, looks: bool) -> core::result::Result<bool, u32> {
        let mut incoming = self.incoming.lock();
        // It does not change while an end is locked.
        let epoch = self.epoch();
        match &mut *incoming {
            Some(incoming) => self.take_from(incoming, looks, None).map_err(|_| epoch),
            None => Ok(false),
        }
    }

    fn take_from(
        self: &Arc<Self>,
        incoming: &mut Incoming,
        looks: bool,
        mut taker: Option<&mut dyn Taker>,
    ) -> Result<bool> {
        let Incoming { connected, taken } = incoming;
        let channel = &*connected.channel;
        let mut left = BUDGET;
        while left > 0 {
            let some = match channel.take(taken, looks) {
                Ok(0) => {
                    left -= 1;
                    self.take_long(channel)
                }
                Ok(count) => {
                    left = left.saturating_sub(count);
                    self.hear_all(taken.get(..count).unwrap_or(&[]), &mut taker)
                }
                Err(e) => Err(e),
            };
            match some {
                Ok(()) => {}
                Err(e) if e == EAGAIN => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Gives messages that were taken out to what they are for.
    fn hear_all(self: &Arc<Self>, mut all: &[Short], taker: &mut Option<&mut dyn Taker>) -> Result {
        while let Some((next, rest)) = all.split_first() {
            let own = taker.as_mut().map_or(0, |taker| taker.take(self, all));
            if own > 0 {
                all = all.get(own..).unwrap_or(&[]);
                continue;
            }
            let whole = next.payload();
            let (envelope, at) = Envelope::decode(next.tag, whole, whole.len()).ok_or(EPROTO)?;
            let bytes = whole.get(at..).unwrap_or(&[]);
            let payload = Payload {
                place: Place::Here(bytes),
                bytes: bytes.len(),
            };
            self.above.hear(self, &envelope, &payload)?;
            all = rest;
        }
        Ok(())
    }

    /// Takes the next message, which is no short one. `EAGAIN`: there is none, or the channel is quiesced; then the message
    /// comes again.
    fn take_long(self: &Arc<Self>, channel: &dyn Channel) -> Result {
        let (tag, bytes) = channel.look()?;
        let bytes = bytes as usize;
        let mut raw = [0; BEHIND];
        let seen = raw.get_mut(..bytes.min(BEHIND)).ok_or(EPROTO)?;
        channel.read(0, seen)?;
        let (envelope, at) = Envelope::decode(tag, seen, bytes).ok_or(EPROTO)?;
        let payload = Payload {
            place: Place::Channel(channel, at),
            bytes: bytes - at,
        };
        self.above.hear(self, &envelope, &payload)?;
        channel.consume()
    }

    /// Sends the answers that wait, as many as there is room for. Fails with the session that is over.
    fn answer(self: &Arc<Self>) -> core::result::Result<(), u32> {
        let outgoing = self.outgoing.lock();
        let epoch = self.epoch();
        let Some(connected) = outgoing.as_ref().filter(|_| !self.closed.load(Relaxed)) else {
            return Ok(());
        };
        match self.answer_by(connected) {
            Err(e) if e != EAGAIN => Err(epoch),
            _ => Ok(()),
        }
    }

    fn answer_by(&self, connected: &Connected) -> Result {
        loop {
            let mut replies = self.replies.lock();
            let next = replies.next();
            if next.is_empty() {
                break;
            }
            // Nothing there sleeps, or calls this.
            let sent = connected.channel.send_short(next)?;
            replies.pop(sent);
        }
        if self.ending.load(Relaxed) {
            connected.channel.finish()?;
            // Once: the caller has locked the end.
            self.closed.store(true, Relaxed);
        }
        self.room.wake_all();
        Ok(())
    }

    /// Connects for answers that wait, and for what interfaces want to send. Fails with the session that is over.
    fn connect(self: &Arc<Self>) -> core::result::Result<(), u32> {
        let (epoch, had) = (self.epoch(), self.has_incoming());
        let sends = self.wanted.load(Relaxed) && !self.ending.load(Relaxed);
        let wanted = sends || self.replies.lock().count != 0;
        if !wanted || self.closed.load(Relaxed) || self.outgoing.lock().is_some() {
            return Ok(());
        }
        // Without a lock: it waits for the peer.
        let connected = match self.connected() {
            Ok(connected) => connected,
            Err(_) if !had && self.has_incoming() => {
                // The peer, which was not there, has come meanwhile.
                self.hurry();
                return Ok(());
            }
            Err(_) => return Err(epoch),
        };
        let mut outgoing = self.outgoing.lock();
        if self.epoch() == epoch {
            *outgoing = Some(connected);
        } else {
            // This may be to what the peer was before.
            drop(outgoing);
            drop(connected);
            self.hurry();
        }
        // Those that have waited for it.
        self.starved.store(true, Relaxed);
        Ok(())
    }

    fn connected(self: &Arc<Self>) -> Result<Connected> {
        let to = weft_destination {
            peer: self.hwid,
            link: ext::WEFT_CLIENT_ANY_LINK,
            service: SERVICE,
            cells: CELLS,
            bulk: BULK,
            timeout_ms: TIMEOUT_MS,
        };
        let waiters = waiters()?;
        let channel = self.above.connect(&to, &waiters)?;
        Connected::attach(self, &waiters, channel)
    }
}

/// Puts an envelope and its payload into a channel.
fn transmit(connected: &Connected, what: &Envelope, payload: &[u8]) -> Result {
    let mut short = Short::EMPTY;
    if fill(&mut short, what, payload) {
        let short = core::slice::from_ref(&short);
        return connected.channel.send_short(short).map(|_| ());
    }
    let encoded = what.encode();
    let mut raw = [0; BEHIND];
    for (to, word) in raw.chunks_exact_mut(8).zip(encoded.behind()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let behind = raw.get(..8 * encoded.behind().len()).unwrap_or(&[]);
    Pieces::of([behind, payload], |pieces| {
        connected.channel.send(pieces, encoded.first(), false)
    })
}
