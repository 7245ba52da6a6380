// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `assignments`: what is to be whose, what became of it and what mends it; the text to be
//! saved and restored.

use super::assign::{Named, Waiting};
use super::table::table;
use super::{Context, End};
use crate::channel::{Port, Taken};
use crate::failure::{Failure, Kind, plain};
use crate::multiroot::{Assignment, Known, State, remedy};
use crate::order::{Order, no_assignment, no_room, unfulfilled};
use serde::Serialize;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use weft::Assignments;

#[derive(clap::Args)]
pub struct Args {
    /// Write the text of the assignments into a file; - is the standard output
    #[arg(long, value_name = "FILE", conflicts_with = "restore")]
    save: Option<PathBuf>,
    /// Replace the assignments by the text of a file; - is the standard input
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    port: String,
    version: u32,
    assignments: Vec<Shown>,
    #[serde(skip)]
    told: bool,
}

/// An assignment and what mends it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    named: Named,
    /// Why it is not fulfilled; empty where it is, or where that is not known.
    why: String,
    mend: String,
}

/// The text, as JSON.
#[derive(Serialize)]
struct Saved {
    ok: bool,
    port: String,
    version: u32,
    assignments: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let port = Port::open(&context.port()?)?;
    if let Some(file) = &args.save {
        return save(context, &port, file);
    }
    if let Some(file) = &args.restore {
        return restore(context, &port, file, &args.waiting);
    }
    let (name, version) = (port.info()?.port, port.assignments()?.version);
    let report = shown(name, version, &port.known()?);
    if !report.told {
        let failure = port.assignment_statuses().err();
        let why = failure.and_then(|failure| failure.hint).unwrap_or_default();
        context.say(&format!("what became of them only the master says: {why}"));
    }
    context.print(&report, lines)
}

fn shown(port: String, version: u32, known: &Known) -> Report {
    let one = |assignment: &Assignment| Shown {
        named: Named::new(assignment, known),
        why: match assignment.state {
            None | Some(State::Done) => String::new(),
            Some(state) => state.to_string(),
        },
        mend: remedy::mend(assignment, known),
    };
    let told = known.assignments.iter().all(|assignment| assignment.state.is_some());
    Report {
        ok: true,
        port,
        version,
        assignments: known.assignments.iter().map(one).collect(),
        told,
    }
}

fn lines(report: &Report) -> String {
    let head = ["ENDPOINT", "VE", "HOST", "STATE"].map(String::from).to_vec();
    let row = |shown: &Shown| {
        let Shown { named, .. } = shown;
        let state = named.assignment.state.map_or("-".to_owned(), |state| state.to_string());
        let endpoint = named.ve();
        let endpoint = endpoint.rsplit_once('.').map_or("", |(endpoint, _)| endpoint);
        vec![endpoint.into(), named.assignment.ve.to_string(), named.root().into(), state]
    };
    let rows: Vec<_> = std::iter::once(head).chain(report.assignments.iter().map(row)).collect();
    let mut text = table(&rows, 0);
    for shown in report.assignments.iter().filter(|shown| !shown.why.is_empty()) {
        let (ve, host) = (shown.named.ve(), shown.named.root());
        text.push_str(&format!("\n{ve} is not host {host}'s: {}\n", shown.why));
        text.push_str(&format!("  mend: {}\n", shown.mend));
    }
    text
}

fn save(context: &Context, port: &Port, file: &Path) -> Result<(), End> {
    let assignments = port.assignments()?;
    let assigned = assignments.assigned();
    let (count, version) = (assignments.all().count(), assignments.version);
    let is_out = file == Path::new("-");
    let text = String::from_utf8_lossy(&assigned).into_owned();
    if !is_out {
        fs::write(file, &assigned).map_err(|e| failed(file, "cannot be written", e))?;
    }
    let saved = Saved {
        ok: true,
        port: port.info()?.port,
        version,
        assignments: count,
        text: is_out.then(|| text.clone()),
        file: (!is_out).then(|| file.into()),
    };
    context.print(&saved, |saved| match &saved.file {
        Some(file) => format!("{count} assignments are in {}\n", file.display()),
        None => text,
    })
}

fn restore(context: &Context, port: &Port, file: &Path, waiting: &Waiting) -> Result<(), End> {
    let name = if file == Path::new("-") { Path::new("standard input") } else { file };
    let read = match file == Path::new("-") {
        true => {
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map(|_| text)
        }
        false => fs::read(file),
    };
    let text = read.map_err(|e| failed(name, "cannot be read", e))?;
    let named = |failure: Failure, line: Option<u32>| Failure {
        message: match line {
            Some(line) => format!("{}:{line}: {}", name.display(), failure.message),
            None => format!("{}: {}", name.display(), failure.message),
        },
        ..failure
    };
    if text.len() > Assignments::MOST_BYTES {
        return Err(named(no_room(text.len()), None).into());
    }
    let say = |what: &str| context.say(what);
    let order = Order::new(port, waiting.timeout(), &say);
    match order.replace(&text)? {
        Taken::NoAssignment(line) => {
            return Err(named(no_assignment(&text, line), Some(line)).into());
        }
        Taken::NoRoom(line) => return Err(named(no_room(text.len()), Some(line)).into()),
        _ => {}
    }
    let assignments = port.assignments()?;
    let wanted: Vec<Assignment> = assignments.all().map(Assignment::from).collect();
    let known = port.known()?;
    let failure = match waiting.wanted() {
        true => unfulfilled(&order.fulfilled(&wanted, &known)?, &known),
        false => None,
    };
    let report = shown(port.info()?.port, assignments.version, &port.known()?);
    match failure {
        Some(failure) => Err(failure.into()),
        None => context.print(&report, lines),
    }
}

fn failed(file: &Path, what: &str, e: io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("{} {what}: {}", file.display(), plain(e)))
}
