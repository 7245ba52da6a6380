// SPDX-License-Identifier: GPL-2.0

//! A peer of the interface, and the channel that leads there.

use super::Ethernet;
use crate::{
    proto::ethernet::is_of,
    sys::{
        client::{Channel, Pieces},
        gate::{Gate, Guard},
        net::Device,
        waitq::{Callback, WaitQueue, Woken},
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, SpinLock,
    },
};

/// Has the interface look at a peer: something has come, or there is room, or the channel has ended.
pub(super) struct Schedule {
    pub(super) device: Device,
    pub(super) number: usize,
}

impl Woken for Schedule {
    fn woken(&self, _events: u32) {
        self.device.schedule(self.number);
    }
}

/// A channel, and what is called when it changes. The callback goes first.
pub(super) struct Connected {
    _callback: Callback<Schedule>,
    pub(super) channel: KBox<dyn Channel>,
    ethernet: Arc<Ethernet>,
}

impl Connected {
    /// Makes a channel by `make`, whose waiters have the interface look at peer `number`.
    pub(super) fn new(
        ethernet: &Arc<Ethernet>,
        number: usize,
        make: impl FnOnce(Arc<WaitQueue>) -> Result<KBox<dyn Channel>>,
    ) -> Result<Self> {
        let waiters = WaitQueue::shared(c"weft net", kernel::static_lock_class!(), GFP_KERNEL)?;
        let device = ethernet.device;
        let callback = Callback::new(&waiters, Schedule { device, number })?;
        Ok(Self {
            _callback: callback,
            channel: make(waiters)?,
            ethernet: ethernet.clone(),
        })
    }
}

/// A place for a peer.
#[pin_data]
pub(super) struct Peer {
    /// 0: the place is free.
    hwid: Atomic<u64>,
    #[pin]
    connected: Gate<Connected>,
    /// A channel has one sender at a time. Taken with softirqs off only.
    #[pin]
    pub(super) sending: SpinLock<()>,
    /// The channel has ended.
    ended: Atomic<bool>,
}

impl Peer {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            hwid: Atomic::new(0),
            connected <- Gate::new(),
            sending <- new_spinlock!((), "weft net sending"),
            ended: Atomic::new(false),
        })
    }

    /// Returns the hardware id; `None`: the place is free.
    pub(super) fn hwid(&self) -> Option<u64> {
        Some(self.hwid.load(Relaxed)).filter(|hwid| *hwid != 0)
    }

    pub(super) fn has_address(&self, address: [u8; 6]) -> bool {
        self.hwid().is_some_and(|hwid| is_of(address, hwid))
    }

    /// Returns the channel, while there is one.
    pub(super) fn enter(&self) -> Option<Guard<'_, Connected>> {
        self.connected.enter()
    }

    /// Notes that the channel has ended, and has it closed.
    pub(super) fn end(&self, connected: &Connected) {
        self.ended.store(true, Relaxed);
        connected.ethernet.hurry();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Gives a place to a peer. `EBUSY`: it is not free. In the work item only.
    pub(super) fn connect(&self, hwid: u64, connected: Connected) -> Result {
        if self.hwid().is_some() {
            return Err(EBUSY);
        }
        // First: a frame that comes is looked at with it.
        self.hwid.store(hwid, Relaxed);
        self.connected
            .open(connected)
            .inspect_err(|_| self.hwid.store(0, Relaxed))
    }

    /// Closes the channel, if there is one, and frees the place. In the work item, or when that is off. Sleeps.
    pub(super) fn disconnect(&self) {
        if self.hwid().is_none() {
            return;
        }
        drop(self.connected.revoke(|| ()));
        self.hwid.store(0, Relaxed);
        self.connected.renew();
        // After the last use of the channel, which may have set it.
        self.ended.store(false, Relaxed);
    }

    /// Sends a frame with its header. `EAGAIN`: there is no room. Other errors: the channel has ended.
    pub(super) fn send(&self, connected: &Connected, frame: Pieces<'_>) -> Result {
        let _one = self.sending.lock();
        connected.channel.send(frame, super::FRAME, false)
    }
}
