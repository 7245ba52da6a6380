// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The states of a queue pair, and the changes that a user may ask for.

numbered! {
    /// A state, by its number in the user interface: `WEFT_QP_*`.
    pub enum State: u32 {
        /// Nothing is done.
        Reset = 0,
        /// Receive requests can be posted.
        Init = 1,
        /// Requests of the peer are taken.
        Rtr = 2,
        /// Send requests are carried out, too.
        Rts = 3,
        /// No new send requests are begun.
        Sqd = 4,
        /// All requests are flushed.
        Err = 5,
    }
}

impl State {
    /// Returns whether a user may ask for this change.
    pub const fn may_become(self, to: Self) -> bool {
        matches!(
            (self, to),
            (_, Self::Reset | Self::Err)
                | (Self::Reset, Self::Init)
                | (Self::Init, Self::Rtr)
                | (Self::Rtr | Self::Sqd, Self::Rts)
                | (Self::Rts, Self::Sqd)
        )
    }

    /// Returns whether requests of the peer are taken.
    pub const fn hears(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd)
    }
}
