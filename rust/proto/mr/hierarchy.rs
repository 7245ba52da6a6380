// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The virtual hierarchy of a root complex, as its host is told of it: the components of its tree, and
//! for each virtual endpoint that is the host's how to reach it, and where it may come in.
//!
//! The bytes come from another machine: [`Hierarchy::parse`] checks them as a whole, and what it lets
//! pass is in order. This file must not know how they travel, nor how a hierarchy is designed. Format:
//! `Documentation/multiroot.rst`.

use super::{
    super::nm::{
        bytes::{Reader, Short, Writer},
        kind::{is_endpoint, is_host},
        lid::MAX_LID,
        port::{HOST_PORTS, PORTS},
    },
    inventory::Kind,
    plane::{COMMON_VH, COMMON_VP, PLANES},
    tree::MAX_HOPS,
};

/// Where in its address space a host opens memory to virtual endpoints: first and last byte. There is a
/// place for each virtual endpoint of each local id, so that none has to be looked for.
pub const WINDOW: (u64, u64) = (1 << 40, (1 << 58) - 1);
/// Bytes that it opens to each of them.
pub const BYTES: u64 = 1 << 30;
/// Endpoints of which some virtual endpoint is the host's, at the most: it has a route for each.
pub const MAX_ENDPOINTS: usize = 16;
/// Bytes of the longest hierarchy.
pub const MAX_BYTES: usize = 4096;
/// Components of one, at the most.
pub const MAX_PLACES: usize = (MAX_BYTES - HEAD_BYTES) / PLACE_BYTES;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 8;
const PLACE_BYTES: usize = 48;
/// Unit of places in an address space.
const PAGE: u64 = 4096;

/// Kinds, as the user interface counts them.
const HOST: u8 = 1;
const SWITCH: u8 = 2;
const ENDPOINT: u8 = 3;

/// The virtual endpoint is the host's.
const GIVEN: u8 = 1 << 0;

/// A link of the host, and the virtual plane there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Which link.
    pub link: u8,
    /// Which plane, not the common one.
    pub vp: u8,
}

/// A virtual endpoint that is the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// Which one of the endpoint.
    pub ve: u8,
    /// By which way the host reaches it.
    pub out: Gate,
    /// By which way it comes in.
    pub into: Gate,
    /// First byte of what the host opens to it, in the host's address space.
    pub base: u64,
    /// Last byte.
    pub limit: u64,
}

/// A component of the hierarchy; an endpoint has a place for each virtual endpoint that is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Links from the host.
    pub depth: u8,
    /// What it is.
    pub kind: Kind,
    /// By which port of the one above it is reached; of the host 0.
    pub port: u8,
    /// Hardware id.
    pub hwid: u64,
    /// Local id, 0: none.
    pub lid: u32,
    /// What of it is the host's.
    pub given: Option<Given>,
}

/// Why bytes are no hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// They are not as many as they say.
    Length,
    /// Of a version that is not known.
    Version(u8),
    /// A member has a value that it never has.
    Value,
    /// A component is not where it can be.
    Order,
    /// A component is told of twice, or differently.
    Twice,
    /// More endpoints than a host has routes for.
    Full,
    /// Places in the address space are not apart, or not inside the window.
    Space,
}

impl From<Short> for Error {
    fn from(_: Short) -> Self {
        Self::Length
    }
}

fn check(ok: bool, why: Error) -> Result<(), Error> {
    ok.then_some(()).ok_or(why)
}

/// Writes a hierarchy, if it is one that [`Hierarchy::parse`] takes and there is room for it. How many
/// bytes it has.
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
        for gate in [given.out, given.into] {
            w.u8(gate.link);
            w.u8(gate.vp);
        }
        w.u64(given.base);
        w.u64(given.limit);
        w.u64(0);
    }

    /// Reads a place, and checks what can be checked without the others.
    fn get(bytes: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(bytes);
        let (depth, kind, port, flags) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let (hwid, lid) = (r.u64()?, r.u32()?);
        let (ve, functions, count, zero) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let [out, into] = [
            Gate {
                link: r.u8()?,
                vp: r.u8()?,
            },
            Gate {
                link: r.u8()?,
                vp: r.u8()?,
            },
        ];
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

    /// Whether this one can come right behind `before` in a walk.
    fn follows(&self, before: &Self) -> bool {
        let deeper = self.depth == before.depth + 1;
        let passes = matches!(before.kind, Kind::Root | Kind::Switch { .. });
        self.kind != Kind::Root
            && self.depth != 0
            && (deeper && passes || self.depth <= before.depth)
    }

    /// Whether both can be in one hierarchy, this one behind the other.
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
        // One way leads to all of an endpoint: its local id is all that a packet says.
        let at_one = as_there == *other && (one.out, one.into) == (two.out, two.into);
        check(!same || (at_one && one.ve != two.ve), Error::Twice)?;
        let apart = one.limit < two.base || two.limit < one.base;
        check(apart, Error::Space)
    }
}

/// A hierarchy that is in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hierarchy<'a> {
    vh: u16,
    places: &'a [u8],
}

impl<'a> Hierarchy<'a> {
    /// Reads a hierarchy.
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
            // Those of one endpoint follow each other.
            let again = before.is_some_and(|before| before.hwid == place.hwid);
            let seen = this.places().take(n).any(|other| other.hwid == place.hwid);
            check(again == seen, Error::Order)?;
            endpoints += usize::from(place.given.is_some() && !again);
            before = Some(place);
        }
        check(endpoints <= MAX_ENDPOINTS, Error::Full)?;
        // Who has nothing needs no number, and the common one is nobody's own.
        let numbered = vh > COMMON_VH;
        check(
            numbered == (endpoints != 0) && vh != COMMON_VH,
            Error::Value,
        )?;
        Ok(this)
    }

    /// Its number; 0: nothing is given to the host.
    pub fn vh(&self) -> u16 {
        self.vh
    }

    /// All of it, depth first; the first is the host.
    pub fn places(&self) -> impl Iterator<Item = Place> + Clone + 'a {
        self.records().filter_map(|record| Place::get(record).ok())
    }

    /// The virtual endpoints that are the host's, and where they are.
    pub fn given(&self) -> impl Iterator<Item = (Place, Given)> + Clone + 'a {
        self.places()
            .filter_map(|place| Some((place, place.given?)))
    }

    fn records(&self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        self.places.chunks_exact(PLACE_BYTES)
    }
}
