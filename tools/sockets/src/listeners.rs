// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The descriptors that listen: each is an epoll descriptor over a TCP socket and a socket of AF_VSOCK, which the
//! library holds. Copies of a descriptor (`dup`) have the same two sockets.
//!
//! The table has no lock: a place is taken, filled, and shown. It is only looked at for descriptors that are no
//! sockets, and what it says is checked with the kernel before anything is closed: a program may have closed
//! descriptors by means that this library does not see. (Changing a registration finds out whether there is one. It also
//! wakes what waits, so that it is not done each time.) A descriptor that came over `exec` is found in `/proc`.

use std::fmt::Write;
use std::sync::atomic::{
    AtomicI32, AtomicI64, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use libc::c_int;

use crate::{
    carried::Options,
    known::LASTS_MS,
    mark::Mark,
    real,
    sys::{self, KeepErrno, NoCancel},
};

const PLACES: usize = 256;
const FREE: c_int = -1;
const TAKEN: c_int = -2;
/// In `data` of the events of the two sockets, with what they are in the lowest bit.
const MAGIC: u64 = 0x7765_6674_0000_0000;
const VSOCK: u64 = 1;

struct Place {
    fd: AtomicI32,
    tcp: AtomicI32,
    vsock: AtomicI32,
    /// What was found out about the sockets, 0 for nothing yet: the mark, the network namespace, and when they were seen to
    /// have no options that a connection inherits.
    mark: AtomicU64,
    namespace: AtomicU64,
    plain: AtomicI64,
}

static TABLE: [Place; PLACES] = [const {
    Place {
        fd: AtomicI32::new(FREE),
        tcp: AtomicI32::new(FREE),
        vsock: AtomicI32::new(FREE),
        mark: AtomicU64::new(0),
        namespace: AtomicU64::new(0),
        plain: AtomicI64::new(0),
    }
}; PLACES];
/// How many places have ever been taken.
static USED: AtomicI32 = AtomicI32::new(0);

/// A descriptor that listens, and its two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// What the program has.
    pub fd: c_int,
    /// The socket of TCP.
    pub tcp: c_int,
    /// The socket of AF_VSOCK.
    pub vsock: c_int,
}

fn places() -> impl Iterator<Item = &'static Place> {
    let used = usize::try_from(USED.load(Acquire)).unwrap_or_default();
    TABLE.iter().take(used)
}

fn all() -> impl Iterator<Item = (&'static Place, Listener)> {
    places().filter_map(|place| {
        let fd = place.fd.load(Acquire);
        let listener =
            Listener { fd, tcp: place.tcp.load(Relaxed), vsock: place.vsock.load(Relaxed) };
        (fd >= 0).then_some((place, listener))
    })
}

/// Returns whether there is any: a cheap look before others.
pub fn any() -> bool {
    USED.load(Relaxed) != 0
}

/// Registers a socket with the epoll descriptor, or (with `EPOLL_CTL_MOD`) finds out whether it is.
fn control(op: c_int, epoll: c_int, fd: c_int, is_vsock: bool) -> bool {
    let u64 = MAGIC | if is_vsock { VSOCK } else { 0 };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64 };
    // SAFETY: the event is there.
    unsafe { real::epoll_ctl(epoll, op, fd, &raw mut event) == 0 }
}

impl Listener {
    /// Makes the epoll descriptor report both sockets.
    pub fn watch(&self) -> bool {
        control(libc::EPOLL_CTL_ADD, self.fd, self.tcp, false)
            && control(libc::EPOLL_CTL_ADD, self.fd, self.vsock, true)
    }

    /// Returns whether the descriptors are still what they were.
    fn is_valid(&self) -> bool {
        control(libc::EPOLL_CTL_MOD, self.fd, self.tcp, false)
            && control(libc::EPOLL_CTL_MOD, self.fd, self.vsock, true)
    }

    /// Makes its sockets end with `exec` if all of its descriptors do.
    fn share_cloexec(&self) {
        let alike = |other: &Listener| other.tcp == self.tcp;
        let cloexec =
            all().filter(|(_, other)| alike(other)).all(|(_, other)| sys::is_cloexec(other.fd));
        for fd in [self.tcp, self.vsock] {
            sys::control(fd, libc::F_SETFD, if cloexec { libc::FD_CLOEXEC } else { 0 });
        }
    }
}

/// Adds one; false if there is no place.
pub fn add(listener: Listener) -> bool {
    if !sys::is_own_process() {
        return false;
    }
    // Of one that was closed unseen, whose number has come again.
    for (place, _) in all().filter(|(_, other)| other.fd == listener.fd) {
        place.fd.store(FREE, Release);
    }
    let Some(n) = TABLE
        .iter()
        .position(|place| place.fd.compare_exchange(FREE, TAKEN, AcqRel, Relaxed).is_ok())
    else {
        return false;
    };
    if let Some(place) = TABLE.get(n) {
        place.tcp.store(listener.tcp, Relaxed);
        place.vsock.store(listener.vsock, Relaxed);
        place.mark.store(0, Relaxed);
        place.namespace.store(0, Relaxed);
        place.plain.store(0, Relaxed);
        place.fd.store(listener.fd, Release);
    }
    USED.fetch_max(n as c_int + 1, AcqRel);
    listener.share_cloexec();
    true
}

