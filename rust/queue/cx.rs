// SPDX-License-Identifier: GPL-2.0

//! What a run of the engine works with: the trunk of its link, the memory of its users, and how much
//! it has done.
//!
//! It must not know which queue pairs there are, nor what becomes of what is sent.

use super::{
    data::{Refused, Sink},
    lent::Lent,
    spares::Spares,
    traced,
    trunk::{Io, Trunk},
};
use crate::{
    mem::{Binding, Denied, Memory, Pd},
    proto::{
        cqe::Status,
        protocol::Protocol,
        request::{Address, Extents, Lane, Message},
        trunk::{Fault, Layout},
        word::{Says, Word},
        wqe::{SendWqe, Sgl},
    },
};
use core::{cell::Cell, task::Poll};
use kernel::{pci, prelude::*};

/// Bytes of long messages that a run moves before it lets others run.
const MOST_MOVED: u64 = 1 << 20;

/// What came of a visit.
#[derive(Clone, Copy, Default)]
pub(super) struct Served {
    pub(super) progress: bool,
    /// There is more that can be done at once.
    pub(super) again: bool,
    /// There was no room.
    pub(super) blocked: bool,
    /// A receive request is missing.
    pub(super) starved: bool,
}

impl Served {
    /// Takes note of something that was to be sent: that it was, or that there was no room.
    pub(super) fn note(&mut self, sent: bool) -> bool {
        self.progress |= sent;
        self.blocked |= !sent;
        sent
    }
}

/// What a run works with.
pub(super) struct Cx<'a> {
    pub(super) io: Io<'a>,
    pub(super) own: Layout,
    pub(super) trunk: &'a mut Trunk,
    pub(super) lent: &'a mut Lent,
    pub(super) spares: &'a mut Spares,
    pub(super) memory: &'a Memory,
    pub(super) dev: &'a pci::Device,
    /// The queue pair that has its turn, or 0: for those who trace.
    pub(super) own_qpn: Cell<u32>,
    /// Bytes that were moved in this run.
    moved: Cell<u64>,
    /// Cells that were sent in this run.
    pub(super) sent: usize,
    /// No request is begun.
    pub(super) paused: bool,
    /// The same, and nothing is sent anew.
    pub(super) holds: bool,
}

impl<'a> Cx<'a> {
    /// What a run begins with; `own` says where in the arena of this end is what.
    pub(super) fn new(
        io: Io<'a>,
        own: Layout,
        trunk: &'a mut Trunk,
        lent: &'a mut Lent,
        spares: &'a mut Spares,
        memory: &'a Memory,
        dev: &'a pci::Device,
    ) -> Self {
        Self {
            io,
            own,
            trunk,
            lent,
            spares,
            memory,
            dev,
            own_qpn: Cell::new(0),
            moved: Cell::new(0),
            sent: 0,
            paused: false,
            holds: false,
        }
    }

    /// Sends a cell by the way of `protocol`. False: there is no room now.
    pub(super) fn send(
        &mut self,
        protocol: Protocol,
        to: Address,
        message: &Message,
    ) -> Result<bool, Fault> {
        let sent = self.trunk.send(&self.io, protocol, to, message)?;
        if sent {
            self.sent += 1;
            traced::cell(
                self.dev,
                self.io.link,
                true,
                self.own_qpn.get(),
                to,
                message,
            );
        }
        Ok(sent)
    }

    /// Says a word by the way of `protocol`. False: there is no room now.
    pub(super) fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault> {
        let sent = self.trunk.word(&self.io, protocol, &word)?;
        if sent {
            traced::word(self.dev, self.io.link, true, self.own_qpn.get(), &word);
        }
        Ok(sent)
    }

