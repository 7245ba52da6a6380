// SPDX-License-Identifier: GPL-2.0

//! What was found: the inventory, and for each component its path and the life in which it was found.

use crate::{
    proto::{
        mr::inventory::{Component, Inventory, Kind, Link},
        nm::{node::MAX_NODES, path::Path},
    },
    sys::memory::Memory,
};
use kernel::prelude::*;

/// The most links between components.
const MAX_LINKS: usize = 4 * MAX_NODES;

/// The components and links of one traversal.
pub(super) type Things = Inventory<Memory<Component>, Memory<Link>>;

/// What is known of a component besides what the inventory has.
#[derive(Clone, Copy)]
pub(super) struct Contact {
    pub(super) path: Path,
    pub(super) ports: u8,
    /// Its life, as its manager announces it; 0: not known.
    pub(super) life: u32,
    /// Its vital product data are known,
    pub(super) has_vpd: bool,
    /// or were read, and are not in order.
    pub(super) is_broken: bool,
    /// Another component had this hardware id before.
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

    /// Returns a component, and how it is reached.
    pub(super) fn get(&self, hwid: u64) -> Option<(&Component, &Contact)> {
        self.at(self.things.index(hwid)?)
    }

    /// The same, by its index in the list of components.
    pub(super) fn at(&self, index: usize) -> Option<(&Component, &Contact)> {
        let component = self.things.components().get(index)?;
        Some((component, self.contacts.as_ref().get(index)?))
    }

    /// Returns all components.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Component, &Contact)> {
        self.things.components().iter().zip(self.contacts.as_ref())
    }

    pub(super) fn contact_mut(&mut self, hwid: u64) -> Option<&mut Contact> {
        let index = self.things.index(hwid)?;
        self.contacts.as_mut().get_mut(index)
    }

    /// Adds a component, or updates it. Returns false if there is no room for it.
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
