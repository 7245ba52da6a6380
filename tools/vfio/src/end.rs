// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One end of a link: what the link's state machine has done by the registers of a virtual function.
//!
//! The machine is the driver's own. What it does without a driver's users stands here: a window and an
//! aperture each, and no doorbells.

use crate::function::{Function, post};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weft_fabric::wire::{abi as ext, field};
use weft_proto::link::{Effects, Failed, Peer, Reason};
use weft_proto::pair::{Packed, Via};
use weft_proto::wire::{MAX_BYTES, Message, Offer};

/// How long a neighbour may take to let go of the arena.
const WITHDRAW_TIME: Duration = Duration::from_millis(100);

/// A function, and a link of it.
pub struct End<'a> {
    /// The function.
    pub function: &'a Function,
    /// Number of the link.
    pub link: u32,
    number: u8,
    /// Messages that were not taken by the PF.
    pub lost: u32,
}

impl<'a> End<'a> {
    /// That of `link`, with nothing open.
    pub fn new(function: &'a Function, link: u32) -> Self {
        Self { function, link, number: 0, lost: 0 }
    }

    fn link_reg(&self, reg: u32) -> u32 {
        ext::WEFT_R_LINK + ext::WEFT_LINK_STRIDE * self.link + reg
    }

    fn slot_reg(&self, reg: u32) -> u32 {
        ext::WEFT_R_SLOT + ext::WEFT_SLOT_STRIDE * self.link + reg
    }

    fn inbound_reg(&self, reg: u32) -> u32 {
        ext::WEFT_R_INBOUND + ext::WEFT_INBOUND_STRIDE * self.link + reg
    }

    /// Whether the hardware has a link, and how often it has trained.
    pub fn is_up(&self) -> Option<u32> {
        let status = self.function.regs.read(self.link_reg(ext::WEFT_LINK_STATUS));
        let up = status != u32::MAX && status & ext::WEFT_LINK_UP != 0;
        up.then(|| self.function.regs.read(self.link_reg(ext::WEFT_LINK_TRAINED)))
    }

    /// What the neighbour's accesses reach, and whether this one's do.
    pub fn is_intact(&self) -> bool {
        let regs = &self.function.regs;
        regs.read(self.slot_reg(ext::WEFT_SLOT_STATUS)) & ext::WEFT_SLOT_LIVE != 0
            && regs.read(self.inbound_reg(ext::WEFT_INBOUND_STATUS)) & ext::WEFT_INBOUND_LIVE != 0
    }

    fn settle(&self) -> Result<(), Failed> {
        let since = Instant::now();
        let status = self.inbound_reg(ext::WEFT_INBOUND_STATUS);
        while self.function.regs.read(status) & ext::WEFT_INBOUND_BUSY != 0 {
            if since.elapsed() >= WITHDRAW_TIME {
                return Err(Failed);
            }
            sleep(Duration::from_micros(100));
        }
        Ok(())
    }
}

impl Effects for End<'_> {
    fn grant(&mut self) -> Result<Offer, Failed> {
        self.settle()?;
        let (regs, arena) = (&self.function.regs, &self.function.arena);
        arena.clear();
        let offset = u64::from(self.link) << 32;
        let reg = |reg| self.inbound_reg(reg);
        regs.write64(reg(ext::WEFT_INBOUND_OFFSET), offset);
        regs.write64(reg(ext::WEFT_INBOUND_LEN), arena.bytes());
        regs.write64(reg(ext::WEFT_INBOUND_BASE), self.function.arena_address());
        let rights = ext::WEFT_RIGHT_READ | ext::WEFT_RIGHT_WRITE;
        regs.write(reg(ext::WEFT_INBOUND_RIGHTS), rights);
        regs.write(reg(ext::WEFT_INBOUND_ALLOW), 1 << self.link);
        regs.write(reg(ext::WEFT_INBOUND_CTRL), ext::WEFT_INBOUND_ENABLE);
        if regs.read(reg(ext::WEFT_INBOUND_STATUS)) & ext::WEFT_INBOUND_LIVE == 0 {
            regs.write(reg(ext::WEFT_INBOUND_CTRL), 0);
            return Err(Failed);
        }
        let (wake, echo) = (2 * self.link, 2 * self.link + 1);
        regs.write(ext::WEFT_R_DB_ALLOW + 4 * self.link, (1 << wake) | (1 << echo));
        Ok(Offer { offset, bytes: arena.bytes(), wake, echo })
    }

    fn withdraw(&mut self) -> Result<(), Failed> {
        let regs = &self.function.regs;
        regs.write(ext::WEFT_R_DB_ALLOW + 4 * self.link, 0);
        regs.write(self.inbound_reg(ext::WEFT_INBOUND_CTRL), 0);
        self.settle()
    }

    fn attach(&mut self, peer: &Peer) -> Result<(), Failed> {
        let regs = &self.function.regs;
        if self.link >= field(regs.read(ext::WEFT_R_CAP0), ext::WEFT_CAP0_SLOTS) {
            return Err(Failed);
        }
        let reg = |reg| self.slot_reg(reg);
        regs.write(reg(ext::WEFT_SLOT_DEST), ext::WEFT_DEST_LINK | self.link);
        regs.write64(reg(ext::WEFT_SLOT_OFFSET), peer.offer.offset);
        regs.write64(reg(ext::WEFT_SLOT_LEN), peer.offer.bytes);
        regs.write(reg(ext::WEFT_SLOT_CTRL), ext::WEFT_SLOT_ENABLE);
        Ok(())
    }

    fn detach(&mut self) {
        self.function.regs.write(self.slot_reg(ext::WEFT_SLOT_CTRL), 0);
    }

    fn send(&mut self, message: &Message) {
        let mut buf = [0; MAX_BYTES];
        let bytes = message.encode(&mut buf);
        let message = buf.get(..bytes).unwrap_or_default();
        self.number = self.number.wrapping_add(1);
        let piece = |index| Packed::piece(message, Via::Link(self.link as u8), self.number, index);
        // Lost like any other if the PF takes none: what waits for an answer repeats its question.
        if !(0..).map_while(piece).all(|piece| post(&self.function.regs, &piece)) {
            self.lost += 1;
        }
    }

    fn ready(&mut self, peer: &Peer) {
        println!("link {}: ready, peer {:#018x}", self.link, peer.id.hwid);
    }

    fn broken(&mut self, reason: Reason) {
        println!(
            "link {}: {}",
            self.link,
            match reason {
                Reason::Link => "lost",
                Reason::Silence => "the peer says nothing any more",
                Reason::Bye | Reason::Restart => "the peer has gone",
                Reason::Removed => "closed",
            }
        );
    }
}
