// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `trace`: traced mode of a port, in which its windows trap and are counted.

use super::client::ask;
use super::{Context, Failure};
use crate::control::Request;

#[derive(clap::Args)]
pub struct Args {
    /// The host
    #[arg(value_name = "HOST")]
    node: String,
    /// Whether to count
    state: State,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum State {
    On,
    Off,
}

pub fn run(context: &Context, args: Args) -> Result<(), Failure> {
    ask(context, &Request::Trace { node: args.node, on: args.state == State::On })?;
    context.done()
}
