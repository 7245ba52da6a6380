// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The addresses of sockets, as programs ask for them: those of AF_VSOCK that stand for TCP sockets have the INET
//! addresses that these would have.

use libc::{c_int, sockaddr, socklen_t};

use crate::{
    address::Inet,
    listeners,
    mark::{Mark, Peer},
    peers, real,
    sys::{self, NoCancel, fail},
};

/// Asks for the CID and the port of a socket of AF_VSOCK.
type Ask = unsafe fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;

fn vsock_address(fd: c_int, ask: Ask) -> Option<libc::sockaddr_vm> {
    let mut at = crate::address::vsock(0, 0);
    let mut len = size_of::<libc::sockaddr_vm>() as socklen_t;
    // SAFETY: there is as much room.
    let done = unsafe { ask(fd, (&raw mut at).cast(), &raw mut len) };
    (done == 0 && i32::from(at.svm_family) == libc::AF_VSOCK).then_some(at)
}

/// Returns the address of the peer, with its port; the unspecified one if it is not known.
fn peer_of(fd: c_int, mark: Mark) -> Option<Inet> {
    let at = vsock_address(fd, real::getpeername)?;
    let found = match mark.peer {
        Peer::V4(ip) => Some(Inet::of(ip.into(), 0)),
        Peer::V6(low) => peers::address_ending_in(at.svm_cid, low),
        Peer::Unknown => None,
    };
    let unknown = Inet::of(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    Some(found.unwrap_or(unknown).with_port(at.svm_port as u16))
}

/// Returns the address of this end, with its port; also when the peer is gone.
fn own_of(fd: c_int, mark: Mark) -> Option<Inet> {
    let at = vsock_address(fd, real::getsockname)?;
    let unknown = Inet::of(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    let peer = match mark.peer {
        Peer::V4(ip) => Some(Inet::of(ip.into(), 0)),
        _ => peer_of(fd, mark).filter(|peer| !peer.ip.is_unspecified()),
    };
    let own = peer.and_then(peers::own_address_for).unwrap_or(unknown);
    Some(own.with_port(at.svm_port as u16))
}

/// # Safety
///
/// As libc's.
unsafe fn name(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    ask: Ask,
    translate: fn(c_int, Mark) -> Option<Inet>,
) -> c_int {
    let errno = sys::errno();
    // SAFETY: by the contract.
    let room = if len.is_null() { 0 } else { unsafe { len.read() } };
    // SAFETY: by the contract.
    let done = unsafe { ask(fd, addr, len) };
    if done != 0 {
        return match (sys::errno() == libc::ENOTSOCK).then(|| listeners::find(fd)).flatten() {
            // SAFETY: by the contract.
            Some(listener) => unsafe { ask(listener.tcp, addr, len) },
            None => done,
        };
    }
    if (room as usize) < size_of::<libc::sa_family_t>() {
        return done;
    }
    // SAFETY: the call has written as much, by the check above.
    let family = i32::from(unsafe { addr.cast::<libc::sa_family_t>().read_unaligned() });
    if family == libc::AF_VSOCK {
        let _whole = NoCancel::new();
        if let Some(mark) = Mark::of(fd) {
            let Some(inet) = translate(fd, mark) else {
                return fail(libc::ENOTCONN);
            };
            // SAFETY: by the contract.
            unsafe { inet.hand(mark.inet6, addr, room, len) };
        }
        sys::set_errno(errno);
    }
    done
}

/// `getpeername` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: by the contract.
    unsafe { name(fd, addr, len, real::getpeername, peer_of) }
}

/// `getsockname` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: by the contract.
    unsafe { name(fd, addr, len, real::getsockname, own_of) }
}
