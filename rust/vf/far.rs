// SPDX-License-Identifier: GPL-2.0

//! A function of this host moves to another host's, of which [`super::receiver`] takes care there.
//!
//! What comes next is decided by `proto::migration`; for steps that concern the target, what this host does for
//! them is decided by `proto::relocation::source`. This file carries out the steps of the source.

use super::{side::Side, steps, Report};
use crate::{
    fabric::{Manager, Node, Progress},
    hw::{
        identity_map::{self, Exchange},
        VfQuota, VfState,
    },
    proto::{
        migration::{Action, Event, Outcome, Plan},
        pair::{number_of, Ask},
        relocation::{
            lines::{Move, Stage, QUOTA},
            source::{self, Sight},
        },
    },
    sys::{errno::EOPNOTSUPP, ext, virtfn::Bound},
};
use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How often to look what the assignments say, and after which time to repeat a request.
pub(super) const LOOK: Delta = Delta::from_millis(10);
pub(super) const ASK_AGAIN: Delta = Delta::from_millis(200);
/// Time without a host in the fabric after which it is taken for gone: longer than a link flaps, and than a
/// master is elected.
const GONE: Delta = Delta::from_secs(8);
/// The bit of `VfQuota::peers` in an [`encode`]d quota that stands for the peers with the number of the function.
const OWN_PEERS: u64 = 1 << 63;

/// What is wanted.
pub(crate) struct FarOptions {
    pub(crate) vf: usize,
    /// Hardware id of the target.
    pub(crate) target: u64,
    /// Users that do not finish in time are stopped.
    pub(crate) stops: bool,
    /// How long they have.
    pub(crate) grace_ms: u32,
    /// Only say what stands against it.
    pub(crate) dry: bool,
}

/// Encodes a quota and what the port offers, for a function of another host; `own` is the bit of the peers that
/// have the number of the function.
fn encode(quota: &VfQuota, own: u64, offers: &[u32; 4]) -> [u64; QUOTA] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let half = |n: u32| n.min(u32::from(u16::MAX));
    let quarters = |all: [u32; 4]| {
        let [a, b, c, d] = all.map(half);
        pair(a | b << 16, c | d << 16)
    };
    let peers = match quota.peers & own {
        0 => quota.peers,
        _ => quota.peers & !own | OWN_PEERS,
    };
    [
        quarters([quota.slots, quota.apertures, quota.doorbells, quota.pages]),
        quota.bytes,
        pair(quota.links, quota.channels),
        peers,
        quota.rate,
        quota.rings.into(),
        quarters(*offers),
    ]
}

/// Decodes a quota and what the port of the other function offers.
pub(super) fn decode(words: &[u64; QUOTA], own: u64) -> (VfQuota, [u32; 4]) {
    let [resources, bytes, more, peers, rate, rings, offers] = *words;
    let quarters = |all: u64| [0, 16, 32, 48].map(|shift| (all >> shift) as u32 & 0xffff);
    let [slots, apertures, doorbells, pages] = quarters(resources);
    let quota = VfQuota {
        slots,
        apertures,
        doorbells,
        pages,
        bytes,
        links: more as u32,
        channels: (more >> 32) as u32,
        peers: match peers & OWN_PEERS {
            0 => peers,
            _ => peers & !OWN_PEERS | own,
        },
        rate,
        rings: rings as u32,
    };
    (quota, quarters(offers))
}

/// Whether the host of a function is in the fabric.
pub(super) struct Presence {
    function: u64,
    seen: Instant<Monotonic>,
}

impl Presence {
    pub(super) fn new(function: u64) -> Self {
        Self {
            function,
            seen: Instant::now(),
        }
    }

    /// Returns whether the host has been away for so long that it is taken for gone.
    pub(super) fn is_gone(&mut self, manager: &Manager) -> bool {
        if manager.has_host_of(self.function) {
            self.seen = Instant::now();
        }
        self.seen.elapsed() >= GONE
    }
}

/// Returns how far a migration is for a host that takes part in it; `gone`: the other one has not been in the fabric
/// for long enough. When the fabric comes to be at scale, no host asks for anything any more. The text had the time to
/// reach both then, and what it says is the end: the identity is where it is.
pub(super) fn stage_at(now: &Progress, gone: bool) -> Stage {
    match now.fixed && gone {
        true => Stage::Closed,
        false => now.stage,
    }
}

