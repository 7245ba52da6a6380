// SPDX-License-Identifier: GPL-2.0

//! Virtual functions that move: what an administrator asks of a port for that.
//!
//! What comes next is decided by `proto::migration`; here is done what it says, through the ports of
//! the two physical functions and the kernel's own means to give a device to a driver. It knows
//! [`Node`] only as the place where a port is, and must not know files, or what users do with a VF:
//! their system is asked through the mailbox, be it this one or another.
//!
//! # Locks
//!
//! What outlasts a source whose users are to notice nothing waits in [`crate::sys::handover`], where its driver
//! leaves it and that of the target finds it.
//!
//! None is held here but the right to exchange identities, [`Exchange`], one for the whole module and
//! never waited for. Ports are entered for one call at a time, so that each of them can be taken away
//! in between; drivers are bound and unbound with nothing held.

mod far;
mod mover;
mod receiver;
mod side;
mod steps;

use crate::{
    fabric::Node,
    hw::{identity_map::Exchange, VfState},
    proto::migration::{Action, Event, Outcome, Plan},
    sys::{ext, virtfn::Bound},
};
pub(crate) use far::{migrate_far, FarOptions};
use kernel::{prelude::*, time::Delta};
pub(crate) use receiver::receive;

use mover::Mover;
use side::Side;

/// What is wanted.
pub(crate) struct Options {
    pub(crate) vf: usize,
    pub(crate) target_vf: usize,
    /// Users that do not finish in time are stopped.
    pub(crate) stops: bool,
    /// Users notice nothing but that it takes a while.
    pub(crate) live: bool,
    /// How long they have.
    pub(crate) grace_ms: u32,
    /// Only say what stands against it.
    pub(crate) dry: bool,
}

/// What became of it.
pub(crate) struct Report {
    /// `None`: nothing was begun.
    pub(crate) outcome: Option<Outcome>,
    /// Mask of `WEFT_MIGRATE_*`.
    pub(crate) obstacles: u32,
    /// What went wrong first.
    pub(crate) why: Option<(Action, Event)>,
    pub(crate) outstanding: u32,
    pub(crate) hwid: u64,
}

impl Report {
    /// Of a function with a hardware id, with which nothing was begun.
    fn new(hwid: u64, obstacles: u32) -> Self {
        Self {
            outcome: None,
            obstacles,
            why: None,
            outstanding: 0,
            hwid,
        }
    }

    /// Notes that the function stays if anything stands against it, and returns whether that is so.
    fn stays(&mut self) -> bool {
        if self.obstacles != 0 {
            self.outcome = Some(Outcome::Stayed);
        }
        self.obstacles != 0
    }
}

/// What stands against it; 0: nothing. `ENOENT`: there is no such VF; `ENODEV`: a port is gone.
fn obstacles(source: &Side<'_>, target: &Side<'_>) -> Result<u32> {
    let (from, to) = (source.vf()?, target.vf()?);
    let mut found = 0;
    let mut note = |against: bool, obstacle| {
        if against {
            found |= obstacle;
        }
    };
    note(source.is(target), ext::WEFT_MIGRATE_SAME);
    note(
        !source.can_migrate()? || !target.can_migrate()?,
        ext::WEFT_MIGRATE_INCAPABLE,
    );
    note(from.hwid == 0 || to.hwid == 0, ext::WEFT_MIGRATE_UNKNOWN);
    let less = source
        .offers()?
        .iter()
        .zip(target.offers()?)
        .any(|(from, to)| *from > to);
    note(less, ext::WEFT_MIGRATE_UNEQUAL);
    note(from.state == VfState::Off, ext::WEFT_MIGRATE_NO_SOURCE);
    note(to.state == VfState::Off, ext::WEFT_MIGRATE_NO_TARGET);
    let taken = match to.state {
        VfState::Off | VfState::Idle => false,
        VfState::Driven => target.bound() != Bound::SameAsPf,
        VfState::Used => true,
    };
    note(taken, ext::WEFT_MIGRATE_TAKEN);
    note(
        from.state == VfState::Used && !from.greeted,
        ext::WEFT_MIGRATE_SILENT,
    );
    Ok(found)
}

/// How long the source's driver may take to say what it has that cannot move.
const LOOK_TIME: Delta = Delta::from_millis(500);

/// What stands against its users noticing nothing; as [`obstacles`]. While nothing else moves: the driver
/// of the source is asked.
fn live_obstacles(source: &Side<'_>, target: &Side<'_>) -> Result<u32> {
    let mut found = 0;
    let mut note = |against: bool, obstacle| {
        if against {
            found |= obstacle;
        }
    };
    // Neighbours know it by a number that is its physical function's.
    note(!source.is_sibling(target), ext::WEFT_MIGRATE_ELSEWHERE);
    note(!source.can_renumber()?, ext::WEFT_MIGRATE_INCAPABLE);
    let foreign = source.bound() != Bound::SameAsPf;
    note(foreign, ext::WEFT_MIGRATE_FOREIGN);
    if !foreign {
        match source.look(LOOK_TIME) {
            Ok(channels) => note(channels != 0, ext::WEFT_MIGRATE_CHANNELS),
            Err(_) => note(true, ext::WEFT_MIGRATE_SILENT),
        }
    }
    Ok(found)
}

/// Moves a VF of `source` to one of `target`. `EBUSY`: another one is moving.
pub(crate) fn migrate(source: &Node, target: &Node, options: &Options) -> Result<Report> {
    let source = Side::new(source, options.vf);
    let target = Side::new(target, options.target_vf);
    let begun = source.vf()?;
    let mut report = Report::new(begun.hwid, obstacles(&source, &target)?);
    if options.dry {
        // A function that is moving is asked for nothing else.
        if let Some(_exchange) = Exchange::new().filter(|_| options.live) {
            report.obstacles |= live_obstacles(&source, &target)?;
        }
        return Ok(report);
    }
    let exchange = Exchange::new().ok_or(EBUSY)?;
    // Nothing else has changed it since.
    report.obstacles = obstacles(&source, &target)?;
    if options.live {
        report.obstacles |= live_obstacles(&source, &target)?;
    }
    if report.stays() {
        return Ok(report);
    }
    let plan = Plan {
        asks: begun.state != VfState::Idle,
        stops: options.stops,
        grace_ms: options.grace_ms.into(),
        far: false,
    };
    let devices = source.device().zip(target.device());
    let devices = devices.as_ref().filter(|_| options.live);
    let mut mover = Mover::new(source, target, &exchange, devices)?;
    steps::run(
        plan,
        &source,
        fmt!("to VF {}", target.number()),
        &mut report,
        |action, limit| mover.act(action, limit),
    );
    source.leave_alone();
    report.outstanding = mover.outstanding();
    Ok(report)
}
