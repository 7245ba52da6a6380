// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The description of a node in a message.
//!
//! This file is independent of the node that asks, and of how the description is used.

use super::super::{
    super::bytes::{check, members, Malformed, Member, Reader, Writer},
    mastership::Mastership,
};

/// Bytes of [`Info`].
pub(super) const INFO_BYTES: usize = 40;

/// Description of a node, by the node itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    /// Its hardware id.
    pub hwid: u64,
    /// Number of its incarnation: no two of a node are equal. A new one knows nothing of the last.
    pub life: u32,
    /// Its local id, 0 if it has none.
    pub lid: u32,
    /// The lowest local id that was never given away, as far as it knows.
    pub next_lid: u32,
    /// The mastership that it obeys.
    pub mastership: Mastership,
    /// Changes with every change of its ports.
    pub change: u32,
    /// Version of the assignments that it keeps, 0 if none.
    pub assignments: u32,
}

members! {
    Info { hwid, life, lid, next_lid, mastership, change, assignments } if |info| info.hwid != 0;
}
