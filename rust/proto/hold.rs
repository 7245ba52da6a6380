// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends that hold still, so that their session can end and another begin while their queue pairs
//! stay what they are.
//!
//! ```text
//!   asks   -- HOLD, again and again -->   begins nothing, for a while
//!          <------------- HELD ---------  nothing that it has sent is unanswered
//!          the session ends; each keeps its queue pairs for PATIENCE_MS
//!   or     ----------- GO_ON ---------->  begins again
//! ```
//!
//! Nothing is under way when neither end has anything unanswered: so the end that asks ends the session
//! only when it has heard that of its peer, a moment ago, and knows it of itself. The other one keeps
//! still for longer than such a moment. Messages may get lost, late and repeated: an end that does not
//! learn in time what the other has done goes on, and then the queue pairs of one end or both fail as
//! they do when a link breaks. What an end goes on with is told by [`Standing`], and checked.
//!
//! Here is decided who keeps still, and when. Time comes in as milliseconds. It must not know what a
//! queue pair is.

/// How often the end that wants it says so, at first,
pub const REPEAT_MS: u64 = 10;
/// and at last: who does not answer has a mailbox that fills up.
pub const REPEAT_MAX_MS: u64 = 200;
/// For so long the other end keeps still after the last time.
pub const LEASE_MS: u64 = 2000;
/// The end that wants it believes an answer for so long, from when it asked.
pub const FRESH_MS: u64 = 1000;
/// How long queue pairs are kept without a session.
pub const PATIENCE_MS: u64 = 10_000;

/// What the ends say to each other. The number is the sender's time, of no meaning to the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Say {
    /// Begin nothing.
    Hold(u32),
    /// Nothing is begun here, and all that was is answered. Names the HOLD that it answers.
    Held(u32),
    /// What was asked before is wanted no more.
    GoOn(u32),
}

/// What one end knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold {
    /// It wants both to hold, since then.
    requested: Option<u64>,
    /// When it has asked last,
    asked: Option<u64>,
    /// and when it had asked what was answered last.
    answered: Option<u64>,
    /// The peer wants both to hold, until then.
    lease: Option<u64>,
    /// What it has asked last,
    heard: u32,
    /// and that it was answered since this end keeps still.
    told: bool,
    /// What the peer has asked before this is out of date.
    after: Option<u32>,
    /// When an answer was asked for last: to find one takes a while, and is not done at the peer's pace.
    looked: Option<u64>,
}

/// A time as it travels. 0 is none.
fn number(now: u64) -> u32 {
    (now as u32).max(1)
}

/// Whether `a` was before `b`.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Hold {
    /// Of a session that has just begun.
    pub const fn new() -> Self {
        Self {
            requested: None,
            asked: None,
            answered: None,
            lease: None,
            heard: 0,
            told: false,
            after: None,
            looked: None,
        }
    }

    /// This end wants both to hold, if it does not yet.
    pub fn request(&mut self, now: u64) {
        if self.requested.is_none() {
            self.requested = Some(now);
            self.asked = None;
            self.answered = None;
        }
    }

    /// This end wants it no more. What is to be said.
    pub fn give_up(&mut self, now: u64) -> Option<Say> {
        self.requested.take()?;
        self.answered = None;
        Some(Say::GoOn(number(now)))
    }

    /// What is to be said now by an end that wants both to hold.
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

    /// The peer has said something. True: it is to be answered, by [`Hold::answer`].
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
                // As many milliseconds ago, if it was asked at all.
                let ago = u64::from(number(now).wrapping_sub(asked));
                let at = now.saturating_sub(ago);
                if self.requested.is_some_and(|requested| at >= requested) {
                    self.answered = self.answered.max(Some(at));
                }
                false
            }
            Say::GoOn(at) => {
                self.after = Some(at);
                self.lease = None;
                self.told = false;
                false
            }
        }
    }

    /// The answer to HOLD. `quiet`: nothing that this end has sent is unanswered, and nothing is sent
    /// while it [`holds`](Hold::holds).
    pub fn answer(&mut self, now: u64, quiet: bool) -> Option<Say> {
        if !quiet || !self.is_leased(now) {
            return None;
        }
        self.told = true;
        Some(Say::Held(self.heard))
    }

    fn is_leased(&self, now: u64) -> bool {
        self.lease.is_some_and(|until| now < until)
    }

    /// Whether nothing may be begun.
    pub fn holds(&self, now: u64) -> bool {
        self.requested.is_some() || self.is_leased(now)
    }

    /// Whether this end may end the session, as nothing is under way either way.
    pub fn is_agreed(&self, now: u64, quiet: bool) -> bool {
        quiet && self.requested.is_some() && self.is_fresh(now)
    }

    fn is_fresh(&self, now: u64) -> bool {
        self.answered
            .is_some_and(|at| now.saturating_sub(at) < FRESH_MS)
    }

    /// The session is over, whoever has ended it. Whether queue pairs are kept that have nothing under
    /// way, as the peer may do the same.
    pub fn over(&mut self, now: u64) -> bool {
        let keeps =
            self.requested.is_some() && self.is_fresh(now) || self.told && self.is_leased(now);
        *self = Self::new();
        keeps
    }
}

/// Where one end of a queue pair stands when it is joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// It was joined before, and goes on.
    pub resumes: bool,
    /// The number of the request that it takes next.
    pub expects: u16,
}

impl Standing {
    /// Of one that begins.
    pub const FRESH: Self = Self {
        resumes: false,
        expects: 0,
    };

    /// Whether an end that `resumes`, and whose next request has the number `next`, goes on where the
    /// peer, who says this, stands. Neither can have missed, or carried out twice, what the other has
    /// completed. `untouched`: it has never sent or taken a request, and may be joined without knowing
    /// it.
    pub const fn fits(self, resumes: bool, next: u16, untouched: bool) -> bool {
        let same = self.resumes == resumes || untouched;
        same && self.expects == next
    }
}
