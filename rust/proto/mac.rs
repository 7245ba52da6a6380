// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Message authentication codes: a tag of a message, by a key that sender and receiver share.
//!
//! What the key is, and how a tag is computed, the caller knows: the driver has HMAC-SHA-256 of the kernel,
//! cut to [`TAG_BYTES`]. Each kind of message begins what it has tagged with a label of its own, so that the
//! tag of one is never that of another.

use super::bytes::{Malformed, Member, Reader, Writer};

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// A tag.
pub type Tag = [u8; TAG_BYTES];

impl Member<'_> for Tag {
    fn put(&self, w: &mut Writer<'_>) {
        w.put(self);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.array()
    }
}

/// A node that may have a key.
pub trait Mac {
    /// Returns the tag of a message; `None`: there is no key.
    fn tag(&self, _message: &[u8]) -> Option<Tag> {
        None
    }
}

/// Bytes of the shortest key.
pub const MIN_KEY_BYTES: usize = 32;
/// Bytes of the longest key.
pub const MAX_KEY_BYTES: usize = 64;

/// Writes the key that `text` is in hexadecimal digits to `to`, and returns its length in bytes; 0: there is
/// no text. Spaces and line ends around it do not count. `None`: it is no key.
pub fn parse_key(text: &[u8], to: &mut [u8; MAX_KEY_BYTES]) -> Option<usize> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Some(0);
    }
    let bytes = text.len() / 2;
    if text.len() % 2 != 0 || !(MIN_KEY_BYTES..=MAX_KEY_BYTES).contains(&bytes) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for (pair, to) in text.chunks_exact(2).zip(to.iter_mut()) {
        let [high, low] = pair else {
            return None;
        };
        *to = (16 * digit(*high)? + digit(*low)?) as u8;
    }
    Some(bytes)
}

/// Returns whether two tags are equal. Takes the same time for all that are not, so that it does not tell
/// how many bytes were right.
pub fn is_same(a: &Tag, b: &Tag) -> bool {
    let differ = a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a ^ b));
    core::hint::black_box(differ) == 0
}
