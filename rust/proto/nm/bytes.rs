// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Encoding and decoding of the members of a message, one after the other, little endian.
//!
//! A writer reports a lack of room at the end, a reader at once. This file knows no message.

/// The bytes end before the member does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Short;

/// Writes members.
pub struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
    fits: bool,
}

impl<'a> Writer<'a> {
    /// Writes to the start of `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self {
            buf,
            at: 0,
            fits: true,
        }
    }

    /// Appends bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        let end = self.at.saturating_add(bytes.len());
        match self.buf.get_mut(self.at..end) {
            Some(to) if self.fits => {
                to.copy_from_slice(bytes);
                self.at = end;
            }
            _ => self.fits = false,
        }
    }

    /// Appends a number of 8 bits.
    pub fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }

    /// Appends a number of 16 bits.
    pub fn u16(&mut self, v: u16) {
        self.put(&v.to_le_bytes());
    }

    /// Appends a number of 32 bits.
    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_le_bytes());
    }

    /// Appends a number of 64 bits.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_le_bytes());
    }

    /// Returns how many bytes were written; `None` if not all fit.
    pub fn finish(self) -> Option<usize> {
        self.fits.then_some(self.at)
    }
}

/// Reads members.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Short)?;
        self.0 = rest;
        Ok(*head)
    }

    /// Reads a number of 8 bits.
    pub fn u8(&mut self) -> Result<u8, Short> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Reads a number of 16 bits.
    pub fn u16(&mut self) -> Result<u16, Short> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Returns the bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}
