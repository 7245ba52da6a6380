// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completions: their layout, and who may write which entry of a completion queue.
//!
//! The values are those of `include/uapi/linux/weft.h`, where they are explained. The count of
//! entries taken is written by a user who is not trusted. This file must not know how memory is
//! reached, or who is told.

/// Bytes of a completion.
pub const CQE_BYTES: usize = 32;
/// Words of a completion.
pub const CQE_WORDS: usize = CQE_BYTES / 8;
/// The word of a completion that is written last.
pub const CQE_VALID: usize = 3;
/// Where the entries begin in the memory of a completion queue.
pub const ENTRIES_AT: usize = 128;
/// Offset there of the count of entries taken, `weft_cq_ctl.consumed`.
pub const CONSUMED_AT: usize = 0;
/// Offset there of the count of entries given, `weft_cq_ctl.produced`.
pub const PRODUCED_AT: usize = 64;
/// Offset there of `weft_cq_ctl.overrun`.
pub const OVERRUN_AT: usize = 72;

/// Fewest entries of a completion queue.
pub const MIN_CQ_ENTRIES: u32 = 16;
/// Most entries of a completion queue.
pub const MAX_CQ_ENTRIES: u32 = 65536;

const PHASE: u32 = 1 << 31;

/// Immediate data are there.
pub const FLAG_IMM: u8 = 1;
/// Of no work request: the queue pair has gone to ERR.
pub const FLAG_END: u8 = 2;

/// What became of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// It was done.
    Success = 0,
    /// Not begun, or not ended, when the queue pair went to ERR.
    Flushed = 1,
    /// The list is shorter than what came.
    LocalLength = 2,
    /// The work request makes no sense.
    LocalRequest = 3,
    /// An STag of the list is none, or of another PD, or rights or bounds forbid it.
    LocalProt = 4,
    /// The same of an STag at the peer.
    RemoteAccess = 5,
    /// The peer takes no such request.
    RemoteRequest = 6,
    /// The peer failed to do it.
    RemoteOp = 7,
    /// The window could not be bound.
    Bind = 8,
    /// The link went down.
    Link = 9,
    /// The peer's queue pair is in ERR or gone, or its driver is.
    Peer = 10,
    /// The peer broke the protocol, or another one was agreed on.
    Protocol = 11,
}

impl Status {
    /// The status with this number.
    pub const fn of(number: u16) -> Option<Self> {
        Some(match number {
            0 => Self::Success,
            1 => Self::Flushed,
            2 => Self::LocalLength,
            3 => Self::LocalRequest,
            4 => Self::LocalProt,
            5 => Self::RemoteAccess,
            6 => Self::RemoteRequest,
            7 => Self::RemoteOp,
            8 => Self::Bind,
            9 => Self::Link,
            10 => Self::Peer,
            11 => Self::Protocol,
            _ => return None,
        })
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe {
    /// The user's, of the work request.
    pub wr_id: u64,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Bytes received, read or written.
    pub byte_len: u32,
    /// Immediate data, or the STag that was invalidated.
    pub imm: Option<u32>,
    /// What became of it.
    pub status: Status,
    /// `WEFT_OP_*`.
    pub opcode: u8,
    /// It is of no work request, but of the end of a queue pair with a shared receive queue.
    pub ends: bool,
}

impl Cqe {
    /// The completion as entry `number` of a queue of `shape`. Word [`CQE_VALID`] is to be written
    /// last.
    pub fn encode(&self, number: u64, shape: CqShape) -> [u64; CQE_WORDS] {
        let flags =
            if self.imm.is_some() { FLAG_IMM } else { 0 } | if self.ends { FLAG_END } else { 0 };
        [
            self.wr_id,
            u64::from(self.qpn) | (u64::from(self.byte_len) << 32),
            u64::from(self.imm.unwrap_or(0))
                | (u64::from(self.status as u16) << 32)
                | (u64::from(self.opcode) << 48)
                | (u64::from(flags) << 56),
            u64::from(shape.valid(number)) << 32,
        ]
    }
}

/// The size of a completion queue, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqShape {
    entries: u32,
}

impl CqShape {
    /// A queue of so many entries; `None` if the user interface does not allow it.
    pub const fn new(entries: u32) -> Option<Self> {
        if entries >= MIN_CQ_ENTRIES && entries <= MAX_CQ_ENTRIES && entries.is_power_of_two() {
            Some(Self { entries })
        } else {
            None
        }
    }

    /// Bytes of its memory.
    pub const fn bytes(self) -> usize {
        ENTRIES_AT + self.entries as usize * CQE_BYTES
    }

    /// Where entry `number` lies.
    pub const fn entry_at(self, number: u64) -> usize {
        ENTRIES_AT + (number & (self.entries as u64 - 1)) as usize * CQE_BYTES
    }

    /// What says that entry `number` is there: phase and low bits of the number.
    pub const fn valid(self, number: u64) -> u32 {
        let low = number as u32 & !PHASE;
        if (number >> self.entries.trailing_zeros()) & 1 == 0 {
            low | PHASE
        } else {
            low
        }
    }
}

/// The driver's end of a completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Producer {
    shape: CqShape,
    produced: u64,
    /// As far as the user was believed.
    consumed: u64,
    overrun: bool,
}

impl Producer {
    /// Of a queue in which there is nothing.
    pub const fn new(shape: CqShape) -> Self {
        Self {
            shape,
            produced: 0,
            consumed: 0,
            overrun: false,
        }
    }

    /// The queue's size.
    pub const fn shape(&self) -> CqShape {
        self.shape
    }

    /// Entries given.
    pub const fn produced(&self) -> u64 {
        self.produced
    }

    /// Whether an entry has found no room.
    pub const fn is_overrun(&self) -> bool {
        self.overrun
    }

    /// The number of the next entry, which the caller is to write; `None`, now and for ever, if there
    /// is no room. `consumed` loads what the user says to have taken: it is asked only if there seems
    /// to be no room, and believed only if it can be.
    pub fn next(&mut self, consumed: impl FnOnce() -> u64) -> Option<u64> {
        if self.overrun {
            return None;
        }
        let entries = u64::from(self.shape.entries);
        if self.produced - self.consumed >= entries {
            let said = consumed();
            if said > self.consumed && said <= self.produced {
                self.consumed = said;
            }
        }
        if self.produced - self.consumed >= entries {
            self.overrun = true;
            return None;
        }
        let number = self.produced;
        self.produced += 1;
        Some(number)
    }

    /// Whether there is an entry beyond `consumed`, as the user says.
    pub const fn is_beyond(&self, consumed: u64) -> bool {
        self.produced > consumed
    }
}
