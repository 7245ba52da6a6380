// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Carries a function of a shared endpoint over a change of its route: nothing that was asked of it is
//! lost, and nothing is done twice.
//!
//! A function that holds works only while the host has agreed to the number of the route by which the
//! endpoint reaches it. When that route, or the host's own, is lost or another one, the function is
//! *held*: the endpoint stops where it is, and keeps what it has and how far it has come. This file says
//! in which order the host then does what: it has the endpoint confirm that it does nothing, opens its
//! memory by the new route, repeats what may have got lost on the way there, and agrees to the new route.
//! It is independent of how registers are reached.
//!
//! What the endpoint says is believed as far as it concerns its own work alone: one that lies loses no
//! memory of the host but what is open to it anyway.

/// How long a function may be held, in milliseconds: a route that is not back by then is gone.
pub const HELD_MS: u64 = 30_000;
/// The highest number of a route of an endpoint. Numbers above are none: the host has the endpoint
/// confirm that it has seen them.
const LAST_ROUTE: u32 = 0x7fff_ffff;
/// What a read returns that is not answered.
const SILENT: u32 = u32::MAX;

/// Registers of the function, read by one route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// What the host has written when it enabled the function.
    pub ctrl: u32,
    /// The function is enabled.
    pub enabled: bool,
    /// Why it has failed; 0: it has not.
    pub failed: u32,
    /// The number of the endpoint's route to the host, 0: there is none.
    pub route: u32,
    /// The number of the route that the host has agreed to,
    pub go: u32,
    /// what the function has seen there,
    pub go_seen: u32,
    /// and whether it could read memory of the host when it saw that.
    pub probed: bool,
}

/// What is seen of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The number of the host's route to the endpoint, the same before and after the registers were read.
    /// `None`: there is none, or the endpoint is not open.
    pub route: Option<u32>,
    /// Registers that were read by it.
    pub registers: Registers,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing now: to look again later.
    Wait,
    /// To write this number to GO.
    Pause(u32),
    /// To open all memory anew, and then to call [`Reroute::opened`] with this number.
    Open(u32),
    /// To write all work that is not done, and all counts.
    Fill,
    /// To write this number to GO.
    Go(u32),
    /// The function works, and the host's route has this number.
    Works(u32),
    /// The function is another one than the host has enabled: the endpoint was reset.
    Gone,
    /// The function has failed, for this reason.
    Failed(u32),
    /// There was no way for [`HELD_MS`]: there, or, if `back`, from the endpoint to this host.
    Late {
        /// The endpoint could be asked, and said that it has no route.
        back: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Works {
        ours: u32,
        theirs: u32,
    },
    /// All work and counts were written by `ours`; whether that has arrived is not known yet.
    Filled {
        ours: u32,
        theirs: u32,
    },
    /// The host has agreed to `theirs`, by `ours`; whether that has arrived is not known yet.
    Going {
        ours: u32,
        theirs: u32,
    },
    Held,
}

/// A function that holds, and where it is in a change of its route.
#[derive(Clone, Copy, Debug)]
pub struct Reroute {
    ctrl: u32,
    state: State,
    /// Since when it is held, in milliseconds.
    since: u64,
    /// What GO says while the function is to do nothing. Another number each time.
    token: u32,
    /// The endpoint's route by which all memory is open.
    opened: Option<u32>,
    /// The last that was heard: the endpoint has no route to this host.
    no_way_back: bool,
}

impl Reroute {
    /// A function that was enabled by `ctrl` works: the number of the host's route, and of that of the
    /// endpoint.
    pub fn new(ctrl: u32, ours: u32, theirs: u32) -> Self {
        Self {
            ctrl,
            state: State::Works { ours, theirs },
            since: 0,
            token: LAST_ROUTE,
            opened: None,
            no_way_back: false,
        }
    }

    /// Returns whether the function is not held, as far as is known.
    pub fn works(&self) -> bool {
        matches!(self.state, State::Works { .. })
    }

    /// The host's own route is lost or another one, or comes in by another gate: nothing that the host has
    /// written since it looked last can be relied on.
    pub fn lost(&mut self, now: u64) {
        if self.works() {
            self.since = now;
            self.no_way_back = false;
        }
        self.hold();
    }

