// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A part of data that take more than one message: the assignments, or a hierarchy.
//!
//! This file does not interpret the data.

use super::super::super::bytes::{check, members, Malformed, Member, Reader, Writer};

/// Most bytes of the routes, of the assignments, or of a hierarchy, in one message.
pub const MAX_PIECE: usize = 88;

/// Part of the assignments, or of a hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Differs with the contents; that of the assignments rises.
    pub version: u32,
    /// Bytes of the whole data.
    pub total: u16,
    /// Offset of this part.
    pub offset: u16,
    /// The part.
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Returns the part of `bytes` that begins at `offset`. `version` is the version of `bytes`.
    pub fn of(version: u32, bytes: &'a [u8], offset: u16) -> Self {
        let rest = bytes.get(usize::from(offset)..).unwrap_or_default();
        Self {
            version,
            total: bytes.len() as u16,
            offset: if rest.is_empty() { 0 } else { offset },
            bytes: rest.get(..MAX_PIECE).unwrap_or(rest),
        }
    }
}

members! {
    Piece<'a> { version, total, offset, bytes }
        if |part| usize::from(part.offset) + part.bytes.len() <= usize::from(part.total);
}
