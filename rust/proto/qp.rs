// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs: their states, what an initiator has under way, what a responder owes, and the parts
//! of a long message.
//!
//! `Documentation/queues.rst` has the rules. Requests of a queue pair are numbered (psn), arrive in
//! order and are carried out in order. An [`Initiator`] keeps each until it is acknowledged or, for
//! those that bring something back, answered; when the peer has no receive request it hands back all
//! that has to be sent anew. A [`Responder`] says what to do with a request that has come, and which
//! words are to be sent. What the peer says is checked against what it can say now. This file must not
//! know how anything is sent, or where data are.

use super::{
    cqe::Status,
    request::{Data, Message, Part},
    trunk::Fault,
    word::{Says, PARTS},
};
use core::marker::PhantomData;

/// Most long messages of a queue pair under way.
pub const MAX_LONGS: u32 = 4;
/// Most reads, sizes and atomics of a queue pair under way.
pub const MAX_READS: u32 = 12;
/// Most parts of a long message under way.
pub const MAX_PARTS: usize = 4;

/// Most requests of a queue pair under way.
pub const MAX_WINDOW: usize = 16384;

const MAX_OPEN: usize = (MAX_LONGS + MAX_READS) as usize;

/// The states of a queue pair, `WEFT_QP_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing is done.
    Reset = 0,
    /// Receive requests can be posted.
    Init = 1,
    /// Requests of the peer are taken.
    Rtr = 2,
    /// And send requests are done.
    Rts = 3,
    /// No new send requests are begun.
    Sqd = 4,
    /// All requests are flushed.
    Err = 5,
}

impl State {
    /// The state with this number.
    pub const fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::Rtr,
            3 => Self::Rts,
            4 => Self::Sqd,
            5 => Self::Err,
            _ => return None,
        })
    }

    /// Whether the user may bring a pair from here to `to`.
    pub const fn may_become(self, to: Self) -> bool {
        matches!(
            (self, to),
            (_, Self::Reset | Self::Err)
                | (Self::Reset, Self::Init)
                | (Self::Init, Self::Rtr)
                | (Self::Rtr | Self::Sqd, Self::Rts)
                | (Self::Rts, Self::Sqd)
        )
    }

    /// Whether requests of the peer are taken.
    pub const fn responds(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd)
    }

    /// Whether send requests are begun.
    pub const fn initiates(self) -> bool {
        matches!(self, Self::Rts)
    }
}

/// What a request is to those who only keep order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of it is in one cell, and it is done when acknowledged.
    Plain {
        /// It takes a receive request.
        recv: bool,
    },
    /// An intent: data follow by parts, and it is done when acknowledged.
    Long {
        /// It takes a receive request.
        recv: bool,
    },
    /// Done when data have come.
    Read,
    /// Done when the size has come. Nothing is sent before.
    Size,
    /// Done when the old value has come.
    Atomic,
}

impl Kind {
    /// What kind of request `message` is, if it is one.
    pub const fn of(message: &Message) -> Option<Self> {
        Some(match message {
            Message::Send { data, .. } | Message::Write { data, .. } => {
                let recv = message.takes_recv();
                match data {
                    Data::Long(_) => Self::Long { recv },
                    _ => Self::Plain { recv },
                }
            }
            Message::Read { .. } => Self::Read,
            Message::Size { .. } => Self::Size,
            Message::FetchAdd { .. } | Message::CmpSwap { .. } => Self::Atomic,
            _ => return None,
        })
    }

    const fn is_long(self) -> bool {
        matches!(self, Self::Long { .. })
    }

    const fn is_answered(self) -> bool {
        matches!(self, Self::Read | Self::Size | Self::Atomic)
    }

    const fn takes_recv(self) -> bool {
        matches!(self, Self::Plain { recv: true } | Self::Long { recv: true })
    }
}

/// Whether `a` comes before `b`. No two numbers that are compared are far apart.
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

