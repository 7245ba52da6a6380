// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which hosts the routed links of a port lead to, if there are more hosts than links.
//!
//! A link leads to a host since a program of this host has connected to it, or since that host has called:
//! it has sent a hello, by which it asks this port to aim a link back. A program takes a link that leads
//! nowhere, or the least recently used one that is idle. A call takes one that leads nowhere, or that has
//! been idle for [`LAPSE_MS`]; links that were called, and that nothing of this host has used, are at most
//! half of all: a further call takes one of these, once that is idle for so long. So calls, also forged ones,
//! keep no program from connecting.
//!
//! This file decides; the caller aims the links. It must not know what uses a link, nor what a route is.
//! All times are in milliseconds.

use super::ratelimit::RateLimit;

/// Time until a call may take an idle link, and until an idle link is given back whose host does not answer.
pub const LAPSE_MS: u64 = 2_000;
/// Time until an idle link is given back, unless told: it leads nowhere then, and has no memory.
pub const KEEP_MS: u64 = 60_000;
/// How many calls are followed though they come at once.
pub const CALL_BURST: u64 = 8;
/// The interval of further calls.
pub const CALL_MS: u64 = 200;

/// What uses a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    /// Something of this host: a channel, a queue pair, a call of a program that connects.
    pub own: bool,
    /// Something of the host there, which says so.
    pub peer: bool,
    /// A route leads to the host there, and the host does not answer: it has no link that leads back.
    pub unanswered: bool,
    /// The host there has said good-bye: its link leads elsewhere now, or its driver has gone.
    pub parted: bool,
}

impl Use {
    /// Returns whether nothing uses the link.
    pub const fn is_idle(self) -> bool {
        !self.own && !self.peer
    }
}

/// How many links are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// The number of links that something of this host uses,
    pub own: usize,
    /// and of those that only the hosts there use.
    pub peers: usize,
}

/// Reason why a call is not followed. The caller repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Calls come too fast.
    Often,
    /// Half of the links were called, nothing of this host has used them, and none is idle for long enough.
    Share,
    /// No link is free, or idle for long enough.
    InUse,
}

/// Where a link leads.
#[derive(Clone, Copy)]
struct Led {
    hwid: u64,
    /// When it was in use last, or was taken.
    used: u64,
    /// It was called, and nothing of this host has used it.
    called: bool,
}

/// The routed links of a port, up to `LINKS`.
pub struct Reach<const LINKS: usize> {
    count: usize,
    led: [Option<Led>; LINKS],
    calls: RateLimit,
    /// Time until an idle link is given back; 0: it is not.
    keep: u64,
}

impl<const LINKS: usize> Reach<LINKS> {
    /// Creates the state of `count` links that lead nowhere.
    pub const fn new(count: usize) -> Self {
        Self {
            count: if count < LINKS { count } else { LINKS },
            led: [None; LINKS],
            calls: RateLimit::new(CALL_BURST, CALL_MS),
            keep: KEEP_MS,
        }
    }

    /// Returns the link that leads to a host.
    pub fn link_to(&self, hwid: u64) -> Option<usize> {
        let mut all = self.led.iter();
        all.position(|led| led.is_some_and(|led| led.hwid == hwid))
    }

    /// Returns the host that a link leads to.
    pub fn host_at(&self, link: usize) -> Option<u64> {
        let led = *self.led.get(link)?;
        led.map(|led| led.hwid)
    }

    /// Records that a link leads to a host now, because of a program or of a call of that host.
    pub fn lead(&mut self, link: usize, hwid: u64, called: bool, now: u64) {
        if let Some(led) = self.led.get_mut(link) {
            *led = Some(Led {
                hwid,
                used: now,
                called,
            });
        }
    }

    /// Returns after what time an idle link is given back; 0: it is not.
    pub fn keep(&self) -> u64 {
        self.keep
    }

    /// Sets that time.
    pub fn set_keep(&mut self, ms: u64) {
        self.keep = ms;
    }

