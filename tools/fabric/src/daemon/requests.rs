// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests of the command line: most are answered at once, `counters` when the
//! port has answered, a change of tables when what it broke is let go of, `wait`
//! when what is waited for has come.

use super::client::Lost;
use super::port::Port;
use super::{Daemon, log};
use crate::control::{
    Answer, CONTROL_VERSION, COUNTERS, Counters, DaemonStatus, Reply, Request, TIMED_OUT,
};
use crate::state::{Fabric, PortId, Refusal};
use std::time::{Duration, Instant};

/// How long a port may take to tell its counters.
const COUNTERS_TIME: Duration = Duration::from_secs(8);

/// How long ports may take to let go of what a change of tables broke.
const WITHDRAW_TIME: Duration = Duration::from_secs(5);

/// A request whose answer depends on what comes.
pub enum Unanswered {
    Wait {
        client: u64,
        nodes: Vec<String>,
        links: bool,
        deadline: Option<Instant>,
    },
    Counters {
        client: u64,
        node: String,
        host: usize,
        port: PortId,
        request: u64,
        deadline: Instant,
    },
    Tables {
        client: u64,
        request: u64,
        deadline: Instant,
    },
}

impl Unanswered {
    pub fn client(&self) -> u64 {
        match self {
            Unanswered::Wait { client, .. }
            | Unanswered::Counters { client, .. }
            | Unanswered::Tables { client, .. } => *client,
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Unanswered::Wait { deadline, .. } => *deadline,
            Unanswered::Counters { deadline, .. } | Unanswered::Tables { deadline, .. } => {
                Some(*deadline)
            }
        }
    }
}

impl Daemon {
    /// Takes what a client has sent.
    pub(super) fn serve_client(&mut self, id: u64) -> Result<(), Lost> {
        self.clients.get_mut(&id).ok_or(Lost)?.fill()?;
        while let Some(request) = self.clients.get_mut(&id).ok_or(Lost)?.next()? {
            let reply = self.request(id, request);
            // Events of the request come before its answer, whatever client follows them.
            self.apply();
            if let Some(reply) = reply {
                self.clients.get_mut(&id).ok_or(Lost)?.reply(&reply)?;
            }
        }
        Ok(())
    }

