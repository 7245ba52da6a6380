// SPDX-License-Identifier: GPL-2.0

//! The probe of a Weft port: its memory, its mappings and its vectors, step by step.

use super::{
    chip::Chip,
    dma,
    endpoint_slots::SlotTable,
    far::Far,
    layout::{self, DOORBELL_VECTOR, ERROR_VECTOR, LINK_VECTOR, MBOX_VECTOR},
    routes, to_pf, vfs, Link, Locks, WeftPort,
};
use crate::{
    hw::{
        arena::{new_arena, MAX_ARENA, MIN_ARENA},
        endpoint_slots::WINDOW_BYTES,
        Events, Port, MAX_FAR,
    },
    sys::{
        area::{Area, Cache},
        dma::DmaSource,
        ext,
        gate::Gate,
        iomap::{IoMap, Region, Regs},
        irq::{IrqSet, Line},
        pci::{vf_bar, Enabled},
        steps::Steps,
    },
};
use kernel::{
    device::{Bound, Core, Device},
    dma::{Device as _, DmaMask},
    fmt, new_mutex, pci,
    prelude::*,
    str::CString,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

/// Returns the size of each arena of a VF, a part of the quota that its PF answers, at most `most`, and for how many
/// routed links there are arenas then.
///
/// `ENODEV` if the PF does not answer; `ENOSPC` if the quota is too small. Sleeps.
fn arena_of_vf(
    dev: &Device<Bound>,
    chip: &Chip,
    to_pf: &to_pf::ToPf,
    most: usize,
) -> Result<(usize, usize)> {
    let Some(quota) = to_pf.ask(chip) else {
        dev_err!(
            dev,
            "the driver of its physical function does not answer: is weft bound to it?\n"
        );
        return Err(ENODEV);
    };
    let links = quota.links.count_ones().max(1);
    let each = (quota.bytes / u64::from(links)).min(most as u64);
    if each < MIN_ARENA as u64 {
        dev_err!(
            dev,
            "its quota of {} bytes is too small for {} links, which need {} KiB each\n",
            quota.bytes,
            links,
            MIN_ARENA >> 10
        );
        return Err(ENOSPC);
    }
    // What links to neighbours leave; the hardware has a VF use routes if it may use all links.
    let near = u64::from(links);
    let all_links = quota.links.count_ones() as usize == chip.caps.links;
    let carried = (quota.bytes / MIN_ARENA as u64).saturating_sub(near) as usize;
    let far = chip.caps.far.min(if all_links { carried } else { 0 });
    if far < chip.caps.far {
        dev_info!(
            dev,
            "can have links to {} hosts that are no neighbours, and has slots for {}: its quota is {} bytes and the \
             links {:#x}\n",
            far,
            chip.caps.far,
            quota.bytes,
            quota.links
        );
    }
    let each = (quota.bytes / (near + far as u64).max(1)).min(most as u64);
    // A power of two, as the arenas of the PF.
    Ok((1 << each.max(1).ilog2(), far))
}

/// Returns how many slots each virtual function has, 0 if there are none.
fn slots_of_vfs(dev: &pci::Device<Core<'_>>, chip: &Chip) -> usize {
    let shift = chip.read(ext::WEFT_R_SLOT_SHIFT);
    let windows = vf_bar(dev, ext::WEFT_BAR_WINDOW).map_or(0, |bar| bar.bytes);
    // Each slot is there twice, see `weft_regs.h`.
    windows
        .checked_shr(shift.saturating_add(1))
        .map_or(0, |slots| slots as usize)
}

/// How often a function has found too few vectors.
static WITHOUT_VECTORS: Atomic<u32> = Atomic::new(0);

/// Returns how often a function has not been bound because there are too few interrupt vectors.
pub(crate) fn without_vectors() -> u32 {
    WITHOUT_VECTORS.load(Relaxed)
}

/// Resets a VF when its probe fails: by that the PF learns that the VF has no driver.
struct ResetOnDrop<'a>(&'a Chip);

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        if self.0.caps.is_vf {
            self.0.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_RESET);
        }
    }
}

