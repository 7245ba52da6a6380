// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The way from this host to its peers as a line each, with a mark where it breaks.

use super::finding::{Finding, Level, Place};
use super::snapshot::{Function, Link, Snapshot};

/// What the picture is made of.
struct Pen {
    line: &'static str,
    broken: &'static str,
    /// Of links, one behind the other: the first of several, those between, the last.
    branches: [&'static str; 3],
    up: &'static str,
    down: &'static str,
    waiting: &'static str,
}

const UTF8: Pen = Pen {
    line: " ── ",
    broken: " ─✗─ ",
    branches: ["─┬─ ", " ├─ ", " └─ "],
    up: "══",
    down: "─ ─ ✗ ─ ─",
    waiting: "══?══",
};

const ASCII: Pen = Pen {
    line: " -- ",
    broken: " -X- ",
    branches: ["-+- ", " |- ", " `- "],
    up: "==",
    down: "- - X - -",
    waiting: "==?==",
};

/// Draws it; `utf8`: the terminal can show more than ASCII.
pub fn picture(snapshot: &Snapshot, findings: &[Finding], utf8: bool) -> Vec<String> {
    let pen = if utf8 { &UTF8 } else { &ASCII };
    let broken = |place: &Place| {
        findings.iter().find(|f| f.level == Level::Fault && f.at == *place).map(|f| f.id)
    };
    let host = "this host";
    if let Some(id) = broken(&Place::Module) {
        return vec![format!("{host}{}weft.ko  {id}", pen.broken)];
    }
    let head = format!("{host}{}weft.ko", pen.line);
    let mut lines = Vec::new();
    for finding in findings.iter().filter(|f| f.level == Level::Fault) {
        if let Place::Function(address) = &finding.at {
            // Of a function that is not there.
            if snapshot.functions.iter().all(|f| f.address != *address) {
                let name = if address.is_empty() { "no port" } else { address };
                lines.push(format!("{head}{}{name}  {}", pen.broken, finding.id));
            }
        }
    }
    for function in &snapshot.functions {
        let place = Place::Function(function.address.clone());
        let id = broken(&place);
        if !function.is_ours() && id.is_none() {
            continue;
        }
        lines.extend(row(pen, &head, function, id, &broken));
    }
    for finding in findings.iter().filter(|f| f.level == Level::Fault) {
        if let Place::Component(name) = &finding.at {
            lines.push(format!("the fabric{}{name}  {}", pen.broken, finding.id));
        }
    }
    lines
}

/// The lines of one function; `id` is what is wrong with it.
fn row(
    pen: &Pen,
    head: &str,
    function: &Function,
    id: Option<&str>,
    broken: &dyn Fn(&Place) -> Option<&'static str>,
) -> Vec<String> {
    let Function { address, .. } = function;
    if let Some(id) = id {
        return vec![format!("{head}{}{address}  {id}", pen.broken)];
    }
    let Some(port) = &function.port else {
        return vec![format!("{head}{}{address}", pen.line)];
    };
    let node = Place::Node(port.name.clone());
    if let Some(id) = broken(&node) {
        return vec![format!("{head}{}{address}{}{node}  {id}", pen.line, pen.broken)];
    }
    let way = format!("{head}{}{address}{}{node} ", pen.line, pen.line);
    let count = port.links.len();
    let mut lines = Vec::new();
    for (n, link) in port.links.iter().enumerate() {
        let branch = match (n, count) {
            (_, 1) => pen.line.trim_start(),
            (0, _) => pen.branches[0],
            _ if n + 1 == count => pen.branches[2],
            _ => pen.branches[1],
        };
        let indent = way.chars().count();
        let start = if n == 0 { way.clone() } else { " ".repeat(indent) };
        let id = broken(&Place::link(address, link.number));
        lines.push(format!("{start}{branch}{}", one(pen, link, id)));
    }
    lines
}

/// A link, from here to the peer.
fn one(pen: &Pen, link: &Link, id: Option<&str>) -> String {
    let number = link.number;
    let peer = link.peer_hwid.trim_start_matches("0x").trim_start_matches('0');
    let peer = if peer.is_empty() { String::new() } else { format!("0x{peer}") };
    let why = id.map_or(String::new(), |id| format!("  {id}"));
    let text = match link.state.as_str() {
        "ready" => {
            let rate = match (link.speed, link.hops) {
                (0, None) => pen.up.to_owned(),
                (_, Some(hops)) => format!("{0} {hops} hops {0}", pen.up),
                (speed, _) => format!("{0} gen{speed} x{1} {0}", pen.up, link.width),
            };
            format!("link {number} {rate} {peer} ready{why}")
        }
        "switch" => {
            let (up, speed, width) = (pen.up, link.speed, link.width);
            format!("link {number} {up} gen{speed} x{width} {up} switch{why}")
        }
        "hello" => format!("link {number} {} {peer}{why}", pen.waiting),
        _ if link.is_unplugged() => format!("link {number}, no cable"),
        _ => format!("link {number} {}{why}", pen.down),
    };
    text.trim_end().to_owned()
}
