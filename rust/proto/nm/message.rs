// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages between managers: the payload of a packet.
//!
//! [`Message::parse`] checks everything that does not depend on the receiver's state. Parts that several
//! messages share are in the submodules, each with its own encoding. This file is independent of how a
//! message is transported, and of how a node handles it.

use super::{
    super::bytes::{check, Malformed, Member, Reader, Writer},
    mastership::Mastership,
    packet::{Direction, MAX_PAYLOAD},
};

mod info;
pub mod listing;
pub mod page;
mod piece;
mod write;

pub use self::{
    info::Info,
    listing::{Listed, Listing},
    page::Page,
    piece::{Piece, MAX_PIECE},
    write::{Differ, Moves, Taken, Write},
};

/// Declares the messages: number, name, and members in the order in which they are encoded.
macro_rules! messages {
    (
        $(#[$meta:meta])*
        pub enum $name:ident<$life:lifetime> {
            $(
                $(#[$doc:meta])*
                $kind:literal $message:ident {
                    $($(#[$about:meta])* $member:ident: $type:ty,)*
                } $(if $ok:expr)?,
            )*
        }
    ) => {
        $(#[$meta])*
        pub enum $name<$life> {
            $($(#[$doc])* $message { $($(#[$about])* $member: $type,)* },)*
        }

        impl<$life> $name<$life> {
            /// Encodes the message and returns its length in bytes; `None` if it does not fit.
            pub fn encode(&self, xid: u32, buf: &mut [u8; MAX_PAYLOAD]) -> Option<usize> {
                let mut w = Writer::new(buf);
                match self {
                    $(Self::$message { $($member),* } => {
                        w.u8($kind);
                        w.u32(xid);
                        $($member.put(&mut w);)*
                    })*
                }
                w.finish()
            }

            /// Decodes a message. Returns its `xid` and the message.
            pub fn parse(bytes: &$life [u8]) -> Result<(u32, Self), Error> {
                let mut r = Reader::new(bytes);
                let (kind, xid) = (r.u8()?, r.u32()?);
                let message = match kind {
                    $($kind => {
                        $(let $member = Member::get(&mut r)?;)*
                        $(check($ok)?;)?
                        Self::$message { $($member),* }
                    })*
                    other => return Err(Error::Kind(other)),
                };
                if r.rest().is_empty() {
                    Ok((xid, message))
                } else {
                    Err(Error::Long)
                }
            }
        }
    };
}

messages! {
    /// A message. `xid` names a question, and is repeated in its answer.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[allow(
        clippy::large_enum_variant,
        reason = "nothing is allocated here, and none is kept"
    )]
    pub enum Message<'a> {
        /// Asks a node for its description and its ports, from one port on.
        1 PortsRequest {
            /// The first port that is asked for.
            first: u8,
        },
        /// Answers [`Message::PortsRequest`].
        2 PortsReply {
            /// Description of the answering node.
            info: Info,
            /// Its ports.
            page: Page,
        },
        /// Sets the receiver's local id.
        3 Assign {
            /// Mastership of the writer, and receiver.
            write: Write,
            /// The id, not 0.
            lid: u32,
            /// The lowest that was never given away.
            next_lid: u32,
        } if lid != 0 && lid < next_lid,
        /// Stages routes: they are kept, but not used yet.
        4 Stage {
            /// Mastership of the writer, and receiver.
            write: Write,
            /// Number of the piece, from 0.
            piece: u8,
            /// Number of pieces.
            of: u8,
            /// The piece, for [`super::table`].
            runs: &'a [u8],
        } if piece < of && of <= 32,
        /// Commits the staged routes of one length.
        5 Commit {
            /// Mastership of the writer, and receiver.
            write: Write,
            /// Length in links, at least 1.
            hops: u8,
        } if hops != 0,
        /// Part of the administrator's assignments.
        6 Assignments {
            /// Mastership of the writer, and receiver.
            write: Write,
            /// The part.
            piece: Piece<'a>,
        },
        /// Answers a write.
        7 Ack {
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
        8 Poll {
            /// It is sent because of a change, not because of the time.
            changed: bool,
            /// Description of the sender, with the number of its last change of ports.
            info: Info,
        },
        /// Answers a poll.
        9 PollAck {
            /// Hardware id of the answering node.
            from: u64,
            /// Its master as far as it knows; 0 if it does not know yet.
            master: u64,
        },
        /// Asks for the administrator's assignments, from an offset on.
        10 AssignmentsRequest {
            /// Offset of the first byte of the answer.
            offset: u16,
        },
        /// Answers [`Message::AssignmentsRequest`].
        11 AssignmentsReply {
            /// The part.
            piece: Piece<'a>,
        },
        /// Part of the receiver's own hierarchy.
        12 Hierarchy {
            /// Mastership of the writer, and receiver.
            write: Write,
            /// The part.
            piece: Piece<'a>,
        },
        /// Quiesces routes, because some in use are about to change; or unquiesces them.
        13 Rest {
            /// Mastership of the writer, and receiver.
            write: Write,
            /// Quiesce; else unquiesce.
            on: bool,
        },
        /// Asks the master for the nodes that it has found, from a place in its list on.
        14 ListRequest {
            /// The place.
            first: u16,
        },
        /// Answers [`Message::ListRequest`].
        15 ListReply {
            /// The part of the list.
            listing: Listing,
        },
        /// Asks the master for a change of the assignments.
        16 Amend {
            /// Hardware id of the host that asks.
            from: u64,
            /// Its incarnation.
            life: u32,
            /// The change, which the master's host interprets.
            change: &'a [u8],
        },
    }
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

impl From<Malformed> for Error {
    fn from(why: Malformed) -> Self {
        match why {
            Malformed::Short => Self::Short,
            Malformed::Value => Self::Value,
        }
    }
}

impl Message<'_> {
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
            Self::Ack { .. } | Self::Poll { .. } | Self::Amend { .. } => {
                direction == Direction::ToMaster
            }
            _ => true,
        }
    }

    /// Returns whether it asks the node at the end of a path, whichever that is: its seal is for any.
    pub fn is_question(&self) -> bool {
        matches!(
            self,
            Self::PortsRequest { .. }
                | Self::AssignmentsRequest { .. }
                | Self::Poll { .. }
                | Self::ListRequest { .. }
        )
    }
}
