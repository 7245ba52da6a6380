// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is measured, whatever the way: a job, and how the other end learns of it.

use crate::Result;
use crate::counts::{self, Counts};
use crate::way::Way;
use std::hint::spin_loop;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of the message that announces a job.
const HEAD: usize = 24;

/// How long the receiver of a flood does something else: longer than sending a message takes, also
/// where each of its stores is counted.
const ELSEWHERE: Duration = Duration::from_micros(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A message there and one back, `count` times.
    RoundTrip,
    /// `count` messages there, then one back. Short ones share a call, as many as a way may have wait
    /// for each other.
    Stream,
    /// The same, each by a call of its own.
    Each,
    /// The same, but the receiver does something else for a while after each message, so that it
    /// always finds the next one and the sender always waits for room.
    Flood,
    /// `count` messages there, each only when the one before is done; what both ports send for it is
    /// counted.
    Single,
    /// `count` writes into the other end's memory, which begin at odd places of this end's.
    Write,
}

impl Kind {
    const ALL: [(Kind, &'static str); 6] = [
        (Kind::RoundTrip, "round-trip"),
        (Kind::Stream, "stream"),
        (Kind::Each, "each"),
        (Kind::Flood, "flood"),
        (Kind::Single, "single"),
        (Kind::Write, "write"),
    ];
}

/// What came of a job.
#[derive(Debug, Default)]
pub struct Found {
    /// When it began, by the clock of the host: seconds.
    pub begin: f64,
    /// How long it took: seconds.
    pub seconds: f64,
    /// Of a job that counts: what both ports have sent.
    pub counted: Option<Counts>,
    /// Of round trips: how long each took, the shortest first.
    pub trips: Vec<f64>,
}

impl Found {
    /// The round trip that this share of all is no longer than; `None` if there are too few to tell.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let beyond = self.trips.len() as f64 * (1.0 - share);
        let place = (self.trips.len() as f64 * share) as usize;
        if beyond < 1.0 { None } else { self.trips.get(place).copied() }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    kind: Kind,
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages, or round trips.
    pub count: usize,
}

impl FromStr for Job {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(word: &str) -> Result<Self> {
        let mut parts = word.split(':');
        let (Some(kind), Some(bytes), Some(count), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("{word:?} is no job").into());
        };
        let Some((kind, _)) = Kind::ALL.into_iter().find(|(_, name)| *name == kind) else {
            return Err(format!("{kind:?} is no kind of job").into());
        };
        Ok(Job { kind, bytes: bytes.parse()?, count: count.parse()? })
    }
}

