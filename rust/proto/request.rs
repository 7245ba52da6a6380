// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages between the ends of a queue pair, and their encoding in cells.
//!
//! [`encode`] stores only the words that a message needs; the others are not written. [`decode`]
//! loads each word that the operation has, once, and checks it: its result names only memory for data,
//! and only lengths that the operation can have. The callers check rights, STags and the order of
//! requests. This file is independent of how words are accessed.

use super::hold::Standing;
use super::protocol::Protocol;
use super::socket::message as socket;
use super::trunk::{Fault, Layout, UNIT};
use super::wqe::MAX_MESSAGE;

/// Index of the word that makes a cell valid.
pub const HEAD: usize = 8;
/// Most bytes of a payload in a cell.
pub const INLINE_BYTES: usize = 64;
/// Most extents of a cell.
pub const MAX_EXTENTS: usize = 8;

/// Index of the word with `stag` and `imm`.
const STAG_IMM: usize = 9;
const TO: usize = 10;
const LENGTH: usize = 11;
const ARG0: usize = 12;
const ARG1: usize = 13;
const AT: usize = 14;
const ORDER: usize = 15;

const QPN: u64 = 0x00ff_ffff;
const COUNT_SHIFT: u32 = 24;
const RESERVED: u64 = 1 << 31;
const OP_SHIFT: u32 = 32;
const FLAGS_SHIFT: u32 = 40;
const PSN_SHIFT: u32 = 47;

/// Bits of JOIN, above those of the protocol.
const JOIN_ASKS: u32 = 32;
const JOIN_RESUMES: u32 = 33;
const JOIN_RESERVED: u64 = 0x0000_fffc_0000_0000;
const JOIN_EXPECTS: u32 = 48;

const FLAG_IMM: u8 = 1;
const FLAG_TO_RESPONDER: u8 = 2;

const SEND: u8 = 1;
const SEND_EAGER: u8 = 2;
const WRITE: u8 = 3;
const WRITE_EAGER: u8 = 4;
const SEND_LONG: u8 = 5;
const WRITE_LONG: u8 = 6;
const FETCH_ADD: u8 = 7;
const CMP_SWAP: u8 = 8;
const SIZE_IS: u8 = 16;
const VALUE: u8 = 17;
const GONE: u8 = 18;
const JOIN: u8 = 19;
const LEND: u8 = 24;
const READ: u8 = 25;
const OFFER: u8 = 26;
const SIZE: u8 = 27;
/// The first of those of [`socket`].
const SOCKET: u8 = 32;
const SOCKET_LAST: u8 = SOCKET + socket::OPS - 1;

/// A payload that is to be sent in a cell: at most [`INLINE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a>(&'a [u8]);

impl<'a> Payload<'a> {
    /// Returns `bytes` as a payload; `None` if they are more than [`INLINE_BYTES`].
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= INLINE_BYTES {
            Some(Self(bytes))
        } else {
            None
        }
    }
}

impl AsRef<[u8]> for Payload<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

/// A payload that has come in a cell.
#[derive(Clone, Copy, Eq)]
pub struct Inline {
    len: u8,
    bytes: [u8; INLINE_BYTES],
}

impl Inline {
    /// Loads a payload of `len` bytes, word by word; returns `None` if it is longer than
    /// [`INLINE_BYTES`].
    #[inline]
    pub fn load(len: usize, load: impl Fn(usize) -> u64) -> Option<Self> {
        let mut bytes = [0; INLINE_BYTES];
        let words = bytes.get_mut(..len.next_multiple_of(8))?;
        for (n, part) in words.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&load(n).to_ne_bytes());
        }
        // At most INLINE_BYTES: no bits are lost.
        let len = len as u8;
        Some(Self { len, bytes })
    }

    /// Returns the payload.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

impl PartialEq for Inline {
    fn eq(&self, other: &Self) -> bool {
        // What is behind the payload, in its last word, is undefined.
        self.as_bytes() == other.as_bytes()
    }
}

impl AsRef<[u8]> for Inline {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl core::fmt::Debug for Inline {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_bytes().fmt(f)
    }
}

/// Location of the data of a message; `P` is the payload of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<P = Inline> {
    /// In the cell.
    Inline(P),
    /// In the receiver's eager ring.
    Eager {
        /// Offset in the ring.
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// Still at the sender: the message announces this length.
    Long(u64),
}

