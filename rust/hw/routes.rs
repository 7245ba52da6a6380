// SPDX-License-Identifier: GPL-2.0

//! Access to ports that are not neighbours: routes to local ids, and routed links (`far` in names), each
//! of which has one such port as its destination. This file must not know which routes are needed.

use crate::{proto::pair::Way, sys::ext};
use kernel::prelude::*;

/// An entry of a port's route table: the link, and the virtual plane there, to a range of local ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The first local id of the range, not 0,
    pub(crate) first: u32,
    /// and the last one.
    pub(crate) last: u32,
    pub(crate) link: usize,
    pub(crate) vp: u32,
    /// Traffic of this port itself may take the route.
    pub(crate) from_self: bool,
    /// The links, a bit each, from which traffic on the same virtual plane may take the route: this host
    /// relays it.
    pub(crate) from_links: u32,
}

/// The routes of a port, to ports that are not neighbours, by local id. A reset of the port clears all
/// of it. Methods may sleep, for at most a second or two.
///
/// Errors of all methods: `ENODEV` if the port does not answer; `ETIMEDOUT` if the request is not
/// complete yet; it may still complete.
pub(crate) trait Router: Send + Sync {
    /// Sets the local id of this port; 0: none.
    fn set_lid(&self, lid: u32);

    /// Returns the local id of this port; 0: none, or the port does not answer.
    fn lid(&self) -> u32;

    /// Returns the number of entries of the route table.
    fn routes(&self) -> usize;

    /// Sets entry `n` of the route table, or clears it. The first entry for a local id counts. When this
    /// returns, the change is in force, and no traffic uses the previous entry.
    ///
    /// `EINVAL` if there is no such entry, link, plane or local id.
    fn set_route(&self, n: usize, route: Option<Route>) -> Result;

    /// Reads a register, or an entry of a table, of the node at the end of `path`: the port number to
    /// leave by at each hop, beginning with a link of this port. `space` is a `WEFT_SPACE_*`.
    ///
    /// `EHOSTUNREACH` if the path leads nowhere; `EINVAL` if it is too long or empty, or if there is no
    /// such space or address; `ENOLINK` if there is no fabric.
    fn cfg_read(&self, path: &[u8], space: u32, addr: u32) -> Result<u32>;

    /// Returns whether the fabric attests hardware ids: [`Router::hwid_at`] is its word. If not, it is what the
    /// node there says of itself, or what a host on the way makes of it.
    fn attests(&self) -> bool;

    /// Returns the hardware id of the node at the end of `path`. If the fabric attests it, no host on the
    /// way, nor the one at the end, can change it. Errors as [`Router::cfg_read`].
    fn hwid_at(&self, path: &[u8]) -> Result<u64> {
        let half = |reg| self.cfg_read(path, ext::WEFT_SPACE_CONFIG, reg);
        let low = half(ext::WEFT_CS_HWID)?;
        let high = half(ext::WEFT_CS_HWID + 4)?;
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    /// Writes such a register or entry, in the master's `term`. When this returns, no traffic uses the
    /// previous value.
    ///
    /// Errors as [`Router::cfg_read`], and `ESTALE` if the node was written in a later term, or by
    /// another master in this one; `EACCES` if it cannot be written, or not from here; `ENOSPC` if the
    /// table is full; `EBUSY` if the last write there is not in force yet.
    fn cfg_write(&self, path: &[u8], space: u32, addr: u32, data: u32, term: u32) -> Result;
}

/// The destination of a routed link, and what is known of the path to it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Aim {
    /// Local id, not 0.
    pub(crate) lid: u32,
    /// The number of links on the path.
    pub(crate) hops: u32,
    /// Speed and width of the slowest of them, 0 if unknown.
    pub(crate) speed: u32,
    pub(crate) width: u32,
}

impl Aim {
    /// Returns the destination at the end of a way, `None` if none is known.
    pub(crate) fn by(way: &Way) -> Option<Self> {
        (way.lid != 0).then(|| Self {
            lid: way.lid,
            hops: way.hops.into(),
            speed: way.speed.into(),
            width: way.width.into(),
        })
    }
}

/// Knows the ways to functions of other hosts, for ports that have no routes themselves.
pub(crate) trait Guide: Send + Sync {
    /// Returns the way from function `number` of the port whose first function has the hardware id `port` to the
    /// function with the hardware id `hwid`, as far as an id tells the function: one that has been exchanged for another function's is
    /// looked for where it was. `None`: nothing is known of this port. Takes no lock for long.
    fn way(&self, port: u64, number: u8, hwid: u64) -> Option<Way>;
}

/// The routed links of a port. Their numbers begin at [`super::Port::links`].
pub(crate) trait FarLinks: Send + Sync {
    /// Returns their number, up to [`super::MAX_FAR`].
    fn count(&self) -> usize;

    /// Returns the destination of `link`, if it has one.
    fn aimed(&self, link: usize) -> Option<Aim>;

    /// Sets the destination of `link`, or clears it.
    ///
    /// The link must be down, unless the local id stays the same. It is up while there is a route to the
    /// destination. Its arena is allocated if it has none. May sleep.
    ///
    /// `EINVAL` if there is no such routed link or local id; `EEXIST` if another link has that
    /// destination; `ENOMEM` if there is no memory for the arena.
    fn aim(&self, link: usize, aim: Option<Aim>) -> Result;

    /// Frees the arena of a link that has no destination and grants nothing. Waits until nothing uses it.
    /// May sleep.
    fn forget(&self, link: usize);
}
