// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The protocol of a queue pair: whether requests, data and completions are each pushed by the sender or
//! pulled by the receiver.
//!
//! Both ends agree on it when the queue pair is connected. What it means for each message is in
//! `direction`.

/// `WEFT_PULL_WQE`.
const WQE: u32 = 1 << 0;
/// `WEFT_PULL_DATA`.
const DATA: u32 = 1 << 1;
/// `WEFT_PULL_CQE`.
const CQE: u32 = 1 << 2;

/// The protocol of a queue pair. By default everything is pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Requests are pulled.
    pub wqe: bool,
    /// Data are pulled.
    pub data: bool,
    /// Completion words of the responder are pulled.
    pub cqe: bool,
}

impl Protocol {
    /// Everything is pushed.
    pub const PUSH: Self = Self {
        wqe: false,
        data: false,
        cqe: false,
    };

    /// Converts a mask of `WEFT_PULL_*`; `None` if there are other bits.
    pub const fn of(bits: u32) -> Option<Self> {
        if bits & !(WQE | DATA | CQE) != 0 {
            return None;
        }
        Some(Self {
            wqe: bits & WQE != 0,
            data: bits & DATA != 0,
            cqe: bits & CQE != 0,
        })
    }

    /// Returns the mask of `WEFT_PULL_*`.
    pub const fn bits(self) -> u32 {
        let wqe = if self.wqe { WQE } else { 0 };
        let data = if self.data { DATA } else { 0 };
        let cqe = if self.cqe { CQE } else { 0 };
        wqe | data | cqe
    }
}
