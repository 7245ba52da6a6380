// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a host and a function of a shared endpoint say to each other: elements of queues as bytes,
//! where queues are, and what is under way.
//!
//! The endpoint is a stranger: what it has written is taken only if it answers what was asked.
//! Nothing here may know how memory or a register is reached. The rules are those of
//! `Documentation/endpoint.rst`.

pub mod element;
pub mod ledger;
pub mod places;

pub use self::{
    element::{Cqe, Op, Segment, Work, CQE_BYTES, CQE_NUMBER, MAX_BYTES, SEGMENTS, WQE_BYTES},
    ledger::{Completion, Entry, Ledger, Slot, FLUSHED},
    places::{part, Place, Places, Protocol, FUNCTION_BYTES, MEMORY, PAGE},
};