const fn later(a: u32, b: u32) -> u32 {
    if before(a, b) {
        b
    } else {
        a
    }
}

/// A request that was sent, with what its owner keeps about it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<T> {
    kind: Kind,
    answered: bool,
    what: T,
}

/// What has become of the oldest request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is done.
    Done(T),
    /// It failed. The queue pair goes to ERR.
    Failed(T, Status),
}

/// What a queue pair has sent and not seen done. `S` is memory for as many requests as may be under
/// way, `T` what their owner keeps about each.
pub struct Initiator<T, S> {
    entries: S,
    /// The oldest request that is kept.
    first: u32,
    /// The next one to be sent.
    next: u32,
    /// All before it are acknowledged.
    acked: u32,
    /// The peer has no receive request for `next`.
    stopped: bool,
    failed: Option<(u32, Status)>,
    longs: u32,
    reads: u32,
    sizes: u32,
    _what: PhantomData<T>,
}

impl<T, S: AsRef<[Option<Entry<T>>]> + AsMut<[Option<Entry<T>>]>> Initiator<T, S> {
    /// Of a pair that comes to RTS. `entries` is all `None`.
    ///
    /// `None` unless they are a power of two, and no more than the numbers that travel can tell.
    pub fn new(entries: S) -> Option<Self> {
        let len = entries.as_ref().len();
        if !len.is_power_of_two() || len > MAX_WINDOW {
            return None;
        }
        Some(Self {
            entries,
            first: 0,
            next: 0,
            acked: 0,
            stopped: false,
            failed: None,
            longs: 0,
            reads: 0,
            sizes: 0,
            _what: PhantomData,
        })
    }

    /// How many requests are under way.
    pub fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// Whether a read or an atomic is under way, for which a fence waits.
    pub fn awaits_answers(&self) -> bool {
        self.reads > 0
    }

