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
//! is taken. A batch in which another thread got the processor is not counted: it may have done some
//! of the work, or nothing that has to do with it. Round trips whose ends sleep are in `asleep`.

mod asleep;
mod bulk;
mod connections;
mod matching;
mod pairs;
pub mod profile;
mod sockets;
mod trace;

use crate::verbs::{How, Verbs};
use crate::{Result, counts};
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
/// Batches of a run that have to be undisturbed.
const LEAST: usize = 11;

/// A function of its own: a trace shows where it is called.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn clock() -> u64 {
    // SAFETY: Every x86-64 has it, and Linux lets programs use it unless told otherwise.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn clock() -> u64 {
    0
}

/// How often another thread got the processor in place of this one.
fn switches() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    Ok(counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum())
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

fn report(what: &str, bytes: usize, batches: Vec<u64>, batch: usize) -> Result<()> {
    if batches.len() < LEAST {
        let count = batches.len();
        return Err(format!("{what}: only {count} batches were undisturbed").into());
    }
    let each = median(batches) as f64 / batch as f64;
    println!("{{\"job\": \"{what}\", \"bytes\": {bytes}, \"instructions\": {each:.2}}}");
    Ok(())
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
            report("channel-send", BYTES, sends, BATCH)?;
            report("channel-receive", BYTES, receives, BATCH)?;
        }
    }
    Ok(())
}

/// Messages of a batch over queue pairs: as many as are under way without a wait.
const QP_BATCH: usize = 32;

/// How often each end looks in vain between two batches.
const POLLS: usize = 8;

/// Over queue pairs, polled: the other end has the engine look when nothing has come yet. What it
/// takes the sender to learn that its messages have arrived is its own.
/// First the engine is rung for each message by itself, then as programs ring that have more than one
/// to send.
pub fn queue_pairs(from: u32, to: u32) -> Result<()> {
    let (mut sender, mut receiver) = joined(from, to, SERVICE + 1, How::Polled)?;
    for (name, ringing) in [("qp", true), ("qp-batched", false)] {
        for run in 0..=RUNS {
            let before = doorbells(from, to)?;
            let (sends, receives) = batches(&mut sender, &mut receiver, ringing, BATCHES)?;
            if run > 0 {
                report(&format!("{name}-send"), BYTES, sends, QP_BATCH)?;
                report(&format!("{name}-receive"), BYTES, receives, QP_BATCH)?;
                let each = (doorbells(from, to)? - before) as f64 / (BATCHES * QP_BATCH) as f64;
                println!(
                    "{{\"job\": \"{name}-doorbells\", \"bytes\": {BYTES}, \"doorbells\": {each:.5}}}"
                );
            }
        }
    }
    bulk::queue_pair(&mut sender, &mut receiver)?;
    asleep::queue_pairs(from, to)?;
    drop((sender, receiver));
    pairs::many(from, to)
}

/// Doorbells that both ports have rung.
fn doorbells(from: u32, to: u32) -> Result<u64> {
    let [_, _, here] = counts::of(from)?;
    let [_, _, there] = counts::of(to)?;
    Ok(here + there)
}

/// Queue pairs of two ports of this host that are joined.
fn joined(from: u32, to: u32, service: u32, how: How) -> Result<(Verbs, Verbs)> {
    joined_by(1, from, to, service, how)
}

/// The same by `count` of them.
fn joined_by(count: u32, from: u32, to: u32, service: u32, how: How) -> Result<(Verbs, Verbs)> {
    let port = Port::open(to)?;
    let listener = port.listen(service, 1)?;
    let accepting =
        thread::spawn(move || Verbs::join(&port, listener.accept(PATIENCE)?, how, count));
    let port = Port::open(from)?;
    let channel = port.connect(&Connect::to_link(0, service))?;
    let sender = Verbs::join(&port, channel, how, count)?;
    Ok((sender, accepting.join().map_err(|_| "the accepting thread panicked")??))
}

pub use asleep::spent;
pub use connections::tcp as connections;
pub use matching::{matching, tlps as tlps_of_matches};
pub use sockets::sockets;

/// By TCP, to an address of a network card in the namespace.
pub fn tcp(namespace: &str, address: &str) -> Result<()> {
    let ends = bulk::connected(namespace, address)?;
    asleep::tcp(&ends)?;
    bulk::tcp(ends)?;
    connections::tcp(namespace, address)
}

/// What each of `count` batches costs either end. `ringing`: for each message.
fn batches(
    sender: &mut Verbs,
    receiver: &mut Verbs,
    ringing: bool,
    count: usize,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let message = [7; BYTES];
    let post = |sender: &mut Verbs, _| {
        for _ in 0..QP_BATCH {
            sender.queue(black_box(&message))?;
            if ringing {
                sender.flush()?;
            }
        }
        sender.flush()
    };
    batches_of(sender, receiver, count, post, Verbs::settle)
}

/// The same of batches that `post` posts and rings for; it is told which one it is. `settle` waits for its completions.
fn batches_of(
    sender: &mut Verbs,
    receiver: &mut Verbs,
    count: usize,
    post: impl Fn(&mut Verbs, usize) -> Result<()>,
    settle: impl Fn(&mut Verbs) -> Result<()>,
) -> Result<(Vec<u64>, Vec<u64>)> {
    let mut got = [0; BYTES];
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for batch in 0..count {
        // Both look now and then when there is nothing, as a program that polls does.
        for _ in 0..POLLS {
            sender.idle()?;
            receiver.idle()?;
        }
        let before = switches()?;
        let start = clock();
        post(sender, batch)?;
        let sent = clock();
        for n in 0..QP_BATCH {
            if !receiver.try_recv(&mut got)? {
                return Err(format!("message {n} of {QP_BATCH} is not there").into());
            }
        }
        let received = clock();
        settle(sender)?;
        let end = clock();
        if switches()? == before {
            sends.push(sent - start + end - received);
            receives.push(received - sent);
        }
    }
    Ok((sends, receives))
}
