// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a user's count of posted requests can make the driver do.

use proptest::prelude::*;
use weft_proto::wqe::QueueShape;

const ENTRIES: u32 = 16;

proptest! {
    /// A thread polls while requests are added. A queue pair that takes none cannot keep it polling.
    #[test]
    fn a_queue_that_is_not_served_tells_of_each_entry_once(
        taken in 0..1_000_000u64,
        counts in prop::collection::vec(prop_oneof![0..2_000_000u64, any::<u64>(), 0..=32u64], 1..400),
    ) {
        let shape = QueueShape::send(ENTRIES, 1, 0).expect("allowed");
        let mut seen = 0;
        let near = counts.iter().map(|count| taken.wrapping_add(count % 32).wrapping_sub(8));
        let told = counts.iter().copied().chain(near)
            .filter(|posted| shape.tells_of_more(*posted, taken, &mut seen))
            .count();
        prop_assert!(told <= ENTRIES as usize, "{told} times");
    }
}

#[test]
fn a_queue_that_is_served_tells_of_all() {
    let shape = QueueShape::send(ENTRIES, 1, 0).expect("allowed");
    let mut seen = 0;
    for posted in 1..100 {
        assert!(
            shape.tells_of_more(posted, posted - 1, &mut seen),
            "{posted}"
        );
        assert!(
            !shape.tells_of_more(posted, posted - 1, &mut seen),
            "{posted} again"
        );
    }
}
