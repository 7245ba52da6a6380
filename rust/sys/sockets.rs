// SPDX-License-Identifier: GPL-2.0

//! Sockets for other modules of the kernel, `include/linux/weft_client.h`: handles as in [`super::client`], whose
//! requirements the functions here have.
//!
//! This file must not know what a socket does.

use super::{
    client::{number, port_of, Handle, Socket, SocketListener},
    ext::{
        self, weft_notifier, weft_sock_info, weft_socket_destination, weft_socket_request,
        WEFT_SOCKET_PEEK,
    },
};
use kernel::{
    bindings::iov_iter,
    iov::{IovIterDest, IovIterSource},
    prelude::*,
};

type Listening = Handle<dyn SocketListener>;
type End = Handle<dyn Socket>;

/// Returns a count, which is at most what was asked for, or the error as a negative number.
fn counted(result: Result<usize>) -> isize {
    match result {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(e) => e.to_errno() as isize,
    }
}

/// Listens for sockets on a service.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_listen(
    port: *mut ext::weft_port,
    service: u32,
    backlog: u32,
    notifier: *const weft_notifier,
) -> *mut ext::weft_socket_listener {
    // SAFETY: By the requirements.
    unsafe {
        let port = port_of(port);
        Listening::make(notifier, |waiters| {
            port.listen_sockets(service, backlog, waiters)
        })
    }
}

/// Closes a listener, and refuses the requests that wait.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_listener_close(listener: *mut ext::weft_socket_listener) {
    // SAFETY: By the requirements.
    unsafe { Listening::close(listener) };
}

/// Describes the oldest request that waits.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_oldest(
    listener: *mut ext::weft_socket_listener,
    request: *mut weft_socket_request,
) -> c_int {
    // SAFETY: By the requirements.
    let oldest = unsafe { Listening::of(listener) }.oldest();
    number(oldest.map(|found| {
        // SAFETY: By the requirements.
        unsafe { *request = found };
    }))
}

/// Accepts a request.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_accept(
    listener: *mut ext::weft_socket_listener,
    request: *const weft_socket_request,
    notifier: *const weft_notifier,
) -> *mut ext::weft_socket {
    // SAFETY: By the requirements.
    unsafe {
        let (listener, request) = (Listening::of(listener), &*request);
        End::make(notifier, |waiters| listener.accept(request, waiters))
    }
}

/// Refuses a request.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_refuse(
    listener: *mut ext::weft_socket_listener,
    request: *const weft_socket_request,
) {
    // SAFETY: By the requirements.
    unsafe { Listening::of(listener).refuse(&*request) };
}

/// Requests a connection.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_connect(
    port: *mut ext::weft_port,
    to: *const weft_socket_destination,
    notifier: *const weft_notifier,
) -> *mut ext::weft_socket {
    // SAFETY: By the requirements.
    unsafe {
        let (port, to) = (port_of(port), &*to);
        End::make(notifier, |waiters| port.connect_socket(to, waiters))
    }
}

/// Closes a socket.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_close(socket: *mut ext::weft_socket) {
    // SAFETY: By the requirements.
    unsafe { End::close(socket) };
}

/// Describes a socket.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_query_socket(socket: *mut ext::weft_socket, info: *mut weft_sock_info) {
    // SAFETY: By the requirements.
    unsafe { *info = End::of(socket).info() };
}

/// Sends bytes.
///
/// # Safety
///
/// See the module; `from` is a source, and nothing else uses it meanwhile.
#[no_mangle]
unsafe extern "C" fn weft_socket_send(
    socket: *mut ext::weft_socket,
    from: *mut iov_iter,
    bytes: usize,
) -> isize {
    // SAFETY: By the requirements.
    let (socket, from) = unsafe { (End::of(socket), IovIterSource::from_raw(from)) };
    counted(socket.send(bytes.min(from.len()), from))
}

/// Receives bytes.
///
/// # Safety
///
/// See the module; `to` is a destination, and nothing else uses it meanwhile.
#[no_mangle]
unsafe extern "C" fn weft_socket_receive(
    socket: *mut ext::weft_socket,
    to: *mut iov_iter,
    bytes: usize,
    flags: c_uint,
) -> isize {
    if flags & !WEFT_SOCKET_PEEK != 0 {
        return EINVAL.to_errno() as isize;
    }
    // SAFETY: By the requirements.
    let (socket, to) = unsafe { (End::of(socket), IovIterDest::from_raw(to)) };
    let peeks = flags & WEFT_SOCKET_PEEK != 0;
    counted(socket.receive(bytes.min(to.len()), peeks, to))
}

/// Returns how many bytes can be received.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_readable(
    socket: *mut ext::weft_socket,
    want: usize,
    arms: bool,
) -> isize {
    // SAFETY: By the requirements.
    counted(unsafe { End::of(socket) }.readable(want.max(1), arms))
}

/// Returns how many bytes can be sent.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_writable(socket: *mut ext::weft_socket, arms: bool) -> isize {
    // SAFETY: By the requirements.
    counted(unsafe { End::of(socket) }.writable(arms))
}

/// Sends that no more will be sent.
///
/// # Safety
///
/// See the module.
#[no_mangle]
unsafe extern "C" fn weft_socket_finish(socket: *mut ext::weft_socket) -> c_int {
    // SAFETY: By the requirements.
    number(unsafe { End::of(socket) }.finish())
}
