// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions native sockets take for messages of 64 bytes, for 32 KiB and for a mebibyte.
//!
//! What is written is in the memory of the other end when the call returns, so that nothing has to be waited for:
//! each call that is counted finds what it needs.

use super::trace::Trace;
use super::{BYTES, QP_BATCH, RUNS, asleep, clock, connections, report};
use crate::Result;
use crate::verbs::BATCH;
use std::io::{Read, Write};
use std::thread;
use weft::Port;
use weft::net::{Connect, Listener, Stream};

const SIZES: [usize; 2] = [32 << 10, 1 << 20];
/// What is written at a time, and bytes of the memory for it.
const PIECE: usize = 64 << 10;
const HALF: u32 = 256 << 10;
/// Batches of a run.
const BATCHES: usize = 21;
/// Batches of mebibytes that are traced: the first one has more in it.
const TRACED: usize = 4;

/// A connection from one port to another of this host: both ends.
fn joined(from: u32, to: u32, service: u32) -> Result<(Stream, Stream)> {
    let listener = Listener::bind(&Port::open(to)?, service, 1)?;
    let accepting = thread::spawn(move || listener.accept());
    let peer = Port::open(to)?.info()?.hwid;
    let here = Stream::connect(&Port::open(from)?, &Connect::new(peer, service).bytes(HALF))?;
    Ok((here, accepting.join().map_err(|_| "the accepting thread panicked")??))
}

/// Messages of 64 bytes, `share` of them in each call.
fn messages(ends: &mut (Stream, Stream), share: usize) -> Result<[Vec<u64>; 2]> {
    let (from, to) = ends;
    let mut bytes = vec![7; share * BYTES];
    let [mut sends, mut receives] = [const { Vec::new() }; 2];
    for _ in 0..BATCHES {
        let start = clock();
        for _ in 0..QP_BATCH / share {
            from.write_all(&bytes)?;
        }
        let sent = clock();
        for _ in 0..QP_BATCH / share {
            to.read_exact(&mut bytes)?;
        }
        receives.push(clock() - sent);
        sends.push(sent - start);
    }
    Ok([sends, receives])
}

/// So many bytes, both ends.
fn piece(ends: &mut (Stream, Stream), size: usize, batches: usize) -> Result<Vec<u64>> {
    let (from, to) = ends;
    let (bytes, mut got) = (vec![7; PIECE], vec![0; PIECE]);
    let mut all = Vec::new();
    for _ in 0..batches {
        let (mut done, start) = (0, clock());
        while done < size {
            let count = from.write(&bytes[..PIECE.min(size - done)])?;
            to.read_exact(&mut got[..count])?;
            done += count;
        }
        all.push(clock() - start);
    }
    Ok(all)
}

/// Over sockets, from one port to another of this host.
pub fn sockets(from: u32, to: u32) -> Result<()> {
    let mut ends = joined(from, to, super::SERVICE + 4)?;
    for end in [&ends.0, &ends.1] {
        end.set_nonblocking(true)?;
    }
    for run in 0..=RUNS {
        for (name, share) in [("socket", 1), ("socket-batched", BATCH)] {
            let [sends, receives] = messages(&mut ends, share)?;
            // The first one warms up.
            if run > 0 {
                report(&format!("{name}-send"), BYTES, sends, QP_BATCH)?;
                report(&format!("{name}-receive"), BYTES, receives, QP_BATCH)?;
            }
        }
        for size in SIZES {
            let whole = piece(&mut ends, size, BATCHES)?;
            if run > 0 {
                report("socket", size, whole, 1)?;
            }
        }
    }
    asleep::sockets(joined(from, to, super::SERVICE + 5)?)?;
    connections::sockets(from, to)
}

/// Some of that, to be traced.
pub fn traced(from: u32, to: u32, trace: &Trace<'_>) -> Result<()> {
    let mut ends = joined(from, to, super::SERVICE + 4)?;
    messages(&mut ends, 1)?;
    trace.of("socket", QP_BATCH, || messages(&mut ends, 1).map(drop))?;
    piece(&mut ends, 1 << 20, BATCHES)?;
    trace.of("socket-1m", 1, || piece(&mut ends, 1 << 20, TRACED).map(drop))?;
    asleep::traced_sockets(joined(from, to, super::SERVICE + 5)?, trace)?;
    connections::traced_sockets(from, to, trace)
}
