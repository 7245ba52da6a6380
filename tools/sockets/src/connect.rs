// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a connection begins at the end that connects: over AF_VSOCK if the address is that of a host that Weft reaches
//! and something answers there; or else as TCP, as if nothing had been tried.

use libc::{c_int, sockaddr, socklen_t};

use crate::{
    address::{Inet, vsock},
    explain::{Why, explain},
    mark::{Mark, Peer},
    peers::{self, Host},
    real,
    settings::settings,
    sys::{self, Fd, NoCancel, fail, now_ms},
    watches::{self, Watch},
};

/// How long the other host may take to answer, for a program that waits anyway.
const BLOCKING_MS: i64 = 2000;
/// As TCP chooses them, unless `net.ipv4.ip_local_port_range` says otherwise.
const PORTS: std::ops::Range<u32> = 32768..61000;
/// How many local ports are tried.
const TRIES: u32 = 32;
/// `tcpi_state` of a socket that is not connected.
const TCP_CLOSE: u8 = 7;

/// Returns whether there is a transport. Opening a socket to find out would load `vsock.ko`.
pub fn is_loaded() -> bool {
    // SAFETY: the path ends with a zero.
    unsafe { libc::access(c"/sys/module/weft_vsock".as_ptr(), libc::F_OK) == 0 }
}

/// Returns whether connections of a port may be moved.
pub fn is_allowed(port: u16) -> Result<(), Why> {
    let ports = settings().ports.as_ref().ok_or(Why::Ports)?;
    if !ports.allow(port) {
        return Err(Why::Port);
    }
    settings().wait_ms.ok_or(Why::Wait)?;
    if is_loaded() { Ok(()) } else { Err(Why::NotLoaded) }
}

/// Returns whether a socket can be another one, as far as the program has prepared it: something else may know it, or it
/// has options that promise more than AF_VSOCK does.
pub fn check_socket(fd: c_int) -> Result<(), Why> {
    watches::check(fd)?;
    match sys::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY) {
        Some(1) => Err(Why::Option("SO_ZEROCOPY")),
        _ => Ok(()),
    }
}

