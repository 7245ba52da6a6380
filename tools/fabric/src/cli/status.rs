// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `status`: the whole fabric, as a picture of its links and a table of its hosts.

use super::client::{ask, mismatch};
use super::table::{or_dash, table, yes};
use super::{Context, Failure};
use crate::control::{Answer, DaemonStatus, Request};
use crate::state::{AdminState, CableStatus, EndpointStatus, LinkStatus, NodeStatus, VeStatus};
use crate::topology::Power;
use std::fmt::Write;

/// Asks the daemon for its status.
pub fn get(context: &Context) -> Result<DaemonStatus, Failure> {
    match ask(context, &Request::Status)? {
        Answer::Status(status) => Ok(status),
        other => mismatch(&other),
    }
}

pub fn run(context: &Context) -> Result<(), Failure> {
    context.print(&get(context)?, text)
}

fn text(status: &DaemonStatus) -> String {
    let mut out = format!("{}, served by process {}\n\n", status.topology, status.pid);
    let links = &status.fabric.links;
    let widest = links.iter().map(|l| l.ends[0].len()).max().unwrap_or(0);
    for link in links {
        let _ = writeln!(out, "  {}", picture(link, widest));
    }
    for cable in status.fabric.cables.iter().filter(|c| worth_a_line(c)) {
        let _ = writeln!(out, "  {}", limits(cable));
    }
    if links.is_empty() {
        out.push_str("  no links between hosts\n");
    }
    out.push('\n');
    let nodes = || status.fabric.nodes.iter();
    let hosts = nodes().filter(|n| n.endpoint.is_none());
    let endpoints = nodes().filter(|n| n.endpoint.is_some());
    out.push_str(&table(
        [
            "HOST",
            "CONNECTED",
            "ENABLED",
            "GENERATION",
            "HWID",
            "RAM",
            "APERTURES",
            "TRACED",
            "ADVERSARIAL",
            "BLADE",
        ],
        &hosts.map(row).collect::<Vec<_>>(),
    ));
    let endpoints: Vec<_> = endpoints.flat_map(endpoint_rows).collect();
    if !endpoints.is_empty() {
        out.push('\n');
        let head = ["ENDPOINT", "CONNECTED", "LID", "VE", "VP", "ROOT'S LID", "BLADE"];
        out.push_str(&table(head, &endpoints));
    }
    for node in status.fabric.nodes.iter().filter(|n| !n.waiting_for.is_empty()) {
        let names = node.waiting_for.join(", ");
        let _ =
            writeln!(out, "{} waits for {names} to confirm a change of its apertures", node.name);
    }
    for (node, dropped) in &status.dropped {
        let _ = writeln!(out, "{node} reads too slowly: {dropped} mailbox messages were dropped");
    }
    out
}

fn picture(link: &LinkStatus, widest: usize) -> String {
    let [a, b] = &link.ends;
    let (line, state) = match link.up {
        true => ("====", format!(" gen{} x{} ", link.speed, link.width)),
        false => (" - - ", "down".into()),
    };
    let switches = link.via.iter().map(|s| format!("( {s} )"));
    let way: Vec<_> = switches.chain([state]).collect();
    let way = format!("{line}{}{line}", way.join(line));
    let picture = format!("{a:>widest$} {} {b}", way.trim());
    match &link.why_down {
        Some(why) => format!("{picture}    {why}"),
        None => picture,
    }
}

/// A cable the administrator has done something to.
fn worth_a_line(cable: &CableStatus) -> bool {
    cable.state == AdminState::Down
        || cable.power != Power::Performance
        || (cable.speed, cable.width) != (cable.max_speed, cable.max_width)
}

fn limits(cable: &CableStatus) -> String {
    let [a, b] = &cable.ends;
    let CableStatus { speed, width, max_speed, max_width, power, .. } = cable;
    let state = match cable.state {
        AdminState::Up => "",
        AdminState::Down => "switched off, ",
    };
    let power = match power {
        Power::Performance => "",
        Power::Auto => ", as its traffic asks",
    };
    format!("cable {a}--{b}: {state}gen{speed} x{width} of gen{max_speed} x{max_width}{power}")
}

fn row(node: &NodeStatus) -> [String; 10] {
    [
        node.name.clone(),
        yes(node.connected),
        yes(node.enabled),
        if node.generation == 0 { "-".into() } else { node.generation.to_string() },
        node.hwid.to_string(),
        if node.connected { format!("{} MiB", node.ram >> 20) } else { "-".into() },
        node.apertures.to_string(),
        yes(node.traced),
        node.adversarial.map_or("no".into(), |seed| format!("seed {seed}")),
        or_dash(node.blade.as_deref()),
    ]
}

/// A line for each virtual endpoint.
fn endpoint_rows(node: &NodeStatus) -> Vec<[String; 7]> {
    let number = |n: u32| if n == 0 { "-".into() } else { n.to_string() };
    let row = |(n, ve): (usize, &VeStatus), e: &EndpointStatus| {
        [
            node.name.clone(),
            yes(node.connected),
            number(e.lid),
            n.to_string(),
            ve.vp.map_or("-".into(), |vp| vp.to_string()),
            number(ve.root),
            or_dash(node.blade.as_deref()),
        ]
    };
    let ves = node.endpoint.iter().flat_map(|e| e.ves.iter().enumerate().map(move |ve| row(ve, e)));
    ves.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(up: bool) -> LinkStatus {
        LinkStatus {
            ends: ["h1:0".into(), "h2:1".into()],
            via: vec!["s1".into()],
            up,
            why_down: (!up).then(|| "h2 is not connected".into()),
            speed: 4,
            width: 8,
            max_speed: 4,
            max_width: 8,
        }
    }

    #[test]
    fn the_picture_shows_switches_rate_and_reason() {
        assert_eq!(picture(&link(true), 4), "h1:0 ====( s1 )==== gen4 x8 ==== h2:1");
        assert_eq!(
            picture(&link(false), 5),
            " h1:0 - - ( s1 ) - - down - - h2:1    h2 is not connected"
        );
    }
}
