// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Files over message channels that may break at any time.
//!
//! The protocol is written down in `Documentation/transfer.rst`. What carries the
//! messages is known here by [`Wire`] alone, so that both ends can be tested in
//! one process. The peer is not trusted: whatever it says is checked here.

pub mod digest;
pub mod folder;
pub mod message;
pub mod receiver;
pub mod sender;

use crate::failure::Failure;
use std::fmt;
use std::time::{Duration, Instant};

/// Bytes of the file in one message, at most.
pub const CHUNK: usize = 64 << 10;

/// A connection to the other end, by which whole messages go in order.
pub trait Wire {
    /// Sends one message; `false`: there is no room for it now.
    fn try_send(&mut self, tag: u64, payload: &[u8]) -> Result<bool, Broken>;

    /// Takes the next message, replacing what is in `payload`, and returns its
    /// tag; `None`: there is none now. What came before a break comes first.
    fn try_receive(&mut self, payload: &mut Vec<u8>) -> Result<Option<u64>, Broken>;

    /// Sleeps until what is wanted may be there, or the connection broke, or it is
    /// `until`.
    fn wait(&mut self, want: Want, until: Instant) -> Result<(), Broken>;
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A message to be received.
    Message,
    /// Room for one to be sent.
    Room,
    /// Whichever comes first.
    Either,
}

/// A connection that carries nothing more.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The peer closed it; otherwise messages may be lost.
    pub closed: bool,
    /// What happened.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub struct NoConnection {
    /// What to report if it stays so.
    pub failure: Failure,
    /// Whether it may work later.
    pub passing: bool,
    /// Whether the time ended before any answer came.
    pub unanswered: bool,
}

/// Something that connects to the receiver, again and again.
pub trait Connect {
    /// What it makes.
    type Wire: Wire;
    /// Connects, or gives up at `until` or before.
    fn connect(&mut self, until: Instant) -> Result<Self::Wire, NoConnection>;
}

/// How long to go on without any progress.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until giving up.
    pub timeout: Duration,
    /// Pause before the first new connection; each further one is twice as long.
    pub pause: Duration,
    /// Longest pause.
    pub longest: Duration,
    /// Whether the very first connection may be waited for as well.
    pub at_first: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            timeout: Duration::from_secs(30),
            pause: Duration::from_millis(20),
            longest: Duration::from_secs(1),
            at_first: false,
        }
    }
}

/// What is the same for both ends of a transfer that succeeded.
#[derive(Clone, Debug)]
pub struct Report {
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first offer to the verdict.
    pub elapsed: Duration,
    /// SHA-256 as this end has it.
    pub here: digest::Digest,
    /// SHA-256 as the other end has it.
    pub there: digest::Digest,
    /// How often the transfer went on over a new connection.
    pub resumed: u32,
}

/// Told how many bytes the other end has, of how many.
pub type Watcher<'a> = &'a mut dyn FnMut(u64, u64);
