// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the state machine wants done, and what it reports to people.

use super::FaultState;
use crate::topology::Power;
use crate::wire::ToPort;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A connection of a port. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u64);

/// Something to do outside of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message.
    Send {
        /// The receiver.
        to: PortId,
        /// What.
        message: ToPort,
        /// Along with the three descriptors of this port.
        descriptors: Option<PortId>,
    },
    /// Tell a connection why it is not wanted, then close it.
    Refuse {
        /// Which one.
        port: PortId,
        /// What it is told.
        why: String,
    },
    /// Close a connection at once.
    Close {
        /// Which one.
        port: PortId,
        /// For the log.
        why: String,
    },
    /// A port answered a request for its counters.
    Counters {
        /// Of which host.
        host: usize,
        /// Number of the request.
        request: u64,
        /// In the order of `WEFT_CNT_*`.
        values: Vec<u64>,
    },
    /// All that a command's change of tables broke has been let go of.
    Withdrawn {
        /// Number of the command's request.
        request: u64,
    },
    /// Tell all that listen.
    Event(Event),
}

/// Something that happened in the fabric, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs)] // one sentence each in Display
pub enum Event {
    Connected { node: String, generation: u32, hwid: u64 },
    Refused { node: String, why: String },
    Complaint { node: String, why: String },
    Reset { node: String, generation: u32 },
    Gone { node: String, generation: u32, why: String },
    LinkUp { ends: [String; 2], speed: u8, width: u8 },
    LinkDown { ends: [String; 2], why: String },
    LinkRate { ends: [String; 2], speed: u8, width: u8 },
    Cable { ends: [String; 2], state: AdminState, speed: u8, width: u8, power: Power },
    Trace { node: String, on: bool },
    Table { node: String, change: String, master: u64, term: u32 },
    Plug { node: String, plugged: bool },
    Presence { slot: String, present: bool, announced: bool },
    Fault { number: u32, fault: String, state: FaultState },
    Adversarial { node: String, seed: Option<u64> },
}

/// What the administrator wants of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum AdminState {
    Up,
    Down,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connected { node, generation, hwid } => {
                write!(f, "{node} connected, generation {generation}, hwid {hwid}")
            }
            Event::Refused { node, why } => write!(f, "\"{node}\" refused: {why}"),
            Event::Complaint { node, why } => write!(f, "{node} broke the protocol: {why}"),
            Event::Reset { node, generation } => write!(f, "{node} reset, generation {generation}"),
            Event::Gone { node, generation, why } => {
                write!(f, "{node} gone, generation {generation}: {why}")
            }
            Event::LinkUp { ends: [a, b], speed, width } => {
                write!(f, "link {a}--{b} up, gen{speed} x{width}")
            }
            Event::LinkDown { ends: [a, b], why } => write!(f, "link {a}--{b} down: {why}"),
            Event::LinkRate { ends: [a, b], speed, width } => {
                write!(f, "link {a}--{b} runs at gen{speed} x{width}")
            }
            Event::Cable { ends: [a, b], state, speed, width, power } => {
                let state = match state {
                    AdminState::Up => "on",
                    AdminState::Down => "off",
                };
                write!(f, "cable {a}--{b} set: {state}, at most gen{speed} x{width}")?;
                match power {
                    Power::Performance => Ok(()),
                    Power::Auto => write!(f, ", as its traffic asks"),
                }
            }
            Event::Trace { node, on: true } => write!(f, "{node} traced"),
            Event::Trace { node, on: false } => write!(f, "{node} no longer traced"),
            Event::Table { node, change, master: 0, .. } => {
                write!(f, "{node}: {change}, by the administrator")
            }
            Event::Table { node, change, master, term } => {
                write!(f, "{node}: {change}, by master {master} in term {term}")
            }
            Event::Plug { node, plugged: true } => write!(f, "{node} plugged in"),
            Event::Plug { node, plugged: false } => write!(f, "{node} unplugged"),
            Event::Presence { slot, present, announced } => match (present, announced) {
                (false, true) => write!(f, "slot {slot}: something will be plugged in"),
                (true, true) => write!(f, "slot {slot}: what is there will be unplugged"),
                (true, false) => write!(f, "slot {slot}: presence detect changed, occupied"),
                (false, false) => write!(f, "slot {slot}: presence detect changed, empty"),
            },
            Event::Fault { number, fault, state } => {
                let state = match state {
                    FaultState::Begun => "injected",
                    FaultState::Over => "over",
                    FaultState::Cleared => "cleared",
                };
                write!(f, "fault {number} {state}: {fault}")
            }
            Event::Adversarial { node, seed: Some(seed) } => {
                write!(f, "{node} adversarial, seed {seed}")
            }
            Event::Adversarial { node, seed: None } => write!(f, "{node} no longer adversarial"),
        }
    }
}
