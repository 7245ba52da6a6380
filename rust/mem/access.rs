// SPDX-License-Identifier: GPL-2.0

//! The memory that an STag stands for, and an access to it that was allowed.

use super::{pool::Pool, Used, Users};
use crate::{
    proto::tpt::{Entry, Piece, Rights, Span},
    sys::{area::Area, pat::Pat, slots::Found},
};
use kernel::{device::Device, prelude::*, sync::Arc};

/// Where the bytes of an entry are.
#[derive(Clone)]
pub(super) enum Place {
    /// In pinned memory of a user: the table that the entry's PAT base points into.
    User(Arc<Pat>),
    /// In the pool.
    Pool(Arc<Pool>),
}

impl Place {
    /// Unmaps the memory from the device. The pool stays mapped for its whole life.
    pub(super) fn unmap(&self) {
        if let Self::User(pat) = self {
            pat.unmap();
        }
    }

    /// Maps the memory for `dev`, which is bound.
    pub(super) fn map(&self, dev: &Device) -> Result {
        match self {
            Self::User(pat) => pat.map(dev),
            Self::Pool(_) => Ok(()),
        }
    }

    /// Resolves a piece of a user's memory: the table, and the page, the offset in it and the length.
    fn user(&self, piece: Piece) -> Result<(&Pat, (u32, usize, usize))> {
        match (self, piece) {
            (
                Self::User(pat),
                Piece::Page {
                    index,
                    offset,
                    bytes,
                },
            ) => Ok((pat, (index, offset as usize, bytes as usize))),
            _ => Err(EINVAL),
        }
    }
}

/// The number of windows that are bound to a region.
pub(super) struct Windows(Users);

impl Windows {
    pub(super) fn new() -> Self {
        Self(Users::new())
    }
}

impl Used for Windows {
    fn users(&self) -> &Users {
        &self.0
    }
}

/// The contents of a slot of the TPT.
pub(super) struct Target {
    pub(super) entry: Entry,
    pub(super) place: Place,
    /// For a region, the window reference count: it may change while the entry is read.
    pub(super) windows: Option<Arc<Windows>>,
}

/// Bytes of a region that may be accessed, and that stay in place until this is dropped.
///
/// An access delays deregistration and the removal of the port: hold it while the CPU copies, or the
/// device moves data, never while waiting for a peer or a user. It holds no lock.
///
/// Offsets count from the first byte that was asked for. `EINVAL`: not all bytes are inside;
/// `EACCES`: the access was obtained without the right that the function needs.
pub(crate) struct Access {
    target: Found<Target>,
    span: Span,
    need: Rights,
}

impl Access {
    pub(super) fn new(target: Found<Target>, span: Span, need: Rights) -> Self {
        Self { target, span, need }
    }

    pub(super) fn place(&self) -> &Place {
        &self.target.place
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.span.bytes()
    }

    /// Calls `f` for each piece of the `len` bytes at `at`, with the number of bytes before it.
    #[inline]
    fn pieces(
        &self,
        at: u64,
        len: u64,
        mut f: impl FnMut(usize, &Place, Piece) -> Result,
    ) -> Result {
        let span = self.span.part(at, len).ok_or(EINVAL)?;
        let mut done = 0;
        for piece in span.pieces() {
            f(done, &self.target.place, piece)?;
            // At most `len`, which is the size of something in memory.
            done += piece.bytes() as usize;
        }
        Ok(())
    }

    fn to_write(&self) -> Result {
        if self.need.may_write() {
            Ok(())
        } else {
            Err(EACCES)
        }
    }

    /// Copies `len` bytes from `src_at` of `src`, an arena or a window, to `at`.
    pub(crate) fn copy_in(&self, at: u64, src: &Area, src_at: usize, len: usize) -> Result {
        self.to_write()?;
        self.pieces(at, len as u64, |done, place, piece| {
            let (pat, (index, offset, bytes)) = place.user(piece)?;
            let src_at = src_at.checked_add(done).ok_or(EINVAL)?;
            pat.copy_in(index, offset, src, src_at, bytes)
        })
    }

