// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the source's host does for a step of a migration that concerns a target on another host: asks the
//! master for a change of the text, or waits for one of the target's host.
//!
//! It is looked at again and again, with what this host's copy of the text says by then, and so does not
//! depend on having seen each stage. A step that undoes another one is done only when the text cannot be
//! changed any more by what was asked for before: a request may be late.

use super::{
    super::migration::{Action, Event},
    lines::Stage,
};

/// What this host sees of the migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    /// How far the migration is.
    pub stage: Stage,
    /// This host has asked for it: the request may be late.
    pub asked: bool,
    /// This host has seen its line, now or before.
    pub begun: bool,
    /// The target carries the identity.
    pub moved: bool,
    /// The target's host is not in the fabric, or has not been for long enough.
    pub gone: bool,
}

/// What comes next in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Ask the master for this stage, and look again.
    Ask(Stage),
    /// Look again when the text is another one.
    Wait,
    /// The step is over.
    Over(Event),
}

/// Returns what comes next in a step that concerns the target. Other steps are the caller's, and are over
/// with [`Event::TargetGone`] if the target's host has left the migration, which [`has_left`] says.
pub fn next(action: Action, sight: &Sight) -> Next {
    match action {
        Action::Claim => claim(sight),
        Action::Attach => attach(sight),
        Action::Configure => configure(sight),
        Action::Unconfigure => revoke(sight, Stage::Failed),
        Action::Unattach => revoke(sight, Stage::Closed),
        Action::Start | Action::Unclaim => match sight.stage {
            // A line that comes later would stay, and the target's host would wait: let it come first.
            Stage::Closed if sight.asked && !sight.begun => Next::Ask(Stage::Asked),
            Stage::Closed => Next::Over(Event::Done),
            _ => Next::Ask(Stage::Closed),
        },
        _ => Next::Over(Event::Done),
    }
}

/// Returns whether the target's host has left a migration that waits for the source's, or is gone.
pub fn has_left(sight: &Sight) -> bool {
    sight.begun && (sight.gone || sight.stage == Stage::Closed)
}

fn claim(sight: &Sight) -> Next {
    match sight.stage {
        Stage::Closed if sight.begun => Next::Over(Event::Failed),
        Stage::Closed => Next::Ask(Stage::Asked),
        _ if sight.gone => Next::Over(Event::TargetGone),
        Stage::Asked => Next::Wait,
        _ => Next::Over(Event::Done),
    }
}

fn attach(sight: &Sight) -> Next {
    match sight.stage {
        Stage::Ready if sight.gone => Next::Over(Event::TargetGone),
        Stage::Ready => Next::Ask(Stage::Given),
        Stage::Given | Stage::Done | Stage::Failed => Next::Over(Event::Done),
        Stage::Closed if sight.moved => Next::Over(Event::Done),
        _ => Next::Over(Event::Failed),
    }
}

fn configure(sight: &Sight) -> Next {
    match sight.stage {
        Stage::Done => Next::Over(Event::Done),
        Stage::Given if sight.gone => Next::Over(Event::TargetGone),
        Stage::Given => Next::Wait,
        // The target's host has seen to it that it works, and does not wait for this one.
        Stage::Closed if sight.moved => Next::Over(Event::Done),
        _ => Next::Over(Event::Failed),
    }
}

/// Takes the identity back as far as `until`: until no driver has the target, or until the source carries it.
fn revoke(sight: &Sight, until: Stage) -> Next {
    match sight.stage {
        Stage::Failed if until == Stage::Failed => Next::Over(Event::Done),
        Stage::Failed => Next::Ask(Stage::Back),
        Stage::Given | Stage::Done | Stage::Revoked if sight.gone => Next::Ask(Stage::Back),
        Stage::Given | Stage::Done => Next::Ask(Stage::Revoked),
        Stage::Revoked => Next::Wait,
        Stage::Back => Next::Over(Event::Done),
        // No request for `Given` may be left that the master still takes.
        Stage::Asked | Stage::Ready if until == Stage::Closed => Next::Ask(Stage::Closed),
        Stage::Asked | Stage::Ready => Next::Over(Event::Done),
        // The target's host keeps it.
        Stage::Closed if sight.moved => Next::Over(Event::Failed),
        Stage::Closed => Next::Over(Event::Done),
    }
}
