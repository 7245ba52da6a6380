// SPDX-License-Identifier: GPL-2.0

//! The objects of a file, by their handles: looks them up, maps and destroys them.
//!
//! A handle is not used again before all others were: a program that maps an object, destroys it and
//! makes another does not find the new one in place of the old one.
//!
//! # Locks
//!
//! `Objects::table` is taken in page faults, that is, with `mmap_lock` held. The holder touches no
//! user memory, and destroys nothing.

use super::open_qp::OpenQp;
use crate::{
    fabric::Node,
    mem::{Pd, Region, Used, Window},
    share::Payer,
    sys::{
        pages::Pages,
        vma::{Fault, NewVma, Outcome},
    },
    verbs::{Cq, Engine, KickPage, Srq, PLACE},
};
use kernel::{
    new_mutex,
    page::PAGE_SHIFT,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{Arc, Mutex, SetOnce},
};

/// The last of [`Object::rank`].
const LAST_RANK: u32 = 5;

/// An object.
#[derive(Clone)]
pub(super) enum Object {
    Pd(Arc<Pd>),
    Region(Arc<Region>),
    Window(Arc<Window>),
    Cq(Arc<Cq>),
    Srq(Arc<Srq>),
    Qp(Arc<OpenQp>),
}

impl Object {
    /// Returns the order in which the objects of a closed file are destroyed: an object that needs
    /// another has the lower rank.
    fn rank(&self) -> u32 {
        match self {
            Self::Window(_) => 3,
            Self::Region(_) => 4,
            Self::Qp(_) => 0,
            Self::Cq(_) | Self::Srq(_) => 1,
            Self::Pd(_) => LAST_RANK,
        }
    }

    /// Closes the object: no other object can begin to need it. `EBUSY`: another object needs it;
    /// `ENOENT`: it was closed before. So exactly one caller succeeds.
    fn close(&self) -> Result {
        match self {
            Self::Pd(pd) => pd.users().close(),
            Self::Region(region) => region.users().close(),
            Self::Window(window) => window.users().close(),
            Self::Cq(cq) => cq.users().close(),
            Self::Srq(srq) => srq.users().close(),
            Self::Qp(qp) => qp.close(),
        }
    }

    /// Destroys the object, after [`Object::close`] or when the file is closed. It is not in use any
    /// more when this returns. May sleep.
    fn destroy(&self) {
        match self {
            Self::Region(region) => region.destroy(),
            Self::Window(window) => window.destroy(),
            Self::Cq(cq) => cq.destroy(),
            Self::Qp(qp) => qp.destroy(),
            Self::Pd(_) | Self::Srq(_) => {}
        }
    }

    /// Returns its memory, if it can be mapped, counted in pages from the first one.
    fn memory(&self) -> Option<&Pages> {
        match self {
            Self::Pd(_) | Self::Region(_) | Self::Window(_) => None,
            Self::Cq(cq) => Some(cq.memory()),
            Self::Srq(srq) => Some(srq.memory()),
            Self::Qp(qp) => Some(qp.qp.memory()),
        }
    }
}

/// File offsets of objects begin here: beyond those of channels and areas, in the same address space.
/// No object has the handle 0: in its place are the kick page of the file and the doorbell.
const OFFSET: u64 = PLACE;
/// Bits of the file offsets of an object.
const SHIFT: u32 = 28;

/// Returns the file offset at which the memory of an object is mapped.
pub(super) fn place(handle: u32) -> u64 {
    OFFSET | u64::from(handle) << SHIFT
}

/// Returns the handle, and the page in the memory of the object, for page `page` of the file.
fn find_place(page: u64) -> Option<(u32, u64)> {
    const PAGES: u32 = SHIFT - PAGE_SHIFT as u32;
    let inside = page.checked_sub(OFFSET >> PAGE_SHIFT)?;
    let handle = u32::try_from(inside >> PAGES).ok()?;
    Some((handle, inside & ((1 << PAGES) - 1)))
}

struct Table {
    objects: RBTree<u32, Object>,
    last: u32,
}

/// The objects of a file.
#[pin_data]
pub(super) struct Objects {
    #[pin]
    table: Mutex<Table>,
    kicks: SetOnce<Arc<KickPage>>,
}

impl Objects {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(
                    Table {
                        objects: RBTree::new(),
                        last: 0,
                    },
                    "weft objects"
                ),
                kicks: SetOnce::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Allocates room for one more object. Called before the object is made, so that it can be added
    /// without failure.
    pub(super) fn room(&self) -> Result<Room> {
        Ok(Room(RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?))
    }

