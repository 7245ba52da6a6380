// SPDX-License-Identifier: GPL-2.0 OR MIT

//! State machine of the migration of a virtual function: the steps, their order, and how each is undone.
//!
//! ```text
//!   forward    CLAIM -> FINISH -> (STOP) -> RELEASE -> CUT -> ATTACH -> CONFIGURE -> START -> moved
//!                 \        \         \          \        \       \           \
//!   back            UNCLAIM <- RECONFIGURE <- RESUME <- UNCUT <- UNATTACH <- UNCONFIGURE
//!                      \-> stayed
//! ```
//!
//! A migration moves the *identity* of a function, with its quota and its users, from a source to an
//! idle equivalent function, the target. Exactly one of them has the identity, except between CUT and
//! ATTACH, when neither has it: the source is proven to have nothing outstanding before it is released,
//! and is cut off before the target gets anything. On the way back, only the steps that were begun are
//! undone. If the source disappears, its users have lost it in any case, and the identity goes on to the
//! target; if the target disappears, the identity returns to the source.
//!
//! The machine decides only what comes next. The caller carries out [`Machine::next`] within
//! [`Machine::limit_ms`] and reports the result by [`Machine::event`]. The machine is independent of
//! what a function consists of, and of the system that uses it.
//!
//! If the target is another host's ([`Plan::far`]), the source's host runs the machine, and steps of the target
//! are agreed upon with the other host, through the master of the fabric ([`super::relocation`]). What is
//! undone there does not need the target: so it is undone even if that is gone.

/// A step of a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Action {
    /// Take the target, which has no users, from its driver if it has one; no other user gets it.
    Claim = 1,
    /// Ask the source's system to complete all that is outstanding, and wait until nothing is.
    Finish = 2,
    /// The same after users have not finished in time: the system begins nothing new.
    Stop = 3,
    /// Take the source from its driver.
    Release = 4,
    /// Take the source's quota away, and make sure that nothing of it is open.
    Cut = 5,
    /// Give identity and quota to the target.
    Attach = 6,
    /// Give the target to its driver, and wait until it works.
    Configure = 7,
    /// Tell the waiters for the function that it is there.
    Start = 8,
    /// Back: take the target from its driver.
    Unconfigure = 9,
    /// Back: take the identity from the target.
    Unattach = 10,
    /// Back: give the source its identity and quota.
    Uncut = 11,
    /// Back: let the source's system continue.
    Resume = 12,
    /// Back: give the source to its driver.
    Reconfigure = 13,
    /// Back: give the target to its driver, if it had one before.
    Unclaim = 14,
}

/// Result of an action. All but `Done` mean that it was not, or not wholly, done. The numbers are
/// `WEFT_MIGRATE_*` of the user interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Event {
    /// It is done.
    Done = 0,
    /// It cannot be done.
    Failed = 1,
    /// It took too long.
    Timeout = 2,
    /// The migration was cancelled by its caller.
    Cancelled = 3,
    /// The source does not exist any more.
    SourceGone = 4,
    /// The target does not exist any more.
    TargetGone = 5,
}

/// Outcome of a migration. The numbers are `WEFT_MIGRATE_*` of the user interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Outcome {
    /// The source is as it was before.
    Stayed = 1,
    /// The target has replaced the source.
    Moved = 2,
    /// The source has the identity, but its driver has not taken it.
    ParkedAtSource = 3,
    /// The target has the identity, but its driver has not taken it.
    ParkedAtTarget = 4,
    /// The source does not exist any more, and the target cannot be used.
    Lost = 5,
}

/// The next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The action to be done.
    Do(Action),
    /// Nothing: the migration has ended.
    End(Outcome),
}

/// Parameters of a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The source has a driver, which can be asked to finish.
    pub asks: bool,
    /// Users that do not finish in time are stopped; otherwise the source keeps them.
    pub stops: bool,
    /// Time that users have to finish.
    pub grace_ms: u64,
    /// The target is a function of another host.
    pub far: bool,
}

