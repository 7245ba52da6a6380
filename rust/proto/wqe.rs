// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decoding of work requests that a user has written into a queue.
//!
//! The values are those of `include/uapi/linux/weft.h`, where they are explained. The user may write an
//! entry at any time: the caller passes a function that loads word `n` of it, of 8 bytes, and each word
//! is loaded at most once. A decoded request is valid by itself. The callers check STags. This file is
//! independent of how memory is accessed.

/// Bytes of a send request before its list.
pub const SEND_BYTES: usize = 64;
/// Bytes of a receive request before its list.
pub const RECV_BYTES: usize = 16;
/// Bytes of an element of a list.
pub const SGE_BYTES: usize = 16;
/// Most elements of a list.
pub const MAX_SGES: usize = 16;
/// Most bytes of inline data.
pub const MAX_INLINE: usize = MAX_SGES * SGE_BYTES;
/// Bytes of the longest message.
pub const MAX_MESSAGE: u64 = 1 << 31;

/// Fewest entries of a queue.
pub const MIN_ENTRIES: u32 = 16;
/// Most entries of a queue.
pub const MAX_ENTRIES: u32 = 16384;
/// Offset of the entries in the memory of a queue.
pub const ENTRIES_AT: usize = 128;
/// Offset there of the count of entries posted, `weft_queue_ctl.posted`.
pub const POSTED_AT: usize = 0;
/// Offset there of the count of entries taken, `weft_queue_ctl.taken`.
pub const TAKEN_AT: usize = 64;
/// Alignment of an entry.
const ENTRY_ALIGN: usize = 16;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

const SIGNALED: u8 = 1 << 0;
const INLINE: u8 = 1 << 1;
const IMM: u8 = 1 << 2;
const FENCE: u8 = 1 << 3;

numbered! {
    /// Operation of a send request: `WEFT_OP_*`.
    pub enum Opcode: u8 {
        /// Sends a message to the peer's receive queue.
        Send = 1,
        /// Writes from the list to the peer's memory.
        Write = 2,
        /// Writes as [`Opcode::Write`], and takes a receive request.
        WriteImm = 3,
        /// Reads from the peer's memory into the list, as many bytes as the list has.
        Read = 4,
        /// Reads as [`Opcode::Read`], as many bytes as the peer's memory has.
        ReadAll = 5,
        /// Adds to 8 bytes at the peer.
        FetchAdd = 6,
        /// Compares 8 bytes at the peer, and swaps them.
        CmpSwap = 7,
        /// Binds a window of this end.
        BindMw = 8,
        /// Invalidates a window of this end.
        LocalInv = 9,
    }
}

/// `WEFT_OP_RECV`, in completions.
pub const OP_RECV: u8 = 16;
/// `WEFT_OP_RECV_WRITE_IMM`, in completions.
pub const OP_RECV_WRITE_IMM: u8 = 17;

impl Opcode {
    /// Returns whether the list is the source of the data.
    pub const fn reads_list(self) -> bool {
        matches!(self, Self::Send | Self::Write | Self::WriteImm)
    }
}

/// A work request is invalid: `WEFT_WC_LOCAL_REQUEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Senseless;

/// An element of a scatter/gather list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Tagged offset.
    pub to: u64,
    /// Bytes.
    pub length: u32,
    /// The STag.
    pub stag: u32,
}

/// A scatter/gather list of at most [`MAX_MESSAGE`] bytes in total.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sgl {
    count: u8,
    list: [Sge; MAX_SGES],
    bytes: u64,
}

impl Sgl {
    /// Returns the elements.
    pub fn as_slice(&self) -> &[Sge] {
        self.list.get(..self.count.into()).unwrap_or_default()
    }

    /// Returns the bytes of all elements.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// No elements.
    const NONE: Self = Self {
        count: 0,
        list: [Sge {
            to: 0,
            length: 0,
            stag: 0,
        }; MAX_SGES],
        bytes: 0,
    };

