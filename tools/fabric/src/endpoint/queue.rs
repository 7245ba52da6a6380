// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A function of a virtual endpoint: a work queue and a completion queue, each with a
//! doorbell, base, limit and the offset of the next element. Which side moves work,
//! data and completions is chosen when it is enabled, and held to. Its registers
//! are memory that the host writes at any time: each is read once and then checked,
//! and what the function writes there it never reads back.

use super::access::{Access, REGISTERS};
use super::job::Job;
use super::memory::{long, word};
use super::wqe::{CQE, Cqe, MAX_SHIFT, WQE, Wqe};
use crate::wire::abi::*;

/// log2 of the most elements of a queue.
const ENTRIES_SHIFT: u32 = 12;
const CAP: u32 = WEFT_EP_SEGMENTS | (ENTRIES_SHIFT << 8) | (MAX_SHIFT << 16) | WEFT_EP_CAP_HOLDS;

/// Where a queue is.
#[derive(Clone, Copy)]
struct Ring {
    local: bool,
    base: u64,
    /// A power of two.
    entries: u32,
    element: u64,
}

impl Ring {
    fn setup(registers: &[u8], group: u32, local: bool, element: usize) -> Option<Self> {
        let base = long(registers, group + WEFT_EP_Q_BASE);
        let limit = long(registers, group + WEFT_EP_Q_LIMIT);
        let element = element as u64;
        let bytes = limit.checked_sub(base)?.checked_add(1)?;
        let entries = u32::try_from(bytes / element).ok()?;
        let whole = bytes % element == 0 && base % element == 0;
        let power = entries.is_power_of_two() && entries <= 1 << ENTRIES_SHIFT;
        (whole && power).then_some(Ring { local, base, entries, element })
    }

    fn offset(&self, count: u32) -> u64 {
        u64::from(count % self.entries) * self.element
    }
}

/// As it was when it was enabled.
struct Setup {
    wq: Ring,
    cq: Ring,
    data_push: bool,
    doorbell: Option<u32>,
    /// It works only by a route that the host has agreed to.
    hold: bool,
}

impl Setup {
    fn read(registers: &[u8; REGISTERS], ctrl: u32) -> Option<Self> {
        let wq = Ring::setup(registers, WEFT_EP_WQ, ctrl & WEFT_EP_WQE_PUSH != 0, WQE)?;
        let cq = Ring::setup(registers, WEFT_EP_CQ, ctrl & WEFT_EP_CQE_PULL != 0, CQE)?;
        let doorbell = crate::wire::field(ctrl, WEFT_EP_DOORBELL);
        Some(Setup {
            wq,
            cq,
            data_push: ctrl & WEFT_EP_DATA_PUSH != 0,
            doorbell: (ctrl & WEFT_EP_RING != 0).then_some(doorbell),
            hold: ctrl & WEFT_EP_HOLD != 0,
        })
    }
}

/// The function.
#[derive(Default)]
pub struct Function {
    setup: Option<Setup>,
    /// `WEFT_EP_FAIL_*`; holds until it is disabled.
    failed: Option<u32>,
    /// WQEs taken and CQEs passed since it was enabled.
    taken: u32,
    passed: u32,
    job: Option<Job>,
    /// What `GO_SEEN` says.
    seen: u32,
}

impl Function {
    /// Writes what it is where its host can read it. All else is 0.
    pub fn identify(ve: u8, number: u8, access: &Access<'_>) {
        access.tell(WEFT_EP_ID, WEFT_EP_ID_VALUE);
        access.tell(WEFT_EP_VERSION, 1 << 16);
        access.tell(WEFT_EP_CAP, CAP);
        access.tell(WEFT_EP_FUNCTION, u32::from(ve) | (u32::from(number) << 8));
    }

    /// The route to the host is another one, or none: 0.
    pub fn route(route: u32, access: &Access<'_>) {
        access.tell(WEFT_EP_ROUTE, route);
    }

