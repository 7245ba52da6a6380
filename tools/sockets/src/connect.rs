// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a connection begins at the end that connects: over AF_VSOCK if the address is that of a host that Weft reaches
//! and something answers there; or else as TCP, as if nothing had been tried.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use libc::{c_int, sockaddr, socklen_t};

use crate::{
    address::{Inet, vsock},
    carried::Options,
    explain::{Why, explain},
    mark::{Mark, Peer},
    peers::{Asking, Host},
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

/// Returns how long the answer of the other host is waited for, for a program that does not wait itself, if connections
/// of a port may be moved.
fn wait_of(port: u16) -> Result<i64, Why> {
    let ports = settings().ports.as_ref().ok_or(Why::Ports)?;
    if !ports.allow(port) {
        return Err(Why::Port);
    }
    settings().wait_ms.ok_or(Why::Wait)
}

/// Returns whether connections of a port may be moved.
pub fn is_allowed(port: u16) -> Result<(), Why> {
    wait_of(port)?;
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

/// Counts ports that were looked for.
static BOUND: AtomicU32 = AtomicU32::new(0);

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
    let seed = BOUND.fetch_add(1, Relaxed).wrapping_mul(0x85eb_ca6b)
        ^ (now_ms() as u32).wrapping_mul(31)
        ^ sys::own_pid().wrapping_mul(0x9e37_79b9)
        ^ fd.get() as u32;
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
        // A signal does not end it: what it would, in a moment, is the connection over TCP. POLLOUT alone does not say
        // that it is connected: the kernel looks for an error first, and at the state of the socket a moment later.
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

/// Connects over AF_VSOCK, and puts the connection in the place of the TCP socket.
fn attempt(fd: c_int, family: c_int, bound: Option<Inet>, to: Inet) -> Result<u32, Why> {
    let wait_ms = wait_of(to.port)?;
    let asking = Asking::for_socket(fd);
    let known = asking.known_host(to);
    if known.is_none() && !is_loaded() {
        return Err(Why::NotLoaded);
    }
    check_socket(fd)?;
    let nonblocking = sys::is_nonblocking(fd);
    let host = match known {
        Some(host) => host,
        None => asking.host_of(to, if nonblocking { wait_ms } else { BLOCKING_MS })?,
    };
    check_binding(fd, &host, bound)?;
    let moved = sys::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)
        .ok_or_else(|| Why::Failed("socket", sys::errno()))?;
    let mark = Mark { inet6: family == libc::AF_INET6, v6only: false, peer: Peer::Unknown };
    if !mark.with_peer(Some(to)).put(moved.get()) {
        return Err(Why::Failed("setsockopt", sys::errno()));
    }
    bind(&moved, bound.map_or(0, |at| at.port));
    let options = Options::of(fd);
    let limit = match sys::ms_of(options.send_limit) {
        _ if nonblocking => wait_ms,
        Some(ms) => ms.min(BLOCKING_MS),
        None => BLOCKING_MS,
    };
    if sys::connect(moved.get(), &vsock(host.cid, u32::from(to.port)), None) != 0 {
        match sys::errno() {
            libc::EINPROGRESS => finish(&moved, limit)?,
            errno => return Err(why(errno)),
        }
    }
    options.put(moved.get());
    if !nonblocking {
        // It has no other flags.
        sys::control(moved.get(), libc::F_SETFL, 0);
    }
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

/// Returns whether a TCP socket is neither connected nor listens. It would have a port then.
fn is_closed(fd: c_int, bound: Option<Inet>) -> bool {
    let state = || sys::option::<[u8; 8]>(fd, libc::IPPROTO_TCP, libc::TCP_INFO);
    bound.is_some_and(|at| at.port == 0) || matches!(state(), Some([TCP_CLOSE, ..]))
}

/// Returns what `connect` returns, `None` if TCP is to connect.
fn try_to_move(fd: c_int, to: Inet) -> Option<c_int> {
    let _whole = NoCancel::new();
    let errno = sys::errno();
    let (family, bound) = sys::name(fd).unwrap_or((libc::AF_UNSPEC, None));
    if family == libc::AF_VSOCK && Mark::of(fd).is_some() {
        return Some(fail(libc::EISCONN));
    }
    if bound.is_some() && sys::is_tcp(fd) && is_closed(fd, bound) {
        match attempt(fd, family, bound, to) {
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
