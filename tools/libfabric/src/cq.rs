// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completion queues. One that is read and is empty has its endpoints handle what the driver has said.
//!
//! A queue grows as far as it has to: no endpoint completes more than the program has posted.

use crate::base::{Object, absent, close, core_of, head, lock, meaning, no_bind};
use crate::completion::{Done, Next, Queue, entry_bytes, fill, fill_error};
use crate::domain::Domain;
use crate::fi::*;
use crate::progress::{Members, Progress};
use crate::wait::{Patience, Sleepers, Until, Wait};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// What the lock of a queue guards.
#[derive(Debug, Default)]
struct Inside {
    queue: Queue,
    sleepers: Sleepers,
    /// `fi_cq_signal()` was called.
    signalled: bool,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    inside: Mutex<Inside>,
    /// What is to be handled when the queue is empty.
    endpoints: Members,
    wait: Option<Wait>,
    /// Bytes of an entry.
    bytes: usize,
    wait_obj: u32,
    api: u32,
    patience: Patience,
    _domain: Option<Arc<Domain>>,
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidCq, Cq>,
    bind: no_bind,
    control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static CQ: OpsCq =
    OpsCq { size: size_of::<OpsCq>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

/// What threads sleep on, if the program wants to.
pub fn wait_for(wait_obj: u32, wait_set: *mut c_void) -> Result<Option<Wait>, c_int> {
    match wait_obj {
        FI_WAIT_NONE => Ok(None),
        FI_WAIT_UNSPEC | FI_WAIT_FD if wait_set.is_null() => {
            Wait::new().map(Some).map_err(|error| error.raw_os_error().unwrap_or(FI_ENOMEM))
        }
        _ => Err(FI_ENOSYS),
    }
}

/// `fi_control(FI_GETWAIT)` and `fi_control(FI_GETWAITOBJ)`.
///
/// # Safety
///
/// `arg` is what the command says.
pub unsafe fn tell_wait(
    wait: Option<&Wait>,
    wait_obj: u32,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    match (command, wait) {
        (FI_GETWAIT, Some(wait)) if !arg.is_null() => {
            // SAFETY: It is the place of a descriptor.
            unsafe { arg.cast::<c_int>().write(wait.raw()) };
            0
        }
        (FI_GETWAITOBJ, _) if !arg.is_null() => {
            // SAFETY: It is the place of an `enum fi_wait_obj`.
            unsafe { arg.cast::<u32>().write(wait_obj) };
            0
        }
        (FI_GETWAIT, None) => -FI_ENODATA,
        _ => -FI_ENOSYS,
    }
}

/// `fi_cq_open()`.
pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut CqAttr,
    out: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The program gives its attributes.
    let attr = unsafe { &mut *attr };
    if attr.format == FI_CQ_FORMAT_UNSPEC {
        attr.format = FI_CQ_FORMAT_CONTEXT;
    }
    let Some(bytes) = entry_bytes(attr.format) else { return -FI_EINVAL };
    let wait = match wait_for(attr.wait_obj, attr.wait_set) {
        Ok(wait) => wait,
        Err(error) => return -error,
    };
    let domain = core_of!(domain, FidDomain, Domain).clone();
    let wait_obj = if wait.is_some() { FI_WAIT_FD } else { FI_WAIT_NONE };
    let cq = Cq { wait_obj, api: domain.api, _domain: Some(domain), ..Cq::new(bytes, wait) };
    let fid = FidCq { fid: head(FI_CLASS_CQ, context, &OPS), ops: &CQ };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(cq), out) }
}

impl Cq {
    fn new(bytes: usize, wait: Option<Wait>) -> Self {
        Cq {
            inside: Mutex::default(),
            endpoints: Members::default(),
            wait,
            bytes,
            wait_obj: FI_WAIT_NONE,
            api: 0,
            patience: Patience::default(),
            _domain: None,
        }
    }

    /// Puts a completion into the queue.
    pub fn push(&self, done: Done) {
        let mut inside = lock(&self.inside);
        inside.queue.push(done);
        inside.sleepers.wake(self.wait.as_ref());
    }

    /// Adds an endpoint, for which threads are woken as well.
    pub fn add(&self, endpoint: &Arc<dyn Progress>) -> Result<(), c_int> {
        self.endpoints.add(endpoint, self.wait.as_ref())
    }

    /// And no more.
    pub fn forget(&self, endpoint: &Arc<dyn Progress>) {
        self.endpoints.forget(endpoint, self.wait.as_ref());
    }

    /// What is next, once the endpoints have been asked if there was nothing; with `polls`, by a thread that asks again
    /// soon.
    fn look(&self, polls: bool) -> Next {
        let next = {
            let mut inside = lock(&self.inside);
            inside.sleepers.disarm();
            inside.queue.next()
        };
        if next != Next::Nothing {
            return next;
        }
        match polls {
            true => self.endpoints.poll(),
            false => self.endpoints.progress(),
        };
        lock(&self.inside).queue.next()
    }

