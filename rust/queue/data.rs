// SPDX-License-Identifier: GPL-2.0

//! Data between lists and the trunk: gathered from what a list names, and scattered to it.
//!
//! Each piece is checked against its STag, every time.

use crate::{
    mem::{Access, Denied, Memory, Pd, Rights},
    proto::{
        request::{Extents, INLINE_BYTES},
        wqe::{Sgl, Tail},
    },
    sys::area::Area,
};
use kernel::prelude::*;

/// Why data were not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// An STag does not allow it.
    Denied,
    /// The memory failed.
    Failed,
}

impl From<Denied> for Refused {
    fn from(_: Denied) -> Self {
        Self::Denied
    }
}

impl From<Error> for Refused {
    fn from(_: Error) -> Self {
        Self::Failed
    }
}

type Done<T = ()> = core::result::Result<T, Refused>;

/// Where data come from that are sent.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) memory: &'a Memory,
    pub(super) pd: &'a Pd,
    pub(super) tail: &'a Tail,
}

impl Source<'_> {
    /// Copies `out.len()` bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Done {
        match self.tail {
            Tail::Inline(..) => {
                let data = self.tail.inline().unwrap_or_default();
                let from = data.get(offset as usize..).ok_or(Refused::Failed)?;
                out.copy_from_slice(from.get(..out.len()).ok_or(Refused::Failed)?);
            }
            Tail::List(sgl) => {
                let mut done = 0;
                for piece in sgl.pieces(offset, out.len() as u64) {
                    let len = piece.length as usize;
                    let access = self.memory.access(
                        self.pd,
                        piece.stag,
                        Rights::LOCAL_READ,
                        piece.to,
                        len as u64,
                    )?;
                    let part = out.get_mut(done..done + len).ok_or(Refused::Failed)?;
                    access.read(0, part)?;
                    done += len;
                }
            }
        }
        Ok(())
    }

    /// Calls `f` with each access for `len` bytes from `offset` on, and how many of them it has.
    pub(super) fn each(
        &self,
        offset: u64,
        len: u64,
        mut f: impl FnMut(Access, u64) -> Result,
    ) -> Done {
        let sgl = self.tail.list().ok_or(Refused::Failed)?;
        for piece in sgl.pieces(offset, len) {
            let bytes = u64::from(piece.length);
            let need = Rights::LOCAL_READ;
            let access = self
                .memory
                .access(self.pd, piece.stag, need, piece.to, bytes)?;
            f(access, bytes)?;
        }
        Ok(())
    }

    /// Copies `len` bytes from `offset` on to `at` of `area`, the window or the own arena, without a
    /// fence.
    pub(super) fn put(&self, area: &Area, offset: u64, at: usize, len: usize) -> Done {
        match self.tail {
            Tail::Inline(..) => {
                let data = self.tail.inline().unwrap_or_default();
                let from = offset as usize;
                let part = data.get(from..from + len).ok_or(Refused::Failed)?;
                area.copy_out(at, part)?;
            }
            Tail::List(sgl) => {
                let mut to = at;
                for piece in sgl.pieces(offset, len as u64) {
                    let bytes = piece.length as usize;
                    let access = self.memory.access(
                        self.pd,
                        piece.stag,
                        Rights::LOCAL_READ,
                        piece.to,
                        bytes as u64,
                    )?;
                    access.copy_out(0, area, to, bytes)?;
                    to += bytes;
                }
            }
        }
        Ok(())
    }

    /// Fills `extents` of `area`, as [`Self::put`] does, with what is there from `offset` on.
    pub(super) fn spread(&self, area: &Area, mut offset: u64, extents: &Extents) -> Done {
        for extent in extents.as_slice() {
            self.put(area, offset, extent.at as usize, extent.bytes as usize)?;
            offset += u64::from(extent.bytes);
        }
        Ok(())
    }
}

/// Copies the first `len` bytes of an access to `extents` of `area`, the window or the own arena, without
/// a fence.
pub(super) fn spread(access: &Access, area: &Area, extents: &Extents, len: u64) -> Result {
    let mut at = 0;
    for extent in extents.as_slice() {
        let bytes = u64::from(extent.bytes).min(len - at);
        access.copy_out(at, area, extent.at as usize, bytes as usize)?;
        at += bytes;
    }
    Ok(())
}

/// Where data go that have come.
#[derive(Clone, Copy)]
pub(super) enum Sink<'a> {
    /// A list of this end's.
    List(&'a Sgl),
    /// Memory of this end's that the peer has named.
    Tagged { stag: u32, to: u64 },
}

impl Sink<'_> {
    /// Calls `f` with each access for `len` bytes from `offset` on, and where in those bytes it is.
    fn each(
        &self,
        memory: &Memory,
        pd: &Pd,
        offset: u64,
        len: u64,
        mut f: impl FnMut(&Access, usize, usize) -> Result,
    ) -> Done {
        match *self {
            Self::List(sgl) => {
                let mut done = 0;
                for piece in sgl.pieces(offset, len) {
                    let bytes = piece.length as usize;
                    let access = memory.access(
                        pd,
                        piece.stag,
                        Rights::LOCAL_WRITE,
                        piece.to,
                        bytes as u64,
                    )?;
                    f(&access, done, bytes)?;
                    done += bytes;
                }
            }
            Self::Tagged { stag, to } => {
                if len > 0 {
                    let to = to.checked_add(offset).ok_or(Refused::Denied)?;
                    let access = memory.access(pd, stag, Rights::REMOTE_WRITE, to, len)?;
                    f(&access, 0, len as usize)?;
                }
            }
        }
        Ok(())
    }

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&self, memory: &Memory, pd: &Pd, offset: u64, bytes: &[u8]) -> Done {
        self.each(memory, pd, offset, bytes.len() as u64, |access, at, len| {
            access.write(0, bytes.get(at..at + len).ok_or(EINVAL)?)
        })
    }

    /// Copies `len` bytes at `at` of `area` to `offset`.
    pub(super) fn take(
        &self,
        area: &Area,
        memory: &Memory,
        pd: &Pd,
        offset: u64,
        at: usize,
        len: u64,
    ) -> Done {
        self.each(memory, pd, offset, len, |access, done, bytes| {
            access.copy_in(0, area, at + done, bytes)
        })
    }

    /// Copies what lies in `extents` of `area`, the own arena or the window, but no more than `len`
    /// bytes, to `offset`.
    pub(super) fn collect(
        &self,
        area: &Area,
        memory: &Memory,
        pd: &Pd,
        offset: u64,
        extents: &Extents,
        len: u64,
    ) -> Done {
        let mut done = 0;
        for extent in extents.as_slice() {
            let bytes = u64::from(extent.bytes).min(len - done);
            self.take(area, memory, pd, offset + done, extent.at as usize, bytes)?;
            done += bytes;
        }
        Ok(())
    }
}

/// The most that travels in a cell.
pub(super) const INLINE: u64 = INLINE_BYTES as u64;
