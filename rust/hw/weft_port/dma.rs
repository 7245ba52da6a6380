// SPDX-License-Identifier: GPL-2.0

//! A channel of the port's DMA engine: [`Mover`] for one link.
//!
//! The ring of descriptors, and a list for each descriptor, are in one piece of coherent memory;
//! descriptor n and its list are at index n modulo the length of the ring. The engine marks a descriptor
//! in the ring as done; it raises an interrupt for those that ask for it. This file must not know what
//! is moved.

use super::{
    chip::Chip,
    layout::{DMA_ORDER as ORDER, DMA_PIECES as PIECES},
};
use crate::{
    hw::{Moved, Mover, Piece},
    sys::{
        area::{rmb, Area},
        dma::DmaMem,
        ext, trace,
    },
};
use kernel::{
    device::{Bound, Device},
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// Descriptors of a ring.
const DEPTH: u32 = 1 << ORDER;
const DESC: usize = ext::WEFT_DMA_DESC_BYTES as usize;
const ELEMENT: usize = ext::WEFT_DMA_ELEMENT_BYTES as usize;
const LIST: usize = PIECES * ELEMENT;
const LISTS_AT: usize = (DEPTH as usize * DESC).next_multiple_of(PAGE_SIZE);
const BYTES: usize = LISTS_AT + DEPTH as usize * LIST;

const _: () = assert!(BYTES % PAGE_SIZE == 0);
const _: () = assert!(PIECES <= ext::WEFT_DMA_MAX_ELEMENTS as usize);
const _: () = assert!(ORDER <= ext::WEFT_DMA_MAX_ORDER);

/// Returns the offset of register `reg` of channel `n`.
fn dma_reg(n: usize, reg: u32) -> usize {
    ext::WEFT_R_DMA as usize + ext::WEFT_DMA_STRIDE as usize * n + reg as usize
}

/// The contents of a descriptor.
#[derive(Clone, Copy, Default)]
struct Desc {
    ctrl: u32,
    at: u64,
    memory: u64,
    bytes: u32,
    elements: u32,
    bell: u32,
}

/// Channel n, which moves data through slot n.
pub(super) struct Channel {
    chip: Arc<Chip>,
    number: usize,
    /// The number of the doorbell page of the kernel for this link.
    page: usize,
    mem: Area,
    addr: u64,
    tail: Atomic<u32>,
    /// Descriptors before this one are released.
    head: Atomic<u32>,
}

impl Channel {
    /// Allocates the memory of channel `number`; `page` is the doorbell page of the kernel for its link.
    pub(super) fn new(
        dev: &Device<Bound>,
        chip: &Arc<Chip>,
        number: usize,
        page: usize,
    ) -> Result<Self> {
        let mem = DmaMem::new(dev, BYTES)?;
        Ok(Self {
            chip: chip.clone(),
            number,
            page,
            addr: mem.addr(),
            mem: Area::from_dma(mem),
            tail: Atomic::new(0),
            head: Atomic::new(0),
        })
    }

    fn reg(&self, reg: u32) -> usize {
        dma_reg(self.number, reg)
    }

    /// Resets the channel and starts it with an empty ring; it interrupts by `vector`.
    pub(super) fn start(&self, vector: u32) {
        self.stop();
        let regs = &self.chip.regs;
        self.tail.store(0, Relaxed);
        self.head.store(0, Relaxed);
        regs.write64(self.reg(ext::WEFT_DMA_BASE), self.addr);
        regs.write32(self.reg(ext::WEFT_DMA_ORDER), ORDER);
        regs.write32(self.reg(ext::WEFT_DMA_VECTOR), vector);
        regs.write32(self.reg(ext::WEFT_DMA_CTRL), ext::WEFT_DMA_ENABLE);
    }

    /// Returns the offset of counter `n`.
    pub(super) fn counter(&self, n: usize) -> usize {
        self.reg(ext::WEFT_DMA_COUNTERS) + 8 * n
    }

    fn place(number: u32) -> usize {
        (number % DEPTH) as usize
    }

    /// Writes the next descriptor, submits it and returns its number; `None` if there is no room.
    fn submit(&self, desc: &Desc) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let number = self.tail.load(Relaxed);
        self.fill(Self::place(number) * DESC, desc).ok()?;
        trace::dma(
            &self.chip.dev,
            self.number as u32,
            number,
            desc.ctrl,
            desc.at,
            desc.memory,
            desc.bytes,
            desc.elements,
        );
        let tail = number.wrapping_add(1);
        self.tail.store(tail, Relaxed);
        // Ordered after the stores to the ring.
        self.chip.regs.write32(self.reg(ext::WEFT_DMA_TAIL), tail);
        Some(number)
    }

    /// Writes `desc` to byte `entry` of the memory.
    fn fill(&self, entry: usize, desc: &Desc) -> Result {
        let mem = &self.mem;
        let word = |off: u32| entry + off as usize;
        mem.zero(entry, DESC)?;
        mem.write32(word(ext::WEFT_DMA_DESC_CTRL), desc.ctrl)?;
        mem.write32(word(ext::WEFT_DMA_DESC_SLOT), self.number as u32)?;
        mem.write64(word(ext::WEFT_DMA_DESC_OFFSET), desc.at)?;
        mem.write64(word(ext::WEFT_DMA_DESC_ADDR), desc.memory)?;
        mem.write32(word(ext::WEFT_DMA_DESC_LEN), desc.bytes)?;
        mem.write32(word(ext::WEFT_DMA_DESC_COUNT), desc.elements)?;
        mem.write32(word(ext::WEFT_DMA_DESC_BELL), desc.bell)
    }

    /// Returns the value for a descriptor that rings `doorbell`, a number from the neighbour; `None` if
    /// there is no such doorbell.
    fn bell(&self, doorbell: u32) -> Option<u32> {
        (doorbell < ext::WEFT_DOORBELLS).then_some((self.page as u32) << 16 | doorbell)
    }
}

