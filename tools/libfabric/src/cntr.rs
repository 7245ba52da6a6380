// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Counters of operations that have ended, well or not.

use crate::base::{Object, absent, core_of, head, no_bind};
use crate::cq::{tell_wait, wait_for};
use crate::domain::Domain;
use crate::fi::*;
use crate::progress::{Members, Progress};
use crate::regions::Counts;
use crate::tally::{Tally, Values};
use crate::wait::{Patience, Until};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A counter.
#[derive(Debug)]
pub struct Cntr {
    pub tally: Arc<Tally>,
    endpoints: Members,
    patience: Patience,
    wait_obj: u32,
    _domain: Option<Arc<Domain>>,
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close,
    bind: no_bind,
    control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static CNTR: OpsCntr =
    OpsCntr { size: size_of::<OpsCntr>(), read, readerr, add, set, wait, adderr, seterr };

/// `fi_cntr_open()`.
pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut CntrAttr,
    out: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The program gives its attributes.
    let attr = unsafe { &*attr };
    if attr.events != FI_CNTR_EVENTS_COMP || attr.flags != 0 {
        return -FI_ENOSYS;
    }
    let wait = match wait_for(attr.wait_obj, attr.wait_set) {
        Ok(wait) => wait,
        Err(error) => return -error,
    };
    let domain = core_of!(domain, FidDomain, Domain).clone();
    let tally = Tally::new(wait, domain.deferred.clone());
    let cntr = Cntr { _domain: Some(domain), ..Cntr::new(tally) };
    let fid = FidCntr { fid: head(FI_CLASS_CNTR, context, &OPS), ops: &CNTR };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(cntr), out) }
}

impl Cntr {
    fn new(tally: Tally) -> Self {
        let wait_obj = if tally.wait().is_some() { FI_WAIT_FD } else { FI_WAIT_NONE };
        let (tally, endpoints) = (Arc::new(tally), Members::default());
        Cntr { tally, endpoints, patience: Patience::default(), wait_obj, _domain: None }
    }

    /// Counts an operation.
    pub fn count(&self, failed: bool) {
        self.tally.count(failed);
    }

    pub fn add(&self, endpoint: &Arc<dyn Progress>) -> Result<(), c_int> {
        self.endpoints.add(endpoint, self.tally.wait())
    }

    pub fn forget(&self, endpoint: &Arc<dyn Progress>) {
        self.endpoints.forget(endpoint, self.tally.wait());
    }

    /// With `polls` by a thread that reads again soon.
    fn read(&self, polls: bool) -> Values {
        let any = match polls {
            true => self.endpoints.poll(),
            false => self.endpoints.progress(),
        };
        if any {
            self.patience.renew();
        } else {
            self.patience.lose();
        }
        self.tally.values()
    }

    /// Waits until there are as many as `least`, or one more has failed. A counter without anything to sleep on is read
    /// again and again: programs wait for such counters, too.
    fn sleep(&self, least: u64, timeout: c_int) -> c_int {
        let until = Until::milliseconds(timeout);
        let failed = self.tally.values().errors;
        let over = |values: Values| match () {
            () if values.value >= least => Some(0),
            () if values.errors != failed => Some(-FI_EAVAIL),
            () => None,
        };
        let mut woken = false;
        if self.tally.wait().is_some() {
            self.endpoints.rest();
        }
        loop {
            if let Some(code) = over(self.read(self.tally.wait().is_none())) {
                return code;
            }
            if until.is_over() {
                return -FI_ETIMEDOUT;
            }
            let Some(wait) = self.tally.wait() else {
                std::thread::yield_now();
                continue;
            };
            if woken {
                self.endpoints.forget_gone(wait);
            }
            if !self.tally.enter_sleep(wait, |values| over(values).is_some()) {
                continue;
            }
            woken = wait.sleep(self.endpoints.limit(until));
            self.tally.leave_sleep();
        }
    }

    /// Whether the program may wait for the descriptor: it has read the counter.
    pub fn try_wait(&self) -> bool {
        let Some(wait) = self.tally.wait() else { return false };
        let before = self.tally.values();
        self.endpoints.rest();
        if self.endpoints.progress() {
            return false;
        }
        self.tally.arm(wait, before) && self.endpoints.are_settled()
    }
}

impl Counts for Cntr {
    fn count(&self, failed: bool) {
        Cntr::count(self, failed);
    }

