// SPDX-License-Identifier: GPL-2.0

//! What a port has of ports that are no neighbours: routes to them, by local id, and far links, which
//! are aimed at one of them. It must not know which routes there are to be.

use kernel::prelude::*;

/// An entry of a port's route table: by which link, and on which virtual plane there, others are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The local ids that it is for, from this one, which is not 0,
    pub(crate) first: u32,
    /// to this one.
    pub(crate) last: u32,
    pub(crate) link: usize,
    pub(crate) vp: u32,
    /// Whose traffic may take it: this port's own,
    pub(crate) from_self: bool,
    /// and what comes by these links, a bit each, on that virtual plane: this host relays it.
    pub(crate) from_links: u32,
}

/// What a port has of routes: ports that are not neighbours are reached by their local ids. All of it is
/// forgotten when the port is reset. Methods may sleep, for at most a second or two.
///
/// Errors of all: `ENODEV`: the function does not answer; `ETIMEDOUT`: it has not happened yet, and may
/// still happen.
pub(crate) trait Router: Send + Sync {
    /// Gives this port its local id; 0: none.
    fn set_lid(&self, lid: u32);

    fn lid(&self) -> u32;

    /// Entries of the route table.
    fn routes(&self) -> usize;

    /// Changes entry `n` of the route table; of those for a local id the first counts. When this returns
    /// it is in force, and nothing goes by what the entry said before. `EINVAL`: there is no such entry,
    /// link, plane or local id.
    fn set_route(&self, n: usize, route: Option<Route>) -> Result;

    /// Reads a register, or an entry of a table, of the node at the end of `path`: the port to leave by
    /// at each hop, a link of this port first. `space` is a `WEFT_SPACE_*`.
    ///
    /// `EHOSTUNREACH`: the path leads nowhere; `EINVAL`: it is too long or empty, or there is no such
    /// space or address; `ENOLINK`: there is no fabric.
    fn cfg_read(&self, path: &[u8], space: u32, addr: u32) -> Result<u32>;

    /// Writes such an entry in the master's `term`; when this returns nothing goes by what was there
    /// before. As [`Router::cfg_read`], and `ESTALE`: the node was written in a later term, or in this one by
    /// another; `EACCES`: it cannot be written, or not from here; `ENOSPC`: the table is full; `EBUSY`: the
    /// last write there is not in force yet.
    fn cfg_write(&self, path: &[u8], space: u32, addr: u32, data: u32, term: u32) -> Result;
}

/// The port that a far link leads to, and what is known of the way there.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Aim {
    /// Local id, not 0.
    pub(crate) lid: u32,
    /// Links passed.
    pub(crate) hops: u32,
    /// Of the slowest of them, 0 if unknown.
    pub(crate) speed: u32,
    pub(crate) width: u32,
}

/// The far links of a port. Their numbers begin at [`super::Port::links`].
pub(crate) trait FarLinks: Send + Sync {
    /// How many, up to [`super::MAX_FAR`].
    fn count(&self) -> usize;

    /// Returns where `link` leads to, if it is aimed at a port.
    fn aimed(&self, link: usize) -> Option<Aim>;

    /// Aims `link` at a port, or at none. It is to be down, unless the port stays the same; it is up
    /// while a route leads there. Its arena is there from the first time on. May sleep.
    ///
    /// `EINVAL`: there is no such far link or local id; `EEXIST`: another link is aimed at that port;
    /// `ENOMEM`.
    fn aim(&self, link: usize, aim: Option<Aim>) -> Result;
}
