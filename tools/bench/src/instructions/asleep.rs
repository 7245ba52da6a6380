// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions a round trip takes whose ends sleep until it comes: each end is a thread. All that
//! both do is counted, and all that the kernel does for them meanwhile, but not what is left over for
//! [`Rest`]: that is how long the emulator takes to carry a doorbell or a packet.

use super::trace::Trace;
use super::{BYTES, RUNS, SERVICE, clock, joined, report};
use crate::Result;
use crate::stream::Stream;
use crate::verbs::How;
use crate::way::Way;
use rustix::thread::gettid;
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Round trips that are counted together, and such batches of a run.
const TRIPS: usize = 64;
const BATCHES: usize = 21;
/// Batches that are traced: the first one has more in it than round trips.
const TRACED: usize = 4;
/// How long it is looked what a round of [`Rest`] costs.
const QUIET: Duration = Duration::from_millis(20);

/// A thread that runs when no other one does, and counts how often it goes round: what a round costs is
/// known, so that it is known how many instructions were left over.
pub struct Rest {
    rounds: Arc<AtomicU64>,
    each: f64,
}

impl Rest {
    pub fn new() -> Result<Self> {
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
    pub fn all(&self) -> u64 {
        (self.rounds.load(Relaxed) as f64 * self.each) as u64
    }
}

/// Answers `count` messages.
fn answer(mut way: Way, count: usize) -> Result<()> {
    let (mut message, mut next) = ([0; BYTES], [0; BYTES]);
    way.recv(&mut message)?;
    for _ in 1..count {
        way.exchange(&message, &mut next)?;
        std::mem::swap(&mut message, &mut next);
    }
    way.send(&message)?;
    way.settle()
}

/// What each of some batches of round trips takes. `left`: how many instructions were left over so far.
fn batches(near: &mut Way, count: usize, left: impl Fn() -> u64) -> Result<Vec<u64>> {
    let (message, mut got) = ([7; BYTES], [0; BYTES]);
    let mut all = Vec::new();
    for _ in 0..count {
        let (before, start) = (left(), clock());
        for _ in 0..TRIPS {
            near.exchange(&message, &mut got)?;
        }
        let spent = clock() - start;
        all.push(spent.saturating_sub(left() - before));
    }
    Ok(all)
}

/// Has `work` do `count` batches of round trips, the other end of which answers.
fn answered(
    mut near: Way,
    far: Way,
    count: usize,
    work: impl FnOnce(&mut Way) -> Result<()>,
) -> Result<()> {
    let answering = thread::spawn(move || answer(far, count * TRIPS));
    work(&mut near)?;
    near.settle()?;
    answering.join().map_err(|_| "the answering thread panicked")?
}

fn counted(rest: &Rest, name: &str, (near, far): (Way, Way)) -> Result<()> {
    answered(near, far, (RUNS + 1) * BATCHES, |near| {
        // The first one warms up.
        batches(near, BATCHES, || rest.all())?;
        for _ in 0..RUNS {
            let all = batches(near, BATCHES, || rest.all())?;
            report(&format!("{name}-round-trip"), BYTES, all, TRIPS)?;
        }
        Ok(())
    })
}

/// The machine idles when it has nothing to do: there would be much to write down of the thread that counts that.
fn traced(name: &str, (near, far): (Way, Way), trace: &Trace<'_>) -> Result<()> {
    answered(near, far, BATCHES + TRACED, |near| {
        batches(near, BATCHES, || 0)?;
        trace.of(name, TRIPS, || batches(near, TRACED, || 0).map(drop))
    })
}

/// Queue pairs of one port and of another of this host.
fn pairs(from: u32, to: u32, service: u32, how: How) -> Result<(Way, Way)> {
    let (near, far) = joined(from, to, service, how)?;
    Ok((Way::Qp(near.into()), Way::Qp(far.into())))
}

/// Over queue pairs, from one port to another of this host.
pub fn queue_pairs(from: u32, to: u32) -> Result<()> {
    let rest = Rest::new()?;
    counted(&rest, "qp-sleeping", pairs(from, to, SERVICE + 2, How::Sleeping)?)?;
    counted(&rest, "qp-events", pairs(from, to, SERVICE + 3, How::Events)?)
}

/// The same, in the one call, to be traced.
pub fn traced_queue_pairs(from: u32, to: u32, trace: &Trace<'_>) -> Result<()> {
    let ends = pairs(from, to, SERVICE + 2, How::Sleeping)?;
    traced("qp-sleeping", ends, trace)
}

fn ways(ends: &(TcpStream, TcpStream)) -> Result<(Way, Way)> {
    let way = |end: &TcpStream| -> Result<Way> {
        Ok(Way::Tcp(Stream::new(end.try_clone()?, false)?.into()))
    };
    Ok((way(&ends.0)?, way(&ends.1)?))
}

fn over_sockets((near, far): (weft::net::Stream, weft::net::Stream)) -> Result<(Way, Way)> {
    let way = |end| -> Result<Way> { Ok(Way::Socket(Stream::new(end, false)?.into())) };
    Ok((way(near)?, way(far)?))
}

/// Over a connection of sockets.
pub fn sockets(ends: (weft::net::Stream, weft::net::Stream)) -> Result<()> {
    counted(&Rest::new()?, "socket-sleeping", over_sockets(ends)?)
}

/// The same, to be traced.
pub fn traced_sockets(
    ends: (weft::net::Stream, weft::net::Stream),
    trace: &Trace<'_>,
) -> Result<()> {
    traced("socket-sleeping", over_sockets(ends)?, trace)
}

/// By TCP, over this connection.
pub fn tcp(ends: &(TcpStream, TcpStream)) -> Result<()> {
    counted(&Rest::new()?, "tcp-sleeping", ways(ends)?)
}

/// The same, to be traced.
pub fn traced_tcp(ends: &(TcpStream, TcpStream), trace: &Trace<'_>) -> Result<()> {
    traced("tcp-sleeping", ways(ends)?, trace)
}

/// What the machine does while a command runs, in its programs and for them, but not what is left over.
pub fn spent(command: &[&str]) -> Result<()> {
    let [program, arguments @ ..] = command else { return Err(crate::USAGE.into()) };
    let rest = Rest::new()?;
    let (before, start) = (rest.all(), clock());
    let status = Command::new(program).args(arguments).status()?;
    let spent = (clock() - start).saturating_sub(rest.all() - before);
    if !status.success() {
        return Err(format!("{program}: {status}").into());
    }
    println!("{{\"job\": \"spent\", \"instructions\": {spent}}}");
    Ok(())
}
