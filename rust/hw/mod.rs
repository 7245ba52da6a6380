// SPDX-License-Identifier: GPL-2.0

//! What a port of the fabric can do, whatever hardware it is.
//!
//! One file per family implements [`Port`]. A port knows its registers, its memory and its
//! interrupts; it must not know channels, files or the protocol that runs over its mailbox. What
//! happens at the hardware is told upwards through [`Events`].
//!
//! A port gives each of its links
//! - an *arena*: local memory that this neighbour, and no other, may reach while it is granted;
//! - a *window* onto the neighbour's arena, attached once the neighbour has said where it is;
//! - doorbells in both directions and a mailbox for short messages that may get lost.
//!
//! A *far* link leads to a port that is no neighbour, which it is aimed at by its local id: see
//! [`FarLinks::aim`]. What is said of neighbours here is then said of that port.
//!
//! Ordering, by which the layers above stand: stores through a window reach the neighbour's memory
//! in program order if a write barrier of [`crate::sys::area`] separates them; a doorbell or a
//! message that follows a barrier arrives after them. Nothing is said between different links.

use crate::sys::area::Area;
use kernel::prelude::*;

pub(crate) mod endpoint_slots;
pub(crate) mod identity_map;
pub(crate) mod ivshmem;
mod losses;
mod mover;
mod owner;
mod rates;
mod routes;
mod user_doorbells;
mod vfs;
pub(crate) mod weft_port;

pub(crate) use self::{
    endpoint_slots::EndpointSlots,
    losses::Losses,
    mover::{Moved, Mover, Piece},
    owner::Owner,
    rates::Rates,
    routes::{Aim, FarLinks, Route, Router},
    user_doorbells::UserDoorbells,
    vfs::{Vf, VfQuota, VfState, VirtualFunctions},
};

/// The most links to neighbours that a port has.
pub(crate) const MAX_NEIGHBOURS: usize = 4;

/// The most links to ports that are no neighbours. Their numbers begin behind those.
pub(crate) const MAX_FAR: usize = 8;

/// The most links a port has.
pub(crate) const MAX_LINKS: usize = MAX_NEIGHBOURS + MAX_FAR;

/// Bytes of the longest mailbox message. Every port carries this much.
pub(crate) const MBOX_BYTES: usize = 256;

/// Who a port is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `WEFT_PORT_*` of the user interface.
    pub(crate) kind: u32,
    /// Hardware id, unique in the fabric.
    pub(crate) hwid: u64,
    /// Changes with every reset of the port.
    pub(crate) generation: u32,
    /// Mask of `WEFT_PROT_*` of the user interface.
    pub(crate) protection: u32,
}

/// The physical state of a link.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LinkStatus {
    pub(crate) up: bool,
    pub(crate) present: bool,
    /// This end is the endpoint.
    pub(crate) endpoint: bool,
    /// PCI Express generation, 0 if unknown.
    pub(crate) speed: u32,
    /// Lanes, 0 if unknown.
    pub(crate) width: u32,
    /// The most that both ends and what is between them can, 0 if there is no cable, or unknown.
    pub(crate) max_speed: u32,
    pub(crate) max_width: u32,
    /// How often the link came up. A change means that it was down in between.
    pub(crate) trained: u32,
    /// The neighbour is a switch that routes: it has no memory, no doorbells and no mailbox.
    pub(crate) is_switch: bool,
}

/// Where an arena lies in its owner's aperture space: what the neighbour has to be told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Numbers, at this port, of the doorbells that the neighbour on one link may ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doorbells {
    /// Look at the rings.
    pub(crate) wake: u32,
    /// Ring my `wake` back: what you sent before has then arrived.
    pub(crate) echo: u32,
}

/// A counter with its name in sysfs.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) name: &'static CStr,
    pub(crate) value: u64,
}

/// What a port tells upwards.
///
/// `wake`, `echo`, `kicked`, `moved` and `called` are called from hard interrupts; the others from a thread, and
/// may sleep.
pub(crate) trait Events: Send + Sync {
    /// [`Port::link_status`] of some link has changed.
    fn links_changed(&self);
    /// [`Port::recv`] has something.
    fn message(&self);
    /// A hot-plug controller of a switch that this port programs has news.
    fn plugged(&self);
    /// The port reports an error; `what` says which, for people.
    fn error(&self, what: &CStr, addr: u64);
    /// The neighbour on `link` rang `wake`.
    fn wake(&self, link: usize);
    /// The neighbour on `link` rang `echo`.
    fn echo(&self, link: usize);
    /// A user of this host wrote to [`UserDoorbells::kick_page`]: once, until [`UserDoorbells::hear_kicks`].
    fn kicked(&self);
    /// [`Mover::report`] on `link`, or the mover has stopped.
    fn moved(&self, link: usize);
    /// The remote function of endpoint slot `slot` rang.
    fn called(&self, slot: usize);
}

