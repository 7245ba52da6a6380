// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `route`: which way traffic to a local id takes, and where it ends.

use super::client::{ask, mismatch};
use super::table::{or_dash, table};
use super::{Context, Failure};
use crate::control::{Answer, Request};
use crate::state::{RemoteStatus, RouteStatus, TableStatus, WalkStatus};
use std::fmt::Write;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the route table of a host, an endpoint or a switch, and what it reaches
    Show {
        /// The host, the endpoint or the switch
        node: String,
    },
    /// Have a switch send traffic to a local id out by a port
    Set {
        /// The switch
        switch: String,
        /// Local id
        lid: u32,
        /// Port of the switch
        port: u8,
    },
    /// Take a local id out of a switch's route table
    Del {
        /// The switch
        switch: String,
        /// Local id
        lid: u32,
    },
    /// Follow a host's traffic to a local id, link by link
    Walk {
        /// The host
        host: String,
        /// Local id
        lid: u32,
    },
}

pub fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let request = match command {
        Command::Show { node } => return context.print(&tables(context, node)?, show),
        Command::Walk { host, lid } => {
            return match ask(context, &Request::Walk { host: host.clone(), lid })? {
                Answer::Walk(walk) => context.print(&walk, |walk| text(&host, walk)),
                other => mismatch(&other),
            };
        }
        Command::Set { switch, lid, port } => {
            Request::RouteSet { node: switch, lid, port: Some(port) }
        }
        Command::Del { switch, lid } => Request::RouteSet { node: switch, lid, port: None },
    };
    ask(context, &request)?;
    context.done()
}

/// Asks the daemon for the tables of a node.
pub fn tables(context: &Context, node: String) -> Result<TableStatus, Failure> {
    match ask(context, &Request::Tables { node })? {
        Answer::Tables(tables) => Ok(tables),
        other => mismatch(&other),
    }
}

fn show(tables: &TableStatus) -> String {
    let TableStatus { node, kind, .. } = tables;
    let mut out = format!("{kind} {node}, LID {}\n\n", lid(tables.lid));
    if kind != "switch" {
        let mut routes: Vec<_> = tables.routes.iter().map(host_row).collect();
        // An endpoint has one for each virtual endpoint.
        routes.dedup();
        out.push_str(&table(["LID", "LINK", "VP", "FOR"], &routes));
        let row = |r: &RemoteStatus| {
            let state = if r.up { "reached".into() } else { or_dash(r.why.as_deref()) };
            [r.lid.to_string(), r.at.clone(), r.hops.to_string(), state]
        };
        let mut remotes: Vec<_> = tables.remotes.iter().map(row).collect();
        remotes.dedup();
        let _ = writeln!(out);
        out.push_str(&table(["TO", "GETS TO", "HOPS", "STATE"], &remotes));
    } else {
        let row = |r: &RouteStatus| {
            let lids = match r.first == r.last {
                true => r.first.to_string(),
                false => format!("{}-{}", r.first, r.last),
            };
            [lids, r.port.to_string()]
        };
        out.push_str(&table(["LID", "PORT"], &tables.routes.iter().map(row).collect::<Vec<_>>()));
    }
    out
}

fn lid(lid: u32) -> String {
    if lid == 0 { "none".into() } else { lid.to_string() }
}

fn host_row(r: &RouteStatus) -> [String; 4] {
    let lids = match r.first == r.last {
        true => r.first.to_string(),
        false => format!("{} to {}", r.first, r.last),
    };
    let mut whose = vec![];
    if r.own {
        whose.push("its own".into());
    }
    if r.from_links != 0 {
        whose.push(format!("links {} on VPs {}", bits(r.from_links.into()), bits(r.from_vps)));
    }
    [lids, r.port.to_string(), r.vp.map_or("-".into(), |vp| vp.to_string()), whose.join(", ")]
}

/// The numbers of the bits that are set.
fn bits(mask: u16) -> String {
    let set: Vec<_> = (0..16).filter(|n| mask & (1 << n) != 0).map(|n| n.to_string()).collect();
    if set.is_empty() { "-".into() } else { set.join("+") }
}

fn text(host: &str, walk: &WalkStatus) -> String {
    let mut out = String::new();
    for (n, hop) in walk.hops.iter().enumerate() {
        let _ = writeln!(out, "{:>2}  {} -> {}", n + 1, hop.from, hop.to);
    }
    let _ = match &walk.why {
        None => writeln!(out, "reaches {}", walk.at),
        Some(why) if walk.hops.is_empty() => writeln!(out, "does not leave {host}: {why}"),
        Some(why) => writeln!(out, "ends at {}: {why}", walk.at),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_whose_traffic_an_entry_is_for() {
        let entry = RouteStatus {
            first: 3,
            last: 9,
            port: 1,
            vp: Some(2),
            own: true,
            from_links: 0b101,
            from_vps: 0b1000,
        };
        assert_eq!(host_row(&entry), ["3 to 9", "1", "2", "its own, links 0+2 on VPs 3"]);
    }
}
