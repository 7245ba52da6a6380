// SPDX-License-Identifier: GPL-2.0

//! What a port of the fabric can do, whatever hardware it is.
//!
//! One file per family implements [`Port`]. A port knows its registers, its memory and its
//! interrupts; it must not know channels, files or the protocol that runs over its mailbox. What
//! happens at the hardware is told upwards through [`Events`].
//!
//! A port gives each of its links
//! - an *arena*: local memory that this neighbour, and nobody else, may reach while it is granted;
//! - a *window* onto the neighbour's arena, attached once the neighbour has said where it is;
//! - doorbells in both directions and a mailbox for short messages that may get lost.
//!
//! A *far* link leads to a port that is no neighbour, which it is aimed at by its local id: see
//! [`Port::aim`]. What is said of neighbours here is then said of that port.
//!
//! Ordering, by which the layers above stand: stores through a window reach the neighbour's memory
//! in program order if a write barrier of [`crate::sys::area`] separates them; a doorbell or a
//! message that follows a barrier arrives after them. Nothing is said between different links.

use self::seats::Seats;
use crate::{
    proto::pair::{Ask, Asked},
    sys::{area::Area, errno::EOPNOTSUPP},
};
use kernel::prelude::*;

pub(crate) mod ivshmem;
pub(crate) mod seats;
pub(crate) mod weft_port;
pub(crate) mod whom;

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

/// Whom a far link leads to, and what is known of the way there.
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
    /// A user of this host wrote to [`Port::kick_page`]: once, until [`Port::hear_kicks`].
    fn kicked(&self);
    /// [`Mover::report`] on `link`, or the mover has stopped.
    fn moved(&self, link: usize);
    /// The guest on `seat` rang.
    fn called(&self, seat: usize);
}

/// A piece of local memory, by its DMA address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) bytes: u32,
}

/// What became of what a [`Mover`] was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    NotYet,
    /// The local memory may be used for something else. What was written has left, and may still be on
    /// its way.
    Done,
    /// The local memory could not be read; part of it may have been moved.
    Refused,
    /// The neighbour could not be reached.
    Failed,
}

/// Moves data from local memory through the window of a link, one thing after the other, in the order
/// in which it is given them; that is the order in which they arrive. It is not ordered with stores
/// through [`Port::window`], or with doorbells rung by [`Port::ring`].
///
/// Each thing has a number: they count up, modulo 2^32. One caller at a time, in threads.
pub(crate) trait Mover: Send + Sync {
    /// The most pieces of one write.
    fn max_pieces(&self) -> usize;

    /// How many things it takes now.
    fn room(&self) -> usize;

    /// Writes `pieces`, one behind the other, to `at` of the window, and rings a doorbell of the
    /// neighbour when they are there. `None`: there is no room, or there are too many pieces, or none.
    fn write(&self, at: usize, pieces: &[Piece], ring: Option<u32>) -> Option<u32>;

    /// Rings a doorbell of the neighbour, when all before it is there. `None`: there is no room.
    fn ring(&self, doorbell: u32) -> Option<u32>;

    /// Calls [`Events::moved`] when all before it is done. `None`: there is no room.
    fn report(&self) -> Option<u32>;

    /// What became of one that was not released.
    fn state(&self, number: u32) -> Moved;

    /// Forgets one that is done, and all before it: there is room for others.
    fn release(&self, number: u32);

    /// Whether it goes on: false if it has stopped, by itself or not.
    fn works(&self) -> bool;

    /// Gives up what is not done, until the window is attached again. No memory that it was given is
    /// looked at when this returns.
    fn stop(&self);
}

/// What a virtual function may use of the hardware.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct VfQuota {
    pub(crate) slots: u32,
    pub(crate) apertures: u32,
    /// That may ring at it, and pages by which it rings elsewhere.
    pub(crate) doorbells: u32,
    pub(crate) pages: u32,
    /// Bytes of memory that neighbours may reach, all together.
    pub(crate) bytes: u64,
    /// A bit a link.
    pub(crate) links: u32,
    /// Of the DMA engine.
    pub(crate) channels: u32,
    /// A bit a function of a neighbour.
    pub(crate) peers: u64,
    /// Bytes that it moves by DMA in a second, and doorbells that it rings; 0: any number.
    pub(crate) rate: u64,
    pub(crate) rings: u32,
}