/// A port. Lives between probe and unbind; every method is called in between only.
pub(crate) trait Port: Send + Sync {
    /// To be asked anew after every change of a link: a fabric that returns, and a reset, give the
    /// port another generation.
    fn identity(&self) -> Identity;

    /// Whether the function still answers. False after surprise removal, and while the link to it is
    /// dead.
    fn is_present(&self) -> bool;

    /// Whether it is attached to a fabric, where the hardware says so.
    fn fabric(&self) -> Option<bool>;

    /// How many links to neighbours, up to [`MAX_NEIGHBOURS`].
    fn links(&self) -> usize;

    /// Whether there is a link of that number: a far one that is not aimed is none.
    fn has_link(&self, link: usize) -> bool {
        let aimed = |far: &dyn FarLinks| far.aimed(link).is_some();
        link < self.links() || self.far().is_some_and(aimed)
    }

    fn link_status(&self, link: usize) -> LinkStatus;

    /// The local memory that the neighbour on `link` reaches. `ENOTCONN`: a far link that was never aimed.
    fn arena(&self, link: usize) -> Result<&Area>;

    /// Bytes that the arena was to have; it may have fewer.
    fn arena_wanted(&self, link: usize) -> u64;

    /// Lets the neighbour on `link` reach the arena, which should be zeroed before. Sleeps, for at
    /// most a tenth of a second, if a neighbour still holds on to what was granted before:
    /// `ETIMEDOUT`. `EIO`: the port does not open it.
    fn grant(&self, link: usize) -> Result<Grant>;

    /// Takes that back. When this returns, no access of the neighbour can still land in the arena.
    /// Sleeps, for at most a tenth of a second; on `ETIMEDOUT` the arena must not be used for anything else.
    fn withdraw(&self, link: usize) -> Result;

    /// Points the window of `link` at what the neighbour has granted. Checks `grant`, and the
    /// doorbells by which the neighbour is to be rung, as it says: `EINVAL` if the former is
    /// misaligned or the latter cannot be rung, `E2BIG` if the window is smaller, `ENOSPC` if there is
    /// none now.
    fn attach(&self, link: usize, grant: Grant, bells: Doorbells) -> Result;

    /// Points the window of `link` nowhere: writes are dropped, reads are all ones.
    fn detach(&self, link: usize);

    /// The window of `link`, of which [`Grant::bytes`] are behind it while attached.
    fn window(&self, link: usize) -> Result<&Area>;

    /// The doorbells that the neighbour on `link` is to be told of.
    fn doorbells(&self, link: usize) -> Doorbells;

    /// Rings `doorbell` of the neighbour on `link`. Any context.
    fn ring(&self, link: usize, doorbell: u32);

    /// Sends a message of up to [`MBOX_BYTES`] bytes to the neighbour on `link`. May get lost.
    /// `ENOLINK`: the link is down. May sleep.
    fn send(&self, link: usize, msg: &[u8]) -> Result;

    /// Takes the oldest message: the link it came by and its length. May sleep.
    fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(usize, usize)>;

    /// Counter number `n`, `None` behind the last one.
    fn counter(&self, n: usize) -> Option<Counter>;

    /// Starts events; links may come up. Called once, when everything above is ready.
    fn start(&self) -> Result;

    /// Stops events: no call of [`Events`] is running or follows. May be called again.
    fn stop(&self);

    /// The function will be reset: stops events; all links are down until [`Port::resume`].
    fn suspend(&self);

    /// The function was reset: what was granted and attached is not any more, and the generation
    /// is another one. Starts events again, as [`Port::start`] does.
    fn resume(&self) -> Result;

    /// As [`Port::resume`], of a function that did not answer for a while and was not reset: what it
    /// has kept leads nowhere afterwards.
    fn restart(&self) -> Result;

    // What a port may have besides: a bridge between two hosts needs none of it.

    /// What moves bulk data to the neighbour on `link` without a CPU, if there is such a thing. It works
    /// while the window is attached.
    fn mover(&self, _link: usize) -> Option<&dyn Mover> {
        None
    }

    /// By which users ring without a call.
    fn user_doorbells(&self) -> Option<&dyn UserDoorbells> {
        None
    }

    /// What it tells of data that were lost. `None`: none are.
    fn losses(&self) -> Option<&dyn Losses> {
        None
    }

    /// How fast links to neighbours are, and what they carry.
    fn rates(&self) -> Option<&dyn Rates> {
        None
    }

    /// Links to ports that are no neighbours.
    fn far(&self) -> Option<&dyn FarLinks> {
        None
    }

    /// Its routes, where it has any.
    fn router(&self) -> Option<&dyn Router> {
        None
    }

    /// Its slots for functions of shared endpoints, where it knows of any.
    fn endpoint_slots(&self) -> Option<&dyn EndpointSlots> {
        None
    }

    /// The virtual functions that it could have.
    fn vfs(&self) -> Option<&dyn VirtualFunctions> {
        None
    }

    /// The physical function that has given this one away, if it is a virtual one.
    fn owner(&self) -> Option<&dyn Owner> {
        None
    }
}
