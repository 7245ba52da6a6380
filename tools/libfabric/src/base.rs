// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What every object of the provider needs: a head that libfabric knows, operations, and closing.
//!
//! An object is its head, as a structure of C, and a counted reference to what it does. What uses another object has a
//! reference to it, so that one that is in use is known, and refuses to be closed.

use crate::fi::*;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an operation in C returns for an error.
pub const fn refusal(error: c_int) -> isize {
    -(error as isize)
}

/// The same for operations that return an int.
pub fn status(result: Result<(), c_int>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => -error,
    }
}

/// Takes a lock. A thread that has panicked has ended the process.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The operation that is not there.
pub extern "C" fn absent() -> isize {
    refusal(FI_ENOSYS)
}

/// Operations that no object needs.
pub unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    -FI_ENOSYS
}

pub unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    -FI_ENOSYS
}

/// Something that a program has the address of: `F` is what libfabric knows of it.
#[repr(C)]
pub struct Object<F, T> {
    /// Programs write the context, and libfabric the version of a fabric.
    fid: UnsafeCell<F>,
    core: Arc<T>,
}

impl<F, T> Object<F, T> {
    /// Gives a program an object.
    ///
    /// # Safety
    ///
    /// `out` is where the program wants it, and `F` begins with a [`Fid`].
    pub unsafe fn give(fid: F, core: Arc<T>, out: *mut *mut F) -> c_int {
        let object = Box::into_raw(Box::new(Object { fid: UnsafeCell::new(fid), core }));
        // SAFETY: As the caller says; an object begins with its head.
        unsafe { out.write(object.cast()) };
        0
    }

    /// What an object does.
    ///
    /// # Safety
    ///
    /// [`Self::give`] gave it, of these types, and it is not closed for as long as the reference is used.
    pub unsafe fn core<'a, G>(fid: *mut G) -> &'a Arc<T> {
        // SAFETY: As the caller says.
        unsafe { &(*fid.cast::<Self>()).core }
    }

    /// Frees an object.
    ///
    /// # Safety
    ///
    /// As [`Self::core`], and it is not used any more.
    pub unsafe fn free(fid: *mut Fid) {
        // SAFETY: It is what `give` has made.
        drop(unsafe { Box::from_raw(fid.cast::<Self>()) });
    }
}

/// `fi_close()` of an object that others may use.
///
/// # Safety
///
/// As [`Object::free`].
pub unsafe extern "C" fn close<F, T>(fid: *mut Fid) -> c_int {
    // SAFETY: As the caller says.
    let core = unsafe { Object::<F, T>::core(fid) };
    if Arc::strong_count(core) > 1 {
        return -FI_EBUSY;
    }
    // SAFETY: As the caller says.
    unsafe { Object::<F, T>::free(fid) };
    0
}

/// What an object that a program names does.
macro_rules! core_of {
    ($fid:expr, $head:ty, $core:ty) => {{
        // SAFETY: Programs give what they were given and have not closed, as libfabric's interface says.
        unsafe { $crate::base::Object::<$head, $core>::core($fid) }
    }};
}
pub(crate) use core_of;

/// The head of an object.
pub fn head(class: usize, context: *mut c_void, ops: &'static Ops) -> Fid {
    Fid { fclass: class, context, ops }
}

/// The kind of an object.
///
/// # Safety
///
/// It is an object of this provider.
pub unsafe fn class(fid: *const Fid) -> usize {
    // SAFETY: Every object begins with its head.
    unsafe { (*fid).fclass }
}

/// Copies a string and its end, as far as there is room; says in `len` how long it is.
///
/// # Safety
///
/// There is room for as many bytes as `len` says.
pub unsafe fn copy_text(text: &[u8], to: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: As the caller says.
    let room = unsafe { len.read() };
    let whole = text.len() + 1;
    let fits = room.min(whole);
    if fits > 0 && !to.is_null() {
        let to = to.cast::<u8>();
        let bytes = fits.min(text.len());
        // SAFETY: There is room for `fits` bytes.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr(), bytes);
            if fits == whole {
                to.add(bytes).write(0);
            }
        }
    }
    // SAFETY: As the caller says.
    unsafe { len.write(whole) };
    if fits < whole { -FI_ETOOSMALL } else { 0 }
}

/// The text of a string of a program; `None`: there is none, or it is no text.
///
/// # Safety
///
/// It is null or ends with a 0, and is not changed for as long as the reference is used.
pub unsafe fn text<'a>(from: *const c_char) -> Option<&'a str> {
    if from.is_null() {
        return None;
    }
    // SAFETY: As the caller says.
    unsafe { CStr::from_ptr(from) }.to_str().ok()
}

