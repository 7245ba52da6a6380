// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Ports and channels as the commands need them: the one place that knows the
//! library `weft`; `managed` is its part about the manager of the fabric. Errors become
//! failures with an exit status and a hint.

mod managed;

pub use managed::Taken;

use crate::failure::{Failure, Kind, plain_text};
use crate::transfer::{Broken, Connect, NoConnection, Want, Wire};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weft::{Error, Link, LinkState};

/// Sizes of the bulk rings to ask for; each holds a chunk of a file.
const BULK: [u32; 3] = [256 << 10, 128 << 10, 64 << 10];
/// Connections that may wait while one is served.
const BACKLOG: u32 = 16;
/// The longest that the driver waits for a peer.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A port, as shown.
#[derive(Serialize)]
pub struct PortInfo {
    /// Its device file.
    pub port: String,
    /// What it is.
    pub kind: String,
    /// Hardware id, hexadecimal.
    pub hwid: String,
    /// Changes with every reset.
    pub generation: u32,
    /// Local id, 0 while there is none.
    pub lid: u32,
    /// How many links it has.
    pub link_count: u32,
    /// What keeps a peer to what it was granted, best first.
    pub protection: Vec<&'static str>,
    /// The same by what is guarded; none if the driver does not say.
    pub guards: Option<Guards>,
}

/// What guards what.
#[derive(Serialize)]
pub struct Guards {
    /// Channels.
    pub channels: Vec<&'static str>,
    /// Registered memory.
    pub memory: Vec<&'static str>,
    /// Doorbells.
    pub doorbells: Vec<&'static str>,
}

/// A link, as shown.
#[derive(Serialize)]
pub struct LinkInfo {
    /// Its number.
    pub link: u32,
    /// down, hello or ready; switch: up, to one.
    pub state: String,
    /// PCI Express generation, 0 while unknown.
    pub speed: u32,
    /// Lanes, 0 while unknown.
    pub width: u32,
    /// The most that it can, 0 while unknown.
    pub max_speed: u32,
    /// And lanes.
    pub max_width: u32,
    /// performance or auto: what speed and width follow.
    pub power: String,
    /// root or endpoint; far: the peer is no neighbour.
    pub role: &'static str,
    /// How often it came up.
    pub trained: u32,
    /// Hardware id of the neighbour, if known.
    pub peer_hwid: Option<String>,
    /// Generation of the neighbour.
    pub peer_generation: u32,
    /// Open channels.
    pub channels: u32,
    /// Memory for channels.
    pub arena_bytes: u64,
    /// What is left of it.
    pub arena_free: u64,
    /// Local id of the other end, 0 if it is a neighbour.
    pub lid: u32,
    /// Links on the way to it.
    pub hops: u32,
    #[serde(skip)]
    hwid: u64,
}

/// The role of links whose other end is the same port's.
const LOOPBACK: &str = "loopback";

impl LinkInfo {
    /// Whether its other end is the same port's.
    pub fn is_loopback(&self) -> bool {
        self.role == LOOPBACK
    }

    /// Whether channels can be connected.
    pub fn ready(&self) -> bool {
        self.state == LinkState::Ready.to_string()
    }
}

impl From<Link> for LinkInfo {
    fn from(link: Link) -> Self {
        LinkInfo {
            link: link.number,
            state: link.state.to_string(),
            speed: link.speed,
            width: link.width,
            max_speed: link.max_speed,
            max_width: link.max_width,
            power: link.power.to_string(),
            role: match (link.lid, link.endpoint) {
                _ if link.loopback => LOOPBACK,
                (Some(_), _) => "far",
                (None, true) => "endpoint",
                (None, false) => "root",
            },
            trained: link.trained,
            peer_hwid: link.peer.map(|peer| hex(peer.hwid)),
            peer_generation: link.peer.map_or(0, |peer| peer.generation),
            channels: link.channels,
            arena_bytes: link.arena_bytes,
            arena_free: link.arena_free,
            lid: link.lid.unwrap_or(0),
            hops: link.hops,
            hwid: link.peer.map_or(0, |peer| peer.hwid),
        }
    }
}

fn hex(hwid: u64) -> String {
    format!("{hwid:#x}")
}

fn kind(error: &Error) -> Kind {
    match error {
        Error::NoPort(_) | Error::Gone => Kind::NoDevice,
        Error::Permission(_) => Kind::Permission,
        Error::Unreachable(_)
        | Error::NoLink { .. }
        | Error::Refused(_)
        | Error::Reset
        | Error::TimedOut(_)
        | Error::Broken(_)
        | Error::Closed
        | Error::Ended => Kind::Unreachable,
        Error::Privilege(_) => Kind::Permission,
        Error::NoHost(_) | Error::NoSlot { .. } | Error::AssignmentLine(_) => Kind::Usage,
        _ => Kind::Failed,
    }
}