    /// Replaces the list by `count` elements, of which the first begins with word `at`; at most `most`
    /// are allowed.
    fn read(
        &mut self,
        load: &impl Fn(usize) -> u64,
        at: usize,
        count: u32,
        most: u32,
    ) -> Result<(), Senseless> {
        if count > most {
            return Err(Senseless);
        }
        let places = self.list.get_mut(..count as usize).ok_or(Senseless)?;
        let mut bytes = 0;
        for (n, place) in places.iter_mut().enumerate() {
            let [to, rest] = [0, 1].map(|word| u64::from_le(load(at + 2 * n + word)));
            *place = Sge {
                to,
                length: rest as u32,
                stag: (rest >> 32) as u32,
            };
            bytes += u64::from(place.length);
        }
        // At most MAX_SGES: no bits are lost.
        self.count = count as u8;
        self.bytes = bytes;
        if bytes <= MAX_MESSAGE {
            Ok(())
        } else {
            Err(Senseless)
        }
    }

    /// Iterates over the pieces of the list that hold `len` bytes from `offset` on, in order; fewer
    /// bytes if the list ends before.
    pub fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = Sge> + '_ {
        let (mut skip, mut left) = (offset, len);
        self.as_slice().iter().filter_map(move |sge| {
            let bytes = u64::from(sge.length);
            if skip >= bytes {
                skip -= bytes;
                return None;
            }
            // Smaller than `length`: no bits are lost.
            let length = left.min(bytes - skip) as u32;
            let piece = Sge {
                to: sge.to.wrapping_add(skip),
                length,
                stag: sge.stag,
            };
            skip = 0;
            left -= u64::from(length);
            (length > 0).then_some(piece)
        })
    }
}

impl core::fmt::Debug for Sgl {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// The part of an entry behind a send request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// A list.
    List(Sgl),
    /// Inline data: number of bytes, and the bytes.
    Inline(u16, [u8; MAX_INLINE]),
}

impl Tail {
    /// No data.
    pub const NONE: Self = Self::Inline(0, [0; MAX_INLINE]);

    /// Replaces the tail by a list: see [`Sgl::read`].
    fn read_list(
        &mut self,
        load: &impl Fn(usize) -> u64,
        at: usize,
        count: u32,
        most: u32,
    ) -> Result<(), Senseless> {
        if matches!(self, Self::Inline(..)) {
            *self = Self::List(Sgl::NONE);
        }
        match self {
            Self::List(sgl) => sgl.read(load, at, count, most),
            Self::Inline(..) => Err(Senseless),
        }
    }

    /// Replaces the tail by a copy of the `len` bytes that begin with word `at`.
    fn read_inline(
        &mut self,
        load: &impl Fn(usize) -> u64,
        at: usize,
        len: u32,
    ) -> Result<(), Senseless> {
        if matches!(self, Self::List(_)) {
            *self = Self::NONE;
        }
        let Self::Inline(count, bytes) = self else {
            return Err(Senseless);
        };
        let words = (len as usize).div_ceil(WORD);
        let places = bytes.get_mut(..words * WORD).ok_or(Senseless)?;
        for (n, part) in places.chunks_exact_mut(WORD).enumerate() {
            part.copy_from_slice(&load(at + n).to_ne_bytes());
        }
        // At most MAX_INLINE: no bits are lost.
        *count = len as u16;
        Ok(())
    }

    /// Returns the bytes of data, in the list or inline.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::List(sgl) => sgl.bytes(),
            Self::Inline(count, _) => *count as u64,
        }
    }

    /// Returns the list; `None` if data are inline.
    pub const fn list(&self) -> Option<&Sgl> {
        match self {
            Self::List(sgl) => Some(sgl),
            Self::Inline(..) => None,
        }
    }

    /// Returns inline data; `None` if there is a list.
    pub fn inline(&self) -> Option<&[u8]> {
        match self {
            Self::List(_) => None,
            Self::Inline(count, bytes) => bytes.get(..usize::from(*count)),
        }
    }
}

impl core::fmt::Debug for Tail {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::List(sgl) => sgl.fmt(f),
            Self::Inline(count, _) => write!(f, "{count} bytes"),
        }
    }
}

