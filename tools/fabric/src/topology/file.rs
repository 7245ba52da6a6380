// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The topology's file: TOML in, [`Topology`] out, or every problem at once so
//! that a file is not mended one message at a time.

use super::{Cable, End, Endpoint, Host, Kind, MAX_NAME, MAX_SWITCH_PORTS, MAX_VE_FUNCTIONS};
use super::{MAX_VES, Power, Problem, SPEEDS, Switch, Topology, WIDTHS};
use super::{resolve, split_end};
use serde::Deserialize;
use std::collections::HashMap;
use toml::Spanned;
use weft_proto::nm::kind::{NO_HOST, SHARED};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    /// Hosts that may program switches; left out, all may.
    #[serde(default)]
    managers: Vec<Spanned<String>>,
    /// Fabrics of hardware that cannot attest hardware ids have `false`.
    #[serde(default = "default_attests")]
    attests: bool,
    #[serde(default)]
    host: Vec<Spanned<RawHost>>,
    #[serde(default)]
    endpoint: Vec<Spanned<RawEndpoint>>,
    #[serde(default)]
    switch: Vec<Spanned<RawSwitch>>,
    #[serde(default)]
    link: Vec<Spanned<RawLink>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: String,
    hwid: Option<i64>,
    blade: Option<String>,
    #[serde(default = "default_plugged")]
    plugged: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEndpoint {
    name: String,
    kind: String,
    ves: i64,
    #[serde(default = "default_functions")]
    functions: i64,
    hwid: Option<i64>,
    blade: Option<String>,
    #[serde(default = "default_plugged")]
    plugged: bool,
    vendor: Option<String>,
    part: Option<String>,
    serial: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitch {
    name: String,
    ports: i64,
    blade: Option<String>,
    #[serde(default = "default_plugged")]
    plugged: bool,
    /// Blade of what is at its ports.
    resident: Option<String>,
    /// Without it, a switch of more than two links routes.
    routes: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    ends: Vec<String>,
    #[serde(default = "default_speed")]
    speed: i64,
    #[serde(default = "default_width")]
    width: i64,
    #[serde(default)]
    state: RawState,
    #[serde(default)]
    power: Power,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawState {
    #[default]
    Up,
    Down,
}

fn default_attests() -> bool {
    true
}

fn default_plugged() -> bool {
    true
}

fn default_functions() -> i64 {
    1
}

fn default_speed() -> i64 {
    4
}

fn default_width() -> i64 {
    8
}

/// Reads and checks a topology.
pub fn parse(text: &str) -> Result<Topology, Vec<Problem>> {
    let raw: RawFile = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(0, |span| line_of(text, span.start));
        vec![Problem { line, message: e.message().trim().replace('\n', ", ") }]
    })?;
    let mut reader = Reader {
        text,
        topology: Topology {
            hosts: vec![],
            switches: vec![],
            cables: vec![],
            paths: vec![],
            trunks: vec![],
            trunk_ends: HashMap::new(),
            managers: vec![],
            attests: raw.attests,
        },
        routes: vec![],
        used: HashMap::new(),
        lines: vec![],
        problems: vec![],
    };
    for host in &raw.host {
        reader.host(host);
    }
    for endpoint in &raw.endpoint {
        reader.endpoint(endpoint);
    }
    for switch in &raw.switch {
        reader.switch(switch);
    }
    for link in &raw.link {
        reader.link(link);
    }
    for manager in &raw.managers {
        reader.manager(manager);
    }
    reader.finish()
}

/// Number of the line that holds the byte at `offset`. A table begins with its
/// header, which some spans leave out and others end just before.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&b| b == b'\n').count() + 1
}

