// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Work that is being done, a piece at a time, so that a long copy of one host does
//! not keep the others waiting.

use super::access::Access;
use super::host::Unreachable;
use super::wqe::{Cqe, Segment, Wqe};
use crate::wire::abi::*;
use weft_proto::crc::Crc32c;

/// The most bytes of a piece.
const PIECE: u64 = 64 * 1024;

/// Work and how far it has come.
pub struct Job {
    wqe: Wqe,
    done: u64,
    crc: Crc32c,
}

impl Job {
    /// Nothing of it is done yet.
    pub fn new(wqe: Wqe) -> Self {
        Job { wqe, done: 0, crc: Crc32c::new() }
    }

    /// Does a piece. The completion, when that was the last one.
    pub fn step(&mut self, access: &mut Access<'_>) -> Option<Cqe> {
        let total = self.wqe.bytes();
        let now = PIECE.min(total - self.done);
        if let Err(Unreachable) = self.piece(now as usize, access) {
            return Some(self.completion(WEFT_EP_UNREACHABLE));
        }
        self.done += now;
        (self.done == total).then(|| self.completion(WEFT_EP_OK))
    }

    fn piece(&mut self, len: usize, access: &mut Access<'_>) -> Result<(), Unreachable> {
        let mut data = vec![0; len];
        let mut rest = &mut data[..];
        each(&self.wqe.sources, self.done, len as u64, |local, at, len| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            rest = later;
            access.read(local, at, now)
        })?;
        if matches!(self.wqe.op, WEFT_EP_CRC32C | WEFT_EP_COPY_CRC32C) {
            self.crc.add(data.iter().copied());
        }
        if self.wqe.dests.is_empty() {
            return Ok(());
        }
        let mut rest = &data[..];
        each(&self.wqe.dests, self.done, len as u64, |local, at, len| {
            let (now, later) = rest.split_at(len);
            rest = later;
            access.write(local, at, now)
        })
    }

    fn completion(&self, status: u32) -> Cqe {
        let Wqe { cookie, op, .. } = self.wqe;
        let sum = status == WEFT_EP_OK && matches!(op, WEFT_EP_CRC32C | WEFT_EP_COPY_CRC32C);
        let crc = if sum { self.crc.value() } else { 0 };
        Cqe { cookie, status, crc, bytes: self.done }
    }
}

/// Does something with the segments behind `len` bytes from `skip` on.
fn each(
    segments: &[Segment],
    mut skip: u64,
    mut len: u64,
    mut with: impl FnMut(bool, u64, usize) -> Result<(), Unreachable>,
) -> Result<(), Unreachable> {
    for segment in segments {
        if skip >= segment.len {
            skip -= segment.len;
            continue;
        }
        let now = len.min(segment.len - skip);
        if now == 0 {
            break;
        }
        with(segment.local, segment.base + skip, now as usize)?;
        (skip, len) = (0, len - now);
    }
    Ok(())
}