    /// Whether the peer has to say that it has receive requests again before anything is sent.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether a request has failed. Nothing is sent any more.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn entry(&mut self, psn: u32) -> Option<&mut Option<Entry<T>>> {
        let entries = self.entries.as_mut();
        // A power of two.
        let slot = psn as usize & (entries.len().saturating_sub(1));
        entries.get_mut(slot)
    }

    fn count(&mut self, kind: Kind, more: bool) {
        let change = |count: &mut u32| {
            *count = if more {
                count.saturating_add(1)
            } else {
                count.saturating_sub(1)
            };
        };
        if kind.is_long() {
            change(&mut self.longs);
        }
        if kind.is_answered() {
            change(&mut self.reads);
        }
        if kind == Kind::Size {
            change(&mut self.sizes);
        }
    }

    /// Whether a request of this kind may be sent now.
    pub fn may_send(&self, kind: Kind) -> bool {
        let room = (self.len() as usize) < self.entries.as_ref().len();
        let longs = if kind.is_long() {
            self.longs < MAX_LONGS
        } else {
            self.longs == 0
        };
        let reads = !kind.is_answered() || self.reads < MAX_READS;
        room && longs && reads && self.sizes == 0 && !self.stopped && self.failed.is_none()
    }

    /// The number of the next request.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Takes note of a request that was sent as number [`Self::next`]. Gives `what` back if it must
    /// not have been.
    pub fn sent(&mut self, kind: Kind, what: T) -> Result<u32, T> {
        let psn = self.next;
        let may = self.may_send(kind);
        match self.entry(psn) {
            Some(entry) if may => {
                *entry = Some(Entry {
                    kind,
                    answered: false,
                    what,
                });
                self.next = psn.wrapping_add(1);
                self.count(kind, true);
                Ok(psn)
            }
            _ => Err(what),
        }
    }

    /// The number, of which `low` are the low bits, of a request that is under way; `None` if it is
    /// done already. A number that was not sent yet is a fault.
    fn number(&self, low: u16) -> Result<Option<u32>, Fault> {
        let behind = (self.next as u16).wrapping_sub(low);
        if behind == 0 || behind > 1 << 15 {
            return Err(Fault::Number);
        }
        let psn = self.next.wrapping_sub(behind.into());
        Ok((!before(psn, self.first)).then_some(psn))
    }

    /// All requests up to this one have been carried out.
    pub fn ack(&mut self, low: u16) -> Result<(), Fault> {
        if let Some(psn) = self.number(low)? {
            self.carried_out(psn.wrapping_add(1));
        }
        Ok(())
    }

    fn carried_out(&mut self, end: u32) {
        self.acked = later(self.acked, end);
    }

    /// The request that failed at the peer.
    pub fn nak(&mut self, low: u16, why: Status) -> Result<(), Fault> {
        let psn = self.number(low)?.ok_or(Fault::Number)?;
        let acked = before(psn, self.acked);
        let over = match self.entry(psn) {
            Some(Some(entry)) => entry.answered || acked && !entry.kind.is_answered(),
            _ => true,
        };
        if over || self.failed.is_some_and(|(other, _)| !before(psn, other)) {
            return Err(Fault::Number);
        }
        self.carried_out(psn);
        self.failed = Some((psn, why));
        Ok(())
    }

    /// The request found no receive request. It and all after it are handed to `back`, the newest
    /// first, and are to be sent anew after [`Self::recv`].
    pub fn no_recv(&mut self, low: u16, mut back: impl FnMut(T)) -> Result<(), Fault> {
        let psn = self.number(low)?.ok_or(Fault::Number)?;
        let takes = match self.entry(psn) {
            Some(Some(entry)) => entry.kind.takes_recv(),
            _ => false,
        };
        if !takes || before(psn, self.acked) || self.stopped || self.failed.is_some() {
            return Err(Fault::Number);
        }
        // What comes after was dropped: had it been answered, the peer would not have been in order.
        while self.next != psn {
            let last = self.next.wrapping_sub(1);
            if let Some(entry) = self.entry(last).and_then(Option::take) {
                self.count_gone(&entry);
                back(entry.what);
            }
            self.next = last;
        }
        self.carried_out(psn);
        self.stopped = true;
        Ok(())
    }

    /// There are receive requests again.
    pub fn recv(&mut self, low: u16) -> Result<(), Fault> {
        if !self.stopped || low != self.next as u16 {
            return Err(Fault::Number);
        }
        self.stopped = false;
        Ok(())
    }

    /// What was kept about a request that waits for parts or an answer, and its kind.
    pub fn find(&mut self, low: u16) -> Result<(Kind, &mut T), Fault> {
        let psn = self.number(low)?.ok_or(Fault::Number)?;
        let acked = before(psn, self.acked);
        if self.failed.is_some_and(|(other, _)| !before(psn, other)) {
            return Err(Fault::Number);
        }
        match self.entry(psn) {
            Some(Some(entry))
                if entry.kind.is_long() && !acked
                    || entry.kind.is_answered() && !entry.answered =>
            {
                Ok((entry.kind, &mut entry.what))
            }
            _ => Err(Fault::Number),
        }
    }

    /// A request of this kind has been answered. That acknowledges those before it as well.
    pub fn answered(&mut self, low: u16, kind: Kind) -> Result<&mut T, Fault> {
        let psn = self.number(low)?.ok_or(Fault::Number)?;
        let (found, _) = self.find(low)?;
        if found != kind || !kind.is_answered() {
            return Err(Fault::Number);
        }
        self.count(kind, false);
        self.carried_out(psn);
        match self.entry(psn) {
            Some(Some(entry)) => {
                entry.answered = true;
                Ok(&mut entry.what)
            }
            _ => Err(Fault::Number),
        }
    }

    fn count_gone(&mut self, entry: &Entry<T>) {
        if !entry.answered {
            self.count(entry.kind, false);
        }
    }

    fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let entry = self.entry(self.first)?.take()?;
        self.first = self.first.wrapping_add(1);
        self.acked = later(self.acked, self.first);
        self.count_gone(&entry);
        Some(entry.what)
    }

    /// The oldest request, if something has become of it. It is not kept any more.
    pub fn outcome(&mut self) -> Option<Outcome<T>> {
        if self.is_empty() {
            return None;
        }
        let (first, acked) = (self.first, self.acked);
        if let Some((_, why)) = self.failed.filter(|(psn, _)| *psn == first) {
            return self.pop().map(|what| Outcome::Failed(what, why));
        }
        let done = match self.entry(first) {
            Some(Some(entry)) if entry.kind.is_answered() => entry.answered,
            Some(Some(_)) => before(first, acked),
            _ => false,
        };
        if done {
            self.pop().map(Outcome::Done)
        } else {
            None
        }
    }

    /// The oldest request, whatever has become of it, when the pair has gone to ERR or RESET. It is
    /// not kept any more.
    pub fn flush(&mut self) -> Option<T> {
        self.pop()
    }
}

