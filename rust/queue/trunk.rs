// SPDX-License-Identifier: GPL-2.0

//! The trunk of a link: the FIFOs and the memory for data that two neighbours' engines share.
//!
//! The rules are in `proto::fifo`; here they meet the arena and the window. Nobody else touches the
//! latter for queue pairs. It must not know queue pairs.

use crate::{
    fabric::Node,
    hw::Port,
    proto::{
        eager::{self, Eager, Piece},
        fence::Fence,
        fifo::{Arrived, Error, Inbound, Outbound},
        request::{Address, Data, Lane, Message},
        ring,
        staging::Staging,
        trunk::{Fault, Layout},
        word::Word,
    },
    sys::area::{self, Area},
};
use kernel::prelude::*;

/// What a run of the engine works with: the port while it is there.
#[derive(Clone, Copy)]
pub(super) struct Io<'a> {
    pub(super) node: &'a Node,
    pub(super) port: &'a dyn Port,
    pub(super) link: usize,
    pub(super) arena: &'a Area,
    pub(super) window: &'a Area,
}

impl<'a> Io<'a> {
    pub(super) fn new(node: &'a Node, port: &'a dyn Port, link: usize) -> Result<Self> {
        Ok(Self {
            node,
            port,
            link,
            arena: port.arena(link)?,
            window: port.window(link)?,
        })
    }

    fn own(&self) -> Own<'a> {
        Own(self.arena)
    }

    fn peer(&self) -> Peers<'a> {
        Peers(self.window)
    }
}

/// The own trunk.
struct Own<'a>(&'a Area);

impl ring::Area for Own<'_> {
    fn load(&self, at: usize) -> u64 {
        // The layout is that of the arena: every place is inside.
        self.0.read64(at).unwrap_or_default()
    }

    fn rmb(&self, fence: Fence) {
        if fence.is_there() {
            area::rmb();
        }
    }
}

/// The peer's trunk.
struct Peers<'a>(&'a Area);

impl ring::Window for Peers<'_> {
    fn store(&self, at: usize, word: u64) {
        // As above, of the peer's arena, all of which is behind the window.
        let _ = self.0.write64(at, word);
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

/// Memory of the eager ring's account.
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

/// The trunk of a link that is READY.
pub(super) struct Trunk {
    pub(super) peer: Layout,
    outbound: Outbound,
    pub(super) inbound: Inbound,
    eager: Eager<Pieces>,
    pub(super) staging: Staging,
}

impl Trunk {
    /// At the beginning of a session, when both trunks are zero.
    pub(super) fn new(own: Layout, peer: Layout) -> Result<KBox<Self>> {
        let memory = KVec::from_elem(Piece::NONE, eager::pieces(&own, &peer), GFP_KERNEL)?;
        Ok(KBox::new(
            Self {
                peer,
                outbound: Outbound::new(own, peer),
                inbound: Inbound::new(own, peer),
                eager: Eager::new(&peer, Pieces(memory)),
                staging: Staging::new(&own),
            },
            GFP_KERNEL,
        )?)
    }

    /// Whether `count` more cells can be written to `lane`.
    pub(super) fn has_room(&mut self, io: &Io<'_>, lane: Lane, count: u64) -> Result<bool, Fault> {
        match self.outbound.reserve_cells(&io.own(), lane, count) {
            Ok(()) => Ok(true),
            Err(Error::Full) => Ok(false),
            Err(Error::Corrupt(fault)) => Err(fault),
        }
    }

    /// Whether one more word can be written.
    pub(super) fn has_word_room(&mut self, io: &Io<'_>) -> Result<bool, Fault> {
        done(self.outbound.reserve_words(&io.own(), 1))
    }

    /// Sends a cell. False: there is no room now.
    pub(super) fn send(
        &mut self,
        io: &Io<'_>,
        to: Address,
        message: &Message,
    ) -> Result<bool, Fault> {
        done(self.outbound.send(&io.own(), &io.peer(), to, message))
    }

    /// Sends a word. False: there is no room now.
    pub(super) fn word(&mut self, io: &Io<'_>, word: &Word) -> Result<bool, Fault> {
        done(self.outbound.word(&io.own(), &io.peer(), word))
    }

    /// A place for `len` bytes in the peer's eager ring, which the next cell of the receive FIFO is
    /// to name: its offset in the ring, and in the window.
    pub(super) fn take_eager(
        &mut self,
        io: &Io<'_>,
        len: u32,
    ) -> Result<Option<(u32, usize)>, Fault> {
        let Self {
            outbound, eager, ..
        } = self;
        let number = outbound.written(Lane::Receive);
        let mut at = eager.take(len, Lane::Receive, number, |lane| outbound.taken(lane));
        if at.is_none() {
            // The ring can be full of what was taken long ago, with cells to spare.
            outbound.refresh(&io.own())?;
            at = eager.take(len, Lane::Receive, number, |lane| outbound.taken(lane));
        }
        let base = self.peer.eager_at();
        Ok(at.map(|at| (at, base + at as usize)))
    }

    /// The cell that was to name it is not written.
    pub(super) fn untake_eager(&mut self) {
        self.eager.untake();
    }

    /// What comes next by the FIFOs that the peer writes.
    pub(super) fn peek(&self, io: &Io<'_>) -> Result<Option<Arrived>, Fault> {
        self.inbound.peek(&io.own())
    }

    pub(super) fn consume(&mut self, io: &Io<'_>, arrived: &Arrived) {
        self.inbound.consume(&io.peer(), arrived);
    }

    pub(super) fn next_word(&mut self, io: &Io<'_>) -> Result<Option<Word>, Fault> {
        self.inbound.word(&io.own(), &io.peer())
    }

    /// Where data of a message that has come lie in the own arena.
    pub(super) fn eager_place(&self, own: &Layout, data: &Data) -> Option<usize> {
        match *data {
            Data::Eager { at, len } => own.eager_place(at, len.into()).ok(),
            _ => None,
        }
    }

    /// Rings if the peer sleeps and does not know of what was written.
    pub(super) fn ring(&mut self, io: &Io<'_>) {
        if self.outbound.needs_kick(&io.own(), &io.peer()) {
            io.node.ring_wake(io.port, io.link);
        }
    }

    /// Gives all credit back and asks to be rung for.
    pub(super) fn sleep(&mut self, io: &Io<'_>) {
        self.inbound.sleep(&io.peer());
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
