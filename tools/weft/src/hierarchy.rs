// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The virtual hierarchy of a host: the endpoints that are its own, and the switches on the way to them.

use crate::abi;
use crate::error::{Error, Result};
use crate::fabric::NodeKind;
use crate::ioctl::Ioctl;
use crate::told::{self, Told};
use std::os::fd::BorrowedFd;

/// A place in a hierarchy. An endpoint has one for each of its virtual endpoints that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What is there.
    pub kind: NodeKind,
    /// Its hardware id.
    pub hwid: u64,
    /// Its local id, if it has one.
    pub lid: Option<u32>,
    /// Links from the host.
    pub depth: u32,
    /// By which port of the one above it is reached.
    pub port: u32,
    /// What of it is the host's; without, it is only there.
    pub given: Option<Given>,
}

/// A virtual endpoint that is the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which one.
    pub ve: u32,
    /// Its functions.
    pub functions: u32,
    /// The virtual plane on the host's link.
    pub plane: u32,
    /// First byte of what it has in the host's address space.
    pub base: u64,
    /// Last byte.
    pub limit: u64,
}

/// The virtual hierarchy of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Hardware id of the host.
    pub root: u64,
    /// Its number; nothing is given to a host that has none.
    pub number: Option<u32>,
    /// Depth first; the first is the host.
    pub places: Vec<Place>,
}

impl Hierarchy {
    /// Whether this virtual endpoint is the host's.
    pub fn has(&self, endpoint: u64, ve: u32) -> bool {
        let is = |place: &Place| place.given.is_some_and(|given| given.ve == ve);
        self.places.iter().any(|place| place.hwid == endpoint && is(place))
    }

    /// The one above a place, by its number.
    pub fn above(&self, place: usize) -> Option<&Place> {
        let (before, from) = self.places.split_at_checked(place)?;
        let depth = from.first()?.depth;
        before.iter().rev().find(|above| above.depth < depth)
    }
}

impl From<&abi::weft_fabric_vh> for Place {
    fn from(told: &abi::weft_fabric_vh) -> Self {
        let given = Given {
            ve: told.ve,
            functions: told.functions,
            plane: told.vp,
            base: told.base,
            limit: told.limit,
        };
        Place {
            kind: NodeKind::from(told.kind),
            hwid: told.hwid,
            lid: (told.lid != 0).then_some(told.lid),
            depth: told.depth,
            port: told.port,
            given: (told.state & abi::WEFT_VH_GIVEN != 0).then_some(given),
        }
    }
}

/// The hierarchy of this host, or of another one, as it was at one time.
pub fn hierarchy(port: BorrowedFd<'_>, root: Option<u64>) -> Result<Option<Hierarchy>> {
    let (mut of, mut number) = (root.unwrap_or(0), 0);
    let places = told::all("asking for a hierarchy", |index| {
        let mut call =
            abi::weft_fabric_vh { root: root.unwrap_or(0), index, ..Default::default() };
        call.call(port)?;
        (of, number) = (call.root, call.vh);
        Ok(Told { value: Place::from(&call), count: call.count, serial: call.serial })
    })?;
    match places {
        // There is always the host itself.
        Some(places) if places.is_empty() => Err(Error::NoHost(of)),
        Some(places) => {
            Ok(Some(Hierarchy { root: of, number: (number != 0).then_some(number), places }))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(depth: u32, hwid: u64, ve: Option<u32>) -> Place {
        Place::from(&abi::weft_fabric_vh {
            kind: if ve.is_some() { abi::WEFT_NODE_ENDPOINT } else { abi::WEFT_NODE_SWITCH },
            state: if ve.is_some() { abi::WEFT_VH_GIVEN } else { 0 },
            ve: ve.unwrap_or(9),
            depth,
            hwid,
            ..Default::default()
        })
    }

    #[test]
    fn places_know_who_is_above() {
        let places = vec![
            told(0, 1, None),
            told(1, 0x11, None),
            told(2, 0x12, None),
            told(3, 0x21, Some(0)),
            told(2, 0x22, Some(1)),
            told(2, 0x22, Some(2)),
        ];
        let tree = Hierarchy { root: 1, number: Some(2), places };
        let above: Vec<_> = (0..7).map(|n| tree.above(n).map(|place| place.hwid)).collect();
        let wanted = [None, Some(1), Some(0x11), Some(0x12), Some(0x11), Some(0x11), None];
        assert_eq!(above, wanted);
        assert!(tree.has(0x22, 1) && tree.has(0x22, 2) && !tree.has(0x22, 0));
        // What is only there is nobody's, whatever else is said of it.
        assert!(!tree.has(0x12, 9));
    }
}
