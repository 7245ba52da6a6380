// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The daemon: one thread and one `poll` between the sockets and the state
//! machine, beside the threads of the endpoints it plays, which are ports to it. It never waits for a port or a client; one that does not read fills a
//! bounded queue and is dropped when it is full.

mod client;
mod descriptors;
mod dir;
mod endpoints;
mod log;
mod port;
mod requests;

pub use dir::{CONTROL_SOCKET, PORT_SOCKET};
pub use log::clock;

use crate::endpoint::Running;
use crate::state::{Effect, Event, Fabric, PortId};
use crate::topology::Topology;
use crate::wire::socket::{ENDED, Received};
use crate::wire::{FromPort, Packet, ToPort};
use client::{Client, Lost};
use dir::Dir;
use port::Port;
use requests::Unanswered;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, accept_with};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A connection that has not become a port by then is closed.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// How long no connection is accepted after accepting one has failed.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Packets taken from one port before the others have their turn.
const TURN: usize = 64;
/// Connections that are not ports, beyond one for each host.
const SPARE_CONNECTIONS: usize = 16;
/// Connections of the command line.
const MAX_CLIENTS: usize = 64;

/// A running daemon.
pub struct Daemon {
    fabric: Fabric,
    dir: Dir,
    /// As given, for `status`.
    file: String,
    port_listener: OwnedFd,
    control_listener: OwnedFd,
    signals: UnixStream,
    ports: BTreeMap<PortId, Port>,
    clients: BTreeMap<u64, Client>,
    unanswered: Vec<Unanswered>,
    /// Shared endpoints that are plugged in, by name, and their connections.
    endpoints: BTreeMap<String, (PortId, Running)>,
    /// The last number given to a connection or a request.
    last_id: u64,
    accept_again: Option<Instant>,
    /// From which the fabric's time counts.
    start: Instant,
    stopping: bool,
}

/// Whose descriptor it is that is ready.
#[derive(Clone, Copy)]
enum Token {
    Ports,
    Control,
    Signals,
    Port(PortId),
    Client(u64),
}

impl Daemon {
    /// Takes `dir` and listens in it.
    pub fn new(topology: Topology, file: &Path, dir: &Path) -> Result<Self, String> {
        let dir = Dir::take(dir)?;
        let signals = signals().map_err(|e| format!("cannot take signals: {e}"))?;
        Ok(Daemon {
            fabric: Fabric::new(topology, dir.last_generation()),
            file: file.display().to_string(),
            port_listener: dir.listen(PORT_SOCKET, SocketType::SEQPACKET)?,
            control_listener: dir.listen(CONTROL_SOCKET, SocketType::STREAM)?,
            signals,
            ports: BTreeMap::new(),
            clients: BTreeMap::new(),
            unanswered: vec![],
            endpoints: BTreeMap::new(),
            last_id: 0,
            accept_again: None,
            start: Instant::now(),
            stopping: false,
            dir,
        })
    }

    /// Serves until it is told to stop.
    pub fn run(&mut self) -> Result<(), String> {
        self.start_endpoints()?;
        while !self.stopping {
            for (token, flags) in self.wait().map_err(|e| format!("poll failed: {e}"))? {
                self.handle(token, flags);
            }
            self.expire();
            self.fabric.sample();
            self.apply();
            self.serve_backlog();
            self.carry_out();
        }
        log::line("stopped");
        Ok(())
    }

