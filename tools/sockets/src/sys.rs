// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Calls of the kernel in the shape that the rest of the library needs. They are libc's own, never those of this
//! library, and must not know what they are for.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use libc::{c_int, c_void, socklen_t};

use crate::{address, address::Inet, real};

/// Names of a socket, and of its network namespace, that come once (`include/uapi/asm-generic/socket.h`).
pub const SO_COOKIE: c_int = 57;
const SO_NETNS_COOKIE: c_int = 71;
/// Where inner descriptors begin, if there is room: programs may count on the numbers below.
const INNER: c_int = 256;

/// Returns the error of the last call.
pub fn errno() -> c_int {
    // SAFETY: it is always valid, and the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the error that a program finds.
pub fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Sets the error, and returns what calls return then.
pub fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

/// Keeps the error that a program would find, while it lives.
pub struct KeepErrno(c_int);

impl KeepErrno {
    /// Keeps the present one.
    pub fn new() -> Self {
        Self(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

/// A descriptor of the library's own, which is closed unless it is given away.
pub struct Fd(c_int);

impl Fd {
    /// Takes what a call has returned.
    pub fn new(fd: c_int) -> Option<Self> {
        (fd >= 0).then_some(Self(fd))
    }

    /// Returns its number.
    pub fn get(&self) -> c_int {
        self.0
    }

    /// Gives it away.
    pub fn leak(self) -> c_int {
        let fd = self.0;
        std::mem::forget(self);
        fd
    }

    /// Moves it to where programs do not expect descriptors of their own.
    pub fn out_of_the_way(self, cloexec: bool) -> Self {
        match dup_high(self.0, cloexec) {
            Some(moved) => moved,
            None => self,
        }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let _keep = KeepErrno::new();
        // SAFETY: it is this one's own.
        unsafe { real::close(self.0) };
    }
}

/// Copies a descriptor to where programs do not expect descriptors of their own; any number will do if there is none.
pub fn dup_high(fd: c_int, cloexec: bool) -> Option<Fd> {
    let cmd = if cloexec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    [INNER, 0].iter().find_map(|from| Fd::new(control(fd, cmd, *from)))
}

/// `fcntl` with a number.
pub fn control(fd: c_int, cmd: c_int, arg: c_int) -> c_int {
    // SAFETY: none of the commands that are used takes a pointer.
    unsafe { real::fcntl(fd, cmd, arg as usize) }
}

/// Returns whether a descriptor is not to block.
pub fn is_nonblocking(fd: c_int) -> bool {
    let flags = control(fd, libc::F_GETFL, 0);
    flags >= 0 && flags & libc::O_NONBLOCK != 0
}

/// Returns whether a descriptor is none of a file, a pipe or a socket: an epoll descriptor, for one.
pub fn is_anonymous(fd: c_int) -> bool {
    let _keep = KeepErrno::new();
    // SAFETY: all zeros is a status.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: it is written there.
    unsafe { libc::fstat(fd, &raw mut found) == 0 && found.st_mode & libc::S_IFMT == 0 }
}

/// Makes a descriptor block, or not.
pub fn set_nonblocking(fd: c_int, nonblocking: bool) {
    let flags = control(fd, libc::F_GETFL, 0);
    let wanted = if nonblocking { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    if flags >= 0 && flags != wanted {
        control(fd, libc::F_SETFL, wanted);
    }
}

/// Returns whether a descriptor ends with `exec`.
pub fn is_cloexec(fd: c_int) -> bool {
    let flags = control(fd, libc::F_GETFD, 0);
    flags >= 0 && flags & libc::FD_CLOEXEC != 0
}

/// Returns an option of a socket, if it has that and it is as large. `T` is plain data.
pub fn option<T: Copy>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: there are `len` bytes.
    let done =
        unsafe { real::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    // SAFETY: zeroed or written; the types that are used have no invalid values.
    (done == 0 && len as usize == size_of::<T>()).then(|| unsafe { value.assume_init() })
}

/// Sets an option of a socket.
pub fn set_option<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &T) -> bool {
    let at = (&raw const *value).cast::<c_void>();
    // SAFETY: there are as many bytes.
    unsafe { real::setsockopt(fd, level, name, at, size_of::<T>() as socklen_t) == 0 }
}

/// Returns how many milliseconds a program gives calls (`SO_RCVTIMEO`, `SO_SNDTIMEO`), if it says.
pub fn ms_of(limit: libc::timeval) -> Option<i64> {
    let ms = limit.tv_sec.saturating_mul(1000).saturating_add((limit.tv_usec + 999) / 1000);
    (ms > 0).then_some(ms)
}

/// Returns the kernel's name of the network namespace of a socket, which is never 0.
pub fn namespace(fd: c_int) -> Option<u64> {
    option(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE)
}

/// Returns whether a socket of INET is one of TCP.
pub fn is_tcp(fd: c_int) -> bool {
    option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Returns the address family of a socket, and the address that it is bound to if that is one of INET.
pub fn name(fd: c_int) -> Option<(c_int, Option<Inet>)> {
    let mut at = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: there are as many bytes, all of them zero or written.
    unsafe {
        let done = real::getsockname(fd, at.as_mut_ptr().cast(), &raw mut len);
        let family = c_int::from((*at.as_ptr()).ss_family);
        (done == 0).then(|| (family, Inet::read(at.as_ptr().cast(), len)))
    }
}

/// Returns the address that an INET socket is bound to.
pub fn local_address(fd: c_int) -> Option<Inet> {
    name(fd)?.1
}

/// Opens a socket.
pub fn socket(family: c_int, kind: c_int, protocol: c_int) -> Option<Fd> {
    // SAFETY: there are no pointers.
    Fd::new(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })
}

/// Connects a socket.
pub fn connect<T>(fd: c_int, to: &T, bytes: Option<socklen_t>) -> c_int {
    let (at, len) = address::raw(to);
    // SAFETY: there are as many bytes.
    unsafe { real::connect(fd, at, bytes.unwrap_or(len)) }
}

/// Milliseconds of a clock that only goes forward.
pub fn now_ms() -> i64 {
    // SAFETY: all zeros is a time.
    let mut at: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it is written there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at) };
    at.tv_sec * 1000 + at.tv_nsec / 1_000_000
}

/// The same to within a few milliseconds, for less.
pub fn about_ms() -> i64 {
    // SAFETY: all zeros is a time.
    let mut at: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it is written there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut at) };
    at.tv_sec * 1000 + at.tv_nsec / 1_000_000
}

