// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `wait`: returns when hosts are connected, and links up.

use super::client::Client;
use super::{Context, Failure};
use crate::control::Request;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Hosts to wait for [default: all]
    nodes: Vec<String>,
    /// Wait for the links of the hosts as well, but those switched off
    #[arg(long)]
    links: bool,
    /// Fail after this long [default: wait for ever]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

pub fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let Args { nodes, links, timeout } = args;
    let timeout_ms = timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
    let mut client = Client::connect(context)?;
    // The daemon keeps the time.
    client.wait_at_most(None)?;
    client.ask(&Request::Wait { nodes, links, timeout_ms })?;
    context.done()
}
