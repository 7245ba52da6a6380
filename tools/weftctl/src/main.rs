// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The program `weftctl`: see the library of the same name.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    weftctl::cli::main()
}
