// SPDX-License-Identifier: GPL-2.0

//! Migrations between hosts, as the assignments have them: what this host's copy says, requests for a change
//! of it, and, as the master, the changes for which hosts ask.

use super::{super::host::ManagerHost, Machine, Manager};
use crate::{
    hw::{identity_map, Port},
    proto::{
        mr::assignment,
        nm::{assignments::MAX_ASSIGNMENTS, message::Taken, node::AnyNode},
        pair::number_of,
        relocation::lines::{self, Around, Move, Party, Refusal, Request, Stage, REQUEST_BYTES},
    },
    sys::{clock, errno::EOPNOTSUPP, ext},
};
use kernel::{prelude::*, time::Msecs};

/// What the assignments say of a migration.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    /// The identity that the target carries.
    pub(crate) carried: u64,
    /// The fabric is at scale: no stage follows any more.
    pub(crate) fixed: bool,
}

impl Manager {
    /// Takes over which functions carry the identities of others, if the assignments are others than last time.
    pub(super) fn take_identities(
        &self,
        taken: &mut u32,
        machine: &Machine,
        node: &dyn ManagerHost,
        port: &dyn Port,
    ) {
        let (version, text) = machine.assignments();
        if core::mem::replace(taken, version) == version {
            return;
        }
        let hwid = port.identity().hwid;
        if !identity_map::set_carriers(hwid, &mut || lines::carriers(text)) {
            node.complain(fmt!(
                "the fabric has moved more than {} virtual functions to other hosts: the others are not found",
                lines::MAX_CARRIED
            ));
        }
        if let Some(vfs) = port.vfs() {
            vfs.rename();
        }
        self.wake();
    }

    /// Returns what `f` makes of the assignments; it is told whether the fabric is at scale. `EAGAIN`: the
    /// identities are not yet as these say.
    fn read<R>(&self, f: impl FnOnce(&[u8], bool) -> R) -> Result<R> {
        let inner = self.inner.lock();
        let (version, text) = inner.machine.assignments();
        match version == inner.identities {
            true => Ok(f(text, inner.machine.large().is_some())),
            false => Err(EAGAIN),
        }
    }

    /// Returns what the assignments say of a migration. `EAGAIN`: ask again.
    pub(crate) fn relocation(&self, of: &Move) -> Result<Progress> {
        self.read(|text, fixed| Progress {
            stage: lines::stage(text, of),
            carried: lines::carried(text, of.target),
            fixed,
        })
    }

    /// Returns the migration whose target a function is, and the identity that the source carries. `EAGAIN`:
    /// ask again; `EOPNOTSUPP`: the fabric is at scale, where none begins.
    pub(crate) fn relocation_to(&self, target: u64) -> Result<Option<(Move, u64)>> {
        self.read(|text, fixed| {
            if fixed {
                return Err(EOPNOTSUPP.into());
            }
            let found = lines::moves(text).find(|one| one.target == target);
            Ok(found.map(|one| (one, lines::carried(text, one.source))))
        })?
    }

    /// Waits until `done` returns true, which may change with the assignments, and when the port is gone; for at
    /// most `patience` milliseconds. `ETIMEDOUT`: it has not; `ERESTARTSYS`: a signal came. Sleeps; not to be called
    /// with the port entered.
    pub(crate) fn wait_for_relocation(
        &self,
        done: impl FnMut() -> bool,
        patience: Msecs,
    ) -> Result {
        self.handed.wait_ms(done, patience)
    }

    /// Returns the number by which a migration is to be asked for: its own one if it has begun, else that of the one
    /// that begins next. `EAGAIN`: ask again.
    pub(crate) fn number_of_relocation(&self, of: &Move) -> Result<u32> {
        self.read(|text, _| match lines::stage(text, of) {
            Stage::Closed => lines::next_number(text),
            _ => of.number,
        })
    }

    /// Returns whether a migration could begin, by this host's copy of the assignments. `EOPNOTSUPP`: the fabric is
    /// at scale; `EBUSY`: one of the functions is part of another migration; `ENOSPC`: too many are under way, or
    /// the text has no room; `EAGAIN`: ask again.
    pub(crate) fn may_relocate(&self, of: &Move) -> Result {
        let mut to = KVVec::from_elem(0, MAX_ASSIGNMENTS, GFP_KERNEL)?;
        self.read(|text, fixed| {
            if fixed {
                return Err(EOPNOTSUPP.into());
            }
            let request = Request {
                from: Stage::Closed,
                to: Move {
                    stage: Stage::Asked,
                    number: lines::next_number(text),
                    ..*of
                },
            };
            let there = |function| self.has_host_of(function);
            match lines::amend(text, Party::Source, &request, &around(&there), &mut to) {
                Ok(_) | Err(Refusal::Already) => Ok(()),
                Err(Refusal::Busy | Refusal::Order) => Err(EBUSY),
                Err(Refusal::Full) => Err(ENOSPC),
            }
        })?
    }

    /// Asks the master to bring a migration, which is at `of.stage`, to a stage. The request may get lost.
    pub(crate) fn ask_relocation(&self, node: &dyn ManagerHost, of: &Move, stage: Stage) {
        let request = Request {
            from: of.stage,
            to: Move { stage, ..*of },
        };
        let mut bytes = [0; REQUEST_BYTES];
        let Some(len) = request.encode(&mut bytes) else {
            return;
        };
        let change = bytes.get(..len).unwrap_or_default();
        // Whether it was taken is read in the assignments. At scale it never is.
        let _ = self.work(node, |machine, means| {
            machine.amend(clock::now_ms(), change, means)
        });
        node.manage();
    }

    /// Returns whether the master can take a request for a function from this port: for a virtual one of its own. It
    /// may be that neither is known yet.
    pub(crate) fn may_ask_for(&self, function: u64) -> bool {
        self.look(|view| {
            let own = view.members().first();
            function == 0 || own.is_none_or(|own| is_vf_of(own.info.hwid, function))
        })
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

/// What the lines of components say is noted again, as far as there is room.
fn around<'a>(there: &'a dyn Fn(u64) -> bool) -> Around<'a> {
    Around {
        there,
        spare: assignment::is_seen,
    }
}

/// As [`node::Effects::amend`](crate::proto::nm::node::Effects::amend).
pub(super) fn amended(
    text: &[u8],
    from: u64,
    change: &[u8],
    any: &AnyNode<'_>,
    to: &mut [u8],
) -> Result<Option<usize>, Taken> {
    let request = Request::parse(change).ok_or(Taken::Bad)?;
    let (source, target) = (request.to.source, request.to.target);
    let party = match (is_vf_of(from, source), is_vf_of(from, target)) {
        (true, false) => Party::Source,
        (false, true) => Party::Target,
        _ => return Err(Taken::Bad),
    };
    let there = |function| any(&|host| is_vf_of(host, function));
    match lines::amend(text, party, &request, &around(&there), to) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Refusal::Already) => Ok(None),
        Err(Refusal::Full) => Err(Taken::NoRoom),
        Err(Refusal::Order | Refusal::Busy) => Err(Taken::Order),
    }
}
