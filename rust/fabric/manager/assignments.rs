// SPDX-License-Identifier: GPL-2.0

//! The text of the assignments, which the machine keeps and hands out, and looks not into.

use super::{
    super::{host::ManagerHost, pcim::MAX_ASSIGNMENTS},
    Manager,
};
use crate::{
    proto::{
        mr::assignment::{self, Assignment, Assignments},
        nm::node::Role,
        relocation::lines,
    },
    sys::{
        clock,
        errno::{EREMOTE, ESTALE},
        memory::Memory,
    },
};
use kernel::prelude::*;

/// Why a text was not taken.
pub(crate) enum Refusal {
    /// Of a line of it, from 1: no assignment, or one too many.
    Line(u32),
    Room(u32),
    /// The text is all right: `EREMOTE`: this host is not the master; `EAGAIN`: it is about to find out;
    /// `ESTALE`: there are others by now; `ENODEV`, `ENOMEM`.
    Other(Error),
}

impl From<Error> for Refusal {
    fn from(why: Error) -> Self {
        Self::Other(why)
    }
}

impl Manager {
    /// Copies the text as far as there is room: its version, and how many bytes it has.
    pub(in crate::fabric) fn copy_assignments(&self, to: &mut [u8]) -> (u32, usize) {
        let inner = self.inner.lock();
        let (version, text) = inner.machine.assignments();
        if let Some(to) = to.get_mut(..text.len()) {
            to.copy_from_slice(text);
        }
        (version, text.len())
    }

    /// The version of the assignments, and their text.
    pub(crate) fn assignments(&self) -> Result<(u32, KVVec<u8>)> {
        let mut text = KVVec::from_elem(0, self.longest_assignments(), GFP_KERNEL)?;
        let (version, bytes) = self.copy_assignments(&mut text);
        text.truncate(bytes);
        Ok((version, text))
    }

    /// Bytes of the longest.
    fn longest_assignments(&self) -> usize {
        self.inner.lock().machine.small().assignments().capacity()
    }

    /// The administrator assignments something else instead of what that version says. What version it is now.
    pub(crate) fn set_assignments(
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
        let version = self.replace_assignments(node, version, text, true)?;
        // They are to be seen from now on, and be looked at. They are taken, even if there is no memory to
        // show them: then they are to be seen when they are looked at.
        let _ = self
            .pcim()
            .show_assignments(&node.dev(), assignments.all(), |_| None);
        node.manage();
        Ok(version)
    }

    /// The same assignments, with what was noted besides. Errors as of [`Manager::set_assignments`].
    pub(in crate::fabric) fn note_assignments(
        &self,
        node: &dyn ManagerHost,
        version: u32,
        text: &[u8],
    ) -> Result {
        self.replace_assignments(node, version, text, false)?;
        node.manage();
        Ok(())
    }

    /// Replaces the text of that version. The new version. `keeps`: lines about identities stay as they are.
    fn replace_assignments(
        &self,
        node: &dyn ManagerHost,
        version: u32,
        text: &[u8],
        keeps: bool,
    ) -> Result<u32> {
        let mut kept = KVVec::from_elem(0, self.longest_assignments(), GFP_KERNEL)?;
        self.work(node, |machine, means| {
            match machine.role() {
                Role::Master => {}
                Role::Standby => return Err(EREMOTE.into()),
                Role::Unknown => return Err(EAGAIN),
            }
            if machine.assignments().0 != version {
                return Err(ESTALE.into());
            }
            let mut text = text;
            if keeps {
                let before = machine.assignments().1;
                let bytes = lines::keep(before, text, &mut kept).ok_or(ENOSPC)?;
                text = kept.get(..bytes).ok_or(ENOSPC)?;
            }
            match machine.set_assignments(clock::now_ms(), text, means) {
                true => Ok(machine.assignments().0),
                false => Err(ENOSPC),
            }
        })?
    }
}
