// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Power policy: the speed and width of a link that its traffic needs.
//!
//! A link goes up at once, as far as the traffic needs, or to the most if it is full; it goes down step by
//! step, and only after the traffic has been low for a while: a link in training carries nothing, and routes
//! depend on its speed.
//! The width is reduced before the speed. A link that goes down and is needed again soon waits twice as
//! long the next time. So periodic traffic, or routes that depend on the links that depend on them, do
//! not make a link change for ever.
//!
//! Each end of a link has a policy, and the slower end decides. Both see the same traffic. This file is
//! independent of how traffic is measured, and of whether it runs in a host or a switch.

/// Load, in percent, above which a link gets faster.
pub const BUSY_PERCENT: u64 = 75;
/// Load, in percent, above which it gets as fast as it can: the traffic of a full link does not show how much
/// more would come.
pub const FULL_PERCENT: u64 = 90;
/// Load, in percent, below which it may get slower. Half as fast it has twice the load, still well below
/// [`BUSY_PERCENT`]: it does not go up again for the same traffic.
pub const IDLE_PERCENT: u64 = 25;
/// Number of consecutive low samples before a link goes down, at first.
pub const PATIENCE: u32 = 8;
/// The same at most; about half an hour.
pub const MOST_PATIENCE: u32 = PATIENCE << 10;
/// Going down was worthwhile if the link stays down for this many times the wait before.
pub const WORTH: u32 = 16;
/// Duration of a sample.
pub const SAMPLE_MS: u64 = 250;
/// The slowest rate of a link.
pub const LEAST: Rate = Rate { speed: 1, width: 1 };

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
    /// Returns bytes a second, roughly: each generation is counted as twice the one before.
    pub fn bytes(&self) -> u64 {
        let speed = u32::from(self.speed.clamp(1, 6)) - 1;
        (LANE << speed) * u64::from(self.width.max(1))
    }

    /// Returns how many bytes a link of this rate carries in so many milliseconds at the most.
    pub fn carries(&self, ms: u64) -> u64 {
        self.bytes().saturating_mul(ms) / 1000
    }

    /// Returns the next slower rate, if there is one.
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
    /// Number of consecutive low samples.
    low: u32,
    /// Number of low samples before the link goes down.
    patience: u32,
    /// Samples since it went down last, if it has not gone up since.
    rested: Option<u32>,
}

impl Policy {
    /// Creates the policy of a link that runs at its fastest rate, `most`, and shall not be slower than
    /// `least`.
    pub fn new(most: Rate, least: Rate) -> Self {
        Self {
            most,
            least,
            now: most,
            low: 0,
            patience: PATIENCE,
            rested: None,
        }
    }

    /// Returns the rate that this end wants.
    pub fn rate(&self) -> Rate {
        self.now
    }

    /// Takes a sample: `bytes` have passed in the busier direction in `ms` milliseconds, over the link
    /// at its rate `is`, which the other end, or what lies between, may keep below the rate wanted here.
    /// Returns the rate that this end wants from now on, if it changes.
    pub fn sample(&mut self, bytes: u64, ms: u64, is: Rate) -> Option<Rate> {
        let traffic = bytes.saturating_mul(1000).checked_div(ms)?;
        let is = is.bytes().min(self.now.bytes());
        let load = percent(traffic, is);
        self.rested = self.rested.map(|rested| rested.saturating_add(1));
        self.low = match load < IDLE_PERCENT {
            true => self.low.saturating_add(1),
            false => 0,
        };
        let target = if load > FULL_PERCENT {
            self.most
        } else if load > BUSY_PERCENT {
            self.enough(traffic, is)
        } else if self.low >= self.patience {
            self.down()
        } else {
            self.now
        };
        if target == self.now {
            return None;
        }
        if target.bytes() > self.now.bytes() {
            self.learn();
        } else {
            self.rested = Some(0);
        }
        self.low = 0;
        self.now = target;
        Some(target)
    }

    /// Returns the next lower rate if it is allowed, else the current one.
    fn down(&self) -> Rate {
        let slower = self.now.slower();
        let slower = slower.filter(|slower| slower.bytes() >= self.least.bytes());
        slower.unwrap_or(self.now)
    }

    /// Adapts the patience when the link goes up, by whether it was worthwhile to go down before.
    fn learn(&mut self) {
        let Some(rested) = self.rested.take() else {
            return;
        };
        self.patience = match rested < self.patience.saturating_mul(WORTH) {
            true => self.patience.saturating_mul(2).min(MOST_PATIENCE),
            false => PATIENCE,
        };
    }

