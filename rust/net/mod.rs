// SPDX-License-Identifier: GPL-2.0

//! The Ethernet interface of a port, `ip link add NAME parentdev weftN type weft`: frames to and from all hosts
//! whose port has one, see `Documentation/net.rst`.
//!
//! It is a client like those of other modules: to each peer it has one channel, over which frames travel in both
//! directions as messages, with a `struct virtio_net_hdr` before them. Of two hosts the one with the lower hardware
//! id connects. This module must not know links, routes or `channel`.

mod connect;
mod peer;

use self::{
    connect::Listening,
    peer::{Connected, Peer},
};
use crate::{
    proto::ethernet::{address_of, is_group},
    sys::{
        client::{Pieces, Port},
        errno::ENOTCONN,
        net::{Device, Fate, Interface, Packet, COUNTERS, ETHERNET, HEADER, MAX_FRAME, PEERS},
        work,
    },
};
use kernel::{
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    workqueue::{DelayedWork, WorkItem},
};

/// The tag of a message that is a frame.
const FRAME: u64 = 1;

/// What `ethtool -S` shows.
struct Counters {
    connections: Atomic<u64>,
    foreign: Atomic<u64>,
    malformed: Atomic<u64>,
    no_peer: Atomic<u64>,
    full: Atomic<u64>,
}

/// An interface.
#[pin_data]
pub(crate) struct Ethernet {
    port: Arc<dyn Port>,
    device: Device,
    #[pin]
    peers: [Peer; PEERS],
    /// While the interface is up. Locked by the work item, and when that is off.
    #[pin]
    listening: Mutex<Option<Listening>>,
    #[pin]
    tending: DelayedWork<Self>,
    /// The work item is waited for, with the RTNL held: it begins nothing that takes long.
    stopping: Atomic<bool>,
    counters: Counters,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Ethernet { self.tending }
}

impl WorkItem for Ethernet {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Some(again) = this.tend() {
            work::again_in(&this, again);
        }
    }
}

impl Ethernet {
    /// Finds the peer of an address.
    fn peer_of(&self, address: [u8; 6]) -> Option<(usize, &Peer)> {
        let mut peers = self.peers.iter().enumerate();
        peers.find(|(_, peer)| peer.has_address(address))
    }

    /// Sends a frame to one peer.
    fn send(&self, peer: &Peer, frame: Pieces<'_>) -> Result {
        let connected = peer.enter().ok_or(ENOTCONN)?;
        let sent = peer.send(&connected, frame);
        if sent.is_err_and(|e| e != EAGAIN && e != EBUSY) {
            peer.end(&connected);
        }
        sent
    }

    /// Sends a frame to all peers, to each if it has room.
    fn send_to_all(&self, frame: &Pieces<'_>) -> Fate {
        for peer in self.peers.iter().filter(|peer| peer.hwid().is_some()) {
            if self.send(peer, frame.clone()).is_err() {
                self.counters.full.fetch_add(1, Relaxed);
            }
        }
        Fate::Sent
    }

    /// Sends a frame to the peer of queue `queue`, which is stopped if there is no room.
    fn send_to(&self, peer: &Peer, frame: &Pieces<'_>, queue: usize) -> Fate {
        let full = |sent: &Result| sent.is_err_and(|e| e == EAGAIN);
        let mut sent = self.send(peer, frame.clone());
        if full(&sent) {
            self.device.stop_queue(queue);
            // Room may have come before the queue was stopped.
            sent = self.send(peer, frame.clone());
            if full(&sent) {
                self.counters.full.fetch_add(1, Relaxed);
                return Fate::Full;
            }
            self.device.wake_queue(queue);
        }
        match sent {
            Ok(()) => Fate::Sent,
            Err(_) => Fate::Dropped,
        }
    }

    /// Takes the message of `bytes` bytes that is next.
    fn receive(&self, peer: &Peer, connected: &Connected, number: usize, bytes: usize) -> Result {
        let malformed = || {
            self.counters.malformed.fetch_add(1, Relaxed);
            Ok(())
        };
        if !(HEADER + ETHERNET..=MAX_FRAME).contains(&bytes) {
            return malformed();
        }
        let mut header = [0; HEADER];
        connected.channel.read(0, &mut header)?;
        let Some(mut packet) = self.device.new_packet(number, bytes - HEADER) else {
            return Ok(());
        };
        let (mut at, mut n) = (HEADER, 0);
        while let Some(part) = packet.part(n) {
            connected.channel.read(at, part)?;
            at += part.len();
            n += 1;
        }
        let source = packet
            .part(0)
            .and_then(|frame| frame.get(6..12)?.try_into().ok());
        if !source.is_some_and(|source| peer.has_address(source)) {
            self.counters.foreign.fetch_add(1, Relaxed);
            return Ok(());
        }
        match packet.deliver(number, &header) {
            true => Ok(()),
            false => malformed(),
        }
    }