    fn watch(&self, endpoint: &Arc<dyn Progress>) -> Result<(), c_int> {
        self.add(endpoint)
    }

    fn leave(&self, endpoint: &Arc<dyn Progress>) {
        self.forget(endpoint);
    }
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    let cntr = core_of!(fid, FidCntr, Cntr);
    if Arc::strong_count(cntr) > 1 || !cntr.tally.close() {
        return -FI_EBUSY;
    }
    // SAFETY: The program does not use it any more.
    unsafe { Object::<FidCntr, Cntr>::free(fid) };
    0
}

unsafe extern "C" fn read(cntr: *mut FidCntr) -> u64 {
    core_of!(cntr, FidCntr, Cntr).read(true).value
}

unsafe extern "C" fn readerr(cntr: *mut FidCntr) -> u64 {
    core_of!(cntr, FidCntr, Cntr).read(true).errors
}

unsafe extern "C" fn add(cntr: *mut FidCntr, by: u64) -> c_int {
    core_of!(cntr, FidCntr, Cntr).tally.set(|values| values.value = values.value.wrapping_add(by));
    0
}

unsafe extern "C" fn set(cntr: *mut FidCntr, to: u64) -> c_int {
    core_of!(cntr, FidCntr, Cntr).tally.set(|values| values.value = to);
    0
}

unsafe extern "C" fn wait(cntr: *mut FidCntr, least: u64, timeout: c_int) -> c_int {
    core_of!(cntr, FidCntr, Cntr).sleep(least, timeout)
}

unsafe extern "C" fn adderr(cntr: *mut FidCntr, by: u64) -> c_int {
    core_of!(cntr, FidCntr, Cntr)
        .tally
        .set(|values| values.errors = values.errors.wrapping_add(by));
    0
}

unsafe extern "C" fn seterr(cntr: *mut FidCntr, to: u64) -> c_int {
    core_of!(cntr, FidCntr, Cntr).tally.set(|values| values.errors = to);
    0
}

unsafe extern "C" fn control(cntr: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    let cntr = core_of!(cntr, FidCntr, Cntr);
    // SAFETY: The program gives what the command wants.
    unsafe { tell_wait(cntr.tally.wait(), cntr.wait_obj, command, arg) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Wait;

    fn cntr_with(wait: Option<Wait>) -> Arc<Cntr> {
        Arc::new(Cntr::new(Tally::new(wait, Arc::default())))
    }

    fn cntr() -> Arc<Cntr> {
        cntr_with(Some(Wait::new().expect("there are descriptors")))
    }

    #[test]
    fn it_counts() {
        let cntr = cntr();
        cntr.count(false);
        cntr.count(false);
        cntr.count(true);
        assert_eq!(cntr.read(false), Values { value: 2, errors: 1 });
        assert_eq!((cntr.sleep(2, 0), cntr.sleep(3, 0)), (0, -FI_ETIMEDOUT));
    }

    #[test]
    fn a_sleeper_is_woken_when_it_is_high_enough() {
        for round in 0..100 {
            // One that looks again and again in place of sleeping is among them.
            let cntr = if round % 10 == 9 { cntr_with(None) } else { cntr() };
            let other = cntr.clone();
            let thread = std::thread::spawn(move || {
                // At any time with regard to the sleeper.
                (0..round * 50).for_each(|_| std::hint::spin_loop());
                other.count(false);
                other.count(false);
            });
            assert_eq!(cntr.sleep(2, 20_000), 0);
            thread.join().expect("it has not failed");
        }
    }

    #[test]
    fn a_sleeper_is_woken_when_one_fails() {
        let cntr = cntr();
        let other = cntr.clone();
        // Again and again: what has failed before the sleeper looks for the first time is not new to it.
        let thread = std::thread::spawn(move || {
            while Arc::strong_count(&other) > 1 {
                other.count(true);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(cntr.sleep(1, 20_000), -FI_EAVAIL);
        drop(cntr);
        thread.join().expect("it has not failed");
    }

    #[test]
    fn a_program_may_wait_by_itself_when_nothing_has_changed() {
        let cntr = cntr();
        assert!(cntr.try_wait());
        let wait = cntr.tally.wait().expect("it has one");
        assert!(!wait.sleep(Until::milliseconds(0)));
        cntr.count(true);
        assert!(wait.sleep(Until::milliseconds(-1)));
    }
}
