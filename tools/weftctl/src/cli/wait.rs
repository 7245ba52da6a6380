// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `wait`: until links are in a state.

use super::{Context, End, seconds};
use crate::channel::{LinkInfo, Port};
use crate::failure::{Failure, Kind};
use clap::ValueEnum;
use serde::Serialize;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Only this link [default: all that have been up, at least one, or a route to a host]
    #[arg(long, value_name = "N")]
    link: Option<u32>,
    /// The state to wait for
    #[arg(long, value_enum, default_value_t = State::Ready)]
    state: State,
    /// How long; if given, a port that is not there is waited for as well
    /// [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    Down,
    Hello,
    Ready,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Down => "down",
            State::Hello => "hello",
            State::Ready => "ready",
        }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    seconds: f64,
}

/// With several links, of ports that come and go, asking again is simpler than
/// sleeping on each of them in sysfs.
const PAUSE: Duration = Duration::from_millis(20);

/// What takes longer is told of.
const SOON: Duration = Duration::from_secs(1);

/// The hint of each failure.
const WHY: &str = "`weftctl diagnose` says why";

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let start = Instant::now();
    let timeout = args.timeout.unwrap_or(Duration::from_secs(30));
    let mut told = String::new();
    while let Err(failure) = check(context, args) {
        let passing = match failure.kind {
            Kind::Unreachable => true,
            Kind::NoDevice => args.timeout.is_some(),
            _ => false,
        };
        let left = timeout.saturating_sub(start.elapsed());
        if !passing || left.is_zero() {
            return Err(failure.into());
        }
        if start.elapsed() >= SOON && told != failure.message {
            told.clone_from(&failure.message);
            context.say(&told);
        }
        std::thread::sleep(PAUSE.min(left));
    }
    let report = Report { ok: true, seconds: start.elapsed().as_secs_f64() };
    context.print(&report, |_| String::new())
}

/// Whether it is so; if not, why not.
fn check(context: &Context, args: &Args) -> Result<(), Failure> {
    for path in context.ports()? {
        let port = Port::open(&path)?;
        let links = port.links()?;
        let shown = path.display();
        if let Some(n) = args.link.filter(|n| links.iter().all(|link| link.link != *n)) {
            let message =
                format!("{shown} has no link {n}; it has {} of them, from 0 on", links.len());
            return Err(Failure::new(Kind::Usage, message));
        }
        // Without --link those that never were up do not count, nor those to switches, but one has to be
        // there.
        let plugged = |link: &&LinkInfo| {
            let is_there = link.speed != 0 || link.trained != 0;
            args.link.is_some() || link.state != "switch" && !link.is_loopback() && is_there
        };
        let at_switch = links.iter().any(|link| link.state == "switch");
        if !links.iter().any(|link| plugged(&link)) {
            // What connects to a host behind the switch has a link made.
            if at_switch && args.state == State::Ready && port.has_routes() {
                continue;
            }
            let failure = match at_switch {
                true => format!("{shown} is at a switch, and no host was found behind it yet"),
                false => format!("no link of {shown} is up"),
            };
            return Err(Failure::new(Kind::Unreachable, failure).hint(WHY));
        }
        let asked = links.iter().filter(|link| args.link.is_none_or(|n| n == link.link));
        let asked = asked.filter(plugged);
        let mut others = asked.filter(|link| link.state != args.state.name());
        if let Some(link) = others.next() {
            let (n, state, want) = (link.link, &link.state, args.state.name());
            let message = format!("link {n} of {shown} is {state}, not {want}");
            let failure = Failure::new(Kind::Unreachable, message);
            return Err(match state.as_str() {
                "hello" => {
                    failure.hint("is the driver loaded at the other end? see weftctl diagnose")
                }
                _ => failure.hint(WHY),
            });
        }
    }
    Ok(())
}
