// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Messages there and back, and how long they take. Knows connections by
//! [`Wire`] alone.

use crate::failure::{Failure, Kind};
use crate::transfer::{Broken, Want, Wire};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Times of round trips, in microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The shortest.
    pub min_us: f64,
    /// Half were no longer.
    pub median_us: f64,
    /// 99 of 100 were no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// The smallest time that so many hundredths do not exceed.
fn percentile(sorted: &[Duration], hundredths: usize) -> f64 {
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// Sums up; `None` without any time.
pub fn latency(times: &[Duration]) -> Option<Latency> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    (!sorted.is_empty()).then(|| Latency {
        min_us: percentile(&sorted, 0),
        median_us: percentile(&sorted, 50),
        p99_us: percentile(&sorted, 99),
        max_us: percentile(&sorted, 100),
    })
}

fn gone(broken: &Broken) -> Failure {
    Failure::new(Kind::Unreachable, format!("the connection broke: {broken}"))
}

fn send<W: Wire>(wire: &mut W, tag: u64, payload: &[u8], deadline: Instant) -> Result<(), Broken> {
    while !wire.try_send(tag, payload)? {
        if Instant::now() >= deadline {
            return Err(Broken { closed: false, why: "the peer reads nothing".into() });
        }
        wire.wait(Want::Room, deadline)?;
    }
    Ok(())
}

/// One message there and back; it has to come back as it was.
pub fn round_trip<W: Wire>(
    wire: &mut W,
    tag: u64,
    payload: &[u8],
    echo: &mut Vec<u8>,
    timeout: Duration,
) -> Result<Duration, Failure> {
    let start = Instant::now();
    let deadline = start + timeout;
    send(wire, tag, payload, deadline).map_err(|b| gone(&b))?;
    let back = loop {
        if let Some(back) = wire.try_receive(echo).map_err(|b| gone(&b))? {
            break back;
        }
        if Instant::now() >= deadline {
            let seconds = timeout.as_secs_f64();
            let message = format!("message {tag} did not come back in {seconds} s");
            return Err(Failure::new(Kind::Unreachable, message).hint("--timeout waits longer"));
        }
        wire.wait(Want::Message, deadline).map_err(|b| gone(&b))?;
    };
    let elapsed = start.elapsed();
    if back != tag || echo != payload {
        let message = format!("message {tag} came back as another one");
        return Err(Failure::new(Kind::Integrity, message));
    }
    Ok(elapsed)
}

/// Sends back what comes, until the peer closes the connection; returns how many
/// came.
pub fn serve<W: Wire>(wire: &mut W, timeout: Duration) -> Result<u64, Broken> {
    let (mut payload, mut count) = (Vec::new(), 0);
    loop {
        match echo(wire, &mut payload, timeout) {
            Ok(came) => count += u64::from(came),
            Err(broken) if broken.closed => return Ok(count),
            Err(broken) => return Err(broken),
        }
    }
}

/// Sends back one message, or waits for it.
fn echo<W: Wire>(wire: &mut W, payload: &mut Vec<u8>, timeout: Duration) -> Result<bool, Broken> {
    let deadline = Instant::now() + timeout;
    match wire.try_receive(payload)? {
        Some(tag) => send(wire, tag, payload, deadline).map(|()| true),
        None => wire.wait(Want::Message, deadline).map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(times: &[u64]) -> Vec<Duration> {
        times.iter().map(|t| Duration::from_millis(*t)).collect()
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        assert_eq!(latency(&[]), None);
        let one = latency(&ms(&[7])).expect("a time");
        assert_eq!((one.min_us, one.median_us, one.max_us), (7e3, 7e3, 7e3));
        let hundred: Vec<u64> = (1..=100).rev().collect();
        let all = latency(&ms(&hundred)).expect("times");
        let want = Latency { min_us: 1e3, median_us: 50e3, p99_us: 99e3, max_us: 100e3 };
        assert_eq!(all, want);
    }
}
