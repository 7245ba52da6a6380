// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Versions of the administrator's assignments, which every node keeps ([`super::kept`]).

use super::super::crc::crc32c;

/// Most bytes of the assignments. All nodes of a fabric have room for as many.
pub const MAX_ASSIGNMENTS: usize = 4096;

/// Bits of a version that come from the contents: so versions differ if the assignments were changed on
/// both sides of a split fabric.
const CONTENT_BITS: u32 = 12;

/// Returns the version of assignments that replace those of version `before`. It rises with each change.
pub fn version_after(before: u32, bytes: &[u8]) -> u32 {
    let count = (before >> CONTENT_BITS).wrapping_add(1);
    let content = crc32c(bytes.iter().copied()) & ((1 << CONTENT_BITS) - 1);
    (count << CONTENT_BITS) | content
}
