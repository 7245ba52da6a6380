// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a physical function and its virtual functions say to each other, as bytes.
//!
//! A VF has no mailbox to neighbours. What its driver has to tell them it hands to the PF's, in pieces
//! as small as the mailbox between the two; the PF's puts it in an envelope and into its own mailbox,
//! and the PF there hands it to the VF it is for, in pieces again. Any of it may get lost, and either
//! end may be hostile: a VF can be driven by a stranger, and so can the PF of a neighbour. Layouts:
//! `Documentation/sriov.rst`. This file must not know what is in a message.

/// Bytes that the mailbox between a PF and a VF takes at once.
pub const PAIR_BYTES: usize = 64;
/// Bytes in front of each.
const HEAD: usize = 4;
/// Bytes of a message in a piece.
const DATA: usize = PAIR_BYTES - HEAD;
/// Bytes in front of a message between PFs.
pub const ENVELOPE_BYTES: usize = 8;
/// Bytes of the longest message of a VF.
pub const MAX_BYTES: usize = super::wire::MAX_BYTES - ENVELOPE_BYTES;
/// Version of what PFs and VFs say.
pub const VERSION: u8 = 1;

/// First four bytes of an envelope: "WFVF". No other message begins so.
const MAGIC: [u8; 4] = *b"WFVF";

const HELLO: u8 = 1;
const QUOTA: u8 = 2;
const PIECE: u8 = 3;
const USERS: u8 = 4;
const ASK: u8 = 5;
const LEFT: u8 = 6;

/// In the index of a piece: it is the last one.
const LAST: u8 = 0x80;

/// Why bytes are none of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Not as long as they have to be.
    Length,
    /// Of another kind, or version.
    Kind,
    /// A member has a value that it never has.
    Value,
    /// A piece before this one is missing.
    Gap,
}

/// What a PF grants a VF, as far as the VF has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// A bit a link.
    pub links: u32,
    /// Bytes of memory that all neighbours together may reach.
    pub bytes: u64,
}

/// What a PF wants of the system that has a VF: the function is to be taken away, and given back
/// elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Ask {
    /// Nothing; go on if it was something else.
    #[default]
    GoOn = 0,
    /// Complete what is outstanding, and begin nothing when nothing is.
    Finish = 1,
    /// Begin nothing from now on; complete what is under way.
    Stop = 2,
    /// The function is going to be another one, and its users are to notice nothing: begin nothing, and
    /// see to it that nothing is under way at either end of any link.
    Still = 3,
    /// Nothing, but to say how much there is that cannot outlast the function.
    Look = 4,
}

impl Ask {
    /// By its number.
    pub const fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::GoOn,
            1 => Self::Finish,
            2 => Self::Stop,
            3 => Self::Still,
            4 => Self::Look,
            _ => return None,
        })
    }

    /// Whether users are to hear of it: to finish, and begin nothing new.
    pub const fn concerns_users(self) -> bool {
        matches!(self, Self::Finish | Self::Stop)
    }
}

/// What is wanted, and a number that tells it from what was wanted before: an answer may be late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// What.
    pub ask: Ask,
    /// Which.
    pub number: u8,
}

impl Asked {
    /// Both in a word, for [`Asked::of`].
    pub const fn word(self) -> u32 {
        self.ask as u32 | ((self.number as u32) << 8)
    }

    /// Of such a word.
    pub fn of(word: u32) -> Self {
        let [ask, number, ..] = word.to_le_bytes();
        Self {
            ask: Ask::of(ask).unwrap_or_default(),
            number,
        }
    }
}

/// What goes through the mailbox between a PF and a VF.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note<'a> {
    /// VF to PF: the driver is there; what is its quota?
    Hello,
    /// PF to VF: that is, from now on.
    Quota(Quota),
    /// Either way: part of a message, for [`Assembler`].
    Piece(&'a [u8]),
    /// VF to PF: whether anybody uses it, from now on. Before the first one nobody does.
    Users(bool),
    /// PF to VF: what is wanted, from now on. Before the first one nothing is.
    Ask(Asked),
    /// VF to PF: so much is outstanding, to whom asked that. With 0 nothing is, and nothing is begun
    /// before another [`Note::Ask`].
    Left(Asked, u32),
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

    /// To be sent.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// [`Note::Hello`].
    pub fn hello() -> Self {
        Self::new(&[&[HELLO, VERSION, 0, 0]])
    }

    /// [`Note::Quota`].
    pub fn quota(quota: &Quota) -> Self {
        Self::new(&[
            &[QUOTA, VERSION, 0, 0],
            &quota.links.to_le_bytes(),
            &quota.bytes.to_le_bytes(),
        ])
    }

    /// [`Note::Users`].
    pub fn users(any: bool) -> Self {
        Self::new(&[&[USERS, VERSION, any.into(), 0]])
    }

    /// [`Note::Ask`].
    pub fn ask(asked: Asked) -> Self {
        Self::new(&[&[ASK, VERSION, asked.ask as u8, asked.number]])
    }

    /// [`Note::Left`].
    pub fn left(asked: Asked, left: u32) -> Self {
        let head = [LEFT, VERSION, asked.ask as u8, asked.number];
        Self::new(&[&head, &left.to_le_bytes()])
    }

    /// Piece number `index` of `message`, by or for `link`; `number` counts messages. `None`: there
    /// are no more, or it is none that can be sent.
    pub fn piece(message: &[u8], link: u8, number: u8, index: usize) -> Option<Self> {
        if message.is_empty() || message.len() > MAX_BYTES {
            return None;
        }
        let data = message.chunks(DATA).nth(index)?;
        let last = if (index + 1) * DATA >= message.len() {
            LAST
        } else {
            0
        };
        // Five at the most.
        let index = index as u8 | last;
        Some(Self::new(&[&[PIECE, link, number, index], data]))
    }
}

impl<'a> Note<'a> {
    /// What `bytes` say.
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
            [PIECE, ..] => Ok(Self::Piece(bytes)),
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
            _ => Err(Error::Kind),
        }
    }
}

/// Puts the pieces of one sender together again.
pub struct Assembler {
    link: u8,
    number: u8,
    /// Index of the piece that is to come; 0: the first one of any message.
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
    /// Waits for a message.
    pub const fn new() -> Self {
        Self {
            link: 0,
            number: 0,
            next: 0,
            bytes: 0,
            buf: [0; MAX_BYTES],
        }
    }

    /// Forgets what has come.
    pub fn clear(&mut self) {
        self.next = 0;
    }

    /// Takes a piece. A message that is whole with it is given back, with its link. What does not
    /// follow is dropped, and what came before with it.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<(usize, &[u8])>, Error> {
        let expected = core::mem::take(&mut self.next);
        let (head, data) = piece.split_first_chunk::<HEAD>().ok_or(Error::Length)?;
        let [PIECE, link, number, index] = *head else {
            return Err(Error::Kind);
        };
        let (last, index) = (index & LAST != 0, index & !LAST);
        if index == 0 {
            self.link = link;
            self.number = number;
            self.bytes = 0;
        } else if index != expected || link != self.link || number != self.number {
            return Err(Error::Gap);
        }
        // All but the last are full.
        if data.is_empty() || data.len() > DATA || !last && data.len() != DATA {
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
        Ok(Some((link.into(), message)))
    }
}

/// Who of an endpoint sends to whom of the neighbour, by the numbers of the functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The function there.
    pub to: u8,
    /// The function here.
    pub from: u8,
}

/// Puts `message` in an envelope; gives back how long that is. `None`: it is none that can be sent.
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

/// Opens an envelope. `None`: it is a message of another kind, for the PF itself.
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
