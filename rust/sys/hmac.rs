// SPDX-License-Identifier: GPL-2.0

//! HMAC-SHA-256 by the kernel's crypto library (`include/crypto/sha2.h`), with a key that is prepared once.

use crate::sys::ext;
use core::{ffi::c_void, ptr::NonNull};
use kernel::prelude::*;

/// Bytes of a code.
pub(crate) const BYTES: usize = 32;

/// A prepared key. Its memory is zeroed before it is freed.
pub(crate) struct Key(NonNull<c_void>);

// SAFETY: The memory belongs to the key, and is not changed until it is dropped.
unsafe impl Send for Key {}
// SAFETY: As above.
unsafe impl Sync for Key {}

impl Key {
    /// Prepares a key of any length. `ENOMEM`: there is no memory for it.
    ///
    /// Wraps `hmac_sha256_preparekey()`. Sleeps.
    pub(crate) fn new(raw: &[u8]) -> Result<Self> {
        // SAFETY: `raw` is read during the call.
        let key = unsafe { ext::weft_key_new(raw.as_ptr(), raw.len()) };
        Ok(Self(NonNull::new(key).ok_or(ENOMEM)?))
    }

    /// Returns the code of a message. Wraps `hmac_sha256()`. Any context.
    pub(crate) fn code(&self, message: &[u8]) -> [u8; BYTES] {
        let mut code = [0; BYTES];
        // SAFETY: The key is prepared, and lives as long as `self`; `message` is read, and the code,
        // which has as many bytes as one of SHA-256, is written, during the call.
        unsafe {
            ext::weft_key_code(
                self.0.as_ptr(),
                message.as_ptr(),
                message.len(),
                code.as_mut_ptr(),
            );
        }
        code
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: The memory is that of `weft_key_new()`, and nothing else has the pointer.
        unsafe { ext::weft_key_free(self.0.as_ptr()) };
    }
}

/// Fills `bytes` with zeroes, also if they are not read any more.
///
/// Wraps `memzero_explicit()`, `include/linux/string.h`. Any context.
pub(crate) fn erase(bytes: &mut [u8]) {
    // SAFETY: The bytes are borrowed for the call.
    unsafe { ext::weft_memzero(bytes.as_mut_ptr().cast(), bytes.len()) };
}