fn failure(path: &Path, error: &Error) -> Failure {
    let text = plain_text(&error.to_string());
    let path = path.display();
    let message = match error {
        Error::NoPort(_) | Error::Permission(_) | Error::NoHost(_) => text,
        Error::TimedOut(_) => format!("{path}: no answer from the peer"),
        _ => format!("{path}: {text}"),
    };
    let failure = Failure::new(kind(error), message);
    match error {
        Error::NoPort(_) => failure.hint(missing()),
        Error::Refused(_) => failure.hint("start `weftctl recv` (or `weftctl ping --serve`) there"),
        Error::TimedOut(_) => failure.hint("its listener may be busy; --timeout waits longer"),
        Error::InUse(_) => failure.hint("end who listens there, or choose another --service"),
        Error::Permission(_) => {
            failure.hint("the group weft may use it: `usermod -aG weft USER`, then log in again")
        }
        _ => match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
    }
}

/// What to do when there is no port.
fn missing() -> &'static str {
    if Path::new("/sys/module/weft").exists() {
        "the module is loaded, `weftctl list` shows the ports it has; if `lspci -d 1234:7ef7` \
         shows more, `weftctl diagnose` says what keeps them"
    } else {
        "is the module loaded? `modprobe weft` or `insmod weft.ko`; `lspci -d 1234:7ef7` shows \
         whether this host has Weft ports, `weftctl diagnose` what is missing"
    }
}

/// The failure of a host without any port.
pub fn no_ports() -> Failure {
    Failure::new(Kind::NoDevice, "no /dev/weft*").hint(missing())
}

/// The failure of a port that this host does not have.
pub fn no_port(path: &Path) -> Failure {
    let message = format!("{}: there is no such port", path.display());
    Failure::new(Kind::NoDevice, message).hint(missing())
}

/// The device files of all ports.
pub fn ports() -> Vec<PathBuf> {
    // A /dev that cannot be read has none.
    let numbers = weft::Port::list().unwrap_or_default();
    numbers.into_iter().map(|n| Path::new("/dev").join(format!("weft{n}"))).collect()
}

/// An open port.
pub struct Port(weft::Port);

impl Port {
    /// Opens a device file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        weft::Port::open_path(path).map(Port).map_err(|e| failure(path, &e))
    }

    fn failure(&self, error: &Error) -> Failure {
        let failure = failure(self.0.path(), error);
        let master = || self.0.fabric().ok()??.master().map(|node| hex(node.hwid));
        match error {
            Error::NotMaster => match master() {
                Some(master) => {
                    failure.hint(format!("the master is host {master}: run this there"))
                }
                None => failure,
            },
            _ => failure,
        }
    }

    /// What it is.
    pub fn info(&self) -> Result<PortInfo, Failure> {
        let info = self.0.info().map_err(|e| self.failure(&e))?;
        Ok(PortInfo {
            port: self.0.path().display().to_string(),
            kind: info.kind.to_string(),
            hwid: hex(info.hwid),
            generation: info.generation,
            lid: info.lid.unwrap_or(0),
            link_count: info.links,
            protection: info.protection.names().collect(),
            guards: info.guards.map(|guards| Guards {
                channels: guards.channels.names().collect(),
                memory: guards.memory.names().collect(),
                doorbells: guards.doorbells.names().collect(),
            }),
        })
    }

    /// Its links.
    pub fn links(&self) -> Result<Vec<LinkInfo>, Failure> {
        let links = self.0.links().map_err(|e| self.failure(&e))?;
        Ok(links.into_iter().map(LinkInfo::from).collect())
    }

    /// Whether a host is the port's own. The driver has links to it, too.
    pub fn leads_to_itself(&self, hwid: u64) -> bool {
        self.0.info().is_ok_and(|info| info.hwid == hwid)
    }

    /// Whether a route leads to a host, as far as it is known.
    pub fn has_route(&self, hwid: u64) -> bool {
        let fabric = self.0.fabric().ok().flatten();
        fabric.is_some_and(|fabric| fabric.node(hwid).is_some_and(|node| node.links.is_some()))
    }

    /// Whether the driver may have a link lead to a host over a route: a function without a manager, as a virtual one,
    /// does not know which hosts there are, and asks when it has to.
    fn may_reach(&self, hwid: u64) -> bool {
        let asks = || self.0.info().is_ok_and(|info| info.kind == weft::PortKind::Weft);
        match self.0.fabric() {
            Ok(None) => asks(),
            // The driver finds it by its id.
            Ok(Some(fabric)) if fabric.is_at_scale() => true,
            _ => self.has_route(hwid),
        }
    }

    /// Whether a route leads to any other host, as far as it is known.
    pub fn has_routes(&self) -> bool {
        let other = |node: &weft::FabricNode| {
            !node.own && node.kind == weft::NodeKind::Host && node.links.is_some()
        };
        let fabric = self.0.fabric().ok().flatten();
        fabric.is_some_and(|fabric| fabric.nodes.iter().any(other))
    }

    /// Listens on a service.
    pub fn listen(&self, service: u32) -> Result<Listener, Failure> {
        let listener = self.0.listen(service, BACKLOG).map_err(|e| self.failure(&e))?;
        Ok(Listener { listener, path: self.0.path().into() })
    }
}

