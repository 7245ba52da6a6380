// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Work queue elements, which a host posts, and completion queue elements, which the endpoint writes.

/// Bytes of a work queue element.
pub const WQE_BYTES: usize = 128;
/// Bytes of a completion queue element.
pub const CQE_BYTES: usize = 32;
/// Offset of its number, which is written last.
pub const CQE_NUMBER: usize = 0x18;
/// Most segments of a WQE, sources and destinations together.
pub const SEGMENTS: usize = 7;
/// Most bytes that a WQE reads.
pub const MAX_BYTES: u64 = 1 << 24;

/// Offset of the segments.
const SEGMENT: usize = 0x10;
const COOKIE: usize = 0x08;

numbered! {
    /// An operation.
    pub enum Op: u32 {
        /// Does nothing.
        Nop = 0,
        /// Copies the sources to the destinations.
        Copy = 1,
        /// Reports the checksum of the sources.
        Crc32c = 2,
        /// Does both.
        CopyCrc32c = 3,
    }
}

impl Op {
    /// Returns whether the operation has sources, and whether it has destinations.
    fn needs(self) -> (bool, bool) {
        match self {
            Self::Nop => (false, false),
            Self::Crc32c => (true, false),
            Self::Copy | Self::CopyCrc32c => (true, true),
        }
    }

    /// Returns whether the operation reports a checksum.
    pub fn sums(self) -> bool {
        matches!(self, Self::Crc32c | Self::CopyCrc32c)
    }
}

/// A range of memory, in addresses of the endpoint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First byte.
    pub base: u64,
    /// Bytes, at least one.
    pub bytes: u64,
}

/// Reason why a work request is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nonsense {
    /// More segments than a WQE has room for, or none where there have to be some, or some where
    /// there are to be none.
    Segments,
    /// A segment has no bytes, or wraps.
    Length,
    /// It reads more than [`MAX_BYTES`].
    TooLong,
    /// The sources do not fit into the destinations.
    NoRoom,
}

/// A work request.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The operation.
    pub op: Op,
    /// Sources, then destinations.
    pub segments: &'a [Segment],
    /// Number of sources.
    pub sources: usize,
}

fn sum(segments: &[Segment]) -> u64 {
    segments
        .iter()
        .fold(0, |sum: u64, segment| sum.saturating_add(segment.bytes))
}

impl Work<'_> {
    /// Checks whether an endpoint would accept the request. Returns how many bytes it reads.
    pub fn check(&self) -> Result<u64, Nonsense> {
        let parts = self.segments.split_at_checked(self.sources);
        let (sources, dests) = parts.ok_or(Nonsense::Segments)?;
        let has = (!sources.is_empty(), !dests.is_empty());
        if self.segments.len() > SEGMENTS || has != self.op.needs() {
            return Err(Nonsense::Segments);
        }
        let ends = |s: &Segment| s.bytes != 0 && s.base.checked_add(s.bytes - 1).is_some();
        if !self.segments.iter().all(ends) {
            return Err(Nonsense::Length);
        }
        let bytes = sum(sources);
        if bytes > MAX_BYTES {
            return Err(Nonsense::TooLong);
        }
        if has.1 && sum(dests) < bytes {
            return Err(Nonsense::NoRoom);
        }
        Ok(bytes)
    }

    /// Encodes the request. `own`: the segments are in the function's memory. If it was not checked,
    /// segments beyond [`SEGMENTS`] are left out.
    pub fn encode(&self, cookie: u64, own: bool) -> [u8; WQE_BYTES] {
        let mut to = [0; WQE_BYTES];
        let count = self.segments.len().min(SEGMENTS);
        let sources = self.sources.min(count);
        let local = if own { (1u8 << count) - 1 } else { 0 };
        put(
            &mut to,
            0,
            &[self.op as u8, sources as u8, (count - sources) as u8, local],
        );
        put(&mut to, COOKIE, &cookie.to_le_bytes());
        for (n, segment) in self.segments.iter().take(count).enumerate() {
            let limit = segment.base.wrapping_add(segment.bytes).wrapping_sub(1);
            put(&mut to, SEGMENT + 16 * n, &segment.base.to_le_bytes());
            put(&mut to, SEGMENT + 16 * n + 8, &limit.to_le_bytes());
        }
        to
    }
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    let places = to.iter_mut().skip(at);
    places.zip(bytes).for_each(|(place, byte)| *place = *byte);
}

/// A completion as the endpoint has written it, unchecked.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cqe {
    /// Cookie of the work request.
    pub cookie: u64,
    /// Status of the work request.
    pub status: u32,
    /// Checksum of the sources.
    pub crc: u32,
    /// Bytes that were done.
    pub bytes: u64,
    /// Number of the completion, from 1 on.
    pub number: u32,
}

impl Cqe {
    /// Decodes a completion.
    pub fn parse(from: &[u8; CQE_BYTES]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 4];
            put(&mut bytes, 0, from.get(at..).unwrap_or_default());
            u32::from_le_bytes(bytes)
        };
        let long = |at: usize| u64::from(word(at)) | (u64::from(word(at + 4)) << 32);
        Self {
            cookie: long(0),
            status: word(0x08),
            crc: word(0x0c),
            bytes: long(0x10),
            number: word(CQE_NUMBER),
        }
    }
}
