// SPDX-License-Identifier: GPL-2.0

//! What the tracepoints tell of a trunk's traffic: `weft_cell` and `weft_word`.

use crate::{
    proto::{
        request::{Address, Data, Message},
        word::{Says, Word},
    },
    sys::trace,
};
use kernel::pci;

/// Bytes that are carried or spoken of.
fn bytes(data: &Data) -> u64 {
    match data {
        Data::Inline(inline) => inline.as_bytes().len() as u64,
        Data::Eager { len, .. } => u64::from(*len),
        Data::Long(length) => *length,
    }
}

/// A cell, sent or taken.
#[inline]
pub(super) fn cell(dev: &pci::Device, link: usize, sent: bool, to: Address, message: &Message) {
    // Numbers of Documentation/queues.rst.
    let (op, bytes) = match message {
        Message::Send { data, .. } => {
            let op = match data {
                Data::Inline(_) => 1,
                Data::Eager { .. } => 2,
                Data::Long(_) => 5,
            };
            (op, bytes(data))
        }
        Message::Write { data, .. } => {
            let op = match data {
                Data::Inline(_) => 3,
                Data::Eager { .. } => 4,
                Data::Long(_) => 6,
            };
            (op, bytes(data))
        }
        Message::Size { .. } => (7, 0),
        Message::FetchAdd { .. } => (8, 8),
        Message::CmpSwap { .. } => (9, 8),
        Message::SizeIs { length } => (16, *length),
        Message::Value { .. } => (17, 8),
        Message::Gone { .. } => (18, 0),
        Message::Lend { extents, .. } => (24, extents.bytes()),
        Message::Read { length, .. } => (25, u64::from(*length)),
        Message::Offer { extents, .. } => (26, extents.bytes()),
    };
    trace::cell(
        dev,
        link as u32,
        sent.into(),
        to.qpn,
        to.psn.into(),
        op,
        bytes,
    );
}

/// A word, sent or taken.
#[inline]
pub(super) fn word(dev: &pci::Device, link: usize, sent: bool, word: &Word) {
    let (code, detail) = match word.says {
        Says::Ack => (1, 0),
        Says::Nak(why) => (2, why as u32),
        Says::NoRecv => (3, 0),
        Says::Done { part, .. } => (4, part.into()),
        Says::Recv => (5, 0),
    };
    let (qpn, psn) = (word.qpn, word.psn.into());
    trace::word(dev, link as u32, sent.into(), qpn, psn, code, detail);
}