impl Mover for Channel {
    fn max_pieces(&self) -> usize {
        PIECES
    }

    fn room(&self) -> usize {
        let used = self
            .tail
            .load(Relaxed)
            .wrapping_sub(self.head.load(Relaxed));
        DEPTH.saturating_sub(used) as usize
    }

    fn write(&self, at: usize, pieces: &[Piece], ring: Option<u32>) -> Option<u32> {
        let bytes = pieces
            .iter()
            .try_fold(0u32, |sum, piece| sum.checked_add(piece.bytes))?;
        let mut desc = Desc {
            ctrl: ext::WEFT_DMA_WRITE,
            at: at as u64,
            bytes,
            ..Desc::default()
        };
        if let Some(doorbell) = ring {
            desc.ctrl |= ext::WEFT_DMA_BELL;
            desc.bell = self.bell(doorbell)?;
        }
        match pieces {
            [] => return None,
            [piece] => desc.memory = piece.addr,
            _ if pieces.len() > PIECES || self.room() == 0 => return None,
            _ => {
                let list = LISTS_AT + Self::place(self.tail.load(Relaxed)) * LIST;
                for (n, piece) in pieces.iter().enumerate() {
                    let element = list + n * ELEMENT;
                    self.mem.write64(element, piece.addr).ok()?;
                    // The upper half is reserved.
                    let bytes = u64::from(piece.bytes);
                    self.mem.write64(element + 8, bytes).ok()?;
                }
                desc.ctrl |= ext::WEFT_DMA_LIST;
                desc.elements = pieces.len() as u32;
                desc.memory = self.addr + list as u64;
            }
        }
        self.submit(&desc)
    }

    fn ring(&self, doorbell: u32) -> Option<u32> {
        self.submit(&Desc {
            ctrl: ext::WEFT_DMA_NOP | ext::WEFT_DMA_BELL,
            bell: self.bell(doorbell)?,
            ..Desc::default()
        })
    }

    fn report(&self) -> Option<u32> {
        self.submit(&Desc {
            ctrl: ext::WEFT_DMA_NOP | ext::WEFT_DMA_IRQ,
            ..Desc::default()
        })
    }

    fn state(&self, number: u32) -> Moved {
        let at = Self::place(number) * DESC + ext::WEFT_DMA_DESC_STATUS as usize;
        let status = self.mem.read32(at).unwrap_or_default();
        if status & ext::WEFT_DMA_DONE == 0 {
            return Moved::NotYet;
        }
        // Later loads must see what was written before the status.
        rmb();
        match status & ext::WEFT_DMA_CODE {
            // The data have left. A refused doorbell is no error here: the layer that waits for its
            // effect notices.
            ext::WEFT_DMA_ST_OK | ext::WEFT_DMA_ST_BELL => Moved::Done,
            ext::WEFT_DMA_ST_LOCAL => Moved::Refused,
            _ => Moved::Failed,
        }
    }

    fn release(&self, number: u32) {
        self.head.store(number.wrapping_add(1), Relaxed);
    }

    fn works(&self) -> bool {
        let status = self.chip.regs.read32(self.reg(ext::WEFT_DMA_STATUS));
        status != u32::MAX && status & ext::WEFT_DMA_RUNNING != 0
    }

    fn stop(&self) {
        let regs = &self.chip.regs;
        regs.write32(self.reg(ext::WEFT_DMA_CTRL), ext::WEFT_DMA_RESET);
        // The read flushes the write.
        let _ = regs.read32(self.reg(ext::WEFT_DMA_STATUS));
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.stop();
    }
}
