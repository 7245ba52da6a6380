// SPDX-License-Identifier: GPL-2.0

//! A list of what functions of this host know, for other functions of it.
//!
//! An entry is there from [`Entry::new`] until it is dropped. This file must not know what the entries are.

use core::any::Any;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        global_lock, Arc,
    },
};

/// What is listed.
pub(crate) trait Listed: Any + Send + Sync {
    /// Returns the entry as [`Any`], for a caller that knows its type.
    fn as_any(&self) -> &dyn Any;
}

type List = KVec<(u64, Arc<dyn Listed>)>;

global_lock! {
    // SAFETY: Initialised by `Registry::new`, called once before the drivers are registered.
    unsafe(uninit) static LIST: Mutex<List> = KVec::new();
}

static NUMBERS: Atomic<u64> = Atomic::new(0);

/// The list, for the life of the module.
pub(crate) struct Registry(());

impl Registry {
    /// Initialises the list. Called once, by the module's `init`, before a driver is registered.
    pub(crate) fn new() -> Self {
        // SAFETY: Called once.
        unsafe { LIST.init() };
        Self(())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // All entries are gone, as the drivers are: what is left is the memory of the list.
        let list = core::mem::replace(&mut *LIST.lock(), KVec::new());
        drop(list);
    }
}

/// An entry of the list. Dropping it removes it.
pub(crate) struct Entry(u64);

impl Entry {
    /// Lists `what`. `ENOMEM`. Sleeps.
    pub(crate) fn new(what: Arc<dyn Listed>) -> Result<Self> {
        let number = NUMBERS.fetch_add(1, Relaxed);
        LIST.lock().push((number, what), GFP_KERNEL)?;
        Ok(Self(number))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut list = LIST.lock();
        let at = list.iter().position(|(number, _)| *number == self.0);
        let removed = at.map(|at| list.remove(at));
        // Not with the lock held.
        drop(list);
        drop(removed);
    }
}

/// Returns what `f` returns for the first entry for which it returns something. `f` must not wait, nor change the
/// list. Sleeps.
pub(crate) fn find<R>(f: impl FnMut(&dyn Listed) -> Option<R>) -> Option<R> {
    let mut f = f;
    LIST.lock().iter().find_map(|(_, listed)| f(&**listed))
}
