// SPDX-License-Identifier: GPL-2.0

//! Ethernet interfaces: `struct net_device` and packets, `include/linux/netdevice.h` and `skbuff.h`. The tables
//! and the static inlines are in `c/net.c`.
//!
//! An interface has [`PEERS`] receive queues, and a transmit queue more than that. This file must not know
//! peers, nor what a packet is sent over.

use super::{
    client::{self, Pieces, Port},
    ext,
};
use core::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull, slice};
use kernel::{
    bindings::{kvec, sk_buff},
    error::{from_result, to_result},
    prelude::*,
    sync::{Arc, ArcBorrow},
};

/// Receive queues.
pub(crate) const PEERS: usize = ext::WEFT_NET_PEERS as usize;
/// Bytes that stand before a frame: `struct virtio_net_hdr`, padded.
pub(crate) const HEADER: usize = 16;
/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of the longest frame, with its header.
pub(crate) const MAX_FRAME: usize = HEADER + ETHERNET + 4 + 65536;
/// Counters of `ethtool -S`, in the order of `weft_net_names`, `c/net.c`.
pub(crate) const COUNTERS: usize = ext::WEFT_NET_COUNTERS as usize;

/// What becomes of a packet.
pub(crate) enum Fate {
    Sent,
    /// There is no room; the queue was stopped.
    Full,
    Dropped,
}

/// The driver's half of an interface.
pub(crate) trait Interface: Sized + Send + Sync + 'static {
    /// Makes the half of `device`, over `port`.
    fn new(port: Arc<dyn Port>, device: Device) -> Result<Arc<Self>>;

    /// The interface goes up. Sleeps.
    fn open(self: &Arc<Self>) -> Result;

    /// The interface goes down: when this returns, nothing of it runs. Sleeps.
    fn stop(self: &Arc<Self>);

    /// Sends a packet that was queued on transmit queue `queue`. Called in softirqs, or with them off.
    fn transmit(&self, packet: &Packet<'_>, queue: usize) -> Fate;

    /// Returns the transmit queue for a frame to this address. Called as [`Self::transmit`].
    fn select(&self, to: [u8; 6]) -> usize;

    /// Takes up to `budget` packets of a receive queue; returns how many. Called in softirqs.
    fn poll(&self, queue: usize, budget: usize) -> usize;

    /// Returns the counters.
    fn counters(&self) -> [u64; COUNTERS];
}

/// A `net_device`, which exists as long as the driver's half.
#[derive(Clone, Copy)]
pub(crate) struct Device(NonNull<ext::weft_net>);

// SAFETY: The kernel locks what its functions access.
unsafe impl Send for Device {}
// SAFETY: As above.
unsafe impl Sync for Device {}

impl Device {
    /// Wraps `netif_carrier_on()` and `netif_carrier_off()`. Any context.
    pub(crate) fn set_carrier(&self, on: bool) {
        // SAFETY: It exists.
        unsafe { ext::weft_net_set_carrier(self.0.as_ptr(), on) };
    }

    /// Wraps `eth_hw_addr_set()`; with `registered` tells the stack. Returns false if the RTNL is held. Sleeps.
    pub(crate) fn set_address(&self, address: [u8; 6], registered: bool) -> bool {
        // SAFETY: It exists.
        unsafe { ext::weft_net_set_address(self.0.as_ptr(), address.as_ptr(), registered) }
    }

    /// Stops a transmit queue: what makes room from now on finds it stopped. In [`Interface::transmit`] of it.
    pub(crate) fn stop_queue(&self, queue: usize) {
        if queue <= PEERS {
            // SAFETY: It exists, and has the queue.
            unsafe { ext::weft_net_stop_queue(self.0.as_ptr(), queue as u32) };
        }
    }

    /// Wakes a transmit queue, if it is stopped. Any context but hard interrupts.
    pub(crate) fn wake_queue(&self, queue: usize) {
        if queue <= PEERS {
            // SAFETY: As above.
            unsafe { ext::weft_net_wake_queue(self.0.as_ptr(), queue as u32) };
        }
    }

    /// Has [`Interface::poll`] called for a receive queue. Wraps `napi_schedule()`. Any context.
    pub(crate) fn schedule(&self, queue: usize) {
        if queue < PEERS {
            // SAFETY: As above.
            unsafe { ext::weft_net_schedule(self.0.as_ptr(), queue as u32) };
        }
    }