/// The number of the process.
pub fn pid() -> c_int {
    // SAFETY: it takes nothing.
    unsafe { libc::getpid() }
}

/// The process whose descriptors the tables of the library are about: a child of `vfork` sees those of its parent.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// Makes the process the one that the tables are about.
pub extern "C" fn own_process() {
    OWNER.store(pid(), Relaxed);
}

/// Returns the number of the process without asking for it: that of the parent in a child that has no tables.
pub fn own_pid() -> u32 {
    OWNER.load(Relaxed) as u32
}

/// Returns whether the tables are about this process.
pub fn is_own_process() -> bool {
    OWNER.load(Relaxed) == pid()
}

/// To be called when the library is loaded.
pub fn start() {
    own_process();
    // SAFETY: the function only stores a number. Without it children change no table.
    unsafe { libc::pthread_atfork(None, None, Some(own_process)) };
}

/// Has the tests that change whose the tables are take turns.
#[cfg(test)]
pub fn owning() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    own_process();
    turn
}

/// Lets a test be a child of `vfork`.
#[cfg(test)]
pub fn disown_process() {
    OWNER.store(1, Relaxed);
}

/// Waits for events of a descriptor: those that have happened, 0 for nothing, or -1.
pub fn wait(fd: c_int, events: libc::c_short, timeout_ms: c_int) -> libc::c_short {
    let mut polled = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: it is one.
    match unsafe { libc::poll(&raw mut polled, 1, timeout_ms) } {
        ready if ready > 0 => polled.revents,
        other => other as libc::c_short,
    }
}

/// Returns what has happened to a descriptor, of these events and of those that are always told: 0 for nothing.
pub fn look(fd: c_int, events: libc::c_short) -> libc::c_short {
    let mut polled = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: it is one.
    match unsafe { libc::poll(&raw mut polled, 1, 0) } {
        0 => 0,
        ready if ready > 0 => polled.revents,
        _ => libc::POLLNVAL,
    }
}

/// Waits for events of an epoll descriptor: how many there are, or -1, and the `data` of each. The thread may be cancelled
/// meanwhile.
pub fn wait_epoll(fd: c_int, timeout_ms: c_int) -> (c_int, [u64; 2]) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    // SAFETY: there is room for two.
    let count = unsafe { epoll_wait(fd, events.as_mut_ptr(), 2, timeout_ms) };
    (count, events.map(|event| event.u64))
}

unsafe extern "C-unwind" {
    /// Unlike the crate's, it may be cancelled.
    fn epoll_wait(
        fd: c_int,
        events: *mut libc::epoll_event,
        room: c_int,
        timeout_ms: c_int,
    ) -> c_int;
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// While it lives, the thread is not cancelled: not in the middle of what the library does, with descriptors of its own.
pub struct NoCancel(c_int);

impl NoCancel {
    /// `PTHREAD_CANCEL_DISABLE`.
    const DISABLE: c_int = 1;

    /// From now on.
    pub fn new() -> Self {
        let mut before = 0;
        // SAFETY: the state before is written there.
        unsafe { pthread_setcancelstate(Self::DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for NoCancel {
    fn drop(&mut self) {
        // SAFETY: nothing is to be written.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// Reads as much of a file as there is room for.
pub fn read_file(path: *const libc::c_char, room: &mut [u8]) -> Option<&[u8]> {
    // SAFETY: callers hand over a string that ends with a zero.
    let file = Fd::new(unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) })?;
    let mut count = 0;
    while let Some(rest) = room.get_mut(count..).filter(|rest| !rest.is_empty()) {
        // SAFETY: there is as much room.
        let got = unsafe { libc::read(file.get(), rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(got) {
            Ok(0) => break,
            Ok(got) => count += got,
            Err(_) if errno() == libc::EINTR => (),
            Err(_) => return None,
        }
    }
    room.get(..count)
}
