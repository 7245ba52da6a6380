// SPDX-License-Identifier: GPL-2.0

//! What a run of the engine works with: the trunk of its link, the memory of its users, and how much
//! it has done.
//!
//! It must not know which queue pairs there are, nor what becomes of what is sent.

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
        request::{Address, Message},
        trunk::{Fault, Layout},
        word::{Says, Word},
    },
};
use core::cell::Cell;
use kernel::{pci, prelude::*};

/// Bytes of long messages that a run moves before it lets others run.
const MOST_MOVED: u64 = 1 << 20;

/// What a run works with.
pub(super) struct Cx<'a> {
    pub(super) io: Io<'a>,
    pub(super) own: Layout,
    pub(super) trunk: &'a mut Trunk,
    pub(super) spares: &'a mut Spares,
    pub(super) memory: &'a Memory,
    pub(super) dev: &'a pci::Device,
    /// The queue pair that has its turn, or 0: for those who trace.
    pub(super) own_qpn: Cell<u32>,
    /// Bytes that were moved in this run.
    moved: Cell<u64>,
    /// Cells that were sent in this run.
    pub(super) sent: usize,
    pub(super) flow: Flow,
}

impl<'a> Cx<'a> {
    /// What a run begins with; `own` says where in the arena of this end is what.
    pub(super) fn new(
        io: Io<'a>,
        own: Layout,
        trunk: &'a mut Trunk,
        spares: &'a mut Spares,
        memory: &'a Memory,
        dev: &'a pci::Device,
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
            sent: 0,
            flow: Flow::Open,
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
        what: Disconnect,
    ) -> Result<bool, Fault> {
        if qpn.is_some_and(|qpn| self.trunk.moving.has(qpn)) {
            return Ok(false);
        }
        // Data that have left may still be on their way: a word behind them, to nobody, is waited for.
        if self.trunk.moving.is_unfenced() && !self.word_behind(&NOTHING)? {
            return Ok(false);
        }
        let to = Address {
            qpn: what.to,
            psn: 0,
        };
        self.send(protocol, to, &Message::Gone(what.gone))
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

    /// Takes note of work that takes longer than a short message.
    pub(super) fn moved(&self, bytes: u64) {
        self.moved.set(self.moved.get().saturating_add(bytes));
    }

    /// Whether this run has worked long enough.
    pub(super) fn is_tired(&self) -> bool {
        self.moved.get() >= MOST_MOVED
    }
}

/// A word to nobody.
const NOTHING: Word = Word {
    qpn: 0,
    psn: 0,
    says: Says::Ack,
};
