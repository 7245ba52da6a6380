// SPDX-License-Identifier: GPL-2.0

//! Tests of the spin lock for data that interrupts share.

use super::spawn;
use crate::sys::irqlock::{new_spinlock_irq, SpinLockIrq};
use kernel::{prelude::*, sync::Arc};

#[pin_data]
struct Locks {
    #[pin]
    outer: SpinLockIrq<u64>,
    #[pin]
    inner: SpinLockIrq<u64>,
}

impl Locks {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                outer <- new_spinlock_irq!(0, c"weft kunit outer"),
                inner <- new_spinlock_irq!(0, c"weft kunit inner"),
            }),
            GFP_KERNEL,
        )
    }
}

#[kunit_tests(weft_irqlock)]
mod tests {
    use super::*;

    #[test]
    fn excludes_others() -> Result {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 5000;
        let locks = Locks::new()?;
        let mut ended = KVec::with_capacity(THREADS, GFP_KERNEL)?;
        for _ in 0..THREADS {
            let locks = locks.clone();
            let thread = spawn(move || {
                for _ in 0..ROUNDS {
                    let mut value = locks.outer.lock();
                    *value = core::hint::black_box(*value) + 1;
                }
            })?;
            ended.push(thread, GFP_KERNEL)?;
        }
        for thread in &ended {
            thread.wait();
        }
        assert_eq!(*locks.outer.lock(), THREADS as u64 * ROUNDS);
        Ok(())
    }

    /// Takes one lock inside the other; lockdep checks that interrupts are enabled again in the end.
    #[test]
    fn nests() -> Result {
        let locks = Locks::new()?;
        let mut outer = locks.outer.lock();
        let mut inner = locks.inner.lock();
        *inner += 1;
        drop(inner);
        *outer += *locks.inner.lock();
        drop(outer);
        assert_eq!(*locks.outer.lock(), 1);
        Ok(())
    }
}
