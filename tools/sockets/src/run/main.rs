// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The program `weft-run`: runs another program with `libweft-sockets.so`, once it is clear that this can have an
//! effect. See weft-run(1).
#![forbid(unsafe_code)]

mod library;
mod program;

use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

/// The program cannot be run, or not with the library.
const CANNOT: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// Runs a program whose TCP connections go over AF_VSOCK where they lead to a host that Weft joins. What cannot, stays
/// TCP.
#[derive(Parser)]
#[command(
    name = "weft-run",
    version,
    after_help = "Exit status: that of the program; 2 wrong usage, 126 the program cannot be run, or takes no library, \
                  127 there is no such program.\nSee weft-run(1) and weft-sockets(7)."
)]
struct Cli {
    /// Say for each connection whether it was moved, or why not: on standard error, or at the end of FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    explain: Option<PathBuf>,
    /// Read the addresses of hosts from FILE, in place of /etc/weft/hosts
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Move connections of these ports alone, as in 22,6000-6063
    #[arg(long, value_name = "LIST")]
    ports: Option<String>,
    /// Preload FILE [default: libweft-sockets.so beside weft-run, or in ../lib]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// What to run, with its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

fn failed(status: u8, what: impl Display) -> ExitCode {
    eprintln!("weft-run: {what}");
    ExitCode::from(status)
}

/// A path that means the same when the program changes its directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let Some((name, args)) = cli.words.split_first() else {
        return failed(2, "no program is named");
    };
    let library = match library::find(cli.library) {
        Ok(library) => library,
        Err(why) => return failed(CANNOT, why),
    };
    let Some(path) = program::find(name) else {
        return failed(
            NOT_FOUND,
            format_args!("{}: there is no such program", Path::new(name).display()),
        );
    };
    if let Err(why) = program::check(&path, &library) {
        return failed(CANNOT, why);
    }
    let mut command = Command::new(&path);
    command.arg0(name).args(args).env("LD_PRELOAD", library::preload(&library));
    if let Some(file) = cli.explain {
        let file = if file.as_os_str() == "-" { file } else { absolute(file) };
        command.env("WEFT_SOCKETS_VERBOSE", file);
    }
    if let Some(file) = cli.hosts {
        command.env("WEFT_SOCKETS_HOSTS", absolute(file));
    }
    if let Some(list) = cli.ports {
        command.env("WEFT_SOCKETS_PORTS", list);
    }
    failed(CANNOT, format_args!("{}: {}", path.display(), command.exec()))
}