/// Limit of [`Action::Stop`]: nothing new is begun, and what is under way completes.
pub const STOP_MS: u64 = 5_000;
/// Limit of actions in which a driver takes or releases a function.
pub const DRIVER_MS: u64 = 20_000;
/// Limit of the other actions, which only access registers.
pub const REGISTERS_MS: u64 = 2_000;
/// Limit of actions that are agreed upon with another host: its driver takes or releases a function, or a
/// master has to be elected first.
pub const FAR_MS: u64 = 30_000;

/// The function that has the identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The source.
    Source,
    /// Neither: the source is cut off, and the target does not have it yet.
    Neither,
    /// The target.
    Target,
}

/// A migration.
#[derive(Clone, Debug)]
pub struct Machine {
    plan: Plan,
    next: Next,
    holder: Holder,
    source_lives: bool,
    target_lives: bool,
    /// Actions that were begun, and have to be undone on the way back: one bit per action.
    begun: u32,
    /// The target's driver did not take it.
    target_refuses: bool,
    cancelled: bool,
    /// The first action that was not done, and its result.
    why: Option<(Action, Event)>,
}

impl Machine {
    /// Creates a migration that has not begun.
    pub const fn new(plan: Plan) -> Self {
        Self {
            plan,
            next: Next::Do(Action::Claim),
            holder: Holder::Source,
            source_lives: true,
            target_lives: true,
            begun: 1 << Action::Claim as u32,
            target_refuses: false,
            cancelled: false,
            why: None,
        }
    }

    /// Returns the next step.
    pub const fn next(&self) -> Next {
        self.next
    }

    /// Returns the first action that was not done, and its result.
    pub const fn why(&self) -> Option<(Action, Event)> {
        self.why
    }

    /// Returns the time limit of the next action in milliseconds.
    pub const fn limit_ms(&self) -> u64 {
        match self.next {
            Next::Do(Action::Finish) => self.plan.grace_ms,
            Next::Do(Action::Stop) => STOP_MS,
            Next::Do(
                Action::Claim
                | Action::Attach
                | Action::Configure
                | Action::Start
                | Action::Unconfigure
                | Action::Unattach
                | Action::Unclaim,
            ) if self.plan.far => FAR_MS,
            Next::Do(
                Action::Claim
                | Action::Release
                | Action::Configure
                | Action::Unconfigure
                | Action::Reconfigure
                | Action::Unclaim,
            ) => DRIVER_MS,
            Next::Do(_) => REGISTERS_MS,
            Next::End(_) => 0,
        }
    }

    const fn has_begun(&self, action: Action) -> bool {
        (self.begun >> action as u32) & 1 != 0
    }

    fn go(&mut self, action: Action) {
        self.begun |= 1 << action as u32;
        self.next = Next::Do(action);
    }

    fn end(&mut self, outcome: Outcome) {
        self.next = Next::End(outcome);
    }

    /// Takes the result of the next action and decides the step after it.
    pub fn event(&mut self, event: Event) {
        let Next::Do(action) = self.next else {
            return;
        };
        if event != Event::Done && self.why.is_none() {
            self.why = Some((action, event));
        }
        match event {
            Event::Done => self.done(action),
            Event::SourceGone => self.source_gone(action),
            Event::TargetGone => self.target_gone(action),
            Event::Failed | Event::Timeout => self.failed(action, event),
            Event::Cancelled if self.cancelled => self.failed(action, event),
            Event::Cancelled => {
                self.cancelled = true;
                // A migration that is on its way back, or cannot be undone, continues.
                if (action as u32) < Action::Start as u32 && self.source_lives {
                    self.failed(action, event);
                }
            }
        }
    }

    fn done(&mut self, action: Action) {
        match action {
            Action::Claim if !self.source_lives => {
                self.holder = Holder::Neither;
                self.go(Action::Attach);
            }
            Action::Claim if self.plan.asks => self.go(Action::Finish),
            Action::Claim | Action::Finish | Action::Stop => self.go(Action::Release),
            Action::Release => self.go(Action::Cut),
            Action::Cut => {
                self.holder = Holder::Neither;
                self.go(Action::Attach);
            }
            Action::Attach => {
                self.holder = Holder::Target;
                if self.target_refuses {
                    self.end(Outcome::ParkedAtTarget);
                } else {
                    self.go(Action::Configure);
                }
            }
            Action::Configure => self.go(Action::Start),
            Action::Start => self.end(Outcome::Moved),
            Action::Unattach => {
                self.holder = Holder::Neither;
                self.back(Some(action));
            }
            Action::Uncut => {
                self.holder = Holder::Source;
                self.back(Some(action));
            }
            Action::Unconfigure | Action::Resume | Action::Reconfigure | Action::Unclaim => {
                self.back(Some(action));
            }
        }
    }

