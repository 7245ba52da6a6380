// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What travels between a port and the fabric: [`Packet`] is one
//! `struct weft_fab_msg` in bytes, [`FromPort`] and [`ToPort`] are what the
//! packets mean. Everything a port could get wrong by itself is found here;
//! whether a message fits the state of the fabric is not known here.

mod message;
mod packet;
pub mod socket;

pub use message::{
    BaseChange, Complaint, ConfigRequest, FromPort, InboundPart, LinkInfo, Peer, RouteEntry,
    Segment, ToPort, Traffic, field,
};
pub use packet::{PACKET_BYTES, Packet};

/// The constants and structures of `weft_fabric.h`, `weft_regs.h` and `weft_endpoint.h`.
#[allow(missing_docs, non_camel_case_types, dead_code)]
#[allow(clippy::all, clippy::undocumented_unsafe_blocks)]
pub mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// Links of a port.
pub const LINKS: usize = abi::WEFT_MAX_LINKS as usize;
/// Functions a port may have. Only the port knows what they are.
pub const FUNCTIONS: usize = abi::WEFT_FUNCTIONS as usize;
/// Entries of the inbound tables of all functions of a port: entry `n` of
/// function `f` is `f * WEFT_MAX_INBOUND + n`.
pub const ENTRIES: usize = FUNCTIONS * abi::WEFT_MAX_INBOUND as usize;
/// Remotes of a port, numbered after its links.
pub const REMOTES: usize = abi::WEFT_FAB_REMOTES as usize;
/// Links and remotes through which an owner can be seen.
pub const CHANNELS: u8 = abi::WEFT_FAB_CHANNELS as u8;
/// Entries of a port's route table.
pub const ROUTES: usize = abi::WEFT_ROUTES as usize;
/// Virtual planes of a link.
pub const VPS: u8 = abi::WEFT_VPS as u8;
/// Links of the longest route.
pub const MAX_HOPS: usize = abi::WEFT_MAX_HOPS as usize;
/// Segments that fit one packet.
pub const PACKET_SEGMENTS: usize = abi::WEFT_FAB_SEGS as usize;
/// Bytes of a page, to which apertures are aligned.
pub const PAGE: u64 = abi::WEFT_PAGE as u64;
/// Pieces an aperture may consist of, as in the device model.
pub const MAX_SEGMENTS: usize = 16384;
/// The same of a virtual function.
pub const MAX_VF_SEGMENTS: usize = 512;
/// Packets in which all entries of a port at their largest fit.
pub const MAX_PACKETS: usize = {
    let pfs = abi::WEFT_PFS as usize;
    let segments = pfs * MAX_SEGMENTS + (FUNCTIONS - pfs) * MAX_VF_SEGMENTS;
    segments / PACKET_SEGMENTS * abi::WEFT_MAX_INBOUND as usize
};
