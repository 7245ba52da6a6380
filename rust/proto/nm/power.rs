// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How fast and how wide a link has to be for its traffic.
//!
//! Up at once, as far as the traffic asks for; down step by step, and only after it has been low for a
//! while: a link that is trained anew carries nothing meanwhile, and routes follow its speed. Lanes are
//! given up before speed is. This file must not know how traffic is measured.

/// Load, in percent, above which a link gets faster.
pub const BUSY_PERCENT: u64 = 75;
/// Load below which it may get slower. Half as fast it has twice the load, still well below
/// [`BUSY_PERCENT`]: it does not go up again for the same traffic.
pub const IDLE_PERCENT: u64 = 25;
/// So many samples in a row have to be low.
pub const PATIENCE: u8 = 8;
/// Time of a sample.
pub const SAMPLE_MS: u64 = 250;

/// Bytes a second of one lane of the first generation.
const LANE: u64 = 250_000_000;

/// Speed and width of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Generation, 1 to 6.
    pub speed: u8,
    /// Lanes.
    pub width: u8,
}

impl Rate {
    /// Bytes a second, roughly: each generation is taken for twice the last.
    pub fn bytes(&self) -> u64 {
        let speed = u32::from(self.speed.clamp(1, 6)) - 1;
        (LANE << speed) * u64::from(self.width.max(1))
    }

    /// The next slower one.
    fn slower(self) -> Option<Self> {
        match self {
            Self { speed, width } if width > 1 => Some(Self {
                speed,
                width: width / 2,
            }),
            Self { speed, width } if speed > 1 => Some(Self {
                speed: speed - 1,
                width,
            }),
            _ => None,
        }
    }
}

/// The policy of one link.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    most: Rate,
    least: Rate,
    now: Rate,
    low: u8,
}

impl Policy {
    /// A link that is as fast as it can be, `most`, and shall not be slower than `least`.
    pub fn new(most: Rate, least: Rate) -> Self {
        Self {
            most,
            least,
            now: most,
            low: 0,
        }
    }

    /// What the link should be.
    pub fn rate(&self) -> Rate {
        self.now
    }

    /// The link was trained: this is what it has become, whatever was asked for.
    pub fn trained(&mut self, rate: Rate) {
        self.now = rate;
        self.low = 0;
    }

    /// So many bytes have passed, in the busier direction, in `ms` milliseconds. Answers what the link
    /// shall become, if that is another thing than it is.
    pub fn sample(&mut self, bytes: u64, ms: u64) -> Option<Rate> {
        let traffic = bytes.saturating_mul(1000).checked_div(ms)?;
        let load = percent(traffic, self.now);
        let target = if load > BUSY_PERCENT {
            self.low = 0;
            self.enough(traffic)
        } else if load < IDLE_PERCENT {
            self.low = self.low.saturating_add(1);
            match self.now.slower() {
                Some(slower) if self.low >= PATIENCE && slower.bytes() >= self.least.bytes() => {
                    self.low = 0;
                    slower
                }
                _ => self.now,
            }
        } else {
            self.low = 0;
            self.now
        };
        if target == self.now {
            return None;
        }
        self.now = target;
        Some(target)
    }

    /// The slowest rate that is at least twice as fast as now and leaves room above `traffic`, or the
    /// fastest: a link that is full does not say how much more would come.
    fn enough(&self, traffic: u64) -> Rate {
        let mut best = self.most;
        while let Some(slower) = best.slower() {
            let faster = slower.bytes() >= self.now.bytes().saturating_mul(2);
            if !faster || percent(traffic, slower) > BUSY_PERCENT {
                break;
            }
            best = slower;
        }
        if best.bytes() > self.now.bytes() {
            best
        } else {
            self.now
        }
    }
}

fn percent(traffic: u64, rate: Rate) -> u64 {
    traffic.saturating_mul(100) / rate.bytes()
}
