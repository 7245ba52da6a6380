// SPDX-License-Identifier: GPL-2.0

//! CRC-32C, the checksum of messages: finds every change of up to 32 bits in a row.
//!
//! Bit by bit: messages are short and few, and a table would be longer than they are.

/// The polynomial of Castagnoli, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The checksum of `bytes`.
pub fn crc32c(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let carry = crc & 1 != 0;
            crc >>= 1;
            if carry {
                crc ^= POLYNOMIAL;
            }
        }
    }
    !crc
}