    /// Says GONE, when nothing of queue pair `qpn`, if there is one, is under way. False: not now.
    pub(super) fn gone(
        &mut self,
        protocol: Protocol,
        qpn: Option<u32>,
        word: Farewell,
    ) -> Result<bool, Fault> {
        if qpn.is_some_and(|qpn| self.trunk.moving.has(qpn)) {
            return Ok(false);
        }
        // Data that have left may still be on their way: a word behind them, to nobody, is waited for.
        if self.trunk.moving.is_unfenced() && !self.word_behind(&NOTHING)? {
            return Ok(false);
        }
        let to = Address {
            qpn: word.to,
            psn: 0,
        };
        let Farewell { qpn, refuses, .. } = word;
        self.send(protocol, to, &Message::Gone { qpn, refuses })
    }

    /// Sends a word behind all data that are being moved. False: there is no room now.
    pub(super) fn word_behind(&mut self, word: &Word) -> Result<bool, Fault> {
        let Some(mover) = self.io.mover() else {
            return self.word(Protocol::PUSH, *word);
        };
        let sent = self.trunk.word_behind(&self.io, mover, self.memory, word)?;
        if sent {
            traced::word(self.dev, self.io.link, true, self.own_qpn.get(), word);
        }
        Ok(sent)
    }

    pub(super) fn has_room(&mut self, lane: Lane) -> Result<bool, Fault> {
        self.trunk.has_room(&self.io, lane, 1)
    }

    pub(super) fn has_word_room(&mut self) -> Result<bool, Fault> {
        self.trunk.has_word_room(&self.io)
    }

    pub(super) fn may_say(&mut self, protocol: Protocol) -> Result<bool, Fault> {
        self.trunk.may_say(&self.io, protocol)
    }

    /// Reads what the peer has put down in `extents`, and puts it at `offset`. False: it did not come
    /// over the bridge.
    pub(super) fn pull(
        &self,
        sink: &Sink<'_>,
        pd: &Pd,
        offset: u64,
        extents: &Extents,
    ) -> core::result::Result<bool, Refused> {
        let len = extents.bytes();
        self.moved(len);
        let pulled = self.io.over_the_bridge(|| {
            let window = self.io.window;
            sink.collect(window, self.memory, pd, offset, extents, len)
        });
        pulled.map_or(Ok(false), |pulled| pulled.map(|()| true))
    }

    /// Takes note of work that takes longer than a short message.
    pub(super) fn moved(&self, bytes: u64) {
        self.moved.set(self.moved.get().saturating_add(bytes));
    }

    /// Whether this run has worked long enough.
    pub(super) fn is_tired(&self) -> bool {
        self.moved.get() >= MOST_MOVED
    }

    /// Whether so many bytes are announced, and memory is lent for them.
    pub(super) fn is_long(&self, bytes: u64) -> bool {
        bytes > self.trunk.peer.eager_most() as u64
    }

    /// Binds a window, or takes it back. False: accesses by it go on, it has to be tried again.
    pub(super) fn bind(&self, pd: &Pd, wqe: &SendWqe) -> Result<bool, Status> {
        let list = wqe.tail.list().map(Sgl::as_slice).unwrap_or_default();
        let binding = Binding {
            // None is needed to unbind.
            region: list.first().map_or(0, |region| region.stag),
            to: wqe.arg0,
            length: wqe.arg1,
            access: wqe.access,
            key: wqe.key,
        };
        ended(self.memory.bind(pd, wqe.remote_stag, &binding)).map_err(|_| Status::Bind)
    }

    /// Takes a window back. False: as above.
    pub(super) fn invalidate(&self, pd: &Pd, stag: u32) -> Result<bool, Status> {
        ended(self.memory.invalidate(pd, stag)).map_err(|_| Status::LocalProt)
    }
}

/// A word to nobody.
const NOTHING: Word = Word {
    qpn: 0,
    psn: 0,
    says: Says::Ack,
};

fn ended(done: Poll<Result<(), Denied>>) -> Result<bool, Denied> {
    match done {
        Poll::Ready(done) => done.map(|()| true),
        Poll::Pending => Ok(false),
    }
}

/// What the peer is told by GONE.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Farewell {
    /// A queue pair of the peer's, or 0: any that has named `qpn`.
    pub(super) to: u32,
    /// The one of this end that writes nothing more for it, or that nobody has.
    pub(super) qpn: u32,
    /// It was never there for it.
    pub(super) refuses: bool,
}
