// SPDX-License-Identifier: GPL-2.0

//! Calls: hellos of hosts to which no link leads. Such a host has aimed a link at this one, and asks for one
//! back.
//!
//! A call is not believed beyond what this host's manager knows by itself: the link is aimed at the node that has this
//! hardware id and this local id, or at none. What a call may take, `proto::reach` says.

use super::{
    super::host::{ManagerHost, Spared},
    aims::is_next_door,
    Reaching, Ways,
};
use crate::{
    hw::Port,
    proto::wire::Message,
    sys::{clock, queue::Queue},
};
use kernel::{prelude::*, sync::atomic::Relaxed};

/// The most calls that wait. Callers repeat them.
const DEPTH: usize = 16;

/// A hello that came from this local id.
#[derive(Clone, Copy)]
pub(super) struct Call {
    lid: u32,
    hello: Message,
}

/// Makes the queue of the calls that wait.
pub(super) fn queue() -> Result<Queue<Call>> {
    let none = Call {
        lid: 0,
        hello: Message::BLANK,
    };
    Queue::new(none, DEPTH)
}

impl Reaching {
    /// Queues a call for [`Self::answer_calls`]. One that finds no room is lost.
    pub(in crate::fabric) fn called(&self, lid: u32, hello: Message) {
        let _ = self.calls.lock().put(Call { lid, hello });
    }

    /// Returns how many calls were refused.
    pub(crate) fn calls_refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Follows the calls that wait, as far as they may be.
    pub(in crate::fabric) fn answer_calls(
        &self,
        node: &dyn ManagerHost,
        ways: &dyn Ways,
        port: &dyn Port,
    ) {
        for _ in 0..DEPTH {
            let next = self.calls.lock().take();
            let Some(call) = next else {
                return;
            };
            if !self.answer(node, ways, port, &call) {
                self.refused.fetch_add(1, Relaxed);
            }
        }
    }

    /// Aims a link at the host that calls. Returns false if that is refused.
    fn answer(
        &self,
        node: &dyn ManagerHost,
        ways: &dyn Ways,
        port: &dyn Port,
        call: &Call,
    ) -> bool {
        let hwid = call.hello.header.from.hwid;
        let keyring = ways.keyring().filter(|keyring| keyring.nonce() != 0);
        if keyring.is_some_and(|keyring| !keyring.is_proved(&call.hello)) {
            return false;
        }
        let aim = ways.aim(hwid, None);
        let Some(aim) = aim.filter(|aim| aim.lid == call.lid) else {
            return false;
        };
        if is_next_door(node, port, hwid, &aim) {
            return false;
        }
        let mut aims = self.aims.lock();
        if aims.reach.link_to(hwid).is_some() {
            // It has followed the same call before.
            return true;
        }
        let now = clock::now_ms();
        let uses = aims.uses(node);
        aims.reach.note(uses, now);
        let Ok(link) = aims.reach.answer(uses, now) else {
            return false;
        };
        let done = aims.set(node, link, Some(aim), Spared::Used);
        if done.is_ok() {
            aims.reach.lead(link, hwid, true, now);
        }
        done.is_ok()
    }
}
