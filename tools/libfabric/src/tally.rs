// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a counter has counted: a counter of the program is this, and how it is looked at. Deferred work knows this of a
//! counter alone.

use crate::base::lock;
use crate::deferred::{By, Deferred, Place, Waiting, Work};
use crate::wait::{Sleepers, Wait};
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// Successes and failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    pub value: u64,
    pub errors: u64,
}

/// What the lock of a counter guards.
#[derive(Debug, Default)]
struct Inside {
    values: Values,
    sleepers: Sleepers,
    /// Where deferred work waits for it, if any ever did.
    slot: Option<u32>,
    /// Deferred work that is to change it.
    holds: usize,
}

/// What was counted.
#[derive(Debug)]
pub struct Tally {
    inside: Mutex<Inside>,
    wait: Option<Wait>,
    deferred: Arc<Deferred>,
}

impl Tally {
    pub fn new(wait: Option<Wait>, deferred: Arc<Deferred>) -> Self {
        Tally { inside: Mutex::default(), wait, deferred }
    }

    pub fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Whether it is of the domain that this is of.
    pub fn is_of(&self, deferred: &Arc<Deferred>) -> bool {
        Arc::ptr_eq(&self.deferred, deferred)
    }

    /// Changes what the lock guards; says by what.
    fn change(&self, change: impl FnOnce(&mut Inside) -> By) {
        let mut inside = lock(&self.inside);
        let by = change(&mut inside);
        if let Some(slot) = inside.slot {
            self.deferred.changed(slot, by);
        }
        inside.sleepers.wake(self.wait());
    }

    /// Changes it as a program asks for, and begins what is due.
    pub fn set(&self, change: impl FnOnce(&mut Values)) {
        self.change(|inside| inside.values.set(change));
        self.deferred.run();
    }

    /// Counts an operation. What is due then begins when the caller has no lock.
    pub fn count(&self, failed: bool) {
        self.change(|inside| inside.values.count(failed));
    }

    /// What it has; a thread that has armed the descriptor has looked then.
    pub fn values(&self) -> Values {
        let mut inside = lock(&self.inside);
        inside.sleepers.disarm();
        inside.values
    }

    /// A thread is about to sleep, unless it is `over`: false then.
    pub fn enter_sleep(&self, wait: &Wait, over: impl FnOnce(Values) -> bool) -> bool {
        let mut inside = lock(&self.inside);
        inside.sleepers.enter(wait);
        let over = over(inside.values);
        if over {
            inside.sleepers.leave();
        }
        !over
    }

    pub fn leave_sleep(&self) {
        lock(&self.inside).sleepers.leave();
    }

    /// The program is about to wait for the descriptor: whether nothing has changed.
    pub fn arm(&self, wait: &Wait, before: Values) -> bool {
        let mut inside = lock(&self.inside);
        inside.sleepers.arm(wait);
        inside.values == before
    }

    /// Has something wait until it has counted so much. It may begin at once.
    pub fn defer(&self, waiting: Waiting) -> Result<(), c_int> {
        let added = {
            let mut inside = lock(&self.inside);
            let Values { value, errors } = inside.values;
            let added = self.deferred.add(inside.slot, (value, errors), waiting);
            added.map(|slot| inside.slot = Some(slot))
        };
        let result = added.map_err(|(error, _)| error);
        self.deferred.run();
        result
    }

    /// Takes back deferred work that waits for it.
    pub fn flush(&self) {
        let slot = lock(&self.inside).slot;
        if slot.is_some() {
            self.deferred.flush(slot);
        }
    }

    /// Whether it can be closed: no deferred work is to change it. What waits for it is taken back then.
    pub fn close(&self) -> bool {
        let slot = {
            let mut inside = lock(&self.inside);
            if inside.holds > 0 {
                return false;
            }
            inside.slot.take()
        };
        if let Some(slot) = slot {
            self.deferred.release(slot);
        }
        true
    }
}

impl Values {
    pub fn count(&mut self, failed: bool) -> By {
        let of = if failed { &mut self.errors } else { &mut self.value };
        *of = of.wrapping_add(1);
        By::Counting(u64::from(!failed), u64::from(failed))
    }

    fn set(&mut self, change: impl FnOnce(&mut Values)) -> By {
        change(self);
        By::Setting(self.value, self.errors)
    }
}

/// That deferred work is to change a counter, which is not closed before.
#[derive(Debug)]
pub struct Hold(Option<Arc<Tally>>);

impl Hold {
    pub fn new(tally: &Arc<Tally>) -> Self {
        lock(&tally.inside).holds += 1;
        Hold(Some(tally.clone()))
    }

    /// Counts the end of work. A program that sees it counted can close the counter.
    pub fn count(self, failed: bool) {
        self.change(|values| values.count(failed));
    }

    fn change(mut self, change: impl FnOnce(&mut Values) -> By) {
        if let Some(tally) = self.0.take() {
            tally.change(|inside| {
                inside.holds -= 1;
                change(&mut inside.values)
            });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(tally) = &self.0 {
            lock(&tally.inside).holds -= 1;
        }
    }
}

/// Work that changes a counter.
#[derive(Debug)]
pub struct Counting {
    hold: Mutex<Option<Hold>>,
    value: u64,
    /// It is added.
    adds: bool,
}

impl Counting {
    pub fn new(tally: &Arc<Tally>, value: u64, adds: bool) -> Self {
        Counting { hold: Mutex::new(Some(Hold::new(tally))), value, adds }
    }
}

impl Work for Counting {
    fn begin(&self) -> Result<(), c_int> {
        let hold = lock(&self.hold).take();
        if let Some(hold) = hold {
            hold.change(|values| {
                values.set(|values| {
                    let before = if self.adds { values.value } else { 0 };
                    values.value = before.wrapping_add(self.value);
                })
            });
        }
        Ok(())
    }

    fn fail(&self, _: c_int) {}

    fn place(&self) -> Option<Place> {
        None
    }
}
