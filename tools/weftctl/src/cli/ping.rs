// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `ping`: how long a message takes there and back, and the other end of it.

use super::number::{hwid, service};
use super::{Context, End, seconds};
use crate::channel::{Channel, Connector, Port, Target};
use crate::failure::{Failure, Kind};
use crate::ping::{Latency, latency, round_trip, serve};
use crate::transfer::Connect;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The service that `ping --serve` listens on unless told.
const SERVICE: u32 = 7002;
const MAX_SIZE: i64 = 65536;

#[derive(clap::Args)]
pub struct Args {
    /// Be the other end: send back what comes
    #[arg(long, conflicts_with_all = ["to", "link", "count", "size", "interval"])]
    serve: bool,
    /// With --serve: end after one connection
    #[arg(long, requires = "serve")]
    once: bool,
    /// Hardware id of the peer
    #[arg(long, value_name = "HWID", value_parser = hwid, visible_alias = "peer")]
    to: Option<u64>,
    /// Number of the link
    #[arg(long, value_name = "N")]
    link: Option<u32>,
    /// Service number at the peer
    #[arg(long, value_name = "S", value_parser = service, default_value_t = SERVICE)]
    service: u32,
    /// How many messages
    #[arg(long, short, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Bytes of a message
    #[arg(long, short, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(0..=MAX_SIZE))]
    size: u32,
    /// Pause between messages, 0 for none
    #[arg(long, short, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    interval: Duration,
    /// How long to wait for the peer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    peer: String,
    link: u32,
    service: u32,
    size: u32,
    count: usize,
    #[serde(flatten)]
    latency: Option<Latency>,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    if args.serve { listen(context, args) } else { measure(context, args) }
}

fn measure(context: &Context, args: &Args) -> Result<(), End> {
    let target = Target { port: context.port.clone(), peer: args.to, link: args.link };
    let mut connector = Connector::new(target, args.service);
    let mut channel = connector.connect(Instant::now() + args.timeout).map_err(|no| no.failure)?;
    let payload: Vec<u8> = (0..args.size).map(|n| n as u8).collect();
    let (mut echo, mut times) = (Vec::new(), Vec::new());
    for tag in 1..=u64::from(args.count) {
        if tag > 1 {
            std::thread::sleep(args.interval);
        }
        times.push(round_trip(&mut channel, tag, &payload, &mut echo, args.timeout)?);
    }
    let report = Report {
        ok: true,
        peer: channel.peer(),
        link: channel.link(),
        service: args.service,
        size: args.size,
        count: times.len(),
        latency: latency(&times),
    };
    context.print(&report, |r| {
        let Report { peer, link, size, count, .. } = r;
        let head = format!("{peer} by link {link}: {count} messages of {size} bytes came back\n");
        let times = r.latency.as_ref().map(|l| {
            format!(
                "round trip: min {:.1}, median {:.1}, p99 {:.1}, max {:.1} microseconds\n",
                l.min_us, l.median_us, l.p99_us, l.max_us
            )
        });
        head + &times.unwrap_or_default()
    })
}

/// Connections that are served at once; each has a thread.
const MAX_PEERS: usize = 32;

fn listen(context: &Context, args: &Args) -> Result<(), End> {
    let path = context.port()?;
    let listener = Port::open(&path)?.listen(args.service)?;
    context.say(&format!("listening on {}, service {}", path.display(), args.service));
    let mut threads: Vec<std::thread::JoinHandle<()>> = Vec::new();
    loop {
        let Some(channel) = listener.accept(None)? else { continue };
        if args.once {
            return echo(channel, args.timeout).map_err(End::from);
        }
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= MAX_PEERS {
            context.say(&format!("{}: turned away, {MAX_PEERS} are served", channel.peer()));
            continue;
        }
        let timeout = args.timeout;
        threads.push(std::thread::spawn(move || {
            // How a peer ends is its own affair.
            let _ = echo(channel, timeout);
        }));
    }
}

fn echo(mut channel: Channel, timeout: Duration) -> Result<(), Failure> {
    let peer = channel.peer();
    let ended = serve(&mut channel, timeout).map(|_| ());
    ended.map_err(|broken| Failure::new(Kind::Unreachable, format!("{peer}: {broken}")))
}
