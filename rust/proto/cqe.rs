// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completions: their layout, and the positions in a completion queue.
//!
//! The values are those of `include/uapi/linux/weft.h`, where they are explained. The user program
//! writes the count of entries taken, and is not trusted. This file is independent of how memory is
//! accessed and of how users are notified.

/// Bytes of a completion.
pub const CQE_BYTES: usize = 32;
/// Words of a completion.
pub const CQE_WORDS: usize = CQE_BYTES / 8;
/// The word of a completion that is written last.
pub const CQE_VALID: usize = 3;
/// Offset of the entries in the memory of a completion queue.
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

/// The completion has immediate data.
pub const FLAG_IMM: u8 = 1;
/// The completion belongs to no work request: the queue pair has gone to ERR.
pub const FLAG_END: u8 = 2;

numbered! {
    /// Status of a completed work request.
    pub enum Status: u16 {
        /// It was done.
        Success = 0,
        /// It was not begun, or not completed, when the queue pair went to ERR.
        Flushed = 1,
        /// The scatter list is shorter than the data that came.
        LocalLength = 2,
        /// The work request is invalid.
        LocalRequest = 3,
        /// An STag of the list is invalid or of another PD, or rights or bounds forbid the access.
        LocalProt = 4,
        /// The same for an STag at the peer.
        RemoteAccess = 5,
        /// The peer does not accept such a request.
        RemoteRequest = 6,
        /// The peer failed to do it.
        RemoteOp = 7,
        /// The window could not be bound.
        Bind = 8,
        /// The link went down.
        Link = 9,
        /// The peer's queue pair is in ERR or gone, or its driver is.
        Peer = 10,
        /// The peer broke the protocol, or its queue pair has another one.
        Protocol = 11,
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe {
    /// The user's id of the work request.
    pub wr_id: u64,
    /// Number of the queue pair.
    pub qpn: u32,
    /// Bytes received, read or written.
    pub byte_len: u32,
    /// Immediate data, or the STag that was invalidated.
    pub imm: Option<u32>,
    /// Status of the work request.
    pub status: Status,
    /// `WEFT_OP_*`.
    pub opcode: u8,
    /// It belongs to no work request, but marks the end of a queue pair with a shared receive queue.
    pub ends: bool,
}

impl Cqe {
    /// Encodes the completion as entry `number` of a queue of `shape`. Word [`CQE_VALID`] is to be
    /// written last.
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
    /// Returns the shape of a queue of `entries`; `None` if the user interface does not allow the
    /// number.
    pub const fn new(entries: u32) -> Option<Self> {
        if entries >= MIN_CQ_ENTRIES && entries <= MAX_CQ_ENTRIES && entries.is_power_of_two() {
            Some(Self { entries })
        } else {
            None
        }
    }

    /// Returns the size of the queue's memory in bytes.
    pub const fn bytes(self) -> usize {
        ENTRIES_AT + self.entries as usize * CQE_BYTES
    }

    /// Returns the offset of entry `number`.
    pub const fn entry_at(self, number: u64) -> usize {
        ENTRIES_AT + (number & (self.entries as u64 - 1)) as usize * CQE_BYTES
    }

    /// Returns the mark of a valid entry `number`: phase and low bits of the number.
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
    /// The last plausible count of the user.
    consumed: u64,
    overrun: bool,
}

impl Producer {
    /// Creates the producer of an empty queue.
    pub const fn new(shape: CqShape) -> Self {
        Self {
            shape,
            produced: 0,
            consumed: 0,
            overrun: false,
        }
    }

    /// Returns the shape of the queue.
    pub const fn shape(&self) -> CqShape {
        self.shape
    }

    /// Returns the number of entries given.
    pub const fn produced(&self) -> u64 {
        self.produced
    }

    /// Returns whether an entry has found no room.
    pub const fn is_overrun(&self) -> bool {
        self.overrun
    }

    /// Takes the next entry and returns its number; the caller is to write it. Returns `None` if there
    /// is no room, and from then on always. `consumed` loads the user's count of entries taken: it is
    /// called only if there seems to be no room, and an impossible count is ignored.
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

    /// Returns whether there is an entry beyond the user's count `consumed`.
    pub const fn is_beyond(&self, consumed: u64) -> bool {
        self.produced > consumed
    }
}
