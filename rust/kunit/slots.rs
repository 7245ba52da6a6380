// SPDX-License-Identifier: GPL-2.0

//! Tests of `Slots`: a value stays while there is a reference to it, and is not found after it is taken.

use super::{spawn, Event};
use crate::sys::slots::{Slot, Slots};
use core::task::Poll;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Arc,
    },
};

/// More slots than are allocated at a time.
const LIMIT: u32 = 300;

/// A value that shows by `live` that it was not dropped, and counts the values that exist.
struct Value {
    number: u64,
    live: Atomic<u64>,
    count: Arc<Atomic<i32>>,
}

/// The contents of `live` before the value is dropped.
const ALIVE: u64 = 0x600d;

impl Value {
    fn new(number: u64, count: &Arc<Atomic<i32>>) -> Self {
        count.fetch_add(1, Full);
        Self {
            number,
            live: Atomic::new(ALIVE),
            count: count.clone(),
        }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.live.store(0, Release);
        self.count.fetch_sub(1, Full);
    }
}

fn count() -> Result<Arc<Atomic<i32>>> {
    Ok(Arc::new(Atomic::new(0), GFP_KERNEL)?)
}

/// Makes a table and a slot of it with a value.
fn one(count: &Arc<Atomic<i32>>) -> Result<(Arc<Slots<Value>>, Slot<Value>)> {
    let slots = Slots::new(LIMIT)?;
    let mut slot = slots.own()?;
    slot.open(Value::new(1, count))?;
    Ok((slots, slot))
}

