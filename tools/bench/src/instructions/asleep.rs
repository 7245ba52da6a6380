// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions a round trip takes whose ends sleep until it comes: each end is a thread. All that
//! both do is counted, and all that the kernel does for them meanwhile, but not what is left over for
//! [`Rest`]: that is how long the emulator takes to carry a doorbell or a packet.

use super::{BYTES, PATIENCE, RUNS, SERVICE, clock, report};
use crate::Result;
use crate::tcp::Tcp;
use crate::verbs::{How, Verbs};
use crate::way::Way;
use rustix::thread::gettid;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use weft::{Connect, Port};

/// Round trips that are counted together, and such batches of a run.
const TRIPS: usize = 64;
const BATCHES: usize = 21;
/// How long it is looked what a round of [`Rest`] costs.
const QUIET: Duration = Duration::from_millis(20);

/// A thread that runs when no other one does, and counts how often it goes round: what a round costs is
/// known, so that it is known how many instructions were left over.
struct Rest {
    rounds: Arc<AtomicU64>,
    each: f64,
}

impl Rest {
    fn new() -> Result<Self> {
        let rounds = Arc::new(AtomicU64::new(0));
        let (counted, (tell, told)) = (rounds.clone(), mpsc::channel());
        thread::spawn(move || {
            let _ = tell.send(gettid().to_string());
            loop {
                counted.fetch_add(1, Relaxed);
            }
        });
        let thread = told.recv()?;
        let chrt = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status()?;
        if !chrt.success() {
            return Err("a thread cannot have the idle policy".into());
        }
        let mut rest = Rest { rounds, each: f64::INFINITY };
        for _ in 0..RUNS {
            let (start, before) = (clock(), rest.rounds.load(Relaxed));
            thread::sleep(QUIET);
            let (ticks, rounds) = (clock() - start, rest.rounds.load(Relaxed) - before);
            // Any interrupt adds to it.
            rest.each = rest.each.min(ticks as f64 / rounds as f64);
        }
        Ok(rest)
    }

    /// How many instructions were left over so far.
    fn all(&self) -> u64 {
        (self.rounds.load(Relaxed) as f64 * self.each) as u64
    }
}

/// Answers as many messages as the other end sends.
fn answer(mut way: Way) -> Result<()> {
    let (mut message, mut next) = ([0; BYTES], [0; BYTES]);
    way.recv(&mut message)?;
    for _ in 1..(RUNS + 1) * BATCHES * TRIPS {
        way.exchange(&message, &mut next)?;
        std::mem::swap(&mut message, &mut next);
    }
    way.send(&message)?;
    way.settle()
}

fn round_trips(rest: &Rest, name: &str, mut near: Way, far: Way) -> Result<()> {
    let answering = thread::spawn(move || answer(far));
    let (message, mut got) = ([7; BYTES], [0; BYTES]);
    for run in 0..=RUNS {
        let mut all = Vec::new();
        for _ in 0..BATCHES {
            let (before, start) = (rest.all(), clock());
            for _ in 0..TRIPS {
                near.exchange(&message, &mut got)?;
            }
            let spent = clock() - start;
            all.push(spent.saturating_sub(rest.all() - before));
        }
        // The first one warms up.
        if run > 0 {
            report(&format!("{name}-round-trip"), BYTES, all, TRIPS)?;
        }
    }
    near.settle()?;
    answering.join().map_err(|_| "the answering thread panicked")?
}

/// Over queue pairs, from one port to another of this host.
pub fn queue_pairs(from: u32, to: u32) -> Result<()> {
    let rest = Rest::new()?;
    for (service, name, how) in
        [(SERVICE + 2, "qp-sleeping", How::Sleeping), (SERVICE + 3, "qp-events", How::Events)]
    {
        let port = Port::open(to)?;
        let listener = port.listen(service, 1)?;
        let accepting =
            thread::spawn(move || Verbs::join(&port, listener.accept(PATIENCE)?, how, 1));
        let port = Port::open(from)?;
        let channel = port.connect(&Connect::to_link(0, service))?;
        let near = Verbs::join(&port, channel, how, 1)?;
        let far = accepting.join().map_err(|_| "the accepting thread panicked")??;
        round_trips(&rest, name, Way::Qp(near.into()), Way::Qp(far.into()))?;
    }
    Ok(())
}

/// By TCP, over this connection.
pub fn tcp(ends: &(TcpStream, TcpStream)) -> Result<()> {
    let way = |end: &TcpStream| -> Result<Way> {
        Ok(Way::Tcp(Tcp::new(end.try_clone()?, false)?.into()))
    };
    round_trips(&Rest::new()?, "tcp-sleeping", way(&ends.0)?, way(&ends.1)?)
}
