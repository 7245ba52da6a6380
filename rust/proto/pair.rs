// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Encoding of the messages between a physical function and its virtual functions.
//!
//! A VF has no mailbox to neighbours. Its driver passes messages for them to the PF's driver, in pieces
//! as small as the mailbox between the two. The PF's driver puts a message in an envelope and sends it
//! by its own mailbox; the PF's driver there passes it to the VF that it is for, in pieces again. A message
//! goes by a link to a neighbour, or to a port that is reached by its local id; the way to that the VF's driver
//! is told by the PF's. Any of it may get lost, and either end may be hostile: a VF can have an untrusted driver,
//! and so can the PF of a neighbour. Layouts: `Documentation/sriov.rst`. This file is independent of what is in a
//! message.

/// Size of the mailbox between a PF and a VF in bytes.
pub const PAIR_BYTES: usize = 64;
/// Bytes of the head of a piece, and of the local id behind it if the message goes by a route.
const HEAD: usize = 4;
const LID: usize = 4;
/// Bytes of a message in a piece.
const DATA: usize = PAIR_BYTES - HEAD;
const ROUTED_DATA: usize = DATA - LID;
/// Bytes in front of a message between PFs.
pub const ENVELOPE_BYTES: usize = 8;
/// Bytes of the longest message of a VF.
pub const MAX_BYTES: usize = super::wire::MAX_BYTES - ENVELOPE_BYTES;
/// Version of the messages between PFs and VFs.
pub const VERSION: u8 = 1;

/// First four bytes of an envelope: "WFVF". No other message begins with them.
const MAGIC: [u8; 4] = *b"WFVF";

const HELLO: u8 = 1;
const QUOTA: u8 = 2;
const PIECE: u8 = 3;
const USERS: u8 = 4;
const ASK: u8 = 5;
const LEFT: u8 = 6;
const ROUTED: u8 = 7;
const SEEK: u8 = 8;
const WAY: u8 = 9;

/// Position of a function's number in its hardware id.
const NUMBER_SHIFT: u32 = 58;
/// Functions of a port.
const FUNCTIONS: u64 = 34;

/// Flag in the index of a piece: it is the last one.
const LAST: u8 = 0x80;

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The length is wrong.
    Length,
    /// The kind or version is unknown.
    Kind,
    /// A member has an invalid value.
    Value,
    /// A piece before this one is missing.
    Gap,
}

/// The resources that a PF grants a VF, as far as the VF has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Links that the VF may use, one bit each.
    pub links: u32,
    /// Bytes of memory that all neighbours together may reach.
    pub bytes: u64,
}

/// Where a message of a VF goes to, or comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// The neighbour on this link.
    Link(u8),
    /// The port with this local id, by a route.
    Lid(u32),
}

/// The way to a function of another host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// Local id of its port; 0: no way is known.
    pub lid: u32,
    /// Number of the function there.
    pub function: u8,
    /// The number of links on the way.
    pub hops: u8,
    /// Speed and width of the slowest of them, 0 if unknown.
    pub speed: u8,
    /// See `speed`.
    pub width: u8,
}

/// Returns the own hardware id of function `number` of the port whose first function has the id `port`.
pub const fn own_hwid(port: u64, number: u8) -> u64 {
    port ^ ((number as u64) << NUMBER_SHIFT)
}

/// Returns the number of the function that has `hwid` for its own id, if it is one of the port whose first function
/// has the id `port`.
pub fn number_of(port: u64, hwid: u64) -> Option<u8> {
    let differs = port ^ hwid;
    let number = differs >> NUMBER_SHIFT;
    let is_one = number < FUNCTIONS && differs == number << NUMBER_SHIFT;
    is_one.then_some(number as u8)
}

/// Returns whether two functions, by their own ids, are of the same port.
pub const fn is_same_port(one: u64, other: u64) -> bool {
    (one ^ other) & ((1 << NUMBER_SHIFT) - 1) == 0
}

numbered! {
    /// What a PF asks of the system that uses a VF, because the function is to be migrated.
    #[derive(Default)]
    pub enum Ask: u8 {
        /// Nothing; continue if anything else was asked before.
        #[default]
        GoOn = 0,
        /// Complete what is outstanding; once nothing is, begin nothing.
        Finish = 1,
        /// Begin nothing from now on; complete what is under way.
        Stop = 2,
        /// The function is going to be replaced without its users noticing: begin nothing, and make sure
        /// that nothing is under way at either end of any link.
        Still = 3,
        /// Nothing, except to report how much there is that cannot outlast the function.
        Look = 4,
    }
}

impl Ask {
    /// Returns whether users are to be told, so that they finish and begin nothing new.
    pub const fn concerns_users(self) -> bool {
        matches!(self, Self::Finish | Self::Stop)
    }
}

/// A request of the PF, with a number that distinguishes it from former ones: an answer may be late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// The request.
    pub ask: Ask,
    /// Its number.
    pub number: u8,
}

impl Asked {
    /// Packs both into a word, for [`Asked::of`].
    pub const fn word(self) -> u32 {
        self.ask as u32 | ((self.number as u32) << 8)
    }