    fn failed(&mut self, action: Action, event: Event) {
        match action {
            Action::Finish if event == Event::Timeout && self.plan.stops => self.go(Action::Stop),
            Action::Claim | Action::Attach if !self.source_lives => self.end(Outcome::Lost),
            Action::Configure => {
                self.target_refuses = event != Event::Cancelled;
                if self.source_lives {
                    self.back(None);
                } else {
                    self.end(Outcome::ParkedAtTarget);
                }
            }
            Action::Claim
            | Action::Finish
            | Action::Stop
            | Action::Release
            | Action::Cut
            | Action::Attach => self.back(None),
            // The function is there even if its waiters were not told.
            Action::Start => self.end(Outcome::Moved),
            // The target still has the identity: the source must not get it.
            Action::Unconfigure | Action::Unattach => self.end(Outcome::ParkedAtTarget),
            Action::Uncut | Action::Reconfigure => self.end(Outcome::ParkedAtSource),
            Action::Resume | Action::Unclaim => self.back(Some(action)),
        }
    }

    fn source_gone(&mut self, action: Action) {
        self.source_lives = false;
        if !self.target_lives {
            return self.end(Outcome::Lost);
        }
        match action {
            // The remaining steps do not need the source.
            Action::Claim | Action::Attach | Action::Configure | Action::Start => {}
            Action::Finish | Action::Stop | Action::Release | Action::Cut => {
                self.holder = Holder::Neither;
                self.go(Action::Attach);
            }
            // The target still has the identity, and has to keep it.
            Action::Unconfigure | Action::Unattach => {
                if self.target_refuses {
                    self.end(Outcome::ParkedAtTarget);
                } else if self.holder == Holder::Target {
                    self.go(Action::Configure);
                } else {
                    self.go(Action::Attach);
                }
            }
            Action::Uncut | Action::Resume | Action::Reconfigure => {
                self.holder = Holder::Neither;
                self.go(Action::Attach);
            }
            // The target was free again, and may have another user.
            Action::Unclaim => self.end(Outcome::Lost),
        }
    }

    fn target_gone(&mut self, action: Action) {
        self.target_lives = false;
        if !self.source_lives {
            return self.end(Outcome::Lost);
        }
        match action {
            Action::Uncut | Action::Resume | Action::Reconfigure => {}
            Action::Unconfigure | Action::Unattach | Action::Unclaim if self.plan.far => {
                self.failed(action, Event::TargetGone);
            }
            _ => {
                // Of another host's, the fabric still says that it has it.
                if self.holder == Holder::Target && !self.plan.far {
                    self.holder = Holder::Neither;
                }
                self.back(None);
            }
        }
    }

    /// Goes to the first step back behind `after` that has something to undo.
    fn back(&mut self, after: Option<Action>) {
        const WAY: [(Action, Action, bool); 6] = [
            (Action::Unconfigure, Action::Configure, true),
            (Action::Unattach, Action::Attach, true),
            (Action::Uncut, Action::Cut, false),
            (Action::Resume, Action::Finish, false),
            (Action::Reconfigure, Action::Release, false),
            (Action::Unclaim, Action::Claim, true),
        ];
        let after = after.map_or(0, |action| action as u32);
        let undo = WAY.iter().find(|(undo, of, target)| {
            let can = !*target || self.target_lives || self.plan.far;
            *undo as u32 > after && self.has_begun(*of) && can
        });
        match undo {
            Some((undo, _, _)) => self.next = Next::Do(*undo),
            None => self.end(Outcome::Stayed),
        }
    }
}