struct Reader<'a> {
    text: &'a str,
    topology: Topology,
    /// What the file says of each switch.
    routes: Vec<Option<bool>>,
    /// Line of the cable that has each end.
    used: HashMap<End, usize>,
    /// Line of each cable.
    lines: Vec<usize>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn line<T>(&self, of: &Spanned<T>) -> usize {
        line_of(self.text, of.span().start)
    }

    fn problem(&mut self, line: usize, message: String) {
        self.problems.push(Problem { line, message });
    }

    fn name(&mut self, line: usize, kind: &str, name: &str) {
        let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if name.is_empty() || name.len() > MAX_NAME || !letters {
            self.problem(
                line,
                format!(
                    "{kind} \"{name}\": a name has 1 to {MAX_NAME} letters, digits, \
                     '-', '_' or '.'; choose another"
                ),
            );
        } else if self.topology.node(name).is_some() {
            self.problem(line, format!("{kind} {name}: the name is taken; choose another"));
        }
    }

    fn host(&mut self, raw: &Spanned<RawHost>) {
        let line = self.line(raw);
        let RawHost { name, hwid, blade, plugged } = raw.get_ref();
        self.name(line, "host", name);
        let hwid_given = hwid.is_some();
        // A number of TOML has 63 bits, so none says that it is of no host.
        let hwid = match hwid {
            None => derived_hwid(name),
            Some(given) if *given > 0 => *given as u64,
            Some(given) => {
                let message =
                    format!("host {name}: hwid {given} is not above 0; give one or leave it out");
                return self.problem(line, message);
            }
        };
        self.add_host(
            line,
            "host",
            hwid,
            Host {
                name: name.clone(),
                hwid,
                hwid_given,
                blade: blade.clone(),
                plugged: *plugged,
                endpoint: None,
            },
        );
    }

    fn endpoint(&mut self, raw: &Spanned<RawEndpoint>) {
        let line = self.line(raw);
        let RawEndpoint { name, kind, ves, functions, hwid, blade, plugged, vendor, part, serial } =
            raw.get_ref();
        self.name(line, "endpoint", name);
        let found = self.problems.len();
        if kind != "copy" {
            self.problem(
                line,
                format!("endpoint {name}: kind \"{kind}\" is not known; give \"copy\""),
            );
        }
        let mut within = |what: &str, given: i64, most: u8| {
            let good = u8::try_from(given).ok().filter(|n| (1..=most).contains(n));
            if good.is_none() {
                self.problem(line, format!("endpoint {name}: {given} {what}; give 1 to {most}"));
            }
            good.unwrap_or(1)
        };
        let ves = within("virtual endpoints (ves)", *ves, MAX_VES);
        let functions = within("functions", *functions, MAX_VE_FUNCTIONS);
        let hwid_given = hwid.is_some();
        let hwid = match hwid {
            None => derived_hwid(name),
            Some(given) if *given > 0 && *given as u64 & SHARED == 0 => *given as u64,
            Some(given) => {
                let message = format!(
                    "endpoint {name}: hwid {given} is not of 1 to 2^62 - 1; give one of these or \
                     leave it out"
                );
                return self.problem(line, message);
            }
        };
        if self.problems.len() > found {
            return;
        }
        let text = |given: &Option<String>, or: &str| given.as_deref().unwrap_or(or).to_owned();
        let endpoint = Endpoint {
            kind: Kind::Copy,
            ves,
            functions,
            vendor: text(vendor, "Weft"),
            part: text(part, "WEFT-COPY"),
            serial: text(serial, name),
        };
        // What is no host must never have the lowest id, and is no switch either.
        self.add_host(
            line,
            "endpoint",
            hwid,
            Host {
                name: name.clone(),
                hwid: hwid | NO_HOST | SHARED,
                hwid_given,
                blade: blade.clone(),
                plugged: *plugged,
                endpoint: Some(endpoint),
            },
        );
    }

    fn add_host(&mut self, line: usize, what: &str, given: u64, host: Host) {
        if let Some(other) = self.topology.hosts.iter().find(|h| h.hwid == host.hwid) {
            let kind = if other.endpoint.is_some() { "endpoint" } else { "host" };
            let message = format!(
                "{what} {}: hwid {given} is that of {kind} {} already; give another",
                host.name, other.name
            );
            self.problem(line, message);
        }
        self.topology.hosts.push(host);
    }

    fn switch(&mut self, raw: &Spanned<RawSwitch>) {
        let line = self.line(raw);
        let RawSwitch { name, ports, blade, plugged, resident, routes } = raw.get_ref();
        self.name(line, "switch", name);
        let hwid = derived_hwid(name) | NO_HOST;
        if let Some(other) = self.topology.switches.iter().find(|s| s.hwid == hwid) {
            let message = format!(
                "switch {name}: its hwid, {hwid}, is that of switch {}; rename one",
                other.name
            );
            self.problem(line, message);
        }
        match u8::try_from(*ports) {
            Ok(ports) if (1..=MAX_SWITCH_PORTS).contains(&ports) => {
                let resident = resident.as_ref().or(blade.as_ref()).cloned();
                let (name, blade) = (name.clone(), blade.clone());
                let plugged = *plugged;
                let switch = Switch { name, ports, hwid, blade, resident, plugged, routes: false };
                self.topology.switches.push(switch);
                self.routes.push(*routes);
            }
            _ => self.problem(
                line,
                format!("switch {name}: {ports} ports; give 1 to {MAX_SWITCH_PORTS}"),
            ),
        }
    }

    fn manager(&mut self, raw: &Spanned<String>) {
        let (line, name) = (self.line(raw), raw.get_ref());
        let host = self.topology.host(name);
        match host.filter(|&host| self.topology.hosts[host].endpoint.is_none()) {
            Some(host) => self.topology.managers.push(host),
            None => self.problem(
                line,
                format!("managers: no host is called \"{name}\"; name one of the hosts"),
            ),
        }
    }

    fn link(&mut self, raw: &Spanned<RawLink>) {
        let line = self.line(raw);
        let RawLink { ends, speed, width, state, power } = raw.get_ref();
        let what = format!("link {}", ends.join("--"));
        let found = self.problems.len();

        let speed = u8::try_from(*speed).ok().filter(|s| SPEEDS.contains(s)).or_else(|| {
            let (low, high) = (SPEEDS.start(), SPEEDS.end());
            self.problem(
                line,
                format!("{what}: speed {speed}; give a generation, {low} to {high}"),
            );
            None
        });
        let width = u8::try_from(*width).ok().filter(|w| WIDTHS.contains(w)).or_else(|| {
            self.problem(line, format!("{what}: width {width}; give 1, 2, 4, 8 or 16 lanes"));
            None
        });
        let [a, b] = ends.as_slice() else {
            return self
                .problem(line, format!("{what}: number of ends {}; a link has two", ends.len()));
        };
        let (a, b) = (self.end(line, &what, a), self.end(line, &what, b));
        let (Some(a), Some(b), Some(speed), Some(width)) = (a, b, speed, width) else {
            return;
        };
        if a.node == b.node {
            let name = self.topology.name(a.node).to_owned();
            return self.problem(
                line,
                format!("{what}: both ends are at {name}; join two different nodes"),
            );
        }
        for end in [a, b] {
            if let Some(other) = self.used.insert(end, line) {
                let end = self.topology.end_name(end);
                self.problem(
                    line,
                    format!("{what}: {end} has the link of line {other} already; use another port"),
                );
            }
        }
        if self.problems.len() == found {
            let up = matches!(state, RawState::Up);
            self.topology.cables.push(Cable { ends: [a, b], speed, width, up, power: *power });
            self.lines.push(line);
        }
    }

    fn end(&mut self, line: usize, what: &str, text: &str) -> Option<End> {
        let (name, port) = match split_end(text) {
            Ok(parts) => parts,
            Err(why) => {
                self.problem(line, format!("{what}: {why}"));
                return None;
            }
        };
        let Some(node) = self.topology.node(name) else {
            self.problem(
                line,
                format!(
                    "{what}: no host, endpoint or switch is called \"{name}\"; name it or \
                     mend the link"
                ),
            );
            return None;
        };
        let ports = self.topology.ports(node);
        if port >= ports {
            let kind = self.topology.kind(node);
            self.problem(
                line,
                match ports {
                    1 => format!("{what}: {kind} {name} has port 0 alone; use it"),
                    _ => format!(
                        "{what}: {kind} {name} has ports 0 to {}; use one of them",
                        ports - 1
                    ),
                },
            );
            return None;
        }
        Some(End { node, port })
    }

    fn finish(mut self) -> Result<Topology, Vec<Problem>> {
        let host = self.topology.hosts.iter().any(|h| h.endpoint.is_none());
        if !host && self.problems.is_empty() {
            self.problem(0, "no host is named; add [[host]] with a name".into());
        }
        if self.problems.is_empty() {
            match resolve::resolve(&mut self.topology, &self.routes) {
                Ok(()) => {}
                Err((cable, message)) => self.problem(self.lines[cable], message),
            }
        }
        if self.problems.is_empty() { Ok(self.topology) } else { Err(self.problems) }
    }
}

/// A hardware id that stays with the name: FNV-1a, cut to what every reader of
/// JSON takes for an exact number.
fn derived_hwid(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash & ((1 << 48) - 1)).max(1)
}
