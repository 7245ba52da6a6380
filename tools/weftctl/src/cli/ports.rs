// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `ports`: the links of all ports, a line each, with what they could do; and what
//! the ports have counted. By sysfs alone: nothing is opened.

use super::number::bytes;
use super::table::table;
use super::{Context, End, seconds};
use crate::channel::{no_port, no_ports};
use crate::diagnose::collect;
use crate::diagnose::snapshot::{Link, Port};
use crate::watch::state::places;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Leave out links without a cable
    #[arg(long)]
    cabled: bool,
    /// Show it again every so often, with counts a second, until Ctrl-C
    #[arg(long, value_name = "SECONDS", value_parser = pause)]
    watch: Option<Duration>,
}

/// Looking without a pause would only keep a processor busy.
const LEAST: Duration = Duration::from_millis(100);

fn pause(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        pause if pause < LEAST => Err(format!("at least {} seconds", LEAST.as_secs_f64())),
        pause => Ok(pause),
    }
}

#[derive(Serialize)]
struct Report {
    ports: Vec<Entry>,
    /// Since the report before.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip)]
    before: BTreeMap<String, BTreeMap<String, u64>>,
}

#[derive(Serialize)]
struct Entry {
    port: String,
    address: Option<String>,
    hwid: String,
    present: Option<bool>,
    fabric: Option<bool>,
    /// Functions of shared endpoints: how many programs can have, have, and have that are held until
    /// there is a route. `None`: the driver does not say.
    endpoint_slots: Option<u64>,
    endpoint_functions: Option<u64>,
    endpoint_held: Option<u64>,
    links: Vec<LinkEntry>,
    counters: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct LinkEntry {
    link: u32,
    state: String,
    cable: bool,
    present: Option<bool>,
    speed: u64,
    width: u64,
    max_speed: Option<u64>,
    max_width: Option<u64>,
    power: Option<String>,
    role: String,
    trained: u64,
    peer_hwid: Option<String>,
    lid: Option<u64>,
    hops: Option<u64>,
    channels: u64,
    channels_broken: u64,
    queue_pairs: u64,
    sockets: u64,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let mut before = BTreeMap::new();
    let mut last: Option<Instant> = None;
    loop {
        let now = Instant::now();
        let ports = look(context, args)?;
        let counters = ports.iter().map(|e| (e.port.clone(), e.counters.clone())).collect();
        let seconds = last.map(|last| now.duration_since(last).as_secs_f64());
        context.print(&Report { ports, seconds, before }, shown)?;
        let Some(pause) = args.watch else { return Ok(()) };
        if !context.json {
            context.print(&(), |()| "\n".into())?;
        }
        (before, last) = (counters, Some(now));
        std::thread::sleep(pause);
    }
}

fn look(context: &Context, args: &Args) -> Result<Vec<Entry>, End> {
    let wanted = context.port.as_ref().map(|path| path.file_name().unwrap_or_default());
    let mut ports = Vec::new();
    for place in places(Path::new("/")) {
        if wanted.is_none_or(|wanted| *wanted == *place.name) {
            // One that goes in this moment is none.
            let Some(port) = collect::port(&place.dir) else { continue };
            ports.push(entry(&port, place.address(), args.cabled));
        }
    }
    match (&context.port, ports.is_empty()) {
        (_, false) => Ok(ports),
        (Some(path), true) => Err(no_port(path).into()),
        (None, true) => Err(no_ports().into()),
    }
}

fn entry(port: &Port, address: Option<String>, cabled: bool) -> Entry {
    let links = port.links.iter().map(link).filter(|link| link.cable || !cabled);
    Entry {
        port: format!("/dev/{}", port.name),
        address,
        hwid: short(&port.hwid).unwrap_or_default(),
        present: port.present,
        fabric: port.fabric,
        endpoint_slots: port.endpoint_slots,
        endpoint_functions: port.endpoint_functions,
        endpoint_held: port.endpoint_held,
        links: links.collect(),
        counters: port.counters.clone(),
    }
}

fn link(link: &Link) -> LinkEntry {
    LinkEntry {
        link: link.number,
        state: link.state.clone(),
        cable: !link.is_unplugged(),
        present: link.present,
        speed: link.speed,
        width: link.width,
        max_speed: link.max_speed,
        max_width: link.max_width,
        power: link.power.clone(),
        role: link.role.clone(),
        trained: link.trained,
        peer_hwid: short(&link.peer_hwid),
        lid: link.lid,
        hops: link.hops,
        channels: link.channels,
        channels_broken: link.channels_broken,
        queue_pairs: link.queue_pairs,
        sockets: link.sockets,
    }
}

/// A hardware id as other commands write it; `None`: it is not known.
fn short(hwid: &str) -> Option<String> {
    let digits = hwid.trim_start_matches("0x").trim_start_matches('0');
    (!digits.is_empty()).then(|| format!("0x{digits}"))
}

fn shown(report: &Report) -> String {
    let head = ["PORT", "LINK", "STATE", "RUNS", "CAN", "POWER", "ROLE", "NEIGHBOUR", "UPS"];
    let used = ["CHANNELS", "QPS", "SOCKETS"];
    let mut links = vec![head.into_iter().chain(used).map(String::from).collect()];
    let head =
        ["PORT", "HWID", "MESSAGES", "DOORBELLS", "DMA", "INTERRUPTS", "REFUSED", "FUNCTIONS"];
    let mut ports = vec![head.map(String::from).to_vec()];
    for entry in &report.ports {
        links.extend(entry.links.iter().map(|link| link_row(&entry.port, link)));
        let before = report.before.get(&entry.port);
        ports.push(port_row(entry, before.zip(report.seconds)));
    }
    let per = if report.seconds.is_some() { " a second" } else { "" };
    format!("{}\nsent/received{per}:\n{}", table(&links, 0), table(&ports, 0))
}

fn link_row(port: &str, link: &LinkEntry) -> Vec<String> {
    let rate = |speed: u64, width: u64| match speed {
        0 => "-".to_owned(),
        _ => format!("gen{speed} x{width}"),
    };
    let can = rate(link.max_speed.unwrap_or(0), link.max_width.unwrap_or(0));
    let broken = match link.channels_broken {
        0 => String::new(),
        broken => format!(", {broken} broken"),
    };
    vec![
        port.to_owned(),
        link.link.to_string(),
        if link.cable { link.state.clone() } else { "no cable".into() },
        rate(link.speed, link.width),
        can,
        link.power.clone().filter(|_| link.cable).unwrap_or("-".into()),
        match (link.cable, link.hops) {
            (_, Some(hops)) => format!("{hops} links"),
            (true, None) => link.role.clone(),
            (false, None) => "-".into(),
        },
        link.peer_hwid.clone().unwrap_or("-".into()),
        link.trained.to_string(),
        format!("{} open{broken}", link.channels),
        link.queue_pairs.to_string(),
        link.sockets.to_string(),
    ]
}

/// With what it was before, and how many seconds ago: what came in a second.
fn port_row(entry: &Entry, before: Option<(&BTreeMap<String, u64>, f64)>) -> Vec<String> {
    let count = |name: &str| {
        let now = *entry.counters.get(name)?;
        Some(match before {
            Some((before, seconds)) if seconds > 0.0 => {
                // A port that was reset counts anew.
                let more = now.saturating_sub(before.get(name).copied().unwrap_or(0));
                (more as f64 / seconds).round() as u64
            }
            _ => now,
        })
    };
    let text = |name| count(name).map_or("-".to_owned(), |n: u64| n.to_string());
    let both = |out, into| format!("{}/{}", text(out), text(into));
    let refused = ["doorbells_denied", "in_denied", "route_denied", "messages_dropped"];
    vec![
        entry.port.clone(),
        entry.hwid.clone(),
        both("tx_messages", "rx_messages"),
        both("tx_doorbells", "rx_doorbells"),
        count("dma_bytes").map_or("-".into(), bytes),
        text("interrupts"),
        refused.iter().filter_map(|name| count(name)).sum::<u64>().to_string(),
        functions(entry),
    ]
}

/// How many functions of shared endpoints are in use.
fn functions(entry: &Entry) -> String {
    let Some(open) = entry.endpoint_functions else { return "-".into() };
    let of = entry.endpoint_slots.map_or(String::new(), |slots| format!(" of {slots}"));
    match entry.endpoint_held {
        None | Some(0) => format!("{open}{of}"),
        Some(held) => format!("{open}{of}, {held} held"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(doorbells: u64) -> Port {
        let link = Link {
            state: "ready".into(),
            speed: 3,
            width: 4,
            max_speed: Some(4),
            max_width: Some(8),
            power: Some("auto".into()),
            present: Some(true),
            role: "root".into(),
            trained: 2,
            peer_hwid: "0x00000000000000a2".into(),
            channels: 1,
            channels_broken: 3,
            queue_pairs: 2,
            sockets: 40,
            ..Link::default()
        };
        let empty = Link {
            number: 1,
            state: "down".into(),
            max_speed: Some(0),
            present: Some(false),
            role: "root".into(),
            ..Link::default()
        };
        let counters = [("tx_messages", 5), ("rx_messages", 4), ("tx_doorbells", doorbells)];
        let more = [("rx_doorbells", 7), ("dma_bytes", 3 << 20), ("in_denied", 2)];
        Port {
            name: "weft0".into(),
            hwid: "0x0000000000000001".into(),
            links: vec![link, empty],
            endpoint_slots: Some(4),
            endpoint_functions: Some(2),
            endpoint_held: Some(1),
            counters: counters.into_iter().chain(more).map(|(n, c)| (n.to_owned(), c)).collect(),
            ..Port::default()
        }
    }

    fn report(cabled: bool) -> Report {
        let entry = entry(&port(9), None, cabled);
        Report { ports: vec![entry], seconds: None, before: BTreeMap::new() }
    }

    #[test]
    fn a_line_a_link_and_a_line_a_port() {
        assert_eq!(
            shown(&report(false)),
            "PORT        LINK  STATE     RUNS     CAN      POWER  ROLE  NEIGHBOUR  UPS  CHANNELS          QPS  SOCKETS\n\
             /dev/weft0  0     ready     gen3 x4  gen4 x8  auto   root  0xa2       2    1 open, 3 broken  2    40\n\
             /dev/weft0  1     no cable  -        -        -      -     -          0    0 open            0    0\n\
             \n\
             sent/received:\n\
             PORT        HWID  MESSAGES  DOORBELLS  DMA      INTERRUPTS  REFUSED  FUNCTIONS\n\
             /dev/weft0  0x1   5/4       9/7        3.0 MiB  -           2        2 of 4, 1 held\n"
        );
        assert!(!shown(&report(true)).contains("no cable"));
    }

    #[test]
    fn functions_of_endpoints_are_counted_where_the_driver_says() {
        let mut entry = entry(&port(9), None, false);
        entry.endpoint_held = Some(0);
        assert_eq!(functions(&entry), "2 of 4");
        entry.endpoint_functions = None;
        assert_eq!(functions(&entry), "-");
    }

    #[test]
    fn watched_counts_are_a_second() {
        let mut report = report(true);
        report.seconds = Some(2.0);
        report.before = [("/dev/weft0".to_owned(), port(5).counters)].into();
        let text = shown(&report);
        assert!(text.contains("0/0       2/0        0 B"), "{text}");
        assert!(text.contains("sent/received a second:\n"), "{text}");
    }
}