/// A valid send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWqe {
    /// The user's id of the request.
    pub wr_id: u64,
    /// The operation.
    pub opcode: Opcode,
    /// There is to be a completion even if it succeeds.
    pub signaled: bool,
    /// It is not carried out before earlier reads and atomics are done.
    pub fence: bool,
    /// Immediate data that go with the message.
    pub imm: Option<u32>,
    /// Tagged offset at the peer.
    pub remote_to: u64,
    /// STag at the peer, or of a window of this end.
    pub remote_stag: u32,
    /// Rights of a window that is bound.
    pub access: u32,
    /// Key of a window that is bound.
    pub key: u8,
    /// Operand.
    pub arg0: u64,
    /// Operand.
    pub arg1: u64,
    /// List or inline data.
    pub tail: Tail,
}

/// The members of a send request that a completion repeats; known even if the request is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's id of the request.
    pub wr_id: u64,
    /// The operation as the user wrote it.
    pub opcode: u8,
}

impl Identity {
    /// Decodes the identity of an entry of a send queue.
    pub fn of(load: impl Fn(usize) -> u64) -> Self {
        Self::new(load(0), u64::from_le(load(1)))
    }

    /// Decodes it from the first word as it was loaded, and the second one.
    const fn new(first: u64, second: u64) -> Self {
        Self {
            wr_id: u64::from_le(first),
            opcode: second as u8,
        }
    }
}

impl SendWqe {
    /// A request that sends nothing, to be filled in.
    pub const BLANK: Self = Self {
        wr_id: 0,
        opcode: Opcode::Send,
        signaled: true,
        fence: false,
        imm: None,
        remote_to: 0,
        remote_stag: 0,
        access: 0,
        key: 0,
        arg0: 0,
        arg1: 0,
        tail: Tail::NONE,
    };

    /// Decodes an entry of a queue of `shape` into `self`, which avoids copies of a large object. If the
    /// request is invalid, the contents of `self` are undefined afterwards.
    pub fn read(
        &mut self,
        load: impl Fn(usize) -> u64,
        shape: &QueueShape,
    ) -> (Identity, Result<(), Senseless>) {
        let (first, second) = (load(0), u64::from_le(load(1)));
        let identity = Identity::new(first, second);
        (identity, self.sense(identity, second, &load, shape))
    }

    fn sense(
        &mut self,
        identity: Identity,
        second: u64,
        load: &impl Fn(usize) -> u64,
        shape: &QueueShape,
    ) -> Result<(), Senseless> {
        let opcode = Opcode::of(identity.opcode).ok_or(Senseless)?;
        let [_, flags, low, high, ..] = second.to_le_bytes();
        let count = u32::from(u16::from_le_bytes([low, high]));
        let imm = (second >> 32) as u32;
        let may = SIGNALED
            | FENCE
            | match opcode {
                Opcode::Send => INLINE | IMM,
                Opcode::Write | Opcode::WriteImm => INLINE,
                _ => 0,
            };
        if flags & !may != 0 || load(6) | load(7) != 0 {
            return Err(Senseless);
        }
        const TAIL: usize = SEND_BYTES / WORD;
        if flags & INLINE != 0 {
            if count > shape.inline {
                return Err(Senseless);
            }
            self.tail.read_inline(load, TAIL, count)?;
        } else {
            self.tail.read_list(load, TAIL, count, shape.sges)?;
        }
        let with_imm = flags & IMM != 0 || opcode == Opcode::WriteImm;
        let names = u64::from_le(load(3));
        self.wr_id = identity.wr_id;
        self.opcode = opcode;
        self.signaled = flags & SIGNALED != 0;
        self.fence = flags & FENCE != 0;
        self.imm = with_imm.then_some(imm);
        self.remote_to = u64::from_le(load(2));
        self.remote_stag = names as u32;
        self.access = (names >> 32) as u32;
        // The key is used by a bind only, which checks it below.
        self.key = imm as u8;
        self.arg0 = u64::from_le(load(4));
        self.arg1 = u64::from_le(load(5));
        let fits = match opcode {
            Opcode::FetchAdd | Opcode::CmpSwap => self.tail.bytes() == 8 && self.remote_to % 8 == 0,
            Opcode::BindMw => imm <= 0xff && (count == 1 || count == 0 && self.arg1 == 0),
            Opcode::LocalInv => count == 0,
            _ => true,
        };
        if fits {
            Ok(())
        } else {
            Err(Senseless)
        }
    }
}

