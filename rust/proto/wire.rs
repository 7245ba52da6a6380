// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Encoding of the messages between the drivers of two neighbours.
//!
//! A message is at most [`MAX_BYTES`] long, little endian, and travels over a mailbox that may lose,
//! repeat, reorder and corrupt it. [`Message::parse`] checks everything that does not depend on the
//! receiver's state. [`super::link`] checks whether the message fits the state of the link; the users of
//! an arena check whether offsets lie inside it. This file knows neither links nor arenas.

use super::{
    bytes::{check, members, Malformed, Member, Reader, Writer},
    cell::{Shape, PAGE_BYTES},
    crc::crc32c,
    hold::Say,
    mac::Tag,
};

const PAGE: u64 = PAGE_BYTES as u64;

/// Bytes of the longest message.
pub const MAX_BYTES: usize = 256;
/// First four bytes of every message: "WEFT".
pub const MAGIC: u32 = 0x5446_4557;
/// Version of the protocol. Messages of other versions are rejected.
pub const VERSION: u8 = 11;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 48;
/// Offset of the checksum in the header.
const CHECKSUM_AT: usize = 44;

/// No program listens for the service, or the backlog of its listener is full.
pub const REJECT_REFUSED: u32 = 1;
/// The arena has no room.
pub const REJECT_NO_ROOM: u32 = 2;
/// The request is invalid here.
pub const REJECT_INVALID: u32 = 3;
/// The connection was closed before.
pub const REJECT_CLOSED: u32 = 4;

/// The file was closed.
pub const CLOSE_USER: u32 = 1;
/// The end that asked for the channel gave up waiting.
pub const CLOSE_GAVE_UP: u32 = 2;
/// There is no such connection.
pub const CLOSE_UNKNOWN: u32 = 3;
/// The other side broke the protocol.
pub const CLOSE_PROTOCOL: u32 = 4;

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Shorter than its header, or than its header says.
    Short,
    /// Does not start with [`MAGIC`].
    Magic,
    /// The version of the protocol differs.
    Version(u8),
    /// The type is unknown.
    Type(u8),
    /// The checksum does not match.
    Checksum,
    /// The length differs from that of a message of this type.
    Length,
    /// A member has an invalid value.
    Value,
}

/// Identifies one incarnation of one end of a link. No two are equal in a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Incarnation {
    /// Hardware id of the port.
    pub hwid: u64,
    /// Generation of the port: changes with every reset.
    pub generation: u32,
    /// Number of the session: rises with every session of the link within a generation. Never 0.
    pub session: u64,
}

/// Header of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender.
    pub from: Incarnation,
    /// Generation of the receiver as far as the sender knows it, 0 if unknown.
    pub to_generation: u32,
    /// Session of the receiver as far as the sender knows it, 0 if unknown.
    pub to_session: u64,
    /// Counts the messages of the sender; for diagnosis only.
    pub sequence: u32,
}

/// The arena and the doorbells that a neighbour may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Offset of the arena in the owner's aperture space.
    pub offset: u64,
    /// Bytes of the arena.
    pub bytes: u64,
    /// Doorbell that makes the owner look at its rings.
    pub wake: u32,
    /// Doorbell that makes the owner ring the neighbour's `wake` in return.
    pub echo: u32,
}

/// Shows that a hello is one of a node with the receiver's key ([`super::proof`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// The sender has drawn it with its key.
    pub nonce: u64,
    /// Tag of the hello.
    pub tag: Tag,
}

/// Description of one end of a channel, sent when the channel is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The sender's id of the channel. Never 0.
    pub conn: u32,
    /// The sizes, the same in both directions.
    pub shape: Shape,
    /// Offset of the end's area in the sender's arena.
    pub area_offset: u64,
}

/// The part behind the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Introduces the sender. Carries the sender's offer if the header names the receiver's session.
    Hello(Option<Offer>),
    /// The sender has attached the receiver's offer.
    HelloAck,
    /// The sender is alive.
    Heartbeat,
    /// The sender's driver goes away.
    Bye,
    /// Asks for a channel.
    Connect {
        /// The asking end.
        end: End,
        /// Number of the service to connect to. Never 0.
        service: u32,
    },
    /// Makes the channel.
    Accept {
        /// The accepting end.
        end: End,
        /// The receiver's id of the channel.
        peer_conn: u32,
    },
    /// There will be no channel.
    Reject {
        /// The receiver's id of the channel.
        peer_conn: u32,
        /// `REJECT_*`.
        code: u32,
    },
    /// The sender no longer uses the channel, nor writes into the receiver's area.
    Close {
        /// The sender's id of the channel.
        conn: u32,
        /// The receiver's id, 0 if the sender does not know it.
        peer_conn: u32,
        /// `CLOSE_*`; for diagnosis only.
        reason: u32,
    },
    /// The sender does not write into the area of the channel any more.
    CloseAck {
        /// The receiver's id of the channel.
        peer_conn: u32,
    },
    /// Quiesces or unquiesces the queue pairs of the session. A driver that does not know the message
    /// does not answer it.
    Hold(Say),
    /// Whether the sender uses this link, which is a routed one: something is open on it, or a program
    /// connects.
    Use(bool),
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Sender and receiver.
    pub header: Header,
    /// Type and contents.
    pub body: Body,
    /// Of a hello, if the sender has a key.
    pub proof: Option<Proof>,
}

