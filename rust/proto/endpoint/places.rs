// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Where the queues of a function are, and its data: in memory of the host or in its own, as the
//! protocol has it.

use super::element::{CQE_BYTES, WQE_BYTES};

/// Bytes of a function in the endpoint's aperture space, registers and memory.
pub const FUNCTION_BYTES: u64 = 0x10000;
/// Where its memory begins.
pub const MEMORY: u64 = 0x1000;
/// What is in use for different things is apart by whole pages: they are mapped by these.
pub const PAGE: u64 = 4096;

/// Who moves what: what is not pushed is pulled, and the other way round.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Protocol {
    /// The work queue is in the function's memory,
    pub push_wqe: bool,
    /// so are data,
    pub push_data: bool,
    /// and so is the completion queue.
    pub pull_cqe: bool,
}

/// Where a queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// In the function's memory; else in the host's.
    pub own: bool,
    /// From its first byte on.
    pub at: u64,
    /// How much of it there is.
    pub bytes: u64,
}

/// Where both queues are, and what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The work queue.
    pub wq: Place,
    /// The completion queue.
    pub cq: Place,
    /// Bytes that the host needs for queues; 0: none.
    pub host: u64,
    /// What is free of the function's memory begins here.
    pub free: u64,
}

impl Places {
    /// For queues of so many elements. `None`: they do not fit into the function's memory.
    pub fn new(entries: u32, protocol: Protocol) -> Option<Self> {
        let (mut host, mut free) = (0, MEMORY);
        let mut place = |own: bool, element: usize| {
            let end = if own { &mut free } else { &mut host };
            let bytes = u64::from(entries) * element as u64;
            let at = *end;
            *end = at + bytes.next_multiple_of(PAGE);
            Place { own, at, bytes }
        };
        let wq = place(protocol.push_wqe, WQE_BYTES);
        let cq = place(protocol.pull_cqe, CQE_BYTES);
        (free <= FUNCTION_BYTES).then_some(Self { wq, cq, host, free })
    }
}

/// Where, of what a host opens to a virtual endpoint, from `base` to `limit`, it opens part `n` of
/// `parts` to function `function` of `functions`: first byte, and how many there are, whole pages.
/// `None`: there is no such part, or no room for it.
pub fn part(
    (base, limit): (u64, u64),
    (function, functions): (u32, u32),
    (n, parts): (usize, usize),
) -> Option<(u64, u64)> {
    let pages = limit.checked_sub(base)?.checked_add(1)? / PAGE;
    let all = u64::from(functions).checked_mul(parts as u64)?;
    let each = pages.checked_div(all)? * PAGE;
    let number = u64::from(function) * parts as u64 + n as u64;
    let at = base.checked_add(number.checked_mul(each)?)?;
    (function < functions && n < parts && each != 0).then_some((at, each))
}
