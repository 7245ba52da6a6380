// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `assign` and `withdraw`: whose a virtual endpoint is to be.

use super::{Context, End, seconds};
use crate::channel::Port;
use crate::multiroot::{Assignment, Known, Names, change};
use crate::order::{Order, unfulfilled};
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long to wait for what was ordered.
#[derive(clap::Args)]
pub struct Waiting {
    /// Do not wait until it is done
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    timeout: Duration,
}

#[derive(clap::Args)]
pub struct Assign {
    /// The endpoint by its serial number, local id or hardware id; with .N behind it this
    /// virtual endpoint of it, with .all each [default: the first that the host is to have and
    /// has not got, or else that is free]
    #[arg(value_name = "ENDPOINT")]
    endpoint: String,
    /// The host, likewise
    #[arg(value_name = "HOST")]
    host: String,
    /// Take away what is to be another host's
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    waiting: Waiting,
}

#[derive(clap::Args)]
pub struct Withdraw {
    /// The endpoint by its serial number, local id or hardware id; with .N behind it this
    /// virtual endpoint of it [default: all of it]
    #[arg(value_name = "ENDPOINT")]
    endpoint: String,
    #[command(flatten)]
    waiting: Waiting,
}

impl Waiting {
    /// Whether the command waits for it.
    pub fn wanted(&self) -> bool {
        !self.no_wait
    }

    /// For how long at most.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// What was ordered, and what became of it.
#[derive(Serialize)]
struct Report {
    ok: bool,
    assignments: Vec<Named>,
    seconds: f64,
}

/// An assignment with the names of what is in it.
#[derive(Clone, Serialize)]
pub struct Named {
    endpoint_name: String,
    root_name: String,
    #[serde(flatten)]
    pub assignment: Assignment,
}

impl Named {
    /// With the names that the master knows.
    pub fn new(assignment: &Assignment, known: &Known) -> Self {
        let names = Names::new(known.components.as_deref());
        let (endpoint_name, root_name) = (names.of(assignment.endpoint), names.of(assignment.root));
        Named { endpoint_name, root_name, assignment: *assignment }
    }

    /// ENDPOINT.VE.
    pub fn ve(&self) -> String {
        format!("{}.{}", self.endpoint_name, self.assignment.ve)
    }

    /// The host.
    pub fn root(&self) -> &str {
        &self.root_name
    }
}

fn report(
    context: &Context,
    all: &[Assignment],
    known: &Known,
    start: Instant,
    said: &str,
) -> Result<(), End> {
    let assignments = all.iter().map(|assignment| Named::new(assignment, known)).collect();
    let report = Report { ok: true, assignments, seconds: start.elapsed().as_secs_f64() };
    context.print(&report, |report| {
        let line = |assignment: &Named| {
            said.replace("VE", &assignment.ve())
                .replace("HOST", &format!("host {}", assignment.root()))
        };
        report.assignments.iter().map(|assignment| line(assignment) + "\n").collect()
    })
}

pub fn assign(context: &Context, args: &Assign) -> Result<(), End> {
    let start = Instant::now();
    let port = Port::open(&context.port()?)?;
    let say = |what: &str| context.say(what);
    let order = Order::new(&port, args.waiting.timeout(), &say);
    let (wanted, known) = order.change(|known, assignments| {
        let wanted = change::assign(known, &args.endpoint, &args.host, args.force)?;
        for assignment in &wanted {
            assignments.assign(assignment.line());
        }
        Ok(wanted)
    })?;
    if !args.waiting.wanted() {
        let said = "VE is to be HOST's: `weftctl assignments` says what became of it";
        return report(context, &wanted, &known, start, said);
    }
    let all = order.fulfilled(&wanted, &known)?;
    match unfulfilled(&all, &known) {
        Some(failure) => Err(failure.into()),
        None => report(context, &all, &known, start, "VE is HOST's"),
    }
}

pub fn withdraw(context: &Context, args: &Withdraw) -> Result<(), End> {
    let start = Instant::now();
    let port = Port::open(&context.port()?)?;
    let say = |what: &str| context.say(what);
    let order = Order::new(&port, args.waiting.timeout(), &say);
    let (taken, known) = order.change(|known, assignments| {
        let taken = change::withdraw(known, &args.endpoint)?;
        for assignment in &taken {
            let line = assignment.line();
            assignments.withdraw(line.endpoint, line.ve);
        }
        Ok(taken)
    })?;
    if taken.is_empty() {
        context.say(&format!("{} was no host's", args.endpoint));
    }
    if args.waiting.wanted() {
        order.let_go(&taken, &known)?;
    }
    let taken: Vec<Assignment> =
        taken.iter().map(|assignment| Assignment { state: None, ..*assignment }).collect();
    let said = match args.waiting.wanted() {
        true => "VE is HOST's no more",
        false => "VE is to be no host's; HOST may have it for a moment yet",
    };
    report(context, &taken, &known, start, said)
}
