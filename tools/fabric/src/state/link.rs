// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Links between hosts: whether one is up, why not, and how fast it runs. Both
//! ends are always told together.

use super::{Effect, Event, Fabric};
use crate::topology::{Cable, End, HostEnd, Node, Power, Trunk, WIDTHS};
use crate::wire::{LinkInfo, ToPort};

/// `WEFT_LINK_CTRL` of one end; 0 as target means the most it can.
#[derive(Clone, Copy, Default)]
pub struct Ctrl {
    pub disable: bool,
    pub speed: u8,
    pub width: u8,
}

/// What the administrator made of a cable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CableState {
    pub up: bool,
    /// Highest generation allowed, at most the cable's own.
    pub speed: u8,
    /// Most lanes allowed, at most the cable's own.
    pub width: u8,
    /// Whether it follows its traffic.
    pub power: Power,
}

impl CableState {
    pub fn new(cable: &Cable) -> Self {
        let Cable { up, speed, width, power, .. } = *cable;
        CableState { up, speed, width, power }
    }
}

/// Run-time state of a path between two hosts.
#[derive(Default)]
pub struct Pathway {
    pub up: bool,
    /// Another number each time that it comes up: see `Fabric::next_generation`.
    pub life: u32,
    /// At which it last came up, for LINK_INFO events.
    pub rate: (u8, u8),
}

/// The most lanes a link can have with at most `most`.
fn lanes(most: u8) -> u8 {
    WIDTHS.into_iter().rev().find(|w| *w <= most).unwrap_or(WIDTHS[0])
}

/// Those ends of a trunk that are hosts.
fn host_ends(trunk: &Trunk) -> [Option<HostEnd>; 2] {
    trunk.ends.map(|end| match end.node {
        Node::Host(host) => Some(HostEnd { host, link: end.port }),
        Node::Switch(_) => None,
    })
}

fn target(wanted: u8, most: u8) -> u8 {
    if wanted == 0 { most } else { wanted.min(most) }
}

impl Fabric {
    /// Brings every link to where its ends and the administrator want it, and
    /// tells the ports what changed. Links that must go down do so first.
    pub(super) fn settle(&mut self) {
        for path in 0..self.paths.len() {
            if let (true, Some(why)) = (self.paths[path].up, self.why_down(path)) {
                self.link_down(path, why);
            }
        }
        for path in 0..self.paths.len() {
            self.refresh_info(path);
            if !self.paths[path].up && self.why_down(path).is_none() {
                self.link_up(path);
            }
        }
        for trunk in 0..self.topology.trunks.len() {
            if self.topology.trunks[trunk].path.is_none() {
                let ends = host_ends(&self.topology.trunks[trunk]);
                self.refresh_ends(ends.into_iter().flatten());
            }
        }
        self.tell_firmware();
        self.resolve();
    }

    /// Why a path cannot be up, or `None` if it can.
    pub(super) fn why_down(&self, path: usize) -> Option<String> {
        let trunk = self.topology.trunks.iter().find(|t| t.path == Some(path));
        if let Some(why) = trunk.and_then(|t| self.unplugged(t)) {
            return Some(why);
        }
        let path = &self.topology.paths[path];
        self.why_not(&path.cables, path.ends.into_iter())
    }

    /// The same of a trunk.
    pub(super) fn trunk_down(&self, trunk: usize) -> Option<String> {
        let trunk = &self.topology.trunks[trunk];
        if let Some(why) = self.unplugged(trunk) {
            return Some(why);
        }
        self.why_not(&trunk.cables, host_ends(trunk).into_iter().flatten())
    }

    fn why_not(&self, cables: &[usize], ends: impl Iterator<Item = HostEnd>) -> Option<String> {
        for &cable in cables {
            if !self.cables[cable].up {
                return Some(format!("{} is switched off", self.topology.cable_name(cable)));
            }
        }
        if let Some(why) = self.held_down(cables) {
            return Some(why);
        }
        let name = |end: HostEnd| &self.topology.hosts[end.host].name;
        for end in ends {
            let Some(session) = self.session(end.host) else {
                return Some(format!("{} is not connected", name(end)));
            };
            if session.ctrl[usize::from(end.link)].disable {
                return Some(format!("{} has disabled its end", name(end)));
            }
            if !session.enabled {
                return Some(format!("{} has not enabled its port", name(end)));
            }
        }
        None
    }

    /// Highest speed and width of a path, by its cables alone.
    pub(super) fn path_max(&self, path: usize) -> (u8, u8) {
        self.most(&self.topology.paths[path].cables)
    }

    /// Speed and width two ends agree on, whether or not the link is up.
    pub(super) fn path_rate(&self, path: usize) -> (u8, u8) {
        let path = &self.topology.paths[path];
        self.rate(&path.cables, path.ends.into_iter())
    }

    /// Rate, and highest rate, of a trunk.
    pub(super) fn trunk_rates(&self, trunk: usize) -> [(u8, u8); 2] {
        let trunk = &self.topology.trunks[trunk];
        let (mut speed, mut width) =
            self.rate(&trunk.cables, host_ends(trunk).into_iter().flatten());
        for wanted in trunk.ends.into_iter().filter_map(|end| self.wanted_rate(end)) {
            (speed, width) = (speed.min(wanted.speed), width.min(wanted.width));
        }
        [(speed, lanes(width)), self.most(&trunk.cables)]
    }