    /// Records that something of this host uses a link now, for however short.
    pub fn touch(&mut self, link: usize, now: u64) {
        if let Some(Some(led)) = self.led.get_mut(link) {
            led.used = now;
            led.called = false;
        }
    }

    /// Records that a link leads nowhere.
    pub fn free(&mut self, link: usize) {
        if let Some(led) = self.led.get_mut(link) {
            *led = None;
        }
    }

    /// Records what uses each link, by its number. To be called again and again.
    pub fn note(&mut self, uses: impl Fn(usize) -> Use, now: u64) {
        for (link, led) in self.led.iter_mut().enumerate() {
            let (Some(led), at) = (led, uses(link)) else {
                continue;
            };
            if !at.is_idle() {
                led.used = now;
            }
            led.called &= !at.own;
        }
    }

    /// Returns the links, each with where it leads and what uses it.
    fn all<'a>(
        &'a self,
        uses: &'a impl Fn(usize) -> Use,
    ) -> impl Iterator<Item = (usize, Option<Led>, Use)> + 'a {
        let links = self.led.iter().copied().enumerate().take(self.count);
        links.map(move |(link, led)| {
            let at = if led.is_some() {
                uses(link)
            } else {
                Use::default()
            };
            (link, led, at)
        })
    }

    /// Returns the number of links.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns how many links are in use, by what uses each.
    pub fn counts(&self, uses: impl Fn(usize) -> Use) -> Counts {
        let mut counts = Counts::default();
        for (_, _, at) in self.all(&uses) {
            counts.own += usize::from(at.own);
            counts.peers += usize::from(!at.own && at.peer);
        }
        counts
    }

    /// Returns the link that a program takes to reach another host, by what uses each link: one that leads
    /// nowhere, else the least recently used one that is idle. If hosts there claim more than half of
    /// the links, and nothing of this host uses these, it may be one of them. Fails if all are in use.
    pub fn choose(&self, uses: impl Fn(usize) -> Use) -> Result<usize, Counts> {
        let counts = self.counts(&uses);
        let claims = counts.peers > self.count / 2;
        let may = |at: Use| at.is_idle() || claims && !at.own;
        let order = |at: Use, led: Option<Led>| (at.peer, led.map(|led| led.used));
        self.all(&uses)
            .filter(|(_, _, at)| may(*at))
            .min_by_key(|(_, led, at)| order(*at, *led))
            .map(|(link, ..)| link)
            .ok_or(counts)
    }

    /// Returns the link that a call of a host takes to which no link leads. It never ends what is in use,
    /// or was until a moment ago.
    pub fn answer(&mut self, uses: impl Fn(usize) -> Use, now: u64) -> Result<usize, Refused> {
        let called = self.led.iter().flatten().filter(|led| led.called).count();
        let is_shared_out = called >= self.count.div_ceil(2);
        let may = |led: Option<Led>| match led {
            Some(led) => now >= led.used + LAPSE_MS && (led.called || !is_shared_out),
            None => !is_shared_out,
        };
        let refused = match is_shared_out {
            true => Refused::Share,
            false => Refused::InUse,
        };
        let link = self
            .all(&uses)
            .filter(|(_, led, at)| at.is_idle() && may(*led))
            .min_by_key(|(_, led, _)| led.map(|led| led.used))
            .map(|(link, ..)| link)
            .ok_or(refused)?;
        if !self.calls.pass(now) {
            return Err(Refused::Often);
        }
        Ok(link)
    }

    /// Returns a link that is to be given back.
    pub fn due(&self, uses: impl Fn(usize) -> Use, now: u64) -> Option<usize> {
        let keep = |at: Use| match self.keep {
            // If it stayed, its hellos would have the host there aim a link back.
            _ if at.parted => 0,
            _ if at.unanswered => LAPSE_MS,
            0 => u64::MAX,
            keep => keep,
        };
        self.all(&uses)
            .filter_map(|(link, led, at)| Some((link, led?, at)))
            .find(|(_, led, at)| at.is_idle() && now >= led.used.saturating_add(keep(*at)))
            .map(|(link, ..)| link)
    }
}
