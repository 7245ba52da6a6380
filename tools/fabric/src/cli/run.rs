// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `run`: the daemon itself.

use super::{Context, Failure, check};
use crate::daemon;
use crate::topology::Problem;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// The topology's file
    topology: PathBuf,
}

pub fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let topology = check::read(&args.topology)?.map_err(|problems| {
        let line = |p: &Problem| check::At(&args.topology, p.line, &p.message).to_string();
        let lines: Vec<_> = problems.iter().map(line).collect();
        Failure::Failed(lines.join("\nweft-fabric: "))
    })?;
    daemon::serve(topology, &args.topology, &context.dir).map_err(Failure::Failed)
}
