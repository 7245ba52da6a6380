// SPDX-License-Identifier: GPL-2.0

//! Who is at the links, as the manager is to know it: a host by its hello, a switch by its registers.

use super::super::host::ManagerHost;
use crate::{
    hw::{LinkStatus, Port, Router, MAX_LINKS},
    proto::nm::port,
    sys::ext,
};

/// A switch that was asked who it is.
#[derive(Clone, Copy, Default)]
struct Switch {
    /// In which life of the link.
    trained: u32,
    /// 0: it has not answered.
    hwid: u64,
}

/// What was found out.
#[derive(Default)]
pub(super) struct Neighbours {
    switches: [Switch; MAX_LINKS],
    /// A bit a link: there is a neighbour that has not said which node it is.
    asking: u32,
    /// A bit a link: the administrator wants no routes over it.
    excluded: u32,
}

impl Neighbours {
    /// Returns whether a neighbour has to be asked again.
    pub(super) fn is_asking(&self) -> bool {
        self.asking != 0
    }

    /// The links that no route is to use, a bit each.
    pub(super) fn excluded(&self) -> u32 {
        self.excluded
    }

    pub(super) fn exclude(&mut self, links: u32) {
        self.excluded = links;
    }

    /// Who is at `link` now.
    pub(super) fn look(
        &mut self,
        node: &dyn ManagerHost,
        port: &dyn Port,
        router: &dyn Router,
        link: usize,
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
        port::Port {
            peer,
            speed: status.speed.try_into().unwrap_or(u8::MAX),
            width: status.width.try_into().unwrap_or(u8::MAX),
            excluded: self.excluded & 1 << link != 0,
        }
    }

    fn switch_hwid(&mut self, router: &dyn Router, link: usize, status: &LinkStatus) -> u64 {
        let Some(switch) = self.switches.get_mut(link) else {
            return 0;
        };
        if switch.trained != status.trained || switch.hwid == 0 {
            let half = |reg| router.cfg_read(&[link as u8], ext::WEFT_SPACE_CONFIG, reg);
            let low = half(ext::WEFT_CS_HWID);
            let high = half(ext::WEFT_CS_HWID + 4);
            switch.trained = status.trained;
            switch.hwid = match (low, high) {
                (Ok(low), Ok(high)) => u64::from(high) << 32 | u64::from(low),
                _ => 0,
            };
        }
        if switch.hwid == 0 {
            self.asking |= 1 << link;
        }
        switch.hwid
    }
}
