// SPDX-License-Identifier: GPL-2.0

//! Digests of the vital product data of all components that were seen: so a component that was put in
//! another's place under its hardware id is noticed, also by the next master, as the digests travel with
//! the assignments.

use super::found::Found;
use crate::{
    proto::{
        mr::{
            assignment::{self, Seen},
            list::List,
        },
        nm::{assignments::MAX_ASSIGNMENTS, node::MAX_NODES},
    },
    sys::memory::Memory,
};
use kernel::prelude::*;

/// A component that was seen.
#[derive(Clone, Copy)]
struct Known {
    seen: Seen,
    /// Its data differ from those that were seen before under this hardware id.
    replaced: bool,
}

/// All components that were seen, the oldest first.
pub(super) struct Kept {
    all: List<Known, Memory<Known>>,
    /// The same, as they are written to the text.
    lines: List<Seen, Memory<Seen>>,
    text: Memory<u8>,
}

impl Kept {
    pub(super) fn new() -> Result<Self> {
        let none = Known {
            seen: Seen::NONE,
            replaced: false,
        };
        Ok(Self {
            all: List::new(Memory::new(none, MAX_NODES)?),
            lines: List::new(Memory::new(Seen::NONE, MAX_NODES)?),
            text: Memory::new(0, MAX_ASSIGNMENTS)?,
        })
    }

    /// Takes over the digests that masters before this one have noted.
    pub(super) fn recall(&mut self, text: &[u8]) {
        for seen in assignment::seen(text) {
            match self.get_mut(seen.hwid) {
                Some(known) => known.seen = seen,
                None => self.add(seen),
            }
        }
    }

    fn get_mut(&mut self, hwid: u64) -> Option<&mut Known> {
        let all = self.all.all_mut().iter_mut();
        all.into_iter().find(|known| known.seen.hwid == hwid)
    }

    /// Adds a component that is not in the list, in place of the oldest if there is no room.
    fn add(&mut self, seen: Seen) {
        if self.all.all().len() == self.all.capacity() {
            let oldest = self.all.get(0).map_or(0, |known| known.seen.hwid);
            self.all.retain(|known| known.seen.hwid != oldest);
        }
        let replaced = false;
        // There is room now.
        let _ = self.all.push(Known { seen, replaced });
    }

    /// Compares what was found with what was seen before, marks each component that was replaced, and
    /// stores the new digest. Components whose data are not in order are not compared. Calls `replaced`
    /// for each difference.
    pub(super) fn compare(&mut self, found: &mut Found, mut replaced: impl FnMut(u64)) {
        for at in 0..found.things.components().len() {
            let Some((component, contact)) = found.at(at) else {
                break;
            };
            let seen = Seen {
                hwid: component.hwid,
                digest: component.vpd.digest(),
            };
            let has_vpd = contact.has_vpd;
            let Some(known) = self.get_mut(seen.hwid) else {
                if has_vpd {
                    self.add(seen);
                }
                continue;
            };
            if has_vpd && known.seen != seen {
                *known = Known {
                    seen,
                    replaced: true,
                };
                replaced(seen.hwid);
            }
            let was = known.replaced;
            if let Some(contact) = found.contact_mut(seen.hwid) {
                contact.replaced = was;
            }
        }
    }

    /// Returns the text of the assignments with the digests; `None` if it has them already, or is too
    /// long.
    pub(super) fn note(&mut self, text: &[u8], found: &Found) -> Option<&[u8]> {
        self.lines.clear();
        for known in self.all.all() {
            self.lines.push(known.seen).ok()?;
        }
        if assignment::seen(text).eq(self.lines.all().iter().copied()) {
            return None;
        }
        let there = |hwid| found.get(hwid).is_some();
        let bytes = assignment::annotate(text, self.lines.all(), there, self.text.as_mut())?;
        let noted = self.text.as_ref().get(..bytes)?;
        (noted != text).then_some(noted)
    }
}
