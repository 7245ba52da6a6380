// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What was found out about hosts a moment ago, so that not each connection asks the kernel and reads files. It must not
//! know what that is.
//!
//! It holds until the kernel says that a route, a rule, an address, an interface or a neighbour has changed: a socket of
//! NETLINK_ROUTE is told, the *monitor*, of which nothing is ever read. That something is there to be read is enough; then
//! another one takes its place. What no monitor tells of, files and modules, holds for [`LASTS_MS`]. So does the monitor
//! itself, before it is looked at closely: a program may have closed it, and have its number for a socket of its own. A
//! look changes nothing of that.
//!
//! A program that asks only once has no monitor. There is no lock: what cannot be kept is asked for again.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

use libc::c_int;

use crate::{netlink, real, sys};

/// How long what was found holds.
pub const LASTS_MS: i64 = 500;
const PLACES: usize = 64;
/// Words of a key, and of what is known by it.
pub type Key = [u64; 3];
/// See [`Key`].
pub type Found = [u64; 4];

/// Monitors of as many network namespaces: programs with several are rare.
const MONITORS: usize = 4;

struct Monitor {
    fd: AtomicI32,
    /// The kernel's names of the socket, and of its network namespace.
    cookie: AtomicU64,
    namespace: AtomicU64,
    /// The moment that it began; 0 while it is made.
    count: AtomicU64,
}

static ALL: [Monitor; MONITORS] = [const {
    Monitor {
        fd: AtomicI32::new(-1),
        cookie: AtomicU64::new(0),
        namespace: AtomicU64::new(0),
        count: AtomicU64::new(0),
    }
}; MONITORS];
/// Counts monitors.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The process that makes one, 0 for none. Another number is that of the parent, whose memory this was.
static MAKING: AtomicI32 = AtomicI32::new(0);
/// Something was asked for.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Something that was known in this moment is known still: the monitor has told of no change since it was made.
#[derive(Clone, Copy)]
pub struct Moment(u64);

impl Monitor {
    /// Returns that of a network namespace.
    fn of(namespace: u64) -> Option<&'static Self> {
        ALL.iter().find(|one| namespace != 0 && one.namespace.load(Relaxed) == namespace)
    }

    /// Returns whether its descriptor is still what was made, not a socket of the program.
    fn is_its(&self, fd: c_int) -> bool {
        let cookie = || sys::option(fd, libc::SOL_SOCKET, sys::SO_COOKIE);
        fd >= 0 && cookie() == Some(self.cookie.load(Relaxed))
    }

    /// Puts another one in its place.
    fn make(&self) -> Option<Moment> {
        self.count.store(0, Release);
        let old = self.fd.swap(-1, AcqRel);
        if self.is_its(old) {
            // SAFETY: it is the library's own.
            unsafe { real::close(old) };
        }
        let made = netlink::monitor()?.out_of_the_way(true);
        self.cookie.store(sys::option(made.get(), libc::SOL_SOCKET, sys::SO_COOKIE)?, Relaxed);
        self.namespace.store(sys::namespace(made.get())?, Relaxed);
        self.fd.store(made.leak(), Relaxed);
        let count = COUNT.fetch_add(1, AcqRel) + 1;
        self.count.store(count, Release);
        Some(Moment(count))
    }
}

impl Moment {
    /// Returns the present one, for the sockets of a network namespace, if there is a monitor that has told of nothing.
    pub fn now(namespace: u64) -> Option<Self> {
        let monitor = Monitor::of(namespace)?;
        let count = monitor.count.load(Acquire);
        let fd = monitor.fd.load(Relaxed);
        let quiet = count != 0 && fd >= 0 && sys::look(fd, libc::POLLIN) == 0;
        (quiet && monitor.count.load(Acquire) == count).then_some(Self(count))
    }

    /// Returns one in which something can be asked for, and [`Self::keep`] it: `now`, if that is still to be trusted, or
    /// that of another monitor.
    pub fn to_ask_in(now: Option<Self>, namespace: u64) -> Option<Self> {
        let known = Monitor::of(namespace);
        if now.is_some() && known.is_some_and(|one| one.is_its(one.fd.load(Relaxed))) {
            return now;
        }
        if !ASKED.swap(true, Relaxed) || !sys::is_own_process() {
            return None;
        }
        let (own, held) = (sys::pid(), MAKING.load(Relaxed));
        if held == own || MAKING.compare_exchange(held, own, AcqRel, Relaxed).is_err() {
            return None;
        }
        let unused = || ALL.iter().find(|one| one.namespace.load(Relaxed) == 0);
        let oldest = || ALL.get(COUNT.load(Relaxed) as usize % MONITORS);
        let place = known.or_else(unused).or_else(oldest);
        let made = place.and_then(|place| {
            // It is of the namespace of the thread, which need not be that of the socket.
            place.make().filter(|_| place.namespace.load(Relaxed) == namespace)
        });
        MAKING.store(0, Release);
        made
    }
}

