// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Who was silent when everybody was last looked for.
//!
//! A question that gets lost because a cable is pulled on its way looks like one that nobody answers,
//! though there may be another way. So nobody is taken for gone whom only one look has found silent.

use super::{ask::State, member::Member};

/// Those that were silent, as many as there is room for: the others are believed at once.
#[derive(Clone, Copy)]
pub struct Doubts {
    silent: [u64; 16],
    count: usize,
}

impl Doubts {
    /// All have answered.
    pub const NONE: Self = Self {
        silent: [0; 16],
        count: 0,
    };

    /// Whether it was silent: then it need not be asked for long.
    pub fn has(&self, hwid: u64) -> bool {
        self.silent.iter().take(self.count).any(|s| *s == hwid)
    }

    /// Another look has ended. Whether somebody is silent who was not before, and there has to be one more.
    pub fn look(&mut self, members: &[Member]) -> bool {
        let before = *self;
        self.count = 0;
        let silent = members.iter().filter(|m| m.ask.state == State::Silent);
        let mut again = false;
        for (member, place) in silent.zip(&mut self.silent) {
            *place = member.info.hwid;
            self.count += 1;
            again |= !before.has(member.info.hwid);
        }
        again
    }
}
