// SPDX-License-Identifier: GPL-2.0

//! Which hosts the interface has channels to: listens, connects to the hosts with higher hardware ids, and closes
//! what has ended. All of this is done by one work item.

use super::{
    peer::{Connected, Peer},
    Ethernet,
};
use crate::{
    proto::ethernet::address_of,
    sys::{
        client::{Listener, User},
        errno::{EADDRINUSE, ECONNABORTED, EPROTO},
        ext::{self, weft_destination},
        net::PEERS,
        waitq::{Callback, WaitQueue, Woken},
        work,
    },
};
use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc},
    time::{msecs_to_jiffies, Jiffies, Msecs},
};

/// What interfaces listen on: of the services that no program gets to.
const SERVICE: u32 = ext::WEFT_SERVICE_KERNEL;
/// The channel to a peer: the bulk ring has room for three of the longest frames.
const CELLS: u32 = 256;
const BULK: u32 = 256 << 10;
/// How long to wait for an answer.
const TIMEOUT_MS: Msecs = 500;
/// After how long to look again: at first, and at most, if there are hosts that do not answer.
const FIRST_MS: Msecs = 100;
const LAST_MS: Msecs = 2000;
/// If there are none: whether there are new ones.
const IDLE_MS: Msecs = 1000;

/// Has the work item run.
pub(super) struct Tend(Arc<Ethernet>);

impl Woken for Tend {
    fn woken(&self, _events: u32) {
        self.0.hurry();
    }
}

/// What an interface has while it is up. The callbacks go first.
pub(super) struct Listening {
    _connected: Callback<Tend>,
    _changed: Callback<Tend>,
    listener: KBox<dyn Listener>,
    /// An interface that is up would be lost with the port.
    _user: KBox<dyn User>,
    /// The hardware id of the port.
    own: u64,
    /// After how long to look again.
    delay: Msecs,
    /// How many hosts there were last.
    hosts: usize,
}

impl Listening {
    /// `EADDRINUSE`: a program listens on the service of interfaces.
    pub(super) fn new(ethernet: &Arc<Ethernet>) -> Result<Self> {
        let waiters = WaitQueue::shared(c"weft net", kernel::static_lock_class!(), GFP_KERNEL)?;
        Ok(Self {
            _connected: Callback::new(&waiters, Tend(ethernet.clone()))?,
            _changed: Callback::new(ethernet.port.changes(), Tend(ethernet.clone()))?,
            listener: ethernet.port.listen(SERVICE, PEERS as u32, waiters)?,
            _user: ethernet.port.user()?,
            own: ethernet.port.attr().hwid,
            delay: FIRST_MS,
            hosts: 0,
        })
    }
}

impl Ethernet {
    /// Runs the work item now. Any context.
    pub(super) fn hurry(self: &Arc<Self>) {
        work::run_unbound_in(self, 0);
    }

    /// Does what there is to be done. Returns after how long to look again; `None`: the interface is down.
    pub(super) fn tend(self: &Arc<Self>) -> Option<Jiffies> {
        let mut listening = self.listening.lock();
        let Some(up) = &mut *listening else {
            return None;
        };
        self.follow(up);
        let mut changed = self.close_ended();
        changed |= self.accept(up);
        let mut hosts = [0; PEERS];
        let found = self.port.hosts(&mut hosts);
        changed |= found != core::mem::replace(&mut up.hosts, found);
        if changed {
            up.delay = FIRST_MS;
        }
        let all = self.connect(up, hosts.get(..found.min(PEERS)).unwrap_or_default());
        let any = self.peers.iter().any(|peer| peer.hwid().is_some());
        self.device.set_carrier(any);
        let delay = match all {
            true => IDLE_MS,
            false => up.delay,
        };
        up.delay = (up.delay * 2).min(LAST_MS);
        Some(msecs_to_jiffies(delay))
    }

    /// Takes over the hardware id of the function that has taken the place of the former one.
    fn follow(&self, up: &mut Listening) {
        let own = self.port.attr().hwid;
        if own != 0 && own != up.own && self.device.set_address(address_of(own), true) {
            up.own = own;
            // Which end connects may have changed.
            for peer in &self.peers {
                peer.disconnect();
            }
        }
    }

    /// Closes the channels that have ended. Returns whether there were any.
    fn close_ended(&self) -> bool {
        let mut any = false;
        for peer in self.peers.iter().filter(|peer| peer.has_ended()) {
            peer.disconnect();
            any = true;
        }
        any
    }

    /// Accepts the connections that wait. Returns whether there were any.
    fn accept(self: &Arc<Self>, up: &Listening) -> bool {
        let mut any = false;
        // As many as there are peers: the others do not wait for one that connects again and again.
        for _ in 0..PEERS {
            let Some((number, peer)) = self.free_place() else {
                break;
            };
            let made = Connected::new(self, number, |waiters| up.listener.accept(waiters));
            match made {
                Ok(connected) => any |= self.join(up, (number, peer), connected).is_ok(),
                Err(e) if e == ECONNABORTED => {}
                Err(_) => break,
            }
        }
        any
    }

    /// Connects to those of `hosts` that it is this end's part to. Returns whether all of them are connected.
    fn connect(self: &Arc<Self>, up: &Listening, hosts: &[u64]) -> bool {
        let mut all = true;
        for hwid in hosts.iter().copied().filter(|hwid| *hwid > up.own) {
            if self.peers.iter().any(|peer| peer.hwid() == Some(hwid)) {
                continue;
            }
            if self.stopping.load(Relaxed) {
                return false;
            }
            let Some((number, peer)) = self.free_place() else {
                return false;
            };
            let to = weft_destination {
                peer: hwid,
                link: ext::WEFT_CLIENT_ANY_LINK,
                service: SERVICE,
                cells: CELLS,
                bulk: BULK,
                timeout_ms: TIMEOUT_MS,
            };
            let made = Connected::new(self, number, |waiters| self.port.connect(&to, waiters));
            all &= made
                .and_then(|connected| self.join(up, (number, peer), connected))
                .is_ok();
        }
        all
    }

    fn free_place(&self) -> Option<(usize, &Peer)> {
        let mut peers = self.peers.iter().enumerate();
        peers.find(|(_, peer)| peer.hwid().is_none())
    }

    /// Gives a place to what is connected. `EPROTO`: it is no channel for frames. `EADDRINUSE`: another host has the
    /// same address.
    fn join(&self, up: &Listening, (number, peer): (usize, &Peer), connected: Connected) -> Result {
        let attr = connected.channel.attr();
        if (attr.cells, attr.bulk) != (CELLS, BULK) {
            return Err(EPROTO.into());
        }
        let address = address_of(attr.peer);
        for other in &self.peers {
            match other.hwid() {
                // Its end of the former channel is gone.
                Some(hwid) if hwid == attr.peer => other.disconnect(),
                Some(hwid) if other.has_address(address) => {
                    pr_warn!(
                        "net: {:#x} and {:#x} have the same address: no frames to the second one\n",
                        hwid,
                        attr.peer
                    );
                    return Err(EADDRINUSE.into());
                }
                _ => {}
            }
        }
        if address_of(up.own) == address {
            return Err(EADDRINUSE.into());
        }
        peer.connect(attr.peer, connected)?;
        self.counters.connections.fetch_add(1, Relaxed);
        self.device.set_carrier(true);
        // What has come already has called nothing that finds it.
        self.device.schedule(number);
        Ok(())
    }
}