/// A contiguous range of staging memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the link queues of its owner, a multiple of [`UNIT`].
    pub at: u32,
    /// Bytes, not 0.
    pub bytes: u32,
}

/// Up to [`MAX_EXTENTS`] ranges of staging memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Extents {
    count: u8,
    list: [Extent; MAX_EXTENTS],
}

impl Extents {
    /// No extents.
    pub const NONE: Self = Self {
        count: 0,
        list: [Extent { at: 0, bytes: 0 }; MAX_EXTENTS],
    };

    /// Appends an extent; returns false if there are [`MAX_EXTENTS`] already.
    #[must_use]
    pub fn push(&mut self, extent: Extent) -> bool {
        match self.list.get_mut(usize::from(self.count)) {
            Some(free) => {
                *free = extent;
                self.count += 1;
                true
            }
            None => false,
        }
    }

    /// Returns all extents.
    pub fn as_slice(&self) -> &[Extent] {
        self.list.get(..self.count.into()).unwrap_or_default()
    }

    /// Returns the bytes of all extents.
    pub fn bytes(&self) -> u64 {
        self.as_slice().iter().map(|e| u64::from(e.bytes)).sum()
    }
}

impl core::fmt::Debug for Extents {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// A message in a cell, by default one that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<P = Inline> {
    /// Sends data to a receive request of the receiver.
    Send {
        /// The data.
        data: Data<P>,
        /// Immediate data.
        imm: Option<u32>,
    },
    /// Writes data to `to` of `stag`, and takes a receive request if there are immediate data.
    Write {
        /// The data.
        data: Data<P>,
        /// Tagged offset.
        to: u64,
        /// STag of the receiver.
        stag: u32,
        /// Immediate data.
        imm: Option<u32>,
    },
    /// Asks how many bytes there are from `to` of `stag` on.
    Size {
        /// Tagged offset.
        to: u64,
        /// STag of the receiver.
        stag: u32,
    },
    /// Adds to the 8 bytes at `to` of `stag`.
    FetchAdd {
        /// Tagged offset, a multiple of 8.
        to: u64,
        /// STag of the receiver.
        stag: u32,
        /// The number to add.
        add: u64,
    },
    /// Replaces the 8 bytes at `to` of `stag`, if they are as expected.
    CmpSwap {
        /// Tagged offset, a multiple of 8.
        to: u64,
        /// STag of the receiver.
        stag: u32,
        /// The expected value.
        expected: u64,
        /// The new value.
        new: u64,
    },
    /// Asks for data from `to` of `stag` on.
    Read {
        /// Tagged offset.
        to: u64,
        /// STag of the receiver.
        stag: u32,
        /// Bytes.
        length: u32,
        /// The sender's memory for the data; none if it will pull them.
        extents: Extents,
    },
    /// Answers [`Message::Size`].
    SizeIs {
        /// Bytes.
        length: u64,
    },
    /// Answers [`Message::FetchAdd`] and [`Message::CmpSwap`].
    Value {
        /// The value before the operation.
        old: u64,
    },
    /// Disconnects: the sender's queue pair has ended, or is not connected to the receiver.
    Gone(Gone),
    /// Connects: the sender is connected to the receiver.
    Join(Join),
    /// Makes or ends a socket. Names no queue pair.
    Socket(socket::Message),
    /// Grants memory of the sender for a part of a long message.
    Lend {
        /// The part.
        part: Part,
        /// Memory of the sender.
        extents: Extents,
    },
    /// Exposes a part of a message, to be pulled.
    Offer {
        /// Role of the receiver in the request: the initiator of a read, else the responder.
        to: Role,
        /// The part.
        part: Part,
        /// Memory of the sender.
        extents: Extents,
    },
}

/// A message that is to be sent.
pub type Outgoing<'a> = Message<Payload<'a>>;

/// Contents of a disconnect message: the sender serves the receiver's queue pair no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The sender's queue pair, 24 bits.
    pub qpn: u32,
    /// There was no connection with the receiver. Otherwise the sender ends the connection, and expects
    /// an answer.
    pub refuses: bool,
    /// Epoch of the sender; 0: there is no such queue pair.
    pub epoch: u32,
    /// Epoch of the receiver that is meant; 0: any.
    pub peer_epoch: u32,
}

