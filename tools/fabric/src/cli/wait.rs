// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `wait`: returns when hosts are connected, and links up; says meanwhile what it waits for.

use super::client::Client;
use super::{Context, Failure};
use crate::control::{Request, TIMED_OUT};
use std::time::{Duration, Instant};

/// After so long it says what it waits for, then after twice as long, and so on, up to this.
const TELL: Duration = Duration::from_secs(1);
const TELL_MAX: Duration = Duration::from_secs(60);

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
    let mut client = Client::connect(context)?;
    // The daemon keeps the time.
    client.wait_at_most(None)?;
    let since = Instant::now();
    let mut tell = TELL;
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
        let step = left.map_or(tell, |left| left.min(tell));
        let timeout_ms = Some(u64::try_from(step.as_millis()).unwrap_or(u64::MAX));
        match client.ask(&Request::Wait { nodes: nodes.clone(), links, timeout_ms }) {
            Err(Failure::Failed(why)) if left.is_none_or(|left| left > step) => {
                let Some(missing) = why.strip_prefix(TIMED_OUT) else {
                    return Err(Failure::Failed(why));
                };
                eprintln!("weft-fabric: waiting: {missing}");
                tell = (tell * 2).min(TELL_MAX);
            }
            done => {
                done?;
                return context.done();
            }
        }
    }
}
