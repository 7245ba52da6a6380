// SPDX-License-Identifier: GPL-2.0

//! The objects of a file, by their handles: how they are found, mapped and destroyed.
//!
//! A handle is not used again before all others were: who maps an object, destroys it and makes
//! another does not find the new one where the old one was.
//!
//! # Locks
//!
//! `Objects::table` is taken in page faults, that is, with `mmap_lock` held. Whoever holds it touches
//! no user memory, and destroys nothing.

use super::open_qp::OpenQp;
use crate::{
    fabric::Node,
    mem::{Pd, Region, Used, Window},
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
    /// In what order what a file leaves behind is destroyed: who needs another comes first.
    fn rank(&self) -> u32 {
        match self {
            Self::Window(_) => 3,
            Self::Region(_) => 4,
            Self::Qp(_) => 0,
            Self::Cq(_) | Self::Srq(_) => 1,
            Self::Pd(_) => LAST_RANK,
        }
    }

    /// From now on nobody begins to need it. For one caller: `EBUSY` if another object needs it,
    /// `ENOENT` if it was closed before.
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

    /// Undoes it, after [`Object::close`], or when the file goes. Nobody uses it when this returns.
    fn destroy(&self) {
        match self {
            Self::Region(region) => region.destroy(),
            Self::Window(window) => window.destroy(),
            Self::Qp(qp) => qp.destroy(),
            Self::Pd(_) | Self::Cq(_) | Self::Srq(_) => {}
        }
    }

    /// Its memory, if it can be mapped. Pages are counted from the first one.
    fn memory(&self) -> Option<&Pages> {
        match self {
            Self::Pd(_) | Self::Region(_) | Self::Window(_) => None,
            Self::Cq(cq) => Some(cq.memory()),
            Self::Srq(srq) => Some(srq.memory()),
            Self::Qp(qp) => Some(qp.qp.memory()),
        }
    }
}

/// File offsets of objects begin here: beyond those of channels, in the same address space. No object
/// has the handle 0: in its place are the kick page of the file and its doorbell.
const OFFSET: u64 = PLACE;
/// Bytes of file offsets of each.
const SHIFT: u32 = 28;

/// The file offset where the memory of an object is mapped.
pub(super) fn place(handle: u32) -> u64 {
    OFFSET | u64::from(handle) << SHIFT
}

/// The handle, and the page of its memory, for page `page` of the file.
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

    /// Room for one more. To be had before the object is made, so that what was made can be added.
    pub(super) fn room(&self) -> Result<Room> {
        Ok(Room(RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?))
    }

    /// Adds an object and returns its handle.
    pub(super) fn add(&self, room: Room, object: Object) -> u32 {
        let mut table = self.table.lock();
        let handle = loop {
            let next = table.last.wrapping_add(1);
            table.last = next;
            // 0 names nothing. There are not nearly as many objects as handles.
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

    /// Whether there is an entry that somebody has asked to be told of.
    pub(super) fn is_ready(&self) -> bool {
        let table = self.table.lock();
        let ready = |object: &Object| matches!(object, Object::Cq(cq) if cq.is_ready());
        let any = table.objects.values().any(ready);
        any
    }

    /// The kick page of the file, which gets one with its first queue pair. `None`: the hardware has
    /// no doorbell for it.
    pub(super) fn kick_page(&self, engine: &Engine, node: &Node) -> Result<Option<&Arc<KickPage>>> {
        if self.kicks.as_ref().is_none() {
            if let Some(page) = engine.kick_page(node)? {
                if !self.kicks.populate(page.clone()) {
                    // Somebody was faster.
                    engine.forget(&page);
                }
            }
        }
        Ok(self.kicks.as_ref())
    }

    /// `ENOENT`: there is no such object; `EBUSY`: another one needs it.
    pub(super) fn destroy(&self, handle: u32) -> Result {
        let object = self.get(handle)?;
        object.close()?;
        // Closed once, hence removed once.
        let removed = self.table.lock().objects.remove(&handle);
        object.destroy();
        drop(removed);
        Ok(())
    }

    /// Destroys what the caller was not told of. If somebody has guessed the handle and needs it, it
    /// stays until the file is closed.
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
                // Whoever needs it is gone before it: nothing of another file can be among them.
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
        // All other memory is in its mapping from the beginning.
        match (find_place(fault.page()), self.kicks.as_ref()) {
            (Some((0, page)), Some(kicks)) => kicks.fault(node, page, fault),
            _ => fault.refuse(),
        }
    }
}

/// Room for an object.
pub(super) struct Room(RBTreeNodeReservation<u32, Object>);
