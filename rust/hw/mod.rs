// SPDX-License-Identifier: GPL-2.0

//! The interface of a port of the fabric, for all hardware.
//!
//! One file per hardware family implements [`Port`]. A port knows its registers, its memory and its
//! interrupts; it must not know channels, files or the protocol that runs over its mailbox. It reports
//! hardware events to the layer above through [`Events`].
//!
//! A port has, for each of its links,
//! - an *arena*: local memory that this neighbour alone may access while it is granted;
//! - a *window* onto the neighbour's arena, attached once the neighbour has sent its address;
//! - doorbells in both directions and a mailbox for short messages that may get lost.
//!
//! A *routed* link (`far` in names) leads to a port that is not a neighbour; [`FarLinks::aim`] sets its
//! destination, a local id. For a routed link "the neighbour" means that port. The *loopback* links of a port
//! lead to each other, in memory.
//!
//! The layers above rely on this ordering: stores through a window reach the neighbour's memory
//! in program order if a write barrier of [`crate::sys::area`] separates them; a doorbell or a
//! message that follows a barrier arrives after them. There is no order between different links.

use crate::sys::{area::Area, gate::Guard};
use core::ops::{Deref, Range};
use kernel::prelude::*;

mod arena;
pub(crate) mod endpoint_slots;
pub(crate) mod identity_map;
pub(crate) mod ivshmem;
pub(crate) mod loopback;
mod losses;
mod mover;
mod owner;
mod part;
mod rates;
mod routes;
mod user_doorbells;
mod vfs;
pub(crate) mod weft_port;

pub(crate) use self::{
    arena::MAX_ARENA,
    endpoint_slots::EndpointSlots,
    loopback::LoopbackLinks,
    losses::Losses,
    mover::{Moved, Mover, Piece},
    owner::Owner,
    part::Part,
    rates::Rates,
    routes::{Aim, FarLinks, Guide, Route, Router},
    user_doorbells::UserDoorbells,
    vfs::{Vf, VfQuota, VfState, VirtualFunctions},
};

/// The maximum number of links to neighbours of a port.
pub(crate) const MAX_NEIGHBOURS: usize = 4;

/// The maximum number of routed links of a port. Their numbers follow those of the links to neighbours.
pub(crate) const MAX_FAR: usize = 8;

/// The number of loopback links of a port. Their numbers follow those of the routed links.
pub(crate) const LOOPBACK_LINKS: usize = 2;

/// The maximum number of links of a port.
pub(crate) const MAX_LINKS: usize = MAX_NEIGHBOURS + MAX_FAR + LOOPBACK_LINKS;

/// The maximum size of a mailbox message in bytes. Every port supports it.
pub(crate) const MBOX_BYTES: usize = 256;

/// The identity of a port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `WEFT_PORT_*` of the user interface.
    pub(crate) kind: u32,
    /// Hardware id, unique in the fabric.
    pub(crate) hwid: u64,
    /// Changes with every reset of the port.
    pub(crate) generation: u32,
    /// What guards the arenas: mask of `WEFT_PROT_*` of the user interface.
    pub(crate) arenas: u32,
    /// What guards the doorbells: a mask as well.
    pub(crate) doorbells: u32,
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
    /// The maximum that both ends and the path between them support, 0 if there is no cable, or unknown.
    pub(crate) max_speed: u32,
    pub(crate) max_width: u32,
    /// How often the link came up. A change means that it was down in between.
    pub(crate) trained: u32,
    /// The neighbour is a switch that routes: it has no memory, no doorbells and no mailbox.
    pub(crate) is_switch: bool,
}

/// The arena of a link. It stays as long as this exists.
pub(crate) enum Arena<'a> {
    /// It stays as long as the port,
    Fixed(&'a Area),
    /// or may be given back.
    Entered(Guard<'a, Area>),
}

impl Deref for Arena<'_> {
    type Target = Area;

    fn deref(&self) -> &Area {
        match self {
            Self::Fixed(area) => area,
            Self::Entered(area) => area,
        }
    }
}

