// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What packets mean, in both directions. [`FromPort::read`] refuses whatever no
//! correct port sends; what a *guest* can cause its port to send (odd targets of
//! a link, spare bits of a mask) is brought into range instead, for a guest must
//! not be able to lose its port.

use super::abi::*;
use super::{ENTRIES, FUNCTIONS, LINKS, MAX_HOPS, PACKET_SEGMENTS, Packet, REMOTES, ROUTES, VPS};
use std::ops::RangeInclusive;

/// What is wrong with a message, for the log.
pub type Complaint = String;

/// A piece of an aperture: where it lies in its owner's RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte, in the RAM descriptor.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// One packet of a change of an inbound entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundPart {
    /// Which entry, below [`ENTRIES`].
    pub entry: u16,
    /// First byte, in the owner's aperture space.
    pub offset: u64,
    /// Bytes of the whole aperture; 0 withdraws it.
    pub bytes: u64,
    /// `WEFT_RIGHT_*`.
    pub rights: u64,
    /// Links of the owner whose neighbour may see it; none when forwarded.
    pub allow: u8,
    /// Sequence number: the owner's, or the fabric's when forwarded.
    pub sequence: u32,
    /// Index of the first segment in this packet.
    pub first: u32,
    /// More packets of the same change follow.
    pub more: bool,
    /// At most [`PACKET_SEGMENTS`].
    pub segments: Vec<Segment>,
}

/// An entry of a port's route table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// Local ids it is for.
    pub lids: RangeInclusive<u32>,
    /// Link they are reached by.
    pub link: u8,
    /// Virtual plane on that link.
    pub vp: u8,
    /// The port's own traffic may take it.
    pub own: bool,
    /// So may that of these links ...
    pub from_links: u8,
    /// ... on these virtual planes.
    pub from_vps: u16,
}

/// What passed a link, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Memory TLPs, writes and reads.
    pub tlps: u64,
    /// Their payload, and the bytes that reads ask for.
    pub bytes: u64,
    /// Doorbells.
    pub doorbells: u64,
}

/// A configuration request, on its way by port path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRequest {
    /// `WEFT_SPACE_*`.
    pub space: u32,
    /// What to write; `None` reads.
    pub write: Option<u32>,
    /// Meaning depends on the space.
    pub address: u32,
    /// Of the master; writes only.
    pub term: u32,
    /// Ports to leave by, the requester's link first.
    pub path: Vec<u8>,
}

/// A message of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the header says what each field is
pub enum FromPort {
    Hello { version: u64, hwid: u64, ram: u64, name: String },
    Enable(bool),
    Reset,
    LinkCtrl { link: u8, disable: bool, speed: u8, width: u8 },
    Inbound(InboundPart),
    InboundAck { link: u8, entry: u16, sequence: u32 },
    Mbox { link: u8, to: u8, from: u8, data: Vec<u8> },
    Denied { link: u8, offset: u64, kind: u64, count: u64, to: u8 },
    Counters { request: u64, values: Vec<u64> },
    FunctionReset { function: u8 },
    Route { entry: u16, sequence: u32, route: Option<RouteEntry> },
    Lid(u32),
    Want { remote: u8, lid: u32 },
    RemoteAck { remote: u8, ticket: u32 },
    Traffic { link: u8, traffic: Traffic },
    Config { request: u64, config: ConfigRequest },
    InboundFrom { entry: u16, from: u32, gates: u64 },
    FaultUsed { link: u8, kind: u64 },
    BaseAck { ticket: u32 },
    RoutedMbox { lid: u32, to: u8, from: u8, data: Vec<u8> },
    Moved { link: u8, out: u64, into: u64 },
}

/// What an endpoint's base function was told of a virtual endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseChange {
    /// Which.
    pub ve: u8,
    /// Of the endpoint's link; `None`: no link has it.
    pub vp: Option<u8>,
    /// LID of the root complex that it works for.
    pub root: u32,
}

/// What a port is told of a link whether or not it is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LinkInfo {
    pub speed: u8,
    pub width: u8,
    pub endpoint: bool,
    pub present: bool,
    pub max_speed: u8,
    pub max_width: u8,
    /// The neighbour is a switch that routes.
    pub switch: bool,
    /// The link to it is up; of hosts, LINK_UP and LINK_DOWN tell.
    pub switch_up: bool,
}

