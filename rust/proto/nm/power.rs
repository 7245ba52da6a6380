// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How fast and how wide a link has to be for its traffic.
//!
//! Up at once, as far as the traffic asks for; down step by step, and only after it has been low for a
//! while: a link that is trained anew carries nothing meanwhile, and routes follow its speed. Lanes are
//! given up before speed is. Who goes down and is needed again soon waits twice as long the next time, so
//! nothing that comes back regularly, be it traffic or routes that follow the links that follow them, has a
//! link change for ever.
//!
//! Each end of a link has a policy, and the link is what the slower end wants. Both see the same traffic. This
//! file must not know how that is measured, nor whether a host or a switch asks.

/// Load, in percent, above which a link gets faster.
pub const BUSY_PERCENT: u64 = 75;
/// Load below which it may get slower. Half as fast it has twice the load, still well below
/// [`BUSY_PERCENT`]: it does not go up again for the same traffic.
pub const IDLE_PERCENT: u64 = 25;
/// So many samples in a row have to be low, at first.
pub const PATIENCE: u32 = 8;
/// And at the most, which is half an hour.
pub const MOST_PATIENCE: u32 = PATIENCE << 10;
/// It was worth while to go down if the link is not needed again for so many times as long as was waited.
pub const WORTH: u32 = 16;
/// Time of a sample.
pub const SAMPLE_MS: u64 = 250;
/// The slowest that a link gets.
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
    /// Low samples, up to now.
    low: u32,
    /// How many it takes.
    patience: u32,
    /// Samples since it went down last, if it has not gone up since.
    rested: Option<u32>,
}

impl Policy {
    /// A link that is as fast as it can be, `most`, and shall not be slower than `least`.
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

    /// What this end wants the link to be.
    pub fn rate(&self) -> Rate {
        self.now
    }

    /// So many bytes have passed, in the busier direction, in `ms` milliseconds, over the link as it
    /// `is`: the other end, or what lies between, may have it slower than is wanted here. Answers what this
    /// end wants from now on, if that is another thing.
    pub fn sample(&mut self, bytes: u64, ms: u64, is: Rate) -> Option<Rate> {
        let traffic = bytes.saturating_mul(1000).checked_div(ms)?;
        let is = is.bytes().min(self.now.bytes());
        let load = percent(traffic, is);
        self.rested = self.rested.map(|rested| rested.saturating_add(1));
        self.low = match load < IDLE_PERCENT {
            true => self.low.saturating_add(1),
            false => 0,
        };
        let target = if load > BUSY_PERCENT {
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

    /// A step down, if there is one.
    fn down(&self) -> Rate {
        let slower = self.now.slower();
        let slower = slower.filter(|slower| slower.bytes() >= self.least.bytes());
        slower.unwrap_or(self.now)
    }

    /// It goes up: whether it was worth while to go down before.
    fn learn(&mut self) {
        let Some(rested) = self.rested.take() else {
            return;
        };
        self.patience = match rested < self.patience.saturating_mul(WORTH) {
            true => self.patience.saturating_mul(2).min(MOST_PATIENCE),
            false => PATIENCE,
        };
    }

    /// The slowest rate that is at least twice as fast as the link is and leaves room above `traffic`, or the
    /// fastest: a link that is full does not say how much more would come.
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

/// A link that is up, as it is seen at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The most that it could be.
    pub most: Rate,
    /// What it is.
    pub is: Rate,
    /// Which life of it this is: another number whenever it has been down meanwhile.
    pub trained: u32,
    /// Bytes that it has carried, out and in.
    pub carried: [u64; 2],
}

/// A link that is up and follows its traffic.
#[derive(Clone, Copy, Debug)]
struct Watch {
    policy: Policy,
    /// As it was when it was looked at last, and when that was.
    seen: Seen,
    since: u64,
}

/// One end of a link: whether the link is to follow its traffic, and what it should be for that.
///
/// A link that comes up begins at the most: what there was says nothing of what will be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Governor {
    auto: bool,
    watch: Option<Watch>,
}

impl Governor {
    /// The link is to follow its traffic from now on, or not.
    pub fn set(&mut self, auto: bool) {
        self.auto = auto;
        self.watch = self.watch.filter(|_| auto);
    }

    /// Whether it is to.
    pub fn is_auto(&self) -> bool {
        self.auto
    }

    /// What this end wants the link to be, if not the most that it can.
    pub fn target(&self) -> Option<Rate> {
        let watch = self.watch.as_ref()?;
        Some(watch.policy.rate()).filter(|rate| *rate != watch.seen.most)
    }

    /// When it wants to look again; `None`: there is nothing to look at.
    pub fn due(&self) -> Option<u64> {
        Some(self.watch.as_ref()?.since.saturating_add(SAMPLE_MS))
    }

    /// Looks at the link; `None`: it is down. Before [`Self::due`] nothing counts but that it is, or was.
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
            });
            return;
        };
        let ms = now.saturating_sub(watch.since);
        if ms < SAMPLE_MS {
            return;
        }
        // The direction that has more to carry says how fast the link has to be. At the other end it is the
        // same one.
        let moved = seen.carried.iter().zip(&watch.seen.carried);
        let bytes = moved.map(|(now, before)| now.saturating_sub(*before));
        watch.policy.sample(bytes.max().unwrap_or(0), ms, seen.is);
        watch.seen = seen;
        watch.since = now;
    }
}

/// Of a rate in bytes a second.
fn percent(traffic: u64, rate: u64) -> u64 {
    traffic
        .saturating_mul(100)
        .checked_div(rate)
        .unwrap_or(u64::MAX)
}
