// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The checksum of a message between neighbours: bytes 8 to 11, over all others.

use super::super::super::crc::Crc32c;

/// Returns the checksum that a message should have.
pub fn sum(message: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.add(message.iter().take(8).copied());
    crc.add(message.iter().skip(12).copied());
    crc.value()
}

/// Writes the checksum.
pub fn put(message: &mut [u8]) {
    let sum = sum(message);
    if let Some(at) = message.get_mut(8..12) {
        at.copy_from_slice(&sum.to_le_bytes());
    }
}
