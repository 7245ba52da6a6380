// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The functions that this library takes the place of, as libc has them, or the next library that is loaded. A thread
//! that is cancelled in one of them unwinds through its callers here, which have nothing to drop then
//! (`crate::sys::NoCancel`).

use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::{
    c_char, c_int, c_uint, c_ulong, c_void, epoll_event, msghdr, size_t, sockaddr, socklen_t,
    ssize_t,
};

/// Found already, or found now.
fn find(at: &AtomicPtr<c_void>, name: *const c_char) -> *mut c_void {
    let known = at.load(Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: `name` ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
    at.store(found, Relaxed);
    found
}

macro_rules! real {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty as $called:ty;)*) => {
        $(
            #[doc = concat!("libc's `", stringify!($name), "`.")]
            ///
            /// # Safety
            ///
            /// As libc's.
            pub unsafe fn $name($($arg: $type),*) -> $ret {
                let at = find(&places::$name, concat!(stringify!($name), "\0").as_ptr().cast());
                if at.is_null() {
                    // SAFETY: it is the thread's own.
                    unsafe { *libc::__errno_location() = libc::ENOSYS };
                    return -1;
                }
                // SAFETY: libc has it with these arguments.
                let called: $called = unsafe { std::mem::transmute(at) };
                // SAFETY: by the contract.
                unsafe { called($($arg),*) }
            }
        )*

        #[allow(non_upper_case_globals)]
        mod places {
            use super::{AtomicPtr, c_void};
            $(pub static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());)*
        }

        /// Looks for all of them: `dlsym` is not for signal handlers.
        pub fn find_all() {
            $(find(&places::$name, concat!(stringify!($name), "\0").as_ptr().cast());)*
        }
    };
}

real! {
    accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    close(fd: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_uint, c_uint, c_int) -> c_int;
    connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int
        as unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int;
    dup(fd: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int, c_int) -> c_int;
    epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int, ...) -> c_int;
    getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int
        as unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int
        as unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_ulong, ...) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t
        as unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
    sendto(fd: c_int, data: *const c_void, bytes: size_t, flags: c_int, to: *const sockaddr, len: socklen_t) -> ssize_t
        as unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int
        as unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
}
