// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The base function of a shared endpoint: through it a master gives each virtual
//! endpoint to a virtual hierarchy. A write is handed to the endpoint and answered
//! when that has it in force, and all that saw what was there before have let go.

use super::withdrawal::Waiter;
use super::{Event, Fabric};
use crate::topology::{Endpoint, Node};
use crate::wire::abi::*;
use crate::wire::{BaseChange, ConfigRequest, ToPort, VPS, field};
use serde::{Deserialize, Serialize};
use weft_proto::nm::mastership::Mastership;

/// A virtual endpoint.
#[derive(Clone, Copy, Default)]
struct Ve {
    /// Of the endpoint's link.
    vp: Option<u8>,
    /// LID of the root complex it works for.
    root: u32,
}

/// What a base function has been told. Begins anew with the endpoint's connection.
#[derive(Default)]
pub struct Base {
    /// Hardware id of the port that has written last, 0: none yet.
    pub master: u64,
    /// Its term.
    pub term: u32,
    /// Of the root complex on the same hardware unit, as the master has found.
    resident: u64,
    ves: [Ve; WEFT_EP_MAX_VES as usize],
}

/// A write that the endpoint has not confirmed. Until it has there is no other: a
/// virtual endpoint is wiped before it is given to another host.
pub struct Unconfirmed {
    ticket: u32,
    endpoint: usize,
    /// The writer, unless that port is gone, and the answer.
    writer: Option<(usize, ToPort)>,
}

/// A shared endpoint, as `status` shows it. As all there, these are names that scripts
/// read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointStatus {
    /// Local id, 0: none.
    pub lid: u32,
    /// Hardware id of the root complex on the same hardware unit, 0: none is known.
    pub resident: u64,
    /// Hardware id of the port that has written its base function last, 0: none.
    pub master: u64,
    /// Its term.
    pub term: u32,
    /// Functions of each virtual endpoint.
    pub functions: u8,
    /// Virtual endpoints.
    pub ves: Vec<VeStatus>,
}

/// A virtual endpoint, likewise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VeStatus {
    /// VP of the endpoint's link; none: it is free.
    pub vp: Option<u8>,
    /// LID of the root complex that it works for, 0: none.
    pub root: u32,
}

/// The ports that have to hear of a write before it is in force.
enum Told {
    Nothing,
    /// Those that reach the endpoint by its LID.
    Lid,
    /// The endpoint itself.
    Change(BaseChange),
}

impl Base {
    fn change(&self, ve: usize) -> Told {
        let Ve { vp, root } = self.ves[ve];
        Told::Change(BaseChange { ve: ve as u8, vp, root })
    }
}

/// Which register of which component.
enum Register {
    Ve(usize),
    Root(usize),
    Functions(usize),
    Lid,
    Resident { high: bool },
}

impl Register {
    fn at(address: u32, endpoint: &Endpoint) -> Option<Self> {
        let (who, register) = (address & !0xff, address & 0xff);
        if who == WEFT_BASE_ENDPOINT {
            return match register {
                WEFT_BASE_LID => Some(Register::Lid),
                WEFT_BASE_RESIDENT => Some(Register::Resident { high: false }),
                _ if register == WEFT_BASE_RESIDENT + 4 => Some(Register::Resident { high: true }),
                _ => None,
            };
        }
        let ve = (who >> 8) as usize;
        match register {
            _ if ve >= usize::from(endpoint.ves) => None,
            WEFT_BASE_VE => Some(Register::Ve(ve)),
            WEFT_BASE_ROOT => Some(Register::Root(ve)),
            WEFT_BASE_FUNCTIONS => Some(Register::Functions(ve)),
            _ => None,
        }
    }
}

impl Fabric {
    /// A register of configuration space that only endpoints have; of a host, 0.
    pub(super) fn base_register(&self, host: usize, address: u32) -> u32 {
        let (Some(endpoint), Some(session)) =
            (&self.topology.hosts[host].endpoint, self.session(host))
        else {
            return 0;
        };
        let shift = WEFT_EP_FUNCTION_BYTES.trailing_zeros();
        match address {
            WEFT_CS_MASTER => session.base.master as u32,
            _ if address == WEFT_CS_MASTER + 4 => (session.base.master >> 32) as u32,
            WEFT_CS_TERM => session.base.term,
            WEFT_CS_CAP => {
                u32::from(endpoint.ves)
                    | (u32::from(endpoint.functions) << 8)
                    | (WEFT_KIND_COPY << 16)
                    | (shift << 24)
            }
            _ => 0,
        }
    }

    pub(super) fn base_read(&self, host: usize, address: u32) -> Option<u32> {
        let endpoint = self.topology.hosts[host].endpoint.as_ref()?;
        let base = &self.session(host)?.base;
        Some(match Register::at(address, endpoint)? {
            Register::Ve(ve) => base.ves[ve].vp.map_or(0, |vp| WEFT_TABLE_VALID | u32::from(vp)),
            Register::Root(ve) => base.ves[ve].root,
            Register::Functions(ve) => {
                let functions = u32::from(endpoint.functions);
                (ve as u32 * functions) | (functions << 8)
            }
            Register::Lid => self.session(host)?.lid,
            Register::Resident { high: false } => base.resident as u32,
            Register::Resident { high: true } => (base.resident >> 32) as u32,
        })
    }

