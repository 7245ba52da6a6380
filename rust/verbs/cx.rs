// SPDX-License-Identifier: GPL-2.0

//! The context of a run of the engine: the link queues, the memory of users, and how much the run has
//! done.
//!
//! This file must not know which queue pairs there are, nor how a peer's answers are handled.

use super::{
    spares::Spares,
    traced,
    trunk::{Io, Trunk},
};
use crate::{
    mem::Memory,
    proto::{
        protocol::Protocol,
        qp::{Disconnect, Flow},
        request::{Address, Message, Outgoing},
        trunk::{Fault, Layout, CELL_BYTES},
        word::{Says, Word},
    },
};
use core::cell::Cell;
use kernel::{device::Device, prelude::*};

/// Several queue pairs, by a number that none has.
pub(super) const SEVERAL: u32 = u32::MAX;

/// Bytes that a run moves before it ends.
const MOST_MOVED: u64 = 1 << 20;

/// The context of a run.
pub(super) struct Cx<'a> {
    pub(super) io: Io<'a>,
    pub(super) own: Layout,
    pub(super) trunk: &'a mut Trunk,
    pub(super) spares: &'a mut Spares,
    pub(super) memory: &'a Memory,
    pub(super) dev: &'a Device,
    /// The queue pair that is being serviced, or 0: for the tracepoints.
    pub(super) own_qpn: Cell<u32>,
    /// Bytes that were moved in this run.
    moved: Cell<u64>,
    /// Bytes of data that the CPU has stored at the peer in this run.
    stored: Cell<u64>,
    /// Cells that were sent in this run.
    pub(super) sent: usize,
    /// Requests among them, which the peer answers.
    pub(super) asked: usize,
    /// The queue pair that has sent control words in this run, or [`SEVERAL`].
    pub(super) said: Option<u32>,
    pub(super) flow: Flow,
}

impl<'a> Cx<'a> {
    /// Makes the context of a run; `own` is the layout of this end's arena.
    pub(super) fn new(
        io: Io<'a>,
        own: Layout,
        trunk: &'a mut Trunk,
        spares: &'a mut Spares,
        memory: &'a Memory,
        dev: &'a Device,
    ) -> Self {
        Self {
            io,
            own,
            trunk,
            spares,
            memory,
            dev,
            own_qpn: Cell::new(0),
            moved: Cell::new(0),
            stored: Cell::new(0),
            sent: 0,
            asked: 0,
            said: None,
            flow: Flow::Open,
        }
    }

    /// Sends a cell in the way that `protocol` uses. Returns false if there is no room now.
    pub(super) fn send(
        &mut self,
        protocol: Protocol,
        to: Address,
        message: &Outgoing<'_>,
    ) -> Result<bool, Fault> {
        let sent = self.trunk.send(&self.io, protocol, to, message)?;
        if sent {
            self.sent += 1;
            self.asked += usize::from(message.is_request());
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

    /// Sends a control word in the way that `protocol` uses. Returns false if there is no room now.
    pub(super) fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault> {
        let sent = self.trunk.word(&self.io, protocol, &word)?;
        if sent {
            let own = self.own_qpn.get();
            self.said = Some(
                self.said
                    .map_or(own, |qpn| if qpn == own { own } else { SEVERAL }),
            );
            traced::word(self.dev, self.io.link, true, self.own_qpn.get(), &word);
        }
        Ok(sent)
    }

    /// Sends GONE, once nothing of queue pair `qpn`, if there is one, is under way. Returns false if
    /// that is not possible now.
    pub(super) fn gone(
        &mut self,
        protocol: Protocol,
        qpn: Option<u32>,
        what: Disconnect,
    ) -> Result<bool, Fault> {
        if qpn.is_some_and(|qpn| self.trunk.moving.has(qpn)) {
            return Ok(false);
        }
        // Data that have left may still be on their way. A control word without a recipient is sent
        // behind them, and waited for.
        if self.trunk.moving.is_unfenced() && !self.word_behind(&NOTHING)? {
            return Ok(false);
        }
        let to = Address {
            qpn: what.to,
            psn: 0,
        };
        self.send(protocol, to, &Message::Gone(what.gone))
    }

    /// Sends a control word behind all data that are being moved. Returns false if there is no room
    /// now.
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

    /// Accounts `bytes` of data that are not in cells, or other work that takes as long.
    pub(super) fn moved(&self, bytes: u64) {
        self.moved.set(self.moved.get().saturating_add(bytes));
    }

    /// Counts data that the CPU has stored at the peer.
    pub(super) fn has_stored(&self, bytes: u64) {
        self.stored.set(self.stored.get().saturating_add(bytes));
    }

    /// Returns how many bytes the CPU has stored at the peer in this run, cells included.
    pub(super) fn stored(&self) -> u64 {
        self.stored.get() + (self.sent * CELL_BYTES) as u64
    }

    /// Returns whether the budget of this run is exhausted.
    pub(super) fn is_tired(&self) -> bool {
        self.moved.get() >= MOST_MOVED
    }
}

/// A control word without a recipient.
const NOTHING: Word = Word {
    qpn: 0,
    psn: 0,
    says: Says::Ack,
};
