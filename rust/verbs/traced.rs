// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of a link's traffic: `weft_cell` and `weft_word`.

use crate::{
    proto::{
        request::{Address, Data, Message, Role},
        word::{Says, Word},
    },
    sys::trace,
};
use kernel::device::Device;

/// Returns the bytes that are carried or announced.
fn bytes<P: AsRef<[u8]>>(data: &Data<P>) -> u64 {
    match data {
        Data::Inline(payload) => payload.as_ref().len() as u64,
        Data::Eager { len, .. } => u64::from(*len),
        Data::Long(length) => *length,
    }
}

/// The role of the receiver in the request that a message is about.
const INITIATOR: u32 = 0;
const RESPONDER: u32 = 1;
/// The message is about the queue pair.
const EITHER: u32 = 2;

fn number(role: Role) -> u32 {
    match role {
        Role::Initiator => INITIATOR,
        Role::Responder => RESPONDER,
    }
}

/// Traces a cell that queue pair `own` of this end has sent or taken; 0 for none.
#[inline]
pub(super) fn cell<P: AsRef<[u8]>>(
    dev: &Device,
    link: usize,
    sent: bool,
    own: u32,
    to: Address,
    message: &Message<P>,
) {
    if trace::traces_cells() {
        record_cell(dev, link, sent, own, to, message);
    }
}

#[cold]
fn record_cell<P: AsRef<[u8]>>(
    dev: &Device,
    link: usize,
    sent: bool,
    own: u32,
    to: Address,
    message: &Message<P>,
) {
    // The numbers are those of Documentation/queues.rst.
    let (op, role, bytes) = match message {
        Message::Send { data, .. } => {
            let op = match data {
                Data::Inline(_) => 1,
                Data::Eager { .. } => 2,
                Data::Long(_) => 5,
            };
            (op, RESPONDER, bytes(data))
        }
        Message::Write { data, .. } => {
            let op = match data {
                Data::Inline(_) => 3,
                Data::Eager { .. } => 4,
                Data::Long(_) => 6,
            };
            (op, RESPONDER, bytes(data))
        }
        Message::FetchAdd { .. } => (7, RESPONDER, 8),
        Message::CmpSwap { .. } => (8, RESPONDER, 8),
        Message::SizeIs { length } => (16, INITIATOR, *length),
        Message::Value { .. } => (17, INITIATOR, 8),
        Message::Gone(_) => (18, EITHER, 0),
        Message::Join(_) => (19, EITHER, 0),
        Message::Socket(message) => (32 + u32::from(message.encode().0), EITHER, 0),
        Message::Lend { extents, .. } => (24, INITIATOR, extents.bytes()),
        Message::Read { length, .. } => (25, RESPONDER, u64::from(*length)),
        Message::Offer { to, extents, .. } => (26, number(*to), extents.bytes()),
        Message::Size { .. } => (27, RESPONDER, 0),
    };
    trace::cell(
        dev,
        link as u32,
        sent.into(),
        own,
        to.qpn,
        to.psn.into(),
        role,
        op,
        bytes,
    );
}

/// Traces a control word that queue pair `own` has sent or taken; 0 for none.
#[inline]
pub(super) fn word(dev: &Device, link: usize, sent: bool, own: u32, word: &Word) {
    if trace::traces_words() {
        record_word(dev, link, sent, own, word);
    }
}

#[cold]
fn record_word(dev: &Device, link: usize, sent: bool, own: u32, word: &Word) {
    let (code, role, detail) = match word.says {
        Says::Ack => (1, INITIATOR, 0),
        Says::Nak(why) => (2, INITIATOR, why as u32),
        Says::NoRecv => (3, INITIATOR, 0),
        Says::Done { to, part } => (4, number(to), part.into()),
        Says::Recv => (5, INITIATOR, 0),
    };
    trace::word(
        dev,
        link as u32,
        sent.into(),
        own,
        word.qpn,
        word.psn.into(),
        role,
        code,
        detail,
    );
}
