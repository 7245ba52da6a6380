// SPDX-License-Identifier: GPL-2.0

//! Device attributes in sysfs, one value per file, as constant tables (`struct device_attribute`,
//! `include/linux/device.h`; `struct attribute_group`, `include/linux/sysfs.h`).
//!
//! A table belongs to a driver with data of type `D`; [`crate::sys::pci::Driver`] makes sure that no
//! other driver uses it.

use crate::sys::{raw_dev, user::is_admin};
use core::marker::PhantomData;
use kernel::{
    bindings,
    device::{CoreInternal, Device},
    error::to_result,
    prelude::*,
    str::CStrExt,
};

/// The value of a file, and its format.
pub(crate) enum Value {
    Decimal(u64),
    /// `0x` and 16 digits: an id.
    Hex64(u64),
    Text(&'static CStr),
    /// Numbers with a comma in between; of so many.
    Decimals([u32; MOST_DECIMALS], usize),
}

/// The most numbers of one value.
pub(crate) const MOST_DECIMALS: usize = 16;

macro_rules! decimal {
    ($($number:ty)*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Decimal(number.into())
            }
        })*
    };
}

decimal!(bool u8 u16 u32 u64);

impl From<&'static CStr> for Value {
    fn from(text: &'static CStr) -> Self {
        Self::Text(text)
    }
}

/// Returns the value number `arg`. `ENOENT` when the files are created: the file is left out.
pub(crate) type Show<D> = fn(&D, usize) -> Result<Value>;

/// Applies a number that an administrator has written to the file; the second argument is `arg`.
pub(crate) type Store<D> = fn(&D, usize, u64) -> Result;

/// Applies the bytes that an administrator has written to the file; the second argument is `arg`.
pub(crate) type StoreBytes<D> = fn(&D, usize, &[u8]) -> Result;

/// A file: a `struct device_attribute` and its functions.
#[repr(C)]
pub(crate) struct Attr<D: 'static> {
    raw: bindings::device_attribute,
    show: Show<D>,
    store: Option<Store<D>>,
    store_bytes: Option<StoreBytes<D>>,
    /// If not empty: the words that may be written; `store` gets the index of the word.
    words: &'static [&'static CStr],
    arg: usize,
}

// SAFETY: Never changed; the pointers inside are to statics.
unsafe impl<D> Sync for Attr<D> {}

