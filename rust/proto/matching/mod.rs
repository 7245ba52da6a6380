// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Message matching: which buffer of which program a message is for.
//!
//! A *matching endpoint* has four lists. *Priority* has the buffers that a program has posted, *overflow*
//! memory for messages that no posted buffer is for, *unexpected* the headers of those messages, and
//! *software request* memory for messages while the program itself matches. The driver runs most of it, and the
//! provider of libfabric will run the engine alone for its own lists.
//!
//! [`dispatch::Dispatch`] is Fig. 4a of the seed: two match request queues an endpoint, the map from endpoints
//! to processing engines, the persistent list entry cache of Fig. 4b, and the queues of engines and
//! traffic classes. [`engine::Engine`] is a processing engine: a pool of list entries, and the operations on
//! the lists of an endpoint. Both take storage from the caller; the dispatcher and each engine may have a lock
//! of their own, since neither calls the other. The caller carries an [`outcome::Reply`] out, and hands the
//! [`outcome::Order`] in it back to the dispatcher.
//!
//! [`flow`], [`atomic`] and [`retry`] are what else a message interface needs; and, not in the module, `counter`, which
//! the provider of libfabric has, and `packet`.
//! This folder is independent of how requests are encoded, of memory, of processes and of time, which is an
//! argument. Documentation/matching.rst describes it.

pub mod atomic;
pub mod cache;
#[cfg(not(MODULE))]
pub mod counter;
pub mod dispatch;
pub mod endpoint;
pub mod endpoint_queues;
pub mod engine;
pub mod entry;
pub mod flow;
mod free;
mod hash;
mod index;
pub mod outcome;
#[cfg(not(MODULE))]
pub mod packet;
mod pool;
pub mod queue;
pub mod request;
pub mod retry;
pub mod step;
pub mod storage;

/// Matching endpoints of a port.
pub const ENDPOINTS: u16 = 2048;
/// Processing engines of a port.
pub const ENGINES: usize = 4;
/// List entries of a processing engine: 65,536 in all of a port.
pub const ENTRIES: u32 = 16_384;
/// Heads of the hash table of a processing engine.
pub const HEADS: u32 = 2 * ENTRIES;
/// Lines of the persistent list entry cache of a port.
pub const LINES: u32 = 256;
/// Traffic classes.
pub const TRAFFIC_CLASSES: usize = 4;

// What an endpoint takes, apart from its entries and requests.
const _: () = assert!(
    core::mem::size_of::<endpoint::Endpoint>()
        + core::mem::size_of::<endpoint_queues::EndpointQueues>()
        <= 512
);
