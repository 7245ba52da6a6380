// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages between managers: the payload of a packet.
//!
//! [`Message::parse`] checks everything that does not depend on the receiver's state. Parts that several
//! messages share are in the submodules, each with its own encoding. This file is independent of how a
//! message is transported, and of how a node handles it.

use super::{
    bytes::{Reader, Short, Writer},
    mastership::Mastership,
    packet::{Direction, MAX_PAYLOAD},
};

mod info;
pub mod page;
mod piece;
mod write;

pub use self::{
    info::Info,
    page::Page,
    piece::{Piece, MAX_PIECE},
    write::{Differ, Taken, Write},
};

/// A message. `xid` names a question, and is repeated in its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nothing is allocated here, and none is kept"
)]
pub enum Message<'a> {
    /// Asks a node for its description and its ports, from one port on.
    PortsRequest {
        /// The first port that is asked for.
        first: u8,
    },
    /// Answers [`Message::PortsRequest`].
    PortsReply {
        /// Description of the answering node.
        info: Info,
        /// Its ports.
        page: Page,
    },
    /// Sets the receiver's local id.
    Assign {
        /// Mastership of the writer, and receiver.
        write: Write,
        /// The id, not 0.
        lid: u32,
        /// The lowest that was never given away.
        next_lid: u32,
    },
    /// Stages routes: they are kept, but not used yet.
    Stage {
        /// Mastership of the writer, and receiver.
        write: Write,
        /// Number of the piece, from 0.
        piece: u8,
        /// Number of pieces.
        of: u8,
        /// The piece, for [`super::table`].
        runs: &'a [u8],
    },
    /// Commits the staged routes of one length.
    Commit {
        /// Mastership of the writer, and receiver.
        write: Write,
        /// Length in links, at least 1.
        hops: u8,
    },
    /// Quiesces routes, because some in use are about to change; or unquiesces them.
    Rest {
        /// Mastership of the writer, and receiver.
        write: Write,
        /// Quiesce; else unquiesce.
        on: bool,
    },
    /// Part of the administrator's assignments.
    Assignments {
        /// Mastership of the writer, and receiver.
        write: Write,
        /// The part.
        piece: Piece<'a>,
    },
    /// Answers a write.
    Ack {
        /// Hardware id of the answering node.
        from: u64,
        /// Result of the write.
        taken: Taken,
        /// Mastership that the answering node obeys.
        mastership: Mastership,
        /// After the last piece of routes: how they differ from those in use.
        differ: Differ,
    },
    /// Reports that the sender's ports have changed, or asks whether the master is there.
    Poll {
        /// Description of the sender, with the number of its last change of ports.
        info: Info,
        /// It is sent because of a change, not because of the time.
        changed: bool,
    },
    /// Answers a poll.
    PollAck {
        /// Hardware id of the answering node.
        from: u64,
        /// Its master as far as it knows; 0 if it does not know yet.
        master: u64,
    },
    /// Asks for the administrator's assignments, from an offset on.
    AssignmentsRequest {
        /// Offset of the first byte of the answer.
        offset: u16,
    },
    /// Answers [`Message::AssignmentsRequest`].
    AssignmentsReply(Piece<'a>),
    /// Part of the receiver's own hierarchy.
    Hierarchy {
        /// Mastership of the writer, and receiver.
        write: Write,
        /// The part.
        piece: Piece<'a>,
    },
}

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The bytes end too soon.
    Short,
    /// There are more bytes than the message has.
    Long,
    /// The type is unknown.
    Kind(u8),
    /// A member has an invalid value.
    Value,
}

impl From<Short> for Error {
    fn from(_: Short) -> Self {
        Self::Short
    }
}

fn check(ok: bool) -> Result<(), Error> {
    ok.then_some(()).ok_or(Error::Value)
}

fn truth(r: &mut Reader<'_>) -> Result<bool, Error> {
    let byte = r.u8()?;
    check(byte <= 1)?;
    Ok(byte == 1)
}

impl<'a> Message<'a> {
    fn kind(&self) -> u8 {
        match self {
            Self::PortsRequest { .. } => 1,
            Self::PortsReply { .. } => 2,
            Self::Assign { .. } => 3,
            Self::Stage { .. } => 4,
            Self::Commit { .. } => 5,
            Self::Assignments { .. } => 6,
            Self::Ack { .. } => 7,
            Self::Poll { .. } => 8,
            Self::PollAck { .. } => 9,
            Self::AssignmentsRequest { .. } => 10,
            Self::AssignmentsReply(_) => 11,
            Self::Hierarchy { .. } => 12,
            Self::Rest { .. } => 13,
        }
    }

