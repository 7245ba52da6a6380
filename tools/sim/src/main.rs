// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `weft-sim`: fabrics of many nodes in one process, and what their managers cost.

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};
use weft_proto::nm::{
    member::Member,
    scale::{directory::Holder, entry::Entry, letter::Name},
    table::Slot,
};
use weft_sim::{
    check,
    rng::Rng,
    scale::{Manager as Large, Measured, Scale, Traffic},
    topology::{Kind, Topology},
    world::{Faults, Manager, World},
};

/// Simulate fabrics of Weft nodes: discovery, election, local ids, routes.
///
/// The nodes are the network manager that the driver has, message by message. The same seed gives the
/// same run.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Nodes that report up a tree: what it costs until all have ids and routes.
    Scale(ScaleArgs),
    /// Nodes that all explore, as PEARL's do: up to 256.
    Seed(SeedArgs),
}

#[derive(Args)]
struct Common {
    /// chain, ring, torus, tree, random, switched, and with scale also fat; all for each in turn.
    #[arg(long, default_value = "all")]
    topology: String,
    /// What everything follows from that is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ScaleArgs {
    /// How many nodes: a number, or FROM..TO for each fourfold from the one to the other.
    #[arg(long, default_value = "16..65536")]
    nodes: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct SeedArgs {
    /// How many nodes: a number up to 256, or FROM..TO for each fourfold.
    #[arg(long, default_value = "4..256")]
    nodes: String,
    /// Of a thousand messages so many are lost.
    #[arg(long, default_value_t = 0)]
    lost: u32,
    /// Of a thousand messages so many come twice.
    #[arg(long, default_value_t = 0)]
    doubled: u32,
    /// Of a thousand messages so many are overtaken by others.
    #[arg(long, default_value_t = 0)]
    late: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct ScaleResult {
    topology: &'static str,
    nodes: usize,
    links: usize,
    #[serde(flatten)]
    traffic: Traffic,
    rounds: u64,
    link_mean_messages: f64,
    link_worst_messages: u32,
    link_worst_bytes: u64,
    host_bytes: usize,
    master_bytes: usize,
    #[serde(flatten)]
    measured: Measured,
    /// What is sent when a node has died.
    death_messages: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct SeedResult {
    topology: &'static str,
    nodes: usize,
    #[serde(flatten)]
    traffic: Traffic,
    milliseconds: u64,
    node_bytes: usize,
    seconds: f64,
}

/// Says on stderr how far it is, once a second.
struct Progress {
    what: String,
    start: Instant,
    last: Instant,
}

impl Progress {
    fn new(what: String) -> Self {
        let now = Instant::now();
        Self { what, start: now, last: now }
    }

    fn tell(&mut self, how: impl FnOnce() -> String) {
        if self.last.elapsed() >= Duration::from_secs(1) {
            self.last = Instant::now();
            eprintln!("{}: {} ({} s)", self.what, how(), self.start.elapsed().as_secs());
        }
    }
}

fn sizes(text: &str, most: usize) -> Result<Vec<usize>, String> {
    let number = |text: &str| {
        let number = text.parse::<usize>().ok().filter(|n| (1..=most).contains(n));
        number.ok_or(format!("--nodes {text}: a number from 1 to {most}, or two with .. between"))
    };
    let Some((from, to)) = text.split_once("..") else {
        return Ok(vec![number(text)?]);
    };
    let (from, to) = (number(from)?, number(to)?);
    let sizes = std::iter::successors(Some(from), |n| n.checked_mul(4));
    let sizes: Vec<usize> = sizes.take_while(|n| *n <= to).collect();
    if sizes.is_empty() { Err(format!("--nodes {text}: goes down")) } else { Ok(sizes) }
}

fn kinds(name: &str, all: &[Kind]) -> Result<Vec<Kind>, String> {
    match name {
        "all" => Ok(all.to_vec()),
        name => Ok(vec![name.parse().map_err(|why| format!("--topology {name}: {why}"))?]),
    }
}

fn hwids(nodes: usize, seed: u64) -> Vec<u64> {
    let mut hwids: Vec<u64> = (1..=nodes as u64).collect();
    Rng::new(seed).shuffle(&mut hwids);
    hwids
}

fn scale(kind: Kind, nodes: usize, seed: u64) -> Result<ScaleResult, String> {
    let mut progress = Progress::new(format!("{kind} of {nodes}"));
    let topology = Topology::of(kind, nodes, seed);
    let (nodes, links) = (topology.len(), topology.links().len());
    let mut scale = Scale::new(topology, hwids(nodes, seed), seed);
    scale.power_on_all();
    let limit = 100 * nodes as u64 + 100_000;
    let quiet = scale.run(limit, |scale| {
        progress.tell(|| format!("round {}, {} messages", scale.now, scale.traffic.messages));
    });
    if !quiet {
        return Err(format!("{kind} of {nodes}: not quiet after {limit} rounds"));
    }
    let rounds = scale.changed;
    progress.tell(|| "quiet; following routes".into());
    let measured = scale.check(4096, seed).map_err(|why| format!("{kind} of {nodes}: {why}"))?;
    let traffic = scale.traffic;
    let (link_worst_messages, link_worst_bytes) = scale.worst();
    scale.count_anew();
    // The first node may be a switch; it is not the master.
    let dead = usize::from(scale.hwids.first() == Some(&1));
    scale.power(dead, false);
    if !scale.run(limit, |_| ()) {
        return Err(format!("{kind} of {nodes}: not quiet after a death: {}", scale.busy()));
    }
    let host = size_of::<Large>() + measured.routes.1 * size_of::<Entry>();
    Ok(ScaleResult {
        topology: kind.name(),
        nodes,
        links,
        traffic,
        rounds,
        link_mean_messages: traffic.messages as f64 / (2 * links).max(1) as f64,
        link_worst_messages,
        link_worst_bytes,
        host_bytes: host,
        master_bytes: host + nodes * (size_of::<Name>() + size_of::<Holder>()),
        measured,
        death_messages: scale.traffic.messages,
        seconds: progress.start.elapsed().as_secs_f64(),
    })
}

fn seed(kind: Kind, nodes: usize, args: &SeedArgs) -> Result<SeedResult, String> {
    let mut progress = Progress::new(format!("{kind} of {nodes}"));
    let seed = args.common.seed;
    let mut world = World::new(Topology::of(kind, nodes, seed), hwids(nodes, seed), seed);
    world.faults = Faults { lost: args.lost, doubled: args.doubled, late: args.late, spoilt: 0 };
    let milliseconds = check::settle_telling(&mut world, 500, 120_000, |world| {
        progress.tell(|| format!("{} ms, {} messages", world.now(), world.messages));
    });
    let milliseconds = milliseconds.map_err(|why| format!("{kind} of {nodes}: {why}"))?;
    Ok(SeedResult {
        topology: kind.name(),
        nodes,
        traffic: Traffic { messages: world.messages, bytes: world.bytes },
        milliseconds,
        node_bytes: size_of::<Manager>() + nodes * (size_of::<Member>() + 2 * size_of::<Slot>()),
        seconds: progress.start.elapsed().as_secs_f64(),
    })
}

fn print_scale(r: &ScaleResult) {
    println!(
        "{:8} {:6} {:6} {:9} {:11} {:6} {:7.1} {:6} {:7.1} {:5} {:7} {:8} {:7} {:7.2} {:8} {:6.1}",
        r.topology,
        r.nodes,
        r.links,
        r.traffic.messages,
        r.traffic.bytes,
        r.rounds,
        r.link_mean_messages,
        r.link_worst_messages,
        r.measured.routes.0,
        r.measured.routes.1,
        r.host_bytes,
        r.master_bytes,
        r.measured.longest,
        r.measured.stretch,
        r.death_messages,
        r.seconds,
    );
}

fn run(cli: &Cli) -> Result<(), String> {
    let json = |line: Result<String, serde_json::Error>| {
        line.map(|line| println!("{line}")).map_err(|why| why.to_string())
    };
    match &cli.command {
        Command::Scale(args) => {
            let kinds = kinds(&args.common.topology, &Kind::LARGE)?;
            let sizes = sizes(&args.nodes, 65_536)?;
            if !args.common.json {
                println!(
                    "{:8} {:>6} {:>6} {:>9} {:>11} {:>6} {:>7} {:>6} {:>7} {:>5} {:>7} {:>8} {:>7} {:>7} {:>8} {:>6}",
                    "",
                    "nodes",
                    "links",
                    "messages",
                    "bytes",
                    "rounds",
                    "a link",
                    "worst",
                    "routes",
                    "most",
                    "B host",
                    "B master",
                    "longest",
                    "stretch",
                    "death",
                    "s",
                );
            }
            for kind in kinds {
                // A route has no more than 32 links.
                for nodes in sizes.iter().filter(|n| kind != Kind::Ring || **n <= 32) {
                    let result = scale(kind, *nodes, args.common.seed)?;
                    if args.common.json {
                        json(serde_json::to_string(&result))?;
                    } else {
                        print_scale(&result);
                    }
                }
            }
        }
        Command::Seed(args) => {
            let kinds = kinds(&args.common.topology, &Kind::ALL)?;
            let sizes = sizes(&args.nodes, 256)?;
            if !args.common.json {
                println!(
                    "{:7} {:>6} {:>9} {:>11} {:>6} {:>10} {:>6}",
                    "", "nodes", "messages", "bytes", "ms", "B a node", "s"
                );
            }
            for kind in kinds {
                for nodes in &sizes {
                    let r = seed(kind, *nodes, args)?;
                    if args.common.json {
                        json(serde_json::to_string(&r))?;
                    } else {
                        println!(
                            "{:7} {:6} {:9} {:11} {:6} {:10} {:6.1}",
                            r.topology,
                            r.nodes,
                            r.traffic.messages,
                            r.traffic.bytes,
                            r.milliseconds,
                            r.node_bytes,
                            r.seconds
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("weft-sim: {why}");
            ExitCode::FAILURE
        }
    }
}
