// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Decides how an end of a link learns of new work: whether the peer is to ring, whether users run the
//! engine anyway, and how much traffic there is.
//!
//! The worker of the link acts on it. This file must not know the link queues.

/// Jiffies until another attempt after there was no room, or no receive request, and until the next
/// check that users still run the engine.
pub const SOON: usize = 1;
/// If so many cells and control words have come and gone between two polls that found nothing, the
/// link is loaded: the peer is polled, and not asked to ring. Ends that wait for an answer to each
/// message exchange fewer.
const LOADED: usize = 8;
/// The peer is then polled so many times,
const HOLD_OFF: u32 = 16;
/// after which so many have to have come and gone to poll as many times again.
const STILL_LOADED: usize = 32;
/// A user that has run the engine so often is expected to do so again.
const POLLER: u32 = 8;
/// How many times the work item checks for such a user before it stops expecting one.
const PATIENCE: u32 = 12;

/// The state for one session of a link.
pub struct Watch {
    /// The peer was asked to ring when something comes.
    pub asleep: bool,
    /// It was not asked for an echo: what it had written before it saw that is not announced, unless it
    /// rings for something else.
    pub unsure: bool,
    /// The work item has not run since.
    fresh: bool,
    /// The peer is still to be rung for control words.
    pub owes: bool,
    /// The last run has sent a request: the peer rings when it answers, if it was asked to before.
    pub asks: bool,
    /// The last run has sent nothing.
    silent: bool,
    /// Cells and control words that have come, and cells that have gone, since the peer was asked to
    /// ring, or was last polled.
    came: usize,
    /// How many times the peer is still to be polled, whatever comes.
    hold_off: u32,
    /// The work item is queued.
    pub timer: bool,
    /// A user has run the engine since the work item did.
    polled: bool,
    /// How often users have run it since nothing came for a while,
    runs: u32,
    /// and how often without sending anything, since one was going to sleep or was expected in vain. Those that poll do
    /// so, those that post and do something else then do not.
    polls: u32,
    /// How many times the work item still checks for users that run the engine before it asks the
    /// peer to ring.
    patience: u32,
}

impl Watch {
    /// State at the beginning of a session.
    pub const fn new() -> Self {
        Self {
            // Link queues that are zero ask for a doorbell at the first message.
            asleep: true,
            unsure: false,
            fresh: false,
            owes: false,
            asks: false,
            silent: false,
            came: 0,
            hold_off: 0,
            timer: false,
            polled: false,
            runs: 0,
            polls: 0,
            patience: 0,
        }
    }

    /// Returns whether a doorbell announces all that comes, and nothing is to be announced to the peer.
    pub fn is_asleep(&self) -> bool {
        self.asleep && !self.unsure && !self.owes
    }

    /// Notes that the peer was asked to ring; `echoes`: for an echo as well.
    pub fn sleeps(&mut self, echoes: bool) {
        self.asleep = true;
        self.unsure = !echoes;
        self.fresh = true;
    }

    /// Returns whether it has been unsure since the last call, or longer: users that run the engine all
    /// the time soon are sure by themselves.
    pub fn doubts(&mut self) -> bool {
        self.asleep && self.unsure && !core::mem::take(&mut self.fresh)
    }

    /// Notes that the work item runs.
    pub fn begins(&mut self) {
        self.timer = false;
        if core::mem::take(&mut self.polled) {
            self.patience = if self.is_polled() { PATIENCE } else { 0 };
        } else if self.patience > 0 {
            self.patience -= 1;
            if self.patience == 0 {
                self.forget_users();
            }
        }
    }

    /// Returns whether users are expected to run the engine.
    pub fn expects_users(&self) -> bool {
        self.patience != 0
    }

    /// Notes that the last run was a user's. Returns the jiffies after which the work item is to
    /// check that the user still does.
    pub fn user_ran(&mut self) -> usize {
        self.polled = true;
        if !self.is_polled() {
            self.runs = self.runs.saturating_add(1);
            self.polls = self.polls.saturating_add(self.silent.into());
        }
        // At first a doorbell is requested as early as can be: the user may not run the engine again.
        if self.is_polled() {
            SOON
        } else {
            0
        }
    }

    /// Notes that the user is going to sleep.
    pub fn user_sleeps(&mut self) {
        self.polled = false;
        self.patience = 0;
        self.forget_users();
    }

    /// Returns whether a user has run the engine so often that it is expected to do so again.
    fn is_polled(&self) -> bool {
        self.runs.max(self.polls) >= POLLER
    }

    fn forget_users(&mut self) {
        (self.runs, self.polls) = (0, 0);
    }

    /// Notes that `count` cells and control words have come.
    pub fn took(&mut self, count: usize) {
        if count > 0 {
            self.asleep = false;
            self.unsure = false;
            self.came = self.came.saturating_add(count);
        }
    }

    /// Notes that `count` cells have gone, `requests` of them requests.
    pub fn sent(&mut self, count: usize, requests: usize) {
        self.came = self.came.saturating_add(count);
        self.asks = requests != 0;
        self.silent = count == 0;
    }

    /// Notes that polling is prolonged. As little traffic as an answer to each message is no load,
    /// however often it comes.
    pub fn begins_again(&mut self) {
        if self.hold_off == 0 && self.came < LOADED {
            self.came = 0;
        }
    }

    /// Returns, when nothing has come for a while, whether to poll the peer once more instead of
    /// asking it to ring.
    pub fn holds_off(&mut self) -> bool {
        self.runs = 0;
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

    /// As [`Watch::holds_off`], for a user that is going to sleep. While the peer is polled it is the work
    /// item that counts.
    pub fn holds_off_user(&mut self) -> bool {
        self.hold_off != 0 || self.holds_off()
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}
