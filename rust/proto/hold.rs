// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Session quiesce: both ends stop, so that their session can end and another begin while their queue
//! pairs keep their state.
//!
//! ```text
//!   asks   ----- HOLD, repeated ------>   begins nothing, for LEASE_MS
//!          <------------- HELD ---------  nothing that it has sent is unanswered
//!          the session ends; each keeps its queue pairs for PATIENCE_MS
//!   or     ----------- GO_ON ---------->  begins again
//! ```
//!
//! Nothing is under way when neither end has anything unanswered. So the asking end ends the session
//! only if it has nothing unanswered itself and its peer has said the same in answer to a HOLD less than
//! [`FRESH_MS`] old. The peer stays quiesced for [`LEASE_MS`], which is longer. An end that hears no HOLD
//! any more says HELD again; the other answers with GO_ON if it does not ask. Messages may be lost, late or
//! repeated: an end that does not learn in time what the other has done continues, and then the queue
//! pairs of one end or both fail as they do when a link breaks. When a queue pair resumes in the next
//! session, the ends compare their positions ([`Standing`]).
//!
//! This file decides only which end is quiesced, and when. All times are in milliseconds. It is
//! independent of queue pairs.

use super::heartbeat::SILENCE_MS;

/// Shortest interval between two HOLDs of the asking end.
pub const REPEAT_MS: u64 = 10;
/// Longest interval between two HOLDs: the mailbox of a peer that does not answer fills up.
pub const REPEAT_MAX_MS: u64 = 200;
/// Time for which the other end stays quiesced after the last HOLD. A peer that says nothing for
/// [`SILENCE_MS`] is given up; until then it may only be late.
pub const LEASE_MS: u64 = SILENCE_MS + 1000;
/// Time for which the asking end relies on an answer, counted from its HOLD.
pub const FRESH_MS: u64 = SILENCE_MS;
/// Time without a HOLD after which an end that is quiesced reminds the other, as GO_ON may be lost.
pub const REMIND_MS: u64 = 3 * REPEAT_MAX_MS;
/// Time for which queue pairs are kept without a session.
pub const PATIENCE_MS: u64 = 10_000;

/// The messages of the ends. The number is the sender's time and has no meaning to the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Say {
    /// Begin nothing.
    Hold(u32),
    /// Nothing is begun here, and all that was is answered. Names the HOLD that it answers.
    Held(u32),
    /// Cancels every HOLD that was sent before.
    GoOn(u32),
}

/// The quiesce state of one end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold {
    /// Time since which this end asks for a quiesce.
    requested: Option<u64>,
    /// Time of the last HOLD of this end.
    asked: Option<u64>,
    /// Time of the latest HOLD of this end that the peer has answered.
    answered: Option<u64>,
    /// End of the quiesce that the peer asks for.
    lease: Option<u64>,
    /// Number of the peer's last HOLD.
    heard: u32,
    /// This end has answered HELD within the current lease.
    told: bool,
    /// Number of the peer's last GO_ON: HOLDs with a lower number are out of date.
    after: Option<u32>,
    /// The peer has said HELD, and this end does not ask.
    needless: bool,
    /// Time at which an answer was last asked of the caller. It takes time to find, so this is limited.
    looked: Option<u64>,
}

/// Returns the number that stands for a time in a message. Never 0.
fn number(now: u64) -> u32 {
    (now as u32).max(1)
}