impl<D: 'static> Attr<D> {
    /// Makes a read-only file, mode 0444; `show` is called with `arg`.
    pub(crate) const fn new(name: &'static CStr, show: Show<D>, arg: usize) -> Self {
        let mut raw: bindings::device_attribute = pin_init::zeroed();
        // `as_char_ptr` is not const.
        #[allow(clippy::disallowed_methods)]
        {
            raw.attr.name = name.as_ptr().cast();
        }
        raw.attr.mode = 0o444;
        raw.__bindgen_anon_1.show = Some(show_cb::<D>);
        Self {
            raw,
            show,
            store: None,
            store_bytes: None,
            words: &[],
            arg,
        }
    }

    /// Makes a file that a task with `CAP_SYS_ADMIN` may read, and no other. Mode 0400; a reader without the
    /// capability gets `EPERM`.
    pub(crate) const fn private(name: &'static CStr, show: Show<D>, arg: usize) -> Self {
        let mut attr = Self::new(name, show, arg);
        attr.raw.attr.mode = 0o400;
        attr.raw.__bindgen_anon_1.show = Some(show_private_cb::<D>);
        attr
    }

    /// Makes a file that a task with `CAP_SYS_ADMIN` may write, too: a number, decimal, octal or
    /// hexadecimal. Mode 0644; a writer without the capability gets `EPERM`.
    pub(crate) const fn writable(
        name: &'static CStr,
        show: Show<D>,
        store: Store<D>,
        arg: usize,
    ) -> Self {
        let mut attr = Self::new(name, show, arg);
        attr.raw.attr.mode = 0o644;
        attr.raw.__bindgen_anon_2.store = Some(store_cb::<D>);
        attr.store = Some(store);
        attr
    }

    /// Makes a file as [`Attr::writable`] does, to which one of `words` is written; `store` gets the
    /// index of the word.
    pub(crate) const fn choice(
        name: &'static CStr,
        show: Show<D>,
        store: Store<D>,
        words: &'static [&'static CStr],
        arg: usize,
    ) -> Self {
        let mut attr = Self::writable(name, show, store, arg);
        attr.words = words;
        attr
    }

    /// Makes a file that cannot be read, mode 0200, for a secret. What a task with `CAP_SYS_ADMIN` writes is given
    /// to `store` as it is; other writers get `EPERM`. `show` only says, by `ENOENT`, that the file is left out.
    pub(crate) const fn secret(
        name: &'static CStr,
        show: Show<D>,
        store: StoreBytes<D>,
        arg: usize,
    ) -> Self {
        let mut attr = Self::new(name, show, arg);
        attr.raw.attr.mode = 0o200;
        attr.raw.__bindgen_anon_1.show = None;
        attr.raw.__bindgen_anon_2.store = Some(store_bytes_cb::<D>);
        attr.store_bytes = Some(store);
        attr
    }

    /// Parses what was written.
    ///
    /// Wraps `kstrtoull()`, `include/linux/kstrtox.h`, and `sysfs_streq()`, `include/linux/string.h`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is neither a number nor one of the words; `ERANGE` if the number exceeds 64 bits.
    ///
    /// # Safety
    ///
    /// `buf` is a string.
    unsafe fn parse(&self, buf: *const c_char) -> Result<u64> {
        if self.words.is_empty() {
            let mut value = 0;
            // SAFETY: By the requirements; the value is read afterwards.
            to_result(unsafe { bindings::kstrtoull(buf, 0, &raw mut value) })?;
            return Ok(value);
        }
        // SAFETY: By the requirements; so is the word.
        let is = |word: &&CStr| unsafe { bindings::sysfs_streq(buf, word.as_char_ptr()) };
        let found = self.words.iter().position(is);
        found.map(|n| n as u64).ok_or(EINVAL)
    }
}

/// Returns the data of the driver that is bound to `dev`.
///
/// # Safety
///
/// `dev` is bound to a driver with data of type `D`, and stays so during `'a`.
unsafe fn data<'a, D>(dev: *mut bindings::device) -> &'a D {
    // SAFETY: By the requirements.
    unsafe {
        let dev = Device::<CoreInternal<'_>>::from_raw(dev);
        dev.drvdata_borrow::<D>().get_ref()
    }
}

extern "C" fn show_cb<D: 'static>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: The files are created after a successful probe and removed before the driver is unbound;
    // the removal waits for all calls of this function.
    let data = unsafe { data::<D>(dev) };
    // SAFETY: Every `device_attribute` with this callback is inside an `Attr<D>`.
    let attr = unsafe { &*kernel::container_of!(attr, Attr<D>, raw) };
    match (attr.show)(data, attr.arg) {
        // SAFETY: `buf` is the page of sysfs; the format takes one u64.
        Ok(Value::Decimal(v)) => unsafe {
            bindings::sysfs_emit(buf, c"%llu\n".as_char_ptr(), v) as isize
        },
        // SAFETY: As above.
        Ok(Value::Hex64(v)) => unsafe {
            bindings::sysfs_emit(buf, c"0x%016llx\n".as_char_ptr(), v) as isize
        },
        // SAFETY: As above, with a string.
        Ok(Value::Text(s)) => unsafe {
            bindings::sysfs_emit(buf, c"%s\n".as_char_ptr(), s.as_char_ptr()) as isize
        },
        Ok(Value::Decimals(values, count)) => {
            let mut at = 0;
            for (n, value) in values.iter().take(count).enumerate() {
                let format = if n == 0 { c"%u" } else { c",%u" };
                // SAFETY: `buf` is the page of sysfs, of which `at` bytes are written; the format takes one u32.
                at += unsafe { bindings::sysfs_emit_at(buf, at, format.as_char_ptr(), *value) };
            }
            // SAFETY: As above, without an argument.
            at += unsafe { bindings::sysfs_emit_at(buf, at, c"\n".as_char_ptr()) };
            at as isize
        }
        Err(e) => e.to_errno() as isize,
    }
}

