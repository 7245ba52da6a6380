// SPDX-License-Identifier: GPL-2.0

//! What other modules of the kernel have of the driver, `include/linux/weft_client.h`: ports, and what is made of them.
//!
//! A handle of C is a box of an object of the driver, with the callback of the client beside it. `c/client.c`
//! keeps the lists of ports and of clients, and exports the functions of this file, of [`super::channels`] and of
//! [`super::sockets`]. This file must not know what a port, a channel or a socket does.
//!
//! All functions that C calls have the same requirements: handles are those that this file has returned and
//! that are not closed, pointers to structures are valid, and a handle is closed once, when no other call has
//! it.

use super::{
    ext::{
        self, weft_channel_attr, weft_destination, weft_notifier, weft_port_attr, weft_sock_info,
        weft_socket_destination, weft_socket_request,
    },
    waitq::{Callback, WaitQueue, Woken},
};
use core::{ptr::NonNull, slice};
use kernel::{
    bindings::kvec,
    error::from_result,
    iov::{IovIterDest, IovIterSource},
    prelude::*,
    sync::{
        atomic::{Atomic, Full},
        Arc,
    },
};

/// Bytes of a short message at most.
pub(crate) const SHORT_BYTES: usize = 104;

/// A port, as clients have it.
pub(crate) trait Port: Send + Sync {
    fn attr(&self) -> weft_port_attr;

    /// Returns the queue that is woken when a link has changed, so that another host may be reached.
    fn changes(&self) -> &Arc<WaitQueue>;

    /// Writes the hardware ids of the other hosts that are known to `to`, and returns how many there are; those
    /// beyond its end are left out.
    fn hosts(&self, to: &mut [u64]) -> usize;

    /// Counts a user of the port, until what this returns is dropped.
    fn user(&self) -> Result<KBox<dyn User>>;

