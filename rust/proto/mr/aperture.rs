// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A base and a limit for every endpoint and root complex, in every address space that it belongs to.
//!
//! There is an address space for each root complex. In it are its own memory, the other root complexes,
//! the endpoints on its hardware unit, which it reaches without the fabric's help, and those that belong
//! to it by the administrator's assignment. An existing aperture stays where it is; a new one is placed
//! by the local id, if that place is free: so the next master computes the same places. This file is
//! independent of how an access gets there.

use super::{
    assignment::Assignment,
    inventory::{Component, Inventory, Link},
    list::{Full, List},
    plane::PLANES,
};

/// Smallest size, and alignment.
const PAGE: u64 = 4096;

/// Reason why a component is in an address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Association {
    /// The space is its own.
    Own,
    /// Both are root complexes.
    Peer,
    /// It is on the same hardware unit as the root complex.
    Physical,
    /// The administrator has assigned it to the root complex.
    Logical,
}

/// A range in an address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Aperture {
    /// Hardware id of the root complex that the address space belongs to.
    pub space: u64,
    /// Hardware id of the component that is there.
    pub owner: u64,
    /// Of an endpoint: number of the virtual endpoint.
    pub ve: u8,
    /// Reason why it is there.
    pub association: Association,
    /// First byte.
    pub base: u64,
    /// Last byte.
    pub limit: u64,
}

impl Aperture {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        space: 0,
        owner: 0,
        ve: 0,
        association: Association::Own,
        base: 0,
        limit: 0,
    };
}

/// A component that needs an aperture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Hardware id of the root complex that the address space belongs to.
    pub space: u64,
    /// Hardware id of the component.
    pub owner: u64,
    /// Of an endpoint: number of the virtual endpoint.
    pub ve: u8,
    association: Association,
    lid: u32,
    bytes: u64,
}

/// All apertures.
pub struct Apertures<M>(List<Aperture, M>);

impl<M: AsRef<[Aperture]> + AsMut<[Aperture]>> Apertures<M> {
    /// Creates an empty list.
    pub fn new(memory: M) -> Self {
        Self(List::new(memory))
    }

    /// Returns all apertures, sorted by space.
    pub fn all(&self) -> &[Aperture] {
        self.0.all()
    }

    /// Returns the aperture of a component in a space.
    pub fn of(&self, space: u64, owner: u64, ve: u8) -> Option<&Aperture> {
        let same = |a: &&Aperture| (a.space, a.owner, a.ve) == (space, owner, ve);
        self.all().iter().find(same)
    }

    /// Gives every component that belongs into the space of one root complex an aperture there, and
    /// removes all other apertures, those of other spaces included. Calls `no_room` for each component
    /// without room.
    pub fn settle<C, L>(
        &mut self,
        inventory: &Inventory<C, L>,
        assignments: &[Assignment],
        space: u64,
        mut no_room: impl FnMut(&Claim),
    ) -> Result<(), Full>
    where
        C: AsRef<[Component]> + AsMut<[Component]>,
        L: AsRef<[Link]> + AsMut<[Link]>,
    {
        self.0
            .retain(|a| a.space == space && belongs(inventory, assignments, a));
        match inventory.get(space).filter(|c| c.is_root()) {
            Some(space) => self.fill(inventory, assignments, space, &mut no_room),
            None => Ok(()),
        }
    }

    /// Adds the missing apertures of a space.
    fn fill<C, L>(
        &mut self,
        inventory: &Inventory<C, L>,
        assignments: &[Assignment],
        space: &Component,
        no_room: &mut impl FnMut(&Claim),
    ) -> Result<(), Full>
    where
        C: AsRef<[Component]> + AsMut<[Component]>,
        L: AsRef<[Link]> + AsMut<[Link]>,
    {
        for claim in claims(inventory, assignments, space.hwid) {
            if self.of(claim.space, claim.owner, claim.ve).is_some() {
                continue;
            }
            match self.place(space, &claim) {
                Some(aperture) => self.0.insert(aperture)?,
                None => no_room(&claim),
            }
        }
        Ok(())
    }

