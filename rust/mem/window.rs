// SPDX-License-Identifier: GPL-2.0

//! A memory window: a part of a region, for peers, with its own rights, which work requests bind and
//! invalidate.

use super::{
    access::{Target, Windows},
    Denied, Memory, Pd, Rights, Use, Used, Users, MAX_STAGS,
};
use crate::{
    proto::{
        stag::Stag,
        tpt::{Extent, Owner},
    },
    share::{Charge, Payer, Table},
    sys::slots::{Slot, Taken},
};
use core::task::{ready, Poll};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::{Arc, Mutex},
};

struct State {
    /// `None`: the window was destroyed. The domain is in use as long as the slot, which counts for the
    /// user.
    slot: Option<(Slot<Target>, Use<Pd>, Charge)>,
    /// The use of the region that it is bound to, and the key that it was bound with. Stays until the
    /// accesses by the binding have ended.
    bound: Option<(Use<Windows>, u8)>,
}

impl State {
    /// Closes the binding to new accesses, and takes it away if no access is in progress; else
    /// pending.
    fn unbind(&mut self) -> Poll<Option<Taken<Target>>> {
        let taken = match &mut self.slot {
            Some((slot, ..)) => ready!(slot.try_take()),
            None => None,
        };
        self.bound = None;
        Poll::Ready(taken)
    }

    fn key(&self) -> Option<u8> {
        self.bound.as_ref().map(|(_, key)| *key)
    }
}

/// A window.
#[pin_data]
pub(crate) struct Window {
    memory: Arc<Memory>,
    index: u32,
    pd: u64,
    #[pin]
    state: Mutex<State>,
    users: Users,
}

/// What a window is to be bound to.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    /// STag of the region.
    pub(crate) region: u32,
    /// TO of the first byte.
    pub(crate) to: u64,
    /// Bytes; 0 to unbind.
    pub(crate) length: u64,
    /// Mask of `WEFT_ACCESS_REMOTE_*`.
    pub(crate) access: u32,
    pub(crate) key: u8,
}

impl Window {
    /// Makes a window that is not bound. `ENOSPC`: the port has no STag left; `EDQUOT`: `payer` has its
    /// share; `ENOENT`: the domain is being destroyed.
    pub(crate) fn new(memory: &Arc<Memory>, payer: &Payer, pd: Arc<Pd>) -> Result<Arc<Self>> {
        let id = pd.id();
        let pd = Use::new(pd)?;
        let charge = payer.take(Table::Stags, MAX_STAGS, 1)?;
        let slot = memory.slots.own()?;
        let index = slot.index();
        let held = (slot, pd, charge);
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let window = Arc::pin_init(
            pin_init!(Self {
                memory: memory.clone(),
                index,
                pd: id,
                state <- new_mutex!(
                    State {
                        slot: Some(held),
                        bound: None,
                    },
                    "weft window"
                ),
                users: Users::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let mut windows = memory.windows.lock();
        windows.insert(node.into_node(index, window.clone()));
        drop(windows);
        Ok(window)
    }

    /// Returns the STag, with the key 0.
    pub(crate) fn stag(&self) -> u32 {
        // The index of a slot always fits into an STag.
        Stag::new(self.index, 0).map_or(0, |stag| stag.0)
    }

    /// Destroys the window. When this returns, no memory is reached by it. Waits for accesses in
    /// progress.
    pub(crate) fn destroy(&self) {
        // Removed while the window still owns the index, hence before another window can have it.
        let found = self.memory.windows.lock().remove(&self.index);
        let mut state = self.state.lock();
        let (slot, bound) = (state.slot.take(), state.bound.take());
        // The lock is released first: a waiter for it may hold the access that is waited for.
        drop(state);
        drop(slot);
        drop(bound);
        drop(found);
    }
}

impl Used for Window {
    /// Always 0: no object uses a window.
    fn users(&self) -> &Users {
        &self.users
    }
}

impl Memory {
    /// Returns the window that `stag` names, if it is of the domain `pd`.
    fn window(&self, pd: &Pd, stag: Stag) -> Result<Arc<Window>, Denied> {
        let window = self.windows.lock().get(&stag.index()).cloned();
        let window = window.ok_or(Denied::Invalid)?;
        if window.pd == pd.id() {
            Ok(window)
        } else {
            Err(Denied::Pd)
        }
    }

    /// Binds a window, instead of the region that it is bound to. `stag` has the key 0 or the one
    /// that the window was bound with. Pending: the old binding is closed to new accesses, but one is
    /// still in progress; the caller is to call again. If it is denied, nothing changes. Does not
    /// wait.
    pub(crate) fn bind(&self, pd: &Pd, stag: u32, binding: &Binding) -> Poll<Result<(), Denied>> {
        let stag = Stag(stag);
        // Keeps the device bound. Dropped after what may be the last reference to a region.
        let Ok(_busy) = self.slots.busy() else {
            return Poll::Ready(Err(Denied::Invalid));
        };
        let window = self.window(pd, stag)?;
        let mut state = window.state.lock();
        if stag.key() != 0 && state.key() != Some(stag.key()) {
            return Poll::Ready(Err(Denied::Key));
        }
        let new = if binding.length == 0 {
            None
        } else {
            Some(self.target(pd, binding)?)
        };
        let old = ready!(state.unbind());
        let bound = match (new, &mut state.slot) {
            (Some((target, region)), Some((slot, ..))) => {
                slot.open(target).map_err(|_| Denied::Invalid)?;
                Some((region, binding.key))
            }
            (None, Some(_)) => None,
            (_, None) => return Poll::Ready(Err(Denied::Invalid)),
        };
        state.bound = bound;
        drop(state);
        drop(old);
        Poll::Ready(Ok(()))
    }

    /// Returns the table entry of a window with this binding, and its use of the region.
    fn target(&self, pd: &Pd, binding: &Binding) -> Result<(Target, Use<Windows>), Denied> {
        let owner = Owner {
            key: binding.key,
            pd: pd.id(),
            rights: Rights::of_window(binding.access).ok_or(Denied::Rights)?,
        };
        let extent = Extent {
            base: binding.to,
            length: binding.length,
        };
        let stag = Stag(binding.region);
        let region = self.slots.find(stag.index()).ok_or(Denied::Invalid)?;
        let entry = region.entry.window(stag, owner, extent)?;
        let windows = region.windows.clone().ok_or(Denied::Invalid)?;
        let target = Target {
            entry,
            place: region.place.clone(),
            windows: None,
        };
        Ok((target, Use::new(windows).map_err(|_| Denied::Invalid)?))
    }

    /// Unbinds the window that `stag` names, with the key that it was bound with. Pending as in
    /// [`Memory::bind`]. Does not wait.
    pub(crate) fn invalidate(&self, pd: &Pd, stag: u32) -> Poll<Result<(), Denied>> {
        let stag = Stag(stag);
        let window = self.window(pd, stag)?;
        let mut state = window.state.lock();
        match state.key() {
            None => return Poll::Ready(Err(Denied::Invalid)),
            Some(key) if key != stag.key() => return Poll::Ready(Err(Denied::Key)),
            Some(_) => {}
        }
        let old = ready!(state.unbind());
        drop(state);
        drop(old);
        Poll::Ready(Ok(()))
    }
}
