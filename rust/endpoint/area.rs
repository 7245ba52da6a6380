// SPDX-License-Identifier: GPL-2.0

//! Areas: memory that only a program and the function that it uses reach.
//!
//! An area is in memory of the host, opened to the function, or in the function's own memory, seen
//! through the window. Its pages are mapped on access, so that they can be zapped at any time; after
//! that a blank page is mapped instead.

use super::memory::Memory;
use crate::{
    fabric::Node,
    hw::endpoint_slots::InboundMapping,
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
/// Bits of the file offsets of an area.
const SHIFT: u32 = 24;
/// The last id: the offsets of the next one are those of objects.
pub(super) const LAST_ID: u64 = (OFFSET >> SHIFT) - 1;
const _: () = assert!(MAX_AREA <= 1 << SHIFT);

/// Where the memory of an area is.
pub(super) enum Backing {
    Host(Memory),
    /// In the function's own memory, from this page of the window on.
    Function(usize),
    /// It was taken away: mappings show a blank page.
    Gone,
    /// The program has freed it, and does not access it any more.
    Freed,
}

impl Backing {
    /// Returns the memory, if it is in the host.
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
    /// The number of its place in the table of areas, and of its inbound mapping if it has one.
    pub(super) n: usize,
    slot: usize,
    bytes: u64,
    /// The address by which the function names it.
    pub(super) at: u64,
    /// Whether the function may read it, and write it.
    rights: (bool, bool),
    cache: Cache,
    /// Mapped in place of pages that were taken away.
    blank: SharedPage,
    #[pin]
    memory: Mutex<Backing>,
}

impl Area {
    pub(super) fn new(
        (id, slot, n): (u64, usize, usize),
        at: u64,
        bytes: u64,
        rights: (bool, bool),
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
                rights,
                cache,
                blank: SharedPage::new()?,
                memory <- new_mutex!(memory, "weft area"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the handle by which the program names it.
    pub(crate) fn handle(&self) -> u32 {
        self.id as u32
    }

    /// Returns its size in bytes, whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the file offset at which it is mapped.
    pub(crate) fn offset(&self) -> u64 {
        OFFSET | self.id << SHIFT
    }

    /// Returns its pages, as file offsets: the first one, and how many.
    pub(super) fn pages(&self) -> (u64, u64) {
        (self.offset() >> PAGE_SHIFT, self.bytes >> PAGE_SHIFT)
    }

    /// Returns whether page `page` of the file is in it.
    pub(super) fn has(&self, page: u64) -> bool {
        let (first, count) = self.pages();
        page >= first && page - first < count
    }

    /// Returns whether it is in memory of this host.
    pub(super) fn is_of_host(&self) -> bool {
        matches!(*self.memory.lock(), Backing::Host(_))
    }

    /// Returns how it is opened to the function, if it is in memory of this host.
    pub(super) fn mapping(&self) -> Option<InboundMapping> {
        let memory = self.memory.lock();
        let Backing::Host(memory) = &*memory else {
            return None;
        };
        let (read, write) = self.rights;
        Some(InboundMapping {
            offset: self.at,
            addr: memory.addr,
            bytes: self.bytes,
            read,
            write,
        })
    }

    /// Takes the memory away. The caller zaps the pages before it reuses the memory.
    pub(super) fn take(&self) -> Backing {
        core::mem::replace(&mut *self.memory.lock(), Backing::Gone)
    }

    /// As [`Self::take`], but an access to the pages then fails with SIGBUS.
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
        // With the memory locked: it is taken first, then zapped.
        fault.insert(pfn.unwrap_or_else(|_| self.blank.pfn()))
    }
}

const _: () = assert!(PAGE_SIZE == crate::proto::endpoint::PAGE as usize);

/// The place of a freed area, while work that may name it is under way.
#[derive(Clone, Copy)]
pub(super) struct Left {
    /// The number of requests that were posted when it was freed.
    pub(super) posted: u32,
    pub(super) at: u64,
    pub(super) bytes: u64,
}
