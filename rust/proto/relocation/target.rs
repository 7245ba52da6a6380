// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the target's host does in a migration: it brings the target to where the text wants it, and says so.
//!
//! It looks at the text again and again, and does what is missing; so it does not depend on having seen each
//! stage. It leaves a migration only when its line is gone: until then the source's host may rely on it. Then
//! the identity that the target carries says what became of the migration.

use super::{
    super::migration::{Action, Event, Outcome},
    lines::Stage,
};

/// What this host sees of the migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    /// How far the migration is.
    pub stage: Stage,
    /// The target carries the identity.
    pub moved: bool,
    /// The source's host has not been in the fabric, or has not gone on, for long enough.
    pub gone: bool,
    /// The administrator of this host does not want it any more.
    pub cancelled: bool,
}

/// Returns the time in one stage, in milliseconds, after which the source's host is taken for gone: it, or its
/// caller, may have ended without a master that would have heard so. Users of the source have as long as an
/// administrator can give them.
pub const fn longest_ms(stage: Stage) -> u64 {
    match stage {
        Stage::Ready => 720_000,
        _ => 60_000,
    }
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Do this: one of the actions of [`super::super::migration`] that concern the target.
    Do(Action),
    /// Ask the master for this stage, and look again.
    Ask(Stage),
    /// Look again when the text is another one.
    Wait,
    /// The migration is over for this host.
    End(Outcome),
}

/// The target of a migration that the source's host has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target {
    claimed: bool,
    attached: bool,
    driven: bool,
    announced: bool,
    /// It cannot be claimed, attached or driven.
    refuses: bool,
    /// Its driver does not release it.
    stuck: bool,
    /// The first action that was not done, and its result.
    why: Option<(Action, Event)>,
}

impl Target {
    /// Creates a target of which nothing was done.
    pub const fn new() -> Self {
        Self {
            claimed: false,
            attached: false,
            driven: false,
            announced: false,
            refuses: false,
            stuck: false,
            why: None,
        }
    }

    /// Returns the first action that was not done, and its result.
    pub const fn why(&self) -> Option<(Action, Event)> {
        self.why
    }

    /// Returns what comes next.
    pub fn next(&self, sight: &Sight) -> Next {
        let quits = self.refuses || sight.gone || sight.cancelled;
        match sight.stage {
            // Not unclaimed before the line is gone: the source's host may have gone on.
            Stage::Asked | Stage::Ready if quits => Next::Ask(Stage::Closed),
            Stage::Asked if !self.claimed => Next::Do(Action::Claim),
            Stage::Asked => Next::Ask(Stage::Ready),
            Stage::Ready => Next::Wait,
            // Nothing more can be done here; what has the identity keeps it.
            Stage::Given | Stage::Revoked if self.stuck && sight.gone => Next::Ask(Stage::Closed),
            Stage::Given | Stage::Revoked if self.stuck => Next::Wait,
            Stage::Given => self.serve().unwrap_or(Next::Ask(match self.refuses {
                true => Stage::Failed,
                false => Stage::Done,
            })),
            Stage::Revoked => self.unserve().unwrap_or(Next::Ask(Stage::Failed)),
            Stage::Done | Stage::Failed if sight.gone => Next::Ask(Stage::Closed),
            Stage::Done | Stage::Failed => Next::Wait,
            Stage::Back => self.undo().unwrap_or(Next::Ask(Stage::Closed)),
            Stage::Closed if sight.moved => {
                let outcome = match self.refuses {
                    true => Outcome::ParkedAtTarget,
                    false => Outcome::Moved,
                };
                self.serve().unwrap_or(Next::End(outcome))
            }
            Stage::Closed => self.undo().unwrap_or(Next::End(Outcome::Stayed)),
        }
    }

    /// Returns what is missing for the target to work, or to have no driver if it cannot.
    fn serve(&self) -> Option<Next> {
        let action = match self.refuses {
            true if self.driven && !self.stuck => Action::Unconfigure,
            true => return None,
            false if !self.claimed => Action::Claim,
            false if !self.attached => Action::Attach,
            false if !self.driven => Action::Configure,
            false if !self.announced => Action::Start,
            false => return None,
        };
        Some(Next::Do(action))
    }

    fn unserve(&self) -> Option<Next> {
        (self.driven && !self.stuck).then_some(Next::Do(Action::Unconfigure))
    }

    fn undo(&self) -> Option<Next> {
        let rest = if self.attached {
            Some(Next::Do(Action::Unattach))
        } else {
            self.claimed.then_some(Next::Do(Action::Unclaim))
        };
        self.unserve().or(rest)
    }

    /// Takes the result of an action.
    pub fn event(&mut self, action: Action, event: Event) {
        let done = event == Event::Done;
        if !done && self.why.is_none() {
            self.why = Some((action, event));
        }
        match action {
            // What was done in part is undone as a whole.
            Action::Claim => (self.claimed, self.refuses) = (true, !done),
            Action::Attach => (self.attached, self.refuses) = (true, !done),
            Action::Configure => (self.driven, self.refuses) = (true, !done),
            // The function is there even if its waiters were not told.
            Action::Start => self.announced = true,
            Action::Unconfigure => {
                let released = done || event == Event::TargetGone;
                self.driven &= !released;
                self.stuck = !released;
            }
            // What cannot be undone does not answer any more.
            Action::Unattach => self.attached = false,
            Action::Unclaim => self.claimed = false,
            _ => {}
        }
    }
}
