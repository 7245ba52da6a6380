// SPDX-License-Identifier: GPL-2.0 OR MIT

//! TCP sockets that are neither connected nor listen, and that something knows beside their descriptor. An epoll set
//! loses such a socket when another one takes the descriptor: it is added anew. A socket that is in several sets, or that
//! has copies, is not moved.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use libc::{c_int, epoll_event};

use crate::{explain::Why, real, sys};

/// Of descriptors from there on nothing is remembered, but that there was one.
const PLACES: usize = 4096;
/// In the place of the set.
const NONE: c_int = -1;
const SEVERAL: c_int = -2;
const COPIED: c_int = -3;

struct Place {
    epoll: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
}

/// By descriptor.
static TABLE: [Place; PLACES] = [const {
    Place { epoll: AtomicI32::new(NONE), events: AtomicU32::new(0), data: AtomicU64::new(0) }
}; PLACES];
static BEYOND: AtomicBool = AtomicBool::new(false);

fn place_of(fd: c_int) -> Option<&'static Place> {
    TABLE.get(usize::try_from(fd).ok()?)
}

fn event_of(place: &Place) -> epoll_event {
    epoll_event { events: place.events.load(Relaxed), u64: place.data.load(Relaxed) }
}

fn set(place: &Place, epoll: c_int, event: epoll_event) {
    place.events.store(event.events, Relaxed);
    place.data.store(event.u64, Relaxed);
    place.epoll.store(epoll, Release);
}

/// A descriptor has been added to a set.
pub fn added(epoll: c_int, fd: c_int, event: epoll_event) {
    if !sys::is_own_process() {
        return;
    }
    let Some(place) = place_of(fd) else {
        return BEYOND.store(true, Relaxed);
    };
    match place.epoll.load(Relaxed) {
        SEVERAL | COPIED => (),
        other if other >= 0 && other != epoll && is_in(other, fd, place) => {
            place.epoll.store(SEVERAL, Release)
        }
        _ => set(place, epoll, event),
    }
}

/// Returns whether a descriptor is in a set still: the set, or the descriptor, may have been closed unseen.
fn is_in(epoll: c_int, fd: c_int, place: &Place) -> bool {
    let mut event = event_of(place);
    // SAFETY: the event is there.
    unsafe { real::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, &raw mut event) == 0 }
}

/// What is asked for was changed.
pub fn changed(epoll: c_int, fd: c_int, event: epoll_event) {
    if let Some(place) =
        place_of(fd).filter(|place| place.epoll.load(Relaxed) == epoll && sys::is_own_process())
    {
        set(place, epoll, event);
    }
}

/// Taken out of a set.
pub fn removed(epoll: c_int, fd: c_int) {
    if place_of(fd).is_some_and(|place| place.epoll.load(Relaxed) == epoll) {
        forget(fd);
    }
}

/// Two descriptors are one socket.
pub fn copied(one: c_int, other: c_int) {
    if !sys::is_own_process() {
        return;
    }
    for fd in [one, other] {
        match place_of(fd) {
            Some(place) => place.epoll.store(COPIED, Release),
            None => BEYOND.store(true, Relaxed),
        }
    }
}

/// The descriptor is closed, or will be another socket's.
pub fn forget(fd: c_int) {
    if let Some(place) = place_of(fd).filter(|place| place.epoll.load(Relaxed) != NONE) {
        if sys::is_own_process() {
            place.epoll.store(NONE, Release);
        }
    }
}

/// Returns whether another socket can take a descriptor.
pub fn check(fd: c_int) -> Result<(), Why> {
    match place_of(fd).map(|place| place.epoll.load(Relaxed)) {
        Some(SEVERAL) => Err(Why::Watched),
        Some(COPIED) => Err(Why::Copied),
        None if BEYOND.load(Relaxed) => Err(Why::Watched),
        _ => Ok(()),
    }
}

/// A set that a descriptor is in, and will be in again.
pub struct Watch {
    epoll: c_int,
    fd: c_int,
    event: epoll_event,
}

impl Watch {
    /// Takes a descriptor out of its set, if it is in one still.
    pub fn suspend(fd: c_int) -> Option<Self> {
        let place = place_of(fd)?;
        let (epoll, event) = (place.epoll.load(Relaxed), event_of(place));
        if epoll == NONE {
            return None;
        }
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
