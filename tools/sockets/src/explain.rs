// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The report of `weft-run --explain`: which connections have been moved, which have not, and why. A line is one write,
//! of memory on the stack.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::c_int;

use crate::{
    settings::{Explain, settings},
    sys::{self, Fd, KeepErrno, NoCancel},
};

const STDERR: c_int = 2;
const LINE: usize = 400;

/// Why a connection, or a socket that listens, stays one of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// `WEFT_SOCKETS_PORTS` does not name the port.
    Port,
    /// `WEFT_SOCKETS_WAIT` is no number of milliseconds.
    Wait,
    /// `WEFT_SOCKETS_PORTS` is no list of ports.
    Ports,
    /// There is no transport.
    NotLoaded,
    /// Nothing that another host can reach.
    Local,
    /// The way there is not a link of Weft.
    OtherWay,
    /// A router is in between.
    Router,
    /// The socket is bound to another address or interface than the way has.
    Bound,
    /// No host with that address is known.
    NoHost,
    /// The hardware id has no CID.
    NoCid,
    /// The kernel does not say.
    Netlink,
    /// A call failed.
    Failed(&'static str, c_int),
    /// No answer in time.
    Silent,
    /// The arena of a link, at either end, holds no further connection.
    NoRoom,
    /// The host of the address refused.
    Refused,
    /// Too many sockets listen.
    Full,
    /// Another socket of AF_VSOCK has the port.
    Taken,
    /// The program has set an option that AF_VSOCK does not have.
    Option(&'static str),
    /// Several epoll sets know the socket.
    Watched,
    /// Another descriptor is the same socket.
    Copied,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port => "WEFT_SOCKETS_PORTS does not name its port",
            Self::Wait => "WEFT_SOCKETS_WAIT is no number of milliseconds up to 60000",
            Self::Ports => "WEFT_SOCKETS_PORTS is no list of ports",
            Self::NotLoaded => "weft_vsock.ko is not loaded",
            Self::Local => "other hosts cannot have this address",
            Self::OtherWay => "the route does not lead over an interface of Weft",
            Self::Router => "the route leads to a router",
            Self::Bound => {
                "the socket is bound to an address or an interface that is not that of Weft"
            }
            Self::NoHost => "no host has answered for this address",
            Self::NoCid => "the hardware id of the host has no CID",
            Self::Netlink => "the kernel does not say what the route is",
            Self::Failed(call, errno) => return write!(f, "{call}: errno {errno}"),
            Self::Silent => "no answer over AF_VSOCK in time",
            Self::NoRoom => "no room for another connection in the arena of a link",
            Self::Refused => "nothing listens on that port of AF_VSOCK",
            Self::Full => "too many sockets listen",
            Self::Option(name) => return write!(f, "the socket has {name}"),
            Self::Taken => "another socket has that port of AF_VSOCK",
            Self::Watched => "the socket is in several epoll sets",
            Self::Copied => "another descriptor is the same socket",
        })
    }
}

/// The file that standard error was when the library was loaded: a program may use the number for another one.
static STDERR_FILE: AtomicU64 = AtomicU64::new(0);

fn file_of(fd: c_int) -> u64 {
    // SAFETY: all zeros is a status.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: it is written there.
    if unsafe { libc::fstat(fd, &raw mut found) } != 0 {
        return 0;
    }
    (found.st_dev.rotate_left(40) ^ found.st_ino).max(1)
}

/// Remembers standard error, unless that is a connection.
pub fn start() {
    if matches!(settings().explain, Explain::Stderr) {
        let family = sys::option::<c_int>(STDERR, libc::SOL_SOCKET, libc::SO_DOMAIN);
        if family.is_none_or(|family| family == libc::AF_UNIX) {
            STDERR_FILE.store(file_of(STDERR), Relaxed);
        }
    }
}

struct Line {
    text: [u8; LINE],
    count: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Room is left for the line feed.
        let room = self.text.get_mut(self.count..LINE - 1).unwrap_or_default();
        let count = text.len().min(room.len());
        if let (Some(room), Some(part)) = (room.get_mut(..count), text.as_bytes().get(..count)) {
            room.copy_from_slice(part);
        }
        self.count += count;
        Ok(())
    }
}

fn write(fd: c_int, line: &[u8]) {
    // SAFETY: there are as many bytes. What cannot be said is left.
    unsafe { libc::write(fd, line.as_ptr().cast(), line.len()) };
}

/// Says something, if that is wanted.
pub fn say(what: fmt::Arguments<'_>) {
    let path = match &settings().explain {
        Explain::No => return,
        Explain::Stderr => None,
        Explain::File(path) => Some(path),
    };
    let (_keep, _whole) = (KeepErrno::new(), NoCancel::new());
    let mut line = Line { text: [0; LINE], count: 0 };
    let pid = sys::pid();
    // A line that is too long is cut.
    let _ = write!(line, "weft-sockets[{pid}]: {what}");
    if let Some(end) = line.text.get_mut(line.count) {
        *end = b'\n';
        line.count += 1;
    }
    let text = line.text.get(..line.count).unwrap_or_default();
    let Some(path) = path else {
        let was = STDERR_FILE.load(Relaxed);
        if was != 0 && file_of(STDERR) == was {
            write(STDERR, text);
        }
        return;
    };
    let flags =
        libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: the path ends with a zero.
    if let Some(file) = Fd::new(unsafe { libc::open(path.as_ptr(), flags, 0o600 as libc::c_uint) })
    {
        write(file.get(), text);
    }
}

/// `say(format_args!(…))`.
macro_rules! explain {
    ($($words:tt)*) => { $crate::explain::say(format_args!($($words)*)) };
}
pub(crate) use explain;
