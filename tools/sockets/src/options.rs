// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Options of sockets. A socket that listens has those of its TCP socket. A connection of AF_VSOCK says that it is one of
//! TCP, and takes the options of TCP and IP that only say how segments are to be sent. It refuses those that a program
//! relies on: encryption (`TCP_ULP`), signatures (`TCP_MD5SIG`), policies of IPsec.

use libc::{c_int, c_void, socklen_t};

use crate::{
    listeners,
    mark::Mark,
    real,
    sys::{self, KeepErrno},
};

/// What a message of the transport carries at the most.
const SEGMENT: c_int = 2048;
const ESTABLISHED: u8 = 1;

const TCP: &[c_int] = &[
    libc::TCP_NODELAY,
    libc::TCP_MAXSEG,
    libc::TCP_CORK,
    libc::TCP_KEEPIDLE,
    libc::TCP_KEEPINTVL,
    libc::TCP_KEEPCNT,
    libc::TCP_SYNCNT,
    libc::TCP_LINGER2,
    libc::TCP_DEFER_ACCEPT,
    libc::TCP_WINDOW_CLAMP,
    libc::TCP_QUICKACK,
    libc::TCP_CONGESTION,
    libc::TCP_USER_TIMEOUT,
    libc::TCP_FASTOPEN,
    libc::TCP_NOTSENT_LOWAT,
    libc::TCP_FASTOPEN_CONNECT,
];
const IP: &[c_int] = &[
    libc::IP_TOS,
    libc::IP_TTL,
    libc::IP_OPTIONS,
    libc::IP_MTU_DISCOVER,
    libc::IP_RECVERR,
    libc::IP_RECVTOS,
    libc::IP_FREEBIND,
    libc::IP_BIND_ADDRESS_NO_PORT,
];
const IPV6: &[c_int] = &[
    libc::IPV6_V6ONLY,
    libc::IPV6_TCLASS,
    libc::IPV6_RECVTCLASS,
    libc::IPV6_UNICAST_HOPS,
    libc::IPV6_MTU_DISCOVER,
    libc::IPV6_RECVERR,
];

/// Returns whether an option does nothing at a connection that is not of TCP.
fn is_harmless(level: c_int, name: c_int) -> bool {
    match level {
        libc::IPPROTO_TCP => TCP.contains(&name),
        libc::IPPROTO_IP => IP.contains(&name),
        libc::IPPROTO_IPV6 => IPV6.contains(&name),
        libc::SOL_SOCKET => matches!(name, libc::SO_REUSEPORT | libc::SO_OOBINLINE),
        _ => false,
    }
}

/// Returns what a connection answers for an option of TCP or IP, and how many bytes of that there are.
fn answer(level: c_int, name: c_int) -> Option<([u8; 128], usize)> {
    let mut value = [0; 128];
    let number = |n: c_int, mut value: [u8; 128]| {
        if let Some(room) = value.get_mut(..4) {
            room.copy_from_slice(&n.to_ne_bytes());
        }
        (value, 4)
    };
    Some(match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_INFO) => {
            value[0] = ESTABLISHED;
            // The sizes of segments, both ways.
            for at in [16, 20] {
                if let Some(room) = value.get_mut(at..at + 4) {
                    room.copy_from_slice(&SEGMENT.to_ne_bytes());
                }
            }
            (value, value.len())
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            if let Some(room) = value.get_mut(..5) {
                room.copy_from_slice(b"vsock");
            }
            (value, 16)
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => number(SEGMENT, value),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_QUICKACK) => number(1, value),
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            number(64, value)
        }
        // There are none; not one of four zeros.
        (libc::IPPROTO_IP, libc::IP_OPTIONS) => (value, 0),
        (libc::SOL_SOCKET, _) => return None,
        _ if is_harmless(level, name) => number(0, value),
        _ => return None,
    })
}

fn is_refused(errno: c_int) -> bool {
    matches!(errno, libc::ENOPROTOOPT | libc::EOPNOTSUPP)
}

