// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory of this process that the driver reads or writes while a message is under way.

/// Memory that a command names. The driver looks at it later, whatever becomes of this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    address: u64,
    length: u64,
}

impl Memory {
    /// No bytes.
    pub const NONE: Memory = Memory { address: 0, length: 0 };

    /// Names memory.
    ///
    /// # Safety
    ///
    /// Until an event says that the buffer, or the message, is over, or the interface is closed, the driver may write
    /// to the memory (read it, if it is that of a message), and nothing else may use it meanwhile but by raw pointers.
    pub unsafe fn new(address: *mut u8, length: usize) -> Self {
        Memory { address: address as u64, length: length as u64 }
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes of it.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}
