// SPDX-License-Identifier: GPL-2.0

//! The history of a link, to find out why it does not work: sysfs shows it, and `weftctl diagnose`
//! evaluates it. Nothing in the driver depends on it.

use super::Reason;
use crate::{proto::wire, sys::clock};
use kernel::{
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// What this end has to do for the hello.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Grant = 1,
    Withdraw = 2,
    Attach = 3,
}

impl Need {
    /// Returns the name of [`Health::failed`] in sysfs.
    fn name(raw: u32) -> &'static CStr {
        match raw {
            1 => c"grant",
            2 => c"withdraw",
            3 => c"attach",
            _ => c"none",
        }
    }

    /// Returns what could not be done, for the log.
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

/// The history of a link since the driver was bound. Each member is updated by itself.
pub(super) struct Health {
    /// Version of the protocol that the neighbour spoke last; 0 if it was silent since the link came up,
    /// or since it was READY.
    peer_version: Atomic<u32>,
    /// Malformed messages received since then, without those of another version of the protocol.
    bad: Atomic<u64>,
    /// Messages that were dropped because others of this neighbour waited.
    dropped: Atomic<u64>,
    /// Hellos that gave another hardware id than that of the neighbour.
    refused: Atomic<u64>,
    /// How often the link became READY.
    readied: Atomic<u64>,
    /// Why it was READY no longer.
    ended: Atomic<u32>,
    /// The [`Need`] that failed in the last hello.
    failed: Atomic<u32>,
    /// When an echo was asked for that has not come, in milliseconds; 0: none is awaited.
    asked: Atomic<u64>,
}

/// The history as it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) peer_version: u32,
    pub(crate) messages_bad: u64,
    pub(crate) messages_dropped: u64,
    pub(crate) hellos_refused: u64,
    pub(crate) readied: u64,
    pub(crate) ended: &'static CStr,
    pub(crate) hello_error: &'static CStr,
    /// Milliseconds since the neighbour was asked to ring back, if it has not; 0: it was not asked, or
    /// it rang.
    pub(crate) echo_overdue: u64,
}

impl Health {
    pub(super) const fn new() -> Self {
        Self {
            peer_version: Atomic::new(0),
            bad: Atomic::new(0),
            dropped: Atomic::new(0),
            refused: Atomic::new(0),
            readied: Atomic::new(0),
            ended: Atomic::new(0),
            failed: Atomic::new(0),
            asked: Atomic::new(0),
        }
    }

    /// Notes a message that was received, or what is wrong with it.
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

    /// A message was dropped because too many wait.
    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// Counts a hello that was refused. Returns how many were.
    pub(super) fn refused(&self) -> u64 {
        self.refused.fetch_add(1, Relaxed) + 1
    }

    /// The link is down: the next neighbour may be another one.
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
        // After a restart, the neighbour's new life has been heard already.
        if reason != Reason::Restart {
            self.forget();
        }
        self.ended.store(reason_number(reason), Relaxed);
        self.asked.store(0, Relaxed);
    }

    pub(super) fn failed(&self, need: Need) {
        self.failed.store(need as u32, Relaxed);
    }

    /// The neighbour was asked to ring back. Any context.
    pub(super) fn asked(&self) {
        // The oldest request counts for `echo_overdue`.
        if self.asked.load(Relaxed) == 0 {
            self.asked.store(clock::now_ms().max(1), Relaxed);
        }
    }

    /// The neighbour rang. Any context.
    pub(super) fn rung(&self) {
        if self.asked.load(Relaxed) != 0 {
            self.asked.store(0, Relaxed);
        }
    }

    /// Returns the name of the reason for which the link was READY no longer.
    pub(super) fn ended(&self) -> &'static CStr {
        reason_name(self.ended.load(Relaxed))
    }

    pub(super) fn record(&self) -> Record {
        Record {
            peer_version: self.peer_version.load(Relaxed),
            messages_bad: self.bad.load(Relaxed),
            messages_dropped: self.dropped.load(Relaxed),
            hellos_refused: self.refused.load(Relaxed),
            readied: self.readied.load(Relaxed),
            ended: self.ended(),
            hello_error: Need::name(self.failed.load(Relaxed)),
            echo_overdue: match self.asked.load(Relaxed) {
                0 => 0,
                since => clock::now_ms().saturating_sub(since),
            },
        }
    }
}