    /// The endpoint says that its route has this number. If it is not the one that it works by, the
    /// function is held.
    pub fn heard(&mut self, theirs: u32, now: u64) {
        if matches!(self.state, State::Works { theirs: before, .. } if before != theirs && theirs != SILENT)
        {
            self.lost(now);
        }
    }

    /// All memory was opened while the function was held and the endpoint's route was `theirs`.
    ///
    /// Whether the function reaches it is asked with another number in GO: the endpoint may come in by a gate
    /// that the host has not been told of yet.
    pub fn opened(&mut self, theirs: u32) {
        self.opened = Some(theirs);
        self.take_token();
    }

    /// Returns whether all was written that may have got lost. Two steps later the function works or is held
    /// anew, and what was written must be written again if they are not done now.
    pub fn is_filled(&self) -> bool {
        matches!(self.state, State::Filled { .. } | State::Going { .. })
    }

    /// The caller does no more steps for now, and lets others use the function. What they ask of it has to be
    /// written as well before it works.
    pub fn interrupted(&mut self) {
        if self.is_filled() {
            self.hold();
        }
    }

    fn hold(&mut self) {
        self.state = State::Held;
        self.opened = None;
        self.take_token();
    }

    fn take_token(&mut self) {
        // All ones is what a read looks like that is not answered.
        self.token = match self.token + 1 {
            SILENT => LAST_ROUTE + 1,
            token => token,
        };
    }

    /// Says what to do next for a function that is held. Called with what is seen now; again and again
    /// while it returns anything but [`Step::Wait`], [`Step::Works`] and an end. A caller that stops
    /// earlier calls [`Self::interrupted`].
    pub fn step(&mut self, seen: &Seen, now: u64) -> Step {
        let there = seen.route.filter(|_| !seen.registers.is_silent());
        match (self.state, there) {
            (State::Works { ours, .. }, _) => return Step::Works(ours),
            (State::Going { ours, theirs }, Some(route))
                if route == ours && seen.registers.is_agreed(self.ctrl, theirs) =>
            {
                // No other route was in between: what was written there has arrived.
                self.state = State::Works { ours, theirs };
                return Step::Works(ours);
            }
            (State::Filled { ours, theirs }, Some(route))
                if route == ours && seen.registers.is_agreed_but(self.ctrl, theirs, self.token) =>
            {
                // Only now: otherwise the function might take work that is not there.
                self.state = State::Going { ours, theirs };
                return Step::Go(theirs);
            }
            // What was written may have arrived, and the function work.
            (State::Going { .. } | State::Filled { .. }, _) => self.hold(),
            (State::Held, _) => {}
        }
        if now.saturating_sub(self.since) >= HELD_MS {
            let back = self.no_way_back;
            return Step::Late { back };
        }
        self.no_way_back = false;
        let Some(ours) = there else {
            return Step::Wait;
        };
        let registers = &seen.registers;
        if registers.ctrl != self.ctrl {
            return Step::Gone;
        }
        if registers.failed != 0 {
            return Step::Failed(registers.failed);
        }
        if !registers.enabled {
            return Step::Gone;
        }
        let theirs = registers.route;
        if theirs == 0 || theirs > LAST_ROUTE {
            self.no_way_back = true;
            return Step::Wait;
        }
        if (registers.go, registers.go_seen) != (self.token, self.token) {
            return Step::Pause(self.token);
        }
        if self.opened != Some(theirs) {
            return Step::Open(theirs);
        }
        if !registers.probed {
            self.opened = None;
            return Step::Wait;
        }
        self.state = State::Filled { ours, theirs };
        Step::Fill
    }
}

impl Registers {
    fn is_silent(&self) -> bool {
        [self.ctrl, self.route, self.go, self.go_seen].contains(&SILENT)
    }

    fn is_agreed(&self, ctrl: u32, theirs: u32) -> bool {
        self.is_agreed_but(ctrl, theirs, theirs)
    }

    /// As it was left, with this route, and with this in GO.
    fn is_agreed_but(&self, ctrl: u32, route: u32, go: u32) -> bool {
        let works = self.enabled && self.failed == 0;
        works && (self.ctrl, self.route, self.go) == (ctrl, route, go)
    }
}