/// The position of an arena in its owner's aperture space, which is sent to the neighbour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Numbers, at this port, of the doorbells that the neighbour on one link may ring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doorbells {
    /// Asks this port to look at the rings.
    pub(crate) wake: u32,
    /// Asks this port to ring the neighbour's `wake`: stores that were sent before the echo have arrived
    /// then.
    pub(crate) echo: u32,
}

/// A counter with its name in sysfs.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) name: &'static CStr,
    pub(crate) value: u64,
}

/// Where a message comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The neighbour on this link, or the destination of this routed link.
    Link(usize),
    /// The port with this local id, to which no link leads.
    Lid(u32),
}

/// The events that a port reports to the layer above.
///
/// `kicked` and `moved` are called in hard interrupts; `wake`, `echo` and `called` there, or in a thread if
/// the port limits how often they are. They must not sleep; the others are called in a thread, and may.
pub(crate) trait Events: Send + Sync {
    /// The result of [`Port::link_status`] has changed for some link.
    fn links_changed(&self);
    /// [`Port::recv`] may return a message.
    fn message(&self);
    /// A hot-plug controller of a switch that this port programs has an event.
    fn plugged(&self);
    /// The port reports an error; `what` describes it for the log.
    fn error(&self, what: &CStr, addr: u64);
    /// The neighbour on `link` has rung `wake`.
    fn wake(&self, link: usize);
    /// The neighbour on `link` has rung `echo`.
    fn echo(&self, link: usize);
    /// A user of this host has written to [`UserDoorbells::kick_page`]. Called once, until
    /// [`UserDoorbells::hear_kicks`].
    fn kicked(&self);
    /// The DMA channel of `link` has reached a [`Mover::report`], or has stopped.
    fn moved(&self, link: usize);
    /// The remote function of endpoint slot `slot` has rung its doorbell.
    fn called(&self, slot: usize);
}

/// A port. Lives between probe and unbind; all methods are called in between only.
pub(crate) trait Port: Send + Sync {
    /// Returns the identity. The caller reads it again after every change of a link: the port gets
    /// another generation when the fabric returns, and by a reset.
    fn identity(&self) -> Identity;

    /// Returns whether the function still answers. False after surprise removal, and while the link to
    /// it is dead.
    fn is_present(&self) -> bool;

    /// Returns whether the port is attached to a fabric; `None` if the hardware does not tell.
    fn fabric(&self) -> Option<bool>;

    /// Returns the number of this function at its port, by which other functions of the fabric address it.
    fn function(&self) -> u8 {
        0
    }

    /// Returns the number of links to neighbours, up to [`MAX_NEIGHBOURS`].
    fn links(&self) -> usize;

    /// Returns whether link `link` exists. A routed link without a destination does not.
    fn has_link(&self, link: usize) -> bool {
        let aimed = |far: &dyn FarLinks| far.aimed(link).is_some();
        link < self.links() || self.far().is_some_and(aimed)
    }

    /// Returns the numbers of the routed links, with or without a destination.
    fn far_links(&self) -> Range<usize> {
        let first = self.links();
        first..first + self.far().map_or(0, FarLinks::count)
    }

    /// Returns the numbers of the loopback links, whether they exist or not.
    fn loopback_links(&self) -> Range<usize> {
        0..0
    }

    fn link_status(&self, link: usize) -> LinkStatus;

    /// Returns the local memory that the neighbour on `link` may access. `ENOTCONN` for a routed link
    /// without a destination, unless it has kept its memory. Any context.
    fn arena(&self, link: usize) -> Result<Arena<'_>>;

    /// Returns the number of bytes that were requested for the arena; it may have fewer.
    fn arena_wanted(&self, link: usize) -> u64;

    /// Lets the neighbour on `link` access the arena, which should be zeroed before.
    ///
    /// Sleeps for up to 100 ms while accesses by an earlier grant are in progress. `ETIMEDOUT` if they
    /// do not end; `EIO` if the port does not open the aperture.
    fn grant(&self, link: usize) -> Result<Grant>;

    /// Revokes the grant of `link`. When this returns, no access of the neighbour can still reach the
    /// arena.
    ///
    /// Sleeps for up to 100 ms. After `ETIMEDOUT` the arena must not be reused or freed.
    fn withdraw(&self, link: usize) -> Result;