    /// Rate that a trunk has when no end of it saves power.
    pub(super) fn trunk_free(&self, trunk: usize) -> (u8, u8) {
        self.rate(&self.topology.trunks[trunk].cables, std::iter::empty())
    }

    fn most(&self, cables: &[usize]) -> (u8, u8) {
        let cables = || cables.iter().map(|&c| &self.topology.cables[c]);
        let least = |of: fn(&Cable) -> u8| cables().map(of).min().unwrap_or(0);
        (least(|c| c.speed), least(|c| c.width))
    }

    fn rate(&self, cables: &[usize], ends: impl Iterator<Item = HostEnd>) -> (u8, u8) {
        let (mut speed, mut width) = self.most(cables);
        for &cable in cables {
            speed = speed.min(self.cables[cable].speed);
            width = width.min(self.cables[cable].width);
        }
        for end in ends {
            if let Some(session) = self.session(end.host) {
                let ctrl = session.ctrl[usize::from(end.link)];
                speed = target(ctrl.speed, speed);
                width = target(ctrl.width, width);
            }
        }
        (speed, lanes(width))
    }

    /// What a port is to know of its link `link`.
    pub(super) fn link_info(&self, host: usize, link: u8) -> LinkInfo {
        let Some(place) = self.place(host, link) else {
            return self.switch_link_info(host, link);
        };
        let (speed, width) = self.path_rate(place.path);
        let (max_speed, max_width) = self.path_max(place.path);
        let far = self.topology.paths[place.path].ends[1 - place.side];
        let present = self.session(far.host).is_some();
        let endpoint = place.side == 1;
        LinkInfo { speed, width, endpoint, present, max_speed, max_width, ..LinkInfo::default() }
    }

    /// Of a link whose neighbour is a switch that routes, if it has one at all.
    fn switch_link_info(&self, host: usize, link: u8) -> LinkInfo {
        let here = End { node: Node::Host(host), port: link };
        let Some((trunk, side)) = self.topology.trunk_at(here) else {
            return LinkInfo::default();
        };
        let [(speed, width), (max_speed, max_width)] = self.trunk_rates(trunk);
        let (endpoint, switch_up) = (side == 1, self.trunk_up(trunk));
        let far = self.topology.trunks[trunk].ends[1 - side].node;
        let (present, switch) = (self.is_plugged(far), true);
        LinkInfo { speed, width, endpoint, present, max_speed, max_width, switch, switch_up }
    }

    /// Tells the ports at these ends what is new about their link.
    fn refresh_ends(&mut self, ends: impl Iterator<Item = HostEnd>) {
        for end in ends {
            let info = self.link_info(end.host, end.link);
            let told = self.session(end.host).map(|s| s.told[usize::from(end.link)]);
            if told.is_some_and(|told| told != info) {
                self.tell_info(end.host, end.link, info);
            }
        }
    }

    fn refresh_info(&mut self, path: usize) {
        self.refresh_ends(self.topology.paths[path].ends.into_iter());
        let rate = self.path_rate(path);
        if self.paths[path].up && self.paths[path].rate != rate {
            self.paths[path].rate = rate;
            let (speed, width) = rate;
            let ends = self.path_names(path);
            self.effects.push(Effect::Event(Event::LinkRate { ends, speed, width }));
        }
    }

    fn link_up(&mut self, path: usize) {
        let rate @ (speed, width) = self.path_rate(path);
        let ends = self.topology.paths[path].ends;
        self.paths[path].up = true;
        let life = self.next_generation();
        self.paths[path].life = life;
        self.paths[path].rate = rate;
        for side in 0..2 {
            let (near, far) = (ends[side], ends[1 - side]);
            let (Some(near_session), Some(far_session)) =
                (self.session(near.host), self.session(far.host))
            else {
                continue;
            };
            let message = ToPort::LinkUp {
                link: near.link,
                speed,
                width,
                endpoint: side == 1,
                far: far.link,
                peer: far_session.peer(life),
            };
            let (to, descriptors) = (near_session.port, Some(far_session.port));
            self.effects.push(Effect::Send { to, message, descriptors });
        }
        for side in 0..2 {
            self.replay(ends[side], ends[1 - side]);
        }
        let ends = self.path_names(path);
        self.effects.push(Effect::Event(Event::LinkUp { ends, speed, width }));
    }

    /// A neighbour that is told so closes everything it saw through the link, so
    /// no answer of it is waited for any longer. The owner hears of the link first.
    pub(super) fn link_down(&mut self, path: usize, why: String) {
        self.paths[path].up = false;
        let ends = self.topology.paths[path].ends;
        for end in ends {
            self.tell(end.host, ToPort::LinkDown { link: end.link });
        }
        for end in ends {
            self.inbound_link_down(end);
        }
        let ends = self.path_names(path);
        self.effects.push(Effect::Event(Event::LinkDown { ends, why }));
    }

    pub(super) fn path_names(&self, path: usize) -> [String; 2] {
        self.topology.paths[path].ends.map(|end| self.topology.host_end_name(end))
    }
}
