// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A keyed hash: peers choose what is hashed, and are not to find keys that meet in one bucket. This file is
//! independent of what is hashed.

/// SipHash-1-3 of two words.
pub(super) fn siphash(key: [u64; 2], words: [u64; 2]) -> u64 {
    fn round(v: &mut [u64; 4]) {
        let [a, b, c, d] = *v;
        let (a, b) = (a.wrapping_add(b), b.rotate_left(13));
        let (b, a) = (b ^ a, a.rotate_left(32));
        let (c, d) = (c.wrapping_add(d), d.rotate_left(16));
        let d = d ^ c;
        let (a, d) = (a.wrapping_add(d), d.rotate_left(21));
        let d = d ^ a;
        let (c, b) = (c.wrapping_add(b), b.rotate_left(17));
        let (b, c) = (b ^ c, c.rotate_left(32));
        *v = [a, b, c, d];
    }
    let [k, l] = key;
    let mut v = [
        k ^ 0x736f_6d65_7073_6575,
        l ^ 0x646f_7261_6e64_6f6d,
        k ^ 0x6c79_6765_6e65_7261,
        l ^ 0x7465_6462_7974_6573,
    ];
    // The length, 16 bytes, is the last word.
    for word in [words[0], words[1], 16 << 56] {
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}
