// SPDX-License-Identifier: GPL-2.0

//! The steps of a migration. This file does not know what comes next.

use super::{side::Side, steps};
use crate::{
    hw::{identity_map::Exchange, VfQuota, VfState},
    proto::{
        migration::{Action, Event},
        pair::Ask,
    },
    sys::{
        handover::HandoverSlot,
        virtfn::{Bound, VirtFn},
    },
};
use kernel::{prelude::*, time::Delta};

/// The two functions, and what they had before.
pub(super) struct Mover<'a> {
    source: Side<'a>,
    target: Side<'a>,
    exchange: &'a Exchange,
    /// Their own hardware ids.
    own: (u64, u64),
    /// The hardware id that is migrated.
    hwid: u64,
    /// Their quotas before the migration, and the quota of each as the other one is to have it.
    source_quota: VfQuota,
    target_quota: VfQuota,
    to_target: VfQuota,
    to_source: VfQuota,
    /// Their identities are exchanged.
    exchanged: bool,
    /// Their drivers were unbound.
    released: bool,
    claimed: bool,
    outstanding: u32,
    /// For a live migration, the two devices, and the handover slot between them.
    live: Option<&'a (VirtFn, VirtFn)>,
    handover: Option<HandoverSlot<'a>>,
    /// Their peer indices are exchanged.
    renumbered: bool,
}

/// Returns `quota` of a VF with the neighbours `from`, for one with the neighbours `to`.
fn translated(quota: &VfQuota, from: u64, to: u64) -> VfQuota {
    let mut quota = *quota;
    if quota.peers & from != 0 {
        quota.peers = quota.peers & !from | to;
    }
    quota
}

impl<'a> Mover<'a> {
    pub(super) fn new(
        source: Side<'a>,
        target: Side<'a>,
        exchange: &'a Exchange,
        live: Option<&'a (VirtFn, VirtFn)>,
    ) -> Result<Self> {
        let (from, to) = (source.vf()?, target.vf()?);
        let (mut own_index, mut other) = (source.peer_index()?, target.peer_index()?);
        if live.is_some() {
            // The function keeps its peer index, and with it its neighbours.
            (own_index, other) = (0, 0);
        }
        Ok(Self {
            source,
            target,
            exchange,
            own: (source.own_hwid()?, target.own_hwid()?),
            hwid: from.hwid,
            source_quota: from.quota,
            target_quota: to.quota,
            to_target: translated(&from.quota, own_index, other),
            to_source: translated(&to.quota, other, own_index),
            exchanged: false,
            released: false,
            claimed: false,
            outstanding: 0,
            live,
            handover: None,
            renumbered: false,
        })
    }

    /// Returns how much is outstanding, as the source's driver has said last.
    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Does one step, and waits at most `limit` milliseconds for it. Sleeps.
    pub(super) fn act(&mut self, action: Action, limit: u64) -> Event {
        let limit = Delta::from_millis(limit as i64);
        let done = match action {
            Action::Claim => self.claim(limit),
            Action::Finish if self.live.is_some() => self.finish(Ask::Still, limit),
            Action::Finish => self.finish(Ask::Finish, limit),
            Action::Stop => self.finish(Ask::Stop, limit),
            Action::Release => self.release(limit),
            Action::Cut => self.cut(limit),
            Action::Attach => self.attach(limit),
            Action::Configure => self.drive(self.target, limit, true),
            Action::Start => self.start(),
            Action::Unconfigure => self.take(self.target, limit, false),
            Action::Unattach => self.unattach(limit),
            Action::Uncut => {
                self.try_or_retry(limit, |this| this.source.set_quota(&this.source_quota))
            }
            Action::Resume => self.try_or_retry(limit, |this| this.source.ask(Ask::GoOn)),
            Action::Reconfigure if !self.released => Ok(()),
            Action::Reconfigure => self.drive(self.source, limit, false),
            Action::Unclaim => {
                // What is still in the slot does not belong to the target.
                self.handover = None;
                match self.claimed {
                    true => self.drive(self.target, limit, false),
                    false => Ok(()),
                }
            }
        };
        done.err().unwrap_or(Event::Done)
    }

    /// Returns what to report if one of the functions does not exist any more. A step that concerns the
    /// source, too, needs both; one of the target alone needs only the target.
    fn gone(&self, action_of_target: bool) -> Option<Event> {
        if self.target.is_gone() {
            return Some(Event::TargetGone);
        }
        (!action_of_target && self.source.is_gone()).then_some(Event::SourceGone)
    }

