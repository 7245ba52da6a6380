// SPDX-License-Identifier: GPL-2.0

//! Copies data between registered memory and the link queues: gathers what a list names, and scatters
//! to it.
//!
//! Each piece is checked against its STag, every time. This file must not know queue pairs, nor why
//! data move.

use crate::{
    hw::Piece,
    mem::{Access, Denied, Memory, Pd},
    proto::{
        qp::{NotBegun, Refused, Sink, Source},
        request::Extents,
        tpt::Rights,
        wqe::{Sgl, Tail},
    },
    sys::area::Area,
};
use kernel::prelude::*;

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

impl From<Refused> for NotBegun {
    fn from(why: Refused) -> Self {
        Self::Refused(why)
    }
}

type Done<T = ()> = core::result::Result<T, Refused>;

/// Registered memory, as seen by one protection domain.
#[derive(Clone, Copy)]
pub(super) struct Registered<'a> {
    pub(super) memory: &'a Memory,
    pub(super) pd: &'a Pd,
}

impl Registered<'_> {
    fn access(&self, stag: u32, need: Rights, to: u64, len: u64) -> Done<Access> {
        Ok(self.memory.access(self.pd, stag, need, to, len)?)
    }

    /// Returns the result of `f` for an access, which is not moved: it is large.
    #[inline]
    fn with(
        &self,
        stag: u32,
        need: Rights,
        to: u64,
        len: u64,
        f: impl FnOnce(&Access) -> Result,
    ) -> Done {
        match &self.memory.access(self.pd, stag, need, to, len) {
            Ok(access) => Ok(f(access)?),
            Err(denied) => Err((*denied).into()),
        }
    }

    /// Copies the first `out.len()` bytes of the memory that `list` names.
    pub(super) fn read(&self, list: &Sgl, out: &mut [u8]) -> Done {
        let mut done = 0;
        for piece in list.pieces(0, out.len() as u64) {
            let len = piece.length as usize;
            let part = out.get_mut(done..done + len).ok_or(Refused::Failed)?;
            let read = |access: &Access| access.read(0, part);
            self.with(piece.stag, Rights::LOCAL_READ, piece.to, len as u64, read)?;
            done += len;
        }
        Ok(())
    }

    /// Copies `len` bytes of a request's data, from `offset` on, to `at` of `area`, the window or the
    /// own arena. No fence.
    pub(super) fn put(&self, area: &Area, tail: &Tail, offset: u64, at: usize, len: usize) -> Done {
        match tail {
            Tail::Inline(..) => {
                let data = tail.inline().unwrap_or_default();
                let from = offset as usize;
                let part = data.get(from..from + len).ok_or(Refused::Failed)?;
                area.copy_out(at, part)?;
            }
            Tail::List(sgl) => {
                let mut to = at;
                for piece in sgl.pieces(offset, len as u64) {
                    let bytes = piece.length as usize;
                    let copy = |access: &Access| access.copy_out(0, area, to, bytes);
                    self.with(piece.stag, Rights::LOCAL_READ, piece.to, bytes as u64, copy)?;
                    to += bytes;
                }
            }
        }
        Ok(())
    }

    /// Fills `extents` of `area` with the first `len` bytes of `source` from `offset` on. No fence.
    pub(super) fn spread(
        &self,
        area: &Area,
        source: Source<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
    ) -> Done {
        let access = match source {
            Source::Tail(_) => None,
            Source::Tagged { stag, to } => {
                let to = to.checked_add(offset).ok_or(Refused::Denied)?;
                Some(self.access(stag, Rights::REMOTE_READ, to, len)?)
            }
        };
        let mut done = 0;
        for extent in extents.as_slice() {
            let bytes = u64::from(extent.bytes).min(len - done);
            let at = extent.at as usize;
            match (source, &access) {
                (Source::Tail(tail), _) => {
                    self.put(area, tail, offset + done, at, bytes as usize)?;
                }
                (Source::Tagged { .. }, Some(access)) => {
                    access.copy_out(done, area, at, bytes as usize)?;
                }
                (Source::Tagged { .. }, None) => return Err(Refused::Denied),
            }
            done += bytes;
        }
        Ok(())
    }

    /// Calls `f` for each access to `len` bytes of `sink` from `offset` on, with the position of the
    /// access in those bytes and its length.
    fn each_of_sink(
        &self,
        sink: Sink<'_>,
        offset: u64,
        len: u64,
        mut f: impl FnMut(&Access, usize, usize) -> Result,
    ) -> Done {
        match sink {
            Sink::List(sgl) => {
                let mut done = 0;
                for piece in sgl.pieces(offset, len) {
                    let bytes = piece.length as usize;
                    let f = |access: &Access| f(access, done, bytes);
                    self.with(piece.stag, Rights::LOCAL_WRITE, piece.to, bytes as u64, f)?;
                    done += bytes;
                }
            }
            Sink::Tagged { stag, to } => {
                if len > 0 {
                    let to = to.checked_add(offset).ok_or(Refused::Denied)?;
                    let f = |access: &Access| f(access, 0, len as usize);
                    self.with(stag, Rights::REMOTE_WRITE, to, len, f)?;
                }
            }
        }
        Ok(())
    }

    /// Copies `bytes` to the beginning of `sink`.
    pub(super) fn write(&self, sink: Sink<'_>, bytes: &[u8]) -> Done {
        self.each_of_sink(sink, 0, bytes.len() as u64, |access, at, len| {
            access.write(0, bytes.get(at..at + len).ok_or(EINVAL)?)
        })
    }

    /// Copies `len` bytes at `at` of `area` to `offset` of `sink`.
    pub(super) fn take(
        &self,
        area: &Area,
        sink: Sink<'_>,
        offset: u64,
        at: usize,
        len: u64,
    ) -> Done {
        self.each_of_sink(sink, offset, len, |access, done, bytes| {
            access.copy_in(0, area, at + done, bytes)
        })
    }

    /// Copies the bytes in `extents` of `area`, the own arena or the window, but no more than `len`,
    /// to `offset` of `sink`.
    pub(super) fn collect(
        &self,
        area: &Area,
        sink: Sink<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
    ) -> Done {
        let mut done = 0;
        for extent in extents.as_slice() {
            let bytes = u64::from(extent.bytes).min(len - done);
            self.take(area, sink, offset + done, extent.at as usize, bytes)?;
            done += bytes;
        }
        Ok(())
    }
}

