// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What managers say to each other, as the payload of a packet.
//!
//! [`Message::parse`] checks what can be checked without knowing who is asked. This file must not know
//! how a message travels, nor what a node makes of it.

use super::{
    bytes::{Reader, Short, Writer},
    packet::{Direction, MAX_PAYLOAD},
    port::{Port, PORTS, PORT_BYTES},
    reign::Reign,
};

/// Bytes of the routes, of the wishes, or of a hierarchy, in one message.
pub const MAX_PIECE: usize = 120;
/// Bytes in front of the ports of a page: type, number, [`Info`], and where the next page begins.
const PAGE_HEAD: usize = 5 + INFO_BYTES + 1;
/// Bytes of [`Info`].
const INFO_BYTES: usize = 40;
/// Ports that have room in one message, each with its number.
pub const PAGE_PORTS: usize = (MAX_PAYLOAD - PAGE_HEAD) / (1 + PORT_BYTES);

/// What a node says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    /// Its hardware id.
    pub hwid: u64,
    /// Which life of it this is: no two of a node are equal. A new life knows nothing of the last.
    pub life: u32,
    /// Its local id, 0 if it has none.
    pub lid: u32,
    /// The lowest local id that was never given away, as far as it knows.
    pub next_lid: u32,
    /// Whom it obeys.
    pub reign: Reign,
    /// Changes with every change of its ports.
    pub change: u32,
    /// Version of the wishes that it keeps, 0 if none.
    pub wishes: u32,
}

/// The ports of a node, as many as one message carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Those at which somebody is; the others are down, or in another page.
    pub ports: [Port; PORTS],
    /// The number of the first port that had no room, 0 if all had.
    pub next: u8,
}

/// What every write of a master starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Write {
    /// By whose right.
    pub reign: Reign,
    /// Rises with each set of tables of that reign.
    pub version: u32,
    /// Whom it is for: a path may lead to somebody else by now.
    pub to: u64,
    /// And in which life.
    pub life: u32,
}

/// How a write was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is done.
    Yes = 0,
    /// Not by this master: somebody else reigns, or has to.
    Stale = 1,
    /// There is no room for it.
    NoRoom = 2,
    /// It does not follow from what was written before.
    Order = 3,
    /// It will be done: the node has to let go of something first.
    Later = 4,
    /// It makes no sense.
    Bad = 5,
}

