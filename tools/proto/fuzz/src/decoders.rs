// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The targets of weft-proto's `tests/fuzz`, driven by libFuzzer: `scripts/fuzz`.
//!
//! `WEFT_FUZZ_TARGET` says which one. This file is independent of what a target does.

#![no_main]
#![allow(dead_code, clippy::expect_used, clippy::panic)] // As in tests, of which some is used here.

#[path = "../../tests/matching/mod.rs"]
mod matching;
#[path = "../../tests/qp/mod.rs"]
mod qp;
#[macro_use]
#[path = "../../tests/fuzz/targets.rs"]
mod targets;
#[path = "../../tests/trunk/mod.rs"]
mod trunk;

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static TARGET: OnceLock<targets::Target> = OnceLock::new();

macro_rules! by_name {
    ($($name:ident: $tries:expr, $least:expr;)*) => {
        const ALL: &[(&str, targets::Target)] = &[$((stringify!($name), targets::$name)),*];
    };
}

each_target!(by_name);

/// The target that the environment names.
fn named() -> targets::Target {
    let name = std::env::var("WEFT_FUZZ_TARGET").unwrap_or_default();
    let found = ALL.iter().find(|(known, _)| *known == name);
    let Some((_, target)) = found else {
        panic!("WEFT_FUZZ_TARGET={name}: there is no such target")
    };
    *target
}

fuzz_target!(|bytes: &[u8]| {
    TARGET.get_or_init(named)(bytes);
});
