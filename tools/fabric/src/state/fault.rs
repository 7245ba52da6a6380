// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Faults on command: what can be asked for, and which of it the ports have to act
//! out.

use super::Refusal;
use crate::wire::abi::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest period of a flap and latency of a link.
const MAX_US: u64 = 3_600_000_000;
/// The shortest period of a flap.
const MIN_PERIOD_MS: u64 = 2;

/// A fault, as the administrator asks for it. An `end` is a host's end of a
/// link, as in `h1:0`; a `count` says how often it strikes, `None` for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // Documentation/fabric.rst has a table
pub enum Fault {
    Flap { end: String, count: u64, period_ms: u64 },
    SurpriseDown { end: String },
    Slow { end: String, latency_us: u64, bytes_per_second: u64 },
    PoisonedRead { end: String, count: Option<u64> },
    PoisonedWrite { end: String, count: Option<u64> },
    CompletionTimeout { end: String, count: Option<u64> },
    Mailbox { end: String, does: Spoil, count: Option<u64>, every: Option<u64> },
    StuckDoorbell { end: String },
    MemoryGone { node: String },
    AllOnes { node: String },
    DmaError { node: String, count: Option<u64> },
    StalledEndpoint { node: String },
    Vpd { node: String },
}

/// What becomes of a mailbox message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Spoil {
    Drop,
    Duplicate,
    Corrupt,
}

/// How far a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum FaultState {
    Begun,
    /// It has struck as often as it was to.
    Over,
    Cleared,
}

/// A fault in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// By which it can be cleared.
    pub number: u32,
    /// As it was asked for.
    #[serde(flatten)]
    pub fault: Fault,
    /// How often it still strikes, where this is counted here and not by a port.
    pub left: Option<u64>,
}

impl Fault {
    /// The end that it names, if it is of a link.
    pub(super) fn end(&self) -> Option<&str> {
        match self {
            Fault::Flap { end, .. }
            | Fault::SurpriseDown { end }
            | Fault::Slow { end, .. }
            | Fault::PoisonedRead { end, .. }
            | Fault::PoisonedWrite { end, .. }
            | Fault::CompletionTimeout { end, .. }
            | Fault::Mailbox { end, .. }
            | Fault::StuckDoorbell { end } => Some(end),
            Fault::MemoryGone { .. }
            | Fault::AllOnes { .. }
            | Fault::DmaError { .. }
            | Fault::StalledEndpoint { .. }
            | Fault::Vpd { .. } => None,
        }
    }

    /// How often it strikes; `None`: for ever.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Fault::Flap { count, .. } => Some(*count),
            Fault::PoisonedRead { count, .. }
            | Fault::PoisonedWrite { count, .. }
            | Fault::CompletionTimeout { count, .. }
            | Fault::DmaError { count, .. }
            | Fault::Mailbox { count, .. } => *count,
            _ => None,
        }
    }

    /// What the ports call it, and whether both ends of the link act it out.
    pub(super) fn device_kind(&self) -> Option<(u32, bool)> {
        Some(match self {
            Fault::SurpriseDown { .. } => (WEFT_FAB_FAULT_DEAD, true),
            Fault::Slow { .. } => (WEFT_FAB_FAULT_SLOW, true),
            Fault::PoisonedRead { .. } => (WEFT_FAB_FAULT_POISONED_READ, false),
            Fault::PoisonedWrite { .. } => (WEFT_FAB_FAULT_POISONED_WRITE, false),
            Fault::CompletionTimeout { .. } => (WEFT_FAB_FAULT_TIMEOUT, false),
            Fault::StuckDoorbell { .. } => (WEFT_FAB_FAULT_DOORBELL, false),
            Fault::MemoryGone { .. } => (WEFT_FAB_FAULT_MEMORY, false),
            Fault::AllOnes { .. } => (WEFT_FAB_FAULT_ONES, false),
            Fault::DmaError { .. } => (WEFT_FAB_FAULT_DMA, false),
            Fault::StalledEndpoint { .. } => (WEFT_FAB_FAULT_STALL, false),
            Fault::Flap { .. } | Fault::Mailbox { .. } | Fault::Vpd { .. } => return None,
        })
    }

    /// Whether two cannot be told apart by what they do.
    pub(super) fn is_like(&self, other: &Fault) -> bool {
        match (self, other) {
            (Fault::Mailbox { does: a, .. }, Fault::Mailbox { does: b, .. }) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Refuses what makes no sense, wherever it is.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let refuse = |why: String| Err(Refusal(why));
        if self.count() == Some(0) {
            return refuse("a fault that strikes 0 times; give a count of 1 or more".into());
        }
        match self {
            Fault::Flap { period_ms, .. }
                if !(MIN_PERIOD_MS..=MAX_US / 1000).contains(period_ms) =>
            {
                refuse(format!(
                    "a period of {period_ms} ms; give {MIN_PERIOD_MS} to {} ms",
                    MAX_US / 1000
                ))
            }
            Fault::Slow { latency_us: 0, bytes_per_second: 0, .. } => {
                refuse("a slow link that is not slow; give a latency or a bandwidth".into())
            }
            Fault::Slow { latency_us, .. } if *latency_us > MAX_US => {
                refuse(format!("a latency of {latency_us} us; give at most {MAX_US}"))
            }
            Fault::Mailbox { every: Some(0), .. } => {
                refuse("every 0th message; give 1 or more".into())
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Flap { end, period_ms, .. } => {
                write!(f, "flap of the link at {end}, {period_ms} ms each")
            }
            Fault::SurpriseDown { end } => write!(f, "surprise down of the link at {end}"),
            Fault::Slow { end, latency_us, bytes_per_second } => {
                write!(f, "slow link at {end}: {latency_us} us")?;
                if *bytes_per_second > 0 {
                    write!(f, ", {bytes_per_second} bytes a second")?;
                }
                Ok(())
            }
            Fault::PoisonedRead { end, .. } => write!(f, "poisoned answers to reads of {end}"),
            Fault::PoisonedWrite { end, .. } => write!(f, "poisoned writes of {end}"),
            Fault::CompletionTimeout { end, .. } => write!(f, "reads of {end} without an answer"),
            Fault::Mailbox { end, does, every, .. } => {
                let does = match does {
                    Spoil::Drop => "dropped",
                    Spoil::Duplicate => "duplicated",
                    Spoil::Corrupt => "corrupted",
                };
                write!(f, "mailbox messages of {end} {does}")?;
                if let Some(every) = every {
                    write!(f, ", one in {every}")?;
                }
                Ok(())
            }
            Fault::StuckDoorbell { end } => write!(f, "doorbells that {end} is to hear are stuck"),
            Fault::MemoryGone { node } => write!(f, "memory of {node} gone"),
            Fault::AllOnes { node } => write!(f, "the port of {node} answers nothing"),
            Fault::DmaError { node, .. } => write!(f, "DMA of {node} fails"),
            Fault::StalledEndpoint { node } => write!(f, "functions of {node} do no work"),
            Fault::Vpd { node } => write!(f, "VPD of {node} damaged"),
        }
    }
}