impl Job {
    /// The kind's name.
    pub fn name(&self) -> &'static str {
        Kind::ALL[self.number()].1
    }

    fn number(&self) -> usize {
        Kind::ALL.iter().position(|(kind, _)| *kind == self.kind).unwrap_or(0)
    }

    fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let kind = self.number() as u64 + 1;
        for (to, number) in head.chunks_mut(8).zip([kind, self.bytes as u64, self.count as u64]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        head
    }

    /// Has the other end begin, and measures.
    pub fn run(self, way: &mut Way) -> Result<Found> {
        let payload: Vec<u8> = (0..self.bytes).map(|n| n as u8).collect();
        way.send(&self.head())?;
        // The other end is ready, and what a first message needs is there.
        way.recv(&mut [0; 8])?;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let mut found = Found { begin, ..Found::default() };
        let start = Instant::now();
        match self.kind {
            Kind::RoundTrip => {
                found.trips.reserve(self.count);
                let mut before = start;
                let mut answer = vec![0; self.bytes];
                for _ in 0..self.count {
                    way.exchange(&payload, &mut answer)?;
                    let now = Instant::now();
                    found.trips.push((now - before).as_secs_f64());
                    before = now;
                }
            }
            Kind::Stream | Kind::Each | Kind::Flood => {
                let send = if self.kind == Kind::Each { Way::send } else { Way::queue };
                for _ in 0..self.count {
                    send(way, &payload)?;
                }
                way.settle()?;
                way.recv(&mut [0; 8])?;
            }
            Kind::Single => {
                // Of what announced the job.
                way.settle()?;
                let (port, before) = way.counts()?;
                for _ in 0..self.count {
                    way.send(&payload)?;
                    way.settle()?;
                }
                let mut both = counts::since(port, before)?;
                way.send(&[0; 8])?;
                let mut theirs = [0; 24];
                way.recv(&mut theirs)?;
                for (sum, part) in both.iter_mut().zip(theirs.chunks_exact(8)) {
                    *sum += u64::from_le_bytes(part.try_into()?);
                }
                found.counted = Some(both);
            }
            Kind::Write => {
                for n in 0..self.count {
                    way.write(n * 13 % 64, self.bytes)?;
                }
                way.settle()?;
                way.send(&[0; 8])?;
            }
        }
        found.seconds = start.elapsed().as_secs_f64();
        found.trips.sort_by(f64::total_cmp);
        Ok(found)
    }

    /// The other end's part.
    pub fn serve(self, way: &mut Way) -> Result<()> {
        let mut payload = vec![0; self.bytes];
        way.send(&[0; 8])?;
        match self.kind {
            Kind::RoundTrip if self.count > 0 => {
                let mut next = vec![0; self.bytes];
                way.recv(&mut payload)?;
                for _ in 1..self.count {
                    way.exchange(&payload, &mut next)?;
                    std::mem::swap(&mut payload, &mut next);
                }
                way.send(&payload)?;
            }
            Kind::RoundTrip => {}
            Kind::Stream | Kind::Each | Kind::Flood => {
                for _ in 0..self.count {
                    way.recv(&mut payload)?;
                    if self.kind == Kind::Flood {
                        something_else();
                    }
                }
                way.send(&[0; 8])?;
            }
            Kind::Single => {
                way.settle()?;
                let (port, before) = way.counts()?;
                for _ in 0..self.count {
                    way.recv(&mut payload)?;
                }
                let mine = counts::since(port, before)?;
                way.recv(&mut [0; 8])?;
                way.send(&mine.map(u64::to_le_bytes).concat())?;
            }
            Kind::Write => way.recv(&mut [0; 8])?,
        }
        Ok(())
    }
}

/// Takes the processor for some time.
fn something_else() {
    let start = Instant::now();
    while start.elapsed() < ELSEWHERE {
        spin_loop();
    }
}

/// Waits to be told of a job; `None`: there is none any more.
pub fn receive(way: &mut Way) -> Result<Option<Job>> {
    let mut head = [0; HEAD];
    way.recv(&mut head)?;
    let mut numbers = [0; 3];
    for (to, from) in numbers.iter_mut().zip(head.chunks(8)) {
        *to = u64::from_le_bytes(from.try_into()?);
    }
    let Some(kind) = numbers[0].checked_sub(1) else {
        way.send(&[0; 8])?;
        way.settle()?;
        return Ok(None);
    };
    let Some((kind, _)) = Kind::ALL.get(usize::try_from(kind)?).copied() else {
        return Err(format!("job of kind {kind}").into());
    };
    Ok(Some(Job { kind, bytes: numbers[1].try_into()?, count: numbers[2].try_into()? }))
}

/// Lets the other end go, and waits for that: it has to know that its last message has arrived.
pub fn end(way: &mut Way) -> Result<()> {
    way.send(&[0; HEAD])?;
    way.recv(&mut [0; 8])?;
    way.outlast()
}

#[cfg(test)]
mod tests {
    use super::Found;

    #[test]
    fn a_percentile_needs_a_trip_beyond_it() {
        let trips: Vec<f64> = (0..100).map(f64::from).collect();
        let found = Found { trips, ..Found::default() };
        assert_eq!(found.percentile(0.5), Some(50.0));
        assert_eq!(found.percentile(0.99), Some(99.0));
        assert_eq!(found.percentile(0.999), None);
        assert_eq!(Found::default().percentile(0.5), None);
    }
}