    /// Listens on a service; `waiters` are woken when a connection waits, or the port goes. A listener is no user of the
    /// port: a client that listens at each port takes none of them up.
    fn listen(
        &self,
        service: u32,
        backlog: u32,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn Listener>>;

    /// Connects, and waits for the answer; `waiters` are woken when the channel changes.
    fn connect(&self, to: &weft_destination, waiters: Arc<WaitQueue>) -> Result<KBox<dyn Channel>>;

    /// As [`Port::listen`], for sockets.
    fn listen_sockets(
        &self,
        service: u32,
        backlog: u32,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn SocketListener>>;

    /// Requests a connection; `waiters` are woken when the socket changes, the first time when there is an answer.
    fn connect_socket(
        &self,
        to: &weft_socket_destination,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn Socket>>;
}

/// A user of a port, which is not taken away while it has one.
pub(crate) trait User: Send + Sync {}

/// What listens on a service, until it is dropped.
pub(crate) trait Listener: Send + Sync {
    /// Accepts the oldest connection. `EAGAIN`: none waits.
    fn accept(&self, waiters: Arc<WaitQueue>) -> Result<KBox<dyn Channel>>;
}

/// One end of a channel, which is closed when this is dropped. Nothing here sleeps.
pub(crate) trait Channel: Send + Sync {
    fn attr(&self) -> weft_channel_attr;

    /// Sends a message. With `more` others follow at once.
    fn send(&self, pieces: Pieces<'_>, tag: u64, more: bool) -> Result;

    /// Sends short messages, as many as there is room for: returns how many, 1 at least.
    fn send_short(&self, all: &[Short]) -> Result<usize>;

    /// Sends that no more will be sent.
    fn finish(&self) -> Result;

    /// Returns how many short messages there is room for.
    fn room(&self) -> Result<u32>;

    /// Returns tag and length of the message that is next.
    fn next(&self) -> Result<(u64, u32)>;

    /// The same, for a caller that looks again soon: the waiters are not woken when one comes.
    fn look(&self) -> Result<(u64, u32)>;

    /// Takes short messages out, the next ones, as many as have come and `to` has room for: returns how many. None: the
    /// next one is longer, and [`Self::next`] returns it. With `looks` as [`Self::look`].
    fn take(&self, to: &mut [Short], looks: bool) -> Result<usize>;

    /// Copies a part of it, from byte `from` on.
    fn read(&self, from: usize, to: &mut [u8]) -> Result;

    /// Takes it out. Fails only if there is none, or another call of this direction is under way.
    fn consume(&self) -> Result;
}

/// A short message, and memory for one: several are sent, or taken out, at once.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Short {
    pub(crate) tag: u64,
    bytes: u64,
    /// By words, as they are sent.
    raw: [u8; SHORT_BYTES],
}

impl Short {
    pub(crate) const EMPTY: Self = Self {
        tag: 0,
        bytes: 0,
        raw: [0; SHORT_BYTES],
    };

    pub(crate) fn payload(&self) -> &[u8] {
        self.raw.get(..self.bytes as usize).unwrap_or(&[])
    }

    /// Returns the room for the payload of a message. `None`: it is too long.
    pub(crate) fn room(&mut self, tag: u64, bytes: u32) -> Option<&mut [u8]> {
        let room = self.raw.get_mut(..bytes as usize)?;
        self.tag = tag;
        self.bytes = bytes.into();
        Some(room)
    }
}

/// What listens for sockets on a service, until it is dropped.
pub(crate) trait SocketListener: Send + Sync {
    /// Returns the oldest request. `EAGAIN`: none waits.
    fn oldest(&self) -> Result<weft_socket_request>;

    /// Accepts a request; `waiters` are woken when the socket changes.
    fn accept(
        &self,
        request: &weft_socket_request,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn Socket>>;

    /// Refuses a request.
    fn refuse(&self, request: &weft_socket_request);
}

/// A socket, which is closed when this is dropped. Nothing here waits for the peer.
pub(crate) trait Socket: Send + Sync {
    fn info(&self) -> weft_sock_info;

    /// Sends up to `bytes` bytes.
    fn send(&self, bytes: usize, from: &mut IovIterSource<'_>) -> Result<usize>;

    /// Receives up to `bytes` bytes; with `peeks` they stay.
    fn receive(&self, bytes: usize, peeks: bool, to: &mut IovIterDest<'_>) -> Result<usize>;

    /// Returns how many bytes can be received, `want` at least, or all. With `arms` the waiters are woken when there are
    /// more.
    fn readable(&self, want: usize, arms: bool) -> Result<usize>;

    /// Returns how many bytes can be sent. With `arms` the waiters are woken when there are some.
    fn writable(&self, arms: bool) -> Result<usize>;

    /// Sends that no more will be sent.
    fn finish(&self) -> Result;
}

/// The pieces of memory of a client that are one message.
///
/// # Invariants
///
/// Each is valid for reads during `'a`, and is not written to.
#[derive(Clone)]
pub(crate) struct Pieces<'a>(slice::Iter<'a, kvec>);

impl<'a> Pieces<'a> {
    /// Makes it of these.
    ///
    /// # Safety
    ///
    /// See the invariants.
    pub(super) unsafe fn new(pieces: &'a [kvec]) -> Self {
        // INVARIANT: By the requirements.
        Self(pieces.iter())
    }

    /// Calls `f` with a message of these slices.
    pub(crate) fn of<R, const N: usize>(slices: [&[u8]; N], f: impl FnOnce(Pieces<'_>) -> R) -> R {
        let pieces = slices.map(|slice| kvec {
            iov_base: slice.as_ptr().cast_mut().cast(),
            iov_len: slice.len(),
        });
        // SAFETY: The slices are borrowed until this returns, and only read.
        f(unsafe { Pieces::new(&pieces) })
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let piece = self.0.next()?;
        match NonNull::new(piece.iov_base.cast::<u8>()) {
            // SAFETY: By the invariants.
            Some(at) => Some(unsafe { slice::from_raw_parts(at.as_ptr(), piece.iov_len) }),
            None => Some(&[]),
        }
    }
}

/// The notifier of a client.
struct Notifier {
    notify: unsafe extern "C" fn(*mut c_void, c_uint),
    context: *mut c_void,
}

// SAFETY: A client expects to be notified in any context.
unsafe impl Send for Notifier {}
// SAFETY: As above.
unsafe impl Sync for Notifier {}

impl Woken for Notifier {
    fn woken(&self, events: u32) {
        // SAFETY: By the requirements of `Handle::make`.
        unsafe { (self.notify)(self.context, events) };
    }
}

/// An object of the driver, and the callback of its client. The callback goes first.
pub(super) struct Handle<T: ?Sized> {
    _callback: Callback<Notifier>,
    object: KBox<T>,
}

impl<T: ?Sized> Handle<T> {
    /// Makes a handle of the object that `make` makes with the waiters of the client. Returns it for C, or an
    /// error as `ERR_PTR()`.
    ///
    /// # Safety
    ///
    /// `notifier` is valid; what it names may be called until the handle is closed.
    pub(super) unsafe fn make<C>(
        notifier: *const weft_notifier,
        make: impl FnOnce(Arc<WaitQueue>) -> Result<KBox<T>>,
    ) -> *mut C {
        // SAFETY: By the requirements.
        let notifier = unsafe { &*notifier };
        let made = || -> Result<KBox<Self>> {
            let waiters = WaitQueue::shared(
                c"weft client",
                kernel::static_lock_class!(),
                GFP_KERNEL_ACCOUNT,
            )?;
            let notifier = Notifier {
                notify: notifier.notify.ok_or(EINVAL)?,
                context: notifier.context,
            };
            let callback = Callback::new(&waiters, notifier)?;
            let object = make(waiters)?;
            Ok(KBox::new(
                Self {
                    _callback: callback,
                    object,
                },
                GFP_KERNEL_ACCOUNT,
            )?)
        };
        match made() {
            Ok(handle) => KBox::into_raw(handle).cast(),
            Err(e) => e.to_ptr(),
        }
    }

    /// Returns the object of a handle.
    ///
    /// # Safety
    ///
    /// `handle` is of [`Self::make`], and not closed during `'a`.
    pub(super) unsafe fn of<'a, C>(handle: *mut C) -> &'a T {
        // SAFETY: By the requirements.
        unsafe { &(*handle.cast::<Self>()).object }
    }

    /// Closes a handle.
    ///
    /// # Safety
    ///
    /// `handle` is of [`Self::make`]; this is its last use.
    pub(super) unsafe fn close<C>(handle: *mut C) {
        // SAFETY: By the requirements.
        drop(unsafe { KBox::from_raw(handle.cast::<Self>()) });
    }
}

/// A port that clients see.
pub(crate) struct Shown {
    port: NonNull<ext::weft_port>,
    hidden: Atomic<bool>,
    /// What `port` points to.
    _object: KBox<Arc<dyn Port>>,
}

// SAFETY: Lists of C have the port, with a lock of their own.
unsafe impl Send for Shown {}
// SAFETY: As above.
unsafe impl Sync for Shown {}

impl Shown {
    /// Shows `port` to all clients. Calls those that there are; sleeps. `ENOMEM`.
    pub(crate) fn new(port: Arc<dyn Port>) -> Result<Self> {
        let object = KBox::new(port, GFP_KERNEL)?;
        let at: *const Arc<dyn Port> = &*object;
        // SAFETY: The object lives until the port is removed, in `hide`.
        let port = unsafe { ext::weft_port_add(at.cast()) };
        Ok(Self {
            port: NonNull::new(port).ok_or(ENOMEM)?,
            hidden: Atomic::new(false),
            _object: object,
        })
    }

    /// Takes the port from all clients: they have closed what they had of it when this returns. Sleeps. The
    /// second call does nothing.
    pub(crate) fn hide(&self) {
        if !self.hidden.xchg(true, Full) {
            // SAFETY: `new` has added it, and only one caller gets here.
            unsafe { ext::weft_port_remove(self.port.as_ptr()) };
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Returns the object of a port.
///
/// # Safety
///
/// The port is not removed during `'a`.
pub(super) unsafe fn port_of<'a>(port: *mut ext::weft_port) -> &'a Arc<dyn Port> {
    // SAFETY: By the requirements, and as `Shown::new` has made it.
    unsafe { &*ext::weft_port_of(port).cast::<Arc<dyn Port>>() }
}

/// Returns 0, or the error as a negative number.
pub(super) fn number(result: Result) -> c_int {
    from_result(|| result.map(|()| 0))
}

/// Describes a port.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_query_port(port: *mut ext::weft_port, attr: *mut weft_port_attr) {
    // SAFETY: By the requirements.
    unsafe { *attr = port_of(port).attr() };
}

/// Writes the hardware ids of up to `count` hosts that are known, and returns how many there are.
///
/// # Safety
///
/// See the module; `hwids` has room for so many.
#[no_mangle]
unsafe extern "C" fn weft_query_hosts(
    port: *mut ext::weft_port,
    hwids: *mut u64,
    count: usize,
) -> usize {
    let to = match count {
        0 => &mut [],
        // SAFETY: By the requirements.
        _ => unsafe { slice::from_raw_parts_mut(hwids, count) },
    };
    // SAFETY: By the requirements.
    unsafe { port_of(port) }.hosts(to)
}
