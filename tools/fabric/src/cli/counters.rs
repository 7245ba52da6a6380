// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `counters`: what a port has counted, asked of its QEMU.

use super::client::{ask, mismatch};
use super::{Context, Failure};
use crate::control::{Answer, COUNTERS, Request};
use std::fmt::Write;

#[derive(clap::Args)]
pub struct Args {
    /// The host
    #[arg(value_name = "HOST")]
    node: String,
    /// Set all to 0 after reading them
    #[arg(long)]
    clear: bool,
}

pub fn run(context: &Context, args: Args) -> Result<(), Failure> {
    match ask(context, &Request::Counters { node: args.node, clear: args.clear })? {
        Answer::Counters(counters) => context.print(&counters, |c| {
            COUNTERS.iter().filter_map(|name| Some((name, c.counters.get(*name)?))).fold(
                String::new(),
                |mut text, (name, value)| {
                    let _ = writeln!(text, "{name:13} {value:>15}");
                    text
                },
            )
        }),
        other => mismatch(&other),
    }
}
