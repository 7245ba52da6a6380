// SPDX-License-Identifier: GPL-2.0

//! What has become of a link, for people who wonder why it does not work: sysfs shows it, and
//! `weftctl diagnose` draws its conclusions. Nothing in the driver depends on it.

use super::Reason;
use crate::{proto::wire, sys::clock};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// What the hello needs of this end.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Grant = 1,
    Withdraw = 2,
    Attach = 3,
}

impl Need {
    /// As [`Health::failed`] is shown.
    fn name(raw: u32) -> &'static CStr {
        match raw {
            1 => c"grant",
            2 => c"withdraw",
            3 => c"attach",
            _ => c"none",
        }
    }

    /// For the log.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Grant => "grant its arena",
            Self::Withdraw => "withdraw its arena",
            Self::Attach => "attach its window to what the peer offers",
        }
    }
}

fn reason_number(reason: Reason) -> u32 {
    match reason {
        Reason::Link => 1,
        Reason::Silence => 2,
        Reason::Bye => 3,
        Reason::Restart => 4,
        Reason::Removed => 5,
    }
}

fn reason_name(raw: u32) -> &'static CStr {
    match raw {
        1 => c"link",
        2 => c"silence",
        3 => c"bye",
        4 => c"restart",
        5 => c"removed",
        _ => c"none",
    }
}

/// The history of a link since the driver was bound. Each member by itself.
pub(super) struct Health {
    /// Version of the protocol that the neighbour spoke last, 0 if it was silent since the link
    /// came up, or since it was READY.
    peer_version: Atomic<u32>,
    /// What came by the mailbox since then and was no message.
    bad: Atomic<u64>,
    /// How often the link became READY.
    readied: Atomic<u64>,
    /// Why it was READY no longer.
    ended: Atomic<u32>,
    /// What failed of the last hello, a [`Need`].
    failed: Atomic<u32>,
    /// Since when an echo is waited for, in milliseconds; 0: it is not.
    asked: Atomic<u64>,
}

/// As it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) peer_version: u32,
    pub(crate) messages_bad: u64,
    pub(crate) readied: u64,
    pub(crate) ended: &'static CStr,
    pub(crate) hello_error: &'static CStr,
    /// Milliseconds since the neighbour was asked to ring back and has not.
    pub(crate) echo_overdue: u64,
}

impl Health {
    pub(super) const fn new() -> Self {
        Self {
            peer_version: Atomic::new(0),
            bad: Atomic::new(0),
            readied: Atomic::new(0),
            ended: Atomic::new(0),
            failed: Atomic::new(0),
            asked: Atomic::new(0),
        }
    }

    /// Something came by the mailbox.
    pub(super) fn heard(&self, parsed: &Result<wire::Message, wire::Error>) {
        match parsed {
            Ok(_) => self.peer_version.store(wire::VERSION.into(), Relaxed),
            Err(wire::Error::Version(other)) => {
                self.peer_version.store((*other).into(), Relaxed);
            }
            Err(_) => {
                self.bad.fetch_add(1, Relaxed);
            }
        }
    }

    /// The link is down: the next peer may be another one.
    pub(super) fn down(&self) {
        self.forget();
        self.failed.store(0, Relaxed);
    }

    fn forget(&self) {
        self.peer_version.store(0, Relaxed);
        self.bad.store(0, Relaxed);
    }

    pub(super) fn ready(&self) {
        self.readied.fetch_add(1, Relaxed);
        self.failed.store(0, Relaxed);
    }

    pub(super) fn broken(&self, reason: Reason) {
        // In another life it has been heard already.
        if reason != Reason::Restart {
            self.forget();
        }
        self.ended.store(reason_number(reason), Relaxed);
        self.asked.store(0, Relaxed);
    }

    pub(super) fn failed(&self, need: Need) {
        self.failed.store(need as u32, Relaxed);
    }

    /// The neighbour is asked to ring back. Any context.
    pub(super) fn asked(&self) {
        // What was asked first is what is overdue.
        if self.asked.load(Relaxed) == 0 {
            self.asked.store(clock::now_ms().max(1), Relaxed);
        }
    }

    /// The neighbour has rung. Any context.
    pub(super) fn rung(&self) {
        if self.asked.load(Relaxed) != 0 {
            self.asked.store(0, Relaxed);
        }
    }

    pub(super) fn record(&self) -> Record {
        Record {
            peer_version: self.peer_version.load(Relaxed),
            messages_bad: self.bad.load(Relaxed),
            readied: self.readied.load(Relaxed),
            ended: reason_name(self.ended.load(Relaxed)),
            hello_error: Need::name(self.failed.load(Relaxed)),
            echo_overdue: match self.asked.load(Relaxed) {
                0 => 0,
                since => clock::now_ms().saturating_sub(since),
            },
        }
    }
}