/// What to do with a request that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is to be carried out. What has become of it is to be said before the next one comes.
    Take(u32),
    /// It is to be dropped.
    Drop,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    psn: u32,
    long: bool,
    finished: bool,
}

/// A responder that takes nothing for the time being, or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    No,
    /// The next request found no receive request; whether the peer was told.
    NoRecv(bool),
    /// There are receive requests again; whether the peer was told.
    Recv(bool),
    /// This request has failed; whether the peer was told.
    Nak(u32, Status, bool),
}

/// What a queue pair has received.
pub struct Responder {
    expected: u32,
    halt: Halt,
    /// The peer knows that all before this one, but for those that are open, are carried out.
    told: u32,
    /// Requests that have been begun, in order, the first `count`.
    open: [Open; MAX_OPEN],
    count: usize,
}

impl Default for Responder {
    fn default() -> Self {
        Self::new()
    }
}

impl Responder {
    /// Of a pair that comes to RTR.
    pub const fn new() -> Self {
        Self {
            expected: 0,
            halt: Halt::No,
            told: 0,
            open: [Open {
                psn: 0,
                long: false,
                finished: false,
            }; MAX_OPEN],
            count: 0,
        }
    }

    fn opened(&self) -> &[Open] {
        self.open.get(..self.count).unwrap_or_default()
    }

    /// How many requests have been begun and not been finished.
    pub fn open_count(&self) -> usize {
        self.count
    }

    /// A request has come.
    pub fn arrive(&mut self, low: u16, kind: Kind) -> Result<Arrival, Fault> {
        let is_next = low == self.expected as u16;
        match self.halt {
            Halt::Nak(..) => return Ok(Arrival::Drop),
            Halt::NoRecv(_) | Halt::Recv(false) if is_next => return Err(Fault::Number),
            Halt::NoRecv(_) | Halt::Recv(_) if !is_next => return Ok(Arrival::Drop),
            Halt::No if !is_next => return Err(Fault::Number),
            _ => {}
        }
        let longs = self.opened().iter().filter(|open| open.long).count();
        let (most, mixed) = match kind {
            Kind::Long { .. } => (MAX_LONGS as usize, false),
            _ => (MAX_READS as usize, longs > 0),
        };
        let same = if kind.is_long() {
            longs
        } else {
            self.count - longs
        };
        let opens = kind.is_long() || kind == Kind::Read;
        if mixed || opens && (same >= most || self.count >= MAX_OPEN) {
            return Err(Fault::Number);
        }
        self.halt = Halt::No;
        Ok(Arrival::Take(self.expected))
    }

    /// The request that came last was carried out.
    pub fn carried_out(&mut self) {
        self.expected = self.expected.wrapping_add(1);
    }

    /// It was carried out, and what was sent for it says so: SIZE_IS or VALUE.
    pub fn answered(&mut self) {
        self.carried_out();
        self.told = later(self.told, self.expected);
    }

