// SPDX-License-Identifier: GPL-2.0 OR MIT

//! An entry of the translation and protection table (TPT): the memory of an STag, the access rights to
//! it, and the location of its bytes.
//!
//! The bytes are addressed in one of two ways. *Virtual* addressing: the tagged offset (TO) and the
//! entry's base in the physical address table (PAT) give an index into that table, which has the address
//! of each page. *Physical* addressing: the base is the address itself.
//!
//! The number of windows that are bound to a region changes while the rest of its entry is being read.
//! That count is therefore kept beside the entry, where the table is.

use super::stag::Stag;

/// Access rights to memory: the bits of `WEFT_ACCESS_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights(u32);

impl Rights {
    /// Reads by the owner's own queue pairs; always allowed.
    pub const LOCAL_READ: Self = Self(0);
    /// Writes by the owner's own queue pairs.
    pub const LOCAL_WRITE: Self = Self(1 << 0);
    /// Reads by peers.
    pub const REMOTE_READ: Self = Self(1 << 1);
    /// Writes by peers.
    pub const REMOTE_WRITE: Self = Self(1 << 2);
    /// Atomic operations by peers.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// Binding windows to a region.
    pub const MW_BIND: Self = Self(1 << 4);

    const REMOTE: u32 = Self::REMOTE_READ.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0;
    const REMOTE_CHANGE: u32 = Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0;

    /// Returns the rights of a region. `None`: there are unknown bits, or peers were to change what the
    /// owner may not.
    pub const fn of_region(bits: u32) -> Option<Self> {
        let known = bits & !(Self::REMOTE | Self::LOCAL_WRITE.0 | Self::MW_BIND.0) == 0;
        let owner = bits & Self::REMOTE_CHANGE == 0 || bits & Self::LOCAL_WRITE.0 != 0;
        if known && owner {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the rights of a window. `None`: there are other rights than those of peers.
    pub const fn of_window(bits: u32) -> Option<Self> {
        if bits & !Self::REMOTE == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the union of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all rights of `need` are there.
    pub const fn has(self, need: Self) -> bool {
        need.0 & !self.0 == 0
    }

    /// Returns whether there is a right of peers.
    pub const fn is_remote(self) -> bool {
        self.0 & Self::REMOTE != 0
    }

    /// Returns whether there is a right to change bytes.
    pub const fn may_write(self) -> bool {
        self.0 & (Self::REMOTE_CHANGE | Self::LOCAL_WRITE.0) != 0
    }
}

/// The protection validation bits: the uses for which an entry is valid. With none of them it is void.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validation(u32);

impl Validation {
    /// Valid for queue pairs of this end, which name it in their lists.
    pub const LOCAL: Self = Self(1 << 0);
    /// Valid for peers.
    pub const REMOTE: Self = Self(1 << 1);
    /// Windows can be bound to it.
    pub const PARENT: Self = Self(1 << 2);

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Reason why an access was denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// There is no entry, or it is void or not valid for this kind of access.
    Invalid,
    /// The key of the STag differs.
    Key,
    /// The protection domain differs.
    Pd,
    /// A right is missing.
    Rights,
    /// Not all bytes are inside.
    Bounds,
    /// An atomic operation on other than 8 aligned bytes.
    Alignment,
}

/// Location of the bytes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatBase {
    /// From this entry of the table on.
    Table(u32),
    /// At this address.
    Address(u64),
}

/// An entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Access controls.
    pub rights: Rights,
    /// Key instance.
    pub key: u8,
    /// Protection domain.
    pub pd: u64,
    /// Protection validation bits.
    pub validation: Validation,
    /// Entries of the PAT, 0 if there is none.
    pub pat_size: u32,
    /// Page size, as a power of two.
    pub page_shift: u32,
    /// First page offset: where in its page the first byte is.
    pub first_offset: u64,
    /// TO of the first byte.
    pub base: u64,
    /// Bytes.
    pub length: u64,
    /// PAT base.
    pub pat_base: PatBase,
}

/// Owner of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Key of its STag.
    pub key: u8,
    /// Protection domain.
    pub pd: u64,
    /// Access controls.
    pub rights: Rights,
}

/// Shape of the memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// TO of the first byte.
    pub base: u64,
    /// Bytes.
    pub length: u64,
}

