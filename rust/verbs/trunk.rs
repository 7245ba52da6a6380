// SPDX-License-Identifier: GPL-2.0

//! The link queues: the FIFOs and the data memory that the engines of two neighbours share.
//!
//! The rules are in `proto::fifo`; this file applies them to the arena and the window. It must not
//! know queue pairs.

use super::{control::Reached, heap::Leases, moving::Moving};
use crate::{
    fabric::Node,
    hw::{Mover, Port},
    mem::Memory,
    proto::{
        eager::{self, Eager, Piece},
        fence::Fence,
        fifo::{Arrived, Error, Inbound, Next, Outbound},
        protocol::Protocol,
        qp::lease::{leases, Buffers},
        request::{Address, Data, Lane, Outgoing},
        trunk::{Fault, Layout},
        window,
        word::Word,
    },
    sys::{
        area::{self, Area},
        words::Words,
    },
};
use core::cell::Cell;
use kernel::prelude::*;

/// The port, arena and window of a link, for a run of the engine. Valid while the port is entered.
#[derive(Clone, Copy)]
pub(super) struct Io<'a> {
    pub(super) node: &'a Node,
    pub(super) port: &'a dyn Port,
    pub(super) link: usize,
    pub(super) arena: &'a Area,
    pub(super) window: &'a Area,
}

impl<'a> Io<'a> {
    /// `arena` is that of the link.
    pub(super) fn new(
        node: &'a Node,
        port: &'a dyn Port,
        link: usize,
        arena: &'a Area,
    ) -> Result<Self> {
        Ok(Self {
            node,
            port,
            link,
            arena,
            window: port.window(link)?,
        })
    }

    /// Returns what else is reached over the link.
    pub(super) fn reached(&self) -> Reached<'a> {
        Reached {
            node: self.node,
            port: self.port,
            link: self.link,
        }
    }

    /// Returns the DMA channel of the link, if the port has one.
    pub(super) fn mover(&self) -> Option<&'a dyn Mover> {
        self.port.mover(self.link)
    }

    fn own(&self) -> Queues<'a> {
        Queues(self.arena)
    }

    /// Returns the peer's link queues, for stores; see [`Beyond`] for loads.
    fn peer(&self) -> impl window::Window + 'a {
        Queues(self.window)
    }

    /// Calls `f`, which loads through the window. `None`: some of its loads failed.
    pub(super) fn over_the_bridge<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        let Some(losses) = self.port.losses() else {
            // No load fails while the port is there.
            let loaded = f();
            return self.port.is_present().then_some(loaded);
        };
        let before = losses.failed_loads()?;
        let loaded = f();
        (losses.failed_loads() == Some(before)).then_some(loaded)
    }
}

/// Link queues: those in the own arena, or those of the peer.
struct Queues<'a>(&'a Area);

impl window::Area for Queues<'_> {
    fn load(&self, at: usize) -> u64 {
        // The offset is inside: the layout was computed from the size of the arena, all of which is
        // behind the window.
        self.0.read64(at).unwrap_or_default()
    }

    fn words(&self, at: usize, count: usize) -> impl Fn(usize) -> u64 {
        // As above.
        let words = self.0.words(at, count).unwrap_or(Words::NONE);
        move |n| words.load(n)
    }

    fn rmb(&self, fence: Fence) {
        if fence.is_there() {
            area::rmb();
        }
    }
}

impl window::Window for Queues<'_> {
    fn store(&self, at: usize, word: u64) {
        // As above.
        let _ = self.0.write64(at, word);
    }

    fn places(&self, at: usize, count: usize) -> impl Fn(usize, u64) {
        // As above.
        let words = self.0.words(at, count).unwrap_or(Words::NONE);
        move |n, word| words.store(n, word)
    }

    fn wmb(&self, fence: Fence) {
        if fence.is_there() {
            area::wmb();
        }
    }

    fn mb(&self, fence: Fence) {
        if fence.is_there() {
            area::mb();
        }
    }
}

/// The peer's link queues, for loads.
struct Beyond<'a> {
    window: &'a Area,
    /// A word was all ones, as a load is that nothing answers.
    ones: Cell<bool>,
}

impl<'a> Beyond<'a> {
    /// Calls `f`, which loads through the given area and may be called twice. `None`: some of its
    /// loads may have failed.
    fn load<T>(io: &Io<'a>, mut f: impl FnMut(&Self) -> T) -> Option<T> {
        let beyond = Self {
            window: io.window,
            ones: Cell::new(false),
        };
        let loaded = f(&beyond);
        if !beyond.ones.get() {
            return Some(loaded);
        }
        io.over_the_bridge(|| f(&beyond))
    }
}

impl window::Area for Beyond<'_> {
    fn load(&self, at: usize) -> u64 {
        // The offset is inside, as above.
        let word = self.window.read64(at).unwrap_or_default();
        if word == u64::MAX {
            self.ones.set(true);
        }
        word
    }

    fn rmb(&self, fence: Fence) {
        if fence.is_there() {
            area::rmb();
        }
    }
}

