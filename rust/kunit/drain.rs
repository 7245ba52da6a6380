// SPDX-License-Identifier: GPL-2.0

//! Tests of `Drain`: the count stays right through every change, and the last user is reported.

use super::spawn;
use crate::sys::drain::{Drain, Refused};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Full, Relaxed},
        Arc,
    },
};

#[kunit_tests(weft_drain)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_leave_what_is_closed_is_told() {
        let drain = Drain::open();
        assert_eq!(drain.enter(), Ok(()));
        assert_eq!(drain.enter(), Ok(()));
        assert!(!drain.leave());
        assert!(drain.close() && !drain.close());
        assert_eq!(drain.enter(), Err(Refused::Closed));
        assert!(drain.is_closed() && !drain.is_drained());
        assert!(drain.leave());
        assert!(drain.is_drained());
    }

    #[test]
    fn what_is_inside_stays_inside_when_it_is_opened_again() {
        let drain = Drain::closed();
        assert!(drain.is_drained() && drain.reopen() && !drain.reopen());
        assert_eq!(drain.enter(), Ok(()));
        assert!(drain.close() && drain.reopen());
        assert_eq!(drain.enter(), Ok(()));
        assert!(!drain.leave() && !drain.leave());
        assert!(drain.close() && drain.is_drained());
    }

    #[test]
    fn it_closes_idle_only_when_nothing_is_inside() {
        let drain = Drain::open();
        assert_eq!(drain.enter(), Ok(()));
        assert_eq!(drain.close_idle(), Err(Refused::Busy));
        assert!(!drain.leave());
        assert_eq!(drain.close_idle(), Ok(()));
        assert_eq!(drain.close_idle(), Err(Refused::Closed));
        assert_eq!(drain.enter(), Err(Refused::Closed));
    }

    #[test]
    fn of_many_that_leave_at_once_one_is_the_last() -> Result {
        const THREADS: usize = 4;
        let drain = Arc::new(Drain::open(), GFP_KERNEL)?;
        let last = Arc::new(Atomic::new(0u32), GFP_KERNEL)?;
        let mut ended = KVec::new();
        for _ in 0..THREADS {
            let (drain, last) = (drain.clone(), last.clone());
            let thread = spawn(move || {
                while drain.enter().is_ok() {
                    if drain.leave() {
                        last.fetch_add(1, Full);
                    }
                }
            })?;
            ended.push(thread, GFP_KERNEL)?;
        }
        assert_eq!(drain.enter(), Ok(()));
        assert!(drain.close());
        let mine = drain.leave();
        for thread in &ended {
            thread.wait();
        }
        assert!(drain.is_drained());
        assert_eq!(u32::from(mine) + last.load(Relaxed), 1);
        Ok(())
    }
}
