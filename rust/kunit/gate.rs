// SPDX-License-Identifier: GPL-2.0

//! Tests of `Gate`: a closed gate gives no guard, and a revocation leaves no guard behind.

use super::{spawn, Event};
use crate::sys::{
    gate::Gate,
    irqlock::{new_spinlock_irq, SpinLockIrq},
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc,
    },
};

/// A value that records its drop.
struct Guarded(Arc<Atomic<bool>>);

impl Guarded {
    fn new() -> Result<(Self, Arc<Atomic<bool>>)> {
        let dropped = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        Ok((Self(dropped.clone()), dropped))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

fn gate<T>() -> Result<Arc<Gate<T>>> {
    Arc::pin_init(Gate::new(), GFP_KERNEL)
}

#[pin_data]
struct Locked {
    #[pin]
    lock: SpinLockIrq<u32>,
}

#[kunit_tests(weft_gate)]
mod tests {
    use super::*;

    #[test]
    fn is_closed_until_opened_and_after_it_is_revoked() -> Result {
        let gate = gate()?;
        assert!(gate.is_closed() && gate.enter().is_none());
        gate.open(7)?;
        assert!(!gate.is_closed());
        assert_eq!(gate.enter().map(|value| *value), Some(7));
        assert_eq!(gate.revoke(|| ()), Some(7));
        assert!(gate.is_closed() && gate.enter().is_none());
        assert_eq!(gate.revoke(|| ()), None);
        Ok(())
    }

    #[test]
    fn opens_once() -> Result {
        let gate = gate()?;
        gate.open(Guarded::new()?.0)?;
        let (second, dropped) = Guarded::new()?;
        assert_eq!(gate.open(second), Err(EBUSY));
        assert!(dropped.load(Acquire));
        drop(gate.revoke(|| ()));
        assert_eq!(gate.open(Guarded::new()?.0), Err(EBUSY));
        assert!(gate.enter().is_none());
        Ok(())
    }

    #[test]
    fn renewed_it_opens_once_more() -> Result {
        let gate = gate()?;
        gate.open(1)?;
        assert_eq!(gate.revoke(|| ()), Some(1));
        gate.renew();
        assert!(gate.is_closed() && gate.enter().is_none());
        gate.open(2)?;
        assert_eq!(gate.enter().map(|value| *value), Some(2));
        assert_eq!(gate.open(3), Err(EBUSY));
        assert_eq!(gate.revoke(|| ()), Some(2));
        assert_eq!(gate.open(4), Err(EBUSY));
        Ok(())
    }

    #[test]
    fn revoked_before_it_was_opened_it_stays_closed() -> Result {
        let gate = gate()?;
        let called = Atomic::new(false);
        assert_eq!(gate.revoke(|| called.store(true, Relaxed)), None);
        assert!(!called.load(Relaxed));
        assert_eq!(gate.open(1), Err(EBUSY));
        assert!(gate.is_closed());
        Ok(())
    }

    #[test]
    fn a_value_never_taken_goes_with_the_gate() -> Result {
        let gate = gate()?;
        let (value, dropped) = Guarded::new()?;
        gate.open(value)?;
        drop(gate);
        assert!(dropped.load(Acquire));
        Ok(())
    }

    #[test]
    fn revocation_closes_first_then_waits_for_those_inside() -> Result {
        let gate = gate()?;
        let (value, dropped) = Guarded::new()?;
        gate.open(value)?;
        let (inside, leave) = (Event::new()?, Event::new()?);
        let left = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let ended = {
            let (gate, inside, leave, left) =
                (gate.clone(), inside.clone(), leave.clone(), left.clone());
            spawn(move || {
                let guard = gate.enter();
                inside.happens();
                leave.wait();
                left.store(guard.is_some(), Release);
                drop(guard);
            })?
        };
        inside.wait();
        let mut entered_again = true;
        let value = gate.revoke(|| {
            entered_again = gate.enter().is_some();
            leave.happens();
        });
        assert!(left.load(Acquire));
        assert!(!entered_again);
        assert!(value.is_some() && !dropped.load(Acquire));
        drop(value);
        assert!(dropped.load(Acquire));
        ended.wait();
        Ok(())
    }

    #[test]
    fn users_that_come_and_go_while_it_closes_see_the_value_or_nothing() -> Result {
        const THREADS: usize = 4;
        for _ in 0..50 {
            let gate = gate()?;
            let (value, dropped) = Guarded::new()?;
            gate.open(value)?;
            let wrong = Arc::new(Atomic::new(0u32), GFP_KERNEL)?;
            let mut ended = KVec::with_capacity(THREADS, GFP_KERNEL)?;
            let first = Event::new()?;
            for _ in 0..THREADS {
                let (gate, wrong, first) = (gate.clone(), wrong.clone(), first.clone());
                let thread = spawn(move || {
                    while let Some(value) = gate.enter() {
                        if value.0.load(Acquire) {
                            wrong.fetch_add(1, Relaxed);
                        }
                        first.happens();
                    }
                })?;
                ended.push(thread, GFP_KERNEL)?;
            }
            first.wait();
            drop(gate.revoke(|| ()));
            assert!(dropped.load(Acquire));
            for thread in &ended {
                thread.wait();
            }
            assert_eq!(wrong.load(Relaxed), 0);
        }
        Ok(())
    }

    /// Enters as a hard interrupt does; the kernel reports a function that sleeps here.
    #[test]
    fn is_entered_with_interrupts_off() -> Result {
        let gate = gate()?;
        gate.open(3)?;
        let locked = KBox::pin_init(
            pin_init!(Locked { lock <- new_spinlock_irq!(0, c"weft kunit gate") }),
            GFP_KERNEL,
        )?;
        let mut value = locked.lock.lock();
        *value = gate.enter().map_or(0, |v| *v);
        drop(value);
        assert_eq!(*locked.lock.lock(), 3);
        assert_eq!(gate.revoke(|| ()), Some(3));
        Ok(())
    }
}