    /// Points the window of `link` at the arena that the neighbour has granted. `grant` and `bells`, the
    /// doorbells of the neighbour, come from the neighbour and are checked.
    ///
    /// `EINVAL` if `grant` is misaligned or a doorbell does not exist; `E2BIG` if the window is smaller;
    /// `ENOSPC` if there is no window now.
    fn attach(&self, link: usize, grant: Grant, bells: Doorbells) -> Result;

    /// Disconnects the window of `link`: writes are dropped, reads return all ones.
    fn detach(&self, link: usize);

    /// Returns the window of `link`. While it is attached, the first [`Grant::bytes`] bytes are the
    /// neighbour's arena.
    fn window(&self, link: usize) -> Result<&Area>;

    /// Returns the doorbells of this port that are sent to the neighbour on `link`.
    fn doorbells(&self, link: usize) -> Doorbells;

    /// Rings `doorbell` of the neighbour on `link`. Any context.
    fn ring(&self, link: usize, doorbell: u32);

    /// Says that the neighbour on `link` is about to be asked to ring. A port that limits how often a
    /// neighbour may ring allows for the answers. Any context.
    fn expect(&self, _link: usize) {}

    /// Sends a message of up to [`MBOX_BYTES`] bytes to the neighbour on `link`. It may get lost.
    /// `ENOLINK` if the link is down. May sleep.
    fn send(&self, link: usize, msg: &[u8]) -> Result;

    /// Takes the oldest message, and returns its source and its length. May sleep.
    fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(Source, usize)>;

    /// Stops calls of [`Events::message`] for messages that come, until [`Port::unmask_messages`]: the
    /// caller looks for them by [`Port::recv`] meanwhile. Hardware whose mailboxes cannot flood this
    /// host need not stop them. May sleep.
    fn mask_messages(&self) {}

    /// Ends what [`Port::mask_messages`] has begun, if it was called; messages that are there cause a
    /// call. May sleep.
    fn unmask_messages(&self) {}

    /// Returns counter number `n`, `None` after the last one.
    fn counter(&self, n: usize) -> Option<Counter>;

    /// Starts events; links may come up. Called once, when everything above is ready.
    fn start(&self) -> Result;

    /// Stops events: no call of [`Events`] is running or follows. May be called again.
    fn stop(&self);

    /// Stops events before a reset of the function; all links are down until [`Port::resume`].
    fn suspend(&self);

    /// Starts events again after a reset of the function, as [`Port::start`] does. Grants and attached
    /// windows are gone, and the generation is another one.
    fn resume(&self) -> Result;

    /// As [`Port::resume`], for a function that did not answer for a while and was not reset: grants and
    /// windows that it has kept are closed.
    fn restart(&self) -> Result;

    // Optional features: a bridge between two hosts needs none of them.

    /// Returns the DMA channel of `link`, which moves bulk data to the neighbour, if there is one. It
    /// works while the window is attached.
    fn mover(&self, _link: usize) -> Option<&dyn Mover> {
        None
    }

    /// Returns the doorbells that users ring without a system call.
    fn user_doorbells(&self) -> Option<&dyn UserDoorbells> {
        None
    }

    /// Returns the reports of lost data; `None` if no data are ever lost.
    fn losses(&self) -> Option<&dyn Losses> {
        None
    }

    /// Returns the speeds and byte counts of links to neighbours.
    fn rates(&self) -> Option<&dyn Rates> {
        None
    }

    /// Returns the links to ports that are not neighbours.
    fn far(&self) -> Option<&dyn FarLinks> {
        None
    }

    /// Returns the links of the port to itself.
    fn loopback(&self) -> Option<&dyn LoopbackLinks> {
        None
    }

    /// Returns the routes, if the port has any.
    fn router(&self) -> Option<&dyn Router> {
        None
    }

    /// Returns the slots for functions of shared endpoints, if the port supports these.
    fn endpoint_slots(&self) -> Option<&dyn EndpointSlots> {
        None
    }

    /// Returns the virtual functions that the port can have.
    fn vfs(&self) -> Option<&dyn VirtualFunctions> {
        None
    }

    /// Returns the physical function, if this port is a virtual one.
    fn owner(&self) -> Option<&dyn Owner> {
        None
    }
}