impl Entry {
    /// Creates the entry of a regular region: `extent` begins `first_offset` bytes into the first of its
    /// pages. Returns `None` if it has no bytes, wraps, begins beyond its first page or has too many
    /// pages.
    pub const fn region(
        owner: Owner,
        extent: Extent,
        page_shift: u32,
        first_offset: u64,
    ) -> Option<Self> {
        if page_shift >= u64::BITS || first_offset >= 1 << page_shift {
            return None;
        }
        let pages = match pages(extent, page_shift, first_offset) {
            Some(pages) if pages <= u32::MAX as u64 => pages as u32,
            _ => return None,
        };
        Some(Self {
            rights: owner.rights,
            key: owner.key,
            pd: owner.pd,
            validation: Validation::LOCAL
                .with(Validation::REMOTE)
                .with(Validation::PARENT),
            pat_size: pages,
            page_shift,
            first_offset,
            base: extent.base,
            length: extent.length,
            pat_base: PatBase::Table(0),
        })
    }

    /// Creates the entry of a physical region at `address`, which peers do not reach whatever its rights
    /// are. Returns `None` if it has no bytes, or wraps.
    pub const fn physical(owner: Owner, extent: Extent, address: u64) -> Option<Self> {
        if pages(extent, 0, 0).is_none() || address.checked_add(extent.length).is_none() {
            return None;
        }
        Some(Self {
            rights: owner.rights,
            key: owner.key,
            pd: owner.pd,
            validation: Validation::LOCAL,
            pat_size: 0,
            page_shift: 0,
            first_offset: 0,
            base: extent.base,
            length: extent.length,
            pat_base: PatBase::Address(address),
        })
    }

    /// Creates the entry of a window of `owner` that is bound to `extent` of the region `self`, which
    /// the caller names by `stag`. A window has its region's TOs, and is for peers only.
    pub const fn window(&self, stag: Stag, owner: Owner, extent: Extent) -> Result<Self, Denied> {
        if !self.validation.has(Validation::PARENT) {
            return Err(Denied::Invalid);
        }
        if stag.key() != self.key {
            return Err(Denied::Key);
        }
        if owner.pd != self.pd {
            return Err(Denied::Pd);
        }
        // Peers cannot use a window to change what the region's owner may not.
        let allowed = self.rights.has(Rights::MW_BIND)
            && Rights::of_window(owner.rights.bits()).is_some()
            && Rights::of_region(self.rights.with(owner.rights).bits()).is_some();
        if !allowed {
            return Err(Denied::Rights);
        }
        let at = match self.inside(extent.base, extent.length) {
            Some(at) if extent.length != 0 => self.first_offset + at,
            _ => return Err(Denied::Bounds),
        };
        let PatBase::Table(first) = self.pat_base else {
            return Err(Denied::Invalid);
        };
        let first_offset = at & ((1 << self.page_shift) - 1);
        let Some(pages) = pages(extent, self.page_shift, first_offset) else {
            return Err(Denied::Bounds);
        };
        Ok(Self {
            rights: owner.rights,
            key: owner.key,
            pd: owner.pd,
            validation: Validation::REMOTE,
            // Both are at most the region's.
            pat_size: pages as u32,
            pat_base: PatBase::Table(first + (at >> self.page_shift) as u32),
            page_shift: self.page_shift,
            first_offset,
            base: extent.base,
            length: extent.length,
        })
    }

    /// Returns the distance of `to` from the first byte, if all `len` bytes from there are inside. With
    /// `len` 0, `to` may be anything up to the end.
    const fn inside(&self, to: u64, len: u64) -> Option<u64> {
        match to.checked_sub(self.base) {
            Some(at) if at <= self.length && len <= self.length - at => Some(at),
            _ => None,
        }
    }

    /// Checks whether a queue pair of the domain `pd` has the rights `need` by `stag`, whatever the
    /// bytes.
    pub const fn admit(&self, stag: Stag, pd: u64, need: Rights) -> Result<(), Denied> {
        let side = if need.is_remote() {
            Validation::REMOTE
        } else {
            Validation::LOCAL
        };
        if !self.validation.has(side) {
            return Err(Denied::Invalid);
        }
        if stag.key() != self.key {
            return Err(Denied::Key);
        }
        if pd != self.pd {
            return Err(Denied::Pd);
        }
        if !self.rights.has(need) {
            return Err(Denied::Rights);
        }
        Ok(())
    }

