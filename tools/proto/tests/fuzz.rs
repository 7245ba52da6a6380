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
mod qp;
#[path = "fuzz/targets.rs"]
mod targets;
mod trunk;

use driver::{fuzz, unhex};

/// Bytes that once did harm: target, hexadecimal. None has so far.
const KEPT: &[(targets::Target, &str)] = &[];

#[test]
fn what_did_harm_once() {
    for (target, hex) in KEPT {
        target(&unhex(hex));
    }
}

#[test]
fn each_target_is_listed() {
    let mut listed: Vec<_> = targets::ALL.iter().map(|(name, _)| *name).collect();
    let mut tried = TRIED.to_vec();
    listed.sort_unstable();
    tried.sort_unstable();
    assert_eq!(listed, tried);
}

/// `least` answers must be found: fewer would mean that the bytes are all refused at the gate.
macro_rules! fuzzed {
    ($($name:ident: $tries:expr, $least:expr;)*) => {
        const TRIED: &[&str] = &[$(stringify!($name)),*];

        $(
        #[test]
        fn $name() {
            fuzz(stringify!($name), targets::$name, $tries, $least);
        }
        )*
    };
}

fuzzed! {
    message_of_a_mailbox: 60_000, 12;
    cell_of_a_channel: 150_000, 10;
    ring_of_a_channel: 40_000, 120;
    cell_of_a_trunk: 150_000, 30;
    word_of_a_trunk: 150_000, 8;
    trunk_of_a_peer: 20_000, 250;
    queue_pair_of_a_peer: 200_000, 28;
    send_request: 150_000, 20;
    receive_request: 150_000, 5;
    count_of_a_queue: 200_000, 5;
    access_by_an_stag: 150_000, 15;
    messages_of_a_manager: 10_000, 2000;
}
