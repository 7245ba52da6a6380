// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a user's count of posted requests, and entries that the user writes meanwhile, can make the driver
//! do.

use proptest::prelude::*;
use std::cell::Cell;
use weft_proto::wqe::{QueueShape, RecvWqe, SendWqe, MAX_INLINE, SEND_BYTES};

const ENTRIES: u32 = 16;

/// Words of the longest entry.
const WORDS: usize = (SEND_BYTES + MAX_INLINE) / 8;

/// An entry that another thread writes: the second load of a word finds another one.
struct Shared {
    words: [u64; WORDS],
    loads: [Cell<u32>; WORDS],
}

impl Shared {
    fn new(words: [u64; WORDS]) -> Self {
        let loads = [const { Cell::new(0) }; WORDS];
        Self { words, loads }
    }

    fn load(&self, n: usize) -> u64 {
        self.loads[n].set(self.loads[n].get() + 1);
        self.words[n]
    }

    /// How often the word that was loaded most often was, and behind which word nothing was.
    fn seen(&self) -> (u32, usize) {
        let most = self.loads.iter().map(Cell::get).max().unwrap_or(0);
        let end = self.loads.iter().rposition(|n| n.get() > 0);
        (most, end.map_or(0, |n| n + 1))
    }
}

/// Words of an entry that often make sense.
fn words() -> impl Strategy<Value = [u64; WORDS]> {
    let second = (0..=10u64, 0..16u64, 0..=20u64, any::<bool>(), any::<u32>()).prop_map(
        |(op, flags, count, long, imm)| {
            let count = if long { 14 * count } else { count };
            op | (flags << 8) | (count << 16) | (u64::from(imm % 3) << 32)
        },
    );
    let rest = prop::collection::vec(prop_oneof![Just(0), 0..1u64 << 40, any::<u64>()], WORDS);
    (second, rest, any::<bool>()).prop_map(|(second, rest, bare)| {
        let mut words = [0; WORDS];
        words.copy_from_slice(&rest);
        words[1] = second;
        if bare {
            (words[6], words[7]) = (0, 0);
        }
        words
    })
}

proptest! {
    /// What was checked is what is used, as no word is loaded again; and nothing behind the entry is.
    #[test]
    fn each_word_of_an_entry_is_loaded_once(words in words(), sges in 1..=16u32, inline in 0..=256u32) {
        let shape = QueueShape::send(ENTRIES, sges, inline).expect("allowed");
        let entry = Shared::new(words);
        let mut wqe = SendWqe::BLANK;
        let (identity, sense) = wqe.read(|n| entry.load(n), &shape);
        let (most, end) = entry.seen();
        prop_assert!(most == 1 && 8 * end <= shape.stride() as usize, "{most} times, up to {end}");
        prop_assert_eq!(identity.wr_id, words[0]);
        if sense.is_ok() {
            prop_assert_eq!(wqe.wr_id, words[0]);
            let data: Vec<u8> = words[8..].iter().flat_map(|word| word.to_ne_bytes()).collect();
            if let Some(bytes) = wqe.tail.inline() {
                prop_assert!(bytes.len() <= inline as usize);
                prop_assert_eq!(bytes, &data[..bytes.len()]);
            }
            for (n, sge) in wqe.tail.list().into_iter().flat_map(|list| list.as_slice()).enumerate() {
                prop_assert_eq!(sge.to, words[8 + 2 * n]);
                let rest = u64::from(sge.length) | (u64::from(sge.stag) << 32);
                prop_assert_eq!(rest, words[9 + 2 * n]);
            }
        }

        // A receive request: its count is elsewhere.
        let shape = QueueShape::recv(ENTRIES, sges).expect("allowed");
        let mut words = words;
        words[1] >>= 16;
        let entry = Shared::new(words);
        let mut wqe = RecvWqe::BLANK;
        let sense = wqe.read(|n| entry.load(n), &shape);
        let (most, end) = entry.seen();
        prop_assert!(most == 1 && 8 * end <= shape.stride() as usize, "{most} times, up to {end}");
        prop_assert_eq!(wqe.wr_id, words[0]);
        if sense.is_ok() {
            prop_assert_eq!(wqe.list.as_slice().len() as u64, words[1]);
            let total: u64 = wqe.list.as_slice().iter().map(|sge| u64::from(sge.length)).sum();
            prop_assert_eq!(wqe.list.bytes(), total);
        }
    }

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