/// `setsockopt` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let before = sys::errno();
    // SAFETY: by the contract.
    let done = unsafe { real::setsockopt(fd, level, name, value, len) };
    if done == 0 {
        return done;
    }
    let errno = sys::errno();
    if errno == libc::ENOTSOCK {
        if let Some(listener) = listeners::find(fd) {
            listeners::changed(fd);
            // SAFETY: by the contract.
            return unsafe { real::setsockopt(listener.tcp, level, name, value, len) };
        }
    } else if is_refused(errno) && is_harmless(level, name) && Mark::of(fd).is_some() {
        sys::set_errno(before);
        return 0;
    }
    sys::set_errno(errno);
    done
}

/// `getsockopt` of a program.
///
/// # Safety
///
/// As libc's.
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let before = sys::errno();
    // SAFETY: by the contract.
    let room = if len.is_null() { 0 } else { unsafe { len.read() } };
    // SAFETY: by the contract.
    let done = unsafe { real::getsockopt(fd, level, name, value, len) };
    if done == 0 {
        if level == libc::SOL_SOCKET
            && matches!(name, libc::SO_DOMAIN | libc::SO_PROTOCOL)
            && room >= 4
        {
            let _keep = KeepErrno::new();
            // SAFETY: the call has written as much.
            unsafe { say_tcp(fd, name, value.cast()) };
        }
        return done;
    }
    let errno = sys::errno();
    if errno == libc::ENOTSOCK {
        if let Some(listener) = listeners::find(fd) {
            // SAFETY: by the contract.
            return unsafe { real::getsockopt(listener.tcp, level, name, value, len) };
        }
    } else if is_refused(errno) && !value.is_null() && Mark::of(fd).is_some() {
        if let Some((bytes, count)) = answer(level, name) {
            let count = count.min(room as usize);
            // SAFETY: there is room for `room` bytes, and `len` is a length, by the contract.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), count);
                len.write(count as socklen_t);
            }
            sys::set_errno(before);
            return 0;
        }
    }
    sys::set_errno(errno);
    done
}

/// Changes what the kernel has said of the family and the protocol.
///
/// # Safety
///
/// `value` points to a number.
unsafe fn say_tcp(fd: c_int, name: c_int, value: *mut c_int) {
    // SAFETY: by the contract.
    let said = unsafe { value.read_unaligned() };
    let may_be = if name == libc::SO_DOMAIN { said == libc::AF_VSOCK } else { said == 0 };
    if let Some(mark) = may_be.then(|| Mark::of(fd)).flatten() {
        let family = if mark.inet6 { libc::AF_INET6 } else { libc::AF_INET };
        let told = if name == libc::SO_DOMAIN { family } else { libc::IPPROTO_TCP };
        // SAFETY: by the contract.
        unsafe { value.write_unaligned(told) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_protects_is_not_taken_for_harmless() {
        // TCP_ULP, TCP_MD5SIG, TCP_REPAIR, TCP_AO_ADD_KEY, IP_IPSEC_POLICY, IP_XFRM_POLICY, IP_MINTTL.
        for (level, name) in
            [(6, 31), (6, 14), (6, 19), (6, 38), (0, 16), (0, 17), (0, 21), (41, 34), (41, 35)]
        {
            assert!(!is_harmless(level, name), "{level} {name}");
            assert!(answer(level, name).is_none(), "{level} {name}");
        }
        assert!(is_harmless(libc::IPPROTO_TCP, libc::TCP_NODELAY));
    }

    #[test]
    fn answers_are_as_long_as_those_of_tcp() {
        assert_eq!(answer(libc::IPPROTO_IP, libc::IP_OPTIONS).unwrap().1, 0);
        let (info, _) = answer(libc::IPPROTO_TCP, libc::TCP_INFO).unwrap();
        assert_eq!(info[0], ESTABLISHED);
        let (name, _) = answer(libc::IPPROTO_TCP, libc::TCP_CONGESTION).unwrap();
        assert!(name.starts_with(b"vsock\0"));
        assert_eq!(answer(libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap().1, 4);
    }
}
