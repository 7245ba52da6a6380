// SPDX-License-Identifier: GPL-2.0

//! What a worker knows of how it hears of what comes: whether the peer is to ring, whether users run the
//! engine anyway, and how much comes.
//!
//! What follows from it is done by `runners`; this must not know the trunk.

/// Jiffies until what found no room, or no receive request, is looked at again, and until it is looked
/// whether users still run the engine.
pub(super) const SOON: usize = 1;
/// Where so much has come and gone between two looks that found nothing there will be more: the peer is
/// not asked to ring, but looked after. Ends that wait for an answer to each message have less to do.
const LOADED: usize = 8;
/// It is looked after the peer so often then,
const HOLD_OFF: u32 = 16;
/// after which so much has to have come and gone for another so many times.
const STILL_LOADED: usize = 32;
/// A user who has run the engine so often is going to do so again.
const POLLER: u32 = 8;
/// How often it is looked whether he does, before that is given up.
const PATIENCE: u32 = 12;

/// Of one session of a link.
pub(super) struct Watch {
    /// The peer is to ring when something comes.
    pub(super) asleep: bool,
    /// Cells and words that have come, and cells that have gone, since he was asked to, or since it was
    /// looked after him.
    came: usize,
    /// So many times yet it is looked after him, whatever comes.
    hold_off: u32,
    /// The work item is going to run.
    pub(super) timer: bool,
    /// A user has run the engine since it did,
    polled: bool,
    /// and so often since nobody slept.
    polls: u32,
    /// So many times yet it is looked whether a user runs the engine, before the peer is asked to ring.
    patience: u32,
}

impl Watch {
    pub(super) const fn new() -> Self {
        Self {
            // A trunk that is zero asks to be rung at the first message.
            asleep: true,
            came: 0,
            hold_off: 0,
            timer: false,
            polled: false,
            polls: 0,
            patience: 0,
        }
    }

    /// The work item runs.
    pub(super) fn begins(&mut self) {
        self.timer = false;
        if core::mem::take(&mut self.polled) {
            self.patience = if self.polls >= POLLER { PATIENCE } else { 0 };
        } else {
            self.patience = self.patience.saturating_sub(1);
        }
    }

    /// Whether users are going to run the engine.
    pub(super) fn expects_users(&self) -> bool {
        self.patience != 0
    }

    /// They are not.
    pub(super) fn expects_nobody(&mut self) {
        self.polls = 0;
    }

    /// A user has run the engine. After so many jiffies the work item is to look whether he still does.
    pub(super) fn user_ran(&mut self) -> usize {
        self.polled = true;
        self.polls = self.polls.saturating_add(1);
        // Who does not come back soon is woken by a doorbell as early as can be.
        if self.polls >= POLLER {
            SOON
        } else {
            0
        }
    }

    /// He is going to sleep.
    pub(super) fn user_sleeps(&mut self) {
        self.polled = false;
        self.polls = 0;
        self.patience = 0;
    }

    /// So many cells and words have come.
    pub(super) fn took(&mut self, count: usize) {
        if count > 0 {
            self.asleep = false;
            self.came = self.came.saturating_add(count);
        }
    }

    /// So many cells have gone.
    pub(super) fn sent(&mut self, count: usize) {
        self.came = self.came.saturating_add(count);
    }

    /// It is looked on as long again. So little as an answer a message is no load, however often it comes.
    pub(super) fn begins_again(&mut self) {
        if self.hold_off == 0 && self.came < LOADED {
            self.came = 0;
        }
    }

    /// Nothing has come for a while. Whether the peer is looked after once more, and not asked to ring.
    pub(super) fn holds_off(&mut self) -> bool {
        let enough = match self.hold_off.checked_sub(1) {
            None => LOADED,
            Some(left) => {
                self.hold_off = left;
                if left != 0 {
                    return true;
                }
                STILL_LOADED
            }
        };
        if core::mem::take(&mut self.came) >= enough {
            self.hold_off = HOLD_OFF;
        }
        self.hold_off != 0
    }
}