    /// Does a piece of work, if there is any, by `route`. Whether there may be more.
    pub fn turn(&mut self, route: u32, access: &mut Access<'_>) -> bool {
        let registers = access.registers();
        let ctrl = word(&registers, WEFT_EP_CTRL);
        if ctrl & WEFT_EP_ENABLE == 0 {
            if self.setup.is_some() || self.failed.is_some() {
                *self = Function::default();
                access.tell(WEFT_EP_GO_SEEN, 0);
                access.tell(WEFT_EP_STATUS, 0);
            }
            return false;
        }
        if self.failed.is_some() {
            return false;
        }
        let Some(setup) = &self.setup else {
            self.setup = Setup::read(&registers, ctrl);
            match self.setup {
                Some(_) => access.tell(WEFT_EP_STATUS, WEFT_EP_ENABLED),
                None => self.fail(WEFT_EP_FAIL_SETUP, access),
            }
            return self.setup.is_some();
        };
        if setup.hold && !held_to(route, &registers, &mut self.seen, access) {
            // Work under way stays as far as it has come.
            return false;
        }
        if let Some(job) = &mut self.job {
            if let Some(cqe) = job.step(access) {
                self.job = None;
                self.complete(cqe, access);
            }
            return true;
        }
        let rung = word(&registers, WEFT_EP_WQ + WEFT_EP_Q_DOORBELL).wrapping_sub(self.taken);
        let unread = self.passed.wrapping_sub(word(&registers, WEFT_EP_CQ + WEFT_EP_Q_TAKEN));
        if rung > setup.wq.entries || unread > setup.cq.entries {
            self.fail(WEFT_EP_FAIL_OVERRUN, access);
            return false;
        }
        if rung == 0 || unread == setup.cq.entries {
            return false;
        }
        self.fetch(access);
        true
    }

    fn fetch(&mut self, access: &mut Access<'_>) {
        let Some(Setup { wq, data_push, .. }) = self.setup else { return };
        let mut bytes = [0; WQE];
        if access.read(wq.local, wq.base + wq.offset(self.taken), &mut bytes).is_err() {
            return self.fail(WEFT_EP_FAIL_WQ, access);
        }
        self.taken = self.taken.wrapping_add(1);
        access.tell(WEFT_EP_WQ + WEFT_EP_Q_TAKEN, self.taken);
        access.tell(WEFT_EP_WQ + WEFT_EP_Q_OFFSET, wq.offset(self.taken) as u32);
        match Wqe::parse(&bytes, data_push) {
            Ok(wqe) => self.job = Some(Job::new(wqe)),
            Err(status) => {
                let cookie = long(&bytes, WEFT_EP_WQE_COOKIE);
                self.complete(Cqe { cookie, status, ..Cqe::default() }, access);
            }
        }
    }

    fn complete(&mut self, cqe: Cqe, access: &mut Access<'_>) {
        let Some(Setup { cq, doorbell, .. }) = self.setup else { return };
        let number = self.passed.wrapping_add(1);
        let at = cq.base + cq.offset(self.passed);
        let tail = WEFT_EP_CQE_NUMBER as usize;
        let written = access
            .write(cq.local, at, &cqe.encode()[..tail])
            .and_then(|()| access.write(cq.local, at + tail as u64, &number.to_le_bytes()));
        if written.is_err() {
            return self.fail(WEFT_EP_FAIL_CQ, access);
        }
        self.passed = number;
        access.tell(WEFT_EP_CQ + WEFT_EP_Q_DOORBELL, number);
        access.tell(WEFT_EP_CQ + WEFT_EP_Q_OFFSET, cq.offset(number) as u32);
        if let Some(doorbell) = doorbell {
            access.host.ring(doorbell, access.counts);
        }
    }

    fn fail(&mut self, why: u32, access: &Access<'_>) {
        *self = Function { failed: Some(why), ..Function::default() };
        access.tell(WEFT_EP_STATUS, why << WEFT_EP_FAILED.trailing_zeros());
    }
}

/// Whether the host has agreed to work by `route`. What it has written is confirmed: whatever
/// it asked for, nothing is done that was not agreed to before.
fn held_to(route: u32, registers: &[u8], seen: &mut u32, access: &mut Access<'_>) -> bool {
    let go = word(registers, WEFT_EP_GO);
    if go != *seen {
        *seen = go;
        let at = long(registers, WEFT_EP_PROBE);
        let probed = at != 0 && access.read(false, at, &mut [0; 4]).is_ok();
        access.tell(WEFT_EP_PROBED, probed.into());
        access.tell(WEFT_EP_GO_SEEN, go);
    }
    route != 0 && go == route
}