/// The port at the other end of a link or route that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Peer {
    pub hwid: u64,
    pub generation: u32,
    /// Another number each time that the way there comes up.
    pub life: u32,
}

/// A message to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToPort {
    Welcome {
        generation: u32,
        hwid: u64,
        links: u8,
        traced: bool,
        attests: bool,
        seed: Option<u64>,
    },
    Refused(String),
    LinkUp {
        link: u8,
        speed: u8,
        width: u8,
        endpoint: bool,
        far: u8,
        peer: Peer,
    },
    LinkDown {
        link: u8,
    },
    LinkInfo {
        link: u8,
        info: LinkInfo,
    },
    Inbound {
        link: u8,
        part: InboundPart,
    },
    InboundAck {
        entry: u16,
        sequence: u32,
    },
    Mbox {
        link: u8,
        to: u8,
        from: u8,
        data: Vec<u8>,
    },
    Denied {
        link: u8,
        offset: u64,
        kind: u64,
        count: u64,
        to: u8,
    },
    Trace(bool),
    Adversarial(Option<u64>),
    CountersGet {
        request: u64,
        clear: bool,
    },
    Generation {
        generation: u32,
        function: u8,
    },
    RouteAck {
        entry: u16,
        sequence: u32,
    },
    RemoteUp {
        remote: u8,
        hops: u8,
        gate: u8,
        channel: u8,
        peer: Peer,
    },
    RemoteDown {
        remote: u8,
        why: u32,
        hops: u8,
        last: bool,
        ticket: u32,
    },
    PeerGone {
        channel: u8,
        life: u32,
    },
    RoutedDenied {
        gate: u8,
        offset: u64,
        kind: u64,
        count: u64,
        to: u8,
    },
    RouteDenied {
        link: u8,
        lid: u32,
        count: u64,
        why: u32,
    },
    ConfigReply {
        request: u64,
        result: u32,
        hops: u8,
        data: u32,
    },
    Fault {
        link: u8,
        kind: u64,
        times: u64,
        latency_ns: u64,
        bytes_per_second: u64,
    },
    Base {
        ticket: u32,
        change: BaseChange,
    },
    Presence {
        switch: u64,
        port: u8,
        status: u32,
    },
    RoutedMbox {
        gate: u8,
        lid: u32,
        to: u8,
        from: u8,
        data: Vec<u8>,
    },
    Moved {
        link: u8,
        out: u64,
        into: u64,
    },
}

