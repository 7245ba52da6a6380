// SPDX-License-Identifier: GPL-2.0

//! Tests of `Throttle`, the rate limit of messages.

use crate::sys::throttle::Throttle;
use kernel::{
    prelude::*,
    time::{delay::fsleep, Delta},
};

#[kunit_tests(weft_throttle)]
mod tests {
    use super::*;

    #[test]
    fn passes_a_burst_and_no_more() -> Result {
        let throttle = Throttle::new(3, Delta::from_secs(3600));
        for _ in 0..3 {
            assert_eq!(throttle.pass(), Some(0));
        }
        for _ in 0..5 {
            assert_eq!(throttle.pass(), None);
        }
        Ok(())
    }

    #[test]
    fn says_in_the_next_interval_how_many_were_kept() -> Result {
        let throttle = Throttle::new(1, Delta::from_millis(50));
        let mut kept = 0;
        // Until one is suppressed: an interval may have ended in between.
        while throttle.pass().is_some() {}
        kept += 1;
        fsleep(Delta::from_millis(60));
        let mut told = None;
        while told.is_none() {
            told = throttle.pass();
            kept += u32::from(told.is_none());
        }
        assert_eq!(told, Some(kept));
        Ok(())
    }
}
