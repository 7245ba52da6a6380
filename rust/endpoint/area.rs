// SPDX-License-Identifier: GPL-2.0

//! Areas: memory that a program and the function that it uses both reach, and nobody else.
//!
//! In memory of the host, opened to the function, or in the function's own, seen through the
//! window. It is mapped page by page when it is touched, so that it can be taken out of all
//! mappings at any time; then a page is there that is nobody's.

use super::memory::Memory;
use crate::{
    fabric::Node,
    sys::{
        iomap::Cache,
        vma::{Fault, NewVma, Outcome, SharedPage},
    },
};
use kernel::{
    new_mutex,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{Arc, Mutex},
};

/// The most bytes of an area.
pub(crate) const MAX_AREA: u64 = 4 << 20;

/// File offsets of areas: beyond those of channels, and in front of those of objects.
const OFFSET: u64 = 1 << 61;
/// Bytes of file offsets of each.
const SHIFT: u32 = 24;
/// The last id whose offsets are in front of those of objects.
pub(super) const LAST_ID: u64 = (OFFSET >> SHIFT) - 1;
const _: () = assert!(MAX_AREA <= 1 << SHIFT);

/// Where it is.
pub(super) enum Backing {
    Host(Memory),
    /// From this page of the window on.
    Function(usize),
    /// It was taken away; what is mapped shows a page that is nobody's.
    Gone,
    /// The program has given it up: it does not touch it any more.
    Freed,
}

impl Backing {
    /// The memory, if it is the host's.
    pub(super) fn into_host(self) -> Option<Memory> {
        match self {
            Self::Host(memory) => Some(memory),
            Self::Function(_) | Self::Gone | Self::Freed => None,
        }
    }
}

/// An area of an open function.
#[pin_data]
pub(crate) struct Area {
    pub(super) id: u64,
    /// The mapping, or the place, that it has.
    pub(super) n: usize,
    slot: usize,
    bytes: u64,
    /// Where the function finds it.
    pub(super) at: u64,
    cache: Cache,
    /// In place of pages that were taken away.
    blank: SharedPage,
    #[pin]
    memory: Mutex<Backing>,
}

impl Area {
    pub(super) fn new(
        (id, slot, n): (u64, usize, usize),
        at: u64,
        bytes: u64,
        memory: Backing,
    ) -> Result<Arc<Self>> {
        let cache = match memory {
            Backing::Host(_) => Cache::Normal,
            _ => Cache::Uncached,
        };
        Arc::pin_init(
            try_pin_init!(Self {
                id,
                n,
                slot,
                bytes,
                at,
                cache,
                blank: SharedPage::new()?,
                memory <- new_mutex!(memory, "weft area"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// By which the program names it.
    pub(crate) fn handle(&self) -> u32 {
        self.id as u32
    }

    /// Bytes, whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file offset where it is mapped.
    pub(crate) fn offset(&self) -> u64 {
        OFFSET | self.id << SHIFT
    }

    /// Its pages, as file offsets: the first one, and how many.
    pub(super) fn pages(&self) -> (u64, u64) {
        (self.offset() >> PAGE_SHIFT, self.bytes >> PAGE_SHIFT)
    }

    /// Whether it has that page of the file.
    pub(super) fn has(&self, page: u64) -> bool {
        let (first, count) = self.pages();
        page >= first && page - first < count
    }

    /// Whether it is in memory of this host.
    pub(super) fn is_of_host(&self) -> bool {
        matches!(*self.memory.lock(), Backing::Host(_))
    }

    /// Takes the memory away; its pages are to be zapped before it is another's.
    pub(super) fn take(&self) -> Backing {
        core::mem::replace(&mut *self.memory.lock(), Backing::Gone)
    }

    /// As [`Self::take`], and no page comes in its place.
    pub(super) fn free(&self) -> Backing {
        core::mem::replace(&mut *self.memory.lock(), Backing::Freed)
    }

    pub(super) fn mmap(&self, vma: &NewVma<'_>) -> Result {
        let (first, count) = self.pages();
        let end = vma.first().checked_add(vma.count()).ok_or(EINVAL)?;
        if end > first + count {
            return Err(EINVAL);
        }
        vma.accept(true, self.cache)
    }

    pub(super) fn fault(&self, node: &Node, fault: &Fault<'_>) -> Outcome {
        let page = (fault.page() - self.pages().0) as usize;
        let port = node.port_at_work();
        let memory = self.memory.lock();
        let pfn = match &*memory {
            Backing::Host(memory) => memory.area.pfn(page),
            Backing::Function(first) => {
                match port.as_ref().and_then(|port| port.endpoint_slots()) {
                    Some(slots) => slots.window(self.slot).and_then(|w| w.pfn(first + page)),
                    None => Err(ENODEV),
                }
            }
            Backing::Gone => Err(ENODEV),
            Backing::Freed => return fault.refuse(),
        };
        // With the memory locked: it is zapped after it was taken.
        fault.insert(pfn.unwrap_or_else(|_| self.blank.pfn()))
    }
}

const _: () = assert!(PAGE_SIZE == crate::proto::endpoint::PAGE as usize);

/// An area of before, while work that may name it is under way.
#[derive(Clone, Copy)]
pub(super) struct Left {
    /// How much was posted when it went.
    pub(super) posted: u32,
    pub(super) at: u64,
    pub(super) bytes: u64,
}
