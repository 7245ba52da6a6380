// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Heartbeats: how often an end says that it lives, and for how long it may be silent.
//!
//! The state machine of links and the quiescing of sessions both depend on these times, and not on each
//! other. All times are in milliseconds.

/// Time without a message after which the peer is taken for dead.
pub const SILENCE_MS: u64 = 3000;
/// Interval between heartbeats of an end that is READY. More than half of what an idle end sends are
/// heartbeats, and seven of them make a silence: a mailbox that loses one message in three, in step with
/// them or not, loses never all.
pub const HEARTBEAT_MS: u64 = 400;
