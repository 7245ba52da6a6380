// SPDX-License-Identifier: GPL-2.0

//! The major number, the class and the device nodes (`include/linux/cdev.h`,
//! `include/linux/device/class.h`).

use crate::sys::file::{self, Device, File};
use kernel::{
    bindings,
    error::{from_err_ptr, from_result, to_result},
    fs::file::LocalFile,
    prelude::*,
    str::CStrExt,
    sync::{
        aref::ARef,
        atomic::{Atomic, Full},
        global_lock, Arc,
    },
};

/// The maximum number of device nodes.
const MINORS: usize = 64;
/// `MINORBITS` of the kernel.
const MINOR_MASK: u32 = (1 << 20) - 1;

/// The device behind each minor number.
pub(crate) struct Table {
    base: bindings::dev_t,
    class: *mut bindings::class,
    slots: [Option<Arc<dyn Device>>; MINORS],
}

// SAFETY: `class` is only passed to the driver core, which does its own locking.
unsafe impl Send for Table {}

global_lock! {
    // SAFETY: Initialised by `Region::new`, called once before the drivers are registered.
    unsafe(uninit) static TABLE: Mutex<Table> = Table {
        base: 0,
        class: core::ptr::null_mut(),
        slots: [const { None }; MINORS],
    };
}

/// The major number and the class, for the life of the module.
pub(crate) struct Region {
    base: bindings::dev_t,
    class: *mut bindings::class,
}

// SAFETY: As for `Table`.
unsafe impl Send for Region {}
// SAFETY: Has no methods by shared reference.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates the major number and creates the class. The module's `init` calls this once, before it
    /// registers a driver, and drops the region after the drivers.
    ///
    /// Wraps `alloc_chrdev_region()`, `include/linux/fs.h`, and `class_create()`,
    /// `include/linux/device/class.h`, and returns their errors. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once.
        unsafe { TABLE.init() };
        let mut base = 0;
        let name = c"weft".as_char_ptr();
        // SAFETY: The name is static.
        to_result(unsafe { bindings::alloc_chrdev_region(&mut base, 0, MINORS as u32, name) })?;
        // SAFETY: The name is static.
        match from_err_ptr(unsafe { bindings::class_create(name) }) {
            Ok(class) => {
                let mut table = TABLE.lock();
                table.base = base;
                table.class = class;
                Ok(Self { base, class })
            }
            Err(e) => {
                // SAFETY: Allocated above.
                unsafe { bindings::unregister_chrdev_region(base, MINORS as u32) };
                Err(e)
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: The drivers are unregistered, hence no node is left.
        unsafe {
            bindings::class_destroy(self.class);
            bindings::unregister_chrdev_region(self.base, MINORS as u32);
        }
    }
}

/// Returns the device behind a device number. `ENODEV` if there is none.
fn find(number: bindings::dev_t) -> Result<Arc<dyn Device>> {
    TABLE
        .lock()
        .slots
        // The region starts at minor 0.
        .get((number & MINOR_MASK) as usize)
        .and_then(Clone::clone)
        .ok_or(ENODEV)
}

extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    from_result(|| {
        // SAFETY: Given by the VFS, which opens the file.
        unsafe { file::open(find((*inode).i_rdev)?, inode, file) }.map(|()| 0)
    })
}

static FOPS: file::Table<bindings::file_operations> = file::Table(file::operations(open));

/// A device node, `/dev/weftN`.
pub(crate) struct NodeReg {
    minor: usize,
    number: bindings::dev_t,
    class: *mut bindings::class,
    cdev: *mut bindings::cdev,
    live: Atomic<bool>,
}

// SAFETY: The C side locks; `live` makes the removal happen once.
unsafe impl Send for NodeReg {}
// SAFETY: As above.
unsafe impl Sync for NodeReg {}