impl FromPort {
    /// Reads a packet, or says why no correct port would have sent it.
    pub fn read(packet: Packet) -> Result<Self, Complaint> {
        let Packet { kind, link, arg, data } = packet;
        Ok(match kind {
            WEFT_FAB_HELLO => FromPort::Hello {
                version: arg[0],
                hwid: arg[1],
                ram: arg[2],
                name: hello_name(data)?,
            },
            WEFT_FAB_ENABLE => FromPort::Enable(arg[0] & 1 != 0),
            WEFT_FAB_RESET => FromPort::Reset,
            WEFT_FAB_LINK_CTRL => FromPort::LinkCtrl {
                link: link_number(link)?,
                disable: arg[0] != 0,
                speed: arg[1].min(u8::MAX.into()) as u8,
                width: arg[2].min(u8::MAX.into()) as u8,
            },
            WEFT_FAB_INBOUND => FromPort::Inbound(InboundPart {
                entry: entry(arg[0])?,
                offset: arg[1],
                bytes: arg[2],
                rights: arg[3] & u64::from(WEFT_RIGHT_READ | WEFT_RIGHT_WRITE),
                allow: (arg[4] & ((1 << LINKS) - 1)) as u8,
                sequence: (arg[5] >> 32) as u32,
                first: (arg[5] as u32) >> 1,
                more: arg[5] & 1 != 0,
                segments: segments(&data)?,
            }),
            WEFT_FAB_INBOUND_ACK => FromPort::InboundAck {
                link: any_link(link)?,
                entry: entry(arg[0])?,
                sequence: (arg[5] >> 32) as u32,
            },
            WEFT_FAB_MBOX | WEFT_FAB_MBOX_LID if data.is_empty() => {
                return Err("an empty mailbox message".into());
            }
            WEFT_FAB_MBOX => FromPort::Mbox {
                link: link_number(link)?,
                to: function(arg[0])?,
                from: function(arg[1])?,
                data,
            },
            WEFT_FAB_DENIED => FromPort::Denied {
                link: any_link(link)?,
                offset: arg[0],
                kind: arg[1],
                count: arg[2],
                to: function(arg[3])?,
            },
            WEFT_FAB_COUNTERS => FromPort::Counters { request: arg[0], values: words(&data)? },
            WEFT_FAB_FUNCTION_RESET => FromPort::FunctionReset { function: function(arg[0])? },
            WEFT_FAB_ROUTE => FromPort::Route {
                entry: route_number(arg[0])?,
                sequence: (arg[5] >> 32) as u32,
                route: route(arg[1], arg[2] as u32, arg[3] as u32),
            },
            WEFT_FAB_LID => FromPort::Lid(arg[0] as u32),
            WEFT_FAB_WANT => FromPort::Want { remote: remote_number(link)?, lid: arg[0] as u32 },
            WEFT_FAB_REMOTE_ACK => {
                FromPort::RemoteAck { remote: remote_number(link)?, ticket: (arg[5] >> 32) as u32 }
            }
            WEFT_FAB_TRAFFIC => FromPort::Traffic {
                link: any_link(link)?,
                traffic: Traffic {
                    tlps: arg[0].saturating_add(arg[2]),
                    bytes: arg[1].saturating_add(arg[3]),
                    doorbells: arg[4],
                },
            },
            WEFT_FAB_MOVED => FromPort::Moved { link: any_link(link)?, out: arg[0], into: arg[1] },
            WEFT_FAB_CONFIG => FromPort::Config { request: arg[0], config: config(&arg, data)? },
            WEFT_FAB_INBOUND_FROM => {
                FromPort::InboundFrom { entry: entry(arg[0])?, from: arg[1] as u32, gates: arg[2] }
            }
            WEFT_FAB_MBOX_LID => FromPort::RoutedMbox {
                lid: arg[2] as u32,
                to: function(arg[0])?,
                from: function(arg[1])?,
                data,
            },
            WEFT_FAB_FAULT_USED => FromPort::FaultUsed { link: link_number(link)?, kind: arg[0] },
            WEFT_FAB_BASE_ACK => FromPort::BaseAck { ticket: (arg[5] >> 32) as u32 },
            other => return Err(format!("a message of type {other}, which no port sends")),
        })
    }
}

