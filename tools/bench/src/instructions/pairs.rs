// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions a message of 64 bytes takes where many queue pairs take turns. As in a stream of so many
//! messages as the rates are measured with (`scripts/lab/weftlab/speed/times.py`), each has a few of them and is rung for
//! once: fewer share a call than with one queue pair.

use super::{BATCHES, BYTES, QP_BATCH, RUNS, SERVICE, batches_of, joined_by, report};
use crate::Result;
use crate::verbs::{How, Verbs};
use std::hint::black_box;

/// Queue pairs, and messages of one that share a call: of 2048 each has so many.
const PAIRS: usize = 256;
const SHARE: usize = 8;

/// What each batch costs either end: messages of a few queue pairs, which all have their turn in the end.
fn batches(sender: &mut Verbs, receiver: &mut Verbs) -> Result<(Vec<u64>, Vec<u64>)> {
    let message = [7; BYTES];
    let post = |sender: &mut Verbs, batch: usize| {
        for n in 0..QP_BATCH / SHARE {
            let place = (batch * (QP_BATCH / SHARE) + n) % PAIRS;
            for _ in 0..SHARE {
                sender.queue_by(place, black_box(&message))?;
            }
            sender.flush_by(place)?;
        }
        Ok(())
    };
    batches_of(sender, receiver, BATCHES, post, Verbs::reap_all)
}

/// Over many queue pairs, polled.
pub fn many(from: u32, to: u32) -> Result<()> {
    let (mut sender, mut receiver) = joined_by(PAIRS as u32, from, to, SERVICE + 7, How::Polled)?;
    for run in 0..=RUNS {
        let (sends, receives) = batches(&mut sender, &mut receiver)?;
        if run > 0 {
            report("qp-256-pairs-send", BYTES, sends, QP_BATCH)?;
            report("qp-256-pairs-receive", BYTES, receives, QP_BATCH)?;
        }
    }
    Ok(())
}
