// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Moving a virtual function to another one: what is asked of the driver, and what it says.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What shall be.
#[derive(Clone, Debug)]
pub struct Migrate {
    /// Number of the function that moves, at its port.
    pub vf: u32,
    /// Number of the one that takes its place, at its own.
    pub target_vf: u32,
    /// Only ask what stands against it.
    pub dry_run: bool,
    /// Stop users that do not finish in time; without, they stay, and so does the function.
    pub stop: bool,
    /// Users notice nothing but that it takes a while.
    pub live: bool,
    /// How long they may take; `None`: what the driver finds right.
    pub timeout: Option<Duration>,
}

/// The other function of a migration.
pub(crate) enum Other<'a> {
    /// One of this port, or of another port of this host.
    Port(BorrowedFd<'a>),
    /// The target, by its hardware id, which is another host's.
    Far(u64),
    /// The source, which is another host's: the hardware id that may come, 0 for any.
    Source(u64),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing was begun: it was only asked.
    Asked,
    /// The source is as it was.
    Stayed,
    /// The target is in its place.
    Moved,
    /// The source has the identity, but no driver.
    AtSource,
    /// The same, of the target.
    AtTarget,
    /// The source is gone, and the target not to be had.
    Lost,
}

impl Outcome {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Asked => "asked",
            Outcome::Stayed => "stayed",
            Outcome::Moved => "moved",
            Outcome::AtSource => "at-source",
            Outcome::AtTarget => "at-target",
            Outcome::Lost => "lost",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What stands against a migration, each with a word and for people.
const OBSTACLES: [(u32, &str, &str); 11] = [
    (abi::WEFT_MIGRATE_SAME, "same", "source and target are the same"),
    (abi::WEFT_MIGRATE_INCAPABLE, "incapable", "the hardware cannot change who a VF is"),
    (abi::WEFT_MIGRATE_UNKNOWN, "unknown", "a port is not attached to a fabric"),
    (abi::WEFT_MIGRATE_UNEQUAL, "unequal", "the target has less than the source"),
    (abi::WEFT_MIGRATE_NO_SOURCE, "no-source", "the source is not enabled"),
    (abi::WEFT_MIGRATE_NO_TARGET, "no-target", "the target is not enabled"),
    (abi::WEFT_MIGRATE_TAKEN, "taken", "the target is used, or another driver has it"),
    (abi::WEFT_MIGRATE_SILENT, "silent", "the driver of the source cannot be asked to finish"),
    (abi::WEFT_MIGRATE_ELSEWHERE, "elsewhere", "they are VFs of different functions"),
    (abi::WEFT_MIGRATE_FOREIGN, "foreign", "another driver has the source, or none"),
    (abi::WEFT_MIGRATE_CHANNELS, "channels", "channels are open over the source"),
];
const STEPS: [&str; 9] =
    ["", "claim", "finish", "stop", "release", "cut", "attach", "configure", "start"];
const EVENTS: [&str; 6] = ["", "failed", "timeout", "cancelled", "source-gone", "target-gone"];

/// What became of a migration.
#[derive(Clone, Debug)]
pub struct Migration {
    /// How it ended.
    pub outcome: Outcome,
    /// Hardware id that moves.
    pub hwid: u64,
    /// Where something went wrong first, and what.
    pub why: Option<(&'static str, &'static str)>,
    /// What the source's driver has said last that is outstanding.
    pub outstanding: u32,
    obstacles: u32,
}

impl Migration {
    /// What stands against it, a word each.
    pub fn obstacles(&self) -> impl Iterator<Item = &'static str> {
        let bits = self.obstacles;
        OBSTACLES.iter().filter(move |(bit, ..)| bits & bit != 0).map(|(_, word, _)| *word)
    }

    /// The same, for people.
    pub fn reasons(&self) -> impl Iterator<Item = &'static str> {
        let bits = self.obstacles;
        OBSTACLES.iter().filter(move |(bit, ..)| bits & bit != 0).map(|(.., text)| *text)
    }

    /// Whether nothing stands against it.
    pub fn is_possible(&self) -> bool {
        self.obstacles == 0
    }
}

/// Calls the driver.
pub(crate) fn migrate(
    port: BorrowedFd<'_>,
    other: Other<'_>,
    options: &Migrate,
) -> Result<Migration> {
    let (flag, target_fd, hwid) = match other {
        Other::Port(target) => (0, target.as_raw_fd(), 0),
        Other::Far(hwid) => (abi::WEFT_MIGRATE_FAR, -1, hwid),
        Other::Source(hwid) => (abi::WEFT_MIGRATE_RECEIVE, -1, hwid),
    };
    let ms = options.timeout.map_or(0, |timeout| timeout.as_millis().max(1));
    let mut call = abi::weft_vf_migrate {
        flags: flag
            | if options.dry_run { abi::WEFT_MIGRATE_DRY_RUN } else { 0 }
            | if options.stop { abi::WEFT_MIGRATE_STOP } else { 0 }
            | if options.live { abi::WEFT_MIGRATE_LIVE } else { 0 },
        vf: options.vf,
        target_fd,
        hwid,
        target_vf: options.target_vf,
        timeout_ms: u32::try_from(ms).unwrap_or(u32::MAX),
        ..Default::default()
    };
    call.call(port).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::BUSY) => Error::Busy,
        Some(Errno::NOENT) => Error::Invalid("there is no such VF".into()),
        Some(Errno::TIMEDOUT) => Error::TimedOut("no host has asked for the VF"),
        Some(Errno::OPNOTSUPP) if flag != 0 => Error::Invalid(
            "this VF moves to no other host: its port has no manager or the fabric is at scale, or it has the id of \
             another port's"
                .into(),
        ),
        Some(Errno::NOSPC) if flag != 0 => {
            Error::Invalid("as many VFs of the fabric as can be are moving between hosts".into())
        }
        _ => Error::os("moving a VF", e),
    })?;
    let name = |names: &[&'static str], n: u32| names.get(n as usize).copied().unwrap_or("other");
    Ok(Migration {
        outcome: match call.outcome {
            0 => Outcome::Asked,
            abi::WEFT_MIGRATE_STAYED => Outcome::Stayed,
            abi::WEFT_MIGRATE_MOVED => Outcome::Moved,
            abi::WEFT_MIGRATE_AT_SOURCE => Outcome::AtSource,
            abi::WEFT_MIGRATE_AT_TARGET => Outcome::AtTarget,
            abi::WEFT_MIGRATE_LOST => Outcome::Lost,
            _ => return Err(Error::Driver("an unknown outcome of a migration")),
        },
        hwid: call.hwid,
        why: (call.step != 0).then(|| (name(&STEPS, call.step), name(&EVENTS, call.event))),
        outstanding: call.outstanding,
        obstacles: call.obstacles,
    })
}
