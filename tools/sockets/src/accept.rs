// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a connection begins at the end that listens: a socket of AF_VSOCK listens beside the TCP socket, on the port of
//! the same number, and connections are taken from either.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::{c_int, sockaddr, socklen_t};

use crate::{
    address::{Inet, raw, vsock},
    connect::{check_socket, is_allowed},
    explain::{Why, explain},
    listeners::{self, Listener, Which},
    mark::{Mark, Peer},
    peers::{self, Asking},
    real,
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
    if let Some((family, Some(at))) = sys::name(fd).filter(|_| sys::is_tcp(fd)) {
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
    let plain = Mark { inet6: false, v6only: false, peer: Peer::Unknown };
    let mark = listener.mark_of(taken).unwrap_or(plain);
    let asking = Asking::in_namespace(listener.namespace());
    let peer = asking.address_of(from.svm_cid, mark.inet6, mark.v6only);
    mark.with_peer(peer).put(taken);
    if let Some(options) = listener.options() {
        options.put(taken);
    }
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

/// Which of the two sockets is looked at first if something has come for both: in turns, so that neither waits for ever.
static TURN: AtomicU32 = AtomicU32::new(0);

/// How long the program lets a call wait, -1 for ever.
fn limit_of(listener: &Listener) -> c_int {
    let limit = listener.options().and_then(|options| sys::ms_of(options.receive_limit));
    limit.map_or(-1, |ms| c_int::try_from(ms).unwrap_or(c_int::MAX))
}

/// Takes a connection of one of the sockets for which something has come. `None`: another call was faster.
///
/// # Safety
///
/// As of `accept`.
unsafe fn take_one(
    listener: &Listener,
    come: &[Which],
    wanted: Wanted,
    flags: c_int,
) -> Option<c_int> {
    let turn = if come.len() > 1 { TURN.fetch_add(1, Relaxed) as usize } else { 0 };
    for which in come.iter().cycle().skip(turn % 2).take(come.len()) {
        let taken = match which {
            // SAFETY: by the contract.
            Which::Vsock => unsafe { take(listener, wanted, flags) },
            // SAFETY: by the contract.
            Which::Tcp => unsafe { real::accept4(listener.tcp, wanted.addr, wanted.len, flags) },
        };
        let gone = sys::errno() == libc::EAGAIN;
        // A socket of AF_VSOCK that listens no more is no reason for TCP to end.
        let ended = *which == Which::Vsock && sys::errno() == libc::EINVAL;
        if taken >= 0 || !(gone || ended) {
            return Some(taken);
        }
    }
    None
}

/// `accept4` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    let wanted = Wanted { addr, len };
    if let Some(listener) = listeners::expected(fd) {
        // SAFETY: by the contract.
        if let Some(done) = unsafe { accept_of(fd, &listener, wanted, flags) } {
            return done;
        }
    }
    // SAFETY: by the contract.
    let taken = unsafe { real::accept4(fd, addr, len, flags) };
    if taken >= 0 || sys::errno() != libc::ENOTSOCK {
        return taken;
    }
    let found = listeners::find(fd);
    // SAFETY: by the contract.
    let done = found.and_then(|listener| unsafe { accept_of(fd, &listener, wanted, flags) });
    done.unwrap_or_else(|| fail(libc::ENOTSOCK))
}

/// `accept4` of a descriptor that listens. `None`: it is none.
///
/// # Safety
///
/// As libc's.
unsafe fn accept_of(fd: c_int, listener: &Listener, wanted: Wanted, flags: c_int) -> Option<c_int> {
    let nonblocking = sys::is_nonblocking(fd);
    let limit = if nonblocking { 0 } else { limit_of(listener) };
    loop {
        let (count, data) = sys::wait_epoll(fd, limit);
        let which = data.map(Which::of);
        let come = match (count, which) {
            (0, _) => return Some(fail(libc::EAGAIN)),
            (1, [Some(one), _]) => [one; 2],
            (2, [Some(one), Some(other)]) => [one, other],
            (1.., _) => return None,
            _ => match sys::errno() {
                libc::EINTR if limit == -1 && goes_on() => continue,
                libc::EINTR if nonblocking => continue,
                libc::EINTR => return Some(fail(libc::EINTR)),
                // The number is another descriptor's by now.
                _ => return None,
            },
        };
        let come = come.get(..count as usize).unwrap_or_default();
        // SAFETY: by the contract.
        if let Some(taken) = unsafe { take_one(listener, come, wanted, flags) } {
            return Some(taken);
        }
        // One of AF_VSOCK that listens no more has an event all the time.
        if nonblocking {
            return Some(fail(libc::EAGAIN));
        }
    }
}