    /// Calls `f`, which does not wait, and repeats it while the function is being reset.
    fn try_or_retry(&self, limit: Delta, f: impl Fn(&Self) -> Result) -> Result<(), Event> {
        steps::try_or_retry(&self.source, limit, || f(self))
    }

    /// Unbinds the driver of a function, and waits until the function is idle.
    fn take(&self, side: Side<'a>, limit: Delta, cancellable: bool) -> Result<(), Event> {
        let of_target = side.is(&self.target);
        steps::take(&side, limit, cancellable, &|| self.gone(of_target))
    }

    fn claim(&mut self, limit: Delta) -> Result<(), Event> {
        let free = match self.target.vf() {
            Ok(vf) => vf.state,
            Err(_) => return Err(self.gone(true).unwrap_or(Event::Failed)),
        };
        match free {
            VfState::Idle => return Ok(()),
            VfState::Driven if self.target.bound() == Bound::SameAsPf => {}
            _ => return Err(self.gone(true).unwrap_or(Event::Failed)),
        }
        self.claimed = true;
        self.take(self.target, limit, true)
    }

    fn finish(&mut self, ask: Ask, limit: Delta) -> Result<(), Event> {
        if let Some(gone) = self.gone(false) {
            return Err(gone);
        }
        let mut outstanding = 0;
        let gone = || self.gone(false);
        let done = steps::finish(&self.source, ask, limit, &gone, &mut outstanding);
        self.outstanding = outstanding;
        done
    }

    fn release(&mut self, limit: Delta) -> Result<(), Event> {
        if let Some(gone) = self.gone(false) {
            return Err(gone);
        }
        // Not before: what the driver of the target had is of no use.
        self.handover = match self.live {
            Some((one, other)) => Some(HandoverSlot::new(one, other).map_err(|_| Event::Failed)?),
            None => None,
        };
        self.released = self.source.bound() == Bound::SameAsPf;
        self.take(self.source, limit, true)
    }

    /// Takes the quota of the source away, and waits until the hardware shows that nothing can be
    /// outstanding; its driver has said before that nothing is.
    fn cut(&mut self, limit: Delta) -> Result<(), Event> {
        if let Some(gone) = self.gone(false) {
            return Err(gone);
        }
        steps::cut(&self.source, limit, &|| self.gone(false))
    }

    fn exchange(&mut self, wanted: bool) -> Result<(), Event> {
        if self.exchanged != wanted {
            let (one, other) = self.own;
            self.exchange
                .exchange(one, other)
                .map_err(|_| Event::Failed)?;
            self.exchanged = wanted;
        }
        Ok(())
    }

    /// Exchanges the peer indices of both functions in a live migration, so that neighbours find one
    /// where they found the other.
    fn renumber(&mut self, wanted: bool, limit: Delta) -> Result<(), Event> {
        if self.live.is_some() && self.renumbered != wanted {
            // Nothing of either is open here, but a neighbour may still use something.
            self.try_or_retry(limit, |this| this.source.renumber(&this.target))?;
            self.renumbered = wanted;
        }
        Ok(())
    }

    fn attach(&mut self, limit: Delta) -> Result<(), Event> {
        if let Some(gone) = self.gone(true) {
            return Err(gone);
        }
        self.renumber(true, limit)?;
        self.exchange(true)?;
        self.target
            .set_quota(&self.to_target)
            .map_err(|_| self.gone(true).unwrap_or(Event::Failed))?;
        // The source is spare from now on. If it does not answer, it uses nothing either.
        let _ = self.source.set_quota(&self.to_source);
        Ok(())
    }

    fn unattach(&mut self, limit: Delta) -> Result<(), Event> {
        self.renumber(false, limit)?;
        self.exchange(false)?;
        let _ = self.source.cut();
        self.target
            .set_quota(&self.target_quota)
            .map_err(|_| self.gone(true).unwrap_or(Event::Failed))
    }

    /// Binds a function to its driver, and waits until the driver works.
    fn drive(&self, side: Side<'a>, limit: Delta, cancellable: bool) -> Result<(), Event> {
        let of_target = side.is(&self.target);
        let gone = || match (of_target, side.is_gone()) {
            (true, true) => Event::TargetGone,
            (false, true) => Event::SourceGone,
            (_, false) => Event::Failed,
        };
        steps::drive(&side, limit, cancellable, &|| self.gone(of_target), &gone)
    }

    fn start(&self) -> Result<(), Event> {
        let device = self.target.device().ok_or(Event::TargetGone)?;
        device.announce(self.hwid).map_err(|_| Event::Failed)
    }
}
