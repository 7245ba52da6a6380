// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Protection domains: what belongs together and may use each other.

use crate::abi;
use crate::cq::Cq;
use crate::error::Result;
use crate::mr::{Mr, Rights};
use crate::mw::Mw;
use crate::objects::{Handle, Objects};
use crate::qp::{Qp, QpOptions};
use crate::srq::Srq;
use std::sync::Arc;

/// A protection domain. A queue pair reaches memory of its own domain only.
#[derive(Clone, Debug)]
pub struct Pd {
    pub(crate) handle: Arc<Handle>,
}

impl Pd {
    pub(crate) fn new(objects: &Objects) -> Result<Self> {
        let mut alloc = abi::weft_pd_alloc::default();
        objects.make("a protection domain", &mut alloc)?;
        Ok(Pd { handle: Arc::new(Handle::new(objects, alloc.pd)) })
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.handle.objects
    }

    /// Memory of `bytes` bytes, zeroed, registered with `rights`. Its tagged offsets begin at 0, and
    /// the key of its STag is 0.
    pub fn region(&self, bytes: usize, rights: Rights) -> Result<Mr> {
        self.region_at(bytes, rights, 0, 0)
    }

    /// Likewise, with the tagged offset of its first byte and a key.
    pub fn region_at(&self, bytes: usize, rights: Rights, base: u64, key: u8) -> Result<Mr> {
        Mr::new(self, bytes, rights, base, key)
    }

    /// A memory window, bound to nothing.
    pub fn window(&self) -> Result<Mw> {
        Mw::new(self)
    }

    /// A queue pair that completes its sends at `send` and its receives at `recv`.
    pub fn qp(&self, send: &Cq, recv: &Cq, options: &QpOptions) -> Result<Qp> {
        Qp::new(self, send, recv, None, options)
    }

    /// A queue pair that takes its receive requests from a shared queue.
    pub fn qp_with_srq(&self, send: &Cq, recv: &Cq, srq: &Srq, options: &QpOptions) -> Result<Qp> {
        Qp::new(self, send, recv, Some(srq), options)
    }

    /// A shared receive queue of `entries`, a power of two from 16 on, with lists of up to `sges`.
    pub fn srq(&self, entries: u32, sges: u32) -> Result<Srq> {
        Srq::new(self, entries, sges)
    }
}
