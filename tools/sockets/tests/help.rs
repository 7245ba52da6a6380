// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion and the manual know what the program can.

#![allow(clippy::expect_used, clippy::panic)]

#[path = "../../completion/check.rs"]
#[allow(dead_code)]
mod check;

use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_weft-run");

#[test]
fn completion_offers_every_option() {
    check::completion_knows(Path::new(PROGRAM));
}

#[test]
fn completion_offers_programs_and_then_leaves_words_to_them() {
    let offers = |words: &[&str], begun| check::bash_offers(Path::new(PROGRAM), words, begun);
    for words in [&["weft-run"][..], &["weft-run", "--explain", "--ports", "22"]] {
        assert!(offers(words, "mkfif").iter().any(|word| word == "mkfifo"), "{words:?}");
        assert!(offers(words, "--h").iter().any(|word| word == "--hosts"), "{words:?}");
    }
    for words in
        [&["weft-run", "ls"][..], &["weft-run", "--explain", "=", "x", "--hosts", "y", "ls", "-l"]]
    {
        assert_eq!(offers(words, "--h"), [""], "{words:?}");
        assert_eq!(offers(words, "Cargo.t"), ["Cargo.toml"], "{words:?}");
    }
}

#[test]
fn the_manual_names_every_option() {
    check::manual_knows(Path::new(PROGRAM), "weft-run.1");
}
