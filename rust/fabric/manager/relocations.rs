// SPDX-License-Identifier: GPL-2.0

//! Migrations between hosts, as the assignments have them: what this host's copy says, requests for a change
//! of it, and, as the master, the changes for which hosts ask.

use super::{super::host::ManagerHost, Inner, Machine, Manager, Means};
use crate::{
    hw::{identity_map, Port},
    proto::{
        nm::message::Taken,
        pair::number_of,
        relocation::lines::{self, Move, Party, Refusal, Stage, MOVE_BYTES},
    },
    sys::{clock, ext},
};
use kernel::prelude::*;

/// What the assignments say of a migration.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) stage: Stage,
    /// The identity that the target carries.
    pub(crate) carried: u64,
}

impl Manager {
    /// Takes over which functions carry the identities of others, if the assignments are others than last time.
    pub(super) fn take_identities(taken: &mut u32, machine: &Machine, port: &dyn Port) {
        let version = machine.assignments().version();
        if core::mem::replace(taken, version) == version {
            return;
        }
        let text = machine.assignments().bytes();
        identity_map::set_carriers(port.identity().hwid, &mut || lines::carriers(text));
        if let Some(vfs) = port.vfs() {
            vfs.rename();
        }
    }

    /// Returns what `f` makes of the assignments. `EAGAIN`: the identities are not yet as these say.
    fn read<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let inner = self.inner.lock();
        let Inner {
            machine,
            identities,
            ..
        } = &*inner;
        let assignments = machine.assignments();
        match assignments.version() == *identities {
            true => Ok(f(assignments.bytes())),
            false => Err(EAGAIN),
        }
    }

    /// Returns what the assignments say of a migration. `EAGAIN`: ask again.
    pub(crate) fn relocation(&self, of: &Move) -> Result<Standing> {
        self.read(|text| Standing {
            stage: lines::stage(text, of),
            carried: lines::carried(text, of.target),
        })
    }

    /// Returns the migration whose target a function is, and the identity that the source carries. `EAGAIN`:
    /// ask again.
    pub(crate) fn relocation_to(&self, target: u64) -> Result<Option<(Move, u64)>> {
        self.read(|text| {
            let found = lines::moves(text).find(|one| one.target == target)?;
            Some((found, lines::carried(text, found.source)))
        })
    }

    /// Returns the number of the migration that begins next. `EAGAIN`: ask again.
    pub(crate) fn next_relocation(&self) -> Result<u32> {
        self.read(lines::next_number)
    }

    /// Asks the master to bring a migration to a stage. The request may get lost.
    pub(crate) fn ask_relocation(&self, node: &dyn ManagerHost, wanted: &Move) {
        let mut bytes = [0; MOVE_BYTES];
        let Some(len) = wanted.encode(&mut bytes) else {
            return;
        };
        let change = bytes.get(..len).unwrap_or_default();
        // Whether it was taken is read in the assignments.
        let _ = self.work(node, |machine, means| {
            machine.amend(clock::now_ms(), change, means)
        });
        node.manage();
    }

    /// Returns whether the host of a function answers.
    pub(crate) fn has_host_of(&self, function: u64) -> bool {
        self.look(|view| {
            let mut known = view.members().iter().filter(|m| m.known);
            known.any(|m| number_of(m.info.hwid, function).is_some())
        })
    }
}

/// Returns whether a function is a virtual one of that host.
fn is_vf_of(host: u64, function: u64) -> bool {
    number_of(host, function).is_some_and(|number| u32::from(number) >= ext::WEFT_PFS)
}

impl Means<'_> {
    /// As [`node::Effects::amend`](crate::proto::nm::node::Effects::amend).
    pub(super) fn amended(
        text: &[u8],
        from: u64,
        change: &[u8],
        hosts: &mut dyn Iterator<Item = u64>,
        to: &mut [u8],
    ) -> Result<Option<usize>, Taken> {
        let wanted = Move::parse(change).ok_or(Taken::Bad)?;
        let party = match (is_vf_of(from, wanted.source), is_vf_of(from, wanted.target)) {
            (true, false) => Party::Source,
            (false, true) => Party::Target,
            _ => return Err(Taken::Bad),
        };
        let mut hosts = hosts;
        let gone = !Iterator::any(&mut hosts, |host| is_vf_of(host, wanted.target));
        match lines::amend(text, party, &wanted, gone, to) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Refusal::Already) => Ok(None),
            Err(Refusal::Full) => Err(Taken::NoRoom),
            Err(Refusal::Order | Refusal::Busy) => Err(Taken::Order),
        }
    }
}
