// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `plug` and `unplug`: hosts, endpoints and switches come and go.

use super::client::ask;
use super::{Context, Failure};
use crate::control::Request;

#[derive(clap::Args)]
pub struct Args {
    /// A host, an endpoint or a switch
    node: String,
    /// Only have it announced, to the host that programs the switch
    #[arg(long)]
    announce: bool,
}

pub fn run(context: &Context, args: Args, plug: bool) -> Result<(), Failure> {
    let Args { node, announce } = args;
    let request = match (announce, plug) {
        (true, coming) => Request::Announce { node, coming },
        (false, true) => Request::Plug { node },
        (false, false) => Request::Unplug { node },
    };
    ask(context, &request)?;
    context.done()
}
