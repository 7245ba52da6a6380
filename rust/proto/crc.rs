// SPDX-License-Identifier: GPL-2.0 OR MIT

//! CRC-32C, the checksum of messages: detects every burst error of up to 32 bits.
//!
//! Computed by half bytes: messages are short, and a table for whole bytes would be longer than they are.

/// The polynomial of Castagnoli, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What four bits make of the checksum.
const HALVES: [u32; 16] = {
    let mut halves = [0; 16];
    let mut half = 0;
    while half < 16 {
        let (mut sum, mut bits) = (half as u32, 0);
        while bits < 4 {
            sum = (sum >> 1) ^ (POLYNOMIAL * (sum & 1));
            bits += 1;
        }
        halves[half] = sum;
        half += 1;
    }
    halves
};

/// The checksum of bytes that come in pieces.
#[derive(Clone, Copy)]
pub struct Crc32c(u32);

impl Crc32c {
    /// Creates the checksum of no bytes.
    pub fn new() -> Self {
        Self(u32::MAX)
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: impl IntoIterator<Item = u8>) {
        for byte in bytes {
            self.0 ^= u32::from(byte);
            for _ in 0..2 {
                let half = HALVES.get((self.0 & 15) as usize).copied();
                self.0 = (self.0 >> 4) ^ half.unwrap_or(0);
            }
        }
    }

    /// Returns the checksum of all bytes added.
    pub fn value(&self) -> u32 {
        !self.0
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the checksum of `bytes`.
pub fn crc32c(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let mut crc = Crc32c::new();
    crc.add(bytes);
    crc.value()
}
