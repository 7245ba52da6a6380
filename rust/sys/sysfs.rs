// SPDX-License-Identifier: GPL-2.0

//! Attributes of a device, one value a file, as tables that the compiler makes.
//!
//! A table belongs to a driver whose data are `D`; [`crate::sys::pci::Driver`] sees to it that it
//! is used with no other.

use crate::sys::{raw_dev, user::is_admin};
use core::marker::PhantomData;
use kernel::{bindings, device::CoreInternal, error::to_result, pci, prelude::*, str::CStrExt};

/// A value, and how it is written.
pub(crate) enum Value {
    Decimal(u64),
    /// With all its digits: an id.
    Hex64(u64),
    Text(&'static CStr),
}

/// Gives the value number `arg`. `ENOENT`, while the files are made: there shall be none.
pub(crate) type Show<D> = fn(&D, usize) -> Result<Value>;

/// Takes a number that an administrator has written to the file.
pub(crate) type Store<D> = fn(&D, usize, u64) -> Result;

/// A file.
#[repr(C)]
pub(crate) struct Attr<D: 'static> {
    raw: bindings::device_attribute,
    show: Show<D>,
    store: Option<Store<D>>,
    /// If what is written is one of these words, `store` takes its number.
    words: &'static [&'static CStr],
    arg: usize,
}

// SAFETY: Never changed; the pointers inside are to statics.
unsafe impl<D> Sync for Attr<D> {}

impl<D: 'static> Attr<D> {
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
            words: &[],
            arg,
        }
    }

    /// One that who has `CAP_SYS_ADMIN` may write to: a number, decimal, octal or hexadecimal.
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

    /// One that who has `CAP_SYS_ADMIN` may write one of `words` to, which `store` takes as its number.
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

    /// What was written.
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

/// The data of the driver that is bound to `dev`.
///
/// # Safety
///
/// `dev` is a PCI device bound to a driver whose data are `D`, and stays so during `'a`.
unsafe fn data<'a, D>(dev: *mut bindings::device) -> &'a D {
    // SAFETY: By the requirements; `pci::Device` is transparent around `struct pci_dev`.
    unsafe {
        let pdev = kernel::container_of!(dev, bindings::pci_dev, dev);
        let pdev = &*pdev.cast::<pci::Device<CoreInternal<'_>>>();
        pdev.as_ref().drvdata_borrow::<D>().get_ref()
    }
}

extern "C" fn show_cb<D: 'static>(
    dev: *mut bindings::device,
    attr: *mut bindings::device_attribute,
    buf: *mut c_char,
) -> isize {
    // SAFETY: The files are made after a probe that succeeded and are gone, with everybody out of
    // this function, before the driver is unbound.
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
        Err(e) => e.to_errno() as isize,
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
        // A directory goes with its first file: that is how sysfs asks for it.
        Err(e) if e == ENOENT && n == 0 => bindings::SYSFS_GROUP_INVISIBLE as bindings::umode_t,
        Err(e) if e == ENOENT => 0,
        _ => attr.raw.attr.mode,
    }
}

/// The files of a group: `M` is one more than there are.
#[repr(transparent)]
pub(crate) struct List<D: 'static, const M: usize>(
    [*const bindings::attribute; M],
    PhantomData<&'static D>,
);

// SAFETY: Never changed; the pointers are to statics.
unsafe impl<D, const M: usize> Sync for List<D, M> {}

impl<D: 'static, const M: usize> List<D, M> {
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

/// A directory, or the files directly in the device's.
#[repr(transparent)]
pub(crate) struct Group<D: 'static>(bindings::attribute_group, PhantomData<&'static D>);

// SAFETY: Never changed; the pointers are to statics.
unsafe impl<D> Sync for Group<D> {}

impl<D: 'static> Group<D> {
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

/// All groups of a driver: `M` is one more than there are.
#[repr(transparent)]
pub(crate) struct Groups<D: 'static, const M: usize>(
    [*const bindings::attribute_group; M],
    PhantomData<&'static D>,
);

// SAFETY: Never changed; the pointers are to statics.
unsafe impl<D, const M: usize> Sync for Groups<D, M> {}

impl<D: 'static, const M: usize> Groups<D, M> {
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

    /// For a driver whose data are `D`.
    pub(crate) const fn get(&'static self) -> GroupsRef<D> {
        GroupsRef(self.0.as_ptr(), PhantomData)
    }
}

/// All groups of a driver, however many.
pub(crate) struct GroupsRef<D: 'static>(
    *const *const bindings::attribute_group,
    PhantomData<&'static D>,
);

impl<D: 'static> GroupsRef<D> {
    /// For `pci_driver.dev_groups`; nothing writes through it.
    pub(super) fn as_ptr(&self) -> *mut *const bindings::attribute_group {
        self.0.cast_mut()
    }
}

/// Wakes those who poll the file `attr` (in directory `dir`) of `dev`. Sleeps. A file that is not
/// there, not yet or not any more, is skipped.
pub(crate) fn notify(dev: &pci::Device, dir: Option<&CStr>, attr: &CStr) {
    let dir = dir.map_or(core::ptr::null(), CStrExt::as_char_ptr);
    // SAFETY: The device is held; the strings are read during the call.
    unsafe {
        bindings::sysfs_notify(&raw mut (*raw_dev(dev)).kobj, dir, attr.as_char_ptr());
    }
}

/// Makes, or removes, the directory `dir` of a device as its first file says now: see [`Attr`]. False: not
/// now, for the device is being bound or unbound, or something else of that kind; to be tried again.
///
/// To be called while the driver's unbinding is kept waiting, after which nothing would remove the
/// directory; and with nothing locked that showing a file takes.
pub(crate) fn refresh(dev: &pci::Device, dir: &CStr) -> bool {
    let raw = raw_dev(dev);
    // SAFETY: The device is held. Its lock keeps the driver, whose groups are static. It is not waited for:
    // who has it may be waiting for the caller.
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
                // A failure leaves it as it was, or without some files: there is nothing better to do.
                bindings::sysfs_update_group(&raw mut (*raw).kobj, *group);
                done = true;
            }
            group = group.add(1);
        }
        bindings::mutex_unlock(&raw mut (*raw).mutex);
        done
    }
}
