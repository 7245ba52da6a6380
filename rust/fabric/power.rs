// SPDX-License-Identifier: GPL-2.0

//! The speed policy of the links to neighbours: runs `proto::nm::power` on the traffic that the port has
//! counted. It must not know what a link carries, nor how routes depend on its speed.
//!
//! A link follows its traffic, unless an administrator has set it to run at the highest speed and width
//! possible. What CPUs store by windows some ports cannot see: those are told here what the users of a link
//! have stored by their own counts, and count it at each link on the way.
//!
//! The timer of the node takes the samples, also while a link is idle at its slowest: nothing announces
//! traffic that begins, which may come from the neighbour or a node behind it, and the link has to be
//! fast at once. While links are READY the timer runs as often anyway; a sample reads a few registers.
//!
//! # Locks
//!
//! `Power::links` is innermost but for the port's own locks, which nest in it. Of the others it is taken inside that
//! of the manager alone.

use super::Client;
use crate::{
    hw::{Port, MAX_NEIGHBOURS},
    proto::nm::power::{Governor, Rate, Seen},
    sys::errno::EOPNOTSUPP,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Mutex,
    },
};

/// The port is told no more often than this, however often the timer runs.
const TELL_MS: u64 = 20;

/// Returns a rate, if it is known.
fn rate(speed: u32, width: u32) -> Option<Rate> {
    let rate = Rate {
        speed: speed.try_into().ok()?,
        width: width.try_into().ok()?,
    };
    (speed != 0 && width != 0).then_some(rate)
}

/// The state of a link's policy.
#[derive(Clone, Copy)]
pub(crate) struct Aimed {
    /// The link follows its traffic.
    pub(crate) auto: bool,
    /// What this end wants the link to be; `None`: the highest possible.
    pub(crate) target: Option<Rate>,
}

/// Returns how many bytes a port can have sent in so many milliseconds by any of its links to neighbours.
fn carried_at_most(port: &dyn Port, ms: u64) -> u64 {
    let most = (0..port.links()).filter_map(|link| {
        let status = port.link_status(link);
        rate(status.max_speed, status.max_width)
    });
    let most = most.map(|rate| rate.carries(ms));
    most.max().unwrap_or(0)
}

/// Returns a sample of a link that is up, if the port counts its traffic.
fn seen(port: &dyn Port, link: usize) -> Option<Seen> {
    let status = port.link_status(link);
    let most = rate(status.max_speed, status.max_width).filter(|_| status.up)?;
    Some(Seen {
        most,
        is: rate(status.speed, status.width).unwrap_or(most),
        trained: status.trained,
        carried: port.rates()?.traffic(link)?,
    })
}

/// Sets the target of the link, if it is another one than `before`.
fn aim(governor: &Governor, before: Option<Rate>, port: &dyn Port, link: usize) {
    let target = governor.target();
    if target == before {
        return;
    }
    let Some(rates) = port.rates() else {
        return;
    };
    // The port could do this when the policy was set.
    let _ = match target {
        None => rates.set_target(link, 0, 0),
        Some(rate) => rates.set_target(link, rate.speed.into(), rate.width.into()),
    };
}

/// The policies of the links of a port.
#[pin_data]
pub(super) struct Power {
    #[pin]
    links: Mutex<[Governor; MAX_NEIGHBOURS]>,
    /// When the port was told last what was stored.
    told: Atomic<u64>,
}

impl Power {
    /// Creates the policies; with `auto`, links follow their traffic from the start.
    pub(super) fn new(auto: bool) -> impl PinInit<Self> {
        let mut links = <[Governor; MAX_NEIGHBOURS]>::default();
        links.iter_mut().for_each(|governor| governor.set(auto));
        pin_init!(Self {
            links <- new_mutex!(links, "weft power"),
            told: Atomic::new(0),
        })
    }

    /// Tells the port what the users of `client` have stored by the windows of `links`, if it has to be told.
    /// More often than samples are taken: each sample has its part. Programs say what they have stored, so it is
    /// told no more than could have left the port.
    pub(super) fn tell(
        &self,
        port: &dyn Port,
        client: &dyn Client,
        links: impl Iterator<Item = usize>,
        now: u64,
    ) {
        let Some(rates) = port.rates().filter(|rates| rates.is_told()) else {
            return;
        };
        // Only the timer calls this, and no two runs of it at a time.
        let ms = now.saturating_sub(self.told.load(Relaxed));
        if ms < TELL_MS {
            return;
        }
        self.told.store(now, Relaxed);
        for link in links.filter(|link| !port.loopback_links().contains(link)) {
            let stored = client.take_stored(port, link);
            if stored != 0 {
                rates.tell_stored(link, stored.min(carried_at_most(port, ms)));
            }
        }
    }

    /// Samples the links that are due. Returns in how many milliseconds it wants to be called again.
    pub(super) fn sample(&self, port: &dyn Port, now: u64) -> Option<u64> {
        // Without counts there is nothing to sample.
        port.rates()?;
        let mut links = self.links.lock();
        let watched = links.iter_mut().enumerate().take(port.links());
        let due = watched
            .filter(|(_, governor)| governor.is_auto())
            .filter_map(|(link, governor)| {
                if governor.due().is_none_or(|due| due <= now) {
                    let before = governor.target();
                    governor.look(now, seen(port, link));
                    aim(governor, before, port, link);
                }
                governor.due()
            });
        due.min().map(|due| due.saturating_sub(now))
    }

    /// Sets whether a link follows its traffic from now on. `EOPNOTSUPP`: it is no link to a neighbour,
    /// or the port does not count its traffic.
    pub(super) fn set(&self, port: &dyn Port, link: usize, auto: bool) -> Result {
        port.rates()
            .and_then(|rates| rates.traffic(link))
            .ok_or(EOPNOTSUPP)?;
        let mut links = self.links.lock();
        let governor = links.get_mut(link).ok_or(EOPNOTSUPP)?;
        let before = governor.target();
        governor.set(auto);
        aim(governor, before, port, link);
        Ok(())
    }

    /// Returns the rate that a link has when neither end saves power, if it follows its traffic.
    pub(super) fn free(&self, link: usize) -> Option<Rate> {
        self.links.lock().get(link)?.free()
    }

    /// Returns the state of the policy of a link. `None`: the link cannot follow its traffic.
    pub(super) fn look(&self, port: &dyn Port, link: usize) -> Option<Aimed> {
        port.rates()?.traffic(link)?;
        let links = self.links.lock();
        let governor = links.get(link)?;
        Some(Aimed {
            auto: governor.is_auto(),
            target: governor.target(),
        })
    }
}