/// What a virtual function is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VfState {
    /// Not enabled.
    Off,
    /// Nobody drives it.
    Idle,
    /// It has a driver, and no users.
    Driven,
    /// It has users, or a driver that does not say.
    Used,
}

/// A virtual function, as its physical function sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vf {
    pub(crate) quota: VfQuota,
    pub(crate) state: VfState,
    /// Who it is: as neighbours know it.
    pub(crate) hwid: u64,
    /// Its driver has said hello.
    pub(crate) greeted: bool,
    /// It masters the bus.
    pub(crate) master: bool,
    /// What its driver has answered to [`VirtualFunctions::ask`].
    pub(crate) left: Option<u32>,
    /// What it uses of that now.
    pub(crate) slots: u32,
    pub(crate) apertures: u32,
    pub(crate) bytes: u64,
    /// What it has done since the physical function was reset: bytes moved by DMA, and doorbells rung.
    /// `None`: the hardware does not say.
    pub(crate) done: Option<(u64, u64)>,
}

/// The virtual functions of a port, enabled or not.
pub(crate) trait VirtualFunctions: Send + Sync {
    fn count(&self) -> usize;

    /// `ENOENT`: there is no VF `n`; `ENODEV`: the function does not answer.
    fn get(&self, n: usize) -> Result<Vf>;

    /// Changes what VF `n` may use; what it uses beyond that is taken away when this returns. It is whom
    /// [`whom`] says from then on.
    /// `EINVAL`: there is no such VF, link or function, or the rate is too low to work with;
    /// `EOPNOTSUPP`: the hardware knows no rates.
    fn change(&self, n: usize, change: &dyn Fn(&mut VfQuota)) -> Result;

    /// Whether a VF can take another's place.
    fn can_migrate(&self) -> bool;

    /// Who VF `n` is by itself, whosever place it has taken; 0 while that is not known.
    fn own_hwid(&self, n: usize) -> u64;

    /// What a VF can have, at the most: links, channels, the logarithm of the bytes of a window, and
    /// whether it can have rates.
    fn offers(&self) -> [u32; 4];

    /// The bit in [`VfQuota::peers`] of the neighbours of VF `n` to whom its driver speaks.
    fn namesake(&self, n: usize) -> u64;

    /// Whether VFs can exchange the numbers by which neighbours know them.
    fn can_renumber(&self) -> bool;

    /// VFs `one` and `other`, of which nothing is open, have each other's number from then on: neighbours
    /// find one where they found the other. `EBUSY`: something is open yet; `EOPNOTSUPP`.
    fn renumber(&self, one: usize, other: usize) -> Result;