/// The source, and what it had before.
struct Leaver<'a> {
    node: &'a Node,
    manager: &'a Manager,
    source: Side<'a>,
    /// The migration, and the hardware id that moves.
    of: Move,
    hwid: u64,
    quota: VfQuota,
    target: Presence,
    /// The migration was asked for, and was seen in the assignments.
    asked: bool,
    begun: bool,
    /// The driver of the source was unbound.
    released: bool,
    outstanding: u32,
}

impl Leaver<'_> {
    /// Returns what this host sees of the migration. `EAGAIN`: look again.
    fn look(&mut self) -> Result<Sight> {
        let now = self.manager.relocation(&self.of)?;
        let gone = self.target.is_gone(self.manager);
        self.begun |= now.stage != Stage::Closed;
        Ok(Sight {
            stage: stage_at(&now, gone),
            asked: self.asked,
            begun: self.begun,
            moved: now.carried == self.hwid,
            gone,
        })
    }

    fn act(&mut self, action: Action, limit: u64) -> Event {
        let limit = Delta::from_millis(limit as i64);
        let done = match action {
            Action::Finish => self.finish(Ask::Finish, limit),
            Action::Stop => self.finish(Ask::Stop, limit),
            Action::Release => self.release(limit),
            Action::Cut => self.local(|this, gone| steps::cut(&this.source, limit, gone)),
            Action::Uncut => self.give_back(limit),
            Action::Resume => {
                steps::try_or_retry(&self.source, limit, || self.source.ask(Ask::GoOn))
            }
            Action::Reconfigure if !self.released => Ok(()),
            Action::Reconfigure => {
                let gone = || self.source.is_gone().then_some(Event::SourceGone);
                let failed = || gone().unwrap_or(Event::Failed);
                steps::drive(&self.source, limit, false, &gone, &failed)
            }
            _ => return self.agree(action, limit),
        };
        done.err().unwrap_or(Event::Done)
    }

    /// Does a step of the source, unless the target's host has left the migration.
    fn local(
        &mut self,
        step: impl FnOnce(&Self, steps::Gone<'_>) -> Result<(), Event>,
    ) -> Result<(), Event> {
        if matches!(self.look(), Ok(sight) if source::has_left(&sight)) {
            return Err(Event::TargetGone);
        }
        let left =
            || matches!(self.manager.relocation(&self.of), Ok(now) if now.stage == Stage::Closed);
        let gone = || match (self.source.is_gone(), left()) {
            (true, _) => Some(Event::SourceGone),
            (false, true) => Some(Event::TargetGone),
            (false, false) => None,
        };
        if let Some(gone) = gone() {
            return Err(gone);
        }
        step(self, &gone)
    }

    fn finish(&mut self, ask: Ask, limit: Delta) -> Result<(), Event> {
        let mut outstanding = 0;
        let done = self
            .local(|this, gone| steps::finish(&this.source, ask, limit, gone, &mut outstanding));
        self.outstanding = outstanding;
        done
    }

    fn release(&mut self, limit: Delta) -> Result<(), Event> {
        self.released = self.source.bound() == Bound::SameAsPf;
        self.local(|this, gone| steps::take(&this.source, limit, true, gone))
    }

    fn give_back(&self, limit: Delta) -> Result<(), Event> {
        steps::try_or_retry(&self.source, limit, || self.source.set_quota(&self.quota))
    }

    /// Does a step of the target, together with its host.
    fn agree(&mut self, action: Action, limit: Delta) -> Event {
        let since = Instant::<Monotonic>::now();
        let mut asked: Option<Instant<Monotonic>> = None;
        // Ways back are not cancelled.
        let cancellable = (action as u32) < Action::Start as u32;
        loop {
            let sight = self.look();
            if let Ok(sight) = &sight {
                self.of.stage = sight.stage;
            }
            match sight.map(|sight| source::next(action, &sight)) {
                Ok(source::Next::Over(event)) => return event,
                Ok(source::Next::Ask(stage))
                    if asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN) =>
                {
                    if stage == Stage::Asked {
                        // Another migration may have begun since the last time.
                        let number = self.manager.number_of_relocation(&self.of);
                        self.of.number = number.unwrap_or(self.of.number);
                    }
                    self.manager.ask_relocation(self.node, &self.of, stage);
                    self.asked = true;
                    asked = Some(Instant::now());
                }
                _ => {}
            }
            if self.source.is_gone() && action == Action::Claim {
                return Event::SourceGone;
            }
            if cancellable && kernel::current!().signal_pending() {
                return Event::Cancelled;
            }
            if since.elapsed() >= limit {
                return Event::Timeout;
            }
            fsleep(LOOK);
        }
    }
}