/// Contents of a connect message: description of the sender's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The sender's queue pair, 24 bits.
    pub qpn: u32,
    /// Protocol of the sender's queue pair.
    pub protocol: Protocol,
    /// The sender has not been answered yet.
    pub asks: bool,
    /// Position of the sender.
    pub stands: Standing,
    /// Epoch of the sender.
    pub epoch: u32,
    /// Epoch of the receiver, if this answers it; else 0.
    pub peer_epoch: u32,
}

/// Role of the receiver of a message in the request that the message refers to: each end of a queue pair
/// numbers its own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The receiver has sent the request.
    Initiator,
    /// The receiver has got the request.
    Responder,
}

/// A part of a long message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub number: u64,
    /// Its offset in the message.
    pub offset: u64,
}

/// The FIFO that a cell comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The receive FIFO.
    Receive,
    /// The transmit FIFO.
    Transmit,
    /// The peer's outgoing requests.
    Pulled,
}

impl<P> Message<P> {
    /// Returns the FIFO that it is written to, unless it is a request that is pulled.
    pub const fn lane(&self) -> Lane {
        match self {
            Self::Read { .. } | Self::Size { .. } => Lane::Transmit,
            Self::Lend { .. } | Self::Offer { .. } => Lane::Transmit,
            _ => Lane::Receive,
        }
    }

    /// Returns whether it is a request to a responder.
    pub const fn is_request(&self) -> bool {
        matches!(
            self,
            Self::Send { .. }
                | Self::Write { .. }
                | Self::Size { .. }
                | Self::FetchAdd { .. }
                | Self::CmpSwap { .. }
                | Self::Read { .. }
        )
    }

    /// Returns whether it may be pulled: a request, or part of one.
    pub const fn is_pullable(&self) -> bool {
        let offer = matches!(
            self,
            Self::Offer {
                to: Role::Responder,
                ..
            }
        );
        let socket = matches!(self, Self::Socket(message) if message.is_pulled());
        offer || socket || self.is_request()
    }

    /// Returns whether it takes a receive request.
    pub const fn takes_recv(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { imm: Some(_), .. })
    }

    /// Returns whether it is taken after all that the peer has posted before, to be pulled.
    pub const fn follows_all(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Join(_) | Self::Socket(_))
    }

    /// Returns whether it is a message with data that come later.
    pub const fn is_long(&self) -> bool {
        matches!(
            self,
            Self::Send {
                data: Data::Long(_),
                ..
            } | Self::Write {
                data: Data::Long(_),
                ..
            }
        )
    }
}

/// Destination of a message, and the request that it refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The receiver's queue pair, 24 bits.
    pub qpn: u32,
    /// Low bits of the number of the request.
    pub psn: u16,
}

/// Encodes `message`: calls `store` for each word that precedes the head, in ascending order, with its
/// index. Returns the head, which is to be stored last, without its phase.
///
/// `order`: how many slots of another FIFO precede the cell: cells of the receive FIFO for a cell of
/// another FIFO, or completion words for [`Message::Gone`].
pub fn encode<P: AsRef<[u8]>>(
    address: Address,
    message: &Message<P>,
    order: Option<u64>,
    mut store: impl FnMut(usize, u64),
) -> u64 {
    let (op, count, flags) = body(message, &mut store);
    if let Some(order) = order {
        store(ORDER, order);
    }
    (u64::from(address.qpn) & QPN)
        | (u64::from(count) << COUNT_SHIFT)
        | (u64::from(op) << OP_SHIFT)
        | (u64::from(flags) << FLAGS_SHIFT)
        | (u64::from(address.psn) << PSN_SHIFT)
}

