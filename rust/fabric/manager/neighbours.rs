// SPDX-License-Identifier: GPL-2.0

//! The neighbours at the links, as the manager has to know them: a host by its hello, a switch by its
//! registers. The link has taken no hello that gives another hardware id than the fabric attests.

use super::super::host::ManagerHost;
use crate::{
    hw::{LinkStatus, Port, Router, MAX_LINKS},
    proto::nm::port,
};

/// A switch whose hardware id was read.
#[derive(Clone, Copy, Default)]
struct Switch {
    /// [`LinkStatus::trained`] when it was read.
    trained: u32,
    /// Hardware id; 0: it has not answered.
    hwid: u64,
}

/// What is known of the neighbours.
#[derive(Default)]
pub(super) struct Neighbours {
    switches: [Switch; MAX_LINKS],
    /// Links to a switch whose hardware id is not known yet, a bit each.
    asking: u32,
    /// Links that the administrator excludes from routes, a bit each.
    excluded: u32,
}

impl Neighbours {
    /// Returns whether a switch has to be asked again.
    pub(super) fn is_asking(&self) -> bool {
        self.asking != 0
    }

    /// Returns the links that no route is to use, a bit each.
    pub(super) fn excluded(&self) -> u32 {
        self.excluded
    }

    pub(super) fn exclude(&mut self, links: u32) {
        self.excluded = links;
    }

    /// Returns the neighbour at `link` now. At scale routes move while they are in use: those links that save power
    /// count as what they are otherwise (Documentation/manager.rst, "Power").
    pub(super) fn look(
        &mut self,
        node: &dyn ManagerHost,
        port: &dyn Port,
        router: &dyn Router,
        link: usize,
        at_scale: bool,
    ) -> port::Port {
        let status = port.link_status(link);
        self.asking &= !(1 << link);
        let peer = match (status.up, status.is_switch) {
            (false, _) => 0,
            (true, false) => node.peer_hwid(port, link).unwrap_or(0),
            (true, true) => self.switch_hwid(router, link, &status),
        };
        if peer == 0 {
            return port::Port::NONE;
        }
        let free = at_scale.then(|| node.free_rate(link)).flatten();
        let number = |is: u32| is.try_into().unwrap_or(u8::MAX);
        let is = || (number(status.speed), number(status.width));
        let (speed, width) = free.map_or_else(is, |rate| (rate.speed, rate.width));
        port::Port {
            peer,
            speed,
            width,
            excluded: self.excluded & 1 << link != 0,
        }
    }

    fn switch_hwid(&mut self, router: &dyn Router, link: usize, status: &LinkStatus) -> u64 {
        let Some(switch) = self.switches.get_mut(link) else {
            return 0;
        };
        if switch.trained != status.trained || switch.hwid == 0 {
            switch.trained = status.trained;
            switch.hwid = router.hwid_at(&[link as u8]).unwrap_or(0);
        }
        if switch.hwid == 0 {
            self.asking |= 1 << link;
        }
        switch.hwid
    }
}