    /// A write to the base function of `at`, by the port of `host`.
    pub(super) fn base_write(
        &mut self,
        host: usize,
        at: usize,
        hops: u8,
        (request, config, data): (u64, &ConfigRequest, u32),
    ) {
        let done = self.base_change(host, at, config, data);
        let term = self.session(at).map_or(0, |s| s.base.term);
        let result = done.as_ref().err().copied().unwrap_or(WEFT_CFG_OK);
        let reply = ToPort::ConfigReply { request, result, hops, data: term };
        match done {
            Ok(Told::Lid) => {
                self.tables_changed(Node::Host(at), Waiter::Config { host, reply });
            }
            Ok(Told::Change(base)) => {
                let ticket = self.next_ticket();
                let writer = Some((host, reply));
                self.unconfirmed.push(Unconfirmed { ticket, endpoint: at, writer });
                self.tell(at, ToPort::Base { ticket, change: base });
            }
            Ok(Told::Nothing) | Err(_) => self.tell(host, reply),
        }
    }

    /// Makes the change. What the endpoint has to be told, if that changes anything.
    fn base_change(
        &mut self,
        host: usize,
        at: usize,
        config: &ConfigRequest,
        data: u32,
    ) -> Result<Told, u32> {
        let endpoint = self.topology.hosts[at].endpoint.clone().ok_or(WEFT_CFG_READ_ONLY)?;
        if !self.topology.may_manage(host) {
            return Err(WEFT_CFG_READ_ONLY);
        }
        if self.unconfirmed.iter().any(|u| u.endpoint == at) {
            return Err(WEFT_CFG_BUSY_THERE);
        }
        let hwid = self.session(host).map_or(0, |s| s.hwid);
        let session = self.nodes[at].session.as_mut().ok_or(WEFT_CFG_NO_PATH)?;
        let base = &mut session.base;
        super::switch::accept((&mut base.master, &mut base.term), hwid, config.term)?;
        if let Some(firmware) = &mut session.firmware {
            firmware.accept(Mastership { term: config.term, master: hwid });
        }
        let valid = data & WEFT_TABLE_VALID != 0;
        let mut told = Told::Nothing;
        let change = match Register::at(config.address, &endpoint).ok_or(WEFT_CFG_BAD)? {
            Register::Functions(_) => return Err(WEFT_CFG_READ_ONLY),
            Register::Resident { high } => {
                let shift = if high { 32 } else { 0 };
                base.resident =
                    base.resident & !(0xffff_ffff << shift) | (u64::from(data) << shift);
                format!("on the hardware unit of {}", base.resident)
            }
            Register::Lid => {
                session.lid = data;
                told = Told::Lid;
                format!("LID {data}")
            }
            Register::Root(ve) => {
                // The served host does not change without everything being let go of.
                if base.ves[ve].vp.is_some() {
                    return Err(WEFT_CFG_BAD);
                }
                base.ves[ve].root = data;
                format!("virtual endpoint {ve} for LID {data}")
            }
            Register::Ve(ve) if valid => {
                let vp = field(data, WEFT_BASE_VP) as u8;
                let root = base.ves[ve].root;
                // A plane is one hierarchy's, and that has one root complex.
                let clashes = |v: &Ve| v.vp.is_some() && (v.vp == Some(vp)) != (v.root == root);
                let moves = base.ves[ve].vp.is_some_and(|old| old != vp);
                if root == 0
                    || moves
                    || data & !WEFT_TABLE_VALID >= VPS.into()
                    || base.ves.iter().any(clashes)
                {
                    return Err(WEFT_CFG_BAD);
                }
                base.ves[ve].vp = Some(vp);
                told = base.change(ve);
                format!("virtual endpoint {ve} on VP {vp} for LID {root}")
            }
            Register::Ve(ve) => {
                base.ves[ve].vp = None;
                told = base.change(ve);
                format!("virtual endpoint {ve} for no host")
            }
        };
        let (node, term) = (self.topology.hosts[at].name.clone(), config.term);
        self.effects.push(super::Effect::Event(Event::Table { node, change, master: hwid, term }));
        Ok(told)
    }

    /// An endpoint has a write in force. Its own routes may have gone with it.
    pub(super) fn base_ack(&mut self, endpoint: usize, ticket: u32) {
        let ours = |u: &Unconfirmed| (u.endpoint, u.ticket) == (endpoint, ticket);
        let Some(n) = self.unconfirmed.iter().position(ours) else { return };
        match self.unconfirmed.remove(n).writer {
            Some((host, reply)) => {
                self.tables_changed(Node::Host(endpoint), Waiter::Config { host, reply });
            }
            None => self.resolve(),
        }
    }

    /// An endpoint is gone, and with it all that could be reached there.
    pub(super) fn base_gone(&mut self, endpoint: usize) {
        let (over, rest): (Vec<_>, _) =
            std::mem::take(&mut self.unconfirmed).into_iter().partition(|u| u.endpoint == endpoint);
        self.unconfirmed = rest;
        for (host, reply) in over.into_iter().filter_map(|u| u.writer) {
            self.tell(host, reply);
        }
    }

    pub(super) fn endpoint_status(&self, host: usize, endpoint: &Endpoint) -> EndpointStatus {
        let none = Base::default();
        let lid = self.session(host).map_or(0, |s| s.lid);
        let base = self.session(host).map_or(&none, |s| &s.base);
        let ve = |v: &Ve| VeStatus { vp: v.vp, root: v.root };
        EndpointStatus {
            lid,
            resident: base.resident,
            master: base.master,
            term: base.term,
            functions: endpoint.functions,
            ves: base.ves.iter().take(endpoint.ves.into()).map(ve).collect(),
        }
    }

    /// The port of `host` waits for a write to be confirmed.
    pub(super) fn base_is_due(&self, host: usize) -> bool {
        self.unconfirmed.iter().any(|u| u.writer.as_ref().is_some_and(|w| w.0 == host))
    }

    /// No port is there to be answered any more.
    pub(super) fn forget_writer(&mut self, host: usize) {
        for unconfirmed in &mut self.unconfirmed {
            unconfirmed.writer.take_if(|(writer, _)| *writer == host);
        }
    }
}
