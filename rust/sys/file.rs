// SPDX-License-Identifier: GPL-2.0

//! Open files of a character device, and their operations (`struct file_operations`,
//! `include/linux/fs.h`).
//!
//! A file is polled on two wait queues: its own, and the one that all files of the object share. Both
//! live at least as long as the file: epoll gets the queues of a file once, when the file is added.
//!
//! This file must not know what the device is.

use crate::sys::{
    vma::{self, Fault, Mapping, NewVma, Outcome},
    waitq::WaitQueue,
};
use core::any::Any;
use kernel::{
    bindings,
    error::from_result,
    fs::file::{flags, LocalFile},
    iov::{IovIterDest, IovIterSource},
    prelude::*,
    sync::Arc,
};

/// Events of `poll`, values of `include/uapi/linux/eventpoll.h`.
pub(crate) mod events {
    pub(crate) const IN: u32 = 0x0001 | 0x0040;
    pub(crate) const PRI: u32 = 0x0002;
    pub(crate) const OUT: u32 = 0x0004 | 0x0100;
    pub(crate) const ERR: u32 = 0x0008;
    pub(crate) const HUP: u32 = 0x0010;
    pub(crate) const RDHUP: u32 = 0x2000;
}

/// The object behind a device node.
pub(crate) trait Device: Send + Sync {
    /// Returns the address space of the mappings of its files.
    fn mapping(&self) -> &Mapping;

    /// Opens the device. `waiters` is the queue of the new file, on which its `poll` waits.
    fn open(&self, waiters: Arc<WaitQueue>) -> Result<KBox<dyn File>>;
}

