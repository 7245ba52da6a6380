// SPDX-License-Identifier: GPL-2.0

//! Carries out a plan: writes the entries that differ, and hands hosts their hierarchies. The order is
//! such that a host that keeps an endpoint keeps it without interruption, and that no host reaches, in
//! between, an endpoint that belongs to it neither before nor after.
//!
//! First, virtual endpoints that are taken away are closed at the endpoint, and their hosts receive
//! hierarchies without them. Then planes are removed, planes are added, virtual endpoints are given, and
//! their hosts receive their hierarchies. What could not be written is left for the next time, and the
//! outcome of its assignment says so.

use super::{
    bus::Bus,
    found::Found,
    hierarchies::Hierarchies,
    outcome::Outcome,
    plan::Plan,
    public::Told,
    tables::{self, Tables, MAX_ENTRIES},
};
use crate::{
    proto::{
        crc::crc32c,
        mr::{
            inventory::Component,
            list::{Full, List},
            plan::{changes, Change, Entry},
            tree::Reach,
        },
        nm::node::MAX_NODES,
    },
    sys::{
        errno::{EHOSTUNREACH, ENOLINK, ESTALE},
        memory::Memory,
    },
};
use kernel::prelude::*;

/// The hierarchy that a host was handed last.
#[derive(Clone, Copy)]
struct Handed {
    root: u64,
    life: u32,
    /// Digest of its bytes.
    digest: u32,
}

/// Carries out plans, and knows what hosts were handed since this host became the master.
pub(super) struct Carrier {
    handed: List<Handed, Memory<Handed>>,
    /// The changes to be written.
    changes: List<Change, Memory<Change>>,
}

/// What the steps work with.
pub(super) struct Means<'a> {
    pub(super) bus: &'a Bus<'a>,
    pub(super) found: &'a Found,
    pub(super) hierarchies: &'a mut Hierarchies,
    pub(super) reach: &'a mut [Reach],
}

/// Returns whether nothing else is to be tried after this error: this host is the master no more, or has
/// no port or fabric.
pub(super) fn is_over(why: Error) -> bool {
    why == ESTALE || why == ENODEV || why == ENOLINK
}

impl Carrier {
    pub(super) fn new() -> Result<Self> {
        let none = Handed {
            root: 0,
            life: 0,
            digest: 0,
        };
        Ok(Self {
            handed: List::new(Memory::new(none, MAX_NODES)?),
            changes: List::new(Memory::new(Change::Take(Entry::NONE), 2 * MAX_ENTRIES)?),
        })
    }

    /// Forgets what hosts were handed.
    pub(super) fn forget_all(&mut self) {
        self.handed.clear();
    }

    /// Carries out `plan`. Returns false if something failed and is to be tried again. Errors that end
    /// the run are those of [`is_over`], and `ENOSPC`.
    pub(super) fn carry_out(
        &mut self,
        with: &mut Means<'_>,
        plan: &mut Plan,
        tables: &mut Tables,
    ) -> Result<bool> {
        let Self {
            changes: all,
            handed,
        } = self;
        // A host that has gone is told again when it is back, and takes no room until then.
        handed.retain(|h| with.found.get(h.root).is_some());
        all.clear();
        for change in changes(tables.entries(), plan.entries.all()) {
            // Hosts write their own tables.
            if !matches!(change.entry(), Entry::Own { .. } | Entry::Open { .. }) {
                all.push(change).map_err(|Full| ENOSPC)?;
            }
        }
        let mut whole = true;
        let mut told_losers = false;
        for change in all.all() {
            let closes = matches!(change, Change::Take(Entry::Base { .. }));
            if !closes && !told_losers {
                told_losers = true;
                tell_losers(with, plan, tables, all.all(), handed)?;
            }
            whole &= apply(with, plan, tables, change)?;
        }
        for n in 0..with.found.things.components().len() {
            let Some((root, _)) = with.found.at(n).filter(|(c, _)| c.is_root()) else {
                continue;
            };
            if let Err(e) = hand(with, plan, tables, root, handed) {
                if is_over(e) {
                    return Err(e);
                }
                whole &= !not_taken(with, plan, root, e);
            }
        }
        Ok(whole)
    }
}

/// Writes a change, and notes its outcome. Returns false if it is to be tried again.
fn apply(with: &Means<'_>, plan: &mut Plan, tables: &mut Tables, change: &Change) -> Result<bool> {
    let (entry, put) = (*change.entry(), matches!(change, Change::Put(_)));
    // Changes are for components that were found.
    let Some((_, contact)) = with.found.get(entry.component()) else {
        return Ok(true);
    };
    if let (true, Entry::Base { endpoint, ve, .. }) = (put, &entry) {
        // Something that it needs could not be written.
        let assignment = plan.assignment_for(*endpoint, *ve);
        if assignment.is_none_or(|n| plan.outcome(n) != Outcome::Done) {
            return Ok(false);
        }
    }
    match tables::write(with.bus, &contact.path, &entry, put) {
        Ok(()) if put => tables.put(entry).map(|()| true),
        Ok(()) => {
            tables.take(&entry);
            Ok(true)
        }
        Err(e) if is_over(e) => Err(e),
        Err(e) => {
            // The content of the table is unknown now.
            tables.forget(entry.component());
            if e != EHOSTUNREACH {
                complain(with, &entry, e);
            }
            if put {
                fail(with, plan, tables, &entry);
            }
            Ok(false)
        }
    }
}

