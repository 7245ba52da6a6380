// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The hot-plug controllers of a switch: what they say, what users are told of that, and what is written for
//! a component to be announced and for a hierarchy to be connected.
//!
//! A *physical* controller of a port notices that a component comes or goes, a *virtual* one for each virtual
//! plane of a port connects the hierarchy on that plane. This file is independent of how they are reached.

/// What a controller says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Controller {
    /// A component is plugged in.
    pub occupied: bool,
    /// One came or went, or a virtual controller was switched, and that was not acknowledged.
    pub changed: bool,
    /// The slot has power; of a virtual controller: the hierarchy is connected.
    pub on: bool,
    /// A component will come or, if one is there, go.
    pub announced: bool,
    /// The link is up.
    pub up: bool,
}

/// What is written to a controller. Nothing else of it changes by that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Whether it is to be on.
    pub on: bool,
    /// It is acknowledged what has changed.
    pub seen: bool,
    /// A component is announced, or not any more.
    pub announces: Option<bool>,
}

/// Why a component is not announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is there.
    Occupied,
    /// The controller does not take announcements.
    Ignored,
}

impl Controller {
    /// Returns what a physical controller is written for a component to be announced or, if not `coming`,
    /// for nothing to be announced any more.
    pub fn announce(self, coming: bool) -> Result<Write, Refused> {
        if coming && self.occupied {
            return Err(Refused::Occupied);
        }
        Ok(Write {
            on: self.on,
            seen: false,
            announces: Some(coming),
        })
    }

    /// Checks what it says after that. A component that is there now has just come, which ends what was
    /// announced.
    pub fn announces(self, coming: bool) -> Result<(), Refused> {
        match self.announced == coming || self.occupied {
            true => Ok(()),
            false => Err(Refused::Ignored),
        }
    }

    /// Returns what a physical controller is written to acknowledge what has changed: the power of the slot
    /// stays as it is.
    pub fn acknowledge(self) -> Write {
        Write {
            on: self.on,
            seen: true,
            announces: None,
        }
    }

    /// Returns what a virtual controller is written, in this order, for its hierarchy to be connected, and for
    /// what has changed to be acknowledged: that it was switched on, too.
    pub fn connect(self) -> impl Iterator<Item = Write> {
        let write = |seen| Write {
            on: true,
            seen,
            announces: None,
        };
        let switch = (!self.on).then(|| write(false));
        let seen = (!self.on || self.changed).then(|| write(true));
        switch.into_iter().chain(seen)
    }

    /// Returns what a virtual controller is written for its hierarchy to be disconnected.
    pub fn disconnect() -> Write {
        Write {
            on: false,
            seen: false,
            announces: None,
        }
    }
}

/// The slots of a switch of which users were told that a component is announced.
#[derive(Clone, Copy, Default)]
pub struct Announced(u32);

impl Announced {
    /// Returns whether there is something to tell of a port: a component is announced, and users were not
    /// told. Forgets what is not announced any more.
    pub fn is_news(&mut self, port: u8, now: Controller) -> bool {
        if !now.announced {
            self.0 &= !bit(port);
        }
        now.announced && self.0 & bit(port) == 0
    }

    /// Notes that users were told of a port.
    pub fn told(&mut self, port: u8) {
        self.0 |= bit(port);
    }
}

fn bit(port: u8) -> u32 {
    1u32.checked_shl(port.into()).unwrap_or(0)
}