#[kunit_tests(weft_slots)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_between_opening_and_taking() -> Result {
        let count = count()?;
        let slots = Slots::new(LIMIT)?;
        let mut slot = slots.own()?;
        let index = slot.index();
        assert!(slots.find(index).is_none());
        slot.open(Value::new(7, &count))?;
        assert_eq!(slots.find(index).map(|value| value.number), Some(7));
        assert!(matches!(slot.open(Value::new(8, &count)), Err(e) if e == EBUSY));
        assert_eq!(slot.take().map(|value| value.number), Some(7));
        assert!(slots.find(index).is_none() && slot.take().is_none());
        slot.open(Value::new(9, &count))?;
        assert_eq!(slots.find(index).map(|value| value.number), Some(9));
        drop(slot);
        assert!(slots.find(index).is_none());
        assert_eq!(count.load(Acquire), 0);
        Ok(())
    }

    #[test]
    fn what_names_nothing_is_not_found() -> Result {
        let count = count()?;
        let (slots, slot) = one(&count)?;
        for index in [0, slot.index() + 1, LIMIT - 1, LIMIT, 1 << 20, u32::MAX] {
            assert!(slots.find(index).is_none());
        }
        Ok(())
    }

    #[test]
    fn there_are_as_many_as_the_limit_says_and_0_is_none() -> Result {
        let slots = Slots::<Value>::new(LIMIT)?;
        let mut all = KVec::new();
        let error = loop {
            match slots.own() {
                Ok(slot) => all.push(slot, GFP_KERNEL)?,
                Err(e) => break e,
            }
        };
        assert_eq!(error, ENOSPC);
        assert!(all.len() >= LIMIT as usize - 1);
        assert!(all.iter().all(|slot| slot.index() != 0));
        for (i, slot) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|s| s.index() != slot.index()));
        }
        let last = all.pop().map(|slot| slot.index());
        assert_eq!(slots.own().map(|slot| slot.index()).ok(), last);
        Ok(())
    }

    #[test]
    fn an_index_comes_again_last() -> Result {
        let slots = Slots::<Value>::new(LIMIT)?;
        let first = slots.own()?.index();
        for _ in 0..100 {
            assert!(slots.own()?.index() != first);
        }
        Ok(())
    }

    #[test]
    fn taking_without_waiting_closes_at_once_and_succeeds_when_all_let_go() -> Result {
        let count = count()?;
        let (slots, mut slot) = one(&count)?;
        let found = slots.find(slot.index()).ok_or(EINVAL)?;
        assert!(slot.try_take().is_pending());
        assert!(slots.find(slot.index()).is_none());
        assert_eq!(found.live.load(Acquire), ALIVE);
        // The slot does not accept another value, either.
        assert!(slot.open(Value::new(2, &count)).is_err());
        drop(found);
        assert!(matches!(slot.try_take(), Poll::Ready(Some(_))));
        assert!(matches!(slot.try_take(), Poll::Ready(None)));
        assert_eq!(count.load(Acquire), 0);
        Ok(())
    }

    #[test]
    fn taking_waits_for_those_that_have_it() -> Result {
        let count = count()?;
        let (slots, mut slot) = one(&count)?;
        let (inside, leave) = (Event::new()?, Event::new()?);
        let left = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let found = slots.find(slot.index()).ok_or(EINVAL)?;
        let ended = {
            let (inside, leave, left) = (inside.clone(), leave.clone(), left.clone());
            spawn(move || {
                inside.happens();
                leave.wait();
                left.store(true, Release);
                drop(found);
            })?
        };
        inside.wait();
        assert!(slot.try_take().is_pending());
        leave.happens();
        drop(slot.take());
        assert!(left.load(Acquire));
        assert_eq!(count.load(Acquire), 0);
        ended.wait();
        Ok(())
    }

    #[test]
    fn shutting_takes_everything_and_waits_for_what_was_taken() -> Result {
        let count = count()?;
        let (slots, mut slot) = one(&count)?;
        let mut other = slots.own()?;
        other.open(Value::new(2, &count))?;
        let taken = other.take().ok_or(EINVAL)?;
        let (inside, leave) = (Event::new()?, Event::new()?);
        let ended = {
            let (inside, leave) = (inside.clone(), leave.clone());
            spawn(move || {
                inside.happens();
                leave.wait();
                drop(taken);
            })?
        };
        inside.wait();
        leave.happens();
        slots.shut();
        assert_eq!(count.load(Acquire), 0);
        assert!(slots.find(slot.index()).is_none());
        assert!(matches!(slot.open(Value::new(3, &count)), Err(e) if e == ENODEV));
        assert!(slots.own().is_err() && slots.busy().is_err());
        slots.shut();
        ended.wait();
        Ok(())
    }

    #[test]
    fn a_walk_visits_closed_slots_and_what_was_taken_before_is_waited_for() -> Result {
        let count = count()?;
        let (slots, mut slot) = one(&count)?;
        let mut other = slots.own()?;
        other.open(Value::new(2, &count))?;
        let visited = || {
            let mut sum = 0;
            let _ = slots.each(|value| {
                sum += value.number;
                Ok(())
            });
            sum
        };
        assert_eq!(visited(), 3);
        // Closed, and its value is not taken yet.
        let found = slots.find(slot.index()).ok_or(EINVAL)?;
        assert!(slot.try_take().is_pending() && slots.find(slot.index()).is_none());
        assert_eq!(visited(), 3);
        drop(found);
        let taken = slot.take().ok_or(EINVAL)?;
        assert_eq!(visited(), 2);
        let (inside, leave) = (Event::new()?, Event::new()?);
        let ended = {
            let (inside, leave) = (inside.clone(), leave.clone());
            spawn(move || {
                inside.happens();
                leave.wait();
                drop(taken);
            })?
        };
        inside.wait();
        leave.happens();
        slots.wait_idle();
        assert_eq!(count.load(Acquire), 1);
        ended.wait();
        Ok(())
    }

    /// Lookups race with values that are put in and taken: a value that is found is a live one of that
    /// slot.
    #[test]
    fn m_1_lookups_that_race_with_deregistration_see_the_value_or_nothing() -> Result {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 3000;
        let count = count()?;
        let (slots, mut slot) = one(&count)?;
        let index = slot.index();
        let stop = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let wrong = Arc::new(Atomic::new(0u64), GFP_KERNEL)?;
        let hits = Arc::new(Atomic::new(0u64), GFP_KERNEL)?;
        let mut ended = KVec::with_capacity(THREADS, GFP_KERNEL)?;
        for _ in 0..THREADS {
            let (slots, stop, wrong, hits) =
                (slots.clone(), stop.clone(), wrong.clone(), hits.clone());
            let thread = spawn(move || {
                let mut last = 0;
                while !stop.load(Acquire) {
                    if let Some(value) = slots.find(index) {
                        let first = value.number;
                        let alive = value.live.load(Acquire) == ALIVE;
                        // Numbers grow, and do not change during the lookup.
                        if !alive || first < last || value.number != first {
                            wrong.fetch_add(1, Relaxed);
                        }
                        last = first;
                        hits.fetch_add(1, Relaxed);
                    }
                }
            })?;
            ended.push(thread, GFP_KERNEL)?;
        }
        let mut number = 1;
        while number < ROUNDS || hits.load(Relaxed) < 100 {
            drop(slot.take());
            if count.load(Acquire) != 0 || slots.find(index).is_some() {
                wrong.fetch_add(1, Relaxed);
            }
            number += 1;
            slot.open(Value::new(number, &count))?;
        }
        stop.store(true, Release);
        for thread in &ended {
            thread.wait();
        }
        assert_eq!(wrong.load(Relaxed), 0);
        drop(slot);
        assert_eq!(count.load(Acquire), 0);
        Ok(())
    }
}