/// Local memory for one transfer of a DMA channel.
pub(super) struct Load {
    pub(super) accesses: KVec<Access>,
    pub(super) pieces: KVec<Piece>,
    /// The number of pieces up to the end of each extent.
    pub(super) ends: KVec<usize>,
}

impl Load {
    /// Collects the first `len` bytes of `source` from `offset` on, as much as `extents` have room
    /// for.
    pub(super) fn new(
        registered: Registered<'_>,
        source: Source<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
    ) -> core::result::Result<Self, NotBegun> {
        let mut load = Self {
            accesses: KVec::new(),
            pieces: KVec::new(),
            ends: KVec::new(),
        };
        match source {
            Source::Tail(tail) => load.list(registered, tail, offset, extents)?,
            Source::Tagged { stag, to } => {
                let to = to.checked_add(offset).ok_or(Refused::Denied)?;
                let access = registered.access(stag, Rights::REMOTE_READ, to, len)?;
                // If there is no memory for the list of pieces, the CPU moves the data.
                load.tagged(access, extents).map_err(|_| NotBegun::Ever)?;
            }
        }
        Ok(load)
    }

    fn add(&mut self, access: &Access, at: u64, len: u64) -> Result {
        access.dma(at, len, &mut |addr, bytes| {
            Ok(self.pieces.push(Piece { addr, bytes }, GFP_KERNEL)?)
        })
    }

    fn list(
        &mut self,
        registered: Registered<'_>,
        tail: &Tail,
        offset: u64,
        extents: &Extents,
    ) -> core::result::Result<(), NotBegun> {
        let sgl = tail.list().ok_or(Refused::Failed)?;
        let mut at = offset;
        for extent in extents.as_slice() {
            let bytes = u64::from(extent.bytes);
            for piece in sgl.pieces(at, bytes) {
                let len = u64::from(piece.length);
                let access = registered.access(piece.stag, Rights::LOCAL_READ, piece.to, len)?;
                self.add(&access, 0, len).map_err(Refused::from)?;
                let pushed = self.accesses.push(access, GFP_KERNEL);
                pushed.map_err(|e| Refused::from(Error::from(e)))?;
            }
            self.end_extent().map_err(|_| NotBegun::Now)?;
            at += bytes;
        }
        Ok(())
    }

    fn tagged(&mut self, access: Access, extents: &Extents) -> Result {
        let mut at = 0;
        for extent in extents.as_slice() {
            let bytes = u64::from(extent.bytes).min(access.len() - at);
            self.add(&access, at, bytes)?;
            self.end_extent()?;
            at += bytes;
        }
        self.accesses.push(access, GFP_KERNEL)?;
        Ok(())
    }

    fn end_extent(&mut self) -> Result {
        Ok(self.ends.push(self.pieces.len(), GFP_KERNEL)?)
    }
}