/// Where connections arrive.
pub struct Listener {
    listener: weft::Listener,
    path: PathBuf,
}

impl Listener {
    /// The next connection; `None`: there was none until then.
    pub fn accept(&self, until: Option<Instant>) -> Result<Option<Channel>, Failure> {
        loop {
            let left = until.map(|end| end.saturating_duration_since(Instant::now()));
            match self.listener.accept(left) {
                Ok(channel) => return Ok(Some(Channel(channel))),
                Err(Error::TimedOut(_)) => return Ok(None),
                // That one went away before it was looked at.
                Err(Error::Reset | Error::Broken(_) | Error::Closed) => {}
                Err(e) => return Err(failure(&self.path, &e)),
            }
        }
    }
}

/// One end of a channel.
pub struct Channel(weft::Channel);

impl Channel {
    /// Hardware id of the other end.
    pub fn peer(&self) -> String {
        hex(self.0.peer().hwid)
    }

    /// The link in between.
    pub fn link(&self) -> u32 {
        self.0.link()
    }
}

fn broken(error: &Error) -> Broken {
    let closed = matches!(error, Error::Closed | Error::Ended);
    Broken { closed, why: plain_text(&error.to_string()) }
}

impl Wire for Channel {
    fn try_send(&mut self, tag: u64, payload: &[u8]) -> Result<bool, Broken> {
        self.0.try_send(payload, tag).map_err(|e| broken(&e))
    }

    fn try_receive(&mut self, payload: &mut Vec<u8>) -> Result<Option<u64>, Broken> {
        self.0.try_recv(payload).map_err(|e| broken(&e))
    }

    fn wait(&mut self, want: Want, until: Instant) -> Result<(), Broken> {
        let left = Some(until.saturating_duration_since(Instant::now()));
        let waited = match want {
            Want::Message => self.0.wait(false, left),
            Want::Room => self.0.sender().wait(left),
            Want::Either => self.0.wait(true, left),
        };
        waited.map(|_| ()).map_err(|e| broken(&e))
    }
}

/// The peer to connect to, as the user says it, by nothing at all if need be.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The device file, or the first that fits.
    pub port: Option<PathBuf>,
    /// Hardware id of the peer.
    pub peer: Option<u64>,
    /// Number of the link.
    pub link: Option<u32>,
}

/// Connects to a target, and again to the peer that was found there first.
pub struct Connector {
    target: Target,
    service: u32,
}

impl Connector {
    /// One that has not connected yet.
    pub fn new(target: Target, service: u32) -> Self {
        Connector { target, service }
    }

    /// The port to use; without one that leads to the peer, one with a route there, or else the first.
    fn port(&self) -> Result<Port, Failure> {
        if let Some(path) = &self.target.port {
            return Port::open(path);
        }
        let (mut first, mut routed) = (None, None);
        for path in ports() {
            let port = match Port::open(&path) {
                Ok(port) => port,
                Err(failure) if first.is_none() => return Err(failure),
                Err(_) => continue,
            };
            let Some(peer) = self.target.peer else { return Ok(port) };
            if port.leads_to_itself(peer) || port.links()?.iter().any(|link| link.hwid == peer) {
                return Ok(port);
            }
            if routed.is_none() && port.has_route(peer) {
                routed = Some(port);
            } else {
                first.get_or_insert(port);
            }
        }
        routed.or(first).ok_or_else(no_ports)
    }

