// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a connection begins at the end that listens: a socket of AF_VSOCK listens beside the TCP socket, on the port of
//! the same number, and connections are taken from either.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::{c_int, sockaddr, socklen_t};

use crate::{
    address::{Inet, raw, vsock},
    connect::{check_socket, copy_options, is_allowed},
    explain::{Why, explain},
    listeners::{self, Listener},
    mark::{Mark, Peer},
    peers, real,
    sys::{self, Fd, NoCancel, fail},
    watches::Watch,
};

/// Makes a descriptor that listens one over two sockets.
fn extend(fd: c_int, family: c_int, at: Inet, backlog: c_int) -> Result<(), Why> {
    is_allowed(at.port)?;
    check_socket(fd)?;
    peers::is_reachable_at(at.ip)?;
    let failed = |call| move || Why::Failed(call, sys::errno());
    let cloexec = sys::is_cloexec(fd);
    let moved = sys::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)
        .ok_or_else(failed("socket"))?;
    let v6only =
        sys::option::<c_int>(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).unwrap_or_default() != 0;
    let inet6 = family == libc::AF_INET6;
    if !(Mark { inet6, v6only: inet6 && v6only, peer: Peer::Unknown }).put(moved.get()) {
        return Err(failed("setsockopt")());
    }
    let address = vsock(libc::VMADDR_CID_ANY, u32::from(at.port));
    let (address, len) = raw(&address);
    // SAFETY: there are as many bytes.
    if unsafe { libc::bind(moved.get(), address, len) } != 0 {
        return Err(if sys::errno() == libc::EADDRINUSE { Why::Taken } else { failed("bind")() });
    }
    // SAFETY: there are no pointers.
    if unsafe { real::listen(moved.get(), backlog) } != 0 {
        return Err(failed("listen")());
    }
    let moved = moved.out_of_the_way(cloexec);
    let tcp = sys::dup_high(fd, cloexec).ok_or_else(failed("dup"))?;
    let flags = if cloexec { libc::EPOLL_CLOEXEC } else { 0 };
    // SAFETY: there are no pointers.
    let epoll = unsafe { libc::epoll_create1(flags) };
    let epoll = Fd::new(epoll).ok_or_else(failed("epoll_create1"))?;
    if !(Listener { fd: epoll.get(), tcp: tcp.get(), vsock: moved.get() }).watch() {
        return Err(failed("epoll_ctl")());
    }
    sys::set_nonblocking(epoll.get(), sys::is_nonblocking(fd));
    let listener = Listener { fd, tcp: tcp.get(), vsock: moved.get() };
    if !listeners::add(listener) {
        return Err(Why::Full);
    }
    let _watch = Watch::suspend(fd);
    // SAFETY: there are no pointers.
    if unsafe { real::dup3(epoll.get(), fd, if cloexec { libc::O_CLOEXEC } else { 0 }) } < 0 {
        let why = failed("dup3")();
        listeners::remove(fd);
        return Err(why);
    }
    // Several may take connections, and each takes what is there of both.
    sys::set_nonblocking(tcp.get(), true);
    tcp.leak();
    moved.leak();
    Ok(())
}

/// `listen` of a program.
pub fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: there are no pointers.
    let done = unsafe { real::listen(fd, backlog) };
    if done != 0 {
        return match (sys::errno() == libc::ENOTSOCK).then(|| listeners::find(fd)).flatten() {
            // SAFETY: as above.
            Some(listener) => unsafe {
                real::listen(listener.vsock, backlog) | real::listen(listener.tcp, backlog)
            },
            None => done,
        };
    }
    let _whole = NoCancel::new();
    if let (Some(family), Some(at)) = (sys::tcp_family(fd), sys::local_address(fd)) {
        let errno = sys::errno();
        match extend(fd, family, at, backlog) {
            Ok(()) => explain!("listen {at}: on AF_VSOCK, too"),
            Err(why) => explain!("listen {at}: stays TCP: {why}"),
        }
        sys::set_errno(errno);
    }
    done
}

