// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Whose messages a node with a key believes: those of nodes with the same key.
//!
//! It seals all that it sends, and believes a host only if its messages are sealed, too. Nodes without a
//! host have no key: theirs are believed without a seal, as they are never master. A node without a key
//! believes all, and does not look at seals.
//!
//! A *write* is obeyed once, and not after a later one. An *answer* belongs to a question of this life of the
//! node, by its nonce and the number of the question. A report of a member is later than what the member said
//! last. This file is independent of what is in a message.

use super::{
    super::{
        kind::is_host,
        member::Member,
        message::Message,
        packet::{Direction, Packet, MAX_PAYLOAD},
        path::Path,
        seal::{Origin, Receiver},
    },
    send, Effects,
};

/// How long a mismatch of keys is remembered after the last message that shows it. Hosts that look for
/// nodes that do not answer do so every 16 s at least.
pub const MISMATCH_MS: u64 = 20_000;

/// How the keys of two nodes do not match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mismatch {
    /// This node has no key, and the other one has.
    Here,
    /// The other node has no key, and this one has.
    There,
    /// They have different keys.
    Differs,
}

/// What the seal of a message shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sender {
    /// Nothing: this node has no key.
    Any,
    /// The message was sealed there, for this node.
    Sealed(Origin),
    /// It has no seal.
    Unsealed,
    /// Its seal is not valid.
    Forged,
}

impl Sender {
    /// Returns the receiver of an answer.
    pub(super) fn receiver(&self) -> Receiver {
        match self {
            Self::Sealed(origin) => origin.receiver(),
            _ => Receiver::ANY,
        }
    }

    /// Returns the origin that the seal shows; that of no node if there is none.
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::Sealed(origin) => *origin,
            _ => Origin::default(),
        }
    }
}

/// Where an answer goes.
#[derive(Clone, Copy)]
pub(super) struct Return {
    pub(super) path: Path,
    pub(super) to: Receiver,
}

impl Return {
    /// A member.
    pub(super) fn of(member: &Member) -> Self {
        Self {
            path: member.path,
            to: Receiver {
                hwid: member.info.hwid,
                nonce: member.origin.nonce,
            },
        }
    }

    /// The node at the end of a path, whichever that is.
    pub(super) fn to(path: Path) -> Self {
        Self {
            path,
            to: Receiver::ANY,
        }
    }
}

/// What a node knows of its key and of those of others.
pub(super) struct Auth {
    /// Drawn with each key; 0: there is no key.
    nonce: u64,
    /// The highest number in a seal that this node has sent or believed.
    number: u64,
    /// The number of the last write that was obeyed.
    newest: u64,
    /// All messages that were not believed.
    refused: u64,
    /// The last mismatch: how, with which node, and when.
    mismatch: Option<(Mismatch, u64, u64)>,
}

impl Auth {
    pub(super) const NONE: Self = Self {
        nonce: 0,
        number: 0,
        newest: 0,
        refused: 0,
        mismatch: None,
    };

    /// Another key is in force, with this nonce; 0: none. Numbers go on, as other nodes know them.
    pub(super) fn rekey(&mut self, nonce: u64) {
        self.nonce = nonce;
        self.mismatch = None;
    }

    /// Returns how many messages were not believed.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the mismatch that was seen last, and the hardware id that the other node gave.
    pub(super) fn mismatch(&self, now: u64) -> Option<(Mismatch, u64)> {
        let (how, hwid, when) = self.mismatch?;
        (now.saturating_sub(when) < MISMATCH_MS).then_some((how, hwid))
    }

    /// Sends a message of the node `me` to the end of a path, sealed if there is a key.
    pub(super) fn send(
        &mut self,
        me: u64,
        direction: Direction,
        to: &Return,
        xid: u32,
        message: &Message<'_>,
        fx: &mut impl Effects,
    ) {
        let mut payload = [0; MAX_PAYLOAD];
        let payload = message
            .encode(xid, &mut payload)
            .and_then(|len| payload.get(..len));
        let Some(payload) = payload else {
            return;
        };
        let Some(mut packet) = Packet::new(direction, to.path, payload) else {
            return;
        };
        if self.nonce != 0 {
            self.number = self.number.saturating_add(1);
            let origin = Origin {
                hwid: me,
                nonce: self.nonce,
                number: self.number,
            };
            let receiver = if message.is_question() {
                Receiver::ANY
            } else {
                to.to
            };
            packet.seal(fx, origin, receiver);
        }
        send(&packet, fx);
    }

    /// Returns what the seal of a packet to the node `me` shows.
    pub(super) fn open(
        &mut self,
        now: u64,
        me: u64,
        packet: &Packet,
        message: &Message<'_>,
        fx: &mut impl Effects,
    ) -> Sender {
        let Some(seal) = &packet.seal else {
            return match self.nonce {
                0 => Sender::Any,
                _ => Sender::Unsealed,
            };
        };
        if self.nonce == 0 {
            self.differs(now, Mismatch::Here, seal.origin.hwid, fx);
            return Sender::Any;
        }
        let to = if message.is_question() {
            Receiver::ANY
        } else {
            Receiver {
                hwid: me,
                nonce: self.nonce,
            }
        };
        let Some(origin) = packet.origin(fx, to) else {
            // Others may be late, from before this key.
            if message.is_question() {
                self.differs(now, Mismatch::Differs, seal.origin.hwid, fx);
            }
            return Sender::Forged;
        };
        self.number = self.number.max(origin.number);
        if self
            .mismatch
            .is_some_and(|(_, hwid, _)| hwid == origin.hwid)
        {
            self.mismatch = None;
        }
        Sender::Sealed(origin)
    }

    /// Returns whether a message is believed to be one of the node with this hardware id.
    pub(super) fn believes(
        &mut self,
        now: u64,
        sender: &Sender,
        hwid: u64,
        fx: &mut impl Effects,
    ) -> bool {
        let believed = match sender {
            Sender::Any => true,
            Sender::Sealed(origin) => origin.hwid == hwid,
            Sender::Unsealed => !is_host(hwid),
            Sender::Forged => false,
        };
        if !believed {
            self.refused = self.refused.saturating_add(1);
            if *sender == Sender::Unsealed {
                self.differs(now, Mismatch::There, hwid, fx);
            }
        }
        believed
    }

    /// Returns whether a write of this sender is one that was obeyed, or was overtaken by one.
    pub(super) fn is_late(&self, sender: &Sender) -> bool {
        matches!(sender, Sender::Sealed(origin) if origin.number <= self.newest)
    }

    /// A write of this sender is obeyed.
    pub(super) fn obeyed(&mut self, sender: &Sender) {
        self.newest = self.newest.max(sender.origin().number);
    }

    fn differs(&mut self, now: u64, how: Mismatch, hwid: u64, fx: &mut impl Effects) {
        if self.mismatch(now) != Some((how, hwid)) {
            fx.mismatched(how, hwid);
        }
        self.mismatch = Some((how, hwid, now));
    }
}
