// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A request to a node, a question or a write: sent again until it is answered or given up.

/// Time after which a request is sent again.
pub const AGAIN_MS: u64 = 100;
/// Number of tries. At [`AGAIN_MS`] each, a node that does not answer for 1.2 s is taken for silent.
pub const TRIES: u8 = 12;
/// Number of tries for a node that was silent in the last exploration.
const BRIEFLY: u8 = 3;

/// State of a request.
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

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ask {
    /// Its state.
    pub state: State,
    /// Names it in the answer; set when it is first sent.
    pub xid: u32,
    tries: u8,
    sent: u64,
}

impl Ask {
    /// A request that is still to be sent.
    pub const DUE: Self = Self {
        state: State::Due,
        xid: 0,
        tries: 0,
        sent: 0,
    };
    /// A request to a node that was silent before.
    pub const BRIEF: Self = Self {
        tries: TRIES - BRIEFLY,
        ..Self::DUE
    };
    /// A request that is over, so that nothing waits for it.
    pub const DONE: Self = Self {
        state: State::Done,
        ..Self::DUE
    };

    /// Returns whether the request is to be sent now; then it counts as sent. Gives it up after
    /// [`TRIES`]. The first time it gets the next number of `xids`.
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

    /// Returns when it was last sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Takes an answer. Returns whether it is the first answer to this request.
    pub fn answer(&mut self, xid: u32) -> bool {
        let mine = self.state == State::Sent && self.xid == xid;
        if mine {
            self.state = State::Done;
        }
        mine
    }

    /// Takes the answer that the node is not ready yet: it is asked again for as long as it says so.
    pub fn later(&mut self, xid: u32) {
        if self.state == State::Sent && self.xid == xid {
            self.tries = 0;
        }
    }

    /// Returns whether it is answered or given up.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Silent)
    }
}
