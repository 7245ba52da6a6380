// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The functions that programs call in place of libc's. Each hands its arguments on; what is done with them stands in
//! the other modules.
//!
//! `fcntl` and `ioctl` have one argument more at the most, an integer or a pointer: on the architectures that Weft is
//! built for it comes in the same register as that of a function without dots.

use libc::{
    c_int, c_uint, c_ulong, c_void, epoll_event, msghdr, size_t, sockaddr, socklen_t, ssize_t,
};

use crate::{accept, connect, descriptors, explain, names, options, real, sys};

/// Finds the functions of libc and reads the settings, before the program begins.
#[cfg_attr(test, expect(dead_code))]
extern "C" fn load() {
    real::find_all();
    explain::start();
    sys::start();
}

/// Called by the dynamic linker.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

macro_rules! interpose {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty => $called:path;)*) => {
        $(
            /// # Safety
            ///
            /// As libc's.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(unused_unsafe)]
            pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                // SAFETY: by the contract.
                unsafe { $called($($arg),*) }
            }
        )*
    };
}

/// Without flags.
unsafe fn accept_plain(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: by the contract of `accept`.
    unsafe { accept::accept4(fd, addr, len, 0) }
}

fn closefrom_all(first: c_int) {
    descriptors::close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}

interpose! {
    accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int => accept_plain;
    accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int => accept::accept4;
    close(fd: c_int) -> c_int => descriptors::close;
    close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int => descriptors::close_range;
    closefrom(first: c_int) -> () => closefrom_all;
    connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int => connect::connect;
    dup(fd: c_int) -> c_int => descriptors::dup;
    dup2(fd: c_int, to: c_int) -> c_int => descriptors::dup2;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int => descriptors::dup3;
    epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int => descriptors::epoll_ctl;
    fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int => descriptors::fcntl;
    fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int => descriptors::fcntl;
    getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int => names::getpeername;
    getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int => names::getsockname;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int
        => options::getsockopt;
    ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int => descriptors::ioctl;
    listen(fd: c_int, backlog: c_int) -> c_int => accept::listen;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t => descriptors::sendmsg;
    sendto(fd: c_int, data: *const c_void, bytes: size_t, flags: c_int, to: *const sockaddr, len: socklen_t) -> ssize_t
        => descriptors::sendto;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int
        => options::setsockopt;
    shutdown(fd: c_int, how: c_int) -> c_int => descriptors::shutdown;
}