/// Reserves the BAR of the windows. Maps the outbound slot of each link through the write-combining
/// alias, and that of each endpoint slot uncached.
fn new_windows(dev: &pci::Device<Bound>, chip: &Chip) -> Result<(Region, KVec<Area>, KVec<Area>)> {
    let shift = chip.read(ext::WEFT_R_SLOT_SHIFT);
    let alias = chip.regs.read64(ext::WEFT_R_WC_OFFSET as usize);
    if !(12..=40).contains(&shift) {
        dev_err!(dev, "has slots of 2^{} bytes\n", shift);
        return Err(ENODEV);
    }
    let links = chip.caps.links + chip.caps.far;
    let all = (links as u64) << shift;
    let min = alias.checked_add(all).ok_or(ENODEV)?;
    let region = Region::new(dev, ext::WEFT_BAR_WINDOW, min)?;
    let bytes = (1usize << shift).min(MAX_ARENA);
    let mut windows = KVec::with_capacity(links, GFP_KERNEL)?;
    for link in 0..links {
        let at = alias + ((link as u64) << shift);
        let map = IoMap::new(&region, at, bytes, Cache::WriteCombining)?;
        let map = Arc::new(map, GFP_KERNEL)?;
        windows.push(Area::from_map(map, 0, bytes)?, GFP_KERNEL)?;
    }
    let mut slots = KVec::with_capacity(chip.caps.endpoint_slots, GFP_KERNEL)?;
    for slot in 0..chip.caps.endpoint_slots {
        let at = ((links + slot) as u64) << shift;
        let map = IoMap::new(&region, at, WINDOW_BYTES, Cache::Uncached)?;
        let map = Arc::new(map, GFP_KERNEL)?;
        slots.push(Area::from_map(map, 0, WINDOW_BYTES)?, GFP_KERNEL)?;
    }
    Ok((region, windows, slots))
}

/// Returns the vectors that get a handler, with their names.
fn lines(chip: &Chip) -> Result<KVec<Line>> {
    let links = chip.caps.links;
    let mut lines = KVec::new();
    let mut add = |vector, name: fmt::Arguments<'_>| -> Result {
        let name = CString::try_from_fmt(name)?;
        Ok(lines.push(Line { vector, name }, GFP_KERNEL)?)
    };
    add(LINK_VECTOR, fmt!("link"))?;
    add(MBOX_VECTOR, fmt!("mailbox"))?;
    add(ERROR_VECTOR, fmt!("error"))?;
    for link in 0..links {
        let (wake, echo) = (layout::wake(links, link), layout::echo(links, link));
        add(DOORBELL_VECTOR + wake, fmt!("wake{}", link))?;
        add(DOORBELL_VECTOR + echo, fmt!("echo{}", link))?;
    }
    add(DOORBELL_VECTOR + layout::kick(links), fmt!("kick"))?;
    add(layout::dma_vector(links), fmt!("dma"))?;
    if chip.caps.far != 0 {
        add(layout::far_vector(links), fmt!("far"))?;
    }
    if chip.caps.endpoint_slots != 0 {
        add(layout::endpoint_vector(links), fmt!("endpoints"))?;
    }
    Ok(lines)
}

