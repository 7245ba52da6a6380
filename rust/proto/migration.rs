// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a virtual function moves: what is done, in which order, and the way back from every step.
//!
//! ```text
//!   forward    CLAIM -> FINISH -> (STOP) -> RELEASE -> CUT -> ATTACH -> CONFIGURE -> START -> moved
//!                 \        \         \          \        \       \           \
//!   back            UNCLAIM <- RECONFIGURE <- RESUME <- UNCUT <- UNATTACH <- UNCONFIGURE
//!                      \-> stayed
//! ```
//!
//! No silicon moves: what does is the *identity* of a function, with its quota and its users, from a
//! source to an idle equivalent, the target. Exactly one of them has it, but between CUT and ATTACH,
//! when nobody does: the source is proven to have nothing outstanding before it is released, and is cut
//! off before the target gets anything. On the way back only those steps are undone that were begun. If
//! the source dies its users have lost it in any case, and the identity goes on to the target; if the
//! target dies it returns to the source.
//!
//! Here is decided only what comes next. Whoever drives the machine does [`Machine::next`] within
//! [`Machine::limit_ms`] and says by [`Machine::event`] what became of it. It must not know what a
//! function is made of, or in which system it is used.

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Action {
    /// Take the target from whoever drives it without users; nobody else gets it.
    Claim = 1,
    /// Ask the source's system to complete all that is outstanding, and wait until nothing is.
    Finish = 2,
    /// The same of a system whose users go on: nothing new is begun.
    Stop = 3,
    /// Take the source from its driver.
    Release = 4,
    /// Make sure that nothing of the source is open, and take its quota away.
    Cut = 5,
    /// Give identity and quota to the target.
    Attach = 6,
    /// Give the target to its driver, and wait until it works.
    Configure = 7,
    /// Tell whoever waits for the function that it is there.
    Start = 8,
    /// Back: take the target from its driver.
    Unconfigure = 9,
    /// Back: take the identity from the target.
    Unattach = 10,
    /// Back: the source gets its identity and quota.
    Uncut = 11,
    /// Back: the source's system may go on.
    Resume = 12,
    /// Back: the source is given to its driver.
    Reconfigure = 13,
    /// Back: so is the target, if it was before.
    Unclaim = 14,
}

/// What became of an action. All but `Done` mean that it was not, or not wholly, done. The numbers are
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
    /// Whoever wanted the migration wants it no more.
    Cancelled = 3,
    /// The source does not exist any more.
    SourceGone = 4,
    /// The target does not exist any more.
    TargetGone = 5,
}

/// How it ended. The numbers are `WEFT_MIGRATE_*` of the user interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Outcome {
    /// The source is as it was.
    Stayed = 1,
    /// The target is in its place.
    Moved = 2,
    /// The source has the identity, but its driver does not take it.
    ParkedAtSource = 3,
    /// The same, of the target.
    ParkedAtTarget = 4,
    /// The source does not exist any more, and the target cannot be had.
    Lost = 5,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// To be done.
    Do(Action),
    /// Nothing.
    End(Outcome),
}

/// What is known before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Somebody drives the source, and can be asked to finish.
    pub asks: bool,
    /// Users that do not finish in time are stopped; otherwise the source keeps them.
    pub stops: bool,
    /// How long they have.
    pub grace_ms: u64,
}

/// How long it may take until nothing is under way when nothing is begun any more.
pub const STOP_MS: u64 = 5_000;
/// How long a driver may take to take a function, or to let go of one.
pub const DRIVER_MS: u64 = 20_000;
/// How long what is done by registers may take.
pub const REGISTERS_MS: u64 = 2_000;

/// Who has the identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The source.
    Source,
    /// Nobody: the source is cut off, the target has it not yet.
    Nobody,
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
    /// What was begun, and has to be undone on the way back: a bit an action.
    begun: u32,
    /// The target's driver would not take it.
    target_refuses: bool,
    cancelled: bool,
    /// What went wrong first.
    why: Option<(Action, Event)>,
}

impl Machine {
    /// One that has not begun.
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

    /// What is to be done now.
    pub const fn next(&self) -> Next {
        self.next
    }

    /// What went wrong first, and with what.
    pub const fn why(&self) -> Option<(Action, Event)> {
        self.why
    }

    /// How long the next action may take.
    pub const fn limit_ms(&self) -> u64 {
        match self.next {
            Next::Do(Action::Finish) => self.plan.grace_ms,
            Next::Do(Action::Stop) => STOP_MS,
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

    /// What became of the action that was to be done.
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
                // What goes back already, or has no way back, goes on.
                if (action as u32) < Action::Start as u32 && self.source_lives {
                    self.failed(action, event);
                }
            }
        }
    }

    fn done(&mut self, action: Action) {
        match action {
            Action::Claim if !self.source_lives => {
                self.holder = Holder::Nobody;
                self.go(Action::Attach);
            }
            Action::Claim if self.plan.asks => self.go(Action::Finish),
            Action::Claim | Action::Finish | Action::Stop => self.go(Action::Release),
            Action::Release => self.go(Action::Cut),
            Action::Cut => {
                self.holder = Holder::Nobody;
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
                self.holder = Holder::Nobody;
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
            // Nobody has to be told for the function to be there.
            Action::Start => self.end(Outcome::Moved),
            // The target still has it: the source must not.
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
            // The rest has nothing to do with it.
            Action::Claim | Action::Attach | Action::Configure | Action::Start => {}
            Action::Finish | Action::Stop | Action::Release | Action::Cut => {
                self.holder = Holder::Nobody;
                self.go(Action::Attach);
            }
            // The target has it still, and has to keep it.
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
                self.holder = Holder::Nobody;
                self.go(Action::Attach);
            }
            // It was free again, and may be somebody else's.
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
            _ => {
                if self.holder == Holder::Target {
                    self.holder = Holder::Nobody;
                }
                self.back(None);
            }
        }
    }

    /// The first thing behind `after` that has to be undone.
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
            *undo as u32 > after && self.has_begun(*of) && (!*target || self.target_lives)
        });
        match undo {
            Some((undo, _, _)) => self.next = Next::Do(*undo),
            None => self.end(Outcome::Stayed),
        }
    }
}
