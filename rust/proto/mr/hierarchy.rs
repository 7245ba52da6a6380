// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The virtual hierarchy of a root complex, in the form sent to its host: the components of its tree,
//! and for each virtual endpoint that is assigned to the host how to reach it, and where it may come in.
//!
//! The bytes come from another machine: [`Hierarchy::parse`] checks them as a whole, so a hierarchy that
//! it returns is valid. This file is independent of how the bytes are transported, and of how a
//! hierarchy is designed. Format: `Documentation/multiroot.rst`.

use super::{
    super::{
        bytes::{members, Malformed, Member, Reader, Writer},
        nm::{
            kind::{is_endpoint, is_host},
            lid::MAX_LID,
            port::{HOST_PORTS, PORTS},
        },
    },
    inventory::Kind,
    plane::{COMMON_VH, COMMON_VP, PLANES},
    tree::MAX_HOPS,
};

/// The range of its address space in which a host opens memory to virtual endpoints: first and last
/// byte. There is room for each virtual endpoint of each local id, so that places need no search.
pub const WINDOW: (u64, u64) = (1 << 40, (1 << 58) - 1);
/// Bytes that a host opens to each virtual endpoint.
pub const BYTES: u64 = 1 << 30;
/// Most endpoints with a virtual endpoint assigned to the host: it has a route for each.
pub const MAX_ENDPOINTS: usize = 16;
/// Most bytes of a hierarchy.
pub const MAX_BYTES: usize = 4096;
/// Most places of a hierarchy.
pub const MAX_PLACES: usize = (MAX_BYTES - HEAD_BYTES) / PLACE_BYTES;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 8;
const PLACE_BYTES: usize = 48;
/// Unit of places in an address space.
const PAGE: u64 = 4096;

/// Kinds, with the numbers of the user interface.
const HOST: u8 = 1;
const SWITCH: u8 = 2;
const ENDPOINT: u8 = 3;

/// Flag: the virtual endpoint is assigned to the host.
const GIVEN: u8 = 1 << 0;

/// A link of the host, and a virtual plane on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Number of the link.
    pub link: u8,
    /// Number of the plane, not the common one.
    pub vp: u8,
}

/// A virtual endpoint that is assigned to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// Its number within the endpoint.
    pub ve: u8,
    /// Link and plane by which the host reaches it.
    pub out: Gate,
    /// Link and plane by which its accesses come in.
    pub into: Gate,
    /// First byte of the memory that the host opens to it, in the host's address space.
    pub base: u64,
    /// Last byte of that memory.
    pub limit: u64,
}

/// A component of the hierarchy; an endpoint has a place for each of its virtual endpoints that is
/// listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of links from the host.
    pub depth: u8,
    /// Its kind.
    pub kind: Kind,
    /// Port of the component above by which it is reached; 0 for the host.
    pub port: u8,
    /// Hardware id.
    pub hwid: u64,
    /// Local id, 0: none.
    pub lid: u32,
    /// Its virtual endpoint that is assigned to the host.
    pub given: Option<Given>,
}

/// Reason why bytes are not a valid hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The number of bytes is wrong.
    Length,
    /// The version is unknown.
    Version(u8),
    /// A member has an invalid value.
    Value,
    /// A component cannot be in this place.
    Order,
    /// A component is listed twice, or with differences.
    Twice,
    /// There are more endpoints than a host has routes for.
    Full,
    /// Ranges in the address space overlap, or are not inside the window.
    Space,
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Self::Length
    }
}

fn check(ok: bool, why: Error) -> Result<(), Error> {
    ok.then_some(()).ok_or(why)
}

/// Encodes a hierarchy and returns its length in bytes. `None` if [`Hierarchy::parse`] does not accept
/// it, or there is no room for it.
pub fn encode(vh: u16, places: &[Place], to: &mut [u8]) -> Option<usize> {
    let mut w = Writer::new(to);
    w.u8(VERSION);
    w.u8(u8::try_from(places.len()).ok()?);
    w.u16(vh);
    w.u32(0);
    for place in places {
        place.put(&mut w);
    }
    let bytes = w.finish()?;
    Hierarchy::parse(to.get(..bytes)?).ok().map(|_| bytes)
}

impl Gate {
    const NONE: Self = Self { link: 0, vp: 0 };

    fn is_good(&self) -> bool {
        usize::from(self.link) < HOST_PORTS && self.vp > COMMON_VP && self.vp < PLANES
    }
}

members! {
    Gate { link, vp };
}

impl Place {
    fn put(&self, w: &mut Writer<'_>) {
        let (kind, functions, count) = match self.kind {
            Kind::Root => (HOST, 0, 0),
            Kind::Switch { ports } => (SWITCH, 0, ports),
            Kind::Endpoint { ves, functions } => (ENDPOINT, functions, ves),
        };
        let given = self.given.unwrap_or(Given {
            ve: 0,
            out: Gate::NONE,
            into: Gate::NONE,
            base: 0,
            limit: 0,
        });
        w.u8(self.depth);
        w.u8(kind);
        w.u8(self.port);
        w.u8(if self.given.is_some() { GIVEN } else { 0 });
        w.u64(self.hwid);
        w.u32(self.lid);
        w.u8(given.ve);
        w.u8(functions);
        w.u8(count);
        w.u8(0);
        given.out.put(w);
        given.into.put(w);
        w.u64(given.base);
        w.u64(given.limit);
        w.u64(0);
    }

