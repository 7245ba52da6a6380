// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What packets mean, in both directions. [`FromPort::read`] refuses whatever no
//! correct port sends; what a *guest* can cause its port to send (odd targets of
//! a link, spare bits of a mask) is brought into range instead, for a guest must
//! not be able to lose its port.

use super::abi::*;
use super::{ENTRIES, FUNCTIONS, LINKS, PACKET_SEGMENTS, Packet};

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
}

/// A message to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToPort {
    Welcome { generation: u32, hwid: u64, links: u8, traced: bool },
    Refused(String),
    LinkUp { link: u8, speed: u8, width: u8, endpoint: bool, hwid: u64, generation: u32, far: u8 },
    LinkDown { link: u8 },
    LinkInfo { link: u8, info: LinkInfo },
    Inbound { link: u8, part: InboundPart },
    InboundAck { entry: u16, sequence: u32 },
    Mbox { link: u8, to: u8, from: u8, data: Vec<u8> },
    Denied { link: u8, offset: u64, kind: u64, count: u64, to: u8 },
    Trace(bool),
    CountersGet { request: u64, clear: bool },
    Generation { generation: u32, function: u8 },
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
                link: link_number(link)?,
                entry: entry(arg[0])?,
                sequence: (arg[5] >> 32) as u32,
            },
            WEFT_FAB_MBOX if data.is_empty() => return Err("an empty mailbox message".into()),
            WEFT_FAB_MBOX => FromPort::Mbox {
                link: link_number(link)?,
                to: function(arg[0])?,
                from: function(arg[1])?,
                data,
            },
            WEFT_FAB_DENIED => FromPort::Denied {
                link: link_number(link)?,
                offset: arg[0],
                kind: arg[1],
                count: arg[2],
                to: function(arg[3])?,
            },
            WEFT_FAB_COUNTERS => FromPort::Counters { request: arg[0], values: words(&data)? },
            WEFT_FAB_FUNCTION_RESET => FromPort::FunctionReset { function: function(arg[0])? },
            other => return Err(format!("a message of type {other}, which no port sends")),
        })
    }
}

impl ToPort {
    /// The packet that says this.
    pub fn packet(&self) -> Packet {
        let mut p = Packet::default();
        p.kind = match self {
            ToPort::Welcome { generation, hwid, links, traced } => {
                p.arg[..4].copy_from_slice(&[
                    (*generation).into(),
                    *hwid,
                    (*links).into(),
                    (*traced).into(),
                ]);
                WEFT_FAB_WELCOME
            }
            ToPort::Refused(why) => {
                p.data = why.clone().into_bytes();
                p.data.truncate(WEFT_FAB_DATA as usize);
                WEFT_FAB_REFUSED
            }
            ToPort::LinkUp { link, speed, width, endpoint, hwid, generation, far } => {
                p.link = (*link).into();
                p.arg = [
                    (*speed).into(),
                    (*width).into(),
                    (*endpoint).into(),
                    *hwid,
                    (*generation).into(),
                    (*far).into(),
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
                    info.endpoint.into(),
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
            ToPort::CountersGet { request, clear } => {
                p.arg[..2].copy_from_slice(&[*request, (*clear).into()]);
                WEFT_FAB_COUNTERS_GET
            }
            ToPort::Generation { generation, function } => {
                p.arg[..2].copy_from_slice(&[(*generation).into(), (*function).into()]);
                WEFT_FAB_GENERATION
            }
        };
        p
    }

    /// A message whose loss its reader must be able to bear: a full mailbox
    /// loses messages as well, and reports of refusals only count.
    pub fn may_be_dropped(&self) -> bool {
        matches!(self, ToPort::Mbox { .. } | ToPort::Denied { .. })
    }
}

fn link_number(link: u16) -> Result<u8, Complaint> {
    match u8::try_from(link) {
        Ok(n) if usize::from(n) < LINKS => Ok(n),
        _ => Err(format!("link {link}; a port has links 0 to {}", LINKS - 1)),
    }
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
            kind in 0u32..20,
            link in 0u16..6,
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
                Ok(_) => {}
                Err(why) => prop_assert!(!why.is_empty()),
            }
        }
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
        for kind in [WEFT_FAB_WELCOME, WEFT_FAB_LINK_UP, WEFT_FAB_TRACE, WEFT_FAB_GENERATION, 0] {
            assert!(FromPort::read(Packet { kind, ..Packet::default() }).is_err());
        }
    }
}
