// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line: one file a noun, each with its arguments, its request to the
//! daemon and its two forms of output. Knows the daemon only by [`crate::control`].

mod adversarial;
mod check;
mod client;
mod counters;
mod events;
mod host;
mod inject;
mod link;
mod plug;
mod route;
mod run;
mod status;
mod stop;
mod table;
mod trace;
mod traffic;
mod vp;
mod wait;

use clap::{Parser, Subcommand};
use serde::Serialize;
use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What lies between the emulated Weft ports of one machine.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit status: 0 done, 1 failed, 2 wrong usage, 3 no daemon was reached.\n\
                  See weft-fabric(8)."
)]
struct Cli {
    /// Directory of the daemon's sockets
    /// [default: $XDG_RUNTIME_DIR/weft-fabric or /run/weft-fabric]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a topology until told to stop
    Run(run::Args),
    /// Check a topology's file
    Check(check::Args),
    /// Show hosts and links
    Status,
    /// Switch links and limit their speed
    #[command(subcommand)]
    Link(link::Command),
    /// Show, change and follow route tables
    #[command(subcommand)]
    Route(route::Command),
    /// Show and change VP tables of switches
    #[command(subcommand)]
    Vp(vp::Command),
    /// Show what has passed each cable
    Traffic,
    /// Show what is known of hosts
    #[command(subcommand)]
    Host(host::Command),
    /// Plug a host, an endpoint or a switch in
    Plug(plug::Args),
    /// Pull a host, an endpoint or a switch out
    Unplug(plug::Args),
    /// Have a port count every TLP, or no longer
    Trace(trace::Args),
    /// Have a port use all the freedom of the ordering rules, or no longer
    Adversarial(adversarial::Args),
    /// Show the counters of a port
    Counters(counters::Args),
    /// Inject faults, list and clear them
    #[command(subcommand)]
    Inject(inject::Command),
    /// Wait until hosts are connected or links up
    Wait(wait::Args),
    /// Follow what happens, a line an event
    Events,
    /// End the daemon
    Stop,
}

/// Why a command failed, by exit status.
enum Failure {
    /// 1: it was tried.
    Failed(String),
    /// 1: as the output says.
    Reported(String),
    /// 3: there was no daemon to ask.
    Unreachable(String),
    /// 0: the reader of the output has closed it.
    OutputClosed,
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Failed(format!("cannot write the output: {e}")),
        }
    }
}

/// What every command gets.
struct Context {
    dir: PathBuf,
    json: bool,
}

impl Context {
    /// Prints a value as one line of JSON, or what `text` makes of it.
    fn print<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            out.write_all(text(value).as_bytes())?;
        }
        Ok(out.flush()?)
    }

    /// The output of a command that has nothing to tell.
    fn done(&self) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Done {
            ok: bool,
        }
        self.print(&Done { ok: true }, |_| String::new())
    }
}

#[derive(Serialize)]
struct JsonError<'a> {
    ok: bool,
    error: &'a str,
}

fn default_dir() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    PathBuf::from(runtime.unwrap_or_else(|| "/run".into())).join("weft-fabric")
}

/// Runs the command that the arguments of the process name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context { dir: cli.dir.unwrap_or_else(default_dir), json: cli.json };
    let done = match cli.command {
        Command::Run(args) => run::run(&context, &args),
        Command::Check(args) => check::run(&context, &args),
        Command::Status => status::run(&context),
        Command::Link(command) => link::run(&context, command),
        Command::Route(command) => route::run(&context, command),
        Command::Vp(command) => vp::run(&context, command),
        Command::Traffic => traffic::run(&context),
        Command::Host(command) => host::run(&context, &command),
        Command::Plug(args) => plug::run(&context, args, true),
        Command::Unplug(args) => plug::run(&context, args, false),
        Command::Trace(args) => trace::run(&context, args),
        Command::Adversarial(args) => adversarial::run(&context, args),
        Command::Counters(args) => counters::run(&context, args),
        Command::Inject(command) => inject::run(&context, command),
        Command::Wait(args) => wait::run(&context, args),
        Command::Events => events::run(&context),
        Command::Stop => stop::run(&context),
    };
    let (status, why) = match done {
        Ok(()) | Err(Failure::OutputClosed) => return ExitCode::SUCCESS,
        Err(Failure::Reported(why)) => {
            let _ = writeln!(io::stderr(), "weft-fabric: {why}");
            return ExitCode::FAILURE;
        }
        Err(Failure::Failed(why)) => (1, why),
        Err(Failure::Unreachable(why)) => (3, why),
    };
    if context.json {
        let error = JsonError { ok: false, error: &why };
        // Without a reader the exit status says enough.
        let _ = context.print(&error, |_| String::new());
    }
    let _ = writeln!(io::stderr(), "weft-fabric: {why}");
    ExitCode::from(status)
}
