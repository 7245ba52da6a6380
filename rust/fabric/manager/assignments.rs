// SPDX-License-Identifier: GPL-2.0

//! The text of the assignments. The machine stores and distributes it, but does not interpret it.

use super::{
    super::{host::ManagerHost, memory::Memory, pcim::MAX_ASSIGNMENTS},
    Manager,
};
use crate::{
    proto::{
        mr::assignment::{self, Assignment, Assignments},
        nm::node::Role,
    },
    sys::{
        clock,
        errno::{EREMOTE, ESTALE},
    },
};
use kernel::prelude::*;

/// Why a text was refused.
pub(crate) enum Refusal {
    /// The line of this number, from 1, is no assignment, or names a virtual endpoint twice.
    Line(u32),
    /// There is no room for the line of this number.
    Room(u32),
    /// The text is in order. `EREMOTE`: this host is not the master; `EAGAIN`: it does not know yet;
    /// `ESTALE`: there is another version by now; `ENOSPC`: the text is too long; `ENODEV`, `ENOMEM`.
    Other(Error),
}

impl From<Error> for Refusal {
    fn from(why: Error) -> Self {
        Self::Other(why)
    }
}

impl Manager {
    /// Copies the text if it fits into `to`. Returns its version, and its length in bytes.
    pub(in crate::fabric) fn copy_assignments(&self, to: &mut [u8]) -> (u32, usize) {
        let inner = self.inner.lock();
        let assignments = inner.machine.assignments();
        let text = assignments.bytes();
        if let Some(to) = to.get_mut(..text.len()) {
            to.copy_from_slice(text);
        }
        (assignments.version(), text.len())
    }

    /// Returns the version of the assignments, and their text.
    pub(crate) fn assignments(&self) -> Result<(u32, KVVec<u8>)> {
        let mut text = KVVec::from_elem(0, self.longest_assignments(), GFP_KERNEL)?;
        let (version, bytes) = self.copy_assignments(&mut text);
        text.truncate(bytes);
        Ok((version, text))
    }

    /// Returns the length of the longest text, in bytes.
    fn longest_assignments(&self) -> usize {
        self.inner.lock().machine.assignments().capacity()
    }

    /// Replaces the assignments of that version by `text`, for the administrator. Returns the new
    /// version.
    pub(crate) fn assignment(
        &self,
        node: &dyn ManagerHost,
        version: u32,
        text: &[u8],
    ) -> Result<u32, Refusal> {
        let mut assignments = Assignments::new(Memory::new(Assignment::NONE, MAX_ASSIGNMENTS)?);
        assignments.read(text).map_err(|e| match e {
            assignment::Error::Line(line) | assignment::Error::Twice(line) => Refusal::Line(line),
            assignment::Error::Full(line) => Refusal::Room(line),
        })?;
        let version = self.replace_assignments(node, version, text)?;
        // Shows the new assignments at once, and has the manager look at them. If there is no memory to
        // show them now, they are shown when they are looked at.
        let _ = self
            .pcim()
            .show_assignments(&node.pci(), assignments.all(), |_| None);
        node.manage();
        Ok(version)
    }

    /// Replaces the text by one with the same assignments, and what was noted besides. Errors as of
    /// [`Manager::assignment`].
    pub(in crate::fabric) fn note_assignments(
        &self,
        node: &dyn ManagerHost,
        version: u32,
        text: &[u8],
    ) -> Result {
        self.replace_assignments(node, version, text)?;
        node.manage();
        Ok(())
    }

    /// Replaces the text of that version. Returns the new version.
    fn replace_assignments(
        &self,
        node: &dyn ManagerHost,
        version: u32,
        text: &[u8],
    ) -> Result<u32> {
        self.work(node, |machine, means| {
            match machine.role() {
                Role::Master => {}
                Role::Standby => return Err(EREMOTE.into()),
                Role::Unknown => return Err(EAGAIN),
            }
            if machine.assignments().version() != version {
                return Err(ESTALE.into());
            }
            match machine.set_assignments(clock::now_ms(), text, means) {
                true => Ok(machine.assignments().version()),
                false => Err(ENOSPC),
            }
        })?
    }
}
