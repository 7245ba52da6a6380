// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Bytes that a peer or a user wrote, against everything of `proto` that reads such bytes.
//!
//! A *target* (`fuzz/targets.rs`) takes any bytes; it must not panic, and what it believes must be
//! within bounds. It tells how the bytes were answered. Bytes that are answered as none before are
//! kept and changed further, so that valid ones are found from nothing.
//!
//! `scripts/fuzz` has libFuzzer drive the same targets, by the code that they reach; what it finds is in
//! `fuzz/corpus`, and is tried first here.
//!
//! The number of tries is fixed, and so is what is tried. What did harm once is in `KEPT`.

#![allow(clippy::expect_used, clippy::panic)] // A test may.

#[path = "fuzz/driver.rs"]
mod driver;
mod matching;
mod qp;
#[macro_use]
#[path = "fuzz/targets.rs"]
mod targets;
mod trunk;

use driver::{fuzz, unhex};

/// Bytes that once did harm: target, hexadecimal.
const KEPT: &[(targets::Target, &str)] = &[(
    targets::messages_at_scale,
    "00017474747474b6b6b6b674740080000af4000000200120010054002b",
)];

#[test]
fn what_did_harm_once() {
    for (target, hex) in KEPT {
        target(&unhex(hex));
    }
}

macro_rules! fuzzed {
    ($($name:ident: $tries:expr, $least:expr;)*) => {$(
        #[test]
        fn $name() {
            fuzz(stringify!($name), targets::$name, $tries, $least);
        }
    )*};
}

each_target!(fuzzed);
