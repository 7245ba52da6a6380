// SPDX-License-Identifier: GPL-2.0 OR MIT

//! AF_VSOCK over AF_UNIX, to be preloaded behind `libweft-sockets.so` in tests on a machine that has no transport: a
//! port is a name of the abstract name space, and what `SO_VM_SOCKETS_BUFFER_MAX_SIZE` says stands in a file in
//! `VSOCK_STUB`, so that it outlives `exec`. Connections come from CID 4097, to CID 4098 if anything is there.

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_void, sockaddr, sockaddr_un, sockaddr_vm, socklen_t};

const LISTENS: u32 = 4098;
const CONNECTS: u32 = 4097;

/// The function that libc has, which `F` is the type of.
fn next<F>(name: &CStr) -> F {
    // SAFETY: the name ends with a zero.
    let at = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!at.is_null(), "libc has no {name:?}");
    // SAFETY: libc has it with these arguments.
    unsafe { std::mem::transmute_copy(&at) }
}

type Name = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
type Address = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;

fn fail(errno: c_int) -> c_int {
    // SAFETY: it is the thread's own.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// The directory. Programs may clear their environment, after the first socket.
fn directory() -> &'static str {
    static DIRECTORY: OnceLock<String> = OnceLock::new();
    DIRECTORY.get_or_init(|| std::env::var("VSOCK_STUB").unwrap_or_default())
}

fn mark_file(fd: c_int) -> Option<String> {
    // SAFETY: all zeros is a status, which is written.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::fstat(fd, &raw mut found) } != 0
        || found.st_mode & libc::S_IFMT != libc::S_IFSOCK
    {
        return None;
    }
    Some(format!("{}/{}", directory(), found.st_ino))
}

fn mark(fd: c_int) -> Option<u64> {
    Some(u64::from_ne_bytes(std::fs::read(mark_file(fd)?).ok()?.try_into().ok()?))
}

fn set_mark(fd: c_int, value: u64) -> c_int {
    match mark_file(fd).map(|path| std::fs::write(path, value.to_ne_bytes())) {
        Some(Ok(())) => 0,
        _ => fail(libc::EIO),
    }
}

/// The name of a port, and how many bytes it has with what is before it.
fn name_of(port: u32) -> (sockaddr_un, socklen_t) {
    // SAFETY: all zeros is an address.
    let mut un: sockaddr_un = unsafe { std::mem::zeroed() };
    un.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // The last part of the directory's name, so that tests may run side by side.
    let text = format!("weft-stub{}-{port}", directory().rsplit('/').next().unwrap_or_default());
    for (room, byte) in un.sun_path.iter_mut().skip(1).zip(text.bytes()) {
        *room = byte as c_char;
    }
    (un, 3 + text.len() as socklen_t)
}

/// # Safety
///
/// `addr` points to `len` bytes.
unsafe fn vsock(addr: *const sockaddr, len: socklen_t) -> Option<sockaddr_vm> {
    if addr.is_null() || (len as usize) < size_of::<sockaddr_vm>() {
        return None;
    }
    // SAFETY: there are as many bytes.
    let vm = unsafe { addr.cast::<sockaddr_vm>().read_unaligned() };
    (i32::from(vm.svm_family) == libc::AF_VSOCK).then_some(vm)
}

