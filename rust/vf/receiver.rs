// SPDX-License-Identifier: GPL-2.0

//! A function of this host takes the place of another host's, from which it moves by [`super::far`].
//!
//! What comes next is decided by `proto::relocation::target`. This file carries it out.

use super::{
    far::{decode, stage_at, Presence, ASK_AGAIN, LOOK},
    side::Side,
    steps, Report,
};
use crate::{
    fabric::{Manager, Node},
    hw::{
        identity_map::{self, Exchange},
        VfQuota, VfState,
    },
    proto::{
        migration::{Action, Event, Outcome, DRIVER_MS, REGISTERS_MS},
        relocation::{
            lines::{Move, Stage},
            target::{longest_ms, Next, Sight, Target},
        },
    },
    sys::{clock, errno::EOPNOTSUPP, ext, virtfn::Bound},
};
use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta, Instant, Monotonic, Msecs},
};

/// Time without another stage after which a caller that is told to end does not wait for the source's host any more,
/// and for the master.
const STALLED: Delta = Delta::from_secs(30);
const UNANSWERED: Delta = Delta::from_secs(60);

/// The target, and what it had before.
struct Receiver<'a> {
    node: &'a Node,
    manager: &'a Manager,
    target: Side<'a>,
    /// The migration, at the stage that was seen last, and since when it is there.
    of: Move,
    seen: Instant<Monotonic>,
    /// The hardware id that comes.
    hwid: u64,
    quota: VfQuota,
    source: Presence,
    /// Its driver was unbound.
    claimed: bool,
    asked: Option<Instant<Monotonic>>,
}

impl Receiver<'_> {
    fn look(&mut self) -> Result<Sight> {
        let now = self.manager.relocation(&self.of)?;
        let gone = self.source.is_gone(self.manager);
        let stage = stage_at(&now, gone);
        if stage != self.of.stage {
            self.of.stage = stage;
            self.seen = Instant::now();
        }
        let cancelled = kernel::current!().signal_pending();
        // A caller that is told to end does not wait for so long.
        let patience = match cancelled {
            true => STALLED,
            false => Delta::from_millis(longest_ms(stage) as i64),
        };
        Ok(Sight {
            stage,
            moved: now.carried == self.hwid,
            gone: gone || self.seen.elapsed() >= patience,
            cancelled,
        })
    }

    fn gone(&self) -> Option<Event> {
        self.target.is_gone().then_some(Event::TargetGone)
    }

    fn drive(&self) -> Result<(), Event> {
        let limit = Delta::from_millis(DRIVER_MS as i64);
        let failed = || self.gone().unwrap_or(Event::Failed);
        steps::drive(&self.target, limit, false, &|| self.gone(), &failed)
    }

    fn take(&self) -> Result<(), Event> {
        let limit = Delta::from_millis(DRIVER_MS as i64);
        steps::take(&self.target, limit, false, &|| self.gone())
    }

    fn set_quota(&self, quota: &VfQuota) -> Result<(), Event> {
        let limit = Delta::from_millis(REGISTERS_MS as i64);
        steps::until(limit, false, &|| self.gone(), || {
            self.target.set_quota(quota).map(|()| true)
        })
    }

    /// Takes the target from its driver, if it is as good as the source, and has no users.
    fn claim(&mut self) -> Result<(), Event> {
        let failed = |_| self.gone().unwrap_or(Event::Failed);
        let offers = self.target.offers().map_err(failed)?;
        let (_, wanted) = decode(&self.of.quota, 0);
        if wanted.iter().zip(offers).any(|(wanted, has)| *wanted > has) {
            return Err(Event::Failed);
        }
        match self.target.vf().map_err(failed)?.state {
            VfState::Idle => Ok(()),
            VfState::Driven if self.target.bound() == Bound::SameAsPf => {
                self.claimed = true;
                self.take()
            }
            _ => Err(Event::Failed),
        }
    }

    fn act(&mut self, action: Action) -> Event {
        let done = match action {
            Action::Claim => self.claim(),
            Action::Attach => self
                .target
                .peer_index()
                .map_err(|_| self.gone().unwrap_or(Event::Failed))
                .and_then(|own| self.set_quota(&decode(&self.of.quota, own).0)),
            Action::Configure => self.drive(),
            Action::Start => match self.target.device() {
                Some(device) => device.announce(self.hwid).map_err(|_| Event::Failed),
                None => Err(Event::TargetGone),
            },
            Action::Unconfigure => self.take(),
            Action::Unattach => self.set_quota(&self.quota),
            Action::Unclaim if self.claimed => self.drive(),
            _ => Ok(()),
        };
        done.err().unwrap_or(Event::Done)
    }

    fn ask(&mut self, stage: Stage) {
        if self.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN) {
            self.manager.ask_relocation(self.node, &self.of, stage);
            self.asked = Some(Instant::now());
        }
    }

    /// `ENODEV`: the port is gone; `EINTR`: a signal came, and the master does not answer. What was done stays then.
    fn run(&mut self, machine: &mut Target) -> Result<Outcome> {
        loop {
            if self.node.is_closed() {
                return Err(ENODEV);
            }
            if kernel::current!().signal_pending() && self.seen.elapsed() >= UNANSWERED {
                return Err(EINTR);
            }
            let next = self.look().map(|sight| machine.next(&sight));
            match next {
                Ok(Next::End(outcome)) => return Ok(outcome),
                Ok(Next::Do(action)) => {
                    let event = self.act(action);
                    steps::log(&self.target, fmt!("for {:#018x}", self.hwid), action, event);
                    machine.event(action, event);
                    self.asked = None;
                    continue;
                }
                Ok(Next::Ask(stage)) => self.ask(stage),
                Ok(Next::Wait) => self.asked = None,
                Err(_) => {}
            }
            fsleep(LOOK);
        }
    }
}