extern "C" fn show_private_cb<D: 'static>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    match is_admin() {
        true => show_cb::<D>(dev, attr, buf),
        false => EPERM.to_errno() as isize,
    }
}

extern "C" fn store_cb<D: 'static>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: As in `show_cb`.
    let (data, attr) = unsafe { (data::<D>(dev), &*kernel::container_of!(attr, Attr<D>, raw)) };
    // SAFETY: sysfs has ended what was written with a zero byte.
    let parsed = unsafe { attr.parse(buf) };
    if !is_admin() {
        return EPERM.to_errno() as isize;
    }
    let store = attr.store.ok_or(EACCES);
    match parsed.and_then(|value| store?(data, attr.arg, value)) {
        Ok(()) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

extern "C" fn store_bytes_cb<D: 'static>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: As in `show_cb`.
    let (data, attr) = unsafe { (data::<D>(dev), &*kernel::container_of!(attr, Attr<D>, raw)) };
    if !is_admin() {
        return EPERM.to_errno() as isize;
    }
    // SAFETY: sysfs has copied so many bytes to its buffer, which stays as it is during the call.
    let bytes = unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), count) };
    let store = attr.store_bytes.ok_or(EACCES);
    match store.and_then(|store| store(data, attr.arg, bytes)) {
        Ok(()) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

extern "C" fn visible_cb<D: 'static>(
    kobj: *mut bindings::kobject,
    attr: *mut bindings::attribute,
    n: c_int,
) -> bindings::umode_t {
    // SAFETY: As in `show_cb`; the attribute is the first member of the `device_attribute`.
    let (data, attr) = unsafe {
        let dev = kernel::container_of!(kobj, bindings::device, kobj);
        let attr: *mut bindings::device_attribute = attr.cast();
        (data::<D>(dev), &*kernel::container_of!(attr, Attr<D>, raw))
    };
    match (attr.show)(data, attr.arg) {
        // For the first file of a group this value hides the whole directory.
        Err(e) if e == ENOENT && n == 0 => bindings::SYSFS_GROUP_INVISIBLE as bindings::umode_t,
        Err(e) if e == ENOENT => 0,
        _ => attr.raw.attr.mode,
    }
}

/// The files of a group, as an array that ends with a null pointer: `M` is their number plus 1.
#[repr(transparent)]
pub(crate) struct List<D: 'static, const M: usize>(
    [*const bindings::attribute; M],
    PhantomData<&'static D>,
);

// SAFETY: Never changed; the pointers are to statics.
unsafe impl<D, const M: usize> Sync for List<D, M> {}

impl<D: 'static, const M: usize> List<D, M> {
    /// Makes the array of `attrs`; does not compile if `M` is wrong.
    pub(crate) const fn new(attrs: &'static [Attr<D>]) -> Self {
        assert!(attrs.len() + 1 == M);
        let mut list = [core::ptr::null(); M];
        let mut i = 0;
        while i < attrs.len() {
            list[i] = &raw const attrs[i].raw.attr;
            i += 1;
        }
        Self(list, PhantomData)
    }
}

/// A group of files: a directory with a name, or, without one, files in the directory of the device.
#[repr(transparent)]
pub(crate) struct Group<D: 'static>(bindings::attribute_group, PhantomData<&'static D>);

// SAFETY: Never changed; the pointers are to statics.
unsafe impl<D> Sync for Group<D> {}

impl<D: 'static> Group<D> {
    /// Makes a group of the files of `list`, in directory `name` if there is one.
    pub(crate) const fn new<const M: usize>(
        name: Option<&'static CStr>,
        list: &'static List<D, M>,
    ) -> Self {
        let mut raw: bindings::attribute_group = pin_init::zeroed();
        if let Some(name) = name {
            // `as_char_ptr` is not const.
            #[allow(clippy::disallowed_methods)]
            {
                raw.name = name.as_ptr().cast();
            }
        }
        raw.__bindgen_anon_1.is_visible = Some(visible_cb::<D>);
        raw.__bindgen_anon_2.attrs_const = list.0.as_ptr();
        Self(raw, PhantomData)
    }
}