impl ToPort {
    /// The packet that says this.
    pub fn packet(&self) -> Packet {
        let mut p = Packet::default();
        p.kind = match self {
            ToPort::Welcome { generation, hwid, links, traced, attests, seed } => {
                p.arg = [
                    (*generation).into(),
                    *hwid,
                    (*links).into(),
                    (*traced).into(),
                    u64::from(seed.is_some())
                        | if *attests { 0 } else { WEFT_FAB_UNATTESTED.into() },
                    seed.unwrap_or_default(),
                ];
                WEFT_FAB_WELCOME
            }
            ToPort::Refused(why) => {
                p.data = why.clone().into_bytes();
                p.data.truncate(WEFT_FAB_DATA as usize);
                WEFT_FAB_REFUSED
            }
            ToPort::LinkUp { link, speed, width, endpoint, far, peer } => {
                p.link = (*link).into();
                p.arg = [
                    (*speed).into(),
                    (*width).into(),
                    (*endpoint).into(),
                    peer.hwid,
                    peer.generation.into(),
                    u64::from(*far) | (u64::from(peer.life) << 32),
                ];
                WEFT_FAB_LINK_UP
            }
            ToPort::LinkDown { link } => {
                p.link = (*link).into();
                WEFT_FAB_LINK_DOWN
            }
            ToPort::LinkInfo { link, info } => {
                p.link = (*link).into();
                p.arg = [
                    info.speed.into(),
                    info.width.into(),
                    u64::from(info.endpoint)
                        | (u64::from(info.switch) << 1)
                        | (u64::from(info.switch_up) << 2),
                    info.present.into(),
                    info.max_speed.into(),
                    info.max_width.into(),
                ];
                WEFT_FAB_LINK_INFO
            }
            ToPort::Inbound { link, part } => {
                p.link = (*link).into();
                p.arg = [
                    part.entry.into(),
                    part.offset,
                    part.bytes,
                    part.rights,
                    part.allow.into(),
                    (u64::from(part.sequence) << 32)
                        | (u64::from(part.first) << 1)
                        | u64::from(part.more),
                ];
                for segment in &part.segments {
                    p.data.extend(segment.offset.to_ne_bytes());
                    p.data.extend(segment.len.to_ne_bytes());
                }
                WEFT_FAB_INBOUND
            }
            ToPort::InboundAck { entry, sequence } => {
                p.arg[0] = (*entry).into();
                p.arg[5] = u64::from(*sequence) << 32;
                WEFT_FAB_INBOUND_ACK
            }
            ToPort::Mbox { link, to, from, data } => {
                p.link = (*link).into();
                p.arg[..2].copy_from_slice(&[(*to).into(), (*from).into()]);
                p.data.clone_from(data);
                WEFT_FAB_MBOX
            }
            ToPort::Denied { link, offset, kind, count, to } => {
                p.link = (*link).into();
                p.arg[..4].copy_from_slice(&[*offset, *kind, *count, (*to).into()]);
                WEFT_FAB_DENIED
            }
            ToPort::Trace(on) => {
                p.arg[0] = (*on).into();
                WEFT_FAB_TRACE
            }
            ToPort::Adversarial(seed) => {
                p.arg[..2].copy_from_slice(&[seed.is_some().into(), seed.unwrap_or_default()]);
                WEFT_FAB_ADVERSARIAL
            }
            ToPort::CountersGet { request, clear } => {
                p.arg[..2].copy_from_slice(&[*request, (*clear).into()]);
                WEFT_FAB_COUNTERS_GET
            }
            ToPort::Generation { generation, function } => {
                p.arg[..2].copy_from_slice(&[(*generation).into(), (*function).into()]);
                WEFT_FAB_GENERATION
            }
            ToPort::RouteAck { entry, sequence } => {
                p.arg[0] = (*entry).into();
                p.arg[5] = u64::from(*sequence) << 32;
                WEFT_FAB_ROUTE_ACK
            }
            ToPort::RemoteUp { remote, hops, gate, channel, peer } => {
                p.link = remote_link(*remote);
                p.arg = [
                    (*hops).into(),
                    (*gate).into(),
                    (*channel).into(),
                    peer.hwid,
                    peer.generation.into(),
                    u64::from(peer.life) << 32,
                ];
                WEFT_FAB_REMOTE_UP
            }
            ToPort::RemoteDown { remote, why, hops, last, ticket } => {
                p.link = remote_link(*remote);
                p.arg[..3].copy_from_slice(&[(*why).into(), (*hops).into(), (*last).into()]);
                p.arg[5] = u64::from(*ticket) << 32;
                WEFT_FAB_REMOTE_DOWN
            }
            ToPort::PeerGone { channel, life } => {
                p.arg[0] = (*channel).into();
                p.arg[5] = u64::from(*life) << 32;
                WEFT_FAB_PEER_GONE
            }
            ToPort::RoutedDenied { gate, offset, kind, count, to } => {
                p.link = (gate / VPS).into();
                p.arg[..5].copy_from_slice(&[
                    *offset,
                    *kind,
                    *count,
                    (*to).into(),
                    u64::from(WEFT_FAB_ROUTED) | (u64::from(gate % VPS) << 8),
                ]);
                WEFT_FAB_DENIED
            }
            ToPort::RouteDenied { link, lid, count, why } => {
                p.link = (*link).into();
                p.arg[..3].copy_from_slice(&[(*lid).into(), *count, (*why).into()]);
                WEFT_FAB_ROUTE_DENIED
            }
            ToPort::ConfigReply { request, result, hops, data } => {
                p.arg[..4].copy_from_slice(&[
                    *request,
                    (*result).into(),
                    (*hops).into(),
                    (*data).into(),
                ]);
                WEFT_FAB_CONFIG_REPLY
            }
            ToPort::RoutedMbox { gate, lid, to, from, data } => {
                p.link = (gate / VPS).into();
                let vp = gate % VPS;
                p.arg[..4].copy_from_slice(&[
                    (*to).into(),
                    (*from).into(),
                    (*lid).into(),
                    vp.into(),
                ]);
                p.data.clone_from(data);
                WEFT_FAB_MBOX_LID
            }
            ToPort::Moved { link, out, into } => {
                p.link = (*link).into();
                p.arg[..2].copy_from_slice(&[*out, *into]);
                WEFT_FAB_MOVED
            }
            ToPort::Fault { link, kind, times, latency_ns, bytes_per_second } => {
                p.link = (*link).into();
                p.arg[..4].copy_from_slice(&[*kind, *times, *latency_ns, *bytes_per_second]);
                WEFT_FAB_FAULT
            }
            ToPort::Presence { switch, port, status } => {
                p.arg[..3].copy_from_slice(&[*switch, (*port).into(), (*status).into()]);
                WEFT_FAB_PRESENCE
            }
            ToPort::Base { ticket, change: BaseChange { ve, vp, root } } => {
                let vp = vp.map_or(WEFT_FAB_NO_VP.into(), u64::from);
                p.arg[..3].copy_from_slice(&[(*ve).into(), vp, (*root).into()]);
                p.arg[5] = u64::from(*ticket) << 32;
                WEFT_FAB_BASE
            }
        };
        p
    }