    /// Reads without waiting; `polls` as above.
    ///
    /// # Safety
    ///
    /// There is room for `count` entries, and sources, of each that is not null.
    unsafe fn read(
        &self,
        to: *mut c_void,
        count: usize,
        sources: *mut FiAddr,
        polls: bool,
    ) -> isize {
        match self.look(polls) {
            Next::Error => return -FI_EAVAIL as isize,
            Next::Success if count > 0 => {
                self.patience.renew();
                let mut inside = lock(&self.inside);
                // SAFETY: As the caller says.
                let read = unsafe { fill(&mut inside.queue, self.bytes, to, count, sources) };
                if read > 0 {
                    return read as isize;
                }
                // Another thread was faster.
            }
            Next::Success => return 0,
            Next::Nothing => {}
        }
        self.patience.lose();
        -FI_EAGAIN as isize
    }

    /// Reads, and waits until there is something.
    ///
    /// # Safety
    ///
    /// As [`Self::read`].
    unsafe fn sleep(
        &self,
        to: *mut c_void,
        count: usize,
        sources: *mut FiAddr,
        timeout: c_int,
    ) -> isize {
        let Some(wait) = &self.wait else { return -FI_EINVAL as isize };
        let until = Until::milliseconds(timeout);
        let mut woken = false;
        self.endpoints.rest();
        loop {
            // SAFETY: As the caller says.
            let read = unsafe { self.read(to, count, sources, false) };
            if read != -FI_EAGAIN as isize {
                return read;
            }
            if woken {
                // For nothing: a port that is gone wakes again and again.
                self.endpoints.forget_gone(wait);
            }
            {
                let mut inside = lock(&self.inside);
                if std::mem::take(&mut inside.signalled) || until.is_over() {
                    return -FI_EAGAIN as isize;
                }
                inside.sleepers.enter(wait);
                // Whatever comes from here on wakes this thread.
                if inside.queue.next() != Next::Nothing {
                    inside.sleepers.leave();
                    continue;
                }
            }
            woken = wait.sleep(self.endpoints.limit(until));
            lock(&self.inside).sleepers.leave();
        }
    }

    /// Whether the program may wait for the descriptor.
    pub fn try_wait(&self) -> bool {
        let Some(wait) = &self.wait else { return false };
        self.endpoints.rest();
        if self.look(false) != Next::Nothing {
            return false;
        }
        let mut inside = lock(&self.inside);
        inside.sleepers.arm(wait);
        let may = inside.queue.next() == Next::Nothing && !std::mem::take(&mut inside.signalled);
        drop(inside);
        may && self.endpoints.are_settled()
    }

    fn signal(&self) -> c_int {
        let Some(wait) = &self.wait else { return -FI_EINVAL };
        lock(&self.inside).signalled = true;
        wait.notify();
        0
    }
}

unsafe extern "C" fn read(cq: *mut FidCq, to: *mut c_void, count: usize) -> isize {
    let cq = core_of!(cq, FidCq, Cq);
    // SAFETY: The program says how much room there is.
    unsafe { cq.read(to, count, null_mut(), true) }
}

unsafe extern "C" fn readfrom(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut FiAddr,
) -> isize {
    let cq = core_of!(cq, FidCq, Cq);
    // SAFETY: Likewise.
    unsafe { cq.read(to, count, sources, true) }
}

unsafe extern "C" fn readerr(cq: *mut FidCq, to: *mut CqErrEntry, _flags: u64) -> isize {
    let cq = core_of!(cq, FidCq, Cq);
    cq.look(false);
    let Some(done) = lock(&cq.inside).queue.take_error() else { return -FI_EAGAIN as isize };
    // SAFETY: The program gives an entry of the version that it uses.
    unsafe { fill_error(&done, cq.api, to) };
    1
}

unsafe extern "C" fn sread(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    let cq = core_of!(cq, FidCq, Cq);
    // SAFETY: As for `read`.
    unsafe { cq.sleep(to, count, null_mut(), timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut FiAddr,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    let cq = core_of!(cq, FidCq, Cq);
    // SAFETY: As for `read`.
    unsafe { cq.sleep(to, count, sources, timeout) }
}

unsafe extern "C" fn signal(cq: *mut FidCq) -> c_int {
    core_of!(cq, FidCq, Cq).signal()
}

/// The words for an error of the provider, of all kinds of queues.
///
/// # Safety
///
/// There is room for `len` bytes, or `to` is null.
pub unsafe fn say(prov_errno: c_int, to: *mut c_char, len: usize) -> *const c_char {
    let words = meaning(prov_errno);
    if !to.is_null() && len > 0 {
        let bytes = words.to_bytes();
        let count = bytes.len().min(len - 1);
        // SAFETY: As the caller says.
        unsafe {
            to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), count);
            to.add(count).write(0);
        }
    }
    words.as_ptr()
}