/// Where a program wants to have the address of its peer.
#[derive(Clone, Copy)]
struct Wanted {
    addr: *mut sockaddr,
    len: *mut socklen_t,
}

/// Takes a connection of AF_VSOCK, if there is one.
///
/// # Safety
///
/// As of `accept`.
unsafe fn take(listener: &Listener, wanted: Wanted, flags: c_int) -> c_int {
    let _whole = NoCancel::new();
    let mut from = vsock(0, 0);
    let mut len = size_of::<libc::sockaddr_vm>() as socklen_t;
    // SAFETY: there is as much room.
    let taken =
        unsafe { real::accept4(listener.vsock, (&raw mut from).cast(), &raw mut len, flags) };
    if taken < 0 {
        return taken;
    }
    let mark = Mark::of(taken).unwrap_or(Mark { inet6: false, v6only: false, peer: Peer::Unknown });
    let peer = peers::address_of(from.svm_cid, mark.inet6, mark.v6only);
    mark.with_peer(peer).put(taken);
    copy_options(listener.tcp, taken);
    let unknown = Inet::of(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    let peer = peer.unwrap_or(unknown).with_port(from.svm_port as u16);
    if !wanted.len.is_null() {
        // SAFETY: by the contract.
        unsafe { peer.hand(mark.inet6, wanted.addr, wanted.len.read(), wanted.len) };
    }
    explain!("accept {peer}: over AF_VSOCK, from CID {}", from.svm_cid);
    taken
}

/// Returns whether a call that a signal has ended goes on, as it does in the kernel: if all functions that handle signals
/// are said to want that.
fn goes_on() -> bool {
    (1..=64).all(|signal| {
        // SAFETY: all zeros is an action.
        let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: it is written there, or the signal is not for programs.
        let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut found) } == 0;
        let default = matches!(found.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        !known || default || found.sa_flags & libc::SA_RESTART != 0
    })
}

/// Which of the two sockets is looked at first: in turns, so that neither waits for ever.
static TURN: AtomicU32 = AtomicU32::new(0);

/// `accept4` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: by the contract.
    let taken = unsafe { real::accept4(fd, addr, len, flags) };
    if taken >= 0 || sys::errno() != libc::ENOTSOCK {
        return taken;
    }
    let Some(listener) = listeners::find(fd) else {
        return fail(libc::ENOTSOCK);
    };
    let wanted = Wanted { addr, len };
    loop {
        let turn = TURN.fetch_add(1, Relaxed);
        for n in 0..2 {
            let is_vsock = (turn + n) % 2 != 0;
            let taken = if is_vsock {
                // SAFETY: by the contract.
                unsafe { take(&listener, wanted, flags) }
            } else {
                // SAFETY: by the contract.
                unsafe { real::accept4(listener.tcp, addr, len, flags) }
            };
            // A socket of AF_VSOCK that listens no more is no reason for TCP to end.
            if taken >= 0
                || (sys::errno() != libc::EAGAIN && !(is_vsock && sys::errno() == libc::EINVAL))
            {
                return taken;
            }
        }
        if sys::is_nonblocking(fd) {
            return fail(libc::EAGAIN);
        }
        let limit = sys::limit_of(listener.tcp, libc::SO_RCVTIMEO);
        let limit = limit.map_or(-1, |ms| c_int::try_from(ms).unwrap_or(c_int::MAX));
        match sys::wait(fd, libc::POLLIN, limit) {
            0 => return fail(libc::EAGAIN),
            ready if ready < 0 && sys::errno() == libc::EINTR && (limit != -1 || !goes_on()) => {
                return fail(libc::EINTR);
            }
            ready if ready < 0 && sys::errno() != libc::EINTR => return -1,
            _ => (),
        }
    }
}