    /// Returns the slowest rate that is at least twice as fast as the link is and leaves room above
    /// `traffic`, or the fastest.
    fn enough(&self, traffic: u64, is: u64) -> Rate {
        let mut best = self.most;
        while let Some(slower) = best.slower() {
            let faster = slower.bytes() >= is.saturating_mul(2);
            if !faster || percent(traffic, slower.bytes()) > BUSY_PERCENT {
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

/// A link that is up, as observed at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its fastest rate.
    pub most: Rate,
    /// Its current rate.
    pub is: Rate,
    /// Changes whenever the link has been down.
    pub trained: u32,
    /// Bytes that it has carried, out and in.
    pub carried: [u64; 2],
}

/// A link that is up and follows its traffic.
#[derive(Clone, Copy, Debug)]
struct Watch {
    policy: Policy,
    /// The last observation, and its time.
    seen: Seen,
    since: u64,
    /// See [`Governor::free`].
    free: Rate,
    /// This end wanted the fastest rate when it took the last sample.
    at_most: bool,
}

/// One end of a link: whether its rate is to follow the traffic, and the rate that it should have then.
///
/// A link that comes up begins at its fastest rate: former traffic says nothing about future traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Governor {
    auto: bool,
    watch: Option<Watch>,
}

impl Governor {
    /// Sets whether the link is to follow its traffic.
    pub fn set(&mut self, auto: bool) {
        self.auto = auto;
        self.watch = self.watch.filter(|_| auto);
    }

    /// Returns whether the link is to follow its traffic.
    pub fn is_auto(&self) -> bool {
        self.auto
    }

    /// Returns the rate that this end wants, unless it is the fastest.
    pub fn target(&self) -> Option<Rate> {
        let watch = self.watch.as_ref()?;
        Some(watch.policy.rate()).filter(|rate| *rate != watch.seen.most)
    }

    /// Returns the rate of the link when neither end saves power, as far as this end has seen: what it can, or
    /// what an administrator, or something between the ends, lets it. `None`: the link does not follow its
    /// traffic, or is down.
    pub fn free(&self) -> Option<Rate> {
        Some(self.watch.as_ref()?.free)
    }

    /// Returns when the next sample is due; `None`: there is nothing to sample.
    pub fn due(&self) -> Option<u64> {
        Some(self.watch.as_ref()?.since.saturating_add(SAMPLE_MS))
    }

    /// Takes an observation of the link; `None`: it is down. Before [`Self::due`] it only counts whether
    /// the link is, or was, down.
    pub fn look(&mut self, now: u64, seen: Option<Seen>) {
        let Some(seen) = seen.filter(|_| self.auto) else {
            self.watch = None;
            return;
        };
        let same =
            |watch: &&mut Watch| (watch.seen.trained, watch.seen.most) == (seen.trained, seen.most);
        let Some(watch) = self.watch.as_mut().filter(same) else {
            let policy = Policy::new(seen.most, LEAST);
            self.watch = Some(Watch {
                policy,
                seen,
                since: now,
                free: seen.is,
                at_most: false,
            });
            return;
        };
        let ms = now.saturating_sub(watch.since);
        if ms < SAMPLE_MS {
            return;
        }
        // The busier direction decides the rate. It is the same one at the other end.
        let moved = seen.carried.iter().zip(&watch.seen.carried);
        let bytes = moved.map(|(now, before)| now.saturating_sub(*before));
        let at_most = watch.policy.rate() == seen.most;
        watch.policy.sample(bytes.max().unwrap_or(0), ms, seen.is);
        // The other end may be a step ahead while there is little traffic, or go up a sample later.
        let still = watch.policy.low == 0 && watch.policy.rate() == seen.most;
        let is_kept = at_most && watch.at_most && still;
        if seen.is.bytes() > watch.free.bytes() || is_kept {
            watch.free = seen.is;
        }
        watch.seen = seen;
        watch.since = now;
        watch.at_most = at_most;
    }
}

/// Returns `traffic` in percent of `rate`, both in bytes a second.
fn percent(traffic: u64, rate: u64) -> u64 {
    traffic
        .saturating_mul(100)
        .checked_div(rate)
        .unwrap_or(u64::MAX)
}