/// Returns whether the program has bound the socket elsewhere than where the connection would go.
fn check_binding(fd: c_int, host: &Host, bound: Option<Inet>) -> Result<(), Why> {
    let Some((interface, source)) = host.way else {
        return Ok(());
    };
    let device: c_int =
        sys::option(fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or_default();
    let at = bound.filter(|at| !at.ip.is_unspecified()).map(|at| at.ip);
    if (device != 0 && device as u32 != interface) || (at.is_some() && at != source) {
        return Err(Why::Bound);
    }
    Ok(())
}

/// Gives the socket a port below 65536, so that the other end can see it as one of TCP: that of the TCP socket if it is
/// bound.
fn bind(fd: &Fd, wanted: u16) {
    let port = |n| {
        let at = vsock(libc::VMADDR_CID_ANY, n);
        let (at, len) = crate::address::raw(&at);
        // SAFETY: there are as many bytes.
        unsafe { libc::bind(fd.get(), at, len) == 0 }
    };
    if wanted != 0 && port(u32::from(wanted)) {
        return;
    }
    // Any spread will do.
    let seed = now_ms() as u32 ^ (sys::pid() as u32).wrapping_mul(0x9e37_79b9) ^ fd.get() as u32;
    let count = PORTS.end - PORTS.start;
    for n in 0..TRIES {
        if port(PORTS.start + seed.wrapping_add(n.wrapping_mul(7919)) % count) {
            return;
        }
    }
    // The kernel chooses one by itself.
}

/// Waits for the answer of the other end.
fn finish(fd: &Fd, limit_ms: i64) -> Result<(), Why> {
    let end = now_ms() + limit_ms;
    loop {
        let left = end - now_ms();
        if left < 0 {
            return Err(Why::Silent);
        }
        // A signal does not end it: what it would, in a moment, is the connection over TCP.
        if sys::wait(fd.get(), libc::POLLOUT, left as c_int + 1) > 0 {
            break;
        }
    }
    match sys::option(fd.get(), libc::SOL_SOCKET, libc::SO_ERROR) {
        Some(0) => Ok(()),
        Some(errno) => Err(why(errno)),
        None => Err(Why::Failed("getsockopt", sys::errno())),
    }
}

/// The errors of `Documentation/vsock.rst`.
fn why(errno: c_int) -> Why {
    match errno {
        libc::ECONNREFUSED => Why::Refused,
        libc::ETIMEDOUT => Why::Silent,
        libc::ENOSPC | libc::ENOBUFS | libc::EDQUOT => Why::NoRoom,
        _ => Why::Failed("connect", errno),
    }
}

/// Sets the options of the TCP socket that mean something at another one.
pub fn copy_options(from: c_int, to: c_int) {
    let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let set = sys::option(from, libc::SOL_SOCKET, name).unwrap_or(zero);
        if (set.tv_sec, set.tv_usec) != (0, 0) {
            sys::set_option(to, libc::SOL_SOCKET, name, &set);
        }
    }
    let linger = sys::option::<libc::linger>(from, libc::SOL_SOCKET, libc::SO_LINGER);
    if let Some(linger) = linger.filter(|linger| linger.l_onoff != 0) {
        sys::set_option(to, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    }
    if let Some(least) =
        sys::option::<c_int>(from, libc::SOL_SOCKET, libc::SO_RCVLOWAT).filter(|least| *least > 1)
    {
        sys::set_option(to, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &least);
    }
}

/// Connects over AF_VSOCK, and puts the connection in the place of the TCP socket.
fn attempt(fd: c_int, family: c_int, to: Inet) -> Result<u32, Why> {
    is_allowed(to.port)?;
    check_socket(fd)?;
    let nonblocking = sys::is_nonblocking(fd);
    let wait_ms = settings().wait_ms.ok_or(Why::Wait)?;
    let host = peers::host_of(to, if nonblocking { wait_ms } else { BLOCKING_MS })?;
    let bound = sys::local_address(fd);
    check_binding(fd, &host, bound)?;
    let moved = sys::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)
        .ok_or_else(|| Why::Failed("socket", sys::errno()))?;
    let mark = Mark { inet6: family == libc::AF_INET6, v6only: false, peer: Peer::Unknown };
    if !mark.with_peer(Some(to)).put(moved.get()) {
        return Err(Why::Failed("setsockopt", sys::errno()));
    }
    bind(&moved, bound.map_or(0, |at| at.port));
    let limit = if nonblocking {
        wait_ms
    } else {
        sys::limit_of(fd, libc::SO_SNDTIMEO).map_or(BLOCKING_MS, |ms| ms.min(BLOCKING_MS))
    };
    if sys::connect(moved.get(), &vsock(host.cid, u32::from(to.port)), None) != 0 {
        match sys::errno() {
            libc::EINPROGRESS => finish(&moved, limit)?,
            errno => return Err(why(errno)),
        }
    }
    copy_options(fd, moved.get());
    sys::set_nonblocking(moved.get(), nonblocking);
    let flags = if sys::is_cloexec(fd) { libc::O_CLOEXEC } else { 0 };
    let _watch = Watch::suspend(fd);
    // SAFETY: there are no pointers.
    if unsafe { real::dup3(moved.get(), fd, flags) } < 0 {
        return Err(Why::Failed("dup3", sys::errno()));
    }
    Ok(host.cid)
}

/// `connect` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: by the contract.
    let Some(to) = (unsafe { Inet::read(addr, len) }) else {
        // SAFETY: by the contract.
        return unsafe { real::connect(fd, addr, len) };
    };
    match try_to_move(fd, to) {
        Some(done) => done,
        // SAFETY: by the contract.
        None => unsafe { real::connect(fd, addr, len) },
    }
}

/// Returns what `connect` returns, `None` if TCP is to connect.
fn try_to_move(fd: c_int, to: Inet) -> Option<c_int> {
    let _whole = NoCancel::new();
    let errno = sys::errno();
    if Mark::of(fd).is_some() {
        return Some(fail(libc::EISCONN));
    }
    let state = sys::option::<[u8; 8]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO);
    if let (Some(family), Some([TCP_CLOSE, ..])) = (sys::tcp_family(fd), state) {
        match attempt(fd, family, to) {
            Ok(cid) => {
                explain!("connect {to}: moved to CID {cid}");
                sys::set_errno(errno);
                return Some(0);
            }
            Err(why) => explain!("connect {to}: stays TCP: {why}"),
        }
    }
    sys::set_errno(errno);
    None
}
