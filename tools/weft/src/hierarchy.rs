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
        let mut call = abi::weft_fabric_vh { root: root.unwrap_or(0), index, ..Default::default() };
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

    #[test]
    fn what_is_not_given_says_nothing_of_a_virtual_endpoint() {
        let mut told = abi::weft_fabric_vh {
            kind: abi::WEFT_NODE_ENDPOINT,
            state: abi::WEFT_VH_GIVEN,
            hwid: 3 << 62,
            lid: 7,
            depth: 3,
            port: 1,
            ve: 1,
            functions: 2,
            vp: 3,
            base: 1 << 40,
            limit: (1 << 40) + 0xfff,
            ..Default::default()
        };
        let given =
            Given { ve: 1, functions: 2, plane: 3, base: 1 << 40, limit: (1 << 40) + 0xfff };
        let place = Place {
            kind: NodeKind::Endpoint,
            hwid: 3 << 62,
            lid: Some(7),
            depth: 3,
            port: 1,
            given: Some(given),
        };
        assert_eq!(Place::from(&told), place);
        told.state = 0;
        assert_eq!(Place::from(&told), Place { given: None, ..place });
    }
}
