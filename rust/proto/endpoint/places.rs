// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Location of the queues and data of a function: in the host's memory or in the function's own,
//! depending on the protocol.

use super::element::{CQE_BYTES, WQE_BYTES};

/// Bytes of a function in the endpoint's aperture space, registers and memory.
pub const FUNCTION_BYTES: u64 = 0x10000;
/// Offset of its memory.
pub const MEMORY: u64 = 0x1000;
/// Alignment of queues and parts: they are mapped by whole pages.
pub const PAGE: u64 = 4096;

/// Direction of the transfers of a function. What is not pushed is pulled, and vice versa.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Protocol {
    /// The work queue is in the function's memory.
    pub push_wqe: bool,
    /// Data are in the function's memory.
    pub push_data: bool,
    /// The completion queue is in the function's memory.
    pub pull_cqe: bool,
}

/// Location of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The queue is in the function's memory; else in the host's.
    pub own: bool,
    /// Offset of the first byte.
    pub at: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Location of both queues, and what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The work queue.
    pub wq: Place,
    /// The completion queue.
    pub cq: Place,
    /// Bytes of host memory for queues; may be 0.
    pub host: u64,
    /// Offset of the free part of the function's memory.
    pub free: u64,
}

impl Places {
    /// Places queues of `entries` elements. `None`: they do not fit into the function's memory.
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

/// Returns the first byte and size of part `n` of `parts` of function `function` of `functions`, in the
/// range from `base` to `limit` that a host opens to a virtual endpoint. All parts have the same size,
/// in whole pages. `None`: there is no such part, or no room for it.
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