/// What stands against it; 0: nothing. `ENOENT`: there is no such VF; `ENODEV`: the port is gone.
fn obstacles(source: &Side<'_>, manager: &Manager, own: u64, target: u64) -> Result<u32> {
    let from = source.vf()?;
    let mut found = 0;
    let mut note = |against: bool, obstacle| {
        if against {
            found |= obstacle;
        }
    };
    note(!source.can_migrate()?, ext::WEFT_MIGRATE_INCAPABLE);
    note(from.hwid == 0, ext::WEFT_MIGRATE_UNKNOWN);
    note(from.state == VfState::Off, ext::WEFT_MIGRATE_NO_SOURCE);
    note(
        from.state == VfState::Used && !from.greeted,
        ext::WEFT_MIGRATE_SILENT,
    );
    // Functions of one port differ in their number alone.
    note(number_of(own, target).is_some(), ext::WEFT_MIGRATE_SAME);
    note(!manager.has_host_of(target), ext::WEFT_MIGRATE_NO_TARGET);
    Ok(found)
}

/// Returns whether the master would let a migration begin. Errors as of [`Manager::may_relocate`], but `EAGAIN`: if
/// it is not known for long, the master will say it.
fn may_begin(manager: &Manager, of: &Move) -> Result {
    let since = Instant::<Monotonic>::now();
    loop {
        match manager.may_relocate(of) {
            Err(e) if e == EAGAIN && since.elapsed() < ASK_AGAIN => fsleep(LOOK),
            Err(e) if e == EAGAIN => return Ok(()),
            done => return done,
        }
    }
}

/// Moves a VF of `node` to a function of another host, which is told to receive one. `EBUSY`: another one is
/// moving, or one of these; `EOPNOTSUPP`: the port has no manager, as the second of an endpoint, the fabric is at
/// scale, or the function has the id of another port's, by a migration on this host; `ENOSPC`: too many are moving in
/// the fabric.
pub(crate) fn migrate_far(node: &Node, options: &FarOptions) -> Result<Report> {
    let manager = node.manager().ok_or(EOPNOTSUPP)?;
    let source = Side::new(node, options.vf);
    let begun = source.vf()?;
    let _exchange = match options.dry {
        true => None,
        false => Some(Exchange::new().ok_or(EBUSY)?),
    };
    let own = identity_map::native(source.own_hwid()?);
    if !manager.may_ask_for(own) {
        return Err(EOPNOTSUPP.into());
    }
    let target = identity_map::carrier(options.target);
    let mut report = Report::new(begun.hwid, obstacles(&source, manager, own, target)?);
    let of = Move {
        source: own,
        target,
        number: 0,
        stage: Stage::Closed,
        quota: encode(&begun.quota, source.peer_index()?, &source.offers()?),
    };
    may_begin(manager, &of)?;
    if options.dry || report.stays() {
        return Ok(report);
    }
    let plan = Plan {
        asks: begun.state != VfState::Idle,
        stops: options.stops,
        grace_ms: options.grace_ms.into(),
        far: true,
    };
    let mut leaver = Leaver {
        node,
        manager,
        source,
        of,
        hwid: begun.hwid,
        quota: begun.quota,
        target: Presence::new(target),
        asked: false,
        begun: false,
        released: false,
        outstanding: 0,
    };
    steps::run(
        plan,
        &source,
        fmt!("to {:#018x}", options.target),
        &mut report,
        |action, limit| leaver.act(action, limit),
    );
    source.leave_alone();
    if report.outcome == Some(Outcome::Moved) {
        // It is spare from now on.
        let _ = source.set_quota(&begun.quota);
    }
    report.outstanding = leaver.outstanding;
    Ok(report)
}
