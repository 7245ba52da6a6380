// SPDX-License-Identifier: GPL-2.0

//! A function by what its hierarchy calls it, and where the hierarchy has it.

use crate::{
    fabric::Node,
    proto::mr::{hierarchy::Given, inventory::Kind},
    sys::errno::EOPNOTSUPP,
};
use kernel::prelude::*;

/// A function that somebody wants to open, by what its hierarchy calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Hardware id of the endpoint.
    pub(crate) endpoint: u64,
    /// Which virtual endpoint of it,
    pub(crate) ve: u8,
    /// and which function of that.
    pub(crate) function: u32,
}

/// A virtual endpoint of the hierarchy.
pub(super) struct There {
    pub(super) lid: u32,
    pub(super) given: Given,
    pub(super) functions: u32,
}

/// Looks for a virtual endpoint. `EOPNOTSUPP`: the port has no manager, which knows; `ENOENT`: the
/// hierarchy does not give it.
pub(super) fn find(node: &Node, wanted: &Wanted) -> Result<There> {
    let manager = node.manager().ok_or(EOPNOTSUPP)?;
    manager.look(|view| {
        let hierarchy = view.hierarchy().ok_or(ENOENT)?;
        let mut all = hierarchy.given();
        let (place, given) = all
            .find(|(place, given)| place.hwid == wanted.endpoint && given.ve == wanted.ve)
            .ok_or(ENOENT)?;
        let functions = match place.kind {
            Kind::Endpoint { functions, .. } => functions.into(),
            _ => 0,
        };
        if wanted.function >= functions {
            return Err(ENOENT);
        }
        Ok(There {
            lid: place.lid,
            given,
            functions,
        })
    })
}
