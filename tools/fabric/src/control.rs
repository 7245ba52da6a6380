// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the command line and the daemon say to each other over `control.sock`:
//! one JSON object a line, a [`Reply`] for each [`Request`], in order. After
//! `events` has been answered the events follow.

use crate::state::{Event, Fault, FaultStatus, Status, TableStatus, WalkStatus};
use crate::topology::Power;
use crate::wire::abi::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version scripts can rely on; a later one only adds.
pub const CONTROL_VERSION: u32 = 1;
/// Longest request in bytes, its newline included.
pub const MAX_REQUEST: usize = 64 * 1024;

/// A request of the administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // as in the command line
pub enum Request {
    Status,
    LinkUp { end: String },
    LinkDown { end: String },
    LinkSet { end: String, speed: Option<u8>, width: Option<u8>, power: Option<Power> },
    Trace { node: String, on: bool },
    Adversarial { node: String, seed: Option<u64> },
    Counters { node: String, clear: bool },
    Tables { node: String },
    Walk { host: String, lid: u32 },
    RouteSet { node: String, lid: u32, port: Option<u8> },
    VpSet { end: String, vp: u8, vh: Option<u16> },
    Plug { node: String },
    Unplug { node: String },
    Announce { node: String, coming: bool },
    Inject { fault: Fault },
    InjectList,
    InjectClear { number: Option<u32> },
    Wait { nodes: Vec<String>, links: bool, timeout_ms: Option<u64> },
    Events,
    Stop,
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is done.
    Ok(Answer),
    /// It is not; says why and what to do.
    Error(String),
}

/// How the refusal of a wait begins that has lasted as long as it was to; what is missing follows.
pub const TIMED_OUT: &str = "timed out; ";

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Nothing to tell.
    Done,
    /// To [`Request::Status`].
    Status(DaemonStatus),
    /// To [`Request::Counters`].
    Counters(Counters),
    /// To [`Request::Tables`].
    Tables(TableStatus),
    /// To [`Request::Walk`].
    Walk(WalkStatus),
    /// To [`Request::Inject`]: the number of the fault.
    Injected(u32),
    /// To [`Request::InjectList`].
    Faults(Vec<FaultStatus>),
}

/// The fabric, and the daemon it runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// [`CONTROL_VERSION`].
    pub version: u32,
    /// Process id of the daemon.
    pub pid: u32,
    /// The topology's file, as it was given.
    pub topology: String,
    /// Messages the daemon could not pass on because their reader was too slow.
    pub dropped: BTreeMap<String, u64>,
    /// The rest.
    #[serde(flatten)]
    pub fabric: Status,
}

/// Counters of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Whose.
    pub node: String,
    /// By the names of [`COUNTERS`].
    pub counters: BTreeMap<String, u64>,
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// Milliseconds since 1970, UTC.
    pub time_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Names of the counters, in the order of their registers.
pub const COUNTERS: [&str; WEFT_COUNTERS as usize] = {
    let mut names = [""; WEFT_COUNTERS as usize];
    names[WEFT_CNT_TX_MWR as usize] = "tx_mwr";
    names[WEFT_CNT_TX_MWR_BYTES as usize] = "tx_mwr_bytes";
    names[WEFT_CNT_TX_MRD as usize] = "tx_mrd";
    names[WEFT_CNT_TX_MRD_BYTES as usize] = "tx_mrd_bytes";
    names[WEFT_CNT_TX_DB as usize] = "tx_db";
    names[WEFT_CNT_TX_MSG as usize] = "tx_msg";
    names[WEFT_CNT_RX_DB as usize] = "rx_db";
    names[WEFT_CNT_RX_MSG as usize] = "rx_msg";
    names[WEFT_CNT_OUT_DROPPED as usize] = "out_dropped";
    names[WEFT_CNT_OUT_ONES as usize] = "out_ones";
    names[WEFT_CNT_IN_DENIED as usize] = "in_denied";
    names[WEFT_CNT_DB_DENIED as usize] = "db_denied";
    names[WEFT_CNT_MSG_DROPPED as usize] = "msg_dropped";
    names[WEFT_CNT_IRQS as usize] = "irqs";
    names[WEFT_CNT_REMAPS as usize] = "remaps";
    names[WEFT_CNT_IN_FAULTS as usize] = "in_faults";
    names[WEFT_CNT_ROUTE_DENIED as usize] = "route_denied";
    names
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = COUNTERS.iter().collect();
        assert_eq!(names.len(), COUNTERS.len());
        assert!(!names.contains(&""));
    }

    #[test]
    fn an_unknown_field_of_a_request_is_refused() {
        let line = r#"{"command":"link_down","end":"h1:0","force":true}"#;
        assert!(serde_json::from_str::<Request>(line).is_err());
    }
}
