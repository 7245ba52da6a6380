// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions a message with match bits takes, between two interfaces that are polled: what its source does,
//! and what its target does for a buffer that it has appended before. Then what the target does, with more and more
//! buffers in front of that one, each for other bits, or each with bits that it ignores.

use super::trace::Trace;
use super::{BYTES, RUNS, clock, report, switches};
use crate::matching::{events, post};
use crate::{Result, counts};
use std::hint::black_box;
use weft::Port;
use weft::matching::{
    Append, Command, Criteria, EventKind, Matching, MatchingOptions, Memory, Message,
};

/// Messages of a batch: no more than wait for an interface.
const BATCH: usize = 32;
const BATCHES: usize = 51;
/// Batches that are traced: the first one has more in it.
const TRACED: usize = 6;
/// Buffers in front of the ones that messages meet. An interface has no more entries than an engine.
const DEPTHS: [u64; 4] = [1, 64, 1024, 16_000];
const ENTRIES: u32 = 16_384;
/// Bits of which no message has any.
const OTHERS: u64 = 1 << 63;
/// Bits that say nothing, where some are ignored.
const IGNORED: u64 = 0xff << 32;

/// Two interfaces, and memory for what the second one receives.
struct Ends {
    from: Matching,
    to: Matching,
    memory: Vec<[u8; BYTES]>,
}

impl Ends {
    fn new(from: u32, to: u32) -> Result<Self> {
        let options = MatchingOptions::default().entries(ENTRIES).commands(4096).events(4096);
        let mut ends = Ends {
            from: Port::open(from)?.matching(&MatchingOptions::default())?,
            to: Port::open(to)?.matching(&options)?,
            memory: vec![[0; BYTES]; BATCH],
        };
        post(&mut ends.to, &Command::enable(0))?;
        events(&mut ends.to, 1, EventKind::Command)?;
        Ok(ends)
    }

    /// Appends a buffer for one message.
    fn append(&mut self, n: u64, ignore: u64) -> Result<()> {
        let buffer = &mut self.memory[n as usize % BATCH];
        // SAFETY: It lives as long as the interface, and nothing else looks at it.
        let memory = unsafe { Memory::new(buffer.as_mut_ptr(), BYTES) };
        let criteria = Criteria { bits: n, ignore, source: None };
        post(&mut self.to, &Command::append(&Append::once(criteria, memory, n)))
    }

    /// Appends buffers that no message of a batch is for.
    fn deepen(&mut self, from: u64, to: u64, ignore: u64) -> Result<()> {
        for n in from..to {
            self.append(OTHERS | n, ignore)?;
        }
        self.to.poll()?;
        Ok(())
    }

    /// What each of some batches takes its source, the appending of buffers, and the target of its messages.
    fn batches(&mut self, count: usize, ignore: u64) -> Result<[Vec<u64>; 3]> {
        let address = self.to.address();
        let message = [7; BYTES];
        let [mut sends, mut appends, mut receives] = [const { Vec::new() }; 3];
        for _ in 0..count {
            let before = switches()?;
            let start = clock();
            for n in 0..BATCH as u64 {
                self.append(n, ignore)?;
            }
            self.to.poll()?;
            let appended = clock();
            for n in 0..BATCH as u64 {
                let message = Message::in_ring(address, black_box(&message), n);
                let message = message.ok_or("a message is too long for the ring")?;
                if !self.from.send(&message.bits(n)) {
                    return Err("a batch does not fit the ring".into());
                }
            }
            self.from.poll()?;
            let sent = clock();
            self.to.poll()?;
            events(&mut self.to, BATCH, EventKind::Received)?;
            let received = clock();
            self.from.poll()?;
            events(&mut self.from, BATCH, EventKind::Sent)?;
            let end = clock();
            if switches()? == before {
                appends.push(appended - start);
                sends.push(sent - appended + end - received);
                receives.push(received - sent);
            }
        }
        Ok([sends, appends, receives])
    }
}

/// Between interfaces of two ports of this host.
pub fn matching(from: u32, to: u32) -> Result<()> {
    for (name, ignore) in [("exact", 0), ("wildcard", IGNORED)] {
        let mut ends = Ends::new(from, to)?;
        let mut before = 0;
        for depth in DEPTHS {
            ends.deepen(before, depth, ignore)?;
            before = depth;
            for run in 0..=RUNS {
                let [sends, appends, receives] = ends.batches(BATCHES, ignore)?;
                // The first one warms up.
                if run == 0 {
                    continue;
                }
                if (ignore, depth) == (0, DEPTHS[0]) {
                    report("match-send", BYTES, sends, BATCH)?;
                    report("match-append", BYTES, appends, BATCH)?;
                }
                report(&format!("match-{name}-{depth}"), BYTES, receives, BATCH)?;
            }
        }
    }
    Ok(())
}

/// What messages cost on the wire, of both ports: posted writes, and requests that are not.
pub fn tlps(from: u32, to: u32) -> Result<()> {
    let mut ends = Ends::new(from, to)?;
    ends.batches(BATCHES, 0)?;
    for _ in 0..RUNS {
        let before = [counts::of(from)?, counts::of(to)?];
        ends.batches(BATCHES, 0)?;
        let [writes, reads, _] = counts::since(from, before[0])?;
        let [answers, back, _] = counts::since(to, before[1])?;
        let posted = (writes + answers) as f64 / (BATCHES * BATCH) as f64;
        println!(
            "{{\"job\": \"match-tlps\", \"bytes\": {BYTES}, \"posted\": {posted:.4}, \"read\": {}}}",
            reads + back
        );
    }
    Ok(())
}

/// The same, at the end that has the fewest in front, to be traced.
pub fn traced(from: u32, to: u32, trace: &Trace<'_>) -> Result<()> {
    let mut ends = Ends::new(from, to)?;
    ends.batches(BATCHES, 0)?;
    trace.of("match", BATCH, || ends.batches(TRACED, 0).map(drop))
}