/// Sets the outcome of the assignments that need an entry to failed, unless they were fulfilled before.
fn fail(with: &Means<'_>, plan: &mut Plan, tables: &Tables, entry: &Entry) {
    match *entry {
        Entry::Base { endpoint, ve, .. } => {
            if let Some(n) = plan.assignment_for(endpoint, ve) {
                plan.set(n, Outcome::Failed);
            }
        }
        Entry::Plane { vh, .. } => {
            let all = with.found.things.components().iter();
            let mut roots = all.filter(|c| c.is_root());
            let Some(root) = roots.find(|c| plan.numbers.hierarchy(c.hwid) == Some(vh)) else {
                return;
            };
            let is_missing = |plan: &Plan, n| !is_given(plan, tables, root, n);
            plan.spoil(root.hwid, Outcome::Failed, is_missing);
        }
        Entry::Own { .. } | Entry::Open { .. } => {}
    }
}

fn complain(with: &Means<'_>, entry: &Entry, why: Error) {
    let network = with.bus.network;
    match *entry {
        Entry::Plane {
            switch, port, vp, ..
        } => network.complain(fmt!(
            "virtual plane {} of port {} of switch {:#018x} cannot be written: {:?}",
            vp,
            port,
            switch,
            why
        )),
        _ => network.complain(fmt!(
            "the base function of endpoint {:#018x} cannot be written: {:?}",
            entry.component(),
            why
        )),
    }
}

/// Returns whether the virtual endpoint of assignment `n` belongs to the host now.
fn is_given(plan: &Plan, tables: &Tables, root: &Component, n: usize) -> bool {
    let Some(assignment) = plan.assignments.all().get(n) else {
        return false;
    };
    tables.entries().iter().any(|entry| {
        matches!(*entry, Entry::Base { endpoint, ve, root: lid, .. }
            if (endpoint, ve, lid) == (assignment.endpoint, assignment.ve, root.lid))
    })
}

/// Hands reduced hierarchies to the hosts that lose something. A host that does not take it loses it all
/// the same.
fn tell_losers(
    with: &mut Means<'_>,
    plan: &Plan,
    tables: &Tables,
    changes: &[Change],
    handed: &mut List<Handed, Memory<Handed>>,
) -> Result {
    for n in 0..with.found.things.components().len() {
        let Some((root, _)) = with.found.at(n).filter(|(c, _)| c.is_root()) else {
            continue;
        };
        let loses = |change: &Change| matches!(*change, Change::Take(Entry::Base { root: lid, .. }) if lid == root.lid);
        let had = handed.all().iter().any(|h| h.root == root.hwid);
        if !had && !changes.iter().any(loses) {
            continue;
        }
        match hand(with, plan, tables, root, handed) {
            Err(e) if is_over(e) => return Err(e),
            Err(_) | Ok(()) => {}
        }
    }
    Ok(())
}

/// Hands a host the hierarchy with all that belongs to it now, unless it has it already.
fn hand(
    with: &mut Means<'_>,
    plan: &Plan,
    tables: &Tables,
    root: &Component,
    handed: &mut List<Handed, Memory<Handed>>,
) -> Result {
    // A host that is no member of the fabric cannot be told, and was never told anything.
    let life = with.found.get(root.hwid).map_or(0, |(_, c)| c.life);
    if life == 0 {
        return Ok(());
    }
    let bus = with.bus;
    let bytes = make(with, plan, tables, root).ok_or(ENOSPC)?;
    let digest = crc32c(bytes.iter().copied());
    let now = Handed {
        root: root.hwid,
        life,
        digest,
    };
    let same = |h: &Handed| (h.root, h.life, h.digest) == (now.root, now.life, now.digest);
    if handed.all().iter().any(same) {
        return Ok(());
    }
    handed.retain(|h| h.root != root.hwid);
    bus.is_master()?;
    match bus.network.hand(root.hwid, bytes) {
        Err(e) if e == ESTALE => {
            // If this host is still the master, it is the other one that has refused: the remaining
            // hosts do not wait for that to be settled.
            bus.is_master()?;
            return Err(EAGAIN);
        }
        done => done?,
    }
    handed.push(now).map_err(|Full| ENOSPC)
}

/// Makes the hierarchy of a host, with all that belongs to it now. `None`: there is no room for it.
fn make<'a>(
    with: &'a mut Means<'_>,
    plan: &Plan,
    tables: &Tables,
    root: &Component,
) -> Option<&'a [u8]> {
    let vh = plan.numbers.hierarchy(root.hwid).unwrap_or(0);
    let given = |n| plan.outcome(n) == Outcome::Done && is_given(plan, tables, root, n);
    with.hierarchies.make(
        with.found,
        (root, vh),
        plan.assignments.all(),
        given,
        plan.entries.all(),
        with.reach,
    )
}

/// Notes and logs that a host has not taken its hierarchy. Returns true if it has assignments that this
/// concerns.
fn not_taken(with: &Means<'_>, plan: &mut Plan, root: &Component, why: Error) -> bool {
    let any = plan.spoil(root.hwid, Outcome::NotTaken, |_, _| true);
    if any {
        with.bus.network.complain(fmt!(
            "host {:#018x} has not taken its hierarchy: {:?}; trying again",
            root.hwid,
            why
        ));
    }
    any
}

/// Returns the hierarchies of all hosts as they are now.
pub(super) fn told(with: &mut Means<'_>, plan: &Plan, tables: &Tables) -> Result<KVVec<Told>> {
    let mut all = KVVec::new();
    for n in 0..with.found.things.components().len() {
        let Some((root, _)) = with.found.at(n).filter(|(c, _)| c.is_root()) else {
            continue;
        };
        let Some(made) = make(with, plan, tables, root) else {
            continue;
        };
        let mut bytes = KVVec::with_capacity(made.len(), GFP_KERNEL)?;
        bytes.extend_from_slice(made, GFP_KERNEL)?;
        let root = root.hwid;
        all.push(Told { root, bytes }, GFP_KERNEL)?;
    }
    Ok(all)
}
