// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Part of what takes more than one message: the assignments, or a hierarchy.
//!
//! It must not know what the bytes mean.

use super::super::bytes::{Reader, Writer};
use super::{check, Error};

/// Bytes of the routes, of the assignments, or of a hierarchy, in one message.
pub const MAX_PIECE: usize = 120;

/// Part of the assignments, or of a hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// Another one for other contents; that of the assignments rises.
    pub version: u32,
    /// Bytes of it all.
    pub total: u16,
    /// Where in it this part begins.
    pub offset: u16,
    /// The part.
    pub bytes: &'a [u8],
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

    pub(super) fn put(&self, w: &mut Writer<'_>) {
        w.u32(self.version);
        w.u16(self.total);
        w.u16(self.offset);
        w.put(self.bytes);
    }

    pub(super) fn get(r: &mut Reader<'a>) -> Result<Self, Error> {
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
