// SPDX-License-Identifier: GPL-2.0

//! Which hosts the routed links of a port lead to, for every function that has such links.
//!
//! A program that connects has a link aimed, and so has a host that calls. The ways to hosts are known to the network
//! manager of the port's first function; a function without a manager asks for them: see [`Ways`]. This file must
//! not know what uses a link, nor how routes are made.
//!
//! # Locks
//!
//! `Reaching::aims` is inside the lock of a manager, and outside the locks of the links. The calls are innermost.

mod aims;
mod call;

use self::{aims::Aims, call::Call};
use super::{host::ManagerHost, keyring::Keyring};
use crate::{
    hw::{Aim, Port},
    sys::queue::Queue,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{atomic::Atomic, Arc, Mutex},
    time::Msecs,
};

/// How often to look whether links still lead to their hosts, if nothing tells of changes, and after which time to
/// try again what has failed.
const FOLLOW_MS: Msecs = 1000;
const AGAIN_MS: Msecs = 100;

/// What is known of the ways from one port.
pub(super) trait Ways {
    /// Returns what a link to the function with this hardware id is to be aimed at. `None`: there is no such
    /// function, this port reaches another one of its host, or no route leads there. `before`, if that cannot be
    /// told now. May sleep; no lock is held but that of a manager.
    fn aim(&self, hwid: u64, before: Option<Aim>) -> Option<Aim>;

    /// Returns the key by which callers have to prove their ids, if this port may have one.
    fn keyring(&self) -> Option<&Keyring>;
}

/// The routed links of a port.
#[pin_data]
pub(crate) struct Reaching {
    /// Where they lead.
    #[pin]
    aims: Mutex<Aims>,
    #[pin]
    calls: Mutex<Queue<Call>>,
    /// Calls that were not followed.
    refused: Atomic<u64>,
}

impl Reaching {
    /// Makes the state of `far` routed links, of which the first has the number `near`.
    pub(super) fn new(near: usize, far: usize) -> Result<Arc<Self>> {
        let calls = call::queue()?;
        Arc::pin_init(
            pin_init!(Self {
                aims <- new_mutex!(Aims::new(near, far), "weft aims"),
                calls <- new_mutex!(calls, "weft calls"),
                refused: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Does what is due for a port without a manager. Returns after how many milliseconds it wants to be called again;
    /// `None`: not before it is scheduled.
    pub(super) fn run(
        &self,
        node: &dyn ManagerHost,
        ways: &dyn Ways,
        port: &dyn Port,
    ) -> Option<Msecs> {
        let again = self.follow(node, ways);
        self.answer_calls(node, ways, port);
        match (again, self.is_led()) {
            (true, _) => Some(AGAIN_MS),
            (false, true) => Some(FOLLOW_MS),
            (false, false) => None,
        }
    }
}
