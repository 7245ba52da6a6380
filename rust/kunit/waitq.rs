// SPDX-License-Identifier: GPL-2.0

//! Tests of `WaitQueue`: no wake-up is missed, and the time limit is kept.

use super::spawn;
use crate::sys::{
    irqlock::{new_spinlock_irq, SpinLockIrq},
    waitq::{sleep_on, Deadline, On, WaitQueue},
};
use kernel::{
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{Acquire, Atomic, Release},
        Arc,
    },
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// A ball, which two threads pass to each other, and the queue of its waiters.
#[pin_data]
struct Court {
    #[pin]
    waiters: WaitQueue,
    ball: Atomic<u32>,
    #[pin]
    lock: SpinLockIrq<()>,
}

impl Court {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                waiters <- WaitQueue::new(c"weft kunit", static_lock_class!()),
                ball: Atomic::new(0),
                lock <- new_spinlock_irq!((), c"weft kunit court"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the ball and wakes the waiters as an interrupt does: with interrupts disabled.
    fn play(&self, ball: u32) {
        let guard = self.lock.lock();
        self.ball.store(ball, Release);
        self.waiters.wake_all();
        drop(guard);
    }

    fn has(&self, ball: u32) -> bool {
        self.ball.load(Acquire) == ball
    }
}

#[kunit_tests(weft_waitq)]
mod tests {
    use super::*;

    #[test]
    fn what_is_already_so_is_not_waited_for() -> Result {
        let court = Court::new()?;
        court.waiters.wait(|| true)?;
        court.waiters.wait_ms(|| true, 0)
    }

    #[test]
    fn the_limit_is_kept() -> Result {
        let court = Court::new()?;
        let begin = Instant::<Monotonic>::now();
        assert_eq!(court.waiters.wait_ms(|| false, 30), Err(ETIMEDOUT));
        assert!(begin.elapsed().as_millis() >= 30);
        let begin = Instant::<Monotonic>::now();
        let deadline = Deadline::new(30);
        let waited = court.waiters.wait_through_until(|| false, &deadline);
        assert_eq!(waited, Err(ETIMEDOUT));
        assert!(begin.elapsed().as_millis() >= 30);
        // What is so counts, however late it is.
        court.waiters.wait_through_until(|| true, &deadline)
    }

    /// Each of two threads wakes the other at any moment while that goes to sleep: one missed wake-up
    /// would stop both.
    #[test]
    fn no_wake_up_is_missed() -> Result {
        const ROUNDS: u32 = 2000;
        let court = Court::new()?;
        let ended = {
            let court = court.clone();
            spawn(move || {
                for round in 0..ROUNDS {
                    let due = || court.has(2 * round + 1);
                    if court.waiters.wait_ms(due, 20_000).is_err() {
                        return;
                    }
                    court.play(2 * round + 2);
                }
            })?
        };
        for round in 0..ROUNDS {
            court.play(2 * round + 1);
            let due = || court.has(2 * round + 2);
            court.waiters.wait_ms(due, 20_000)?;
        }
        ended.wait();
        Ok(())
    }

    /// The condition sleeps, as one that takes a mutex does. The kernel reports a task that sleeps in
    /// another state than `TASK_RUNNING`.
    #[test]
    fn the_condition_may_sleep() -> Result {
        let court = Court::new()?;
        let ended = {
            let court = court.clone();
            spawn(move || court.play(1))?
        };
        let due = || {
            fsleep(Delta::from_millis(2));
            court.has(1)
        };
        court.waiters.wait_ms(due, 20_000)?;
        ended.wait();
        Ok(())
    }

    /// Has some threads `wait` for what `wake` does. Each is to be woken.
    fn each_is_woken(wait: fn(&Court) -> Result, wake: impl FnOnce(&Court)) -> Result {
        const THREADS: usize = 4;
        let court = Court::new()?;
        let woken = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let mut ended = KVec::with_capacity(THREADS, GFP_KERNEL)?;
        for _ in 0..THREADS {
            let (court, woken) = (court.clone(), woken.clone());
            let thread = spawn(move || {
                if wait(&court).is_ok() {
                    woken.fetch_add(1, Release);
                }
            })?;
            ended.push(thread, GFP_KERNEL)?;
        }
        wake(&court);
        for thread in &ended {
            thread.wait();
        }
        assert_eq!(woken.load(Acquire), THREADS as i32);
        Ok(())
    }

    #[test]
    fn all_are_woken() -> Result {
        let wait = |court: &Court| court.waiters.wait_ms(|| court.has(1), 20_000);
        each_is_woken(wait, |court| court.play(1))
    }

    /// Whichever queue the waker knows, and whatever the other one is for.
    #[test]
    fn a_sleeper_on_two_queues_is_woken_by_either() -> Result {
        const ROUNDS: u32 = 500;
        let courts = [Court::new()?, Court::new()?];
        let ended = {
            let [first, second] = [courts[0].clone(), courts[1].clone()];
            spawn(move || {
                for round in 0..ROUNDS {
                    let queues = [On::All(&first.waiters), On::Turn(&second.waiters)];
                    let due = || first.has(2 * round + 1) || second.has(2 * round + 1);
                    if sleep_on(queues, due, &Deadline::new(20_000)).is_err() {
                        return;
                    }
                    first.play(2 * round + 2);
                }
            })?
        };
        for round in 0..ROUNDS {
            let [first, second] = &courts;
            let court = if round % 2 == 0 { first } else { second };
            court.play(2 * round + 1);
            first.waiters.wait_ms(|| first.has(2 * round + 2), 20_000)?;
        }
        ended.wait();
        Ok(())
    }

    /// Each that is woken wakes the next one.
    #[test]
    fn one_at_a_time_is_woken() -> Result {
        let wait = |court: &Court| {
            let turn = [On::Turn(&court.waiters)];
            let woken = sleep_on(turn, || court.has(1), &Deadline::new(20_000));
            court.waiters.wake_one();
            woken
        };
        let wake = |court: &Court| {
            court.ball.store(1, Release);
            court.waiters.wake_one();
        };
        each_is_woken(wait, wake)
    }

    #[test]
    fn a_deadline_passes() -> Result {
        let court = Court::new()?;
        let begin = Instant::<Monotonic>::now();
        let deadline = Deadline::new(30);
        assert!(deadline.left().is_some_and(|left| left <= 30));
        let queues = [On::All(&court.waiters)];
        assert_eq!(sleep_on(queues, || false, &deadline), Err(ETIMEDOUT));
        assert!(begin.elapsed().as_millis() >= 30);
        assert_eq!(deadline.left(), Some(0));
        assert_eq!(Deadline::NEVER.left(), None);
        sleep_on(queues, || true, &Deadline::new(0))
    }
}