    /// Adds an object and returns its handle.
    pub(super) fn add(&self, room: Room, object: Object) -> u32 {
        let mut table = self.table.lock();
        let handle = loop {
            let next = table.last.wrapping_add(1);
            table.last = next;
            // 0 names nothing. There are far fewer objects than handles.
            if next != 0 && table.objects.get(&next).is_none() {
                break next;
            }
        };
        table.objects.insert(room.0.into_node(handle, object));
        handle
    }

    fn get(&self, handle: u32) -> Result<Object> {
        let table = self.table.lock();
        table.objects.get(&handle).cloned().ok_or(ENOENT)
    }

    pub(super) fn pd(&self, handle: u32) -> Result<Arc<Pd>> {
        match self.get(handle)? {
            Object::Pd(pd) => Ok(pd),
            _ => Err(ENOENT),
        }
    }

    pub(super) fn cq(&self, handle: u32) -> Result<Arc<Cq>> {
        match self.get(handle)? {
            Object::Cq(cq) => Ok(cq),
            _ => Err(ENOENT),
        }
    }

    pub(super) fn srq(&self, handle: u32) -> Result<Arc<Srq>> {
        match self.get(handle)? {
            Object::Srq(srq) => Ok(srq),
            _ => Err(ENOENT),
        }
    }

    pub(super) fn qp(&self, handle: u32) -> Result<Arc<OpenQp>> {
        match self.get(handle)? {
            Object::Qp(qp) => Ok(qp),
            _ => Err(ENOENT),
        }
    }

    /// Returns whether a completion queue has an entry that a caller has armed it for.
    pub(super) fn is_ready(&self) -> bool {
        let table = self.table.lock();
        let ready = |object: &Object| matches!(object, Object::Cq(cq) if cq.is_ready());
        let any = table.objects.values().any(ready);
        any
    }

    /// Returns the kick page of the file, which is made for its first queue pair. `None`: the
    /// hardware has no doorbell for it.
    pub(super) fn kick_page(
        &self,
        engine: &Engine,
        node: &Node,
        payer: &Payer,
    ) -> Result<Option<&Arc<KickPage>>> {
        if self.kicks.as_ref().is_none() {
            if let Some(page) = engine.kick_page(node, payer)? {
                if !self.kicks.populate(page.clone()) {
                    // Another thread was faster.
                    engine.forget(&page);
                }
            }
        }
        Ok(self.kicks.as_ref())
    }

    /// Destroys an object. `ENOENT`: there is no such object; `EBUSY`: another object needs it.
    pub(super) fn destroy(&self, handle: u32) -> Result {
        let object = self.get(handle)?;
        object.close()?;
        // Closed once, hence removed once.
        let removed = self.table.lock().objects.remove(&handle);
        object.destroy();
        drop(removed);
        Ok(())
    }

    /// Destroys an object that could not be reported to the caller. If another thread has guessed the
    /// handle and needs the object, it stays until the file is closed.
    pub(super) fn undo(&self, handle: u32) {
        let _ = self.destroy(handle);
    }

    /// Destroys what is left when the file is closed.
    pub(super) fn destroy_all(&self, engine: &Engine) {
        if let Some(page) = self.kicks.as_ref() {
            engine.forget(page);
        }
        let mut objects = core::mem::take(&mut self.table.lock().objects);
        for rank in 0..=LAST_RANK {
            for object in objects.values_mut().filter(|o| o.rank() == rank) {
                // The objects that need it are destroyed already: they are all of this file.
                let _ = object.close();
                object.destroy();
            }
        }
    }

    pub(super) fn mmap(&self, vma: &NewVma<'_>) -> Result {
        let (handle, first) = find_place(vma.first()).ok_or(EINVAL)?;
        if handle == 0 {
            return self.kicks.as_ref().ok_or(EINVAL)?.mmap(first, vma);
        }
        let object = self.get(handle).map_err(|_| EINVAL)?;
        object.memory().ok_or(EINVAL)?.map(first, vma)
    }

    pub(super) fn fault(&self, node: &Node, fault: &Fault<'_>) -> Outcome {
        // All other memory is mapped completely by `mmap`.
        match (find_place(fault.page()), self.kicks.as_ref()) {
            (Some((0, page)), Some(kicks)) => kicks.fault(node, page, fault),
            _ => fault.refuse(),
        }
    }
}

/// Reserved room for an object.
pub(super) struct Room(RBTreeNodeReservation<u32, Object>);