struct Place {
    /// Odd while it is written.
    version: AtomicU32,
    moment: AtomicU64,
    since: AtomicI64,
    key: [AtomicU64; 3],
    found: [AtomicU64; 4],
}

static TABLE: [Place; PLACES] = [const {
    Place {
        version: AtomicU32::new(0),
        moment: AtomicU64::new(0),
        since: AtomicI64::new(0),
        key: [const { AtomicU64::new(0) }; 3],
        found: [const { AtomicU64::new(0) }; 4],
    }
}; PLACES];

fn place_of(key: &Key) -> Option<&'static Place> {
    let mixed =
        key.iter().fold(0, |sum: u64, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    TABLE.get((mixed >> 32) as usize % PLACES)
}

fn load<const N: usize>(from: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|n| from.get(n).map_or(0, |word| word.load(Relaxed)))
}

fn store<const N: usize>(to: &[AtomicU64; N], words: &[u64; N]) {
    for (to, word) in to.iter().zip(words) {
        to.store(*word, Relaxed);
    }
}

impl Moment {
    /// Returns what is known.
    pub fn find(self, key: &Key) -> Option<Found> {
        let place = place_of(key)?;
        let version = place.version.load(Acquire);
        let is_it = place.moment.load(Relaxed) == self.0 && load(&place.key) == *key;
        let (since, found) = (place.since.load(Relaxed), load(&place.found));
        fence(Acquire);
        let whole = version % 2 == 0 && place.version.load(Relaxed) == version;
        (whole && is_it && sys::about_ms() - since < LASTS_MS).then_some(found)
    }

    /// Keeps what was found out since [`Self::to_ask_in`].
    pub fn keep(self, key: &Key, found: &Found) {
        let Some(place) = place_of(key) else {
            return;
        };
        let version = place.version.load(Relaxed);
        let next = version.wrapping_add(1);
        if version % 2 != 0
            || place.version.compare_exchange(version, next, AcqRel, Relaxed).is_err()
        {
            return;
        }
        fence(Release);
        place.moment.store(self.0, Relaxed);
        place.since.store(sys::about_ms(), Relaxed);
        store(&place.key, key);
        store(&place.found, found);
        place.version.store(next.wrapping_add(1), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    /// Has something change in a network namespace that the test has for itself.
    fn change(socket: c_int) {
        // SAFETY: all zeros is a request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        // SAFETY: it is there.
        assert_eq!(unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) }, 0);
    }

    // One test: the monitors are everyone's.
    #[test]
    fn what_is_known_holds_until_the_monitor_has_something_to_tell_or_is_gone() {
        let _owning = sys::owning();
        // One where nothing else changes, if that is permitted.
        // SAFETY: it is of this thread alone.
        let own = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let here = sys::namespace(socket.as_raw_fd()).unwrap();
        let (key, found) = ([1, 2, 3], [4, 5, 6, 7]);
        // The first time nothing is kept.
        assert!(Moment::now(here).is_none());
        assert!(Moment::to_ask_in(None, here).is_none());
        let moment = Moment::to_ask_in(Moment::now(here), here).unwrap();
        assert_eq!(moment.find(&key), None);
        moment.keep(&key, &found);
        assert_eq!(Moment::now(here).unwrap().find(&key), Some(found));
        assert_eq!(moment.find(&[1, 2, 4]), None);
        // Of another namespace nothing is known, and nothing is kept here.
        assert!(Moment::now(here + 1).is_none());
        assert!(Moment::to_ask_in(None, here + 1).is_none());
        assert_eq!(Moment::now(here).unwrap().find(&key), Some(found));

        if own {
            change(socket.as_raw_fd());
            assert!(Moment::now(here).is_none());
            let moment = Moment::to_ask_in(None, here).unwrap();
            assert_eq!(moment.find(&key), None);
            moment.keep(&key, &found);
        }

        // The program closes it, and has the number for a socket of its own.
        let fd = || Monitor::of(here).unwrap().fd.load(Relaxed);
        let taken = fd();
        // SAFETY: there are no pointers.
        unsafe { real::dup2(socket.as_raw_fd(), taken) };
        let trusted = Moment::now(here);
        assert_eq!(trusted.unwrap().find(&key), Some(found));
        let moment = Moment::to_ask_in(trusted, here).unwrap();
        assert_eq!(moment.find(&key), None);
        assert!(fd() != taken && sys::control(taken, libc::F_GETFD, 0) >= 0, "it is the program's");
        // SAFETY: nothing else has them.
        unsafe { real::close(taken) };

        // SAFETY: as above.
        unsafe { real::close(fd()) };
        assert!(Moment::now(here).is_none());
        // A child that shares memory, but no descriptors, makes none.
        sys::disown_process();
        assert!(Moment::to_ask_in(None, here).is_none());
        sys::own_process();
        assert!(Moment::to_ask_in(None, here).is_some());
    }
}