impl WeftPort {
    /// Brings the port up, except for what [`Port::start`] does. All steps are undone on failure.
    /// Sleeps.
    pub(crate) fn probe(
        dev: &pci::Device<Core<'_>>,
        events: Arc<dyn Events>,
        arena: usize,
        steps: &mut Steps<'_>,
    ) -> Result<KBox<dyn Port>> {
        let bound: &Device<Bound> = dev.as_ref();
        let enabled = steps.step("enable", || Enabled::new(dev))?;
        steps.step("DMA mask", || {
            // SAFETY: Nothing was allocated for DMA yet.
            unsafe { dev.dma_set_mask_and_coherent(DmaMask::new::<64>()) }
        })?;
        let (control, chip) = steps.step("registers", || {
            let bytes = ext::WEFT_BAR_CTRL_SIZE as usize;
            let control = Region::new(dev, ext::WEFT_BAR_CTRL, bytes as u64)?;
            let regs = Regs::new(&control, bytes)?;
            let chip = Chip::new(regs, bound.into(), events)?;
            // Apertures that a previous driver has left open must not lead into memory.
            chip.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_RESET);
            Ok((control, chip))
        })?;
        let to_pf = if chip.caps.is_vf {
            Some(steps.step("physical function", to_pf::ToPf::new)?)
        } else {
            None
        };
        // Dropped before the device is disabled. Forgotten once there is a port, which resets itself.
        let held = chip.clone();
        let reset = ResetOnDrop(&held);
        let (arena, far) = match &to_pf {
            Some(to_pf) => arena_of_vf(bound, &chip, to_pf, arena)?,
            None => (arena, chip.caps.far),
        };
        let vfs = steps.step("virtual functions", || {
            // The default quota of bytes: as much as one arena of this function for the links to neighbours, but at
            // least the minimum for each, and in proportion for routed ones.
            let (near, slots) = (chip.caps.links, slots_of_vfs(dev, &chip));
            let each = (arena / near.max(1)).max(MIN_ARENA);
            let all = slots.clamp(near, near + MAX_FAR);
            vfs::Vfs::new(&chip, (each * all) as u64, slots)
        })?;
        let routes = steps.step("routes", || routes::Routes::new(&chip))?;
        let (windows, mapped, slots) = steps.step("windows", || new_windows(dev, &chip))?;
        let source = DmaSource::new(bound);
        let links = steps.step("arenas", || {
            let mut links = KVec::with_capacity(chip.caps.links + chip.caps.far, GFP_KERNEL)?;
            for (n, window) in mapped.into_iter().enumerate() {
                let is_far = n >= chip.caps.links;
                let channel = if n < chip.caps.channels {
                    let page = layout::kernel_page(chip.caps.links, n);
                    Some(dma::Channel::new(bound, &chip, n, page)?)
                } else {
                    None
                };
                let link = Link {
                    channel,
                    arena: KBox::pin_init(Gate::new(), GFP_KERNEL)?,
                    arena_addr: Atomic::new(0),
                    window,
                    far: is_far.then(Far::new),
                    trained_before: Atomic::new(0),
                    trained_seen: Atomic::new(0),
                    held_since: Atomic::new(0),
                    held: Atomic::new(false),
                };
                if !is_far {
                    link.set_arena(new_arena(bound, &source, n, arena)?)?;
                }
                links.push(link, GFP_KERNEL)?;
            }
            Ok(links)
        })?;
        let irqs = steps.step("interrupts", || {
            dev.set_master();
            let lines = lines(&chip)?;
            let last = lines.iter().map(|line| line.vector).max();
            IrqSet::new(dev, &chip, last.unwrap_or(0) + 1, lines).inspect_err(|e| {
                if *e == ENOSPC {
                    WITHOUT_VECTORS.fetch_add(1, Relaxed);
                }
            })
        })?;
        let locks = KBox::pin_init(
            pin_init!(Locks {
                tables <- new_mutex!((), "weft_port::tables"),
                send <- new_mutex!((), "weft_port::send"),
                recv <- new_mutex!((), "weft_port::recv"),
                masked <- new_mutex!(false, "weft_port::masked"),
            }),
            GFP_KERNEL,
        )?;
        let slots = SlotTable::new(slots, links.len())?;
        let port = KBox::new(
            Self {
                irqs,
                links,
                far,
                memory: source,
                arena_wanted: arena as u64,
                suspended: Atomic::new(false),
                locks,
                slots,
                to_pf,
                routes,
                vfs,
                chip,
                _windows: windows,
                control,
                _enabled: enabled,
            },
            GFP_KERNEL,
        )?;
        core::mem::forget(reset);
        Ok(port)
    }
}
