// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `check`: reads a topology and says everything that is wrong with it.

use super::{Context, Failure};
use crate::topology::{Problem, Topology, parse};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// The topology's file
    topology: PathBuf,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    hosts: usize,
    switches: usize,
    endpoints: usize,
    cables: usize,
    links: Vec<[String; 2]>,
    problems: Vec<JsonProblem>,
}

#[derive(Serialize)]
struct JsonProblem {
    line: usize,
    message: String,
}

/// A problem of a file, as people are told of it.
pub struct At<'a>(pub &'a Path, pub usize, pub &'a str);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let At(file, line, message) = self;
        match line {
            0 => write!(f, "{}: {message}", file.display()),
            line => write!(f, "{}:{line}: {message}", file.display()),
        }
    }
}

/// Reads a file; the inner error is what is wrong with its content.
pub fn read(path: &Path) -> Result<Result<Topology, Vec<Problem>>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Failed(format!("cannot read {}: {e}", path.display())))?;
    Ok(parse(&text))
}

pub fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let file = args.topology.display();
    match read(&args.topology)? {
        Ok(topology) => {
            let names = |p: &crate::topology::Path| p.ends.map(|e| topology.host_end_name(e));
            let shared = topology.hosts.iter().filter(|h| h.endpoint.is_some());
            let endpoints = shared.count();
            let report = Report {
                ok: true,
                hosts: topology.hosts.len() - endpoints,
                switches: topology.switches.len(),
                endpoints,
                cables: topology.cables.len(),
                links: topology.paths.iter().map(names).collect(),
                problems: vec![],
            };
            context.print(&report, |r| {
                format!(
                    "{file}: in order; hosts: {}, switches: {}, endpoints: {}, cables: {}, \
                     links between hosts: {}\n",
                    r.hosts,
                    r.switches,
                    r.endpoints,
                    r.cables,
                    r.links.len()
                )
            })
        }
        Err(problems) => {
            let count = problems.len();
            let problems =
                problems.into_iter().map(|Problem { line, message }| JsonProblem { line, message });
            let report = Report {
                ok: false,
                hosts: 0,
                switches: 0,
                endpoints: 0,
                cables: 0,
                links: vec![],
                problems: problems.collect(),
            };
            context.print(&report, |r| {
                let line =
                    |p: &JsonProblem| format!("{}\n", At(&args.topology, p.line, &p.message));
                r.problems.iter().map(line).collect()
            })?;
            // The problems were the output; this only sets the exit status.
            let problems = if count == 1 { "problem" } else { "problems" };
            Err(Failure::Reported(format!("{file}: {count} {problems}")))
        }
    }
}