const HELLO: u8 = 1;
const HELLO_ACK: u8 = 2;
const HEARTBEAT: u8 = 3;
const BYE: u8 = 4;
const CONNECT: u8 = 5;
const ACCEPT: u8 = 6;
const REJECT: u8 = 7;
const CLOSE: u8 = 8;
const CLOSE_ACK: u8 = 9;
const HOLD: u8 = 10;
const HELD: u8 = 11;
const GO_ON: u8 = 12;
const USE: u8 = 13;

impl From<Malformed> for Error {
    fn from(why: Malformed) -> Self {
        match why {
            Malformed::Short => Self::Short,
            Malformed::Value => Self::Value,
        }
    }
}

fn zero(r: &mut Reader<'_>) -> Result<(), Malformed> {
    check(r.u32()? == 0)
}

fn nonzero(r: &mut Reader<'_>) -> Result<u32, Malformed> {
    let v = r.u32()?;
    check(v != 0)?;
    Ok(v)
}

/// Returns the CRC32C of the whole message `bytes`, with the checksum field taken as 0.
pub fn checksum(bytes: &[u8]) -> u32 {
    let own = CHECKSUM_AT..CHECKSUM_AT + 4;
    let members = bytes.iter().enumerate();
    crc32c(members.map(|(at, byte)| if own.contains(&at) { 0 } else { *byte }))
}

impl Offer {
    /// Encodes the absence of an offer.
    pub const NONE: Self = Self {
        offset: 0,
        bytes: 0,
        wake: 0,
        echo: 0,
    };

    fn is_valid(&self) -> bool {
        let aligned = self.offset % PAGE == 0 && self.bytes % PAGE == 0;
        aligned && self.bytes != 0 && self.offset.checked_add(self.bytes).is_some()
    }
}

members! {
    Proof { nonce, tag };
    Offer { offset, bytes, wake, echo } if |offer| *offer == Offer::NONE || offer.is_valid();
}

impl End {
    fn put(&self, w: &mut Writer<'_>) {
        w.u32(self.conn);
        w.u32(self.shape.cells());
        w.u32(self.shape.bulk());
        w.u32(0);
        w.u64(self.area_offset);
        w.u64(self.area_bytes());
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        let conn = nonzero(r)?;
        let shape = Shape::new(r.u32()?, r.u32()?).ok_or(Error::Value)?;
        zero(r)?;
        let area_offset = r.u64()?;
        check(area_offset % PAGE == 0)?;
        check(r.u64()? == shape.area_bytes() as u64)?;
        check(area_offset.checked_add(shape.area_bytes() as u64).is_some())?;
        Ok(Self {
            conn,
            shape,
            area_offset,
        })
    }

    /// Bytes of the area.
    pub const fn area_bytes(&self) -> u64 {
        self.shape.area_bytes() as u64
    }

    /// Returns whether the area is inside an arena of `bytes`.
    pub fn inside(&self, bytes: u64) -> bool {
        self.area_offset
            .checked_add(self.area_bytes())
            .is_some_and(|end| end <= bytes)
    }
}