    /// The link to use, and the host that is to be there.
    fn choose(&self, port: &Port) -> Result<weft::Connect, Failure> {
        let links = port.links()?;
        let shown = port.0.path().display();
        let fits = |link: &&LinkInfo| {
            self.target.link.is_none_or(|n| n == link.link)
                && self.target.peer.is_none_or(|hwid| hwid == link.hwid)
                && (self.target.link.is_some() || !link.is_loopback())
        };
        if let Some(n) = self.target.link.filter(|n| links.iter().all(|link| link.link != *n)) {
            let count = links.len();
            let message = format!("{shown} has no link {n}; it has {count} of them, from 0 on");
            return Err(Failure::new(Kind::Usage, message));
        }
        if let (Some(hwid), None) = (self.target.peer, self.target.link) {
            if port.leads_to_itself(hwid) {
                return Ok(weft::Connect::to_peer(hwid, self.service));
            }
        }
        let fitting: Vec<&LinkInfo> = links.iter().filter(fits).collect();
        let ready: Vec<&LinkInfo> = fitting.iter().copied().filter(|link| link.ready()).collect();
        match (ready.as_slice(), self.target.peer) {
            // The driver has a link lead there.
            ([], Some(hwid))
                if self.target.link.is_none()
                    && fitting.iter().all(|link| link.lid != 0)
                    && port.may_reach(hwid) =>
            {
                Ok(weft::Connect::to_peer(hwid, self.service))
            }
            ([], Some(hwid)) => Err(unready(port, hwid, &links)),
            ([], None) => {
                let message = format!("no link of {shown} is ready");
                let hint = format!("{}; `weftctl diagnose` says why", states(&fitting));
                Err(Failure::new(Kind::Unreachable, message).hint(hint))
            }
            ([link], None) | ([link, ..], Some(_)) => {
                let connect = weft::Connect::to_peer(link.hwid, self.service);
                Ok(connect.link(link.link))
            }
            (several, None) => {
                let message = format!("{} links of {shown} are ready", several.len());
                let lead = |l: &&LinkInfo| format!("link {} leads to {}", l.link, hex(l.hwid));
                let leads = several.iter().map(lead).collect::<Vec<_>>().join(", ");
                Err(Failure::new(Kind::Usage, message).hint(format!("say --to or --link: {leads}")))
            }
        }
    }

    fn try_connect(&mut self, until: Instant, unanswered: &mut bool) -> Result<Channel, Failure> {
        let port = self.port()?;
        let connect = self.choose(&port)?;
        let mut bulk = BULK.into_iter().peekable();
        while let Some(bytes) = bulk.next() {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = left.clamp(Duration::from_millis(1), LONGEST_WAIT);
            match port.0.connect(&connect.clone().bulk(bytes).timeout(timeout)) {
                Ok(channel) => {
                    self.target.peer = Some(channel.peer().hwid);
                    return Ok(Channel(channel));
                }
                Err(Error::NoRoom { .. } | Error::Share { .. }) if bulk.peek().is_some() => {}
                Err(e) => {
                    *unanswered = matches!(e, Error::TimedOut(_));
                    return Err(match (&e, self.target.peer) {
                        (Error::Unreachable(_), Some(hwid)) => unready(&port, hwid, &port.links()?),
                        _ => port.failure(&e),
                    });
                }
            }
        }
        Err(Failure::new(Kind::Failed, "no size of a channel to be asked for"))
    }
}

impl Connect for Connector {
    type Wire = Channel;

    fn connect(&mut self, until: Instant) -> Result<Channel, NoConnection> {
        let mut unanswered = false;
        self.try_connect(until, &mut unanswered).map_err(|failure| {
            // A port or a peer may come back, room may be made.
            let passing = !matches!(failure.kind, Kind::Usage | Kind::Permission);
            NoConnection { failure, passing, unanswered }
        })
    }
}

/// The failure of a host to which no link leads that is ready.
fn unready(port: &Port, hwid: u64, links: &[LinkInfo]) -> Failure {
    let shown = port.0.path().display();
    let message = format!("no link of {shown} that is ready leads to {}", hex(hwid));
    let mut hint = states(&links.iter().collect::<Vec<_>>());
    if port.has_route(hwid) {
        hint += "; a route leads there: the host there has no weft.ko, or no link left for this one, \
                 as manager/calls_refused counts there";
    }
    Failure::new(Kind::Unreachable, message).hint(hint)
}

/// States of links, for hints.
fn states(links: &[&LinkInfo]) -> String {
    let state = |link: &&LinkInfo| match (&link.peer_hwid, link.state.as_str()) {
        (Some(peer), state) => format!("link {} to {peer} is {state}", link.link),
        (None, "hello") => format!("link {} waits for the driver at its other end", link.link),
        (None, "switch") => format!("link {} leads to a switch", link.link),
        (None, state) => format!("link {} is {state}", link.link),
    };
    let all: Vec<String> = links.iter().map(state).collect();
    if all.is_empty() { "it has no links".into() } else { all.join(", ") }
}
