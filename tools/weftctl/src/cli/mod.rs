// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line.

use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