/// One of the two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of TCP.
    Tcp,
    /// That of AF_VSOCK.
    Vsock,
}

impl Which {
    /// Reads what an event says; `None` if it is of no descriptor that listens.
    pub fn of(data: u64) -> Option<Self> {
        match data {
            MAGIC => Some(Self::Tcp),
            data if data == MAGIC | VSOCK => Some(Self::Vsock),
            _ => None,
        }
    }
}

/// Returns what a descriptor was when it was last looked at: it may have been closed unseen.
pub fn expected(fd: c_int) -> Option<Listener> {
    all().find(|(_, listener)| listener.fd == fd).map(|(_, listener)| listener)
}

fn place_of(fd: c_int) -> Option<&'static Place> {
    places().find(|place| place.fd.load(Acquire) == fd)
}

/// Options of a descriptor have been set.
pub fn changed(fd: c_int) {
    if let Some(place) = place_of(fd) {
        place.plain.store(0, Relaxed);
    }
}

impl Listener {
    /// Returns the mark that what is accepted has, `taken` for one.
    pub fn mark_of(&self, taken: c_int) -> Option<Mark> {
        let place = place_of(self.fd);
        if let Some(known) = place.and_then(|place| Mark::from_bits(place.mark.load(Relaxed))) {
            return Some(known);
        }
        let mark = Mark::of(taken)?;
        if let Some(place) = place {
            place.mark.store(mark.to_bits(), Relaxed);
        }
        Some(mark)
    }

    /// Returns the kernel's name of its network namespace, 0 if it says none.
    pub fn namespace(&self) -> u64 {
        let place = place_of(self.fd);
        let known = place.map_or(0, |place| place.namespace.load(Relaxed));
        if known != 0 {
            return known;
        }
        let namespace = sys::namespace(self.tcp).unwrap_or_default();
        if let Some(place) = place {
            place.namespace.store(namespace, Relaxed);
        }
        namespace
    }

    /// Returns the options that a connection inherits; `None` if there are none. Those that another process sets are
    /// seen a moment later.
    pub fn options(&self) -> Option<Options> {
        let (place, now) = (place_of(self.fd), sys::about_ms());
        let since = place.map_or(0, |place| place.plain.load(Relaxed));
        if since != 0 && now - since < LASTS_MS {
            return None;
        }
        let options = Options::of(self.tcp);
        if !options.are_none() {
            return Some(options);
        }
        if let Some(place) = place {
            place.plain.store(now, Relaxed);
        }
        None
    }
}

/// Returns what a descriptor is, also if that was so in the program before an `exec`.
pub fn find(fd: c_int) -> Option<Listener> {
    let _whole = NoCancel::new();
    if !sys::is_anonymous(fd) {
        return None;
    }
    if let Some((_, known)) = all().find(|(_, listener)| listener.fd == fd) {
        return Some(known);
    }
    let _keep = KeepErrno::new();
    let inherited = inherited(fd).filter(Listener::is_valid)?;
    add(inherited);
    Some(inherited)
}

/// Takes a descriptor out that is closed now, or was replaced, and closes its sockets with the last one.
pub fn remove(fd: c_int) {
    let Some((place, listener)) = all().find(|(_, listener)| listener.fd == fd) else {
        return;
    };
    let _keep = KeepErrno::new();
    if !sys::is_own_process() || place.fd.compare_exchange(fd, TAKEN, AcqRel, Relaxed).is_err() {
        return;
    }
    let valid = listener.is_valid();
    place.fd.store(FREE, Release);
    if !valid {
        return;
    }
    if all().any(|(_, other)| other.tcp == listener.tcp) {
        listener.share_cloexec();
        return;
    }
    for fd in [listener.tcp, listener.vsock] {
        // SAFETY: they are the library's own.
        unsafe { real::close(fd) };
    }
}

/// Forgets descriptors that a program closes all at once, their sockets among them or not.
pub fn forget_range(first: u32, last: u32) {
    let within = |fd: c_int| u32::try_from(fd).is_ok_and(|fd| (first..=last).contains(&fd));
    for (_, listener) in all().filter(|(_, listener)| within(listener.fd)) {
        remove(listener.fd);
    }
}

/// A descriptor has been copied.
pub fn copied(from: c_int, to: c_int) {
    if let Some((_, listener)) = all().find(|(_, listener)| listener.fd == from) {
        if listener.is_valid() {
            add(Listener { fd: to, ..listener });
        }
    }
}

