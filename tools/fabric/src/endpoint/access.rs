// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a function of a virtual endpoint can get at: its own memory, the registers at
//! the beginning of it, and the host's memory.

use super::host::{Counts, Host, Unreachable};
use super::memory;
use crate::wire::abi::*;
use std::os::fd::OwnedFd;

/// Bytes of the registers.
pub const REGISTERS: usize = WEFT_EP_REGISTERS as usize;

/// What a function can get at.
pub struct Access<'a> {
    /// The endpoint's memory,
    pub memory: &'a OwnedFd,
    /// and where in it the function's own begins.
    pub window: u64,
    pub host: &'a Host,
    pub counts: &'a mut Counts,
}

impl Access<'_> {
    /// Reads the function's own memory, or the host's.
    pub fn read(&mut self, local: bool, at: u64, to: &mut [u8]) -> Result<(), Unreachable> {
        if !local {
            return self.host.read(at, to, self.counts);
        }
        let at = self.own(at, to.len())?;
        memory::read(self.memory, at, to).map_err(|_| Unreachable)
    }

    /// Writes the function's own memory, or the host's.
    pub fn write(&mut self, local: bool, at: u64, from: &[u8]) -> Result<(), Unreachable> {
        if !local {
            return self.host.write(at, from, self.counts);
        }
        let at = self.own(at, from.len())?;
        memory::write(self.memory, at, from).map_err(|_| Unreachable)
    }

    /// Where a range of the function's memory is; its registers are none.
    fn own(&self, at: u64, len: usize) -> Result<u64, Unreachable> {
        let end = at.checked_add(len as u64).ok_or(Unreachable)?;
        let inside = at >= WEFT_EP_MEMORY.into() && end <= WEFT_EP_FUNCTION_BYTES.into();
        if inside { Ok(self.window + at) } else { Err(Unreachable) }
    }

    /// The function's registers, as they are now.
    pub fn registers(&self) -> [u8; REGISTERS] {
        let mut bytes = [0; REGISTERS];
        // Of memory of one's own that never shrinks it does not fail; all 0 does nothing.
        let _ = memory::read(self.memory, self.window, &mut bytes);
        bytes
    }

    /// Writes a register.
    pub fn tell(&self, register: u32, value: u32) {
        let at = self.window + u64::from(register);
        let _ = memory::write(self.memory, at, &value.to_le_bytes());
    }
}
