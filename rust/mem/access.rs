// SPDX-License-Identifier: GPL-2.0

//! What an STag stands for, and an access to it that was allowed.

use super::{pool::Pool, Used, Users};
use crate::{
    proto::tpt::{Entry, Piece, Rights, Span},
    sys::{area::Area, pat::Pat, slots::Found},
};
use kernel::{pci, prelude::*, sync::Arc};

/// Where the bytes of an entry are.
#[derive(Clone)]
pub(super) enum Place {
    /// In pinned memory of a user: the table that the entry's PAT base leads into.
    User(Arc<Pat>),
    /// In the pool.
    Pool(Arc<Pool>),
}

impl Place {
    /// No device reaches it. What is in the pool has its device for ever.
    pub(super) fn unmap(&self) {
        if let Self::User(pat) = self {
            pat.unmap();
        }
    }

    /// `dev` does, which is bound.
    pub(super) fn map(&self, dev: &pci::Device) -> Result {
        match self {
            Self::User(pat) => pat.map(dev),
            Self::Pool(_) => Ok(()),
        }
    }

    /// A piece of a user's memory: the table, and which page, byte in it and how many.
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

/// How many windows are bound to a region.
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

/// A slot of the TPT.
pub(super) struct Target {
    pub(super) entry: Entry,
    pub(super) place: Place,
    /// The window reference count, of a region: it changes while the entry is read.
    pub(super) windows: Option<Arc<Windows>>,
}

/// Bytes of a region that may be accessed, and that stay where they are until this is dropped.
///
/// Whoever has one keeps a deregistration waiting, and the removal of the port: it is to be held while
/// the CPU copies, or the device's engine moves data, never while one waits for a peer or a user. Holds
/// no lock.
///
/// Offsets count from the first byte that was asked for. `EINVAL`: not all bytes are inside; `EACCES`:
/// they are to be written, and that was not asked for.
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

    /// How many bytes.
    pub(crate) fn len(&self) -> u64 {
        self.span.bytes()
    }

    /// Calls `f` for each piece of the `len` bytes at `at`, with how many bytes were before it.
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
            // At most `len`, and what comes with it lies in memory.
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

    /// Copies `len` bytes from `src_at` of an arena to `at`.
    pub(crate) fn copy_in(&self, at: u64, src: &Area, src_at: usize, len: usize) -> Result {
        self.to_write()?;
        self.pieces(at, len as u64, |done, place, piece| {
            let (pat, (index, offset, bytes)) = place.user(piece)?;
            let src_at = src_at.checked_add(done).ok_or(EINVAL)?;
            pat.copy_in(index, offset, src, src_at, bytes)
        })
    }

    /// Copies `len` bytes from `at` to `dst_at` of a window. No fence: they may leave later.
    pub(crate) fn copy_out(&self, at: u64, dst: &Area, dst_at: usize, len: usize) -> Result {
        self.pieces(at, len as u64, |done, place, piece| {
            let (pat, (index, offset, bytes)) = place.user(piece)?;
            let dst_at = dst_at.checked_add(done).ok_or(EINVAL)?;
            pat.copy_out(index, offset, dst, dst_at, bytes)
        })
    }

    /// Copies from `at` on.
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

    /// Copies to `at` and what follows.
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

    /// Adds `value` to the 8 bytes, atomically also for the users' CPUs, and returns what was there.
    pub(crate) fn fetch_add(&self, value: u64) -> Result<u64> {
        let (pat, index, offset) = self.word()?;
        pat.fetch_add(index, offset, value)
    }

    /// Stores `new` if `old` is there, likewise, and returns what was there.
    pub(crate) fn compare_swap(&self, old: u64, new: u64) -> Result<u64> {
        let (pat, index, offset) = self.word()?;
        pat.compare_swap(index, offset, old, new)
    }

    /// Where the 8 bytes of an atomic operation are: aligned, hence in one page.
    fn word(&self) -> Result<(&Pat, u32, usize)> {
        if !self.need.has(Rights::REMOTE_ATOMIC) {
            return Err(EACCES);
        }
        let piece = self.span.pieces().next().ok_or(EINVAL)?;
        let (pat, (index, offset, _)) = self.target.place.user(piece)?;
        Ok((pat, index, offset))
    }

    /// Calls `f` with the device's address of each piece of the `len` bytes at `at`, for it to read
    /// them, and their number. Pieces that are in a row for the device are one.
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
            // A page, or a piece of the pool.
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