/// An open file. When it is dropped, no mapping of it is left.
pub(crate) trait File: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;

    /// Returns the queue that all files share, on which `poll` waits, too.
    fn common(&self) -> &WaitQueue;

    /// Returns the events that are pending, a mask of [`events`]. `want` are the events that the caller
    /// of `poll` waits for.
    fn poll(&self, want: u32) -> u32;

    /// Handles `ioctl`. `nonblock`: the file is `O_NONBLOCK`.
    fn ioctl(&self, cmd: u32, arg: usize, nonblock: bool) -> Result;

    /// Handles `read`: copies to `to`, as far as there is something, and returns how many bytes.
    fn read(&self, nonblock: bool, to: &mut IovIterDest<'_>) -> Result<usize>;

    /// Handles `write`: takes bytes of `from`, and returns how many.
    fn write(&self, nonblock: bool, from: &mut IovIterSource<'_>) -> Result<usize>;

    /// Handles `mmap`.
    fn mmap(&self, vma: &NewVma<'_>) -> Result;

    /// Handles a page fault in a mapping of the file.
    fn fault(&self, fault: &Fault<'_>) -> Outcome;
}

/// The `private_data` of a file.
struct Open {
    file: KBox<dyn File>,
    waiters: Arc<WaitQueue>,
    /// Keeps the address space.
    _device: Arc<dyn Device>,
}

/// Returns the `private_data` of `file`.
///
/// # Safety
///
/// `file` was opened by [`open`] and is not released during `'a`.
unsafe fn of<'a>(file: *mut bindings::file) -> &'a Open {
    // SAFETY: `open` has put it there, `release` takes it.
    unsafe { &*(*file).private_data.cast::<Open>() }
}

/// Returns the driver's object of `file`.
///
/// # Safety
///
/// As of [`of`].
pub(super) unsafe fn file_of<'a>(file: *mut bindings::file) -> &'a dyn File {
    // SAFETY: By the requirements.
    &*unsafe { of(file) }.file
}

/// Opens `file` as a file of `device`. The `open` of the device's file operations calls this.
///
/// Wraps `nonseekable_open()`, `include/linux/fs.h`. Returns the error of [`Device::open`], or `ENOMEM`.
///
/// # Safety
///
/// The VFS is opening `file`, of `inode`, and its operations are those of [`operations`].
pub(super) unsafe fn open(
    device: Arc<dyn Device>,
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> Result {
    let waiters = WaitQueue::shared(
        c"weft file",
        kernel::static_lock_class!(),
        GFP_KERNEL_ACCOUNT,
    )?;
    let mapping = device.mapping().as_ptr();
    let open = KBox::new(
        Open {
            file: device.open(waiters.clone())?,
            waiters,
            _device: device,
        },
        GFP_KERNEL_ACCOUNT,
    )?;
    // SAFETY: The file is being opened, hence ours; `Open` keeps the address space.
    unsafe {
        (*file).f_mapping = mapping;
        (*file).private_data = KBox::into_raw(open).cast();
        bindings::nonseekable_open(inode, file);
    }
    Ok(())
}

extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: Put there by `open`; this is the last use of the file.
    drop(unsafe { KBox::from_raw((*file).private_data.cast::<Open>()) });
    0
}

extern "C" fn poll(file: *mut bindings::file, table: *mut bindings::poll_table) -> u32 {
    // SAFETY: The VFS keeps the file during the call.
    let open = unsafe { of(file) };
    // SAFETY: Called by `poll`, and the queues live as long as the file.
    unsafe {
        open.waiters.poll_wait(file, table);
        open.file.common().poll_wait(file, table);
    }
    let want = if table.is_null() {
        u32::MAX
    } else {
        // SAFETY: Valid during the call.
        unsafe { (*table)._key }
    };
    open.file.poll(want)
}

extern "C" fn unlocked_ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
    // SAFETY: The VFS keeps the file during the call.
    let (open, file) = unsafe { (of(file), LocalFile::from_raw_file(file)) };
    let nonblock = file.flags() & flags::O_NONBLOCK != 0;
    match open.file.ioctl(cmd, arg, nonblock) {
        Ok(()) => 0,
        Err(e) => e.to_errno() as c_long,
    }
}

/// Returns the file of an access, and whether it must not wait.
///
/// # Safety
///
/// `kiocb` is that of an access of a file that was opened by [`open`], during the access.
unsafe fn accessed<'a>(kiocb: *mut bindings::kiocb) -> (&'a Open, bool) {
    // SAFETY: By the requirements; the access keeps the file.
    unsafe {
        // `IOCB_NOWAIT` does not come here: the files have no `FMODE_NOWAIT`.
        let file = (*kiocb).ki_filp;
        let opened = LocalFile::from_raw_file(file).flags();
        (of(file), opened & flags::O_NONBLOCK != 0)
    }
}

fn counted(result: Result<usize>) -> isize {
    match result {
        // At most the bytes that were asked for, which the VFS limits.
        Ok(count) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

extern "C" fn read_iter(kiocb: *mut bindings::kiocb, to: *mut bindings::iov_iter) -> isize {
    // SAFETY: The VFS calls this for an access of such a file, and keeps both during the call; `to` is a
    // destination.
    let ((open, nonblock), to) = unsafe { (accessed(kiocb), IovIterDest::from_raw(to)) };
    counted(open.file.read(nonblock, to))
}

extern "C" fn write_iter(kiocb: *mut bindings::kiocb, from: *mut bindings::iov_iter) -> isize {
    // SAFETY: As in `read_iter`; `from` is a source.
    let ((open, nonblock), from) = unsafe { (accessed(kiocb), IovIterSource::from_raw(from)) };
    counted(open.file.write(nonblock, from))
}

extern "C" fn mmap(file: *mut bindings::file, vma: *mut bindings::vm_area_struct) -> c_int {
    from_result(|| {
        // SAFETY: The mapping is being set up for a file of ours.
        let (open, vma) = unsafe { (of(file), NewVma::new(vma, &VM_OPS.0)) };
        open.file.mmap(&vma).map(|()| 0)
    })
}

extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: The memory manager keeps the mapping, and with it the file, during the call; the
    // mapping was made by `mmap`.
    let (open, fault) = unsafe {
        let vma = (*vmf).__bindgen_anon_1.vma;
        (of((*vma).vm_file), Fault::new(vmf))
    };
    open.file.fault(&fault).into_raw()
}

/// A table of operations in a static.
pub(super) struct Table<T>(pub(super) T);

// SAFETY: Never changed.
unsafe impl<T> Sync for Table<T> {}

static VM_OPS: Table<bindings::vm_operations_struct> = Table(bindings::vm_operations_struct {
    open: Some(vma::open),
    close: Some(vma::close),
    fault: Some(fault),
    ..pin_init::zeroed()
});

/// Returns the operations of all files, with `open`, a function that calls [`open`].
pub(super) const fn operations(
    open: unsafe extern "C" fn(*mut bindings::inode, *mut bindings::file) -> c_int,
) -> bindings::file_operations {
    bindings::file_operations {
        owner: crate::sys::module::OWNER,
        open: Some(open),
        release: Some(release),
        poll: Some(poll),
        unlocked_ioctl: Some(unlocked_ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        mmap: Some(mmap),
        read_iter: Some(read_iter),
        write_iter: Some(write_iter),
        splice_read: Some(bindings::copy_splice_read),
        splice_write: Some(bindings::iter_file_splice_write),
        ..pin_init::zeroed()
    }
}
