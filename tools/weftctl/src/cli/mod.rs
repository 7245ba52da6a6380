// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line: one file a command, each with its arguments and its two
//! forms of output. Knows ports and channels only by [`crate::channel`].

mod assign;
mod assignments;
mod diagnose;
mod events;
mod key;
mod list;
mod migrate;
mod number;
mod ping;
mod ports;
mod recv;
mod routes;
mod send;
mod show;
mod slots;
mod table;
mod trace;
mod tree;
mod vf;
mod wait;

use crate::channel;
use crate::failure::{Failure, Kind, plain};
use clap::{Parser, Subcommand};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Shows and watches the Weft ports of this host and the fabric, says which endpoint is whose,
/// carries files to and from other hosts, finds out why it does not work.
#[derive(Parser)]
#[command(
    name = "weftctl",
    version,
    after_help = "Exit status: 0 done, 1 failed, 2 wrong usage, 3 no port or no module, \
                  4 permission denied, 5 peer or link cannot be reached, \
                  6 what arrived is not what was sent.\nSee weftctl(8)."
)]
struct Cli {
    /// The port: /dev/weft1, weft1 or 1 [default: the first there is, or all, as the command has it]
    #[arg(long, global = true, value_name = "PORT", value_parser = port_path)]
    port: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
    /// Print nothing but results and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the ports of this host
    List,
    /// Show ports with their links
    Show(show::Args),
    /// Show the links of all ports, a line each, and what ports have counted
    Ports(ports::Args),
    /// Send files to another host
    Send(send::Args),
    /// Receive files from other hosts
    Recv(recv::Args),
    /// Measure how long messages take there and back
    Ping(ping::Args),
    /// Wait until links are in a state
    Wait(wait::Args),
    /// Show what happens to ports and links, as it happens
    Events(events::Args),
    /// Say why it does not work, and what mends it
    Diagnose(diagnose::Args),
    /// Show what queue pairs tell each other
    Trace(trace::Args),
    /// Show which nodes are in the fabric, as a tree that begins here, or as a picture
    Tree(tree::Args),
    /// Show by which link others are reached
    Routes,
    /// Give a virtual endpoint of a shared endpoint to a host
    Assign(assign::Assign),
    /// Take virtual endpoints back from their hosts
    Withdraw(assign::Withdraw),
    /// Show which endpoint is to be whose, and what became of that; save or restore it
    Assignments(assignments::Args),
    /// Show what is plugged into the ports of switches, and what is announced there
    Slots(slots::Slots),
    /// Say that a component will be put into a port of a switch
    Announce(slots::Announce),
    /// Show virtual functions, or change what one may use
    Vf(vf::Args),
    /// Show by what messages of managers are authenticated, or change the key
    Key(key::Args),
}

/// What every command gets.
struct Context {
    port: Option<PathBuf>,
    json: bool,
    quiet: bool,
}

/// Why a command ended without its result.
enum End {
    /// To be reported, by its exit status.
    Failure(Failure),
    /// It was reported where it happened.
    Reported(Kind),
    /// The reader of the output has closed it.
    OutputClosed,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        End::Failure(failure)
    }
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::BrokenPipe => End::OutputClosed,
            _ => {
                Failure::new(Kind::Failed, format!("cannot write the output: {}", plain(e))).into()
            }
        }
    }
}

/// A failure as JSON.
#[derive(Serialize)]
struct JsonFailure<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    status: u8,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Context {
    /// Prints a value as one line of JSON, or what `text` makes of it.
    fn print<T: Serialize>(&self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), End> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            out.write_all(text(value).as_bytes())?;
        }
        Ok(out.flush()?)
    }

    /// Says what goes on, on a terminal.
    fn say(&self, what: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "weftctl: {what}");
        }
    }

    /// Reports a failure, which may be that of a file among several.
    fn report(&self, failure: &Failure, file: Option<&str>) {
        if self.json {
            let json = JsonFailure {
                ok: false,
                file,
                status: failure.status(),
                error: &failure.message,
                hint: failure.hint.as_deref(),
            };
            // Without a reader the exit status says enough.
            let _ = self.print(&json, |_| String::new());
        }
        let _ = writeln!(io::stderr(), "weftctl: {failure}");
    }

    /// The port that was asked for, or the first.
    fn port(&self) -> Result<PathBuf, Failure> {
        match &self.port {
            Some(path) => Ok(path.clone()),
            None => channel::ports().into_iter().next().ok_or_else(channel::no_ports),
        }
    }

    /// The port that was asked for, or all.
    fn ports(&self) -> Result<Vec<PathBuf>, Failure> {
        let ports = match &self.port {
            Some(path) => vec![path.clone()],
            None => channel::ports(),
        };
        if ports.is_empty() { Err(channel::no_ports()) } else { Ok(ports) }
    }
}

/// "1", "weft1" and "/dev/weft1" are the same port.
fn port_path(text: &str) -> Result<PathBuf, String> {
    let number = text.strip_prefix("weft").unwrap_or(text);
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(Path::new("/dev").join(format!("weft{number}")));
    }
    match text.starts_with('/') {
        true => Ok(text.into()),
        false => Err("a port is /dev/weftN, weftN or N".into()),
    }
}

/// Longest time that can be asked for.
const MAX_SECONDS: f64 = 1e8;

/// Seconds, with a fraction if need be.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(format!("must be from 0 to {MAX_SECONDS} seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Runs the command that the arguments of the process name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context { port: cli.port, json: cli.json, quiet: cli.quiet };
    let done = match cli.command {
        Command::List => list::run(&context),
        Command::Show(args) => show::run(&context, args),
        Command::Ports(args) => ports::run(&context, &args),
        Command::Send(args) => send::run(&context, &args),
        Command::Recv(args) => recv::run(&context, args),
        Command::Ping(args) => ping::run(&context, &args),
        Command::Wait(args) => wait::run(&context, &args),
        Command::Events(args) => events::run(&context, &args),
        Command::Diagnose(args) => diagnose::run(&context, &args),
        Command::Trace(args) => trace::run(&context, &args),
        Command::Tree(args) => tree::run(&context, &args),
        Command::Routes => routes::run(&context),
        Command::Assign(args) => assign::assign(&context, &args),
        Command::Withdraw(args) => assign::withdraw(&context, &args),
        Command::Assignments(args) => assignments::run(&context, &args),
        Command::Slots(args) => slots::slots(&context, &args),
        Command::Announce(args) => slots::announce(&context, &args),
        Command::Vf(args) => vf::run(&context, &args),
        Command::Key(args) => key::run(&context, &args),
    };
    match done {
        Ok(()) | Err(End::OutputClosed) => ExitCode::SUCCESS,
        Err(End::Reported(kind)) => ExitCode::from(kind as u8),
        Err(End::Failure(failure)) => {
            context.report(&failure, None);
            ExitCode::from(failure.status())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn ports_have_three_spellings() {
        for text in ["3", "weft3", "/dev/weft3"] {
            assert_eq!(port_path(text).as_deref(), Ok(Path::new("/dev/weft3")), "{text}");
        }
        for text in ["", "weft", "x", "dev/weft3"] {
            assert!(port_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_have_limits() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for text in ["-1", "nan", "inf", "1e9", "", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