/// All groups of a driver, as an array that ends with a null pointer: `M` is their number plus 1.
#[repr(transparent)]
pub(crate) struct Groups<D: 'static, const M: usize>(
    [*const bindings::attribute_group; M],
    PhantomData<&'static D>,
);

// SAFETY: Never changed; the pointers are to statics.
unsafe impl<D, const M: usize> Sync for Groups<D, M> {}

impl<D: 'static, const M: usize> Groups<D, M> {
    /// Makes the array of `groups`; does not compile if `M` is wrong.
    pub(crate) const fn new(groups: &'static [Group<D>]) -> Self {
        assert!(groups.len() + 1 == M);
        let mut list = [core::ptr::null(); M];
        let mut i = 0;
        while i < groups.len() {
            list[i] = &raw const groups[i].0;
            i += 1;
        }
        Self(list, PhantomData)
    }

    /// Returns the groups for a driver with data of type `D`.
    pub(crate) const fn get(&'static self) -> GroupsRef<D> {
        GroupsRef(self.0.as_ptr(), PhantomData)
    }
}

/// A reference to all groups of a driver, whatever their number.
pub(crate) struct GroupsRef<D: 'static>(
    *const *const bindings::attribute_group,
    PhantomData<&'static D>,
);

impl<D: 'static> GroupsRef<D> {
    /// Returns the value for `pci_driver.dev_groups`. Nothing is written through this pointer.
    pub(super) fn as_ptr(&self) -> *mut *const bindings::attribute_group {
        self.0.cast_mut()
    }
}

/// Wakes the tasks that poll the file `attr` (in directory `dir`) of `dev`. Does nothing if the file
/// does not exist, not yet or no longer.
///
/// Wraps `sysfs_notify()`, `include/linux/sysfs.h`. Sleeps.
pub(crate) fn notify(dev: &Device, dir: Option<&CStr>, attr: &CStr) {
    let dir = dir.map_or(core::ptr::null(), CStrExt::as_char_ptr);
    // SAFETY: The device is held; the strings are read during the call.
    unsafe {
        bindings::sysfs_notify(&raw mut (*raw_dev(dev)).kobj, dir, attr.as_char_ptr());
    }
}

/// Creates or removes the directory `dir` of `dev`, as the [`Show`] function of its first file says now
/// (`ENOENT`: the directory is removed).
///
/// Returns false if the caller must try again: another task holds the device lock, as while the device
/// is bound, unbound or reset, or no driver that has this directory is bound.
///
/// Wraps `sysfs_update_group()`, `include/linux/sysfs.h`; its errors are ignored.
///
/// # Context
///
/// Sleeps. The caller delays the unbinding of the driver, after which nothing would remove the
/// directory, and holds no lock that the [`Show`] functions take.
pub(crate) fn refresh(dev: &Device, dir: &CStr) -> bool {
    let raw = raw_dev(dev);
    // SAFETY: There is a reference to the device. Its lock keeps the driver; the driver's groups are
    // static. `trylock`, as the holder of the lock may be waiting for the caller.
    unsafe {
        if bindings::mutex_trylock(&raw mut (*raw).mutex) == 0 {
            return false;
        }
        let driver = (*raw).driver;
        let mut group = if driver.is_null() {
            core::ptr::null_mut()
        } else {
            (*driver).dev_groups
        };
        let mut done = false;
        while !group.is_null() && !(*group).is_null() && !done {
            let name = (**group).name;
            if !name.is_null() && CStr::from_char_ptr(name) == dir {
                // After a failure the directory is as before, or lacks some files; there is no better
                // state to go back to.
                bindings::sysfs_update_group(&raw mut (*raw).kobj, *group);
                done = true;
            }
            group = group.add(1);
        }
        bindings::mutex_unlock(&raw mut (*raw).mutex);
        done
    }
}
