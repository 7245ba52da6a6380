// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What has to be looked after when a program looks at a queue or a counter: the endpoints bound to it.

use crate::fi::FI_EIO;
use crate::wait::{Until, Wait};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::c_int;
use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

/// How long a thread sleeps while there are commands that found no slot, in milliseconds.
const SOON: i32 = 1;

/// Something whose events have to be handled.
pub trait Progress: Debug + Send + Sync {
    /// Handles events. Returns whether there were any.
    fn progress(&self) -> bool;
    /// The same, for a thread that does so again and again: if there are none, it does the driver's work.
    fn poll(&self) -> bool {
        self.progress()
    }
    /// The driver wakes for events from here on.
    fn rest(&self) {}
    /// Whether the driver has all commands: only then it wakes for all that is to come.
    fn is_settled(&self) -> bool;
    /// Lends the descriptor that can be read while there are events.
    fn lend(&self, act: &mut dyn FnMut(BorrowedFd<'_>));
    /// Whether something is to begin with an event, without a call of the program.
    fn holds(&self) -> bool {
        false
    }
}

/// Whether two are the same.
fn is(one: &Arc<dyn Progress>, other: &Arc<dyn Progress>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// The endpoints of a queue or a counter, and how often each was added.
#[derive(Debug, Default)]
pub struct Members(RwLock<Vec<(Arc<dyn Progress>, usize)>>);

impl Members {
    fn each(&self, mut act: impl FnMut(&dyn Progress)) {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|(member, _)| act(&**member));
    }

    /// Adds one; `wait` is woken for it as well. One that is there already has to be forgotten as often.
    pub fn add(&self, member: &Arc<dyn Progress>, wait: Option<&Wait>) -> Result<(), c_int> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, times)) = all.iter_mut().find(|(other, _)| is(other, member)) {
            *times += 1;
            return Ok(());
        }
        let mut watched = Ok(());
        if let Some(wait) = wait {
            member.lend(&mut |fd| watched = wait.watch(fd));
        }
        watched.map_err(|error| error.raw_os_error().unwrap_or(FI_EIO))?;
        all.push((member.clone(), 1));
        Ok(())
    }

    pub fn forget(&self, member: &Arc<dyn Progress>, wait: Option<&Wait>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = all.iter().position(|(other, _)| is(other, member)) else { return };
        if all[at].1 > 1 {
            all[at].1 -= 1;
            return;
        }
        if let Some(wait) = wait {
            member.lend(&mut |fd| wait.forget(fd));
        }
        all.remove(at);
    }

    /// Has all of them handle their events. Returns whether there were any.
    pub fn progress(&self) -> bool {
        let mut any = false;
        self.each(|member| any |= member.progress());
        any
    }

    /// The same, for a thread that does so again and again.
    pub fn poll(&self) -> bool {
        let mut any = false;
        self.each(|member| any |= member.poll());
        any
    }

    /// The thread sleeps next.
    pub fn rest(&self) {
        self.each(|member| member.rest());
    }

    /// Whether the driver has the commands of all.
    pub fn are_settled(&self) -> bool {
        let mut all = true;
        self.each(|member| all &= member.is_settled());
        all
    }

    /// Whether something of any is to begin without a call of the program.
    pub fn hold(&self) -> bool {
        let mut any = false;
        self.each(|member| any |= member.holds());
        any
    }

    /// Has `wait` woken for all of them.
    pub fn watch(&self, wait: &Wait) {
        self.each(|member| {
            // One that cannot be watched is looked after when another wakes.
            member.lend(&mut |fd| drop(wait.watch(fd)));
        });
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Until when a thread may sleep.
    pub fn limit(&self, until: Until) -> Until {
        if self.are_settled() { until } else { until.within(SOON) }
    }

    /// Is not woken any more for those whose port is gone.
    pub fn forget_gone(&self, wait: &Wait) {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.each(|member| {
            member.lend(&mut |fd| {
                let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                let any = poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0);
                if any && polled[0].revents().contains(PollFlags::HUP) {
                    wait.forget(fd);
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[derive(Debug)]
    struct Fake {
        fd: OwnedFd,
        events: AtomicUsize,
        polls: AtomicUsize,
        settled: AtomicBool,
    }

    impl Progress for Fake {
        fn progress(&self) -> bool {
            self.events.swap(0, Ordering::Relaxed) > 0
        }

        fn poll(&self) -> bool {
            self.polls.fetch_add(1, Ordering::Relaxed);
            self.progress()
        }

        fn rest(&self) {
            self.polls.store(0, Ordering::Relaxed);
        }

        fn is_settled(&self) -> bool {
            self.settled.load(Ordering::Relaxed)
        }

        fn lend(&self, act: &mut dyn FnMut(BorrowedFd<'_>)) {
            act(self.fd.as_fd());
        }
    }

    fn fake(fd: OwnedFd) -> Arc<Fake> {
        let (events, polls) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Fake { fd, events, polls, settled: AtomicBool::new(true) })
    }

    #[test]
    fn members_are_looked_after_while_they_are_some() {
        let wait = Wait::new().expect("there are descriptors");
        let event = eventfd(1, EventfdFlags::NONBLOCK).expect("there are descriptors");
        let one = fake(event);
        let member: Arc<dyn Progress> = one.clone();
        let members = Members::default();
        assert!(members.are_settled() && !members.progress());
        members.add(&member, Some(&wait)).expect("watched");
        members.add(&member, Some(&wait)).expect("it is there already");
        assert_eq!(Arc::strong_count(&one), 3);
        assert!(wait.sleep(Until::milliseconds(-1)));
        one.events.store(1, Ordering::Relaxed);
        assert!(members.progress() && !members.progress());
        one.events.store(1, Ordering::Relaxed);
        assert!(members.poll() && !members.poll());
        assert_eq!(one.polls.load(Ordering::Relaxed), 2);
        members.rest();
        assert_eq!(one.polls.load(Ordering::Relaxed), 0);
        one.settled.store(false, Ordering::Relaxed);
        assert!(!members.are_settled());
        members.forget(&member, Some(&wait));
        assert!(!members.are_settled());
        members.forget(&member, Some(&wait));
        members.forget(&member, Some(&wait));
        assert!(members.are_settled() && !wait.sleep(Until::milliseconds(0)));
        assert_eq!(Arc::strong_count(&one), 2);
    }

    #[test]
    fn a_thread_sleeps_shortly_while_commands_wait() {
        let wait = Wait::new().expect("there are descriptors");
        let one = fake(eventfd(0, EventfdFlags::NONBLOCK).expect("there are descriptors"));
        let members = Members::default();
        members.add(&(one.clone() as Arc<dyn Progress>), None).expect("added");
        one.settled.store(false, Ordering::Relaxed);
        // Else it would sleep for ever.
        assert!(!wait.sleep(members.limit(Until::milliseconds(-1))));
    }

    #[test]
    fn what_is_gone_wakes_no_more() {
        let wait = Wait::new().expect("there are descriptors");
        let (one, other) = UnixStream::pair().expect("there are descriptors");
        let members = Members::default();
        members.add(&(fake(one.into()) as Arc<dyn Progress>), Some(&wait)).expect("watched");
        members.forget_gone(&wait);
        assert!(!wait.sleep(Until::milliseconds(0)));
        drop(other);
        assert!(wait.sleep(Until::milliseconds(-1)));
        members.forget_gone(&wait);
        assert!(!wait.sleep(Until::milliseconds(0)));
    }
}