    /// A message whose loss its reader must be able to bear: a full mailbox
    /// loses messages as well, reports of refusals only count, and how much a link
    /// has carried is said again with the next.
    pub fn may_be_dropped(&self) -> bool {
        matches!(
            self,
            ToPort::Mbox { .. }
                | ToPort::RoutedMbox { .. }
                | ToPort::Denied { .. }
                | ToPort::RoutedDenied { .. }
                | ToPort::RouteDenied { .. }
                | ToPort::Moved { .. }
        )
    }
}

fn link_number(link: u16) -> Result<u8, Complaint> {
    match u8::try_from(link) {
        Ok(n) if usize::from(n) < LINKS => Ok(n),
        _ => Err(format!("link {link}; a port has links 0 to {}", LINKS - 1)),
    }
}

/// A link or a remote.
fn any_link(link: u16) -> Result<u8, Complaint> {
    match u8::try_from(link) {
        Ok(n) if usize::from(n) < LINKS + REMOTES => Ok(n),
        _ => Err(format!("link {link}; links and remotes end before {}", LINKS + REMOTES)),
    }
}

fn remote_number(link: u16) -> Result<u8, Complaint> {
    match usize::from(any_link(link)?).checked_sub(LINKS) {
        Some(n) => Ok(n as u8),
        None => Err(format!("link {link} is no remote; they begin at {LINKS}")),
    }
}

fn remote_link(remote: u8) -> u16 {
    u16::from(remote) + LINKS as u16
}

fn route_number(n: u64) -> Result<u16, Complaint> {
    match u16::try_from(n) {
        Ok(n) if usize::from(n) < ROUTES => Ok(n),
        _ => Err(format!("route {n}; a port has routes 0 to {}", ROUTES - 1)),
    }
}

/// `lids`: first, and last in the high half; 0 for none.
fn route(lids: u64, out: u32, from: u32) -> Option<RouteEntry> {
    let (first, last) = (lids as u32, (lids >> 32) as u32);
    let link = out & WEFT_ROUTE_LINK;
    let valid = first != 0 && first <= last && link < LINKS as u32;
    valid.then(|| RouteEntry {
        lids: first..=last,
        link: link as u8,
        vp: field(out, WEFT_ROUTE_VP) as u8,
        own: from & WEFT_ROUTE_FROM_SELF != 0,
        from_links: field(from, WEFT_ROUTE_FROM_LINKS) as u8,
        from_vps: field(from, WEFT_ROUTE_FROM_VPS) as u16,
    })
}

fn config(arg: &[u64; 6], data: Vec<u8>) -> Result<ConfigRequest, Complaint> {
    let ctrl = arg[1] as u32;
    if data.is_empty() || data.len() > MAX_HOPS {
        return Err(format!("a configuration request over {} hops", data.len()));
    }
    Ok(ConfigRequest {
        space: field(ctrl, WEFT_CFG_SPACE),
        write: (ctrl & WEFT_CFG_WRITE != 0).then_some(arg[3] as u32),
        address: arg[2] as u32,
        term: arg[4] as u32,
        path: data,
    })
}

/// The part of a register that `mask` covers.
pub fn field(value: u32, mask: u32) -> u32 {
    (value & mask) >> mask.trailing_zeros()
}

fn function(n: u64) -> Result<u8, Complaint> {
    match u8::try_from(n) {
        Ok(n) if usize::from(n) < FUNCTIONS => Ok(n),
        _ => Err(format!("function {n}; a port has functions 0 to {}", FUNCTIONS - 1)),
    }
}

fn entry(n: u64) -> Result<u16, Complaint> {
    match u16::try_from(n) {
        Ok(n) if usize::from(n) < ENTRIES => Ok(n),
        _ => Err(format!("inbound entry {n}; a port has entries 0 to {}", ENTRIES - 1)),
    }
}