/// # Safety
///
/// As of `getsockname`.
unsafe fn translate(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, of: c_int, cid: u32) {
    if mark(of).is_none() || len.is_null() || addr.is_null() {
        return;
    }
    // SAFETY: all zeros is an address.
    let mut un: sockaddr_un = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<sockaddr_un>() as socklen_t;
    let ask =
        if cid == CONNECTS { next::<Name>(c"getpeername") } else { next::<Name>(c"getsockname") };
    // SAFETY: there is as much room.
    unsafe { ask(fd, (&raw mut un).cast(), &raw mut bytes) };
    let text: String =
        un.sun_path.iter().skip(1).map(|c| *c as u8 as char).take_while(|c| *c != '\0').collect();
    let port = text.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(u32::MAX);
    // SAFETY: all zeros is an address.
    let mut vm: sockaddr_vm = unsafe { std::mem::zeroed() };
    vm.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    (vm.svm_cid, vm.svm_port) = (cid, port);
    // SAFETY: by the contract; the smaller one of both is written.
    unsafe {
        let count = size_of::<sockaddr_vm>().min(len.read() as usize);
        std::ptr::copy_nonoverlapping((&raw const vm).cast::<u8>(), addr.cast(), count);
        len.write(count as socklen_t);
    }
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let next = next::<unsafe extern "C" fn(c_int, c_int, c_int) -> c_int>(c"socket");
    let is_vsock = family == libc::AF_VSOCK;
    // SAFETY: there are no pointers.
    let fd = unsafe { next(if is_vsock { libc::AF_UNIX } else { family }, kind, protocol) };
    if is_vsock && fd >= 0 {
        set_mark(fd, 256 << 10);
    }
    fd
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    let next = next::<Address>(c"bind");
    // SAFETY: by the contract.
    let Some(vm) = (unsafe { vsock(addr, len) }) else {
        // SAFETY: by the contract.
        return unsafe { next(fd, addr, len) };
    };
    let (un, len) = name_of(vm.svm_port);
    // SAFETY: there are as many bytes.
    unsafe { next(fd, (&raw const un).cast(), len) }
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    let next = next::<Address>(c"connect");
    // SAFETY: by the contract.
    let Some(vm) = (unsafe { vsock(addr, len) }) else {
        // SAFETY: by the contract.
        return unsafe { next(fd, addr, len) };
    };
    if vm.svm_cid != LISTENS {
        return fail(libc::ENODEV);
    }
    let (un, len) = name_of(vm.svm_port);
    // SAFETY: there are as many bytes.
    unsafe { next(fd, (&raw const un).cast(), len) }
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let next = next::<unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int>(
        c"accept4",
    );
    // SAFETY: by the contract.
    let taken = unsafe { next(fd, addr, len, flags) };
    if taken < 0 {
        return taken;
    }
    if let Some(value) = mark(fd) {
        set_mark(taken, value);
        // SAFETY: by the contract.
        unsafe {
            if !len.is_null() {
                len.write(size_of::<sockaddr_vm>() as socklen_t);
            }
            translate(taken, addr, len, fd, CONNECTS);
        }
    }
    taken
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: by the contract.
    let done = unsafe { next::<Name>(c"getsockname")(fd, addr, len) };
    if done == 0 {
        // SAFETY: by the contract.
        unsafe { translate(fd, addr, len, fd, LISTENS) };
    }
    done
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: by the contract.
    let done = unsafe { next::<Name>(c"getpeername")(fd, addr, len) };
    if done == 0 {
        // SAFETY: by the contract.
        unsafe { translate(fd, addr, len, fd, CONNECTS) };
    }
    done
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    type Get = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    if level == libc::AF_VSOCK && name == 2 {
        if let Some(mark) = mark(fd) {
            // SAFETY: the library asks with room for 8 bytes.
            unsafe { value.cast::<u64>().write_unaligned(mark) };
            return 0;
        }
    }
    // SAFETY: by the contract.
    let done = unsafe { next::<Get>(c"getsockopt")(fd, level, name, value, len) };
    if done == 0 && level == libc::SOL_SOCKET && name == libc::SO_DOMAIN && mark(fd).is_some() {
        // SAFETY: the call has written a number.
        unsafe { value.cast::<c_int>().write_unaligned(libc::AF_VSOCK) };
    }
    done
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    type Set = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    if level == libc::AF_VSOCK && name == 2 && mark(fd).is_some() {
        // SAFETY: the option has 8 bytes.
        return set_mark(fd, unsafe { value.cast::<u64>().read_unaligned() });
    }
    // SAFETY: by the contract.
    unsafe { next::<Set>(c"setsockopt")(fd, level, name, value, len) }
}

/// # Safety
///
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: by the contract.
    if unsafe { CStr::from_ptr(path) } == c"/sys/module/weft_vsock" {
        return 0;
    }
    // SAFETY: by the contract.
    unsafe { next::<unsafe extern "C" fn(*const c_char, c_int) -> c_int>(c"access")(path, mode) }
}