/// Returns whether `a` was before `b`, modulo 2^32.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Hold {
    /// Creates the state of a session that has just begun.
    pub const fn new() -> Self {
        Self {
            requested: None,
            asked: None,
            answered: None,
            lease: None,
            heard: 0,
            told: false,
            after: None,
            needless: false,
            looked: None,
        }
    }

    /// Starts asking for a quiesce, unless this end does so already.
    pub fn request(&mut self, now: u64) {
        if self.requested.is_none() {
            self.requested = Some(now);
            self.asked = None;
            self.answered = None;
        }
    }

    /// Stops asking for a quiesce. Returns the message to send; `None` if there was no request.
    pub fn give_up(&mut self, now: u64) -> Option<Say> {
        self.requested.take()?;
        self.answered = None;
        Some(Say::GoOn(number(now)))
    }

    /// Returns the HOLD that is due now, if any.
    pub fn due(&mut self, now: u64) -> Option<Say> {
        let since = now.saturating_sub(self.requested?);
        let every = (since / 4).clamp(REPEAT_MS, REPEAT_MAX_MS);
        let soon = |asked| now.saturating_sub(asked) < every;
        if self.asked.is_some_and(soon) {
            return None;
        }
        self.asked = Some(now);
        Some(Say::Hold(number(now)))
    }

    /// Handles a message of the peer. Returns true if it is to be answered, by [`Hold::answer`].
    pub fn hear(&mut self, now: u64, say: Say) -> bool {
        match say {
            Say::Hold(asked) => {
                if self.after.is_some_and(|after| before(asked, after)) {
                    return false;
                }
                if !self.is_leased(now) {
                    self.told = false;
                }
                self.lease = Some(now.saturating_add(LEASE_MS));
                self.heard = asked;
                let soon = |at| now.saturating_sub(at) < REPEAT_MS / 2;
                if self.looked.is_some_and(soon) {
                    return false;
                }
                self.looked = Some(now);
                true
            }
            Say::Held(asked) => {
                // Age of the HOLD in milliseconds, if this end has sent it at all.
                let ago = u64::from(number(now).wrapping_sub(asked));
                let at = now.saturating_sub(ago);
                if self.requested.is_some_and(|requested| at >= requested) {
                    self.answered = self.answered.max(Some(at));
                }
                self.needless = self.requested.is_none();
                self.needless
            }
            Say::GoOn(at) => {
                self.after = Some(at);
                self.lease = None;
                self.told = false;
                false
            }
        }
    }

    /// Returns whether this end is quiesced and has heard no HOLD for [`REMIND_MS`]: it is to say its
    /// [`answer`](Hold::answer) again.
    pub fn reminds(&self, now: u64) -> bool {
        let left = self.lease.map_or(0, |until| until.saturating_sub(now));
        left != 0 && left <= LEASE_MS - REMIND_MS
    }

    /// Returns the answer to a message, if there is one now. `quiet`: nothing that this end has sent is
    /// unanswered, and nothing is sent while it [`holds`](Hold::holds).
    pub fn answer(&mut self, now: u64, quiet: bool) -> Option<Say> {
        if core::mem::take(&mut self.needless) {
            return Some(Say::GoOn(number(now)));
        }
        if !quiet || !self.is_leased(now) {
            return None;
        }
        self.told = true;
        Some(Say::Held(self.heard))
    }

    fn is_leased(&self, now: u64) -> bool {
        self.lease.is_some_and(|until| now < until)
    }

    /// Returns whether this end may begin nothing. `now` is asked for only if it matters: mostly not.
    pub fn holds(&self, now: impl FnOnce() -> u64) -> bool {
        self.requested.is_some() || self.lease.is_some_and(|until| now() < until)
    }

    /// Returns whether this end may end the session, as nothing is under way in either direction.
    pub fn is_agreed(&self, now: u64, quiet: bool) -> bool {
        quiet && self.requested.is_some() && self.is_fresh(now)
    }

    fn is_fresh(&self, now: u64) -> bool {
        self.answered
            .is_some_and(|at| now.saturating_sub(at) < FRESH_MS)
    }

    /// Resets the state when the session is over, whichever end has ended it. Returns whether queue
    /// pairs that have nothing under way are kept, because the peer may keep its own.
    pub fn over(&mut self, now: u64) -> bool {
        let keeps =
            self.requested.is_some() && self.is_fresh(now) || self.told && self.is_leased(now);
        *self = Self::new();
        keeps
    }
}

/// Position of one end of a queue pair when it is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// It was connected before, and continues.
    pub resumes: bool,
    /// Number of the request that it expects next.
    pub expects: u16,
}

impl Standing {
    /// Position of an end that is connected for the first time.
    pub const FRESH: Self = Self {
        resumes: false,
        expects: 0,
    };

    /// Returns whether this position of the peer matches an end that `resumes` and has `next` as the
    /// number of its next request. If it matches, neither end has missed, or carried out twice, a
    /// request that the other has completed. `untouched`: this end has never sent or taken a request, so
    /// the peer may differ in whether it resumes.
    pub const fn fits(self, resumes: bool, next: u16, untouched: bool) -> bool {
        let same = self.resumes == resumes || untouched;
        same && self.expects == next
    }
}