/// Stores the words of `message`; returns its operation, count and flags.
#[inline]
fn body<P: AsRef<[u8]>>(message: &Message<P>, mut store: impl FnMut(usize, u64)) -> (u8, u8, u8) {
    let store = &mut store;
    match *message {
        Message::Send { ref data, imm } => {
            let count = payload(data, store);
            if let Some(imm) = imm {
                store(STAG_IMM, pair(0, imm));
            }
            place(data, store);
            let op = match data {
                Data::Inline(_) => SEND,
                Data::Eager { .. } => SEND_EAGER,
                Data::Long(_) => SEND_LONG,
            };
            (op, count, with_imm(imm))
        }
        Message::Write {
            ref data,
            to,
            stag,
            imm,
        } => {
            let count = payload(data, store);
            store(STAG_IMM, pair(stag, imm.unwrap_or(0)));
            store(TO, to);
            place(data, store);
            let op = match data {
                Data::Inline(_) => WRITE,
                Data::Eager { .. } => WRITE_EAGER,
                Data::Long(_) => WRITE_LONG,
            };
            (op, count, with_imm(imm))
        }
        Message::Size { to, stag } => {
            store(STAG_IMM, stag.into());
            store(TO, to);
            (SIZE, 0, 0)
        }
        Message::FetchAdd { to, stag, add } => {
            store(STAG_IMM, stag.into());
            store(TO, to);
            store(ARG0, add);
            (FETCH_ADD, 0, 0)
        }
        Message::CmpSwap {
            to,
            stag,
            expected,
            new,
        } => {
            store(STAG_IMM, stag.into());
            store(TO, to);
            store(ARG0, expected);
            store(ARG1, new);
            (CMP_SWAP, 0, 0)
        }
        Message::Read {
            to,
            stag,
            length,
            ref extents,
        } => {
            let count = list(extents, store);
            store(STAG_IMM, stag.into());
            store(TO, to);
            store(LENGTH, length.into());
            (READ, count, 0)
        }
        Message::SizeIs { length } => {
            store(LENGTH, length);
            (SIZE_IS, 0, 0)
        }
        Message::Value { old } => {
            store(ARG0, old);
            (VALUE, 0, 0)
        }
        Message::Gone(gone) => {
            store(STAG_IMM, pair(gone.epoch, gone.peer_epoch));
            store(ARG0, gone.qpn.into());
            store(ARG1, gone.refuses.into());
            (GONE, 0, 0)
        }
        Message::Join(join) => {
            let how = u64::from(join.protocol.bits())
                | (u64::from(join.asks) << JOIN_ASKS)
                | (u64::from(join.stands.resumes) << JOIN_RESUMES)
                | (u64::from(join.stands.expects) << JOIN_EXPECTS);
            store(STAG_IMM, pair(join.epoch, join.peer_epoch));
            store(ARG0, join.qpn.into());
            store(ARG1, how);
            (JOIN, 0, 0)
        }
        Message::Socket(ref message) => {
            let (op, words) = message.encode();
            for (n, word) in words.into_iter().enumerate() {
                store(n, word);
            }
            (SOCKET + op, 0, 0)
        }
        Message::Lend {
            ref part,
            ref extents,
        } => (LEND, exposed(part, extents, store), 0),
        Message::Offer {
            to,
            ref part,
            ref extents,
        } => {
            let flags = match to {
                Role::Initiator => 0,
                Role::Responder => FLAG_TO_RESPONDER,
            };
            (OFFER, exposed(part, extents, store), flags)
        }
    }
}

/// Stores a payload, and zeros behind it up to the next word; returns its bytes.
#[inline]
fn payload<P: AsRef<[u8]>>(data: &Data<P>, store: &mut impl FnMut(usize, u64)) -> u8 {
    let Data::Inline(payload) = data else {
        return 0;
    };
    let bytes = payload.as_ref();
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for (n, word) in words.enumerate() {
        store(n, word.try_into().map_or(0, u64::from_ne_bytes));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        for (to, byte) in last.iter_mut().zip(rest) {
            *to = *byte;
        }
        store(bytes.len() / 8, u64::from_ne_bytes(last));
    }
    // At most INLINE_BYTES: no bits are lost.
    bytes.len() as u8
}

/// Stores where data are that are not in the cell.
#[inline]
fn place<P>(data: &Data<P>, store: &mut impl FnMut(usize, u64)) {
    match *data {
        Data::Inline(_) => {}
        Data::Eager { at, len } => {
            store(LENGTH, len.into());
            store(AT, at.into());
        }
        Data::Long(length) => store(LENGTH, length),
    }
}

fn list(extents: &Extents, store: &mut impl FnMut(usize, u64)) -> u8 {
    for (n, extent) in extents.as_slice().iter().enumerate() {
        store(n, pair(extent.at / UNIT as u32, extent.bytes));
    }
    extents.count
}

fn exposed(part: &Part, extents: &Extents, store: &mut impl FnMut(usize, u64)) -> u8 {
    let count = list(extents, store);
    store(ARG0, part.offset);
    store(ARG1, part.number);
    count
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

const fn with_imm(imm: Option<u32>) -> u8 {
    if imm.is_some() {
        FLAG_IMM
    } else {
        0
    }
}

/// A cell that is being decoded: each word is loaded at most once.
struct Reader<'a, F> {
    load: F,
    count: u8,
    imm: bool,
    to: Role,
    own: &'a Layout,
    peer: &'a Layout,
}

