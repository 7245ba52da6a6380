// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The description of a node in a message.
//!
//! This file is independent of the node that asks, and of how the description is used.

use super::super::{
    bytes::{Reader, Writer},
    mastership::Mastership,
};
use super::{check, Error};

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

impl Info {
    pub(super) fn put(&self, w: &mut Writer<'_>) {
        w.u64(self.hwid);
        w.u32(self.life);
        w.u32(self.lid);
        w.u32(self.next_lid);
        self.mastership.put(w);
        w.u32(self.change);
        w.u32(self.assignments);
    }

    pub(super) fn get(r: &mut Reader<'_>) -> Result<Self, Error> {
        let info = Self {
            hwid: r.u64()?,
            life: r.u32()?,
            lid: r.u32()?,
            next_lid: r.u32()?,
            mastership: Mastership::get(r)?,
            change: r.u32()?,
            assignments: r.u32()?,
        };
        check(info.hwid != 0)?;
        Ok(info)
    }
}