    /// Tells the fabric what time it is.
    fn pass(&mut self) {
        let now = self.start.elapsed().as_micros();
        self.fabric.pass(u64::try_from(now).unwrap_or(u64::MAX));
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Waits until something is ready or due.
    fn wait(&mut self) -> Result<Vec<(Token, PollFlags)>, Errno> {
        let mut tokens = vec![];
        let mut fds = vec![];
        let mut add = |token, fd, flags| {
            tokens.push(token);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        add(Token::Signals, self.signals.as_fd(), PollFlags::IN);
        if self.accept_again.is_none() {
            add(Token::Ports, self.port_listener.as_fd(), PollFlags::IN);
            add(Token::Control, self.control_listener.as_fd(), PollFlags::IN);
        }
        for (id, port) in &self.ports {
            add(Token::Port(*id), port.fd(), port.interest());
        }
        for (id, client) in &self.clients {
            add(Token::Client(*id), client.fd(), client.interest());
        }
        let deadlines = self.ports.values().filter_map(|p| p.deadline);
        let deadlines = deadlines.chain(self.unanswered.iter().filter_map(Unanswered::deadline));
        let due = self.fabric.next_due().map(|us| self.start + Duration::from_micros(us));
        let next = deadlines.chain(self.accept_again).chain(due).min();
        let timeout = next.map(|at| {
            // Rounded up, so that the wait does not end just before the deadline.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        let ready = tokens.into_iter().zip(fds.iter().map(PollFd::revents));
        Ok(ready.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    fn handle(&mut self, token: Token, flags: PollFlags) {
        self.pass();
        match token {
            Token::Signals => {
                let mut bytes = [0; 16];
                self.stopping |= !matches!((&self.signals).read(&mut bytes), Ok(0) | Err(_));
            }
            Token::Ports => self.accept_port(),
            Token::Control => self.accept_client(),
            Token::Port(id) => {
                if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.read_port(id);
                }
            }
            Token::Client(id) => {
                if self.serve_client(id).is_err() || flags.contains(PollFlags::HUP) {
                    self.drop_client(id);
                }
            }
        }
        // At once, so that what one connection caused comes before the next one's.
        self.apply();
    }

    fn accept(&mut self, from: fn(&Self) -> BorrowedFd<'_>) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(from(self), flags) {
            Ok(fd) => Some(fd),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => None,
            Err(e) => {
                // Out of descriptors, most likely: trying again at once would spin.
                log::line(&format!("cannot accept a connection: {e}; trying again in 1 s"));
                self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
                None
            }
        }
    }

    fn accept_port(&mut self) {
        while let Some(fd) = self.accept(|d| d.port_listener.as_fd()) {
            if self.ports.len() >= self.fabric.topology().hosts.len() + SPARE_CONNECTIONS {
                log::line("a connection was closed: too many that are not ports");
                continue;
            }
            let id = PortId(self.next_id());
            self.ports.insert(id, Port::new(fd, Instant::now() + HELLO_TIME));
        }
    }

    fn accept_client(&mut self) {
        while let Some(fd) = self.accept(|d| d.control_listener.as_fd()) {
            if self.clients.len() >= MAX_CLIENTS {
                log::line(&format!("a control connection was closed: {MAX_CLIENTS} are open"));
                continue;
            }
            let id = self.next_id();
            self.clients.insert(id, Client::new(fd));
        }
    }

    fn read_port(&mut self, id: PortId) {
        for _ in 0..TURN {
            let Some(port) = self.ports.get(&id) else { return };
            match port.receive() {
                Received::Nothing => return,
                Received::Gone(why) => return self.drop_port(id, why),
                _ if port.refused => {}
                Received::Packet(packet, fds) => self.take_packet(id, packet, fds),
                Received::Bad(why) => self.fabric.close(id, why),
            }
            self.apply();
        }
    }

    fn take_packet(&mut self, id: PortId, packet: Packet, fds: Vec<OwnedFd>) {
        let message = match FromPort::read(packet) {
            Ok(message) => message,
            Err(why) => return self.fabric.close(id, why),
        };
        if let FromPort::Hello { ram, name, .. } = &message {
            if let Err(why) = self.may_play(id, name) {
                return self.fabric.refuse(id, name.clone(), why);
            }
            if let Some(old) = self.fabric.port_of(name) {
                if old != id && self.ports.get(&old).is_some_and(Port::hung_up) {
                    self.drop_port(old, ENDED.into());
                }
            }
            if self.fabric.name_of(id).is_none() {
                match descriptors::check(fds, *ram) {
                    Ok(good) => {
                        if let Some(port) = self.ports.get_mut(&id) {
                            port.descriptors = Some(good);
                        }
                    }
                    Err(why) => return self.fabric.refuse(id, name.clone(), why),
                }
            }
        } else if !fds.is_empty() {
            return self.fabric.close(id, "descriptors with a message other than HELLO".into());
        }
        self.fabric.message(id, message);
    }

    /// Requests that came while their client waited for an earlier answer.
    fn serve_backlog(&mut self) {
        while let Some((&id, _)) = self.clients.iter().find(|(_, c)| c.has_request()) {
            if self.serve_client(id).is_err() {
                self.drop_client(id);
            }
        }
    }

    fn drop_port(&mut self, id: PortId, why: String) {
        self.ports.remove(&id);
        self.fabric.gone(id, why);
    }

    fn drop_client(&mut self, id: u64) {
        self.clients.remove(&id);
        self.unanswered.retain(|u| u.client() != id);
    }

    /// Closes what has taken too long.
    fn expire(&mut self) {
        self.pass();
        self.apply();
        let now = Instant::now();
        self.accept_again = self.accept_again.filter(|at| *at > now);
        let late = |port: &Port| port.deadline.is_some_and(|at| at <= now);
        let ids: Vec<_> = self.ports.iter().filter(|(_, p)| late(p)).map(|(id, _)| *id).collect();
        for id in ids {
            if self.ports.remove(&id).is_some_and(|port| !port.refused) {
                log::line("a connection was closed: it did not say HELLO");
            }
        }
        self.expire_requests(now);
    }

    /// Turns effects into queued packets, until nothing follows any more.
    fn apply(&mut self) {
        loop {
            let effects = self.fabric.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    Effect::Send { to, message, descriptors } => {
                        self.send(to, &message, descriptors)
                    }
                    Effect::Refuse { port, why } => self.refuse(port, why),
                    Effect::Close { port, why } => {
                        // A port's end is an event; this one was none yet.
                        if self.ports.remove(&port).is_some_and(|p| p.deadline.is_some()) {
                            log::line(&format!("a connection was closed: {why}"));
                        }
                    }
                    Effect::Counters { host, request, values } => {
                        self.counters_came(host, request, &values);
                    }
                    Effect::Withdrawn { request } => self.tables_done(request),
                    Effect::Event(event) => self.event(event),
                }
            }
        }
        self.look_again();
    }

    fn send(&mut self, to: PortId, message: &ToPort, descriptors: Option<PortId>) {
        let descriptors = match descriptors {
            None => None,
            // Gone between the effect and here: a LINK_DOWN is on its way.
            Some(of) => match self.ports.get(&of).and_then(|p| p.descriptors.clone()) {
                None => return,
                some => some,
            },
        };
        let Some(port) = self.ports.get_mut(&to) else { return };
        if matches!(message, ToPort::Welcome { .. }) {
            port.deadline = None;
        }
        if let Err(why) = port.push(message, descriptors) {
            self.drop_port(to, why);
        }
    }

    fn refuse(&mut self, id: PortId, why: String) {
        if let Some(port) = self.ports.get_mut(&id) {
            port.refused = true;
            port.descriptors = None;
            if port.push(&ToPort::Refused(why), None).is_err() {
                self.ports.remove(&id);
            }
        }
    }

    fn event(&mut self, event: Event) {
        let stamped = log::stamp(event);
        log::event(&stamped);
        let ids: Vec<_> =
            self.clients.iter().filter(|(_, c)| c.follows).map(|(id, _)| *id).collect();
        for id in ids {
            if self.clients.get_mut(&id).is_some_and(|c| c.line(&stamped).is_err()) {
                self.drop_client(id);
            }
        }
    }

    /// Sends all that is queued, as far as it goes without waiting.
    fn carry_out(&mut self) {
        loop {
            if let Err(e) = self.dir.record_generation(self.fabric.generation()) {
                // The clock still keeps generations apart, at up to one a second.
                log::line(&format!("cannot put the generation on record: {e}"));
            }
            let mut broken = vec![];
            for (id, port) in &mut self.ports {
                if port.interest().contains(PollFlags::OUT) {
                    if let Err(why) = port.flush() {
                        broken.push((*id, why));
                    }
                }
            }
            if broken.is_empty() {
                break;
            }
            for (id, why) in broken {
                self.drop_port(id, why);
            }
            self.apply();
        }
        let flushed = |client: &mut Client| matches!(client.flush(), Err(Lost));
        let lost: Vec<_> =
            self.clients.iter_mut().filter_map(|(id, c)| flushed(c).then_some(*id)).collect();
        for id in lost {
            self.drop_client(id);
        }
    }
}

/// A stream that has something to read after SIGTERM, SIGINT or SIGHUP.
fn signals() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in
        [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
    {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// Serves the topology of `file` in `dir`; `ready` is printed once it listens.
pub fn serve(topology: Topology, file: &Path, dir: &Path) -> Result<(), String> {
    let mut daemon = Daemon::new(topology, file, dir)?;
    log::line(&format!("serving {} in {}", file.display(), dir.display()));
    // The parent process may not care; the sockets are there either way.
    let mut out = io::stdout();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
    daemon.run()
}
