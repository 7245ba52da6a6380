// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `diagnose`: why it does not work, and what mends it.

use super::{Context, End};
use crate::diagnose::snapshot::{Family, Function, Link, Node, Unseen};
use crate::diagnose::{Finding, Snapshot, ask, collect, diagnose, is_settling, is_wrong, picture};
use crate::failure::{Failure, Kind, plain};
use serde::Serialize;
use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Two drivers that are well have said hello after this, and managers have found a master.
const SETTLED: Duration = Duration::from_millis(1500);

#[derive(clap::Args)]
pub struct Args {
    /// Keep what was looked at in a file, to be judged elsewhere
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    record: Option<PathBuf>,
    /// Judge what another host has recorded
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Documentation/man/weftctl.8 says what the members are.
#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    findings: &'a [Finding],
    unseen: &'a [Unseen],
    ports: Vec<PortReport<'a>>,
    picture: &'a [String],
}

#[derive(Serialize)]
struct PortReport<'a> {
    address: &'a str,
    family: Family,
    driver: Option<&'a str>,
    port: Option<&'a str>,
    links: Vec<LinkReport<'a>>,
}

#[derive(Serialize)]
struct LinkReport<'a> {
    link: u32,
    state: &'a str,
    peer_hwid: &'a str,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let mut snapshot = take(context, args)?;
    if let Some(file) = &args.record {
        let text = serde_json::to_string_pretty(&snapshot).unwrap_or_default() + "\n";
        fs::write(file, text).map_err(|e| failed(file, "cannot be written", &plain(e)))?;
    }
    if let Some(name) = context.port.as_ref().and_then(|path| path.file_name()) {
        only(&mut snapshot, &name.to_string_lossy());
    }
    let findings = diagnose(&snapshot);
    let drawing = picture(&snapshot, &findings, args.from.is_none() && can_show_utf8());
    let wrong = is_wrong(&findings);
    let report = Report {
        ok: !wrong,
        findings: &findings,
        unseen: &snapshot.unseen,
        ports: ports(&snapshot),
        picture: &drawing,
    };
    context.print(&report, text)?;
    if wrong { Err(End::Reported(Kind::Failed)) } else { Ok(()) }
}

/// What there is to see, here and now or in a file.
fn take(context: &Context, args: &Args) -> Result<Snapshot, Failure> {
    if let Some(file) = &args.from {
        let text =
            fs::read_to_string(file).map_err(|e| failed(file, "cannot be read", &plain(e)))?;
        return serde_json::from_str(&text)
            .map_err(|e| failed(file, "is no record of weftctl diagnose", &e.to_string()));
    }
    let snapshot = look();
    if !is_settling(&snapshot) {
        return Ok(snapshot);
    }
    if io::stderr().is_terminal() {
        context.say("links or routes are about to come: looking once more");
    }
    std::thread::sleep(SETTLED);
    Ok(look())
}

fn look() -> Snapshot {
    let mut snapshot = collect(Path::new("/"));
    ask(&mut snapshot);
    snapshot
}

fn failed(file: &Path, what: &str, why: &str) -> Failure {
    Failure::new(Kind::Failed, format!("{} {what}: {why}", file.display()))
}

/// Leaves out the other ports, also what the log says of them: what is left out is not gone.
fn only(snapshot: &mut Snapshot, name: &str) {
    let is_other = |f: &Function| f.port.as_ref().is_some_and(|port| port.name != name);
    let (others, own): (Vec<_>, _) =
        std::mem::take(&mut snapshot.functions).into_iter().partition(is_other);
    snapshot.functions = own;
    if let Some(log) = &mut snapshot.log {
        log.retain(|line| !others.iter().any(|f| line.contains(&f.address)));
    }
    snapshot.nodes.retain(|node| node.name == name);
    if snapshot.nodes.is_empty() {
        snapshot.nodes.push(Node { name: name.into(), ..Node::default() });
    }
}

fn can_show_utf8() -> bool {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|l| ["utf-8", "utf8"].iter().any(|u| l.to_ascii_lowercase().contains(u)))
}

/// The ports, with their links to others.
fn ports(snapshot: &Snapshot) -> Vec<PortReport<'_>> {
    let is_other = |link: &&Link| !link.is_loopback();
    let functions = snapshot.functions.iter().map(|function| PortReport {
        address: &function.address,
        family: function.family,
        driver: function.driver.as_deref(),
        port: function.port.as_ref().map(|port| port.name.as_str()),
        links: function
            .port
            .iter()
            .flat_map(|port| &port.links)
            .filter(is_other)
            .map(link)
            .collect(),
    });
    functions.collect()
}

fn link(link: &Link) -> LinkReport<'_> {
    LinkReport { link: link.number, state: &link.state, peer_hwid: &link.peer_hwid }
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for Finding { level, at, what, mend, id } in report.findings {
        out.push_str(&format!("{level}: {at}: {what} [{id}]\n"));
        if !mend.is_empty() {
            out.push_str(&format!("  mend: {mend}\n"));
        }
    }
    if report.ok {
        let links = || report.ports.iter().flat_map(|port| &port.links);
        let ready = links().filter(|link| link.state == "ready").count();
        out.push_str(&format!("nothing is wrong: {ready} of {} links ready\n", links().count()));
    }
    if !report.unseen.is_empty() {
        out.push_str("\nnot looked at:\n");
        for unseen in report.unseen {
            out.push_str(&format!("  {}: {}\n", unseen.what, unseen.why));
        }
    }
    if !report.picture.is_empty() {
        out.push('\n');
        for line in report.picture {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}
