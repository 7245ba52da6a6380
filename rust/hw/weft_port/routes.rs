// SPDX-License-Identifier: GPL-2.0

//! Local ids, the route table, and configuration requests of a Weft port: [`Router`].
//!
//! This file keeps no copy of the settings, and a reset of the port clears them. It must not know which
//! host manages the fabric, nor what a route is for.

use super::{
    chip::Chip,
    layout::{field, route_reg},
};
use crate::{
    hw::{Route, Router},
    sys::{
        errno::{EHOSTUNREACH, ENOLINK, ESTALE},
        ext,
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
    time::{delay::fsleep, Delta, Instant, Monotonic},
};

/// How long to wait until a change is in force, or for an answer. Both take microseconds, unless a
/// machine with windows onto that path is stopped.
const PATIENCE: Delta = Delta::from_secs(1);
const POLL: Delta = Delta::from_micros(50);

/// The route table and the configuration requests. Registers that take more than one access have a lock;
/// neither lock is taken inside the other.
#[pin_data]
pub(super) struct Routes {
    chip: Arc<Chip>,
    entries: usize,
    hops: usize,
    #[pin]
    table: Mutex<()>,
    #[pin]
    request: Mutex<()>,
}

impl Routes {
    /// Returns `None` if the port has no routes, or is not the function of its endpoint that has them.
    pub(super) fn new(chip: &Arc<Chip>) -> Result<Option<Pin<KBox<Self>>>> {
        let cap = chip.read(ext::WEFT_R_ROUTE_CAP);
        let has = chip.read(ext::WEFT_R_CAP1) & ext::WEFT_CAP1_ROUTES != 0;
        if !has || !chip.caps.is_first() || cap == u32::MAX {
            return Ok(None);
        }
        let hops = field(cap, ext::WEFT_ROUTE_CAP_HOPS) as usize;
        let routes = KBox::pin_init(
            pin_init!(Self {
                chip: chip.clone(),
                entries: field(cap, ext::WEFT_ROUTE_CAP_ENTRIES) as usize,
                // Bytes of CFG_PATH.
                hops: hops.min(ext::WEFT_MAX_HOPS as usize),
                table <- new_mutex!((), "weft_port::routes"),
                request <- new_mutex!((), "weft_port::config"),
            }),
            GFP_KERNEL,
        )?;
        Ok(Some(routes))
    }

    /// Waits until the bits of `busy` in the register at `reg` are clear, and returns its value.
    /// `ETIMEDOUT` after a second; `ENODEV` if the port does not answer. Sleeps.
    fn settle(&self, reg: usize, busy: u32) -> Result<u32> {
        let since = Instant::<Monotonic>::now();
        loop {
            let status = self.chip.regs.read32(reg);
            if status == u32::MAX {
                return Err(ENODEV);
            }
            if status & busy == 0 {
                return Ok(status);
            }
            if since.elapsed() >= PATIENCE {
                return Err(ETIMEDOUT);
            }
            fsleep(POLL);
        }
    }

    /// Sends a configuration request and waits for its answer. `write`: the data and the term of a
    /// write.
    fn request(
        &self,
        path: &[u8],
        space: u32,
        addr: u32,
        write: Option<(u32, u32)>,
    ) -> Result<u32> {
        if path.is_empty() || path.len() > self.hops || space > field(u32::MAX, ext::WEFT_CFG_SPACE)
        {
            return Err(EINVAL);
        }
        let chip = &self.chip;
        let _request = self.request.lock();
        let status = ext::WEFT_R_CFG_STATUS as usize;
        // There is one request at a time, and one that has timed out may still be in progress.
        self.settle(status, ext::WEFT_CFG_BUSY)?;
        chip.regs.write_bytes(ext::WEFT_R_CFG_PATH as usize, path);
        chip.write(ext::WEFT_R_CFG_ADDR, addr);
        let mut ctrl = path.len() as u32 | space << ext::WEFT_CFG_SPACE.trailing_zeros();
        if let Some((data, term)) = write {
            chip.write(ext::WEFT_R_CFG_DATA, data);
            chip.write(ext::WEFT_R_CFG_TERM, term);
            ctrl |= ext::WEFT_CFG_WRITE;
        }
        chip.write(ext::WEFT_R_CFG_CTRL, ctrl);
        let done = self.settle(status, ext::WEFT_CFG_BUSY)?;
        match field(done, ext::WEFT_CFG_RESULT) {
            ext::WEFT_CFG_OK => Ok(chip.read(ext::WEFT_R_CFG_DATA)),
            ext::WEFT_CFG_NO_PATH => Err(EHOSTUNREACH.into()),
            ext::WEFT_CFG_STALE => Err(ESTALE.into()),
            ext::WEFT_CFG_READ_ONLY => Err(EACCES),
            ext::WEFT_CFG_BAD => Err(EINVAL),
            ext::WEFT_CFG_FULL => Err(ENOSPC),
            ext::WEFT_CFG_NO_FABRIC => Err(ENOLINK.into()),
            ext::WEFT_CFG_BUSY_THERE => Err(EBUSY),
            _ => Err(EIO),
        }
    }
}

impl Router for Routes {
    fn set_lid(&self, lid: u32) {
        self.chip.write(ext::WEFT_R_LID, lid);
    }

    fn lid(&self) -> u32 {
        match self.chip.read(ext::WEFT_R_LID) {
            u32::MAX => 0,
            lid => lid,
        }
    }

    fn routes(&self) -> usize {
        self.entries
    }

    fn set_route(&self, n: usize, route: Option<Route>) -> Result {
        if n >= self.entries {
            return Err(EINVAL);
        }
        let regs = &self.chip.regs;
        let reg = |reg| route_reg(n, reg);
        let _table = self.table.lock();
        if let Some(route) = route {
            let good = route.first != 0
                && route.first <= route.last
                && route.link < self.chip.caps.links
                && route.vp < ext::WEFT_VPS
                && route.from_links <= ext::WEFT_ROUTE_FROM_LINKS;
            if !good {
                return Err(EINVAL);
            }
            let mut from = route.from_links;
            if from != 0 {
                from |= 1 << (ext::WEFT_ROUTE_FROM_VPS.trailing_zeros() + route.vp);
            }
            if route.from_self {
                from |= ext::WEFT_ROUTE_FROM_SELF;
            }
            let out = route.link as u32 | route.vp << ext::WEFT_ROUTE_VP.trailing_zeros();
            regs.write32(reg(ext::WEFT_ROUTE_FIRST), route.first);
            regs.write32(reg(ext::WEFT_ROUTE_LAST), route.last);
            regs.write32(reg(ext::WEFT_ROUTE_OUT), out);
            regs.write32(reg(ext::WEFT_ROUTE_FROM), from);
        }
        let ctrl = match route {
            Some(_) => ext::WEFT_ROUTE_ENABLE,
            None => 0,
        };
        regs.write32(reg(ext::WEFT_ROUTE_CTRL), ctrl);
        self.settle(reg(ext::WEFT_ROUTE_STATUS), ext::WEFT_ROUTE_BUSY)?;
        Ok(())
    }

    fn attests(&self) -> bool {
        let cap1 = self.chip.read(ext::WEFT_R_CAP1);
        // A port that does not answer is in no fabric.
        cap1 & ext::WEFT_CAP1_ATTESTS != 0
    }

    fn cfg_read(&self, path: &[u8], space: u32, addr: u32) -> Result<u32> {
        self.request(path, space, addr, None)
    }

    fn cfg_write(&self, path: &[u8], space: u32, addr: u32, data: u32, term: u32) -> Result {
        self.request(path, space, addr, Some((data, term)))?;
        Ok(())
    }
}
