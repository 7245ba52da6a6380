// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `show`: ports with their links, their peers and what protects them.

use super::number::bytes;
use super::table::table;
use super::{Context, End, key, port_path};
use crate::channel::{LinkInfo, Port, PortInfo};
use crate::key::Manager;
use serde::Serialize;
use std::path::PathBuf;
use weft::Power;

#[derive(clap::Args)]
pub struct Args {
    /// The port: /dev/weft1, weft1 or 1 [default: all]
    #[arg(value_name = "PORT", value_parser = port_path, conflicts_with = "port")]
    only: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    ports: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    port: PortInfo,
    links: Vec<LinkInfo>,
    /// By what messages of managers are; none if the port has no manager.
    authenticated: Option<Vec<String>>,
}

pub fn run(context: &Context, args: Args) -> Result<(), End> {
    let paths = match args.only {
        Some(path) => vec![path],
        None => context.ports()?,
    };
    let mut ports = Vec::new();
    for path in paths {
        let port = Port::open(&path)?;
        // Not by an older driver.
        let managed = Manager::new(&path).and_then(|manager| manager.authentication());
        let authenticated = managed.ok().map(|now| now.authenticated);
        ports.push(Entry { port: port.info()?, links: port.links()?, authenticated });
    }
    context.print(&Report { ports }, |report| {
        report.ports.iter().map(entry).collect::<Vec<_>>().join("\n")
    })
}

fn entry(entry: &Entry) -> String {
    let PortInfo { port, kind, hwid, generation, lid, protection, guards, .. } = &entry.port;
    let lid = if *lid == 0 { String::new() } else { format!(", local id {lid}") };
    let guards = match guards {
        Some(guards) => [
            ("channels", &guards.channels),
            ("registered memory", &guards.memory),
            ("doorbells", &guards.doorbells),
        ]
        .map(|(what, by)| format!("  {what} guarded by: {}\n", meanings(by)))
        .concat(),
        None => format!("  protected by: {}\n", meanings(protection)),
    };
    let authenticated = entry.authenticated.as_ref().map_or(String::new(), |by| {
        format!("  messages of managers authenticated by: {}\n", key::by(by))
    });
    let head = ["LINK", "STATE", "SPEED", "ROLE", "UPS", "PEER", "GENERATION", "CHANNELS", "ARENA"];
    let rows = std::iter::once(head.map(String::from).to_vec()).chain(entry.links.iter().map(row));
    format!(
        "{port}: {kind} port, hardware id {hwid}, generation {generation}{lid}\n\
         {guards}{authenticated}{}",
        table(&rows.collect::<Vec<_>>(), 2)
    )
}

fn meanings(protection: &[&str]) -> String {
    match protection {
        [] => "nothing: nodes have to trust each other".into(),
        all => all.iter().map(|p| meaning(p)).collect::<Vec<_>>().join("; "),
    }
}

fn meaning(protection: &str) -> &str {
    match protection {
        "device" => "the device checks each access of a peer",
        "aperture" => "a peer reaches granted pages only",
        "bounce" => "the kernel copies what it has checked, and a peer reaches none of it",
        other => other,
    }
}

fn row(link: &LinkInfo) -> Vec<String> {
    let or_dash = |known: bool, text: String| if known { text } else { "-".into() };
    let used = link.arena_bytes.saturating_sub(link.arena_free);
    vec![
        link.link.to_string(),
        link.state.clone(),
        or_dash(link.speed != 0, speed(link)),
        match link.lid {
            0 => link.role.to_string(),
            lid => format!("lid {lid}, {} hops", link.hops),
        },
        link.trained.to_string(),
        link.peer_hwid.clone().unwrap_or_else(|| "-".into()),
        or_dash(link.peer_hwid.is_some(), link.peer_generation.to_string()),
        link.channels.to_string(),
        format!("{} of {} used", bytes(used), bytes(link.arena_bytes)),
    ]
}

/// What it runs at, what it could if that is more, and why it may not.
fn speed(link: &LinkInfo) -> String {
    let mut text = format!("gen{} x{}", link.speed, link.width);
    if link.speed < link.max_speed || link.width < link.max_width {
        text += &format!(" of gen{} x{}", link.max_speed, link.max_width);
    }
    if link.power == Power::Auto.to_string() {
        text += ", auto";
    }
    text
}