/// Says what an errno of the driver means, for `fi_cq_strerror()`.
pub fn meaning(prov_errno: c_int) -> &'static CStr {
    match prov_errno {
        0 => c"success",
        libc::EHOSTUNREACH => c"the host is not known, or does not answer",
        libc::ECONNRESET => {
            c"the connection was lost: whether the target has the message is not known"
        }
        libc::ENXIO => c"the host has no such endpoint: its program has closed it, or has ended",
        libc::ESRCH => c"the program of the endpoint has ended",
        libc::ESHUTDOWN => c"the endpoint does not receive",
        libc::EFAULT => c"memory of the message is not there",
        libc::ENOENT => c"no such message waits, or no region has the key",
        libc::ENOSPC => c"the endpoint has no list entry left",
        libc::ENOMEM => c"there is no memory",
        libc::EINVAL => c"the driver does not take the operation",
        libc::EPERM => c"the region does not allow it",
        libc::EMSGSIZE => c"the region is too short",
        _ => c"error of the driver",
    }
}

/// The error of libfabric for an errno of the driver.
pub fn error_of(prov_errno: c_int) -> c_int {
    match prov_errno {
        // The program of the other end has gone: to its peers that is as if its host had.
        libc::ENXIO | libc::ESRCH => FI_EHOSTUNREACH,
        libc::EPERM | libc::EMSGSIZE => FI_EACCES,
        libc::ENOENT => FI_ENOMSG,
        libc::EHOSTUNREACH => FI_EHOSTUNREACH,
        libc::ECONNRESET => FI_ECONNRESET,
        libc::ESHUTDOWN => FI_ESHUTDOWN,
        libc::EFAULT => FI_EFAULT,
        libc::ENOSPC => FI_ENOSPC,
        libc::ENOMEM => FI_ENOMEM,
        libc::EINVAL => FI_EINVAL,
        _ => FI_EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn errors_of_the_driver_have_words_and_numbers() {
        let known = [
            (libc::EHOSTUNREACH, FI_EHOSTUNREACH),
            (libc::ECONNRESET, FI_ECONNRESET),
            (libc::ENXIO, FI_EHOSTUNREACH),
            (libc::ESRCH, FI_EHOSTUNREACH),
            (libc::ESHUTDOWN, FI_ESHUTDOWN),
            (libc::EFAULT, FI_EFAULT),
            (libc::ENOENT, FI_ENOMSG),
            (libc::ENOSPC, FI_ENOSPC),
            (libc::ENOMEM, FI_ENOMEM),
            (libc::EINVAL, FI_EINVAL),
            (libc::EPERM, FI_EACCES),
            (libc::EMSGSIZE, FI_EACCES),
        ];
        for (errno, error) in known {
            assert_eq!(error_of(errno), error);
            assert_ne!(meaning(errno), meaning(4711));
        }
        assert_eq!(error_of(4711), FI_EIO);
    }

    #[test]
    fn text_is_copied_as_far_as_there_is_room() {
        for (room, code) in
            [(0, -FI_ETOOSMALL), (3, -FI_ETOOSMALL), (5, -FI_ETOOSMALL), (6, 0), (9, 0)]
        {
            let (mut to, mut len) = ([0xeeu8; 10], room);
            // SAFETY: There is room for so many.
            let told = unsafe { copy_text(b"hello", to.as_mut_ptr().cast(), &mut len) };
            assert_eq!((told, len), (code, 6));
            let bytes = room.min(5);
            assert_eq!(&to[..bytes], &b"hello"[..bytes]);
            assert_eq!(to[bytes], if room >= 6 { 0 } else { 0xee });
        }
        let mut len = 8;
        // SAFETY: Nothing is written to it.
        assert_eq!(unsafe { copy_text(b"hello", null_mut(), &mut len) }, 0);
    }

    #[test]
    fn an_object_in_use_is_not_closed() {
        let ops = Box::leak(Box::new(Ops {
            size: size_of::<Ops>(),
            close: close::<FidMr, u32>,
            bind: no_bind,
            control: no_control,
            ops_open: absent,
            tostr: absent,
            ops_set: absent,
        }));
        let mut out = null_mut();
        let fid = FidMr { fid: head(FI_CLASS_MR, null_mut(), ops), mem_desc: null_mut(), key: 7 };
        // SAFETY: The pointers are of this test, and as the functions say.
        unsafe {
            assert_eq!(Object::give(fid, Arc::new(5u32), &mut out), 0);
            let fid = out.cast::<Fid>();
            assert_eq!(class(fid), FI_CLASS_MR);
            let user = Object::<FidMr, u32>::core(out).clone();
            assert_eq!((ops.close)(fid), -FI_EBUSY);
            assert_eq!(*user, 5);
            drop(user);
            assert_eq!((ops.close)(fid), 0);
        }
    }
}