unsafe extern "C" fn strerror(
    _cq: *mut FidCq,
    prov_errno: c_int,
    _data: *const c_void,
    to: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: The program says how much room there is.
    unsafe { say(prov_errno, to, len) }
}

unsafe extern "C" fn control(cq: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    let cq = core_of!(cq, FidCq, Cq);
    // SAFETY: The program gives what the command wants.
    unsafe { tell_wait(cq.wait.as_ref(), cq.wait_obj, command, arg) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn done(n: usize, error: c_int) -> Done {
        let entry = CqTaggedEntry {
            op_context: std::ptr::without_provenance_mut(n),
            flags: FI_RECV,
            len: 0,
            buf: null_mut(),
            data: 0,
            tag: 0,
        };
        Done { entry, source: FI_ADDR_UNSPEC, error, prov_errno: 0, left: 0 }
    }

    fn cq() -> Arc<Cq> {
        Arc::new(Cq::new(8, Some(Wait::new().expect("there are descriptors"))))
    }

    fn slept(cq: &Cq, timeout: c_int) -> (isize, u64) {
        let mut to = 0;
        // SAFETY: There is room for one.
        let read = unsafe { cq.sleep((&raw mut to).cast(), 1, null_mut(), timeout) };
        (read, to)
    }

    #[test]
    fn completions_come_in_their_order_and_errors_in_between() {
        let cq = cq();
        [(1, 0), (2, FI_EIO), (3, 0)].into_iter().for_each(|(n, error)| cq.push(done(n, error)));
        let mut to = [0u64; 4];
        // SAFETY: There is room for four.
        let mut read = || unsafe { cq.read(to.as_mut_ptr().cast(), 4, null_mut(), false) };
        assert_eq!((read(), read()), (1, -FI_EAVAIL as isize));
        assert!(lock(&cq.inside).queue.take_error().is_some());
        assert_eq!((read(), read()), (1, -FI_EAGAIN as isize));
    }

    #[test]
    fn a_sleeper_is_woken_by_what_another_thread_puts_there() {
        let cq = cq();
        assert_eq!(slept(&cq, 1).0, -FI_EAGAIN as isize);
        for round in 0..200u64 {
            let other = cq.clone();
            let thread = std::thread::spawn(move || {
                // At any time with regard to the sleeper.
                (0..round * 50).for_each(|_| std::hint::spin_loop());
                other.push(done(round as usize + 1, 0));
            });
            assert_eq!(slept(&cq, -1), (1, round + 1));
            thread.join().expect("it has not failed");
        }
    }

    #[test]
    fn all_sleepers_are_woken() {
        let cq = cq();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let cq = cq.clone();
                std::thread::spawn(move || slept(&cq, 20_000).0)
            })
            .collect();
        for n in 0..4 {
            cq.push(done(n, 0));
            std::thread::sleep(Duration::from_millis(n as u64));
        }
        for thread in threads {
            assert_eq!(thread.join().expect("it has not failed"), 1);
        }
    }

    #[test]
    fn a_signal_ends_a_sleep() {
        let cq = cq();
        assert_eq!(cq.signal(), 0);
        let since = Instant::now();
        assert_eq!(slept(&cq, 20_000).0, -FI_EAGAIN as isize);
        assert!(since.elapsed() < Duration::from_secs(10));
        assert_eq!(Cq::new(8, None).signal(), -FI_EINVAL);
    }

    #[test]
    fn a_program_may_wait_by_itself_when_there_is_nothing() {
        let cq = cq();
        assert!(cq.try_wait());
        let wait = cq.wait.as_ref().expect("it has one");
        assert!(!wait.sleep(Until::milliseconds(0)));
        cq.push(done(1, 0));
        assert!(wait.sleep(Until::milliseconds(-1)) && !cq.try_wait());
        assert_eq!(slept(&cq, 0).0, 1);
        assert!(cq.try_wait() && !wait.sleep(Until::milliseconds(0)));
        assert!(!Cq::new(8, None).try_wait());
    }

    #[test]
    fn there_are_two_kinds_of_waiting() {
        assert!(wait_for(FI_WAIT_NONE, null_mut()).is_ok_and(|wait| wait.is_none()));
        for kind in [FI_WAIT_UNSPEC, FI_WAIT_FD] {
            assert!(wait_for(kind, null_mut()).is_ok_and(|wait| wait.is_some()));
        }
        for kind in [2, 4, 5, 6] {
            assert!(matches!(wait_for(kind, null_mut()), Err(FI_ENOSYS)));
        }
    }
}