impl<F: Fn(usize) -> u64> Reader<'_, F> {
    /// Returns the epochs of the sender and of the receiver.
    fn epochs(&self) -> (u32, u32) {
        let word = (self.load)(STAG_IMM);
        (word as u32, (word >> 32) as u32)
    }

    #[inline]
    fn inline(&self) -> Result<Data, Fault> {
        let inline = Inline::load(self.count.into(), &self.load);
        inline.map(Data::Inline).ok_or(Fault::Length)
    }

    fn eager(&self) -> Result<Data, Fault> {
        self.bare()?;
        let at = (self.load)(AT) as u32;
        let len = (self.load)(LENGTH);
        self.own.eager_place(at, len)?;
        // In the eager ring: no bits are lost.
        let len = len as u32;
        Ok(Data::Eager { at, len })
    }

    fn long(&self) -> Result<Data, Fault> {
        self.bare()?;
        match (self.load)(LENGTH) {
            0 => Err(Fault::Length),
            length if length > MAX_MESSAGE => Err(Fault::Length),
            length => Ok(Data::Long(length)),
        }
    }

    /// Checks that the count is 0: the operation has no data in the cell.
    fn bare(&self) -> Result<(), Fault> {
        if self.count == 0 {
            Ok(())
        } else {
            Err(Fault::Length)
        }
    }

    /// Returns the sender's queue pair, for an operation that names it.
    fn sender(&self) -> Result<u32, Fault> {
        match (self.load)(ARG0) {
            // 24 bits.
            qpn @ 1..=QPN => Ok(qpn as u32),
            _ => Err(Fault::Value),
        }
    }

    /// Returns the STag of an operation without immediate data.
    fn stag(&self) -> u32 {
        (self.load)(STAG_IMM) as u32
    }

    fn stag_imm(&self) -> (u32, Option<u32>) {
        let word = (self.load)(STAG_IMM);
        (word as u32, self.imm.then_some((word >> 32) as u32))
    }

    fn send(&self, data: Data) -> Message {
        let imm = self.imm.then(|| ((self.load)(STAG_IMM) >> 32) as u32);
        Message::Send { data, imm }
    }

    fn write(&self, data: Data) -> Message {
        let (stag, imm) = self.stag_imm();
        let to = (self.load)(TO);
        Message::Write {
            data,
            to,
            stag,
            imm,
        }
    }

    fn aligned(&self) -> Result<u64, Fault> {
        self.bare()?;
        match (self.load)(TO) {
            to if to % 8 == 0 => Ok(to),
            _ => Err(Fault::Value),
        }
    }

    fn extents(&self) -> Result<Extents, Fault> {
        let mut extents = Extents::NONE;
        for n in 0..usize::from(self.count) {
            let word = (self.load)(n);
            let at = u64::from(word as u32) * UNIT as u64;
            let bytes = (word >> 32) as u32;
            if bytes == 0 || !self.peer.is_staging(at, bytes) {
                return Err(Fault::Place);
            }
            // In the link queues: no bits are lost.
            let at = at as u32;
            if !extents.push(Extent { at, bytes }) {
                return Err(Fault::Length);
            }
        }
        Ok(extents)
    }

    fn read(&self) -> Result<Message, Fault> {
        let extents = self.extents()?;
        let length = (self.load)(LENGTH);
        let room = extents.bytes();
        if length > MAX_MESSAGE || self.count > 0 && room < length {
            return Err(Fault::Length);
        }
        Ok(Message::Read {
            to: (self.load)(TO),
            stag: self.stag(),
            // At most `MAX_MESSAGE`: no bits are lost.
            length: length as u32,
            extents,
        })
    }

    fn part(&self) -> Result<(Part, Extents), Fault> {
        let extents = self.extents()?;
        if self.count == 0 {
            return Err(Fault::Length);
        }
        let part = Part {
            offset: (self.load)(ARG0),
            number: (self.load)(ARG1),
        };
        if part.offset >= MAX_MESSAGE {
            return Err(Fault::Value);
        }
        Ok((part, extents))
    }

    fn message(&self, op: u8) -> Result<Message, Fault> {
        Ok(match op {
            SEND..=WRITE_LONG if self.to == Role::Responder => return Err(Fault::Kind),
            SEND => self.send(self.inline()?),
            SEND_EAGER => self.send(self.eager()?),
            SEND_LONG => self.send(self.long()?),
            WRITE => self.write(self.inline()?),
            WRITE_EAGER => self.write(self.eager()?),
            WRITE_LONG => self.write(self.long()?),
            _ if self.imm => return Err(Fault::Kind),
            OFFER => {
                let (part, extents) = self.part()?;
                let to = self.to;
                Message::Offer { to, part, extents }
            }
            _ if self.to == Role::Responder => return Err(Fault::Kind),
            SIZE => {
                self.bare()?;
                Message::Size {
                    to: (self.load)(TO),
                    stag: self.stag(),
                }
            }
            FETCH_ADD => Message::FetchAdd {
                to: self.aligned()?,
                stag: self.stag(),
                add: (self.load)(ARG0),
            },
            CMP_SWAP => Message::CmpSwap {
                to: self.aligned()?,
                stag: self.stag(),
                expected: (self.load)(ARG0),
                new: (self.load)(ARG1),
            },
            READ => self.read()?,
            SIZE_IS => {
                self.bare()?;
                Message::SizeIs {
                    length: (self.load)(LENGTH),
                }
            }
            VALUE => {
                self.bare()?;
                Message::Value {
                    old: (self.load)(ARG0),
                }
            }
            GONE => {
                self.bare()?;
                let refuses = (self.load)(ARG1);
                if refuses > 1 {
                    return Err(Fault::Value);
                }
                let (epoch, peer_epoch) = self.epochs();
                Message::Gone(Gone {
                    qpn: self.sender()?,
                    refuses: refuses != 0,
                    epoch,
                    peer_epoch,
                })
            }
            JOIN => {
                self.bare()?;
                let how = (self.load)(ARG1);
                let protocol = Protocol::of(how as u32).ok_or(Fault::Value)?;
                let stands = Standing {
                    resumes: (how >> JOIN_RESUMES) & 1 != 0,
                    // The upper bits: none is lost.
                    expects: (how >> JOIN_EXPECTS) as u16,
                };
                if how & JOIN_RESERVED != 0 || !stands.resumes && stands.expects != 0 {
                    return Err(Fault::Value);
                }
                let (epoch, peer_epoch) = self.epochs();
                Message::Join(Join {
                    qpn: self.sender()?,
                    protocol,
                    asks: (how >> JOIN_ASKS) & 1 != 0,
                    stands,
                    epoch,
                    peer_epoch,
                })
            }
            SOCKET..=SOCKET_LAST => {
                self.bare()?;
                let message = socket::Message::decode(op - SOCKET, &self.load);
                Message::Socket(message.ok_or(Fault::Value)?)
            }
            LEND => {
                let (part, extents) = self.part()?;
                Message::Lend { part, extents }
            }
            _ => return Err(Fault::Kind),
        })
    }
}

