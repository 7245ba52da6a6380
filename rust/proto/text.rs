// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Lines of words and of hexadecimal numbers: reading them, and writing them into memory of the caller.
//!
//! This file is independent of what the lines say.

/// Iterates over the words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Parses a number in hexadecimal, at most 16 digits.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let digit = |n: u64, b: &u8| Some((n << 4) | u64::from(char::from(*b).to_digit(16)?));
    digits.iter().try_fold(0u64, digit)
}

/// Returns how many hexadecimal digits a number has.
pub fn digits(n: u64) -> usize {
    ((67 - n.leading_zeros()) / 4).max(1) as usize
}

/// A text that is written.
pub struct Out<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl<'a> Out<'a> {
    /// Creates an empty text in `to`.
    pub fn new(to: &'a mut [u8]) -> Self {
        Self { to, at: 0 }
    }

    /// Returns how many bytes are written.
    pub fn written(&self) -> usize {
        self.at
    }

    /// Returns how many bytes there is room for.
    pub fn room(&self) -> usize {
        self.to.len() - self.at
    }

    /// Removes all that is behind the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.at = self.at.min(len);
    }

    /// Appends bytes. `None` if there is no room for them.
    pub fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.to.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }

    /// Ends the last line, if it has no end.
    pub fn end_line(&mut self) -> Option<()> {
        let ended = self.at == 0 || self.to.get(self.at - 1) == Some(&b'\n');
        if ended {
            return Some(());
        }
        self.put(b"\n")
    }

    /// Appends a number.
    pub fn hex(&mut self, n: u64) -> Option<()> {
        for at in (0..digits(n)).rev() {
            let digit = ((n >> (4 * at)) & 15) as u8;
            let letter = if digit < 10 {
                b'0' + digit
            } else {
                b'a' + digit - 10
            };
            self.put(&[letter])?;
        }
        Some(())
    }
}
