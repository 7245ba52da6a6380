// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the fabric knows of a connected port. Forgotten with the connection;
//! all but its identity also with a reset.

use super::PortId;
use super::base::Base;
use super::inbound::Table;
use super::link::Ctrl;
use super::remote::{Caller, Remote};
use crate::firmware::Firmware;
use crate::wire::{LINKS, LinkInfo, Peer, RouteEntry};
use std::collections::BTreeMap;

/// A port from its HELLO to the end of its connection.
pub struct Session {
    pub port: PortId,
    pub hwid: u64,
    /// Bytes of its RAM descriptor.
    pub ram: u64,
    /// Changes with every WELCOME.
    pub generation: u32,
    /// `WEFT_CTRL_ENABLE`.
    pub enabled: bool,
    pub ctrl: [Ctrl; LINKS],
    /// What it was last told of each link.
    pub told: [LinkInfo; LINKS],
    /// Bytes that each of its links has carried, out and in.
    pub carried: [[u64; 2]; LINKS],
    pub inbound: Table,
    /// 0: it has none.
    pub lid: u32,
    /// Its route table, without what is not live.
    pub routes: BTreeMap<u16, RouteEntry>,
    /// What it reaches by routes.
    pub remotes: BTreeMap<u8, Remote>,
    /// The ports that reach it by routes.
    pub channels: BTreeMap<u8, Caller>,
    /// Of a shared endpoint.
    pub base: Base,
    /// Of a shared endpoint.
    pub firmware: Option<Firmware>,
}

impl Session {
    pub fn new(port: PortId, hwid: u64, ram: u64) -> Self {
        Session {
            port,
            hwid,
            ram,
            generation: 0,
            enabled: false,
            ctrl: Default::default(),
            told: Default::default(),
            carried: Default::default(),
            inbound: Table::default(),
            lid: 0,
            routes: BTreeMap::new(),
            remotes: BTreeMap::new(),
            channels: BTreeMap::new(),
            base: Base::default(),
            firmware: None,
        }
    }

    /// As the port at the other end of a link or route sees it, in that life of it.
    pub fn peer(&self, life: u32) -> Peer {
        Peer { hwid: self.hwid, generation: self.generation, life }
    }

    /// Back to the reset values of the registers.
    pub fn reset(&mut self) {
        let (told, generation) = (self.told, self.generation);
        *self = Session::new(self.port, self.hwid, self.ram);
        (self.told, self.generation) = (told, generation);
    }
}