    /// Unpacks such a word. An unknown request becomes [`Ask::GoOn`].
    pub fn of(word: u32) -> Self {
        let [ask, number, ..] = word.to_le_bytes();
        Self {
            ask: Ask::of(ask).unwrap_or_default(),
            number,
        }
    }
}

/// A message in the mailbox between a PF and a VF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note<'a> {
    /// VF to PF: the driver is there, and asks for its quota.
    Hello,
    /// PF to VF: the quota from now on.
    Quota(Quota),
    /// Either way: part of a message, by a link or a route, for [`Assembler`].
    Piece(&'a [u8]),
    /// VF to PF: whether the VF has users, from now on. Before the first one it has none.
    Users(bool),
    /// PF to VF: the request from now on. Before the first one there is none.
    Ask(Asked),
    /// VF to PF: how much is outstanding, in answer to that request. With 0 nothing is, and nothing is
    /// begun before another [`Note::Ask`].
    Left(Asked, u32),
    /// VF to PF: which way leads to the function with this hardware id?
    Seek(u64),
    /// PF to VF: this way does.
    Way(u64, Way),
}

/// Bytes of a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    bytes: [u8; PAIR_BYTES],
    len: usize,
}

impl Packed {
    fn new(parts: &[&[u8]]) -> Self {
        let mut packed = Self {
            bytes: [0; PAIR_BYTES],
            len: 0,
        };
        let bytes = parts.iter().flat_map(|part| part.iter());
        for (to, from) in packed.bytes.iter_mut().zip(bytes) {
            *to = *from;
            packed.len += 1;
        }
        packed
    }

    /// Returns the bytes to be sent.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Encodes [`Note::Hello`].
    pub fn hello() -> Self {
        Self::new(&[&[HELLO, VERSION, 0, 0]])
    }

    /// Encodes [`Note::Quota`].
    pub fn quota(quota: &Quota) -> Self {
        Self::new(&[
            &[QUOTA, VERSION, 0, 0],
            &quota.links.to_le_bytes(),
            &quota.bytes.to_le_bytes(),
        ])
    }

    /// Encodes [`Note::Users`].
    pub fn users(any: bool) -> Self {
        Self::new(&[&[USERS, VERSION, any.into(), 0]])
    }

    /// Encodes [`Note::Ask`].
    pub fn ask(asked: Asked) -> Self {
        Self::new(&[&[ASK, VERSION, asked.ask as u8, asked.number]])
    }

    /// Encodes [`Note::Left`].
    pub fn left(asked: Asked, left: u32) -> Self {
        let head = [LEFT, VERSION, asked.ask as u8, asked.number];
        Self::new(&[&head, &left.to_le_bytes()])
    }

    /// Encodes [`Note::Seek`].
    pub fn seek(hwid: u64) -> Self {
        Self::new(&[&[SEEK, VERSION, 0, 0], &hwid.to_le_bytes()])
    }

    /// Encodes [`Note::Way`].
    pub fn way(hwid: u64, way: &Way) -> Self {
        Self::new(&[
            &[WAY, VERSION, way.function, way.hops],
            &hwid.to_le_bytes(),
            &way.lid.to_le_bytes(),
            &[way.speed, way.width, 0, 0],
        ])
    }

    /// Encodes piece number `index` of `message`, sent or received by `via`; `number` counts messages.
    /// Returns `None` if there are no more pieces, or `message` is empty or longer than [`MAX_BYTES`].
    pub fn piece(message: &[u8], via: Via, number: u8, index: usize) -> Option<Self> {
        if message.is_empty() || message.len() > MAX_BYTES {
            return None;
        }
        let each = match via {
            Via::Link(_) => DATA,
            Via::Lid(_) => ROUTED_DATA,
        };
        let data = message.chunks(each).nth(index)?;
        let last = if (index + 1) * each >= message.len() {
            LAST
        } else {
            0
        };
        // There are five pieces at most.
        let index = index as u8 | last;
        Some(match via {
            Via::Link(link) => Self::new(&[&[PIECE, link, number, index], data]),
            Via::Lid(lid) => Self::new(&[&[ROUTED, 0, number, index], &lid.to_le_bytes(), data]),
        })
    }
}