    /// Takes up to `budget` frames of a peer. Returns how many, and whether more may be there.
    fn take(&self, peer: &Peer, number: usize, budget: usize) -> (usize, bool) {
        let Some(connected) = peer.enter() else {
            return (0, false);
        };
        for done in 0..budget {
            let taken = connected.channel.next().and_then(|(tag, bytes)| {
                match tag {
                    FRAME => self.receive(peer, &connected, number, bytes as usize)?,
                    _ => {
                        self.counters.malformed.fetch_add(1, Relaxed);
                    }
                }
                connected.channel.consume()
            });
            match taken {
                Ok(()) => {}
                Err(e) if e == EAGAIN => return (done, false),
                Err(_) => {
                    peer.end(&connected);
                    return (done, false);
                }
            }
        }
        (budget, true)
    }
}

impl Interface for Ethernet {
    fn new(port: Arc<dyn Port>, device: Device) -> Result<Arc<Self>> {
        device.set_address(address_of(port.attr().hwid), false);
        Arc::pin_init(
            pin_init!(Self {
                port,
                device,
                peers <- pin_init::pin_init_array_from_fn(|_| Peer::new()),
                listening <- new_mutex!(None, "weft net"),
                tending <- new_delayed_work!("weft net"),
                stopping: Atomic::new(false),
                counters: Counters {
                    connections: Atomic::new(0),
                    foreign: Atomic::new(0),
                    malformed: Atomic::new(0),
                    no_peer: Atomic::new(0),
                    full: Atomic::new(0),
                },
            }),
            GFP_KERNEL,
        )
    }

    fn open(self: &Arc<Self>) -> Result {
        self.stopping.store(false, Relaxed);
        let listening = Listening::new(self)?;
        *self.listening.lock() = Some(listening);
        self.hurry();
        Ok(())
    }

    fn stop(self: &Arc<Self>) {
        self.stopping.store(true, Relaxed);
        let listening = self.listening.lock().take();
        drop(listening);
        // It does not run again by itself: it has found that nothing listens.
        work::cancel_delayed(self);
        for peer in &self.peers {
            peer.disconnect();
        }
        self.device.set_carrier(false);
    }

    fn transmit(&self, packet: &Packet<'_>, queue: usize) -> Fate {
        let sent = packet.with(|frame| match self.peer_of(packet.to()) {
            _ if is_group(packet.to()) => self.send_to_all(&frame),
            Some((number, peer)) if number + 1 == queue => self.send_to(peer, &frame, queue),
            // The peer has another place now than when the queue was selected, or has none.
            _ => {
                self.counters.no_peer.fetch_add(1, Relaxed);
                Fate::Dropped
            }
        });
        sent.unwrap_or(Fate::Dropped)
    }

    fn select(&self, to: [u8; 6]) -> usize {
        match self.peer_of(to) {
            Some((number, _)) if !is_group(to) => number + 1,
            _ => 0,
        }
    }

    fn poll(&self, queue: usize, budget: usize) -> usize {
        let Some(peer) = self.peers.get(queue) else {
            return 0;
        };
        // Room may be what has come.
        self.device.wake_queue(queue + 1);
        let (done, more) = self.take(peer, queue, budget);
        // Without a budget a poll is not completed.
        if !more && done < budget {
            self.device.complete(queue, done);
        }
        done
    }

    fn counters(&self) -> [u64; COUNTERS] {
        let count = |counter: &Atomic<u64>| counter.load(Relaxed);
        let peers = self.peers.iter().filter(|peer| peer.hwid().is_some());
        let counters = &self.counters;
        [
            peers.count() as u64,
            count(&counters.connections),
            count(&counters.foreign),
            count(&counters.malformed),
            count(&counters.no_peer),
            count(&counters.full),
        ]
    }
}
