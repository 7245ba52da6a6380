// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Work and completion queue elements as bytes. A WQE comes from a host and is
//! checked here as far as it can be without looking at memory.

use super::memory::{long, word};
use crate::wire::abi::*;

/// Bytes of a WQE.
pub const WQE: usize = WEFT_EP_WQE_BYTES as usize;
/// Bytes of a CQE.
pub const CQE: usize = WEFT_EP_CQE_BYTES as usize;
/// log2 of the most bytes that one WQE may ask for.
pub const MAX_SHIFT: u32 = 24;

/// A range of memory that a WQE names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// In the function's own memory; else in the host's aperture space.
    pub local: bool,
    /// First byte.
    pub base: u64,
    /// Bytes, at least one.
    pub len: u64,
}

/// Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wqe {
    /// Given back with the completion.
    pub cookie: u64,
    /// `WEFT_EP_COPY` and the like.
    pub op: u32,
    /// What is read.
    pub sources: Vec<Segment>,
    /// What is written.
    pub dests: Vec<Segment>,
}

impl Wqe {
    /// Bytes that are read.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|s| s.len).sum()
    }

    /// Takes a WQE apart. `data_push`: the host moves the data, so all segments have to
    /// be in the function's memory; otherwise none. `Err` is its completion's status.
    pub fn parse(bytes: &[u8; WQE], data_push: bool) -> Result<Self, u32> {
        let at = |n: u32| u32::from(bytes[n as usize]);
        let (op, sources, dests) =
            (at(WEFT_EP_WQE_OP), at(WEFT_EP_WQE_SOURCES), at(WEFT_EP_WQE_DESTS));
        let local = at(WEFT_EP_WQE_LOCAL);
        let count = sources + dests;
        let needs = match op {
            WEFT_EP_NOP => (false, false),
            WEFT_EP_COPY | WEFT_EP_COPY_CRC32C => (true, true),
            WEFT_EP_CRC32C => (true, false),
            _ => return Err(WEFT_EP_BAD_WQE),
        };
        let spare = word(bytes, WEFT_EP_WQE_LOCAL + 1);
        if (sources > 0, dests > 0) != needs
            || count > WEFT_EP_SEGMENTS
            || spare != 0
            || local >> count != 0
        {
            return Err(WEFT_EP_BAD_WQE);
        }
        let mut segments = vec![];
        for n in 0..count {
            let from = WEFT_EP_WQE_SEGMENT + 16 * n;
            let (base, limit) = (long(bytes, from), long(bytes, from + 8));
            let local = local & (1 << n) != 0;
            if local != data_push {
                return Err(WEFT_EP_PROTOCOL);
            }
            let len = limit.checked_sub(base).ok_or(WEFT_EP_BAD_WQE)?;
            // One more, which all of the address space has not.
            let len = len.checked_add(1).ok_or(WEFT_EP_TOO_LONG)?;
            segments.push(Segment { local, base, len });
        }
        let dests = segments.split_off(sources as usize);
        let sum = |all: &[Segment]| all.iter().fold(0u64, |n, s| n.saturating_add(s.len));
        let bytes_read = sum(&segments);
        if bytes_read > 1 << MAX_SHIFT || (needs.1 && sum(&dests) < bytes_read) {
            return Err(WEFT_EP_TOO_LONG);
        }
        let cookie = long(bytes, WEFT_EP_WQE_COOKIE);
        Ok(Wqe { cookie, op, sources: segments, dests })
    }
}

/// What became of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cqe {
    /// Of the WQE.
    pub cookie: u64,
    /// `WEFT_EP_OK` and the like.
    pub status: u32,
    /// Of what was read, if that was asked for.
    pub crc: u32,
    /// Done.
    pub bytes: u64,
}

impl Cqe {
    /// All but its number, which has to be written after the rest.
    pub fn encode(&self) -> [u8; CQE] {
        let mut bytes = [0; CQE];
        let mut put = |at: u32, field: &[u8]| {
            bytes[at as usize..][..field.len()].copy_from_slice(field);
        };
        put(WEFT_EP_CQE_COOKIE, &self.cookie.to_le_bytes());
        put(WEFT_EP_CQE_STATUS, &self.status.to_le_bytes());
        put(WEFT_EP_CQE_CRC, &self.crc.to_le_bytes());
        put(WEFT_EP_CQE_BYTES_DONE, &self.bytes.to_le_bytes());
        bytes
    }
}
