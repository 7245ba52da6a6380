// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A virtual function that vfio-pci is bound to: registers, an interrupt, memory for neighbours, and
//! the mailbox to its physical function.

use crate::mapping::{Memory, Regs, descriptor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfio_ioctls::{VfioContainer, VfioDevice};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use weft_fabric::wire::abi as ext;
use weft_proto::pair::{Note, PAIR_BYTES, Packed, Quota};

/// Where the device finds the memory. Of its own, by the IOMMU: no physical address is known here.
const IOVA: u64 = 4 << 30;
const PCI_COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 6;
/// Region of the configuration space.
const CONFIG: u32 = 7;
/// How long the PF may take for a note, and for an answer to the first one.
const PATIENCE: Duration = Duration::from_millis(200);
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Says what could not be done.
pub fn cannot<E: Display>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {what}: {error}")
}

/// The function.
pub struct Function {
    /// Its registers.
    pub regs: Regs,
    /// What neighbours may reach.
    pub arena: Memory,
    /// Links that it may use, a bit each.
    pub quota: Quota,
    interrupt: EventFd,
    device: VfioDevice,
    container: Arc<VfioContainer>,
}

impl Function {
    /// Opens the function at `path` in sysfs and asks its PF what it may use.
    pub fn open(path: &Path) -> Result<Self, String> {
        let container = VfioContainer::new(None).map_err(cannot("open /dev/vfio/vfio"))?;
        let container = Arc::new(container);
        let device = VfioDevice::new(path, container.clone()).map_err(cannot(
            "open the function: is vfio-pci bound to it, and to all others of its IOMMU group?",
        ))?;
        let offset = device.get_region_offset(ext::WEFT_BAR_CTRL);
        let bytes = device.get_region_size(ext::WEFT_BAR_CTRL);
        let regs = Regs::map(descriptor(&device), offset, bytes as usize)
            .map_err(cannot("map the registers"))?;
        device.region_write(CONFIG, &MEMORY_AND_MASTER.to_le_bytes(), PCI_COMMAND);
        if regs.read(ext::WEFT_R_ID) != ext::WEFT_ID {
            return Err("this is no function of a Weft port".into());
        }
        if regs.read(ext::WEFT_R_FUNCTION) & ext::WEFT_FUNCTION_VF == 0 {
            return Err("this is a physical function, not a virtual one".into());
        }
        let interrupt = EventFd::new(EFD_NONBLOCK).map_err(cannot("make an eventfd"))?;
        device.enable_msix(vec![&interrupt]).map_err(cannot("have interrupts"))?;
        let quota = ask(&regs)?;
        let links = u64::from(quota.links.count_ones().max(1));
        let each = (quota.bytes / links).max(1);
        let arena = Memory::new((1usize << each.ilog2()).min(1 << 20))
            .map_err(cannot("have memory for neighbours"))?;
        container
            .vfio_dma_map(IOVA, arena.bytes(), arena.address())
            .map_err(cannot("let the device reach memory"))?;
        Ok(Self { regs, arena, quota, interrupt, device, container })
    }

    /// Where the device finds the arena.
    pub fn arena_address(&self) -> u64 {
        IOVA
    }

    /// Waits for an interrupt, no longer than `most`. Whether one came.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: most.as_nanos().min(999_999_999) as _ };
        let interrupt = descriptor(&self.interrupt);
        match poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => self.interrupt.read().map(|_| true),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // That is how the PF hears that it has no driver any more.
        self.regs.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_RESET);
        let _ = self.device.disable_msix();
        let _ = self.container.vfio_dma_unmap(IOVA, self.arena.bytes());
    }
}

/// Hands a note to the PF. False: it does not take them.
pub fn post(regs: &Regs, note: &Packed) -> bool {
    let since = Instant::now();
    while regs.read(ext::WEFT_R_PF_MBOX + ext::WEFT_PAIR_STATUS) & ext::WEFT_PAIR_BUSY != 0 {
        if since.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    let bytes = note.as_slice();
    for (n, four) in bytes.chunks(4).enumerate() {
        let mut word = [0; 4];
        word[..four.len()].copy_from_slice(four);
        let reg = ext::WEFT_R_PF_MBOX + ext::WEFT_PAIR_TX + 4 * n as u32;
        regs.write(reg, u32::from_le_bytes(word));
    }
    let ctrl = ext::WEFT_PAIR_SEND | bytes.len() as u32;
    regs.write(ext::WEFT_R_PF_MBOX + ext::WEFT_PAIR_CTRL, ctrl);
    true
}

/// Takes the note that has come from the PF: its bytes, and how many.
pub fn take(regs: &Regs) -> Option<([u8; PAIR_BYTES], usize)> {
    let status = regs.read(ext::WEFT_R_PF_MBOX + ext::WEFT_PAIR_STATUS);
    if status == u32::MAX || status & ext::WEFT_PAIR_VALID == 0 {
        return None;
    }
    let mut bytes = [0; PAIR_BYTES];
    for (n, four) in bytes.chunks_mut(4).enumerate() {
        let reg = ext::WEFT_R_PF_MBOX + ext::WEFT_PAIR_RX + 4 * n as u32;
        four.copy_from_slice(&regs.read(reg).to_le_bytes());
    }
    regs.write(ext::WEFT_R_PF_MBOX + ext::WEFT_PAIR_CTRL, ext::WEFT_PAIR_TAKE);
    Some((bytes, ((status & ext::WEFT_PAIR_LEN) as usize).min(PAIR_BYTES)))
}

/// Says hello and hears what the PF grants.
fn ask(regs: &Regs) -> Result<Quota, String> {
    let since = Instant::now();
    let posted = post(regs, &Packed::hello());
    while posted && since.elapsed() < ANSWER_TIME {
        let Some((bytes, len)) = take(regs) else {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        };
        if let Ok(Note::Quota(quota)) = Note::parse(bytes.get(..len).unwrap_or_default()) {
            return Ok(quota);
        }
    }
    Err("its physical function does not answer: is its driver loaded?".into())
}
