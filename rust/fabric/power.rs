// SPDX-License-Identifier: GPL-2.0

//! How fast the links to neighbours are to be: `proto::nm::power`, fed with what the port has counted. It
//! must not know what a link carries, nor what routes make of its speed.
//!
//! A link runs at the most that it can unless an administrator has said that it is to follow its traffic. One
//! that comes up, be it after a reset, begins at the most: what there was says nothing of what will be.
//!
//! Samples are taken by the timer of the node, and go on while a link is idle at its slowest: nothing tells of
//! traffic that begins, which the neighbour or somebody behind it may send, and then the link is to be fast
//! at once. While links are READY the timer runs as often anyway; a sample is a few registers.
//!
//! # Locks
//!
//! `Power::links` is taken with nothing else locked; the port's own locks nest in it.

use crate::{
    hw::{Port, MAX_NEIGHBOURS},
    proto::nm::power::{Policy, Rate, SAMPLE_MS},
    sys::errno::EOPNOTSUPP,
};
use kernel::{new_mutex, prelude::*, sync::Mutex};

/// The slowest that a link gets.
const LEAST: Rate = Rate { speed: 1, width: 1 };

/// A rate, if it is known.
fn rate(speed: u32, width: u32) -> Option<Rate> {
    let rate = Rate {
        speed: speed.try_into().ok()?,
        width: width.try_into().ok()?,
    };
    (speed != 0 && width != 0).then_some(rate)
}

/// What there is to know of it.
#[derive(Clone, Copy)]
pub(crate) struct Aimed {
    /// The link follows its traffic.
    pub(crate) auto: bool,
    /// What this end wants it to be, if not the most that it can.
    pub(crate) target: Option<Rate>,
}

/// A link that is up and follows its traffic.
struct Watch {
    policy: Policy,
    most: Rate,
    /// Which life of the link it is.
    trained: u32,
    /// What it had carried when it was looked at last, and when that was.
    carried: [u64; 2],
    since: u64,
}

#[derive(Default)]
struct Governor {
    auto: bool,
    watch: Option<Watch>,
}

impl Governor {
    /// In how many milliseconds it wants to look again; `None`: there is nothing to look at.
    fn sample(&mut self, port: &dyn Port, link: usize, now: u64) -> Option<u64> {
        let status = port.link_status(link);
        let most = rate(status.max_speed, status.max_width).filter(|_| status.up);
        let (Some(most), Some(carried)) = (most, port.traffic(link)) else {
            self.rest(port, link);
            return None;
        };
        let same = |watch: &&mut Watch| watch.trained == status.trained && watch.most == most;
        let Some(watch) = self.watch.as_mut().filter(same) else {
            self.rest(port, link);
            self.watch = Some(Watch {
                policy: Policy::new(most, LEAST),
                most,
                trained: status.trained,
                carried,
                since: now,
            });
            return Some(SAMPLE_MS);
        };
        let ms = now.saturating_sub(watch.since);
        if ms < SAMPLE_MS {
            return Some(SAMPLE_MS - ms);
        }
        let [out, into] = carried;
        let [out_before, into_before] = core::mem::replace(&mut watch.carried, carried);
        watch.since = now;
        // The direction that has more to carry says how fast the link has to be. At the other end it is
        // the same one.
        let bytes = out
            .saturating_sub(out_before)
            .max(into.saturating_sub(into_before));
        let is = rate(status.speed, status.width).unwrap_or(most);
        if let Some(target) = watch.policy.sample(bytes, ms, is) {
            // It could when this began.
            let _ = match target == most {
                true => port.set_target(link, 0, 0),
                false => port.set_target(link, target.speed.into(), target.width.into()),
            };
        }
        Some(SAMPLE_MS)
    }

    /// The link is as fast as it can be, until it is looked at again.
    fn rest(&mut self, port: &dyn Port, link: usize) {
        if self.watch.take().is_some() {
            let _ = port.set_target(link, 0, 0);
        }
    }
}

/// That of the links of a port.
#[pin_data]
pub(super) struct Power {
    #[pin]
    links: Mutex<[Governor; MAX_NEIGHBOURS]>,
}

impl Power {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            links <- new_mutex!(<[Governor; MAX_NEIGHBOURS]>::default(), "weft power"),
        })
    }

    /// Looks at the links whose time has come. Says in how many milliseconds it wants to be called again.
    pub(super) fn sample(&self, port: &dyn Port, now: u64) -> Option<u64> {
        let mut links = self.links.lock();
        let watched = links.iter_mut().enumerate().take(port.links());
        let due = watched
            .filter(|(_, governor)| governor.auto)
            .filter_map(|(link, governor)| governor.sample(port, link, now));
        due.min()
    }

    /// Has a link follow its traffic from now on, or not. `EOPNOTSUPP`: it is not one to a neighbour, or the
    /// port does not count what it carries.
    pub(super) fn set(&self, port: &dyn Port, link: usize, auto: bool) -> Result {
        port.traffic(link).ok_or(EOPNOTSUPP)?;
        let mut links = self.links.lock();
        let governor = links.get_mut(link).ok_or(EOPNOTSUPP)?;
        governor.auto = auto;
        if !auto {
            governor.rest(port, link);
        }
        Ok(())
    }

    /// `None`: nobody can have the link follow its traffic.
    pub(super) fn look(&self, port: &dyn Port, link: usize) -> Option<Aimed> {
        port.traffic(link)?;
        let links = self.links.lock();
        let governor = links.get(link)?;
        Some(Aimed {
            auto: governor.auto,
            target: governor.watch.as_ref().map(|watch| watch.policy.rate()),
        })
    }
}