    /// Returns the aperture for a claim: the place that its local id names, or else the lowest free one.
    fn place(&self, space: &Component, claim: &Claim) -> Option<Aperture> {
        let inside = || self.all().iter().filter(|a| a.space == space.hwid);
        let ends = inside().filter_map(|a| a.limit.checked_add(1));
        let starts = ends.chain([space.window.0]).filter_map(|at| {
            let size = size(claim)?;
            at.checked_next_multiple_of(size)
        });
        let made = |base: u64| {
            let Claim {
                owner,
                ve,
                association,
                ..
            } = *claim;
            let limit = base.checked_add(size(claim)? - 1)?;
            Some(Aperture {
                space: space.hwid,
                owner,
                ve,
                association,
                base,
                limit,
            })
        };
        let free = |a: &Aperture| inside().all(|b| a.limit < b.base || b.limit < a.base);
        let fits = |a: &Aperture| is_in_place(space, claim, a) && free(a);
        let named = named(space, claim).and_then(made).filter(fits);
        named.or_else(|| {
            let candidates = starts.chain([0]).filter_map(made);
            candidates.filter(fits).min_by_key(|a| a.base)
        })
    }
}

/// Returns the bytes of an aperture: a power of two, as base registers need it.
fn size(claim: &Claim) -> Option<u64> {
    claim.bytes.max(PAGE).checked_next_power_of_two()
}

/// Returns whether an aperture has the size of the claim, and is in the range allowed for it.
fn is_in_place(space: &Component, claim: &Claim, at: &Aperture) -> bool {
    let Some(size) = size(claim) else {
        return false;
    };
    let (low, high) = match claim.association {
        Association::Own => (0, size - 1),
        _ => space.window,
    };
    at.limit - at.base == size - 1 && at.base % size == 0 && low <= at.base && at.limit <= high
}

/// Returns the base that the local id of a claim names. Bases are counted in units of its size from the
/// first one of the window, with [`PLANES`] for each local id, one per virtual endpoint.
fn named(space: &Component, claim: &Claim) -> Option<u64> {
    let size = size(claim)?;
    let number = u64::from(claim.lid) * u64::from(PLANES) + u64::from(claim.ve);
    let first = space.window.0.checked_next_multiple_of(size)?;
    first.checked_add(number.checked_mul(size)?)
}

/// Returns whether an aperture is still claimed, and is in an allowed place.
fn belongs<C, L>(inventory: &Inventory<C, L>, assignments: &[Assignment], at: &Aperture) -> bool
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
{
    let mut all = claims(inventory, assignments, at.space);
    let claim = all.find(|c| (c.owner, c.ve, c.association) == (at.owner, at.ve, at.association));
    let space = inventory.get(at.space);
    claim.is_some_and(|claim| space.is_some_and(|space| is_in_place(space, &claim, at)))
}

/// Iterates over all claims in the space of a root complex.
fn claims<'a, C, L>(
    inventory: &'a Inventory<C, L>,
    assignments: &'a [Assignment],
    space: u64,
) -> impl Iterator<Item = Claim> + 'a
where
    C: AsRef<[Component]> + AsMut<[Component]>,
    L: AsRef<[Link]> + AsMut<[Link]>,
{
    let there = inventory.get(space).is_some_and(Component::is_root);
    let all = inventory.components().iter().filter(move |_| there);
    all.flat_map(move |c| {
        let ves = if c.is_endpoint() { c.ves() } else { 1 };
        (0..ves).filter_map(move |ve| {
            let association = associate(assignments, space, c, ve)?;
            let (owner, lid, bytes) = (c.hwid, c.lid, c.bytes);
            Some(Claim {
                space,
                owner,
                ve,
                association,
                lid,
                bytes,
            })
        })
    })
}

/// Returns why a component belongs into the space of a root complex; `None` if it does not.
fn associate(
    assignments: &[Assignment],
    space: u64,
    component: &Component,
    ve: u8,
) -> Option<Association> {
    let assignment = Assignment {
        endpoint: component.hwid,
        ve,
        root: space,
    };
    if component.is_root() {
        let own = component.hwid == space;
        Some(if own {
            Association::Own
        } else {
            Association::Peer
        })
    } else if !component.is_endpoint() {
        None
    } else if assignments.contains(&assignment) {
        Some(Association::Logical)
    } else {
        (component.resident == space).then_some(Association::Physical)
    }
}
