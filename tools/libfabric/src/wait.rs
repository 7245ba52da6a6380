// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How a thread sleeps until there is something in a queue.
//!
//! What there is comes from two sides: the driver, whose interfaces can be read while they have events, and other
//! threads of the program, which take these events and put completions into queues. An epoll descriptor has both: the
//! interfaces, and an eventfd that is written for sleepers.
//!
//! A wake-up is not lost, since a sleeper says so and looks into the queue under the lock of the queue, and what is put
//! into it is under this lock as well. Then either the sleeper finds it, or what has put it there finds the sleeper.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What threads sleep on.
#[derive(Debug)]
pub struct Wait {
    epoll: OwnedFd,
    event: OwnedFd,
}

impl Wait {
    /// Makes one that nothing wakes but [`Self::notify`].
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &event, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Wait { epoll, event })
    }

    /// Wakes for what can be read from a descriptor, too.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        match epoll::add(&self.epoll, fd, epoll::EventData::new_u64(1), epoll::EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// And no more.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        // It may be forgotten already.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Wakes all that sleep, until [`Self::clear`].
    pub fn notify(&self) {
        // It can only be full: then it can be read.
        let _ = write(&self.event, &1u64.to_ne_bytes());
    }

    /// Takes back what woke the last ones.
    pub fn clear(&self) {
        let _ = read(&self.event, &mut [0u8; 8]);
    }

    /// Sleeps; false when time is up.
    pub fn sleep(&self, until: Until) -> bool {
        let timeout = until.left().map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], timeout.as_ref()) {
            Ok(count) => count > 0,
            // A signal: the caller looks, and sleeps again.
            Err(_) => !until.is_over(),
        }
    }

    /// The descriptor, for programs that wait by themselves.
    pub fn raw(&self) -> RawFd {
        self.epoll.as_fd().as_raw_fd()
    }
}

/// How long a thread that looks again and again, and finds nothing, keeps the processor for itself: the driver's thread
/// may be waiting for it.
#[derive(Debug, Default)]
pub struct Patience(AtomicU32);

impl Patience {
    /// So many empty looks, one after the other, and it gives way with each.
    const LOOKS: u32 = 16;

    /// There was something.
    pub fn renew(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// There was nothing. Returns whether it gave way.
    pub fn lose(&self) -> bool {
        // Threads may lose some of their looks to each other.
        let looks = self.0.load(Ordering::Relaxed);
        let lost = looks >= Self::LOOKS;
        if lost {
            rustix::thread::sched_yield();
        } else {
            self.0.store(looks + 1, Ordering::Relaxed);
        }
        lost
    }
}

/// When a wait ends.
#[derive(Clone, Copy, Debug)]
pub struct Until(Option<Instant>);

impl Until {
    /// In so many milliseconds; never, if they are negative.
    pub fn milliseconds(ms: i32) -> Self {
        let ms = u64::try_from(ms).ok();
        Until(ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))))
    }

    /// The same, but in so many milliseconds at the latest.
    pub fn within(self, ms: i32) -> Self {
        let other = Until::milliseconds(ms);
        match (self.0, other.0) {
            (Some(a), Some(b)) => Until(Some(a.min(b))),
            (None, _) => other,
            (_, None) => self,
        }
    }

    fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// Threads that sleep, or are about to: a part of what the lock of a queue guards.
#[derive(Debug, Default)]
pub struct Sleepers {
    count: usize,
    /// The program waits for the descriptor by itself.
    armed: bool,
}

impl Sleepers {
    /// A thread is about to sleep if it finds nothing now. Until [`Self::leave`].
    pub fn enter(&mut self, wait: &Wait) {
        // What woke others was for what is gone by now: the queue is looked at next.
        wait.clear();
        self.count += 1;
    }

    pub fn leave(&mut self) {
        self.count -= 1;
    }

    /// The program is about to wait for the descriptor if nothing is found now. Until [`Self::disarm`].
    pub fn arm(&mut self, wait: &Wait) {
        wait.clear();
        self.armed = true;
    }

    pub fn disarm(&mut self) {
        self.armed = false;
    }

    /// Something was put into the queue.
    pub fn wake(&self, wait: Option<&Wait>) {
        if let Some(wait) = wait.filter(|_| self.armed || self.count > 0) {
            wait.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i32 = 0;

    #[test]
    fn a_sleeper_is_woken_until_it_is_cleared() {
        let wait = Wait::new().expect("there are descriptors");
        assert!(!wait.sleep(Until::milliseconds(NOW)));
        wait.notify();
        wait.notify();
        assert!(wait.sleep(Until::milliseconds(-1)) && wait.sleep(Until::milliseconds(-1)));
        wait.clear();
        assert!(!wait.sleep(Until::milliseconds(1)));
    }

    #[test]
    fn descriptors_wake_while_they_can_be_read() {
        let wait = Wait::new().expect("there are descriptors");
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("there are descriptors");
        wait.watch(event.as_fd()).expect("watched");
        wait.watch(event.as_fd()).expect("it is already");
        assert!(!wait.sleep(Until::milliseconds(NOW)));
        write(&event, &1u64.to_ne_bytes()).expect("written");
        wait.clear();
        assert!(wait.sleep(Until::milliseconds(-1)));
        wait.forget(event.as_fd());
        assert!(!wait.sleep(Until::milliseconds(NOW)));
        wait.forget(event.as_fd());
    }

    #[test]
    fn only_sleepers_are_woken() {
        let wait = Wait::new().expect("there are descriptors");
        let woken = || wait.sleep(Until::milliseconds(NOW));
        let mut sleepers = Sleepers::default();
        sleepers.wake(Some(&wait));
        sleepers.wake(None);
        assert!(!woken());
        sleepers.enter(&wait);
        sleepers.enter(&wait);
        sleepers.leave();
        sleepers.wake(Some(&wait));
        assert!(woken());
        sleepers.enter(&wait);
        assert!(!woken());
        sleepers.leave();
        sleepers.leave();
        sleepers.wake(Some(&wait));
        assert!(!woken());
        sleepers.arm(&wait);
        sleepers.wake(Some(&wait));
        assert!(woken());
        sleepers.disarm();
        wait.clear();
        sleepers.wake(Some(&wait));
        assert!(!woken());
    }

    #[test]
    fn patience_is_lost_by_looking() {
        let patience = Patience::default();
        for _ in 0..2 {
            assert!((0..Patience::LOOKS).all(|_| !patience.lose()));
            assert!(patience.lose() && patience.lose());
            patience.renew();
        }
    }

    #[test]
    fn time_is_up_when_it_is() {
        assert!(Until::milliseconds(0).is_over());
        assert!(!Until::milliseconds(-1).is_over());
        assert!(!Until::milliseconds(i32::MAX).is_over());
        assert!(Until::milliseconds(-1).within(0).is_over());
        assert!(Until::milliseconds(0).within(i32::MAX).is_over());
    }
}