/// Decodes a cell that has come by `lane`. `head` is a copy of its head with a checked phase; `load`
/// loads another word. `own` is the layout of the receiver's link queues, `peer` that of the sender's.
pub fn decode(
    lane: Lane,
    head: u64,
    load: impl Fn(usize) -> u64,
    own: &Layout,
    peer: &Layout,
) -> Result<(Address, Message), Fault> {
    let flags = (head >> FLAGS_SHIFT) as u8 & 0x7f;
    if head & RESERVED != 0 || flags & !(FLAG_IMM | FLAG_TO_RESPONDER) != 0 {
        return Err(Fault::Kind);
    }
    let reader = Reader {
        load,
        count: (head >> COUNT_SHIFT) as u8 & 0x7f,
        imm: flags & FLAG_IMM != 0,
        to: if flags & FLAG_TO_RESPONDER != 0 {
            Role::Responder
        } else {
            Role::Initiator
        },
        own,
        peer,
    };
    let message = reader.message((head >> OP_SHIFT) as u8)?;
    let fits = match lane {
        Lane::Pulled => message.is_pullable(),
        lane => message.lane() == lane,
    };
    if !fits {
        return Err(Fault::Kind);
    }
    let address = Address {
        qpn: (head & QPN) as u32,
        psn: (head >> PSN_SHIFT) as u16,
    };
    Ok((address, message))
}

/// Returns how many slots of another FIFO precede a cell; see [`encode`].
pub fn order(load: impl Fn(usize) -> u64) -> u64 {
    load(ORDER)
}
