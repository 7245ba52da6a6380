// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions a message takes, from user to user.
//!
//! To be run in a guest of which QEMU counts the instructions (`-icount shift=0`): its time stamp
//! counter goes on by one with each, in the kernel or outside, whatever else the machine does. One
//! thread has both ends, on two ports of one host that are joined.
//!
//! Spinning is left out by this rule: counted are only calls that find what they need. A batch that
//! fits the ring is sent, then, when all of it is there, received; the clock is read before, between
//! and after. What a call costs that gives credit back or looks for it is in, as it is part of the
//! work; what interrupts of other things cost is in as well, and is why the median of many batches
//! is taken.

use crate::Result;
use std::hint::black_box;
use std::thread;
use std::time::Duration;
use weft::{Connect, Port};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(120));
const SERVICE: u32 = 7200;

/// Bytes of a message, messages of a batch, batches of a run, runs.
const BYTES: usize = 64;
const BATCH: usize = 64;
const BATCHES: usize = 101;
const RUNS: usize = 7;

#[cfg(target_arch = "x86_64")]
fn clock() -> u64 {
    // SAFETY: Every x86-64 has it, and Linux lets programs use it unless told otherwise.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn clock() -> u64 {
    0
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

fn report(what: &str, batches: Vec<u64>) {
    let each = median(batches) as f64 / BATCH as f64;
    println!("{{\"job\": \"{what}\", \"bytes\": {BYTES}, \"instructions\": {each:.2}}}");
}

/// Over a channel, from one port to another of this host.
pub fn channel(from: u32, to: u32) -> Result<()> {
    let listener = Port::open(to)?.listen(SERVICE, 1)?;
    let accepting = thread::spawn(move || listener.accept(PATIENCE));
    let mut sender = Port::open(from)?.connect(&Connect::to_link(0, SERVICE))?;
    let mut receiver = accepting.join().map_err(|_| "the accepting thread panicked")??;
    let message = [7; BYTES];
    let mut got = Vec::with_capacity(BYTES);
    for run in 0..=RUNS {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            let start = clock();
            for tag in 0..BATCH {
                if !sender.try_send(black_box(&message), tag as u64)? {
                    return Err("a batch does not fit the ring".into());
                }
            }
            let sent = clock();
            // What is on its way arrives without any spinning that would be counted.
            while !receiver.wait(false, PATIENCE)? {}
            let begin = clock();
            for tag in 0..BATCH {
                if receiver.try_recv(&mut got)? != Some(tag as u64) {
                    return Err(format!("message {tag} is not there").into());
                }
                black_box(&got);
            }
            receives.push(clock() - begin);
            sends.push(sent - start);
        }
        // The first one warms up.
        if run > 0 {
            report("send", sends);
            report("receive", receives);
        }
    }
    Ok(())
}