    /// Checks as [`Entry::admit`], for `len` bytes from `to`, and returns where they are.
    pub const fn check(
        &self,
        stag: Stag,
        pd: u64,
        need: Rights,
        to: u64,
        len: u64,
    ) -> Result<Span, Denied> {
        if let Err(denied) = self.admit(stag, pd, need) {
            return Err(denied);
        }
        let Some(at) = self.inside(to, len) else {
            return Err(Denied::Bounds);
        };
        let span = Span {
            base: self.pat_base,
            page_shift: self.page_shift,
            at: self.first_offset + at,
            len,
        };
        let atomic = need.bits() & Rights::REMOTE_ATOMIC.bits() != 0;
        if atomic && (len != 8 || !span.is_aligned(8)) {
            return Err(Denied::Alignment);
        }
        Ok(span)
    }

    /// Checks as [`Entry::admit`], and returns how many bytes there are from `to` to the end.
    pub const fn size_from(
        &self,
        stag: Stag,
        pd: u64,
        need: Rights,
        to: u64,
    ) -> Result<u64, Denied> {
        if let Err(denied) = self.admit(stag, pd, need) {
            return Err(denied);
        }
        match self.inside(to, 0) {
            Some(at) => Ok(self.length - at),
            None => Err(Denied::Bounds),
        }
    }
}

/// Returns how many pages `extent` touches; `None` if it has no bytes or wraps.
const fn pages(extent: Extent, page_shift: u32, first_offset: u64) -> Option<u64> {
    if extent.length == 0 || extent.base.checked_add(extent.length).is_none() {
        return None;
    }
    match first_offset.checked_add(extent.length - 1) {
        Some(last) => Some((last >> page_shift) + 1),
        None => None,
    }
}

/// Bytes of an entry that may be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    base: PatBase,
    page_shift: u32,
    /// Offset from the beginning of the first page.
    at: u64,
    len: u64,
}

/// Contiguous bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// In one page of the table.
    Page {
        /// Index of the page in the table.
        index: u32,
        /// Offset of the first byte in the page.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// At an address.
    Address {
        /// Address of the first byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

impl Piece {
    /// Returns the number of bytes.
    pub const fn bytes(&self) -> u64 {
        match self {
            Self::Page { bytes, .. } | Self::Address { bytes, .. } => *bytes,
        }
    }
}

impl Span {
    /// Returns the number of bytes.
    pub const fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns whether the first byte is at a multiple of `align`, a power of two up to a page.
    pub const fn is_aligned(&self, align: u64) -> bool {
        let at = match self.base {
            PatBase::Table(_) => self.at,
            PatBase::Address(address) => address.wrapping_add(self.at),
        };
        at & (align - 1) == 0
    }

    /// Returns the `len` bytes from `at` on; `None` if they are not all inside.
    pub const fn part(&self, at: u64, len: u64) -> Option<Self> {
        if at > self.len || len > self.len - at {
            return None;
        }
        Some(Self {
            at: self.at + at,
            len,
            ..*self
        })
    }

    /// Iterates over the bytes, page by page.
    pub const fn pieces(self) -> Pieces {
        Pieces(self)
    }
}

/// See [`Span::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces(Span);

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let span = &mut self.0;
        if span.len == 0 {
            return None;
        }
        match span.base {
            PatBase::Address(base) => {
                let bytes = core::mem::take(&mut span.len);
                Some(Piece::Address {
                    address: base + span.at,
                    bytes,
                })
            }
            PatBase::Table(first) => {
                let size = 1u64 << span.page_shift;
                let offset = span.at & (size - 1);
                let bytes = span.len.min(size - offset);
                let page = (span.at >> span.page_shift) as u32;
                span.at += bytes;
                span.len -= bytes;
                Some(Piece::Page {
                    index: first + page,
                    offset,
                    bytes,
                })
            }
        }
    }
}

/// Returns the largest page size with which a PAT can describe `runs`, as a power of two of small pages,
/// at most `most`. A run is contiguous small pages: the number of the first, and the count. Pages begin
/// where both the memory and the region allow it; the first one may begin before the region.
pub fn page_order(runs: impl IntoIterator<Item = (u64, u64)>, most: u32) -> u32 {
    let mut begin = None;
    let mut at = 0u64;
    let mut borders = 0;
    for (first, count) in runs {
        match begin {
            None => begin = Some(first),
            // A boundary of runs has to be a boundary of pages, in the memory and in the region.
            Some(begin) => borders |= first | begin.wrapping_add(at),
        }
        at = at.wrapping_add(count);
    }
    borders.trailing_zeros().min(most)
}
