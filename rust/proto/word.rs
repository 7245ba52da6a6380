// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion words: 8 bytes in which one end of a queue pair reports on a request to the other.
//!
//! `Documentation/queues.rst` says what each means. The peer can write a word at any time: the caller
//! loads it once and decodes the copy. Of the place of a word this file knows only the phase.

use super::cqe::Status;
use super::request::Role;
use super::trunk::{Fault, Slots};

const QPN: u64 = 0x00ff_ffff;
const CODE_SHIFT: u32 = 24;
const PSN_SHIFT: u32 = 32;
const DETAIL_SHIFT: u32 = 48;
const PHASE: u64 = 1 << 63;

const DETAIL: u16 = 0x7fff;
/// In the detail of DONE: the receiver is the responder.
const TO_RESPONDER: u16 = 0x4000;

/// Words carry part numbers modulo this.
pub const PARTS: u16 = 0x4000;

const ACK: u8 = 1;
const NAK: u8 = 2;
const NO_RECV: u8 = 3;
const DONE: u8 = 4;
const RECV: u8 = 5;

/// What a word reports on request `psn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It and all before it have been carried out.
    Ack,
    /// It failed, with the status that its initiator is to report; all before it have been carried out.
    Nak(Status),
    /// RNR NAK: it found no receive request; all before it have been carried out.
    NoRecv,
    /// The data of a part of it are in the extents that were named; or, if the data are pulled, the
    /// extents are free again.
    Done {
        /// Role of the word's receiver in the request: the responder, for a part of a long message that
        /// is pushed or of a read that is pulled; otherwise the initiator.
        to: Role,
        /// The part, modulo [`PARTS`].
        part: u16,
    },
    /// RNR cleared: there are receive requests again. It is to be sent again, and what followed it.
    Recv,
}

/// A completion word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The receiver's queue pair, 24 bits.
    pub qpn: u32,
    /// Low bits of the number of the request.
    pub psn: u16,
    /// The report.
    pub says: Says,
}

impl Word {
    /// Encodes the word for slot number `number` of `slots`.
    pub fn encode(&self, number: u64, slots: Slots) -> u64 {
        let (code, detail) = match self.says {
            Says::Ack => (ACK, 0),
            Says::Nak(why) => (NAK, why as u16),
            Says::NoRecv => (NO_RECV, 0),
            Says::Done { to, part } => {
                let to = match to {
                    Role::Initiator => 0,
                    Role::Responder => TO_RESPONDER,
                };
                (DONE, (part % PARTS) | to)
            }
            Says::Recv => (RECV, 0),
        };
        (u64::from(self.qpn) & QPN)
            | (u64::from(code) << CODE_SHIFT)
            | (u64::from(self.psn) << PSN_SHIFT)
            | (u64::from(detail) << DETAIL_SHIFT)
            | slots.phase(number)
    }

    /// Decodes `word`, a copy of slot number `number`; returns `None` if the word has not come yet.
    pub fn decode(word: u64, number: u64, slots: Slots) -> Result<Option<Self>, Fault> {
        if word & PHASE != slots.phase(number) {
            return Ok(None);
        }
        let detail = (word >> DETAIL_SHIFT) as u16 & DETAIL;
        let says = match ((word >> CODE_SHIFT) as u8, detail) {
            (ACK, 0) => Says::Ack,
            (NAK, why) => match Status::of(why) {
                Some(
                    why @ (Status::RemoteAccess
                    | Status::RemoteRequest
                    | Status::RemoteOp
                    | Status::Protocol),
                ) => Says::Nak(why),
                _ => return Err(Fault::Value),
            },
            (NO_RECV, 0) => Says::NoRecv,
            (DONE, detail) => Says::Done {
                to: if detail & TO_RESPONDER != 0 {
                    Role::Responder
                } else {
                    Role::Initiator
                },
                part: detail % PARTS,
            },
            (RECV, 0) => Says::Recv,
            (ACK | NO_RECV | RECV, _) => return Err(Fault::Value),
            _ => return Err(Fault::Kind),
        };
        Ok(Some(Self {
            qpn: (word & QPN) as u32,
            psn: (word >> PSN_SHIFT) as u16,
            says,
        }))
    }
}
