// SPDX-License-Identifier: GPL-2.0

//! Migration of virtual functions, as an administrator asks a port for it.
//!
//! `proto::migration` decides the next step; this module does it, through the ports of the two physical
//! functions and the kernel's means to give a device to a driver. It knows [`Node`] only as the place of
//! a port, and must not know files, or what users do with a VF: the system of the users, this one or
//! another, is asked through the mailbox.
//!
//! # Locks
//!
//! If the users are to notice nothing, what outlasts the source waits in [`crate::sys::handover`]: the
//! driver of the source leaves it there, and that of the target fetches it.
//!
//! Nothing is held here but the right to exchange identities, [`Exchange`]: one for the whole module,
//! and never waited for. Ports are entered for one call at a time, so that each can be removed in
//! between. Drivers are bound and unbound with no lock held.

mod mover;
mod side;

use crate::{
    fabric::Node,
    hw::{identity_map::Exchange, VfState},
    proto::migration::{Action, Event, Machine, Next, Outcome, Plan},
    sys::{ext, virtfn::Bound},
};
use kernel::{prelude::*, time::Delta};
use mover::Mover;
use side::Side;

/// A migration that is asked for.
pub(crate) struct Assignment {
    pub(crate) vf: usize,
    pub(crate) target_vf: usize,
    /// Users that do not finish in time are stopped.
    pub(crate) stops: bool,
    /// Live migration: users notice nothing but a delay.
    pub(crate) live: bool,
    /// How long users have to finish.
    pub(crate) grace_ms: u32,
    /// Only check for obstacles.
    pub(crate) dry: bool,
}

/// The result of a migration.
pub(crate) struct Report {
    /// `None`: nothing was begun.
    pub(crate) outcome: Option<Outcome>,
    /// Mask of `WEFT_MIGRATE_*`.
    pub(crate) obstacles: u32,
    /// The first step that failed, and how.
    pub(crate) why: Option<(Action, Event)>,
    pub(crate) outstanding: u32,
    pub(crate) hwid: u64,
}

/// Returns the obstacles to the migration, a mask of `WEFT_MIGRATE_*`. `ENOENT`: there is no such VF;
/// `ENODEV`: a port is gone.
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

/// How long the source's driver may take to say how much it has that cannot be migrated.
const LOOK_TIME: Delta = Delta::from_millis(500);

/// Returns the obstacles to a live migration, as [`obstacles`]. Asks the driver of the source. Called
/// while no other migration runs.
fn live_obstacles(source: &Side<'_>, target: &Side<'_>) -> Result<u32> {
    let mut found = 0;
    let mut note = |against: bool, obstacle| {
        if against {
            found |= obstacle;
        }
    };
    // Neighbours know it by its index at its physical function.
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

/// Migrates a VF of `source` to one of `target`, or only checks for obstacles. `EBUSY`: another
/// migration runs. Sleeps.
pub(crate) fn migrate(source: &Node, target: &Node, assignment: &Assignment) -> Result<Report> {
    let source = Side::new(source, assignment.vf);
    let target = Side::new(target, assignment.target_vf);
    let begun = source.vf()?;
    let mut report = Report {
        outcome: None,
        obstacles: obstacles(&source, &target)?,
        why: None,
        outstanding: 0,
        hwid: begun.hwid,
    };
    if assignment.dry {
        // While another migration runs, the driver is not asked.
        if let Some(_exchange) = Exchange::new().filter(|_| assignment.live) {
            report.obstacles |= live_obstacles(&source, &target)?;
        }
        return Ok(report);
    }
    let exchange = Exchange::new().ok_or(EBUSY)?;
    // From here on no other migration can change it.
    report.obstacles = obstacles(&source, &target)?;
    if options.live {
        report.obstacles |= live_obstacles(&source, &target)?;
    }
    if report.obstacles != 0 {
        report.outcome = Some(Outcome::Stayed);
        return Ok(report);
    }
    let mut machine = Machine::new(Plan {
        asks: begun.state != VfState::Idle,
        stops: options.stops,
        grace_ms: options.grace_ms.into(),
    });
    let devices = source.device().zip(target.device());
    let devices = devices.as_ref().filter(|_| options.live);
    let mut mover = Mover::new(source, target, &exchange, devices)?;
    let outcome = loop {
        match machine.next() {
            Next::End(outcome) => break outcome,
            Next::Do(action) => {
                let event = mover.act(action, machine.limit_ms());
                mover.log(action, event);
                machine.event(event);
            }
        }
    };
    mover.ended();
    report.outcome = Some(outcome);
    report.why = machine.why();
    report.outstanding = mover.outstanding();
    Ok(report)
}