/// A valid receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// The user's id of the request.
    pub wr_id: u64,
    /// Destination of the message.
    pub list: Sgl,
}

impl RecvWqe {
    /// A request without a list, to be filled in.
    pub const BLANK: Self = Self {
        wr_id: 0,
        list: Sgl::NONE,
    };

    /// Returns the `wr_id` of an entry of a receive queue.
    pub fn wr_id_of(load: impl Fn(usize) -> u64) -> u64 {
        u64::from_le(load(0))
    }

    /// Decodes an entry of a receive queue of `shape` into `self`, as [`SendWqe::read`] does. The
    /// `wr_id` is valid in any case.
    pub fn read(
        &mut self,
        load: impl Fn(usize) -> u64,
        shape: &QueueShape,
    ) -> Result<(), Senseless> {
        self.wr_id = Self::wr_id_of(&load);
        let second = u64::from_le(load(1));
        if second >> 32 != 0 {
            return Err(Senseless);
        }
        let count = second as u32;
        self.list.read(&load, RECV_BYTES / WORD, count, shape.sges)
    }
}

/// The sizes of a queue of work requests, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShape {
    entries: u32,
    stride: u32,
    sges: u32,
    inline: u32,
}

impl QueueShape {
    /// Returns the shape of a send queue; `None` if the user interface does not allow it.
    pub const fn send(entries: u32, sges: u32, inline: u32) -> Option<Self> {
        if inline as usize > MAX_INLINE {
            return None;
        }
        Self::new(entries, sges, inline, SEND_BYTES)
    }

    /// Returns the shape of a receive queue, of one queue pair or shared; `None` if the user interface
    /// does not allow it.
    pub const fn recv(entries: u32, sges: u32) -> Option<Self> {
        Self::new(entries, sges, 0, RECV_BYTES)
    }

    const fn new(entries: u32, sges: u32, inline: u32, head: usize) -> Option<Self> {
        let entries_fit =
            entries >= MIN_ENTRIES && entries <= MAX_ENTRIES && entries.is_power_of_two();
        if !entries_fit || sges == 0 || sges as usize > MAX_SGES {
            return None;
        }
        let list = sges as usize * SGE_BYTES;
        let inline_bytes = inline as usize;
        let tail = if list > inline_bytes {
            list
        } else {
            inline_bytes
        };
        // At most SEND_BYTES + MAX_INLINE: no bits are lost.
        let stride = (head + tail).next_multiple_of(ENTRY_ALIGN) as u32;
        Some(Self {
            entries,
            stride,
            sges,
            inline,
        })
    }

    /// Returns the bytes of an entry, at most [`SEND_BYTES`] + [`MAX_INLINE`].
    pub const fn stride(&self) -> u32 {
        self.stride
    }

    /// Returns the bytes of the queue's memory.
    pub const fn bytes(&self) -> usize {
        ENTRIES_AT + self.entries as usize * self.stride as usize
    }

    /// Returns the offset in the queue's memory of entry `number`; numbers rise from 0 without wrapping.
    pub const fn entry_at(&self, number: u64) -> usize {
        ENTRIES_AT + (number & (self.entries as u64 - 1)) as usize * self.stride as usize
    }

    /// Returns how many entries can be taken, by the user's count `posted`; `None` if the count is
    /// impossible.
    pub const fn pending(&self, posted: u64, taken: u64) -> Option<u32> {
        let count = posted.wrapping_sub(taken);
        if count <= self.entries as u64 {
            // At most `entries`: no bits are lost.
            Some(count as u32)
        } else {
            None
        }
    }

    /// Returns whether the user's count `posted` tells of entries beyond `seen`, the highest count so far,
    /// and notes it there. While none is taken, that is the case at most once for each entry of the queue,
    /// whatever the user writes.
    pub fn tells_of_more(&self, posted: u64, taken: u64, seen: &mut u64) -> bool {
        let more = self.pending(posted, taken).is_some() && posted > taken.max(*seen);
        if more {
            *seen = posted;
        }
        more
    }
}
