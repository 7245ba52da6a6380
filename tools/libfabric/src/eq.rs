// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Event queues. Connectionless endpoints have no events; a program reads what it has written itself. fi_pingpong opens
//! one whatever its endpoint is.

use crate::base::{Object, absent, close, core_of, head, lock, no_bind};
use crate::cq::{say, tell_wait, wait_for};
use crate::fabric::Fabric;
use crate::fi::*;
use crate::wait::{Sleepers, Until, Wait};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::slice::from_raw_parts;
use std::sync::{Arc, Mutex};

/// Leaves an event in the queue.
const PEEK: u64 = FI_PEEK;

/// What the lock of a queue guards.
#[derive(Debug, Default)]
struct Inside {
    events: VecDeque<(u32, Vec<u8>)>,
    sleepers: Sleepers,
}

/// An event queue.
#[derive(Debug)]
pub struct Eq {
    inside: Mutex<Inside>,
    wait: Option<Wait>,
    wait_obj: u32,
    _fabric: Option<Arc<Fabric>>,
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidEq, Eq>,
    bind: no_bind,
    control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static EQ: OpsEq = OpsEq { size: size_of::<OpsEq>(), read, readerr, write, sread, strerror };

/// `fi_eq_open()`.
pub unsafe extern "C" fn open(
    fabric: *mut FidFabric,
    attr: *mut EqAttr,
    out: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The program gives its attributes, or none.
    let attr = unsafe { attr.as_ref() };
    let wait = match attr.map_or(Ok(None), |attr| wait_for(attr.wait_obj, attr.wait_set)) {
        Ok(wait) => wait,
        Err(error) => return -error,
    };
    let fabric = core_of!(fabric, FidFabric, Fabric).clone();
    let eq = Eq { _fabric: Some(fabric), ..Eq::new(wait) };
    let fid = FidEq { fid: head(FI_CLASS_EQ, context, &OPS), ops: &EQ };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(eq), out) }
}

impl Eq {
    fn new(wait: Option<Wait>) -> Self {
        let wait_obj = if wait.is_some() { FI_WAIT_FD } else { FI_WAIT_NONE };
        Eq { inside: Mutex::default(), wait, wait_obj, _fabric: None }
    }

    fn write(&self, event: u32, bytes: &[u8]) {
        let mut inside = lock(&self.inside);
        inside.events.push_back((event, bytes.to_vec()));
        inside.sleepers.wake(self.wait.as_ref());
    }

    /// The next event, as far as `take` has room for it.
    fn read(&self, peek: bool, take: impl FnOnce(u32, &[u8]) -> bool) -> isize {
        let mut inside = lock(&self.inside);
        inside.sleepers.disarm();
        let Some((event, bytes)) = inside.events.front() else { return -FI_EAGAIN as isize };
        let read = bytes.len() as isize;
        if !take(*event, bytes) {
            return -FI_ETOOSMALL as isize;
        }
        if !peek {
            inside.events.pop_front();
        }
        read
    }

    /// Sleeps until there is an event; false when time is up.
    fn sleep(&self, wait: &Wait, until: Until) -> bool {
        loop {
            {
                let mut inside = lock(&self.inside);
                if !inside.events.is_empty() {
                    return true;
                }
                if until.is_over() {
                    return false;
                }
                inside.sleepers.enter(wait);
            }
            wait.sleep(until);
            lock(&self.inside).sleepers.leave();
        }
    }

    /// Whether the program may wait for the descriptor.
    pub fn try_wait(&self) -> bool {
        let Some(wait) = &self.wait else { return false };
        let mut inside = lock(&self.inside);
        inside.sleepers.arm(wait);
        inside.events.is_empty()
    }
}

unsafe extern "C" fn read(
    eq: *mut FidEq,
    event: *mut u32,
    to: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    let take = |number: u32, bytes: &[u8]| {
        if bytes.len() > len {
            return false;
        }
        // SAFETY: The program says how much room there is.
        unsafe {
            event.write(number);
            to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        true
    };
    core_of!(eq, FidEq, Eq).read(flags & PEEK != 0, take)
}

unsafe extern "C" fn sread(
    eq: *mut FidEq,
    event: *mut u32,
    to: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let core = core_of!(eq, FidEq, Eq);
    let Some(wait) = &core.wait else { return -FI_EINVAL as isize };
    let until = Until::milliseconds(timeout);
    loop {
        if !core.sleep(wait, until) {
            return -FI_EAGAIN as isize;
        }
        // SAFETY: As this function's caller says of the same arguments.
        let read = unsafe { read(eq, event, to, len, flags) };
        // Another thread may have been faster.
        if read != -FI_EAGAIN as isize {
            return read;
        }
    }
}

/// There are no errors: what fails is told by a completion.
unsafe extern "C" fn readerr(_eq: *mut FidEq, _to: *mut EqErrEntry, _flags: u64) -> isize {
    -FI_EAGAIN as isize
}

unsafe extern "C" fn write(
    eq: *mut FidEq,
    event: u32,
    from: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    if flags != 0 || (from.is_null() && len > 0) {
        return -FI_EINVAL as isize;
    }
    let bytes = match len {
        0 => &[],
        // SAFETY: The program gives so many bytes.
        _ => unsafe { from_raw_parts(from.cast::<u8>(), len) },
    };
    core_of!(eq, FidEq, Eq).write(event, bytes);
    len as isize
}

unsafe extern "C" fn strerror(
    _eq: *mut FidEq,
    prov_errno: c_int,
    _data: *const c_void,
    to: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: The program says how much room there is.
    unsafe { say(prov_errno, to, len) }
}

unsafe extern "C" fn control(eq: *mut Fid, command: c_int, arg: *mut c_void) -> c_int {
    let eq = core_of!(eq, FidEq, Eq);
    // SAFETY: The program gives what the command wants.
    unsafe { tell_wait(eq.wait.as_ref(), eq.wait_obj, command, arg) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let eq = Eq::new(None);
        let mut seen = Vec::new();
        let mut read = |peek, room: usize| {
            eq.read(peek, |event, bytes| {
                seen.push(event);
                bytes.len() <= room
            })
        };
        assert_eq!(read(false, 9), -FI_EAGAIN as isize);
        eq.write(3, b"hello");
        eq.write(4, b"");
        assert_eq!(read(false, 4), -FI_ETOOSMALL as isize);
        assert_eq!((read(true, 5), read(false, 5)), (5, 5));
        assert_eq!((read(false, 0), read(false, 0)), (0, -FI_EAGAIN as isize));
        assert_eq!(seen, [3, 3, 3, 4]);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let eq = Arc::new(Eq::new(Some(Wait::new().expect("there are descriptors"))));
        let wait = eq.wait.as_ref().expect("it has one");
        assert!(!eq.sleep(wait, Until::milliseconds(1)));
        assert!(eq.try_wait());
        let other = eq.clone();
        let thread = std::thread::spawn(move || other.write(1, b"x"));
        assert!(eq.sleep(wait, Until::milliseconds(-1)));
        thread.join().expect("it has not failed");
        assert!(!eq.try_wait());
    }
}