    /// It was begun: a long message, or a read.
    pub fn begun(&mut self, kind: Kind) {
        let open = Open {
            psn: self.expected,
            long: kind.is_long(),
            finished: false,
        };
        if let Some(free) = self.open.get_mut(self.count) {
            *free = open;
            self.count += 1;
        }
        self.expected = self.expected.wrapping_add(1);
    }

    /// The number, of which `low` are the low bits, of a request that is open.
    pub fn find(&self, low: u16) -> Result<u32, Fault> {
        let unfinished = |open: &&Open| open.psn as u16 == low && !open.finished;
        let open = self.opened().iter().find(unfinished);
        open.map(|open| open.psn).ok_or(Fault::Number)
    }

    /// A request that was begun is finished. If it is a read, DONE was sent for it. Requests end by
    /// [`Self::end`].
    pub fn finished(&mut self, psn: u32) {
        let open = self.open.get_mut(..self.count).unwrap_or_default();
        if let Some(open) = open.iter_mut().find(|open| open.psn == psn) {
            open.finished = true;
        }
    }

    /// The oldest of the requests that were begun, if it is finished: it ends.
    pub fn end(&mut self) -> Option<u32> {
        let oldest = *self.opened().first().filter(|open| open.finished)?;
        self.open.copy_within(1.., 0);
        self.count -= 1;
        if !oldest.long {
            self.told = later(self.told, oldest.psn.wrapping_add(1));
        }
        Some(oldest.psn)
    }

    /// Whether a part of a request that is not open is to be dropped, as the request was.
    pub fn drops(&self) -> bool {
        self.halt != Halt::No
    }

    /// The request that came last found no receive request.
    pub fn no_recv(&mut self) {
        self.halt = Halt::NoRecv(false);
    }

    /// Whether the peer waits for receive requests.
    pub fn awaits_recv(&self) -> bool {
        matches!(self.halt, Halt::NoRecv(_))
    }

    /// There are receive requests again, and [`Self::awaits_recv`]. Call it when the peer has been told
    /// that there were none; false if it has not.
    pub fn recv(&mut self) -> bool {
        if self.halt == Halt::NoRecv(true) {
            self.halt = Halt::Recv(false);
            return true;
        }
        false
    }

    /// The request that came last, or one that was begun, has failed. Of those that were begun the
    /// ones from it on are forgotten.
    pub fn failed(&mut self, psn: u32, why: Status) {
        if let Halt::Nak(other, _, told) = self.halt {
            if told || !before(psn, other) {
                return;
            }
        }
        self.count = self
            .opened()
            .iter()
            .position(|open| !before(open.psn, psn))
            .unwrap_or(self.count);
        self.halt = Halt::Nak(psn, why, false);
    }

    /// Whether a request has failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.halt, Halt::Nak(..))
    }

    /// All before it are carried out.
    fn frontier(&self) -> u32 {
        match (self.opened().first(), self.halt) {
            (Some(open), _) => open.psn,
            (None, Halt::Nak(psn, ..)) => psn,
            (None, _) => self.expected,
        }
    }

    /// What is to be told to the peer, and about which request. When it is on its way, call
    /// [`Self::told`], and ask again.
    pub fn owed(&self) -> Option<(u16, Says)> {
        let frontier = self.frontier();
        let word = match self.halt {
            // These say that all before is carried out.
            Halt::NoRecv(false) if self.count == 0 => Some((self.expected, Says::NoRecv)),
            Halt::Nak(psn, why, false) if self.count == 0 => Some((psn, Says::Nak(why))),
            Halt::Recv(false) => Some((self.expected, Says::Recv)),
            _ if before(self.told, frontier) => Some((frontier.wrapping_sub(1), Says::Ack)),
            _ => None,
        };
        word.map(|(psn, says)| (psn as u16, says))
    }

    /// The peer is being told `says`, which [`Self::owed`] has asked for.
    pub fn told(&mut self, says: Says) {
        self.told = later(self.told, self.frontier());
        match (&mut self.halt, says) {
            (Halt::NoRecv(told) | Halt::Nak(_, _, told), Says::NoRecv | Says::Nak(_))
            | (Halt::Recv(told), Says::Recv) => *told = true,
            _ => {}
        }
    }
}

