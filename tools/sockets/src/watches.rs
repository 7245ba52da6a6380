// SPDX-License-Identifier: GPL-2.0 OR MIT

//! TCP sockets that a program has added to an epoll set before it connects them, or listens: the set loses them when
//! another socket takes the descriptor, so they are added anew. One set a socket is remembered.

use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use libc::{c_int, epoll_event};

use crate::real;

const PLACES: usize = 256;
const FREE: c_int = -1;
const TAKEN: c_int = -2;

struct Place {
    fd: AtomicI32,
    epoll: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
}

static TABLE: [Place; PLACES] = [const {
    Place {
        fd: AtomicI32::new(FREE),
        epoll: AtomicI32::new(FREE),
        events: AtomicU32::new(0),
        data: AtomicU64::new(0),
    }
}; PLACES];
/// How many places have ever been taken.
static USED: AtomicU32 = AtomicU32::new(0);

fn place_of(fd: c_int) -> Option<&'static Place> {
    TABLE.iter().take(USED.load(Acquire) as usize).find(|place| place.fd.load(Acquire) == fd)
}

/// A descriptor that is not connected yet has been added to a set, or what is asked for was changed there.
pub fn added(epoll: c_int, fd: c_int, event: epoll_event) {
    let fill = |place: &Place| {
        place.epoll.store(epoll, Relaxed);
        place.events.store(event.events, Relaxed);
        place.data.store(event.u64, Relaxed);
        place.fd.store(fd, Release);
    };
    if let Some(place) = place_of(fd) {
        return fill(place);
    }
    let free = |place: &&Place| place.fd.compare_exchange(FREE, TAKEN, AcqRel, Relaxed).is_ok();
    if let Some((n, place)) = TABLE.iter().enumerate().find(|(_, place)| free(place)) {
        USED.fetch_max(n as u32 + 1, AcqRel);
        fill(place);
    }
}

/// Changed in its set, if it is remembered.
pub fn changed(epoll: c_int, fd: c_int, event: epoll_event) {
    if place_of(fd).is_some() {
        added(epoll, fd, event);
    }
}

/// Taken out of the set, closed, or connected.
pub fn forget(fd: c_int) {
    if let Some(place) = place_of(fd) {
        let _ = place.fd.compare_exchange(fd, FREE, AcqRel, Relaxed);
    }
}

/// A set that a descriptor is in.
pub struct Watch {
    epoll: c_int,
    fd: c_int,
    event: epoll_event,
}

impl Watch {
    /// Takes a descriptor out of its set, if it is in one still.
    pub fn suspend(fd: c_int) -> Option<Self> {
        let place = place_of(fd)?;
        let event =
            epoll_event { events: place.events.load(Relaxed), u64: place.data.load(Relaxed) };
        let epoll = place.epoll.load(Relaxed);
        forget(fd);
        // SAFETY: no event is needed.
        let done = unsafe { real::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        (done == 0).then_some(Self { epoll, fd, event })
    }
}

/// Whatever has the descriptor now is added.
impl Drop for Watch {
    fn drop(&mut self) {
        // An epoll descriptor cannot be added that way.
        self.event.events &= !(libc::EPOLLEXCLUSIVE as u32);
        // SAFETY: the event is there.
        unsafe { real::epoll_ctl(self.epoll, libc::EPOLL_CTL_ADD, self.fd, &raw mut self.event) };
    }
}
