// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A question on its way, or a write: sent again until it is answered or given up.

/// After so long it is sent again.
pub const AGAIN_MS: u64 = 100;
/// So often it is sent. With the time between: whoever does not answer for 1.2 s is taken for silent.
pub const TRIES: u8 = 12;
/// And so often to somebody who was silent a moment ago.
const BRIEFLY: u8 = 3;

/// What has become of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// To be sent.
    #[default]
    Due,
    /// Sent, not answered.
    Sent,
    /// Answered.
    Done,
    /// Given up.
    Silent,
}

/// A question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ask {
    /// What has become of it.
    pub state: State,
    /// Names it in the answer, from the first time it is sent.
    pub xid: u32,
    tries: u8,
    sent: u64,
}

impl Ask {
    /// One that is still to be sent.
    pub const DUE: Self = Self {
        state: State::Due,
        xid: 0,
        tries: 0,
        sent: 0,
    };
    /// One to somebody who was silent before.
    pub const BRIEF: Self = Self {
        tries: TRIES - BRIEFLY,
        ..Self::DUE
    };
    /// One that nobody waits for.
    pub const DONE: Self = Self {
        state: State::Done,
        ..Self::DUE
    };

    /// Whether it is to be sent now; then it counts as sent. Gives it up if it was sent too often.
    /// The first time it gets a number of `xids`.
    pub fn send(&mut self, now: u64, xids: &mut u32) -> bool {
        match self.state {
            State::Due => {
                *xids = xids.wrapping_add(1);
                self.xid = *xids;
            }
            State::Sent if now.saturating_sub(self.sent) < AGAIN_MS => return false,
            State::Sent if self.tries >= TRIES => {
                self.state = State::Silent;
                return false;
            }
            State::Sent => {}
            State::Done | State::Silent => return false,
        }
        self.state = State::Sent;
        self.tries += 1;
        self.sent = now;
        true
    }

    /// When it was last sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Takes an answer; whether it is that to this question, and the first.
    pub fn answer(&mut self, xid: u32) -> bool {
        let mine = self.state == State::Sent && self.xid == xid;
        if mine {
            self.state = State::Done;
        }
        mine
    }

    /// Whether it is answered or given up.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Silent)
    }
}