    /// Asks whoever drives VF `n` for something, from now on and again after its resets. What was
    /// answered before is forgotten.
    fn ask(&self, n: usize, ask: Ask) -> Result;
}

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

    /// How many far links, up to [`MAX_FAR`]. Their numbers begin at [`Port::links`].
    fn far_links(&self) -> usize {
        0
    }

    /// Whether there is a link of that number: a far one that is not aimed is none.
    fn has_link(&self, link: usize) -> bool {
        link < self.links() || self.aimed(link).is_some()
    }

    /// Whom the far link `link` leads to, if it is aimed at somebody.
    fn aimed(&self, _link: usize) -> Option<Aim> {
        None
    }

    /// Aims the far link `link` at a port, or at nobody. It is to be down, unless the port stays the
    /// same; it is up while a route leads there. Its arena is there from the first time on. May sleep.
    ///
    /// `EINVAL`: there is no such far link or local id; `EEXIST`: another link is aimed at that port;
    /// `ENOMEM`.
    fn aim(&self, _link: usize, _aim: Option<Aim>) -> Result {
        Err(EINVAL)
    }

    fn link_status(&self, link: usize) -> LinkStatus;

    /// Bytes that `link`, one to a neighbour, has carried, out and in, whoever's they were: the other end
    /// counts the same. They may begin anew at any time. `None`: the hardware does not say, or does not
    /// answer.
    fn traffic(&self, _link: usize) -> Option<[u64; 2]> {
        None
    }

    /// Has `link`, one to a neighbour, run at this generation and so many lanes at the most, until that is
    /// said again or the port is reset; 0: at the most that it can. The other end has a say of its own. It
    /// stays up. `EOPNOTSUPP`: the hardware, or this function of it, cannot do that.
    fn set_target(&self, _link: usize, _speed: u32, _width: u32) -> Result {
        Err(EOPNOTSUPP.into())
    }

    /// The local memory that the neighbour on `link` reaches. `ENOTCONN`: a far link that was never aimed.
    fn arena(&self, link: usize) -> Result<&Area>;

    /// Bytes that the arena was to have; it may have fewer.
    fn arena_wanted(&self, link: usize) -> u64;

    /// Lets the neighbour on `link` reach the arena, which should be zeroed before. Sleeps, for at
    /// most a tenth of a second, if a neighbour still holds on to what was granted before:
    /// `ETIMEDOUT`. `EIO`: the port does not open it.
    fn grant(&self, link: usize) -> Result<Grant>;

    /// Takes that back. When this returns, no access of the neighbour can still land in the arena.
    /// Sleeps, for at most a tenth of a second; on `ETIMEDOUT` the arena must not be given to anybody.
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

    /// Physical address of a page by which a user may ring `doorbell` of the neighbour on `link`,
    /// and nothing else, with a 32-bit store of the number at its start. `None`: no such page left,
    /// or the hardware has none.
    fn doorbell_page(&self, link: usize, doorbell: u32) -> Option<u64>;

    /// Physical address of a page by which a user of this host has [`Events::kicked`] called, and
    /// nothing else, and what to store there, 32 bits at its start. `None`: the hardware has none.
    fn kick_page(&self) -> Option<(u64, u32)>;

    /// Has [`Events::kicked`] called for who writes to that page after this: it is called once, and
    /// then not before this is.
    fn hear_kicks(&self);

    /// What moves bulk data to the neighbour on `link` without a CPU, if there is such a thing. It works
    /// while the window is attached.
    fn mover(&self, link: usize) -> Option<&dyn Mover>;

    /// Sends a message of up to [`MBOX_BYTES`] bytes to the neighbour on `link`. May get lost.
    /// `ENOLINK`: the link is down. May sleep.
    fn send(&self, link: usize, msg: &[u8]) -> Result;

    /// Whether all that was stored through the attached window has gone where it was to go, and the
    /// neighbour still reaches the arena that it was granted. Else: what is wrong, for people.
    fn intact(&self, link: usize) -> Result<(), &'static str>;

    /// Whether what the neighbour on `link` has written since [`Port::grant`] came without a gap: false if
    /// something was dropped, and what was written after it may be there. To be asked before
    /// [`Port::withdraw`].
    fn is_sound(&self, _link: usize) -> bool {
        true
    }

    /// Counts loads through windows that brought all ones because nobody had answered them. `None`: the
    /// function does not answer either. What was loaded is what is there if the count has not changed
    /// meanwhile.
    fn failed_loads(&self) -> Option<u32>;

    /// Takes the oldest message: the link it came by and its length. May sleep.
    fn recv(&self, buf: &mut [u8; MBOX_BYTES]) -> Option<(usize, usize)>;

    /// Counter number `n`, `None` behind the last one.
    fn counter(&self, n: usize) -> Option<Counter>;

    /// Its routes, where it has any.
    fn router(&self) -> Option<&dyn Router> {
        None
    }

    /// Its seats for functions of shared endpoints, where it knows of any.
    fn seats(&self) -> Option<&dyn Seats> {
        None
    }

    /// The virtual functions that it could have.
    fn vfs(&self) -> Option<&dyn VirtualFunctions> {
        None
    }

    /// Whether it was reset and nobody has said so, as may happen to a virtual function whose physical
    /// one is another system's: [`Port::suspend`] and [`Port::resume`] bring it back.
    fn was_reset(&self) -> bool {
        false
    }

    /// Tells whoever has given this function away whether it has users: to be called whenever that
    /// changes, and after [`Port::resume`] and [`Port::restart`]. May sleep.
    fn tell_users(&self, _any: bool) {}

    /// What whoever has given this function away wants of its users. [`Events::message`] tells of a
    /// change.
    fn asked(&self) -> Asked {
        Asked::default()
    }

    /// Answers that: how much is outstanding. May sleep.
    fn tell_left(&self, _asked: Asked, _left: u32) {}

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
}