/// Memory for the accounting of the eager ring.
struct Pieces(KVec<Piece>);

impl AsRef<[Piece]> for Pieces {
    fn as_ref(&self) -> &[Piece] {
        &self.0
    }
}

impl AsMut<[Piece]> for Pieces {
    fn as_mut(&mut self) -> &mut [Piece] {
        &mut self.0
    }
}

/// Returns whether there may be the message that `next` is about. Any context.
pub(super) fn has_come(next: &Next, arena: &Area) -> bool {
    next.has_come(&Queues(arena))
}

/// The link queues of a link that is READY.
pub(super) struct Trunk {
    pub(super) peer: Layout,
    outbound: Outbound,
    pub(super) inbound: Inbound,
    eager: Eager<Pieces>,
    pub(super) buffers: Buffers<Leases>,
    /// A load of what was to be pulled failed.
    pub(super) unread: bool,
    pub(super) moving: Moving,
}

impl Trunk {
    /// Makes the link queues at the start of a session, when both ends' are zero.
    pub(super) fn new(own: Layout, peer: Layout) -> Result<KBox<Self>> {
        let memory = KVec::from_elem(Piece::NONE, eager::pieces(&own, &peer), GFP_KERNEL)?;
        Ok(KBox::new(
            Self {
                peer,
                outbound: Outbound::new(own, peer),
                inbound: Inbound::new(own, peer),
                eager: Eager::new(&peer, Pieces(memory)),
                buffers: Buffers::new(&own, Leases::new(leases(&own))?),
                unread: false,
                moving: Moving::new()?,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns whether there is room for `count` more cells in `lane`.
    pub(super) fn has_room(&mut self, io: &Io<'_>, lane: Lane, count: u64) -> Result<bool, Fault> {
        match self.outbound.reserve_cells(&io.own(), lane, count) {
            Ok(()) => Ok(true),
            Err(Error::Full) => Ok(false),
            Err(Error::Corrupt(fault)) => Err(fault),
        }
    }

    /// Returns whether one more control word can be pushed.
    pub(super) fn has_word_room(&mut self, io: &Io<'_>) -> Result<bool, Fault> {
        done(self.outbound.reserve_words(&io.own(), 1))
    }

    /// Returns whether a responder can send one more control word, in the way that `protocol` uses.
    pub(super) fn may_say(&mut self, io: &Io<'_>, protocol: Protocol) -> Result<bool, Fault> {
        done(if protocol.cqe {
            self.outbound.reserve_offered_words(&io.own(), 1)
        } else {
            self.outbound.reserve_words(&io.own(), 1)
        })
    }

    /// Sends a cell in the way that `protocol` uses. Returns false if there is no room now.
    pub(super) fn send(
        &mut self,
        io: &Io<'_>,
        protocol: Protocol,
        to: Address,
        message: &Outgoing<'_>,
    ) -> Result<bool, Fault> {
        if message.follows_all() {
            // The peer is first told of what was posted for it to pull.
            self.outbound.tell(&io.peer());
        }
        done(match protocol.lane(message) {
            Lane::Pulled => self.outbound.offer(&io.own(), &io.own(), to, message),
            _ => self.outbound.send(&io.own(), &io.peer(), to, message),
        })
    }

    /// Sends a control word in the way that `protocol` uses. Returns false if there is no room now.
    pub(super) fn word(
        &mut self,
        io: &Io<'_>,
        protocol: Protocol,
        word: &Word,
    ) -> Result<bool, Fault> {
        done(if protocol.offers(word.says) {
            self.outbound.offer_word(&io.own(), &io.own(), word)
        } else {
            self.outbound.word(&io.own(), &io.peer(), word)
        })
    }

    /// Reserves `len` bytes in the peer's eager ring, which the next cell of `lane` is to name.
    /// Returns their offsets in the ring and in the window; `None` if there is no room now.
    pub(super) fn take_eager(
        &mut self,
        io: &Io<'_>,
        len: u32,
        lane: Lane,
    ) -> Result<Option<(u32, usize)>, Fault> {
        let Self {
            outbound, eager, ..
        } = self;
        let number = outbound.written(lane);
        let mut at = eager.take(len, lane, number, |lane| outbound.taken(lane));
        if at.is_none() {
            // The ring can be full before the cells are; only the latter look at credit.
            outbound.refresh(&io.own())?;
            at = eager.take(len, lane, number, |lane| outbound.taken(lane));
        }
        Ok(at.map(|at| (at, self.peer.eager_at() + at as usize)))
    }

    /// Undoes [`Self::take_eager`]: the cell is not written.
    pub(super) fn untake_eager(&mut self) {
        self.eager.untake();
    }

    /// Returns the next cell of the FIFOs that the peer writes, and leaves it there.
    pub(super) fn peek(&self, io: &Io<'_>) -> Result<Option<Arrived>, Fault> {
        self.inbound.peek(&io.own())
    }

    pub(super) fn consume(&mut self, io: &Io<'_>, arrived: &Arrived) {
        self.inbound.consume(&io.peer(), arrived);
    }

    pub(super) fn next_word(&mut self, io: &Io<'_>) -> Result<Option<Word>, Fault> {
        self.inbound.word(&io.own(), &io.peer())
    }

    /// Returns whether the peer may have posted a request to be pulled: mostly not.
    #[inline]
    pub(super) fn may_pull(&self, io: &Io<'_>) -> bool {
        self.inbound.may_pull(&io.own())
    }

    /// As [`Self::may_pull`], for a control word.
    #[inline]
    pub(super) fn may_pull_word(&self, io: &Io<'_>) -> bool {
        self.inbound.may_pull_word(&io.own())
    }

    /// Returns the next request that the peer has posted to be pulled, and leaves it there. `None`,
    /// too, if it cannot be read now.
    pub(super) fn pull(&mut self, io: &Io<'_>) -> Result<Option<Arrived>, Fault> {
        let Self {
            inbound, unread, ..
        } = self;
        let arrived = Beyond::load(io, |beyond| inbound.pull(&io.own(), beyond));
        *unread |= arrived.is_none();
        arrived.unwrap_or(Ok(None))
    }

    /// Takes the next control word that the peer has posted to be pulled. `None`, too, if it cannot
    /// be read now.
    pub(super) fn pull_word(&mut self, io: &Io<'_>) -> Result<Option<Word>, Fault> {
        let Self {
            inbound, unread, ..
        } = self;
        // All ones are no control word: none is taken before it is loaded again.
        let word = Beyond::load(io, |beyond| {
            inbound.pull_word(&io.own(), beyond, &io.peer())
        });
        *unread |= word.is_none();
        word.unwrap_or(Ok(None))
    }

    /// Returns where in the own arena the eager data of a received message lie.
    pub(super) fn eager_place(&self, own: &Layout, data: &Data) -> Option<usize> {
        match *data {
            Data::Eager { at, len } => own.eager_place(at, len.into()).ok(),
            _ => None,
        }
    }

    /// Sends a control word by the DMA channel, behind all data that the channel was given. Returns
    /// false if there is no room now.
    pub(super) fn word_behind(
        &mut self,
        io: &Io<'_>,
        mover: &dyn Mover,
        memory: &Memory,
        word: &Word,
    ) -> Result<bool, Fault> {
        let Some(command) = self.moving.command(mover, memory) else {
            return Ok(false);
        };
        let claimed = match self.outbound.claim(&io.own(), word) {
            Ok(claimed) => claimed,
            Err(Error::Full) => return Ok(false),
            Err(Error::Corrupt(fault)) => return Err(fault),
        };
        let asleep = self.outbound.needs_kick(&io.own(), &io.peer());
        let ring = io.node.wake_bell(io.link).filter(|_| asleep);
        if ring.is_some() && !self.moving.has_words() {
            self.outbound.told_all();
        }
        if self.moving.word(mover, command, claimed, ring) {
            Ok(true)
        } else {
            // The place stays empty, hence nothing behind it is seen.
            Err(Fault::Reach)
        }
    }

    /// Tells the peer what was posted for it to pull, and rings its `wake` doorbell if the peer
    /// sleeps and does not know of what was written.
    pub(super) fn ring(&mut self, io: &Io<'_>) {
        self.outbound.tell(&io.peer());
        if self.outbound.needs_kick(&io.own(), &io.peer()) {
            io.node.ring_wake(io.port, io.link);
        }
        if self.moving.has_words() {
            return;
        }
        match io.mover().filter(|_| self.moving.had_words()) {
            Some(mover) => self.ring_behind(io, mover),
            None => self.outbound.told_all(),
        }
    }

    /// The DMA channel has moved its last control word: rings behind it if the peer has gone to sleep
    /// meanwhile.
    fn ring_behind(&mut self, io: &Io<'_>, mover: &dyn Mover) {
        if !self.outbound.needs_late_kick(&io.own(), &io.peer()) {
            return;
        }
        let rung = io
            .node
            .wake_bell(io.link)
            .is_some_and(|bell| self.moving.ring(mover, bell));
        if !rung {
            io.node.ring_wake(io.port, io.link);
        }
    }

    /// As [`Trunk::ring`], but leaves the doorbell to the next call of that. Returns whether there is
    /// anything to ring for.
    pub(super) fn ring_later(&mut self, io: &Io<'_>) -> bool {
        self.outbound.tell(&io.peer());
        self.outbound.has_unkicked()
    }

    /// Gives all credit back and asks the peer to ring for what it writes once it knows of that.
    pub(super) fn ask(&mut self, io: &Io<'_>) {
        self.inbound.sleep(&io.peer());
    }

    /// Has the peer ring once more, behind what it had written before it knew of [`Trunk::ask`].
    pub(super) fn echo(&self, io: &Io<'_>) {
        io.node.ring_echo(io.port, io.link);
    }
}

fn done(sent: core::result::Result<(), Error>) -> Result<bool, Fault> {
    match sent {
        Ok(()) => Ok(true),
        Err(Error::Full) => Ok(false),
        Err(Error::Corrupt(fault)) => Err(fault),
    }
}
