// SPDX-License-Identifier: GPL-2.0

//! The pre-shared key of a fabric: tags messages between managers, and hellos that no fabric attests.
//!
//! The administrator gives it; it is never shown. Its lock is innermost. This file must not know what is
//! tagged.

use crate::{
    proto::{
        mac::{parse_key, Mac, Tag, MAX_KEY_BYTES, TAG_BYTES},
        proof,
        wire::{Message, Proof},
    },
    sys::{hmac, random},
};
use kernel::{new_mutex, prelude::*, sync::Mutex};

/// A key, and a number that is drawn with it.
struct Secret {
    key: hmac::Key,
    nonce: u64,
}

/// The key, if there is one.
#[pin_data]
pub(crate) struct Keyring {
    #[pin]
    secret: Mutex<Option<Secret>>,
}

impl Keyring {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            secret <- new_mutex!(None, "weft keyring"),
        })
    }

    /// Replaces the key by that which `text` is in hexadecimal digits; no text: by none. Returns its nonce;
    /// 0: there is no key. `EINVAL`: it is no key; `ENOMEM`. Sleeps.
    pub(super) fn set(&self, text: &[u8]) -> Result<u64> {
        let mut raw = [0; MAX_KEY_BYTES];
        let parsed = parse_key(text, &mut raw).ok_or(EINVAL);
        let key = parsed.and_then(|len| match raw.get(..len) {
            Some(raw) if len != 0 => hmac::Key::new(raw).map(Some),
            _ => Ok(None),
        });
        hmac::erase(&mut raw);
        let secret = key?.map(|key| Secret {
            key,
            nonce: random::nonzero64(),
        });
        let nonce = secret.as_ref().map_or(0, |secret| secret.nonce);
        // The former one is dropped, and with it erased, after the lock is released.
        let former = core::mem::replace(&mut *self.secret.lock(), secret);
        drop(former);
        Ok(nonce)
    }

    /// Returns the number that was drawn with the key; 0: there is no key.
    pub(super) fn nonce(&self) -> u64 {
        let secret = self.secret.lock();
        secret.as_ref().map_or(0, |secret| secret.nonce)
    }
}

impl Keyring {
    /// Returns the proof of a hello to a neighbour with this nonce, if there is a key.
    pub(super) fn prove(&self, message: &Message, peer: u64) -> Option<Proof> {
        proof::prove(self, message, self.nonce(), peer)
    }

    /// Returns whether a hello has the proof of a neighbour that has the same key.
    pub(super) fn is_proved(&self, message: &Message) -> bool {
        proof::is_proved(self, message, self.nonce())
    }
}

impl Mac for Keyring {
    fn tag(&self, message: &[u8]) -> Option<Tag> {
        let secret = self.secret.lock();
        let code = secret.as_ref()?.key.code(message);
        code.first_chunk::<TAG_BYTES>().copied()
    }
}