/// A part of a long message that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which one.
    pub part: Part,
    /// Bytes.
    pub len: u64,
}

/// The end of a long message that names memory for its parts: in LEND or in OFFER. `T` is what it
/// keeps about each.
#[derive(Debug)]
pub struct Lender<T> {
    length: u64,
    lent: u64,
    done: u64,
    number: u64,
    parts: [Option<(Piece, T)>; MAX_PARTS],
}

impl<T> Lender<T> {
    /// Of a message of so many bytes.
    pub const fn new(length: u64) -> Self {
        Self {
            length,
            lent: 0,
            done: 0,
            number: 0,
            parts: [const { None }; MAX_PARTS],
        }
    }

    /// Bytes for which memory can be named now: 0 while as many parts as may be are under way.
    pub fn wanted(&self) -> u64 {
        if self.parts.iter().any(Option::is_none) {
            self.length - self.lent
        } else {
            0
        }
    }

    /// Memory for the next `len` bytes was named; gives `what` back if it must not have been.
    pub fn lend(&mut self, len: u64, what: T) -> Result<Part, T> {
        if len == 0 || len > self.wanted() {
            return Err(what);
        }
        let Some(free) = self.parts.iter_mut().find(|part| part.is_none()) else {
            return Err(what);
        };
        let part = Part {
            number: self.number,
            offset: self.lent,
        };
        *free = Some((Piece { part, len }, what));
        self.number += 1;
        self.lent += len;
        Ok(part)
    }

    /// The part that the next [`Self::lend`] names.
    pub const fn next(&self) -> Part {
        Part {
            number: self.number,
            offset: self.lent,
        }
    }

    /// The peer says that this part is done.
    pub fn done(&mut self, number: u16) -> Result<(Piece, T), Fault> {
        let is = |part: &&mut Option<(Piece, T)>| {
            part.as_ref()
                .is_some_and(|(piece, _)| piece.part.number as u16 % PARTS == number)
        };
        let part = self.parts.iter_mut().find(is).and_then(Option::take);
        let part = part.ok_or(Fault::Number)?;
        self.done += part.0.len;
        Ok(part)
    }

    /// Whether all of the message is done.
    pub const fn is_complete(&self) -> bool {
        self.done == self.length
    }

    /// What was kept about any part that is not done.
    pub fn take(&mut self) -> Option<T> {
        let part = self.parts.iter_mut().find(|part| part.is_some())?;
        part.take().map(|(_, what)| what)
    }
}

/// The end of a long message to which memory for its parts is named.
#[derive(Clone, Copy, Debug)]
pub struct Borrower {
    length: u64,
    named: u64,
    done: u64,
    number: u64,
}

impl Borrower {
    /// Of a message of so many bytes.
    pub const fn new(length: u64) -> Self {
        Self {
            length,
            named: 0,
            done: 0,
            number: 0,
        }
    }

    /// The peer names memory of so many bytes for `part`: how many of them the part has.
    pub fn named(&mut self, part: Part, bytes: u64) -> Result<Piece, Fault> {
        let expected = Part {
            number: self.number,
            offset: self.named,
        };
        let left = self.length - self.named;
        if part != expected || self.number - self.done >= MAX_PARTS as u64 {
            return Err(Fault::Number);
        }
        if bytes == 0 || bytes > left {
            return Err(Fault::Length);
        }
        self.number += 1;
        self.named += bytes;
        Ok(Piece { part, len: bytes })
    }

    /// DONE was sent for a part.
    pub fn done(&mut self) {
        self.done = self.number.min(self.done + 1);
    }

    /// Whether all parts are done.
    pub const fn is_complete(&self) -> bool {
        self.named == self.length && self.done == self.number
    }
}
