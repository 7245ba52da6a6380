// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `key`: by what a port believes messages of managers, and the pre-shared key.

use super::{Context, End};
use crate::failure::{Failure, Kind, plain};
use crate::key::{Authentication, Key, Manager};
use clap::Subcommand;
use std::fs::File;
use std::io;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Give the port a key, which all hosts of the fabric have to have
    Set(Set),
    /// Take the key from the port
    Clear,
}

#[derive(clap::Args)]
struct Set {
    /// The file with the key, 64 to 128 hexadecimal digits; -: the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let manager = Manager::new(&context.port()?)?;
    match &args.command {
        Some(Command::Set(set)) => manager.set(&read(set)?)?,
        Some(Command::Clear) => manager.clear()?,
        None => {}
    }
    context.print(&manager.authentication()?, shown)
}

fn read(set: &Set) -> Result<Key, Failure> {
    if set.file.as_os_str() == "-" {
        return Key::read(io::stdin().lock(), "the standard input");
    }
    let name = set.file.display().to_string();
    let file = File::open(&set.file)
        .map_err(|e| Failure::new(Kind::Failed, format!("{name}: {}", plain(e))))?;
    Key::read(file, &name)
}

fn shown(now: &Authentication) -> String {
    let by = by(&now.authenticated);
    let refused = match now.messages_refused {
        0 => String::new(),
        count => format!("  {count} messages without this key were refused\n"),
    };
    let hwid = now.key_mismatch_hwid.as_deref().unwrap_or_default();
    let mismatch = match now.key_mismatch.as_str() {
        "here" => format!("  host {hwid} has a key, and this one has none\n"),
        "there" => format!("  host {hwid} has no key\n"),
        "differs" => format!("  host {hwid} has another key\n"),
        _ => String::new(),
    };
    format!("{}: messages of managers authenticated by: {by}\n{refused}{mismatch}", now.port)
}

/// Says by what messages of managers are authenticated.
pub fn by(authenticated: &[String]) -> String {
    let meaning = |by: &String| match by.as_str() {
        "fabric" => "the fabric, which attests hardware ids".into(),
        "key" => "a pre-shared key".into(),
        other => String::from(other),
    };
    match authenticated {
        [] => "nothing: any host can speak for the master (`weftctl key set`)".into(),
        all => all.iter().map(meaning).collect::<Vec<_>>().join("; "),
    }
}
