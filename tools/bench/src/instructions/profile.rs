// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Does what is counted a few times more, for the emulator to write down each instruction meanwhile.
//!
//! Each calls [`super::clock`] where it begins and ends. By that function's address the trace is cut into the same
//! parts as are counted (`scripts/lab/weftlab/speed/profile.py`).

use super::trace::Trace;
use super::{QP_BATCH, SERVICE, asleep, batches, bulk, connections, joined, matching, sockets};
use crate::Result;
use crate::verbs::How;

/// Batches of messages that are traced: the first one has in it what the emulator's user has done to begin.
const BATCHES: usize = 10;
const WARM: usize = 8;

/// Messages over queue pairs, rung for by themselves and in batches, over sockets, round trips of ends that sleep,
/// connections, and messages with match bits.
pub fn ports(from: u32, to: u32, folder: &str) -> Result<()> {
    let trace = Trace::new(folder);
    let (mut sender, mut receiver) = joined(from, to, SERVICE + 1, How::Polled)?;
    for (name, ringing) in [("qp", true), ("qp-batched", false)] {
        batches(&mut sender, &mut receiver, ringing, WARM)?;
        trace.of(name, QP_BATCH, || {
            batches(&mut sender, &mut receiver, ringing, BATCHES)?;
            Ok(())
        })?;
    }
    asleep::traced_queue_pairs(from, to, &trace)?;
    // Of links that connect queue pairs the engine runs otherwise.
    drop((sender, receiver));
    sockets::traced(from, to, &trace)?;
    matching::traced(from, to, &trace)
}

/// Connections by TCP to an address of a network card in the namespace.
pub fn tcp_connections(namespace: &str, address: &str, folder: &str) -> Result<()> {
    connections::traced_tcp(namespace, address, &Trace::new(folder))
}

/// Round trips, mebibytes and connections by TCP to an address of a network card in the namespace; ends sleep.
pub fn tcp(namespace: &str, address: &str, folder: &str) -> Result<()> {
    let (ends, trace) = (bulk::connected(namespace, address)?, Trace::new(folder));
    asleep::traced_tcp(&ends, &trace)?;
    bulk::traced_tcp(ends, &trace)?;
    connections::traced_tcp(namespace, address, &trace)
}