/// How staged routes differ from those in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Differ {
    /// Bit n: those that are n + 1 links long do.
    pub hops: u32,
    /// One in use leaves by another port.
    pub moves: bool,
}

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
    /// Part of what the administrator wishes.
    Wishes {
        /// By whom, for whom.
        write: Write,
        /// Which wishes.
        piece: Piece<'a>,
    },
    /// Answers a write.
    Ack {
        /// Who answers.
        from: u64,
        /// How it was taken.
        taken: Taken,
        /// Whom the sender obeys.
        reign: Reign,
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
    /// What does the administrator wish? From here on.
    WishesRequest {
        /// Byte that the answer starts with.
        offset: u16,
    },
    /// The answer.
    WishesReply(Piece<'a>),
    /// Part of the reader's own hierarchy.
    Hierarchy {
        /// By whom, for whom.
        write: Write,
        /// Which part.
        piece: Piece<'a>,
    },
}

/// Part of the wishes, or of a hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Another one for other contents; that of the wishes rises.
    pub version: u32,
    /// Bytes of it all.
    pub total: u16,
    /// Where in it this part begins.
    pub offset: u16,
    /// The part.
    pub bytes: &'a [u8],
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

impl Page {
    /// The ports from number `first` on, as many as a message has room for.
    pub fn of(ports: &[Port; PORTS], first: u8) -> Self {
        let mut page = Self {
            ports: [Port::NONE; PORTS],
            next: 0,
        };
        let places = page.ports.iter_mut().zip(ports).zip(0u8..);
        let listed = places.filter(|((_, port), n)| *n >= first && port.is_up());
        for (count, ((place, port), number)) in listed.enumerate() {
            if count == PAGE_PORTS {
                page.next = number;
                break;
            }
            *place = *port;
        }
        page
    }

    fn put(&self, w: &mut Writer<'_>) {
        w.u8(self.next);
        for (port, number) in self.ports.iter().zip(0u8..) {
            if port.is_up() {
                w.u8(number);
                port.put(w);
            }
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        let mut page = Self {
            ports: [Port::NONE; PORTS],
            next: r.u8()?,
        };
        let mut free = 0;
        while !r.rest().is_empty() {
            let number = r.u8()?;
            check(number >= free)?;
            let place = page.ports.get_mut(usize::from(number));
            *place.ok_or(Error::Value)? = Port::get(r)?;
            free = number + 1;
        }
        check(page.next == 0 || (page.next >= free && usize::from(page.next) < PORTS))?;
        Ok(page)
    }
}

impl Info {
    fn put(&self, w: &mut Writer<'_>) {
        w.u64(self.hwid);
        w.u32(self.life);
        w.u32(self.lid);
        w.u32(self.next_lid);
        self.reign.put(w);
        w.u32(self.change);
        w.u32(self.wishes);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        let info = Self {
            hwid: r.u64()?,
            life: r.u32()?,
            lid: r.u32()?,
            next_lid: r.u32()?,
            reign: Reign::get(r)?,
            change: r.u32()?,
            wishes: r.u32()?,
        };
        check(info.hwid != 0)?;
        Ok(info)
    }
}

impl Write {
    fn put(&self, w: &mut Writer<'_>) {
        self.reign.put(w);
        w.u32(self.version);
        w.u64(self.to);
        w.u32(self.life);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        let write = Self {
            reign: Reign::get(r)?,
            version: r.u32()?,
            to: r.u64()?,
            life: r.u32()?,
        };
        check(write.reign.term != 0 && write.reign.master != 0)?;
        Ok(write)
    }
}

impl<'a> Piece<'a> {
    /// The part of `bytes`, which are of that version, that begins at `offset`.
    pub fn of(version: u32, bytes: &'a [u8], offset: u16) -> Self {
        let rest = bytes.get(usize::from(offset)..).unwrap_or_default();
        Self {
            version,
            total: bytes.len() as u16,
            offset: if rest.is_empty() { 0 } else { offset },
            bytes: rest.get(..MAX_PIECE).unwrap_or(rest),
        }
    }

    fn put(&self, w: &mut Writer<'_>) {
        w.u32(self.version);
        w.u16(self.total);
        w.u16(self.offset);
        w.put(self.bytes);
    }

    fn get(r: &mut Reader<'a>) -> Result<Self, Error> {
        let (version, total, offset) = (r.u32()?, r.u16()?, r.u16()?);
        let bytes = r.rest();
        *r = Reader::new(&[]);
        check(usize::from(offset) + bytes.len() <= usize::from(total))?;
        Ok(Self {
            version,
            total,
            offset,
            bytes,
        })
    }
}

impl<'a> Message<'a> {
    fn kind(&self) -> u8 {
        match self {
            Self::PortsRequest { .. } => 1,
            Self::PortsReply { .. } => 2,
            Self::Assign { .. } => 3,
            Self::Stage { .. } => 4,
            Self::Commit { .. } => 5,
            Self::Wishes { .. } => 6,
            Self::Ack { .. } => 7,
            Self::Poll { .. } => 8,
            Self::PollAck { .. } => 9,
            Self::WishesRequest { .. } => 10,
            Self::WishesReply(_) => 11,
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
            | Self::Wishes { .. }
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
            Self::Wishes { write, piece } | Self::Hierarchy { write, piece } => {
                write.put(&mut w);
                piece.put(&mut w);
            }
            Self::Ack {
                from,
                taken,
                reign,
                differ,
            } => {
                w.u64(*from);
                w.u8(*taken as u8);
                reign.put(&mut w);
                w.u32(differ.hops);
                w.u8(u8::from(differ.moves));
            }
            Self::Poll { info, changed } => {
                w.u8(u8::from(*changed));
                info.put(&mut w);
            }
            Self::PollAck { from, master } => {
                w.u64(*from);
                w.u64(*master);
            }
            Self::WishesRequest { offset } => w.u16(*offset),
            Self::WishesReply(piece) => piece.put(&mut w),
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
            6 => Self::Wishes {
                write: Write::get(&mut r)?,
                piece: Piece::get(&mut r)?,
            },
            7 => Self::Ack {
                from: r.u64()?,
                taken: match r.u8()? {
                    0 => Taken::Yes,
                    1 => Taken::Stale,
                    2 => Taken::NoRoom,
                    3 => Taken::Order,
                    4 => Taken::Later,
                    5 => Taken::Bad,
                    _ => return Err(Error::Value),
                },
                reign: Reign::get(&mut r)?,
                differ: Differ {
                    hops: r.u32()?,
                    moves: truth(&mut r)?,
                },
            },
            8 => Self::Poll {
                changed: truth(&mut r)?,
                info: Info::get(&mut r)?,
            },
            9 => Self::PollAck {
                from: r.u64()?,
                master: r.u64()?,
            },
            10 => Self::WishesRequest { offset: r.u16()? },
            11 => Self::WishesReply(Piece::get(&mut r)?),
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
