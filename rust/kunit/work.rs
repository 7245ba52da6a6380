// SPDX-License-Identifier: GPL-2.0

//! Tests of `work`: references to items with timers that are moved and cancelled.

use super::Event;
use crate::sys::work;
use kernel::{
    impl_has_delayed_work, new_delayed_work,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc,
    },
    time::{msecs_to_jiffies, Msecs},
    workqueue::{DelayedWork, WorkItem},
};

/// A delay that does not end during the test.
const NEVER_MS: Msecs = 3_600_000;

/// An item that counts its runs and records its drop.
#[pin_data(PinnedDrop)]
struct Clock {
    #[pin]
    timer: DelayedWork<Clock>,
    runs: Arc<Atomic<u32>>,
    ran: Arc<Event>,
    dropped: Arc<Atomic<bool>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Clock { self.timer }
}

impl WorkItem for Clock {
    type Pointer = Arc<Clock>;

    fn run(this: Arc<Clock>) {
        this.runs.fetch_add(1, Relaxed);
        let ran = this.ran.clone();
        // Before the event, so that the waiter finds the reference released.
        drop(this);
        ran.happens();
    }
}

#[pinned_drop]
impl PinnedDrop for Clock {
    fn drop(self: Pin<&mut Self>) {
        self.dropped.store(true, Release);
    }
}

struct Watched {
    clock: Arc<Clock>,
    runs: Arc<Atomic<u32>>,
    ran: Arc<Event>,
    dropped: Arc<Atomic<bool>>,
}

fn clock() -> Result<Watched> {
    let runs = Arc::new(Atomic::new(0), GFP_KERNEL)?;
    let dropped = Arc::new(Atomic::new(false), GFP_KERNEL)?;
    let ran = Event::new()?;
    let (its_runs, its_ran, its_dropped) = (runs.clone(), ran.clone(), dropped.clone());
    let clock = Arc::pin_init(
        pin_init!(Clock {
            timer <- new_delayed_work!("weft kunit clock"),
            runs: its_runs,
            ran: its_ran,
            dropped: its_dropped,
        }),
        GFP_KERNEL,
    )?;
    Ok(Watched {
        clock,
        runs,
        ran,
        dropped,
    })
}

#[kunit_tests(weft_work)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_gives_its_reference_back() -> Result {
        let watched = clock()?;
        work::run_in(&watched.clock, 0);
        drop(watched.clock);
        watched.ran.wait();
        assert_eq!(watched.runs.load(Relaxed), 1);
        assert!(watched.dropped.load(Acquire));
        Ok(())
    }

    #[test]
    fn cancelled_it_never_runs() -> Result {
        let watched = clock()?;
        work::run_in(&watched.clock, msecs_to_jiffies(NEVER_MS));
        work::cancel_delayed(&watched.clock);
        // An item that is not queued has no reference to release.
        work::cancel_delayed(&watched.clock);
        drop(watched.clock);
        assert!(watched.dropped.load(Acquire));
        assert_eq!(watched.runs.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn moved_it_owns_one_reference() -> Result {
        let watched = clock()?;
        for _ in 0..3 {
            work::run_in(&watched.clock, msecs_to_jiffies(NEVER_MS));
        }
        work::run_in(&watched.clock, 0);
        drop(watched.clock);
        watched.ran.wait();
        assert_eq!(watched.runs.load(Relaxed), 1);
        assert!(watched.dropped.load(Acquire));
        Ok(())
    }
}