    /// Returns whether a packet with this message may have this direction: messages of a master come
    /// from the master only.
    pub fn fits(&self, direction: Direction) -> bool {
        match self {
            Self::Assign { .. }
            | Self::Stage { .. }
            | Self::Commit { .. }
            | Self::Rest { .. }
            | Self::Assignments { .. }
            | Self::Hierarchy { .. } => direction == Direction::FromMaster,
            Self::Ack { .. } | Self::Poll { .. } => direction == Direction::ToMaster,
            _ => true,
        }
    }

    /// Encodes the message and returns its length in bytes; `None` if it does not fit.
    pub fn encode(&self, xid: u32, buf: &mut [u8; MAX_PAYLOAD]) -> Option<usize> {
        let mut w = Writer::new(buf);
        w.u8(self.kind());
        w.u32(xid);
        match self {
            Self::PortsRequest { first } => w.u8(*first),
            Self::PortsReply { info, page } => {
                info.put(&mut w);
                page.put(&mut w);
            }
            Self::Assign {
                write,
                lid,
                next_lid,
            } => {
                write.put(&mut w);
                w.u32(*lid);
                w.u32(*next_lid);
            }
            Self::Stage {
                write,
                piece,
                of,
                runs,
            } => {
                write.put(&mut w);
                w.u8(*piece);
                w.u8(*of);
                w.put(runs);
            }
            Self::Commit { write, hops } => {
                write.put(&mut w);
                w.u8(*hops);
            }
            Self::Rest { write, on } => {
                write.put(&mut w);
                w.u8(u8::from(*on));
            }
            Self::Assignments { write, piece } | Self::Hierarchy { write, piece } => {
                write.put(&mut w);
                piece.put(&mut w);
            }
            Self::Ack {
                from,
                taken,
                mastership,
                differ,
            } => {
                w.u64(*from);
                taken.put(&mut w);
                mastership.put(&mut w);
                differ.put(&mut w);
            }
            Self::Poll { info, changed } => {
                w.u8(u8::from(*changed));
                info.put(&mut w);
            }
            Self::PollAck { from, master } => {
                w.u64(*from);
                w.u64(*master);
            }
            Self::AssignmentsRequest { offset } => w.u16(*offset),
            Self::AssignmentsReply(piece) => piece.put(&mut w),
        }
        w.finish()
    }

    /// Decodes a message. Returns its `xid` and the message.
    pub fn parse(bytes: &'a [u8]) -> Result<(u32, Self), Error> {
        let mut r = Reader::new(bytes);
        let (kind, xid) = (r.u8()?, r.u32()?);
        let message = match kind {
            1 => Self::PortsRequest { first: r.u8()? },
            2 => Self::PortsReply {
                info: Info::get(&mut r)?,
                page: Page::get(&mut r)?,
            },
            3 => {
                let (write, lid, next_lid) = (Write::get(&mut r)?, r.u32()?, r.u32()?);
                check(lid != 0 && lid < next_lid)?;
                Self::Assign {
                    write,
                    lid,
                    next_lid,
                }
            }
            4 => {
                let (write, piece, of) = (Write::get(&mut r)?, r.u8()?, r.u8()?);
                check(piece < of && of <= 32)?;
                let runs = r.rest();
                r = Reader::new(&[]);
                Self::Stage {
                    write,
                    piece,
                    of,
                    runs,
                }
            }
            5 => {
                let (write, hops) = (Write::get(&mut r)?, r.u8()?);
                check(hops != 0)?;
                Self::Commit { write, hops }
            }
            6 => Self::Assignments {
                write: Write::get(&mut r)?,
                piece: Piece::get(&mut r)?,
            },
            7 => Self::Ack {
                from: r.u64()?,
                taken: Taken::get(&mut r)?,
                mastership: Mastership::get(&mut r)?,
                differ: Differ::get(&mut r)?,
            },
            8 => Self::Poll {
                changed: truth(&mut r)?,
                info: Info::get(&mut r)?,
            },
            9 => Self::PollAck {
                from: r.u64()?,
                master: r.u64()?,
            },
            10 => Self::AssignmentsRequest { offset: r.u16()? },
            11 => Self::AssignmentsReply(Piece::get(&mut r)?),
            12 => Self::Hierarchy {
                write: Write::get(&mut r)?,
                piece: Piece::get(&mut r)?,
            },
            13 => Self::Rest {
                write: Write::get(&mut r)?,
                on: truth(&mut r)?,
            },
            other => return Err(Error::Kind(other)),
        };
        if r.rest().is_empty() {
            Ok((xid, message))
        } else {
            Err(Error::Long)
        }
    }
}