fn hello_name(mut data: Vec<u8>) -> Result<String, Complaint> {
    // A C string may bring its end along.
    if data.last() == Some(&0) {
        data.pop();
    }
    String::from_utf8(data).map_err(|_| "the name in HELLO is not UTF-8".into())
}

fn words(data: &[u8]) -> Result<Vec<u64>, Complaint> {
    let chunks = data.chunks_exact(8);
    if !chunks.remainder().is_empty() {
        return Err(format!("{} bytes of data; 64-bit words were expected", data.len()));
    }
    Ok(chunks.map(|c| u64::from_ne_bytes(std::array::from_fn(|n| c[n]))).collect())
}

fn segments(data: &[u8]) -> Result<Vec<Segment>, Complaint> {
    let words = words(data)?;
    let pairs = words.chunks_exact(2);
    if !pairs.remainder().is_empty() || words.len() > 2 * PACKET_SEGMENTS {
        return Err(format!(
            "{} bytes of segments; 0 to {PACKET_SEGMENTS} of 16 bytes were expected",
            data.len()
        ));
    }
    Ok(pairs.map(|p| Segment { offset: p[0], len: p[1] }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_packet_is_read_within_bounds_or_refused(
            kind in 0u32..50,
            link in 0u16..80,
            arg: [u64; 6],
            data in prop::collection::vec(any::<u8>(), 0..=256),
        ) {
            match FromPort::read(Packet { kind, link, arg, data }) {
                Ok(FromPort::Inbound(part)) => {
                    prop_assert!(usize::from(part.entry) < ENTRIES);
                    prop_assert!(part.segments.len() <= PACKET_SEGMENTS);
                    prop_assert!(part.allow < 1 << LINKS && part.rights <= 3);
                }
                Ok(FromPort::LinkCtrl { link, .. } | FromPort::Mbox { link, .. }) => {
                    prop_assert!(usize::from(link) < LINKS);
                }
                Ok(FromPort::Want { remote, .. } | FromPort::RemoteAck { remote, .. }) => {
                    prop_assert!(usize::from(remote) < REMOTES);
                }
                Ok(FromPort::Route { route: Some(route), .. }) => {
                    prop_assert!(usize::from(route.link) < LINKS && route.vp < VPS);
                    prop_assert!(*route.lids.start() > 0 && !route.lids.is_empty());
                }
                Ok(FromPort::Config { config, .. }) => {
                    prop_assert!((1..=MAX_HOPS).contains(&config.path.len()));
                }
                Ok(_) => {}
                Err(why) => prop_assert!(!why.is_empty()),
            }
        }
    }

    #[test]
    fn each_entry_of_a_route_table_can_be_set() {
        let set = |entry: u64| {
            let arg = [entry, 1 | (1 << 32), 0, 0, 0, 0];
            FromPort::read(Packet { kind: WEFT_FAB_ROUTE, link: 0, arg, data: Vec::new() })
        };
        for n in 0..ROUTES as u64 {
            let Ok(FromPort::Route { entry, route: Some(_), .. }) = set(n) else {
                panic!("{:?}", set(n));
            };
            assert_eq!(u64::from(entry), n);
        }
        assert!(set(ROUTES as u64).is_err());
    }

    #[test]
    fn a_forwarded_change_reads_as_it_was_sent() {
        let part = InboundPart {
            entry: ENTRIES as u16 - 1,
            offset: 0x1000,
            bytes: 0x3000,
            rights: 3,
            allow: 5,
            sequence: 0xdead_beef,
            first: 16,
            more: true,
            segments: vec![
                Segment { offset: 0, len: 0x1000 },
                Segment { offset: 0x8000, len: 0x2000 },
            ],
        };
        let packet = ToPort::Inbound { link: 2, part: part.clone() }.packet();
        assert_eq!(FromPort::read(packet), Ok(FromPort::Inbound(part)));
    }

    #[test]
    fn types_only_the_fabric_sends_are_refused() {
        for kind in [
            WEFT_FAB_WELCOME,
            WEFT_FAB_LINK_UP,
            WEFT_FAB_TRACE,
            WEFT_FAB_ADVERSARIAL,
            WEFT_FAB_GENERATION,
            0,
            999,
        ] {
            assert!(FromPort::read(Packet { kind, ..Packet::default() }).is_err());
        }
    }
}