    /// Ends a poll that has found less than its budget. Wraps `napi_complete_done()`. In [`Interface::poll`].
    pub(crate) fn complete(&self, queue: usize, done: usize) {
        if queue < PEERS {
            // SAFETY: As above.
            unsafe { ext::weft_net_complete(self.0.as_ptr(), queue as u32, done as c_int) };
        }
    }

    /// Allocates a packet of `bytes` bytes for what has come; at most [`MAX_FRAME`]. `None`, and counted: there is
    /// no memory. In [`Interface::poll`] of `queue`.
    pub(crate) fn new_packet(&self, queue: usize, bytes: usize) -> Option<Incoming> {
        if queue >= PEERS {
            return None;
        }
        let bytes = u32::try_from(bytes).ok()?;
        // SAFETY: It exists, and has the queue, which is being polled.
        let skb = unsafe { ext::weft_net_alloc(self.0.as_ptr(), queue as u32, bytes) };
        Some(Incoming {
            device: *self,
            skb: NonNull::new(skb)?,
        })
    }
}

/// A packet to be sent.
pub(crate) struct Packet<'a> {
    skb: NonNull<sk_buff>,
    to: [u8; 6],
    _skb: PhantomData<&'a ()>,
}

impl Packet<'_> {
    /// Returns the address that it is sent to.
    pub(crate) fn to(&self) -> [u8; 6] {
        self.to
    }

    /// Calls `f` with the packet, as a header and a frame. `None`: it cannot be described so.
    pub(crate) fn with<R>(&self, f: impl FnOnce(Pieces<'_>) -> R) -> Option<R> {
        const PIECES: usize = ext::WEFT_NET_PIECES as usize;
        let mut header = [0u8; HEADER];
        let mut pieces = [const { MaybeUninit::<kvec>::uninit() }; PIECES];
        let (first, rest) = pieces.split_first_mut()?;
        first.write(kvec {
            iov_base: header.as_mut_ptr().cast(),
            iov_len: HEADER,
        });
        // SAFETY: The packet lives, and there is room for all pieces that one can have, and for its header.
        let count = unsafe {
            let rest = rest.as_mut_ptr().cast();
            ext::weft_net_pieces(self.skb.as_ptr(), first.assume_init_ref().iov_base, rest)
        };
        if count == 0 || count >= PIECES {
            return None;
        }
        // SAFETY: The first one and `count` more were written. Nothing writes to the memory of a packet that is
        // being sent, nor to the header.
        let pieces =
            unsafe { Pieces::new(slice::from_raw_parts(pieces.as_ptr().cast(), 1 + count)) };
        Some(f(pieces))
    }
}

/// A packet that has come, and is being filled. Dropped and counted, if [`Incoming::deliver`] is not called.
pub(crate) struct Incoming {
    device: Device,
    skb: NonNull<sk_buff>,
}

impl Incoming {
    /// Returns part `number` of its memory; `None`: there are not so many. All but the last one have a multiple of
    /// 8 bytes.
    pub(crate) fn part(&mut self, number: usize) -> Option<&mut [u8]> {
        let mut bytes = 0;
        // SAFETY: The packet is ours.
        let at = unsafe { ext::weft_net_part(self.skb.as_ptr(), number as u32, &mut bytes) };
        let at = NonNull::new(at.cast::<u8>())?;
        // SAFETY: Memory of the packet, which nothing else has yet.
        Some(unsafe { slice::from_raw_parts_mut(at.as_ptr(), bytes) })
    }

    /// Gives it to the stack, as received by `queue`. Returns false if `header` cannot be true. In
    /// [`Interface::poll`] of that queue.
    pub(crate) fn deliver(self, queue: usize, header: &[u8; HEADER]) -> bool {
        let (device, skb) = (self.device.0.as_ptr(), self.skb.as_ptr());
        core::mem::forget(self);
        // SAFETY: Both exist; the packet is given away.
        unsafe { ext::weft_net_receive(device, queue as u32, skb, header.as_ptr().cast()) }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // SAFETY: Both exist; the packet is given away.
        unsafe { ext::weft_net_drop(self.device.0.as_ptr(), self.skb.as_ptr()) };
    }
}

/// The kind of interface `weft`, which `ip link add` makes, as long as this exists.
pub(crate) struct Kind(());

