// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The queues between a host and a function of a shared endpoint: encoding of their elements, their
//! location, the work under way, and what becomes of it when the route changes.
//!
//! The endpoint is not trusted: a completion is accepted only if it can be true of work that was posted.
//! This folder is independent of how memory and registers are accessed. The rules are those of
//! `Documentation/endpoint.rst`.

pub mod element;
pub mod ledger;
pub mod places;
pub mod reroute;

pub use self::{
    element::{Cqe, Op, Segment, Work, CQE_BYTES, CQE_NUMBER, MAX_BYTES, SEGMENTS, WQE_BYTES},
    ledger::{Completion, Entry, Ledger, Slot, FLUSHED},
    places::{part, Place, Places, Protocol, FUNCTION_BYTES, MEMORY, PAGE},
    reroute::Reroute,
};
