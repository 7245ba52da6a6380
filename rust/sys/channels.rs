// SPDX-License-Identifier: GPL-2.0

//! Channels for other modules of the kernel, `include/linux/weft_client.h`: handles as in [`super::client`], whose
//! requirements the functions here have.
//!
//! This file must not know what a channel does.

use super::{
    client::{number, port_of, Channel, Handle, Listener, Pieces},
    ext::{self, weft_channel_attr, weft_destination, weft_message, weft_notifier},
};
use core::slice;
use kernel::{bindings::kvec, error::from_result, prelude::*};

type Listening = Handle<dyn Listener>;
type End = Handle<dyn Channel>;

/// Listens on a service.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_listen(
    port: *mut ext::weft_port,
    service: u32,
    backlog: u32,
    notifier: *const weft_notifier,
) -> *mut ext::weft_listener {
    // SAFETY: By the requirements.
    unsafe {
        let port = port_of(port);
        Listening::make(notifier, |waiters| port.listen(service, backlog, waiters))
    }
}

/// Closes a listener, and refuses the connections that wait.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_listener_close(listener: *mut ext::weft_listener) {
    // SAFETY: By the requirements.
    unsafe { Listening::close(listener) };
}

/// Accepts the oldest connection that waits.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_accept(
    listener: *mut ext::weft_listener,
    notifier: *const weft_notifier,
) -> *mut ext::weft_channel {
    // SAFETY: By the requirements.
    unsafe {
        let listener = Listening::of(listener);
        End::make(notifier, |waiters| listener.accept(waiters))
    }
}

/// Connects to a service of another host, or of this one.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_connect(
    port: *mut ext::weft_port,
    to: *const weft_destination,
    notifier: *const weft_notifier,
) -> *mut ext::weft_channel {
    // SAFETY: By the requirements.
    unsafe {
        let (port, to) = (port_of(port), &*to);
        End::make(notifier, |waiters| port.connect(to, waiters))
    }
}

/// Closes an end of a channel.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_channel_close(channel: *mut ext::weft_channel) {
    // SAFETY: By the requirements.
    unsafe { End::close(channel) };
}

/// Describes a channel.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_query_channel(
    channel: *mut ext::weft_channel,
    attr: *mut weft_channel_attr,
) {
    // SAFETY: By the requirements.
    unsafe { *attr = End::of(channel).attr() };
}

/// Sends a message.
///
/// # Safety
///
/// See the module; the `count` pieces are valid for reads, and are not written to meanwhile.
#[no_mangle]
unsafe extern "C" fn weft_channel_send(
    channel: *mut ext::weft_channel,
    pieces: *const kvec,
    count: usize,
    tag: u64,
    flags: c_uint,
) -> c_int {
    if flags & !ext::WEFT_SEND_MORE != 0 {
        return EINVAL.to_errno();
    }
    let pieces = match count {
        0 => &[],
        // SAFETY: By the requirements.
        _ => unsafe { slice::from_raw_parts(pieces, count) },
    };
    // SAFETY: By the requirements.
    let channel = unsafe { End::of(channel) };
    // SAFETY: By the requirements.
    let pieces = unsafe { Pieces::new(pieces) };
    number(channel.send(pieces, tag, flags & ext::WEFT_SEND_MORE != 0))
}

/// Sends that no more will be sent.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_channel_finish(channel: *mut ext::weft_channel) -> c_int {
    // SAFETY: By the requirements.
    number(unsafe { End::of(channel) }.finish())
}

/// Returns how many short messages there is room for.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_channel_room(channel: *mut ext::weft_channel) -> c_int {
    // SAFETY: By the requirements.
    let room = unsafe { End::of(channel) }.room();
    from_result(|| Ok(c_int::try_from(room?).unwrap_or(c_int::MAX)))
}

/// Returns the message that is next.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_channel_next(
    channel: *mut ext::weft_channel,
    message: *mut weft_message,
) -> c_int {
    // SAFETY: By the requirements.
    let next = unsafe { End::of(channel) }.next();
    number(next.map(|(tag, bytes)| {
        // SAFETY: By the requirements.
        unsafe { *message = weft_message { tag, bytes } };
    }))
}

/// Copies a part of that message.
///
/// # Safety
///
/// See the module; `to` is valid for writes of `bytes` bytes, and nothing else has them meanwhile.
#[no_mangle]
unsafe extern "C" fn weft_channel_read(
    channel: *mut ext::weft_channel,
    offset: u32,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    let to = match bytes {
        0 => &mut [],
        // SAFETY: By the requirements.
        _ => unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), bytes) },
    };
    // SAFETY: By the requirements.
    number(unsafe { End::of(channel) }.read(offset as usize, to))
}

/// Takes that message out.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_channel_consume(channel: *mut ext::weft_channel) -> c_int {
    // SAFETY: By the requirements.
    number(unsafe { End::of(channel) }.consume())
}
