// SPDX-License-Identifier: GPL-2.0

//! What was found: the inventory, and for each component how it is reached and in which life it was found.

use super::super::memory::Memory;
use crate::proto::{
    mr::inventory::{Component, Inventory, Kind, Link},
    nm::{node::MAX_NODES, path::Path},
};
use kernel::prelude::*;

/// Links between them, at the most.
const MAX_LINKS: usize = 4 * MAX_NODES;

/// The components and links of one traversal.
pub(super) type Things = Inventory<Memory<Component>, Memory<Link>>;

/// What is known of a component besides what it is.
#[derive(Clone, Copy)]
pub(super) struct Contact {
    pub(super) path: Path,
    pub(super) ports: u8,
    /// Its life, as its manager says; 0: not known.
    pub(super) life: u32,
    /// What it says of itself is known,
    pub(super) has_vpd: bool,
    /// or was read, and is not in order.
    pub(super) is_broken: bool,
    /// Under its id there was another one before.
    pub(super) replaced: bool,
}

impl Contact {
    pub(super) const NONE: Self = Self {
        path: Path::EMPTY,
        ports: 0,
        life: 0,
        has_vpd: false,
        is_broken: false,
        replaced: false,
    };
}

/// What was found.
pub(super) struct Found {
    pub(super) things: Things,
    contacts: Memory<Contact>,
}

impl Found {
    pub(super) fn new() -> Result<Self> {
        let none = Component::new(0, Kind::Root);
        Ok(Self {
            things: Inventory::new(
                Memory::new(none, MAX_NODES)?,
                Memory::new(Link::NONE, MAX_LINKS)?,
            ),
            contacts: Memory::new(Contact::NONE, MAX_NODES)?,
        })
    }

    /// A component, and how it is reached.
    pub(super) fn get(&self, hwid: u64) -> Option<(&Component, &Contact)> {
        self.at(self.things.index(hwid)?)
    }

    /// The same, by its place in the list of components.
    pub(super) fn at(&self, index: usize) -> Option<(&Component, &Contact)> {
        let component = self.things.components().get(index)?;
        Some((component, self.contacts.as_ref().get(index)?))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Component, &Contact)> {
        self.things.components().iter().zip(self.contacts.as_ref())
    }

    pub(super) fn contact_mut(&mut self, hwid: u64) -> Option<&mut Contact> {
        let index = self.things.index(hwid)?;
        self.contacts.as_mut().get_mut(index)
    }

    /// Puts a component, or what is known of it now. False: there is no room for it.
    pub(super) fn put(&mut self, component: Component, contact: Contact) -> bool {
        let hwid = component.hwid;
        if self.things.found(component).is_err() {
            return false;
        }
        if let Some(place) = self.contact_mut(hwid) {
            *place = contact;
        }
        true
    }
}