    /// Works on a request; `None` if the answer has to wait.
    fn request(&mut self, client: u64, request: Request) -> Option<Reply> {
        let done = match request {
            Request::Status => return Some(Reply::Ok(Answer::Status(self.daemon_status()))),
            Request::LinkUp { end } => self.fabric.switch_cable(&end, true),
            Request::LinkDown { end } => self.fabric.switch_cable(&end, false),
            Request::LinkSet { end, speed, width, power } => {
                self.fabric.limit_cable(&end, speed, width, power)
            }
            Request::Trace { node, on } => self.fabric.trace(&node, on),
            Request::Plug { node } => self.plug(&node),
            Request::Unplug { node } => self.unplug(&node),
            Request::Announce { node, coming } => self.fabric.announce(&node, coming),
            Request::Inject { fault } => match self.fabric.inject(fault) {
                Ok(number) => return Some(Reply::Ok(Answer::Injected(number))),
                Err(refusal) => Err(refusal),
            },
            Request::InjectList => return Some(Reply::Ok(Answer::Faults(self.fabric.faults()))),
            Request::InjectClear { number } => self.fabric.clear_faults(number),
            Request::Adversarial { node, seed } => self.fabric.adversarial(&node, seed),
            Request::Counters { node, clear } => match self.ask_counters(client, node, clear) {
                Ok(()) => return None,
                Err(refusal) => Err(refusal),
            },
            Request::Tables { node } => match self.fabric.tables(&node) {
                Ok(tables) => return Some(Reply::Ok(Answer::Tables(tables))),
                Err(refusal) => Err(refusal),
            },
            Request::Walk { host, lid } => match self.fabric.walk_route(&host, lid) {
                Ok(walk) => return Some(Reply::Ok(Answer::Walk(walk))),
                Err(refusal) => Err(refusal),
            },
            Request::RouteSet { node, lid, port } => {
                let change = |f: &mut Fabric, n| f.change_route(&node, lid, port, n);
                match self.change_tables(client, change) {
                    Ok(()) => return None,
                    Err(refusal) => Err(refusal),
                }
            }
            Request::VpSet { end, vp, vh } => {
                let change = |f: &mut Fabric, n| f.change_vp(&end, vp, vh, n);
                match self.change_tables(client, change) {
                    Ok(()) => return None,
                    Err(refusal) => Err(refusal),
                }
            }
            Request::Wait { nodes, links, timeout_ms } => {
                match self.fabric.missing(&nodes, links) {
                    Ok(missing) if missing.is_empty() => Ok(()),
                    Err(refusal) => Err(refusal),
                    Ok(_) => {
                        // A time beyond the clock's end is no limit.
                        let time = timeout_ms.map(Duration::from_millis);
                        let deadline = time.and_then(|t| Instant::now().checked_add(t));
                        self.unanswered.push(Unanswered::Wait { client, nodes, links, deadline });
                        return None;
                    }
                }
            }
            Request::Events => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.follows = true;
                }
                Ok(())
            }
            Request::Stop => {
                log::line("told to stop");
                self.stopping = true;
                Ok(())
            }
        };
        Some(match done {
            Ok(()) => Reply::Ok(Answer::Done),
            Err(Refusal(why)) => Reply::Error(why),
        })
    }

    fn daemon_status(&self) -> DaemonStatus {
        let dropped = self.ports.iter().filter_map(|(id, port)| {
            self.fabric.name_of(*id).map(|name| (name.to_owned(), port.dropped))
        });
        DaemonStatus {
            version: CONTROL_VERSION,
            pid: std::process::id(),
            topology: self.file.clone(),
            dropped: dropped.filter(|(_, n)| *n > 0).collect(),
            fabric: self.fabric.status(),
        }
    }

    fn ask_counters(&mut self, client: u64, node: String, clear: bool) -> Result<(), Refusal> {
        let request = self.next_id();
        let host = self.fabric.ask_counters(&node, request, clear)?;
        if let Some(port) = self.fabric.port_of(&node) {
            let deadline = Instant::now() + COUNTERS_TIME;
            self.unanswered.push(Unanswered::Counters {
                client,
                node,
                host,
                port,
                request,
                deadline,
            });
        }
        Ok(())
    }

    fn change_tables(
        &mut self,
        client: u64,
        change: impl FnOnce(&mut Fabric, u64) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let request = self.next_id();
        change(&mut self.fabric, request)?;
        let deadline = Instant::now() + WITHDRAW_TIME;
        self.unanswered.push(Unanswered::Tables { client, request, deadline });
        Ok(())
    }

    /// What a change of tables broke is let go of.
    pub(super) fn tables_done(&mut self, number: u64) {
        let ours = |u: &Unanswered| {
            matches!(u, Unanswered::Tables { request, .. }
            if *request == number)
        };
        if let Some(at) = self.unanswered.iter().position(ours) {
            let client = self.unanswered.remove(at).client();
            self.answer(client, &Reply::Ok(Answer::Done));
        }
    }

    /// A port has told its counters. Late answers find no client waiting.
    pub(super) fn counters_came(&mut self, from: usize, number: u64, values: &[u64]) {
        let matching = |u: &Unanswered| {
            matches!(u, Unanswered::Counters { host, request, .. }
                if (*host, *request) == (from, number))
        };
        let Some(at) = self.unanswered.iter().position(matching) else { return };
        let Unanswered::Counters { client, node, .. } = self.unanswered.remove(at) else { return };
        let reply = if values.len() == COUNTERS.len() {
            let counters =
                COUNTERS.iter().zip(values).map(|(name, value)| ((*name).into(), *value)).collect();
            Reply::Ok(Answer::Counters(Counters { node, counters }))
        } else {
            Reply::Error(format!(
                "{node} told {} counters, {} are known; build QEMU and weft-fabric from one source",
                values.len(),
                COUNTERS.len()
            ))
        };
        self.answer(client, &reply);
    }

    /// Answers what something that happened has decided.
    pub(super) fn look_again(&mut self) {
        let (fabric, ports) = (&self.fabric, &self.ports);
        let alive = |port: &PortId| ports.get(port).is_some_and(|p: &Port| !p.refused);
        let mut decided = vec![];
        self.unanswered.retain(|unanswered| {
            let reply = match unanswered {
                Unanswered::Wait { nodes, links, .. } => match fabric.missing(nodes, *links) {
                    Ok(missing) if !missing.is_empty() => return true,
                    Ok(_) => Reply::Ok(Answer::Done),
                    Err(Refusal(why)) => Reply::Error(why),
                },
                Unanswered::Counters { port, .. } if alive(port) => return true,
                Unanswered::Tables { .. } => return true,
                Unanswered::Counters { node, .. } => {
                    Reply::Error(format!("{node} went away before it told its counters"))
                }
            };
            decided.push((unanswered.client(), reply));
            false
        });
        for (client, reply) in decided {
            self.answer(client, &reply);
        }
    }

    /// Answers what has waited long enough.
    pub(super) fn expire_requests(&mut self, now: Instant) {
        let (due, rest): (Vec<_>, _) = std::mem::take(&mut self.unanswered)
            .into_iter()
            .partition(|u| u.deadline().is_some_and(|at| at <= now));
        self.unanswered = rest;
        for unanswered in due {
            let why = match &unanswered {
                Unanswered::Wait { nodes, links, .. } => {
                    let missing = self.fabric.missing(nodes, *links).unwrap_or_default();
                    format!("{TIMED_OUT}{}", missing.join("; "))
                }
                Unanswered::Counters { node, .. } => format!(
                    "{node} did not tell its counters in {} s; is its QEMU stopped?",
                    COUNTERS_TIME.as_secs()
                ),
                Unanswered::Tables { request, .. } => format!(
                    "the tables are changed, but after {} s {} still reaches what it did before; \
                     is its QEMU stopped?",
                    WITHDRAW_TIME.as_secs(),
                    self.fabric.give_up(*request).join(", ")
                ),
            };
            self.answer(unanswered.client(), &Reply::Error(why));
        }
    }

    fn answer(&mut self, client: u64, reply: &Reply) {
        if self.clients.get_mut(&client).is_some_and(|c| c.reply(reply).is_err()) {
            self.drop_client(client);
        }
    }
}
