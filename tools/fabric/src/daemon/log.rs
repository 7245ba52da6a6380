// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The log on standard error: a line an event, with the time of day in UTC. A
//! log that cannot be written is not worth dying for.

use crate::control::Stamped;
use crate::state::Event;
use std::fmt::Display;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Gives an event its time.
pub fn stamp(event: Event) -> Stamped {
    Stamped { time_ms: now_ms(), event }
}

/// Logs an event.
pub fn event(stamped: &Stamped) {
    write(stamped.time_ms, &stamped.event);
}

/// Logs what is of no interest to scripts.
pub fn line(text: &str) {
    write(now_ms(), &text);
}

fn write(time_ms: u64, what: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "{} {what}", clock(time_ms));
}

/// Time of day in UTC, as in `04:05:06.789Z`.
pub fn clock(time_ms: u64) -> String {
    let (s, ms) = (time_ms / 1000, time_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}Z", s / 3600 % 24, s / 60 % 60, s % 60)
}
