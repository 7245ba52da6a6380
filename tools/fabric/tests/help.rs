// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Completion and the manual know what the program can.

#![allow(clippy::expect_used, clippy::panic)]

#[path = "../../completion/check.rs"]
#[allow(dead_code)]
mod check;

use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_weft-fabric");

#[test]
fn completion_offers_every_command_and_option() {
    check::completion_knows(Path::new(PROGRAM));
}

#[test]
fn the_manual_names_every_command_and_option() {
    check::manual_knows(Path::new(PROGRAM), "weft-fabric.8");
}

#[test]
fn messages_and_documentation_name_commands_that_there_are() {
    check::texts_know(Path::new(PROGRAM));
}
