// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What managers say to each other, as the payload of a packet.
//!
//! [`Message::parse`] checks what can be checked without knowing who is asked. What several messages have
//! in them is in the modules of this one, and writes and reads itself. All of this must not know how a
//! message travels, nor what a node makes of it.

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

/// A message. `xid` names a question, and is in its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nothing is allocated here, and none is kept"
)]
pub enum Message<'a> {
    /// Who are you, and who is next to you? From this port on.
    PortsRequest {
        /// The first port that is asked for.
        first: u8,
    },
    /// The answer.
    PortsReply {
        /// Who answers.
        info: Info,
        /// Who is next to it.
        page: Page,
    },
    /// Your local id.
    Assign {
        /// By whom, for whom.
        write: Write,
        /// The id, not 0.
        lid: u32,
        /// The lowest that was never given away.
        next_lid: u32,
    },
    /// Routes, to be kept but not used yet.
    Stage {
        /// By whom, for whom.
        write: Write,
        /// Which piece, from 0,
        piece: u8,
        /// of how many.
        of: u8,
        /// The piece, for [`super::table`].
        runs: &'a [u8],
    },
    /// Use the routes that are so many links long.
    Commit {
        /// By whom, for whom.
        write: Write,
        /// 1 and more.
        hops: u8,
    },
    /// Ways that are in use will lead elsewhere: come to rest. Or they do by now: go on.
    Rest {
        /// By whom, for whom.
        write: Write,
        /// Come to rest.
        on: bool,
    },
    /// Part of what the administrator assignments.
    Assignments {
        /// By whom, for whom.
        write: Write,
        /// Which assignments.
        piece: Piece<'a>,
    },
    /// Answers a write.
    Ack {
        /// Who answers.
        from: u64,
        /// How it was taken.
        taken: Taken,
        /// Whom the sender obeys.
        mastership: Mastership,
        /// After the last piece of routes.
        differ: Differ,
    },
    /// The sender's ports have changed; or it asks whether the master is there.
    Poll {
        /// Which change of ports the sender is at.
        info: Info,
        /// It speaks up because of the change, not because of the time.
        changed: bool,
    },
    /// Answers a poll.
    PollAck {
        /// Who answers.
        from: u64,
        /// Whom the sender takes for the master; 0 if it is about to find out.
        master: u64,
    },
    /// What does the administrator assignment? From here on.
    AssignmentsRequest {
        /// Byte that the answer starts with.
        offset: u16,
    },
    /// The answer.
    AssignmentsReply(Piece<'a>),
    /// Part of the reader's own hierarchy.
    Hierarchy {
        /// By whom, for whom.
        write: Write,
        /// Which part.
        piece: Piece<'a>,
    },
}

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// They end too soon.
    Short,
    /// There are too many of them.
    Long,
    /// Of an unknown type.
    Kind(u8),
    /// A member has a value that it never has.
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

    /// Whether a packet with this message may have this direction: what only a master says does not
    /// come from anybody else.
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

    /// Writes the message and says how many bytes it has.
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

    /// Reads a message and its number.
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
