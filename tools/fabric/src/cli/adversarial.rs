// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `adversarial`: adversarial mode of a port, in which it reorders and delays what it may.

use super::client::ask;
use super::{Context, Failure};
use crate::control::Request;

#[derive(clap::Args)]
pub struct Args {
    /// The host
    #[arg(value_name = "HOST")]
    node: String,
    /// Whether to be
    state: State,
    /// What all chance is drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum State {
    On,
    Off,
}

pub fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let seed = (args.state == State::On).then_some(args.seed);
    ask(context, &Request::Adversarial { node: args.node, seed })?;
    context.done()
}
