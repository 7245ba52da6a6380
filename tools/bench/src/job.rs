// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What is measured, whatever the way: a job, and how the other end learns of it.

use crate::Result;
use crate::way::Way;
use std::hint::spin_loop;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Bytes of the message that announces a job.
const HEAD: usize = 24;

/// How long the receiver of a flood does something else: longer than sending a message takes, also
/// where each of its stores is counted.
const ELSEWHERE: Duration = Duration::from_micros(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A message there and one back, `count` times.
    RoundTrip,
    /// `count` messages there, then one back.
    Stream,
    /// The same, but the receiver does something else for a while after each message, so that it
    /// always finds the next one and the sender always waits for room.
    Flood,
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
        let kind = match kind {
            "round-trip" => Kind::RoundTrip,
            "stream" => Kind::Stream,
            "flood" => Kind::Flood,
            _ => return Err(format!("{kind:?} is no kind of job").into()),
        };
        Ok(Job { kind, bytes: bytes.parse()?, count: count.parse()? })
    }
}

impl Job {
    /// The kind's name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::RoundTrip => "round-trip",
            Kind::Stream => "stream",
            Kind::Flood => "flood",
        }
    }

    fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let kind = match self.kind {
            Kind::RoundTrip => 1,
            Kind::Stream => 2,
            Kind::Flood => 3,
        };
        for (to, number) in head.chunks_mut(8).zip([kind, self.bytes as u64, self.count as u64]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        head
    }

    /// Has the other end begin, and measures: seconds.
    pub fn run(self, way: &mut Way) -> Result<f64> {
        let mut payload: Vec<u8> = (0..self.bytes).map(|n| n as u8).collect();
        way.send(&self.head())?;
        // The other end is ready, and what a first message needs is there.
        way.recv(&mut [0; 8])?;
        let start = Instant::now();
        match self.kind {
            Kind::RoundTrip => {
                for _ in 0..self.count {
                    way.send(&payload)?;
                    way.recv(&mut payload)?;
                }
            }
            Kind::Stream | Kind::Flood => {
                for _ in 0..self.count {
                    way.send(&payload)?;
                }
                way.recv(&mut [0; 8])?;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// The other end's part.
    pub fn serve(self, way: &mut Way) -> Result<()> {
        let mut payload = vec![0; self.bytes];
        way.send(&[0; 8])?;
        match self.kind {
            Kind::RoundTrip => {
                for _ in 0..self.count {
                    way.recv(&mut payload)?;
                    way.send(&payload)?;
                }
            }
            Kind::Stream | Kind::Flood => {
                for _ in 0..self.count {
                    way.recv(&mut payload)?;
                    if self.kind == Kind::Flood {
                        something_else();
                    }
                }
                way.send(&[0; 8])?;
            }
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
    let kind = match numbers[0] {
        0 => {
            way.send(&[0; 8])?;
            return Ok(None);
        }
        1 => Kind::RoundTrip,
        2 => Kind::Stream,
        3 => Kind::Flood,
        other => return Err(format!("job of kind {other}").into()),
    };
    Ok(Some(Job { kind, bytes: numbers[1].try_into()?, count: numbers[2].try_into()? }))
}

/// Lets the other end go.
pub fn end(way: &mut Way) -> Result<()> {
    way.send(&[0; HEAD])?;
    way.recv(&mut [0; 8])
}
