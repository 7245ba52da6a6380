// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What an endpoint does to regions of others: it writes there, reads, and changes integers.

use super::area::{Area, Outgoing, gather, length};
use super::bits::{FETCHES, REMOTE, WITH_DATA};
use super::engine::{Engine, Rings};
use super::operations::{Accessing, Operation, What};
use super::task::{Parts, Remote};
use crate::fi::*;
use std::ffi::c_int;
use weft::matching::{Access, Change, IN_RING, Memory, Operands};

impl<R: Rings> Engine<R> {
    fn note(&mut self, remote: &Remote, kind: u64, accessing: Accessing) -> u64 {
        let what = What::Remote(accessing);
        let Remote { to, context, telling, .. } = *remote;
        self.operations.insert(Operation { context, kind, telling, to: Some(to), what })
    }

    fn post(
        &mut self,
        number: u64,
        access: Option<Access<'_>>,
        remote: &Remote,
        (bits, data): (u64, u64),
    ) -> Result<(), c_int> {
        let access = access.map(|access| access.bits(REMOTE | bits | remote.key).data(data));
        let posted = access.is_some_and(|access| self.rings.access(&access));
        self.begun(number, posted, remote.inject)
    }

    /// Writes to a region, and tells its program of `data`, if there are any.
    ///
    /// # Safety
    ///
    /// As [`Outgoing::of`].
    pub unsafe fn write(
        &mut self,
        remote: &Remote,
        data: Option<u64>,
        pieces: &[Iovec],
    ) -> Result<(), c_int> {
        self.admit_send()?;
        // SAFETY: As the caller says; the copy is kept with the operation.
        let mut out = unsafe { Outgoing::of(pieces, remote.inject) };
        let accessing = Accessing {
            _kept: [out.own.take(), None],
            pieces: None,
            injected: remote.inject,
            length: out.bytes,
        };
        let number = self.note(remote, FI_RMA | FI_WRITE, accessing);
        let access = match out.memory {
            Some(memory) => Some(Access::put(remote.to, memory, remote.offset, number)),
            None => Access::put_in_ring(remote.to, out.short(), remote.offset, number),
        };
        let with = data.map_or((0, 0), |data| (WITH_DATA, data));
        self.post(number, access, remote, with)
    }

    /// Reads from a region.
    ///
    /// # Safety
    ///
    /// The pieces can be written until it is over.
    pub unsafe fn read(&mut self, remote: &Remote, pieces: &[Iovec]) -> Result<(), c_int> {
        self.admit_send()?;
        let length = length(pieces);
        // SAFETY: As the caller says; what is the provider's is kept with the operation.
        let (memory, pieces) = unsafe { Self::buffer(pieces) };
        let accessing = Accessing { _kept: [None, None], pieces, injected: false, length };
        let number = self.note(remote, FI_RMA | FI_READ, accessing);
        let access = Access::get(remote.to, memory, remote.offset, number);
        self.post(number, Some(access), remote, (0, 0))
    }

    /// Changes integers of `length` bytes in a region.
    ///
    /// # Safety
    ///
    /// What is read can be read, as for [`Outgoing::of`]; results can be written until it is over.
    pub unsafe fn change(
        &mut self,
        remote: &Remote,
        change: Change,
        length: usize,
        parts: &Parts<'_>,
    ) -> Result<(), c_int> {
        self.admit_send()?;
        let (values, compared) = (self::length(parts.values), self::length(parts.compared));
        let (mut short, mut kept) = ([0; IN_RING], [None, None]);
        let all = values.saturating_add(compared);
        let operands = if all > 0 && all <= IN_RING {
            let at = short.as_mut_ptr();
            // SAFETY: As the caller says; there is room for all of them.
            unsafe {
                gather(parts.values, at);
                gather(parts.compared, at.add(values));
            }
            Operands::InRing(&short[..all])
        } else {
            let mut memory = [Memory::NONE; 2];
            let sides = [parts.values, parts.compared];
            for ((memory, kept), pieces) in memory.iter_mut().zip(&mut kept).zip(sides) {
                // SAFETY: As the caller says; copies are kept with the operation.
                (*memory, *kept) = unsafe { operand(pieces, remote.inject) };
            }
            let [values, compared] = memory;
            Operands::Memory { values, compared }
        };
        let results = parts.results.unwrap_or(&[]);
        // SAFETY: As the caller says; what is the provider's is kept with the operation.
        let (result, pieces) = unsafe { Self::buffer(results) };
        let accessing = Accessing { _kept: kept, pieces, injected: remote.inject, length };
        let (kind, data) = match parts.results {
            Some(_) => (FI_ATOMIC | FI_READ, FETCHES),
            None => (FI_ATOMIC | FI_WRITE, 0),
        };
        let number = self.note(remote, kind, accessing);
        let (length, offset) = (length as u64, remote.offset);
        let access = Access::change(remote.to, (change, operands), length, offset, number);
        let access = match parts.results {
            Some(_) => access.map(|access| access.fetch(result)),
            None => access,
        };
        self.post(number, access, remote, (0, data))
    }
}

/// Where the driver reads operands: in the piece of the program, or in a copy.
///
/// # Safety
///
/// As [`Outgoing::of`].
unsafe fn operand(pieces: &[Iovec], inject: bool) -> (Memory, Option<Area>) {
    // SAFETY: As the caller says.
    unsafe {
        match pieces {
            [] => (Memory::NONE, None),
            [one] if !inject => (Memory::new(one.iov_base.cast(), one.iov_len), None),
            _ => {
                let area = Area::gathered(pieces);
                (area.memory(), Some(area))
            }
        }
    }
}