impl Body {
    /// Returns the number of the type.
    pub fn kind(&self) -> u8 {
        match self {
            Body::Hello(_) => HELLO,
            Body::HelloAck => HELLO_ACK,
            Body::Heartbeat => HEARTBEAT,
            Body::Bye => BYE,
            Body::Connect { .. } => CONNECT,
            Body::Accept { .. } => ACCEPT,
            Body::Reject { .. } => REJECT,
            Body::Close { .. } => CLOSE,
            Body::CloseAck { .. } => CLOSE_ACK,
            Body::Hold(Say::Hold(_)) => HOLD,
            Body::Hold(Say::Held(_)) => HELD,
            Body::Hold(Say::GoOn(_)) => GO_ON,
            Body::Use(_) => USE,
        }
    }

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Body::Hello(offer) => offer.unwrap_or(Offer::NONE).put(w),
            Body::HelloAck | Body::Heartbeat | Body::Bye => {}
            Body::Use(on) => {
                w.u32(u32::from(*on));
                w.u32(0);
            }
            Body::Connect { end, service } => {
                end.put(w);
                w.u32(*service);
                w.u32(0);
            }
            Body::Accept { end, peer_conn } => {
                end.put(w);
                w.u32(*peer_conn);
                w.u32(0);
            }
            Body::Reject { peer_conn, code } => {
                w.u32(*peer_conn);
                w.u32(*code);
            }
            Body::Close {
                conn,
                peer_conn,
                reason,
            } => {
                w.u32(*conn);
                w.u32(*peer_conn);
                w.u32(*reason);
                w.u32(0);
            }
            Body::CloseAck { peer_conn } => {
                w.u32(*peer_conn);
                w.u32(0);
            }
            Body::Hold(Say::Hold(number) | Say::Held(number) | Say::GoOn(number)) => {
                w.u32(*number);
                w.u32(0);
            }
        }
    }

    fn get(kind: u8, r: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(match kind {
            HELLO => Body::Hello(Some(Offer::get(r)?).filter(|offer| *offer != Offer::NONE)),
            HELLO_ACK => Body::HelloAck,
            HEARTBEAT => Body::Heartbeat,
            BYE => Body::Bye,
            CONNECT => {
                let end = End::get(r)?;
                let service = nonzero(r)?;
                zero(r)?;
                Body::Connect { end, service }
            }
            ACCEPT => {
                let end = End::get(r)?;
                let peer_conn = nonzero(r)?;
                zero(r)?;
                Body::Accept { end, peer_conn }
            }
            REJECT => Body::Reject {
                peer_conn: nonzero(r)?,
                code: nonzero(r)?,
            },
            CLOSE => {
                let (conn, peer_conn, reason) = (nonzero(r)?, r.u32()?, r.u32()?);
                zero(r)?;
                Body::Close {
                    conn,
                    peer_conn,
                    reason,
                }
            }
            CLOSE_ACK => {
                let peer_conn = nonzero(r)?;
                zero(r)?;
                Body::CloseAck { peer_conn }
            }
            HOLD | HELD | GO_ON => {
                let number = nonzero(r)?;
                zero(r)?;
                Body::Hold(match kind {
                    HOLD => Say::Hold(number),
                    HELD => Say::Held(number),
                    _ => Say::GoOn(number),
                })
            }
            USE => {
                let on = r.u32()?;
                check(on <= 1)?;
                zero(r)?;
                Body::Use(on == 1)
            }
            other => return Err(Error::Type(other)),
        })
    }
}

impl Message {
    /// Fills memory in which no message is yet.
    pub const BLANK: Self = Self {
        header: Header {
            from: Incarnation {
                hwid: 0,
                generation: 0,
                session: 0,
            },
            to_generation: 0,
            to_session: 0,
            sequence: 0,
        },
        body: Body::Heartbeat,
        proof: None,
    };

    /// Encodes the message into `buf` and returns its length in bytes.
    pub fn encode(&self, buf: &mut [u8; MAX_BYTES]) -> usize {
        let mut body = [0; MAX_BYTES - HEADER_BYTES];
        let mut w = Writer::new(&mut body);
        self.body.put(&mut w);
        if let (Some(proof), HELLO) = (&self.proof, self.body.kind()) {
            proof.put(&mut w);
        }
        let body = w.written();

        let h = &self.header;
        let mut w = Writer::new(buf);
        w.u32(MAGIC);
        w.u8(VERSION);
        w.u8(self.body.kind());
        w.u16((HEADER_BYTES + body.len()) as u16);
        w.u64(h.from.hwid);
        w.u32(h.from.generation);
        w.u32(h.to_generation);
        w.u64(h.from.session);
        w.u64(h.to_session);
        w.u32(h.sequence);
        w.u32(0);
        w.put(body);
        // Every message fits.
        let all = HEADER_BYTES + body.len();
        let sum = checksum(buf.get(..all).unwrap_or_default());
        if let Some(at) = buf.get_mut(CHECKSUM_AT..CHECKSUM_AT + 4) {
            at.copy_from_slice(&sum.to_le_bytes());
        }
        all
    }

    /// Decodes a message. `buf` may be longer than the message: some mailboxes carry whole words only.
    pub fn parse(buf: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(buf);
        if r.u32()? != MAGIC {
            return Err(Error::Magic);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let kind = r.u8()?;
        let bytes = usize::from(r.u16()?);
        let hwid = r.u64()?;
        let generation = r.u32()?;
        let to_generation = r.u32()?;
        let session = r.u64()?;
        let to_session = r.u64()?;
        let sequence = r.u32()?;
        let sum = r.u32()?;
        let body = buf.get(HEADER_BYTES..bytes).ok_or(Error::Short)?;
        if checksum(buf.get(..bytes).unwrap_or_default()) != sum {
            return Err(Error::Checksum);
        }
        check(session != 0)?;

        let mut r = Reader::new(body);
        let body = Body::get(kind, &mut r)?;
        let is_proof = kind == HELLO && !r.rest().is_empty();
        let proof = is_proof.then(|| Proof::get(&mut r)).transpose();
        let proof = proof.map_err(|_| Error::Length)?;
        if !r.rest().is_empty() {
            return Err(Error::Length);
        }
        Ok(Self {
            header: Header {
                from: Incarnation {
                    hwid,
                    generation,
                    session,
                },
                to_generation,
                to_session,
                sequence,
            },
            body,
            proof,
        })
    }
}