    /// Decodes a place, and checks what can be checked without the other places.
    fn get(bytes: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(bytes);
        let (depth, kind, port, flags) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let (hwid, lid) = (r.u64()?, r.u32()?);
        let (ve, functions, count, zero) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let (out, into) = (Gate::get(&mut r)?, Gate::get(&mut r)?);
        let (base, limit, rest) = (r.u64()?, r.u64()?, r.u64()?);
        let value = |ok| check(ok, Error::Value);
        let kind = match kind {
            HOST if is_host(hwid) && functions == 0 && count == 0 => Kind::Root,
            SWITCH if !is_host(hwid) && !is_endpoint(hwid) && functions == 0 && count != 0 => {
                Kind::Switch { ports: count }
            }
            ENDPOINT if is_endpoint(hwid) && functions != 0 && count != 0 => Kind::Endpoint {
                ves: count,
                functions,
            },
            _ => return Err(Error::Value),
        };
        value(hwid != 0 && lid <= MAX_LID && zero == 0 && rest == 0)?;
        value(u32::from(depth) <= MAX_HOPS && usize::from(port) < PORTS)?;
        let given = Given {
            ve,
            out,
            into,
            base,
            limit,
        };
        let given = match (flags, kind) {
            (0, _) => {
                let none = (0, Gate::NONE, Gate::NONE, 0, 0);
                value((ve, out, into, base, limit) == none)?;
                None
            }
            (GIVEN, Kind::Endpoint { ves, .. }) => {
                value(lid != 0 && ve < ves && out.is_good() && into.is_good())?;
                let whole = base % PAGE == 0 && limit % PAGE == PAGE - 1 && base < limit;
                let inside = WINDOW.0 <= base && limit <= WINDOW.1;
                check(whole && inside, Error::Space)?;
                Some(given)
            }
            _ => return Err(Error::Value),
        };
        Ok(Self {
            depth,
            kind,
            port,
            hwid,
            lid,
            given,
        })
    }

    /// Returns whether this place can directly follow `before` in a depth-first walk.
    fn follows(&self, before: &Self) -> bool {
        let deeper = self.depth == before.depth + 1;
        let passes = matches!(before.kind, Kind::Root | Kind::Switch { .. });
        self.kind != Kind::Root
            && self.depth != 0
            && (deeper && passes || self.depth <= before.depth)
    }

    /// Checks whether both places can be in one hierarchy, this one behind the other.
    fn goes_with(&self, other: &Self) -> Result<(), Error> {
        let same = self.hwid == other.hwid;
        check(same || self.lid == 0 || self.lid != other.lid, Error::Twice)?;
        let (Some(one), Some(two)) = (self.given, other.given) else {
            return check(!same, Error::Twice);
        };
        let as_there = Self {
            given: other.given,
            ..*self
        };
        // All virtual endpoints of an endpoint have the same gates: a packet carries only the local id.
        let at_one = as_there == *other && (one.out, one.into) == (two.out, two.into);
        check(!same || (at_one && one.ve != two.ve), Error::Twice)?;
        let apart = one.limit < two.base || two.limit < one.base;
        check(apart, Error::Space)
    }
}

/// A valid hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy<'a> {
    vh: u16,
    places: &'a [u8],
}

impl<'a> Hierarchy<'a> {
    /// Decodes and checks a hierarchy.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut r = Reader::new(bytes);
        let version = r.u8()?;
        check(version == VERSION, Error::Version(version))?;
        let (count, vh, zero) = (usize::from(r.u8()?), r.u16()?, r.u32()?);
        let whole = bytes.len() <= MAX_BYTES && r.rest().len() == count * PLACE_BYTES;
        check(whole && count != 0, Error::Length)?;
        check(zero == 0, Error::Value)?;
        let this = Self {
            vh,
            places: r.rest(),
        };
        for record in this.records() {
            Place::get(record)?;
        }
        let mut before: Option<Place> = None;
        let mut endpoints = 0;
        for (n, place) in this.places().enumerate() {
            match before {
                Some(before) => check(place.follows(&before), Error::Order)?,
                None => {
                    let first = place.kind == Kind::Root && (place.depth, place.port) == (0, 0);
                    check(first, Error::Order)?;
                }
            }
            for other in this.places().take(n) {
                place.goes_with(&other)?;
            }
            // The places of one endpoint follow each other.
            let again = before.is_some_and(|before| before.hwid == place.hwid);
            let seen = this.places().take(n).any(|other| other.hwid == place.hwid);
            check(again == seen, Error::Order)?;
            endpoints += usize::from(place.given.is_some() && !again);
            before = Some(place);
        }
        check(endpoints <= MAX_ENDPOINTS, Error::Full)?;
        // A host without virtual endpoints has no number, and the common number belongs to no host.
        let numbered = vh > COMMON_VH;
        check(
            numbered == (endpoints != 0) && vh != COMMON_VH,
            Error::Value,
        )?;
        Ok(this)
    }

    /// Returns its number; 0: no virtual endpoint is assigned to the host.
    pub fn vh(&self) -> u16 {
        self.vh
    }

    /// Iterates over all places, depth first; the first is the host.
    pub fn places(&self) -> impl Iterator<Item = Place> + Clone + 'a {
        self.records().filter_map(|record| Place::get(record).ok())
    }

    /// Iterates over the virtual endpoints that are assigned to the host, with their places.
    pub fn given(&self) -> impl Iterator<Item = (Place, Given)> + Clone + 'a {
        self.places()
            .filter_map(|place| Some((place, place.given?)))
    }

    fn records(&self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        self.places.chunks_exact(PLACE_BYTES)
    }
}
