// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What programs do with descriptors that are no sockets any more, but listen: copies, flags, epoll sets, their end. And
//! the two ways to send that AF_VSOCK knows less of than TCP. All else is the kernel's.

use libc::{c_int, c_uint, c_ulong, epoll_event, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use crate::{listeners, mark::Mark, real, sys, watches};

/// `close` of a program.
pub fn close(fd: c_int) -> c_int {
    gone(fd);
    // SAFETY: it is the program's own.
    unsafe { real::close(fd) }
}

fn gone(fd: c_int) {
    watches::forget(fd);
    if listeners::any() {
        listeners::remove(fd);
    }
}

/// `close_range` of a program.
pub fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int {
    // The other flags are those that close nothing now, or not for this process alone.
    if flags == 0 && listeners::any() {
        listeners::forget_range(first, last);
    }
    // SAFETY: they are the program's own.
    unsafe { real::close_range(first, last, flags as c_int) }
}

/// A descriptor that a call has made of another one.
fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 && from != to {
        let _keep = sys::KeepErrno::new();
        if listeners::any() {
            listeners::copied(from, to);
        }
        if is_idle(from) {
            watches::copied(from, to);
        }
    }
    to
}

/// `dup` of a program.
pub fn dup(fd: c_int) -> c_int {
    // SAFETY: there are no pointers.
    copied(fd, unsafe { real::dup(fd) })
}

/// `dup2` of a program.
pub fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd != to && sys::control(fd, libc::F_GETFD, 0) >= 0 {
        gone(to);
    }
    // SAFETY: there are no pointers.
    copied(fd, unsafe { real::dup2(fd, to) })
}

/// `dup3` of a program.
pub fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd != to && sys::control(fd, libc::F_GETFD, 0) >= 0 {
        gone(to);
    }
    // SAFETY: there are no pointers.
    copied(fd, unsafe { real::dup3(fd, to, flags) })
}

/// `fcntl` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int {
    // SAFETY: by the contract.
    let done = unsafe { real::fcntl(fd, cmd, arg) };
    match cmd {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(fd, done),
        libc::F_SETFD if done >= 0 && listeners::any() => {
            listeners::cloexec_changed(fd);
            done
        }
        _ => done,
    }
}

/// `ioctl` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    // SAFETY: by the contract.
    let done = unsafe { real::ioctl(fd, request, arg) };
    if matches!(request, libc::FIOCLEX | libc::FIONCLEX) && done >= 0 && listeners::any() {
        listeners::cloexec_changed(fd);
    }
    done
}

/// `shutdown` of a program.
pub fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: there are no pointers.
    let done = unsafe { real::shutdown(fd, how) };
    if done != 0 && sys::errno() == libc::ENOTSOCK {
        if let Some(listener) = listeners::find(fd) {
            // SAFETY: as above.
            return unsafe {
                real::shutdown(listener.vsock, how);
                real::shutdown(listener.tcp, how)
            };
        }
    }
    done
}

/// Returns whether a descriptor is a TCP socket that is neither connected nor listens.
fn is_idle(fd: c_int) -> bool {
    matches!(sys::option::<[u8; 8]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO), Some([7, ..]))
}

/// `epoll_ctl` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: by the contract, where it is not null.
    let mut copy = (!event.is_null()).then(|| unsafe { event.read_unaligned() });
    if let Some(wanted) = copy.as_mut().filter(|_| op == libc::EPOLL_CTL_ADD && listeners::any()) {
        // Of an epoll descriptor the kernel refuses it. More programs may wake than there are connections.
        if wanted.events & libc::EPOLLEXCLUSIVE as u32 != 0 && listeners::find(fd).is_some() {
            wanted.events &= !(libc::EPOLLEXCLUSIVE as u32);
        }
    }
    let event = copy.as_mut().map_or(std::ptr::null_mut(), |event| &raw mut *event);
    // SAFETY: null, or there.
    let done = unsafe { real::epoll_ctl(epfd, op, fd, event) };
    if done == 0 {
        let _keep = sys::KeepErrno::new();
        match (op, copy) {
            (libc::EPOLL_CTL_ADD, Some(event)) if is_idle(fd) => watches::added(epfd, fd, event),
            (libc::EPOLL_CTL_MOD, Some(event)) => watches::changed(epfd, fd, event),
            (libc::EPOLL_CTL_DEL, _) => watches::removed(epfd, fd),
            _ => (),
        }
    }
    done
}

/// Returns whether a call has failed because an address was given for a connection, which TCP does not look at.
fn has_address_too_many(done: ssize_t, fd: c_int) -> bool {
    done < 0 && sys::errno() == libc::EISCONN && {
        let _keep = sys::KeepErrno::new();
        Mark::of(fd).is_some()
    }
}

/// `sendto` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn sendto(
    fd: c_int,
    data: *const libc::c_void,
    bytes: size_t,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    // SAFETY: by the contract.
    let done = unsafe { real::sendto(fd, data, bytes, flags, to, len) };
    if to.is_null() || !has_address_too_many(done, fd) {
        return done;
    }
    // SAFETY: by the contract.
    unsafe { real::sendto(fd, data, bytes, flags, std::ptr::null(), 0) }
}

/// `sendmsg` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the contract.
    let done = unsafe { real::sendmsg(fd, message, flags) };
    if !has_address_too_many(done, fd) {
        return done;
    }
    // SAFETY: by the contract: the kernel has read it.
    let mut message = unsafe { message.read() };
    message.msg_name = std::ptr::null_mut();
    message.msg_namelen = 0;
    // SAFETY: by the contract.
    unsafe { real::sendmsg(fd, &raw const message, flags) }
}