/// A descriptor is to end with `exec`, or not any more.
pub fn cloexec_changed(fd: c_int) {
    if let Some((_, listener)) = all().find(|(_, listener)| listener.fd == fd) {
        if sys::is_own_process() && listener.is_valid() {
            let _keep = KeepErrno::new();
            listener.share_cloexec();
        }
    }
}

/// Reads from `/proc` what an epoll descriptor reports.
fn inherited(fd: c_int) -> Option<Listener> {
    let mut path = [0; 40];
    let mut rest = &mut path[..];
    write!(Text(&mut rest), "/proc/self/fdinfo/{fd}\0").ok()?;
    let mut room = [0; 1024];
    let text = sys::read_file(path.as_ptr().cast(), &mut room)?;
    parse(fd, std::str::from_utf8(text).ok()?)
}

/// Formats into a piece of memory.
struct Text<'a, 'b>(&'a mut &'b mut [u8]);

impl Write for Text<'_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let (room, rest) =
            std::mem::take(self.0).split_at_mut_checked(text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        *self.0 = rest;
        Ok(())
    }
}

fn parse(fd: c_int, text: &str) -> Option<Listener> {
    let (mut tcp, mut vsock) = (None, None);
    for line in text.lines().filter_map(|line| line.strip_prefix("tfd:")) {
        let number = line.split_whitespace().next()?.parse().ok()?;
        let data = line.split("data:").nth(1)?.split_whitespace().next()?;
        match Which::of(u64::from_str_radix(data, 16).ok()?)? {
            Which::Tcp => tcp = Some(number),
            Which::Vsock => vsock = Some(number),
        }
    }
    Some(Listener { fd, tcp: tcp?, vsock: vsock? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoll_descriptor_of_this_library_is_known_by_its_data() {
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n\
            tfd:      256 events:       19 data: 7765667400000000  pos:0 ino:2f1e sdev:8\n\
            tfd:      257 events:       19 data: 7765667400000001  pos:0 ino:2f1f sdev:8\n";
        assert_eq!(parse(4, text), Some(Listener { fd: 4, tcp: 256, vsock: 257 }));
        assert_eq!(parse(4, &text.replace("00000001", "00000002")), None);
        assert_eq!(parse(4, text.rsplit_once("tfd").unwrap().0), None);
        assert_eq!(parse(4, ""), None);
    }

    /// An epoll descriptor over two others, as the library makes them.
    fn listener() -> Listener {
        // SAFETY: there are no pointers.
        let new = || unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: as above.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let made = Listener { fd, tcp: new(), vsock: new() };
        assert!(made.watch());
        made
    }

    fn is_open(fd: c_int) -> bool {
        sys::control(fd, libc::F_GETFD, 0) >= 0
    }

    // One test: the table is one, and descriptors that are closed come again.
    #[test]
    fn sockets_go_with_the_last_descriptor_and_are_found_again_without_a_table() {
        let _owning = sys::owning();
        let made = listener();
        assert_eq!(inherited(made.fd), Some(made));
        assert!(add(made));
        assert_eq!(find(made.fd), Some(made));
        // SAFETY: there are no pointers.
        let copy = unsafe { real::dup(made.fd) };
        copied(made.fd, copy);
        assert_eq!(find(copy), Some(Listener { fd: copy, ..made }));
        // The copy is not closed by exec: neither are the sockets.
        assert!(!sys::is_cloexec(made.tcp));
        sys::control(copy, libc::F_SETFD, libc::FD_CLOEXEC);
        cloexec_changed(copy);
        assert!(sys::is_cloexec(made.tcp));

        remove(made.fd);
        assert!(is_open(made.tcp) && is_open(made.vsock));
        // The other one is not affected by a child that shares memory, but no descriptors.
        sys::disown_process();
        remove(copy);
        sys::own_process();
        assert!(find(copy).is_some());
        remove(copy);
        assert!(!is_open(made.tcp) && !is_open(made.vsock));
        assert!(all().all(|(_, listener)| listener.fd != copy));

        // Closed by means that the library does not see, and opened as something else.
        let made = listener();
        assert!(add(made));
        for fd in [made.tcp, made.vsock] {
            // SAFETY: nothing else has them.
            unsafe { real::close(fd) };
        }
        // The number comes again as another one that listens.
        let again = Listener { tcp: listener().tcp, ..made };
        assert!(add(again));
        assert_eq!(all().filter(|(_, listener)| listener.fd == made.fd).count(), 1);
        assert_eq!(find(made.fd), Some(again));
        assert!(add(made));
        // SAFETY: as above.
        let other = [(); 2].map(|()| unsafe { libc::eventfd(0, 0) });
        remove(made.fd);
        assert!(other.into_iter().all(is_open), "descriptors of the program were closed");
    }
}