impl Kind {
    /// Wraps `rtnl_link_register()`, `include/net/rtnetlink.h`, whose errors it returns. Sleeps.
    pub(crate) fn new<I: Interface>() -> Result<Self> {
        let table: &'static ext::weft_net_calls = &Calls::<I>::TABLE;
        // SAFETY: The table is static.
        to_result(unsafe { ext::weft_net_register(table) })?;
        Ok(Self(()))
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        // SAFETY: Registered in `new`. No interface is left afterwards.
        unsafe { ext::weft_net_unregister() };
    }
}

/// What C calls. `interface` is what [`Calls::make`] has returned, a reference to the driver's half, until it is given
/// to [`Calls::free`].
struct Calls<I>(PhantomData<I>);

impl<I: Interface> Calls<I> {
    const TABLE: ext::weft_net_calls = ext::weft_net_calls {
        new_interface: Some(Self::make),
        free: Some(Self::free),
        open: Some(Self::open),
        stop: Some(Self::stop),
        xmit: Some(Self::transmit),
        select: Some(Self::select),
        poll: Some(Self::poll),
        counters: Some(Self::counters),
    };

    unsafe extern "C" fn make(port: *mut ext::weft_port, net: *mut ext::weft_net) -> *mut c_void {
        // SAFETY: The port is not removed while an interface is made; the interface outlives its half.
        let (port, net) = unsafe { (client::port_of(port).clone(), NonNull::new_unchecked(net)) };
        match I::new(port, Device(net)) {
            Ok(interface) => Arc::into_raw(interface).cast_mut().cast(),
            Err(e) => e.to_ptr(),
        }
    }

    unsafe extern "C" fn free(interface: *mut c_void) {
        // SAFETY: The last use of it.
        drop(unsafe { Arc::from_raw(interface.cast_const().cast::<I>()) });
    }

    /// # Safety
    ///
    /// `interface` is not freed during `'a`.
    unsafe fn of<'a>(interface: *mut c_void) -> ArcBorrow<'a, I> {
        // SAFETY: By the requirements.
        unsafe { ArcBorrow::from_raw(interface.cast_const().cast::<I>()) }
    }

    unsafe extern "C" fn open(interface: *mut c_void) -> c_int {
        // SAFETY: As of all calls.
        let interface: Arc<I> = unsafe { Self::of(interface) }.into();
        from_result(|| interface.open().map(|()| 0))
    }

    unsafe extern "C" fn stop(interface: *mut c_void) {
        // SAFETY: As of all calls.
        let interface: Arc<I> = unsafe { Self::of(interface) }.into();
        interface.stop();
    }

    unsafe extern "C" fn transmit(
        interface: *mut c_void,
        skb: *mut sk_buff,
        frame: *const u8,
        queue: u32,
    ) -> u32 {
        // SAFETY: As of all calls; the packet stays during the call, and is the frame.
        let (interface, skb, to) = unsafe {
            let to = frame.cast::<[u8; 6]>().read();
            (Self::of(interface), NonNull::new_unchecked(skb), to)
        };
        let packet = Packet {
            skb,
            to,
            _skb: PhantomData,
        };
        match interface.transmit(&packet, queue as usize) {
            Fate::Sent => ext::WEFT_NET_SENT,
            Fate::Full => ext::WEFT_NET_FULL,
            Fate::Dropped => ext::WEFT_NET_DROP,
        }
    }

    unsafe extern "C" fn select(interface: *mut c_void, frame: *const u8) -> u16 {
        // SAFETY: As of all calls; a frame begins with the address that it is sent to.
        let (interface, to) = unsafe { (Self::of(interface), frame.cast::<[u8; 6]>().read()) };
        interface.select(to) as u16
    }

    unsafe extern "C" fn poll(interface: *mut c_void, number: u32, budget: c_int) -> c_int {
        // SAFETY: As of all calls.
        let interface = unsafe { Self::of(interface) };
        interface.poll(number as usize, budget.max(0) as usize) as c_int
    }

    unsafe extern "C" fn counters(interface: *mut c_void, values: *mut u64) {
        // SAFETY: As of all calls; there is room for all counters.
        unsafe {
            values
                .cast::<[u64; COUNTERS]>()
                .write_unaligned(Self::of(interface).counters());
        }
    }
}