    /// Copies `len` bytes from `at` to `dst_at` of `dst`, a window or an arena. No fence: they may
    /// leave later.
    pub(crate) fn copy_out(&self, at: u64, dst: &Area, dst_at: usize, len: usize) -> Result {
        self.pieces(at, len as u64, |done, place, piece| {
            let (pat, (index, offset, bytes)) = place.user(piece)?;
            let dst_at = dst_at.checked_add(done).ok_or(EINVAL)?;
            pat.copy_out(index, offset, dst, dst_at, bytes)
        })
    }

    /// Copies bytes from `at` on to `to`.
    pub(crate) fn read(&self, at: u64, to: &mut [u8]) -> Result {
        self.pieces(at, to.len() as u64, |done, place, piece| {
            let end = done.checked_add(piece.bytes() as usize).ok_or(EINVAL)?;
            let to = to.get_mut(done..end).ok_or(EINVAL)?;
            match (place, piece) {
                (Place::Pool(pool), Piece::Address { address, .. }) => pool.read(address, to),
                _ => {
                    let (pat, (index, offset, _)) = place.user(piece)?;
                    pat.read(index, offset, to)
                }
            }
        })
    }

    /// Copies `from` to the bytes from `at` on.
    pub(crate) fn write(&self, at: u64, from: &[u8]) -> Result {
        self.to_write()?;
        self.pieces(at, from.len() as u64, |done, place, piece| {
            let end = done.checked_add(piece.bytes() as usize).ok_or(EINVAL)?;
            let from = from.get(done..end).ok_or(EINVAL)?;
            match (place, piece) {
                (Place::Pool(pool), Piece::Address { address, .. }) => pool.write(address, from),
                _ => {
                    let (pat, (index, offset, _)) = place.user(piece)?;
                    pat.write(index, offset, from)
                }
            }
        })
    }

    /// Adds `value` to the first 8 bytes, atomically also for the users' CPUs, and returns the old
    /// value.
    pub(crate) fn fetch_add(&self, value: u64) -> Result<u64> {
        let (pat, index, offset) = self.word()?;
        pat.fetch_add(index, offset, value)
    }

    /// Stores `new` to the first 8 bytes if they are `old`, atomically as above, and returns the old
    /// value.
    pub(crate) fn compare_swap(&self, old: u64, new: u64) -> Result<u64> {
        let (pat, index, offset) = self.word()?;
        pat.compare_swap(index, offset, old, new)
    }

    /// Resolves the 8 bytes of an atomic operation: they are aligned, hence in one page.
    fn word(&self) -> Result<(&Pat, u32, usize)> {
        if !self.need.has(Rights::REMOTE_ATOMIC) {
            return Err(EACCES);
        }
        let piece = self.span.pieces().next().ok_or(EINVAL)?;
        let (pat, (index, offset, _)) = self.target.place.user(piece)?;
        Ok((pat, index, offset))
    }

    /// Calls `f` with the device's address and the length of each piece of the `len` bytes at `at`,
    /// for the device to read. Pieces that are contiguous for the device are joined.
    pub(crate) fn dma(&self, at: u64, len: u64, f: &mut dyn FnMut(u64, u32) -> Result) -> Result {
        let mut run: Option<(u64, u32)> = None;
        self.pieces(at, len, |_, place, piece| {
            let bytes = piece.bytes();
            let address = match (place, piece) {
                (Place::Pool(_), Piece::Address { address, .. }) => address,
                _ => {
                    let (pat, (index, offset, bytes)) = place.user(piece)?;
                    pat.dma(index, offset, bytes)?
                }
            };
            // At most a page, or a command of the pool.
            let bytes = u32::try_from(bytes).map_err(|_| EINVAL)?;
            let joined = run.and_then(|(first, before)| {
                let all = before.checked_add(bytes)?;
                (first.wrapping_add(before.into()) == address).then_some((first, all))
            });
            if joined.is_some() {
                run = joined;
                return Ok(());
            }
            match run.replace((address, bytes)) {
                Some((address, bytes)) => f(address, bytes),
                None => Ok(()),
            }
        })?;
        run.map_or(Ok(()), |(address, bytes)| f(address, bytes))
    }
}
