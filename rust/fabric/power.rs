// SPDX-License-Identifier: GPL-2.0

//! How fast the links to neighbours are to be: `proto::nm::power`, fed with what the port has counted. It
//! must not know what a link carries, nor what routes make of its speed.
//!
//! A link runs at the most that it can unless an administrator has said that it is to follow its traffic.
//!
//! Samples are taken by the timer of the node, and go on while a link is idle at its slowest: nothing tells of
//! traffic that begins, which the neighbour or a host behind it may send, and then the link is to be fast
//! at once. While links are READY the timer runs as often anyway; a sample is a few registers.
//!
//! # Locks
//!
//! `Power::links` is taken with nothing else locked; the port's own locks nest in it.

use crate::{
    hw::{Port, MAX_NEIGHBOURS},
    proto::nm::power::{Governor, Rate, Seen},
    sys::errno::EOPNOTSUPP,
};
use kernel::{new_mutex, prelude::*, sync::Mutex};

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

/// A link that is up, if the port counts what it carries.
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

/// Has the link be what this end wants, if that is not what it wanted `before`.
fn aim(governor: &Governor, before: Option<Rate>, port: &dyn Port, link: usize) {
    let target = governor.target();
    if target == before {
        return;
    }
    let Some(rates) = port.rates() else {
        return;
    };
    // It could when this began.
    let _ = match target {
        None => rates.set_target(link, 0, 0),
        Some(rate) => rates.set_target(link, rate.speed.into(), rate.width.into()),
    };
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
            .filter(|(_, governor)| governor.is_auto())
            .filter_map(|(link, governor)| {
                let before = governor.target();
                governor.look(now, seen(port, link));
                aim(governor, before, port, link);
                governor.due()
            });
        due.min().map(|due| due.saturating_sub(now))
    }

    /// Has a link follow its traffic from now on, or not. `EOPNOTSUPP`: it is not one to a neighbour, or the
    /// port does not count what it carries.
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

    /// `None`: the link cannot follow its traffic.
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
