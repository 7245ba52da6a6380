// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Options that a program has set at a TCP socket and that come along when another one takes its place. It must not know
//! why that happens.

use libc::c_int;

use crate::sys;

/// The options of a TCP socket that mean something at another one.
pub struct Options {
    /// `SO_RCVTIMEO`.
    pub receive_limit: libc::timeval,
    /// `SO_SNDTIMEO`.
    pub send_limit: libc::timeval,
    linger: Option<libc::linger>,
    least: Option<c_int>,
}

fn is_set(limit: libc::timeval) -> bool {
    (limit.tv_sec, limit.tv_usec) != (0, 0)
}

impl Options {
    /// Those of a socket.
    pub fn of(fd: c_int) -> Self {
        let zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let limit = |name| sys::option(fd, libc::SOL_SOCKET, name).unwrap_or(zero);
        let linger = sys::option::<libc::linger>(fd, libc::SOL_SOCKET, libc::SO_LINGER);
        let least = sys::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        Self {
            receive_limit: limit(libc::SO_RCVTIMEO),
            send_limit: limit(libc::SO_SNDTIMEO),
            linger: linger.filter(|linger| linger.l_onoff != 0),
            least: least.filter(|least| *least > 1),
        }
    }

    /// Returns whether none is set.
    pub fn are_none(&self) -> bool {
        !is_set(self.receive_limit)
            && !is_set(self.send_limit)
            && self.linger.is_none()
            && self.least.is_none()
    }

    /// Sets them at another socket.
    pub fn put(&self, to: c_int) {
        let limits =
            [(libc::SO_RCVTIMEO, self.receive_limit), (libc::SO_SNDTIMEO, self.send_limit)];
        for (name, limit) in limits.iter().filter(|(_, limit)| is_set(*limit)) {
            sys::set_option(to, libc::SOL_SOCKET, *name, limit);
        }
        if let Some(linger) = self.linger {
            sys::set_option(to, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
        }
        if let Some(least) = self.least {
            sys::set_option(to, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &least);
        }
    }
}
