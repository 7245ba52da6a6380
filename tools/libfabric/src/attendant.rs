// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A thread that looks after the endpoints of a domain while something is to begin without a call of the program: deferred
//! work that waits for a counter, and operations that wait behind a fence.
//!
//! There is none before it is called for the first time. While there is nothing of that kind it sleeps, and no event of
//! an endpoint wakes it.

use crate::base::lock;
use crate::fi::*;
use crate::progress::{Members, Progress};
use crate::wait::{Sleepers, Until, Wait};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct State {
    /// It is to look once more before it sleeps.
    called: bool,
    /// It is to end.
    ended: bool,
    sleepers: Sleepers,
    thread: Option<JoinHandle<()>>,
}

/// The thread, and what it looks after.
#[derive(Debug, Default)]
pub struct Attendant {
    members: Members,
    wait: OnceLock<Wait>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Attendant {
    pub fn add(&self, member: &Arc<dyn Progress>) -> Result<(), c_int> {
        self.members.add(member, self.wait.get())
    }

    /// When it returns the member is not looked after any more.
    pub fn forget(&self, member: &Arc<dyn Progress>) {
        self.members.forget(member, self.wait.get());
    }

    /// Has the thread look: something is to begin. The first time, it is begun itself; FI_EAGAIN: it cannot be.
    pub fn summon(self: &Arc<Self>) -> Result<(), c_int> {
        let mut state = lock(&self.state);
        if state.thread.is_none() && !state.ended {
            let wait = Wait::new().map_err(|_| FI_EAGAIN)?;
            let attendant = self.clone();
            let thread = quietly(|| {
                let builder = std::thread::Builder::new().name(String::from("weft-fi"));
                builder.spawn(move || attendant.attend())
            });
            state.thread = Some(thread.map_err(|_| FI_EAGAIN)?);
            // It waits for the lock.
            let _ = self.wait.set(wait);
        }
        // One that sleeps looks what there is to begin when it is woken.
        state.called = true;
        self.changed.notify_one();
        Ok(())
    }

    /// Has the thread look at once, if there is one.
    pub fn call(&self) {
        let mut state = lock(&self.state);
        state.called = true;
        state.sleepers.wake(self.wait.get());
        self.changed.notify_one();
    }

    /// Ends the thread, and waits for that; forgets all members.
    pub fn end(&self) {
        let thread = {
            let mut state = lock(&self.state);
            state.ended = true;
            state.thread.take()
        };
        self.call();
        // What it drops last may be what ends it.
        let own = thread.as_ref().is_some_and(|t| t.thread().id() == std::thread::current().id());
        if let Some(thread) = thread.filter(|_| !own) {
            let _ = thread.join();
        }
        self.members.clear();
    }

    fn attend(&self) {
        if let Some(wait) = self.begun() {
            self.members.watch(wait);
            while self.idle() {
                self.look(wait);
            }
        }
    }

    /// Waits until there is what it sleeps on.
    fn begun(&self) -> Option<&Wait> {
        drop(lock(&self.state));
        self.wait.get()
    }

    /// Waits until it is called; false when it is to end.
    fn idle(&self) -> bool {
        let state = lock(&self.state);
        let state = self.changed.wait_while(state, |state| !state.called && !state.ended);
        !state.unwrap_or_else(PoisonError::into_inner).ended
    }

    /// Looks after the members, as long as something is to begin.
    fn look(&self, wait: &Wait) {
        let mut woken = false;
        loop {
            let any = self.members.progress();
            if woken && !any {
                self.members.forget_gone(wait);
            }
            let holds = self.members.hold();
            {
                let mut state = lock(&self.state);
                if state.ended {
                    return;
                }
                if std::mem::take(&mut state.called) || any {
                    woken = false;
                    continue;
                }
                if !holds {
                    return;
                }
                state.sleepers.enter(wait);
            }
            woken = wait.sleep(self.members.limit(Until::milliseconds(-1)));
            lock(&self.state).sleepers.leave();
        }
    }
}

/// Begins a thread that no signal of the program is handled by, but those for what it does itself.
fn quietly<T>(begin: impl FnOnce() -> T) -> T {
    // SAFETY: Both are sets of signals, which these functions fill.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(&mut all, own);
        }
        let blocked = libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) == 0;
        let begun = begin();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{read, write};
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Says when it has handled an event, or was asked whether it holds something.
    #[derive(Debug)]
    struct Fake {
        fd: OwnedFd,
        holds: AtomicBool,
        handled: Mutex<Sender<&'static str>>,
    }

    impl Progress for Fake {
        fn progress(&self) -> bool {
            let any = read(&self.fd, &mut [0u8; 8]).is_ok();
            if any {
                lock(&self.handled).send("event").expect("the test waits");
            }
            any
        }

        fn is_settled(&self) -> bool {
            true
        }

        fn lend(&self, act: &mut dyn FnMut(BorrowedFd<'_>)) {
            act(self.fd.as_fd());
        }

        fn holds(&self) -> bool {
            let holds = self.holds.load(SeqCst);
            lock(&self.handled).send(if holds { "holds" } else { "idle" }).expect("the test waits");
            holds
        }
    }

    fn fake(holds: bool) -> (Arc<Fake>, Arc<dyn Progress>, Receiver<&'static str>) {
        let (handled, said) = channel();
        let fd = eventfd(0, EventfdFlags::NONBLOCK).expect("there are descriptors");
        let fake = Fake { fd, holds: AtomicBool::new(holds), handled: Mutex::new(handled) };
        let fake = Arc::new(fake);
        (fake.clone(), fake, said)
    }

    fn event(fake: &Fake) {
        write(&fake.fd, &1u64.to_ne_bytes()).expect("written");
    }

    /// Waits until something is said.
    fn until(said: &Receiver<&'static str>, what: &str) {
        while said.recv().expect("the member is there") != what {}
    }

    #[test]
    fn events_are_handled_without_the_program_while_something_is_to_begin() {
        let attendant = Arc::new(Attendant::default());
        let (one, member, said) = fake(true);
        attendant.add(&member).expect("added");
        attendant.call();
        assert!(said.try_recv().is_err(), "there is no thread");
        attendant.summon().expect("there are threads");
        until(&said, "holds");
        event(&one);
        until(&said, "event");
        // One that comes later is looked after, too.
        let (two, other, heard) = fake(false);
        attendant.add(&other).expect("added");
        event(&two);
        until(&heard, "event");
        one.holds.store(false, SeqCst);
        attendant.call();
        until(&said, "idle");
        one.holds.store(true, SeqCst);
        attendant.summon().expect("there is a thread");
        until(&said, "holds");
        attendant.forget(&other);
        attendant.end();
        assert_eq!((Arc::strong_count(&two), Arc::strong_count(&attendant)), (2, 1));
        drop(member);
        assert_eq!(Arc::strong_count(&one), 1);
    }

    #[test]
    fn what_was_never_called_ends() {
        let attendant = Arc::new(Attendant::default());
        attendant.end();
        attendant.summon().expect("it is over");
        assert_eq!(Arc::strong_count(&attendant), 1);
    }
}