impl<'a> Note<'a> {
    /// Decodes a message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(Error::Length)?;
        match *head {
            [HELLO, VERSION, 0, 0] if rest.is_empty() => Ok(Self::Hello),
            [QUOTA, VERSION, 0, 0] => {
                let (links, rest) = rest.split_first_chunk().ok_or(Error::Length)?;
                let quota = Quota {
                    links: u32::from_le_bytes(*links),
                    bytes: u64::from_le_bytes(rest.try_into().map_err(|_| Error::Length)?),
                };
                Ok(Self::Quota(quota))
            }
            [PIECE, ..] | [ROUTED, 0, ..] => Ok(Self::Piece(bytes)),
            [USERS, VERSION, any @ (0 | 1), 0] if rest.is_empty() => Ok(Self::Users(any != 0)),
            [ASK, VERSION, ask, number] if rest.is_empty() => {
                let ask = Ask::of(ask).ok_or(Error::Value)?;
                Ok(Self::Ask(Asked { ask, number }))
            }
            [LEFT, VERSION, ask, number] => {
                let left = rest.try_into().map_err(|_| Error::Length)?;
                let ask = Ask::of(ask).ok_or(Error::Value)?;
                Ok(Self::Left(Asked { ask, number }, u32::from_le_bytes(left)))
            }
            [SEEK, VERSION, 0, 0] => {
                let hwid = rest.try_into().map_err(|_| Error::Length)?;
                Ok(Self::Seek(u64::from_le_bytes(hwid)))
            }
            [WAY, VERSION, function, hops] => {
                let (hwid, rest) = rest.split_first_chunk().ok_or(Error::Length)?;
                let (lid, rest) = rest.split_first_chunk().ok_or(Error::Length)?;
                let [speed, width, 0, 0] = *rest else {
                    return Err(Error::Length);
                };
                let way = Way {
                    lid: u32::from_le_bytes(*lid),
                    function,
                    hops,
                    speed,
                    width,
                };
                Ok(Self::Way(u64::from_le_bytes(*hwid), way))
            }
            _ => Err(Error::Kind),
        }
    }
}

/// Reassembles the messages of one sender from their pieces.
pub struct Assembler {
    via: Via,
    number: u8,
    /// Index of the piece that is expected; 0: the first one of any message.
    next: u8,
    bytes: usize,
    buf: [u8; MAX_BYTES],
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new()
    }
}

impl Assembler {
    /// Creates an assembler that waits for a message.
    pub const fn new() -> Self {
        Self {
            via: Via::Link(0),
            number: 0,
            next: 0,
            bytes: 0,
            buf: [0; MAX_BYTES],
        }
    }

    /// Drops the pieces that have come.
    pub fn clear(&mut self) {
        self.next = 0;
    }

    /// Takes a piece. Returns the message, and where it goes to or comes from, if it is now complete. A piece that
    /// does not follow the one before is dropped, and the pieces before it too.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<(Via, &[u8])>, Error> {
        let expected = core::mem::take(&mut self.next);
        let (head, data) = piece.split_first_chunk::<HEAD>().ok_or(Error::Length)?;
        let (via, data, each) = match *head {
            [PIECE, link, ..] => (Via::Link(link), data, DATA),
            [ROUTED, 0, ..] => {
                let (lid, data) = data.split_first_chunk::<LID>().ok_or(Error::Length)?;
                (Via::Lid(u32::from_le_bytes(*lid)), data, ROUTED_DATA)
            }
            _ => return Err(Error::Kind),
        };
        let [_, _, number, index] = *head;
        let (last, index) = (index & LAST != 0, index & !LAST);
        if index == 0 {
            self.via = via;
            self.number = number;
            self.bytes = 0;
        } else if index != expected || via != self.via || number != self.number {
            return Err(Error::Gap);
        }
        // All but the last are full.
        if data.is_empty() || data.len() > each || !last && data.len() != each {
            return Err(Error::Length);
        }
        let end = self.bytes + data.len();
        let to = self.buf.get_mut(self.bytes..end).ok_or(Error::Length)?;
        to.copy_from_slice(data);
        self.bytes = end;
        if !last {
            self.next = index + 1;
            return Ok(None);
        }
        let message = self.buf.get(..end).unwrap_or_default();
        Ok(Some((via, message)))
    }
}

/// Numbers of the sending function and of the receiving function of the neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The receiving function, of the neighbour.
    pub to: u8,
    /// The sending function.
    pub from: u8,
}

/// Puts `message` in an envelope and returns the total length. `None`: `message` is empty or longer than
/// [`MAX_BYTES`].
pub fn wrap(
    address: Address,
    message: &[u8],
    buf: &mut [u8; super::wire::MAX_BYTES],
) -> Option<usize> {
    if message.is_empty() || message.len() > MAX_BYTES {
        return None;
    }
    let (head, rest) = buf.split_first_chunk_mut::<ENVELOPE_BYTES>()?;
    let [a, b, c, d] = MAGIC;
    *head = [a, b, c, d, address.to, address.from, 0, 0];
    rest.get_mut(..message.len())?.copy_from_slice(message);
    Some(ENVELOPE_BYTES + message.len())
}

/// Opens an envelope. `None`: `bytes` are no envelope, but a message for the PF itself.
pub fn unwrap(bytes: &[u8]) -> Option<Result<(Address, &[u8]), Error>> {
    let (head, message) = bytes.split_first_chunk::<ENVELOPE_BYTES>()?;
    let [a, b, c, d, to, from, zero @ ..] = *head;
    if [a, b, c, d] != MAGIC {
        return None;
    }
    if zero != [0, 0] {
        return Some(Err(Error::Value));
    }
    if message.is_empty() || message.len() > MAX_BYTES {
        return Some(Err(Error::Length));
    }
    Some(Ok((Address { to, from }, message)))
}