/// What stands against it; 0: nothing.
fn obstacles(target: &Side<'_>) -> Result<u32> {
    let to = target.vf()?;
    let taken = match to.state {
        VfState::Off | VfState::Idle => false,
        VfState::Driven => target.bound() != Bound::SameAsPf,
        VfState::Used => true,
    };
    let all = [
        (!target.can_migrate()?, ext::WEFT_MIGRATE_INCAPABLE),
        (to.hwid == 0, ext::WEFT_MIGRATE_UNKNOWN),
        (to.state == VfState::Off, ext::WEFT_MIGRATE_NO_TARGET),
        (taken, ext::WEFT_MIGRATE_TAKEN),
    ];
    let found = all.iter().filter(|(against, _)| *against);
    Ok(found.fold(0, |found, (_, obstacle)| found | obstacle))
}

/// Waits until another host asks for VF `n` of `node` as a target, for at most `patience_ms`, and takes part in
/// that migration until it is over. `from`: the hardware id that may come; 0: any. `ETIMEDOUT`: none has asked;
/// `EINTR`: a signal came before, or no master answers; `EOPNOTSUPP`: the port has no manager, as the second of an
/// endpoint, the fabric is at scale, or the function has the id of another port's, by a migration on this host;
/// `ENOENT`: there is no such VF; `ENODEV`: the port is gone.
pub(crate) fn receive(node: &Node, n: usize, from: u64, patience_ms: u32) -> Result<Report> {
    let manager = node.manager().ok_or(EOPNOTSUPP)?;
    let target = Side::new(node, n);
    let begun = target.vf()?;
    let mut report = Report {
        outcome: None,
        obstacles: obstacles(&target)?,
        why: None,
        outstanding: 0,
        hwid: begun.hwid,
    };
    if report.obstacles != 0 {
        report.outcome = Some(Outcome::Stayed);
        return Ok(report);
    }
    let own = identity_map::native(target.own_hwid()?);
    if !manager.may_ask_for(own) {
        return Err(EOPNOTSUPP.into());
    }
    let deadline = clock::now_ms() + u64::from(patience_ms);
    // One migration at a time on a host; while none has asked, others may take place.
    let (of, hwid, _exchange) = loop {
        let mut found = Ok(None);
        let is_found = || {
            found = manager.relocation_to(own);
            let waits = match &found {
                Ok(found) => found.is_none(),
                Err(e) => *e == EAGAIN,
            };
            !waits || node.is_closed()
        };
        let left = deadline.saturating_sub(clock::now_ms());
        let waited = manager.wait_for_relocation(is_found, left.try_into().unwrap_or(Msecs::MAX));
        match waited {
            Err(e) if e == ETIMEDOUT => return Err(e),
            Err(_) => return Err(EINTR),
            Ok(()) => {}
        }
        let Some((of, hwid)) = found? else {
            return Err(ENODEV);
        };
        match Exchange::new() {
            Some(exchange) if of.stage == Stage::Asked && (from == 0 || from == hwid) => {
                break (of, hwid, exchange);
            }
            // What is left of one that has not ended on this host is over; and so is one that is not wanted.
            Some(_exchange) => {
                manager.ask_relocation(node, &of, Stage::Closed);
            }
            None => {}
        }
        if kernel::current!().signal_pending() {
            return Err(EINTR);
        }
        if clock::now_ms() >= deadline {
            return Err(ETIMEDOUT);
        }
        fsleep(ASK_AGAIN);
    };
    let mut machine = Target::new();
    let mut receiver = Receiver {
        node,
        manager,
        target,
        of,
        hwid,
        // It may have waited for long.
        quota: target.vf().map_or(begun.quota, |vf| vf.quota),
        source: Presence::new(of.source),
        seen: Instant::now(),
        claimed: false,
        asked: None,
    };
    report.outcome = Some(receiver.run(&mut machine)?);
    report.why = machine.why();
    report.hwid = hwid;
    Ok(report)
}