impl NodeReg {
    /// Makes the device node; it may be opened before this returns.
    ///
    /// Wraps `cdev_add()`, `include/linux/cdev.h`, and `device_create()`, `include/linux/device.h`.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are 64 nodes; else what the C functions return.
    ///
    /// # Safety
    ///
    /// `parent` is a device that exists until the node is unregistered.
    pub(super) unsafe fn new(
        device: Arc<dyn Device>,
        parent: *mut bindings::device,
    ) -> Result<Self> {
        let mut table = TABLE.lock();
        let minor = table.slots.iter().position(Option::is_none).ok_or(ENOSPC)?;
        let (number, class) = (table.base + minor as u32, table.class);
        *table.slots.get_mut(minor).ok_or(ENOSPC)? = Some(device);
        drop(table);

        // SAFETY: Plain allocation.
        let cdev = unsafe { bindings::cdev_alloc() };
        let mut reg = Self {
            minor,
            number,
            class,
            cdev,
            live: Atomic::new(false),
        };
        if cdev.is_null() {
            reg.clear();
            return Err(ENOMEM);
        }
        // SAFETY: Ours until added.
        let added = unsafe {
            (*cdev).owner = crate::sys::module::OWNER;
            (*cdev).ops = &raw const FOPS.0;
            bindings::cdev_add(cdev, number, 1)
        };
        if let Err(e) = to_result(added) {
            // SAFETY: Never added.
            unsafe { bindings::kobject_put(&raw mut (*cdev).kobj) };
            reg.clear();
            return Err(e);
        }
        // SAFETY: The class exists, and by the requirements the parent; the format takes one int.
        let made = from_err_ptr(unsafe {
            bindings::device_create(
                class,
                parent,
                number,
                core::ptr::null_mut(),
                c"weft%d".as_char_ptr(),
                minor as c_int,
            )
        });
        if let Err(e) = made {
            // SAFETY: Added above.
            unsafe { bindings::cdev_del(cdev) };
            reg.clear();
            return Err(e);
        }
        *reg.live.get_mut() = true;
        Ok(reg)
    }

    /// As `new`, for a device node of `dev`, which is bound while the node exists.
    pub(crate) fn with_parent(
        device: Arc<dyn Device>,
        dev: &kernel::device::Device<kernel::device::Bound>,
    ) -> Result<Self> {
        // SAFETY: The driver unregisters the node when it is unbound.
        unsafe { Self::new(device, crate::sys::raw_dev(dev)) }
    }

    /// Returns the N of `/dev/weftN`.
    pub(crate) fn minor(&self) -> usize {
        self.minor
    }

    /// Moves the node to the parent `dev`, or to none; its number and its name stay.
    ///
    /// Wraps `device_move()`, `include/linux/device.h`. `ENODEV` if the node does not exist; else what
    /// `device_move()` returns. Sleeps.
    pub(crate) fn move_to(
        &self,
        dev: Option<&kernel::device::Device<kernel::device::Bound>>,
    ) -> Result {
        let parent = dev.map_or(core::ptr::null_mut(), crate::sys::raw_dev);
        // SAFETY: The class exists, and so does the new parent, until the driver is unbound.
        to_result(unsafe { crate::sys::ext::weft_move_node(self.class, self.number, parent) })
    }

    /// Removes the device node; open files stay. Further calls do nothing.
    ///
    /// Wraps `device_destroy()`, `include/linux/device.h`, and `cdev_del()`, `include/linux/cdev.h`.
    /// Sleeps.
    pub(crate) fn unregister(&self) {
        if self.live.xchg(false, Full) {
            // SAFETY: Created in `new`; open files keep the cdev itself.
            unsafe {
                bindings::device_destroy(self.class, self.number);
                bindings::cdev_del(self.cdev);
            }
            self.clear();
        }
    }

    /// Frees the minor number.
    fn clear(&self) {
        let device = TABLE
            .lock()
            .slots
            .get_mut(self.minor)
            .and_then(Option::take);
        // Not with the lock held.
        drop(device);
    }
}

impl Drop for NodeReg {
    fn drop(&mut self) {
        self.unregister();
    }
}

/// A reference to an open file of this driver.
pub(crate) struct Borrowed(ARef<LocalFile>);

impl Borrowed {
    /// Returns the file of descriptor `fd` of the current process. Wraps `fget()`,
    /// `include/linux/file.h`.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such descriptor; `EINVAL` if it is not a file of this driver.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        let fd = u32::try_from(fd).map_err(|_| EBADF)?;
        let file = LocalFile::fget(fd).map_err(|_| EBADF)?;
        // SAFETY: The file is held.
        if !core::ptr::eq(unsafe { (*file.as_ptr()).f_op }, &raw const FOPS.0) {
            return Err(EINVAL);
        }
        Ok(Self(file))
    }

    /// Returns the driver's object of the file.
    pub(crate) fn file(&self) -> &dyn File {
        // SAFETY: A file with these operations was opened by `open`; it is held.
        unsafe { file::file_of(self.0.as_ptr()) }
    }
}
