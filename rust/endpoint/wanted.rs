// SPDX-License-Identifier: GPL-2.0

//! Looks up a function in the host's hierarchy.

use crate::{
    fabric::Node,
    proto::mr::{hierarchy::Given, inventory::Kind},
    sys::errno::EOPNOTSUPP,
};
use kernel::prelude::*;

/// The name of a function that a program wants to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Hardware id of the endpoint.
    pub(crate) endpoint: u64,
    /// The virtual endpoint in it,
    pub(crate) ve: u8,
    /// and the function of that.
    pub(crate) function: u32,
}

/// A virtual endpoint that was found in the hierarchy.
pub(super) struct There {
    pub(super) lid: u32,
    pub(super) given: Given,
    pub(super) functions: u32,
}

/// Looks up the virtual endpoint of a function. `EOPNOTSUPP`: the port has no network manager;
/// `ENOENT`: the hierarchy does not contain it.
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
