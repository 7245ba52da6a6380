// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Shared receive queues: receive requests for several queue pairs.

use crate::abi;
use crate::error::{Error, Result};
use crate::mapping::{Places, Ring};
use crate::objects::Handle;
use crate::pd::Pd;
use crate::queue::Queue;
use crate::request::encode_recv;
use crate::stag::Sge;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A shared receive queue. Each message takes the oldest request of it, whichever queue pair it
/// came to.
#[derive(Debug)]
pub struct Srq {
    pub(crate) handle: Arc<Handle>,
    queue: Queue,
    _pd: Pd,
}

impl Srq {
    fn new(pd: &Pd, entries: u32, sges: u32) -> Result<Self> {
        let mut create =
            abi::weft_srq_create { pd: pd.handle.number, entries, sges, ..Default::default() };
        pd.objects().make("a shared receive queue", |l| l.srq_share, &mut create)?;
        let handle = Arc::new(Handle::new(pd.objects(), create.srq));
        let memory =
            Ring::new(pd.objects().as_fd(), create.ring_offset, create.ring_bytes as usize)
                .map_err(|e| Error::os("mapping a shared receive queue", e))?;
        let queue = Queue::new(Arc::new(memory), 0, entries, create.stride);
        Ok(Srq { handle, queue, _pd: pd.clone() })
    }

    /// Posts a receive request for what the list names; false if there is no room.
    pub fn post_recv(&mut self, wr_id: u64, list: &[Sge]) -> Result<bool> {
        let store =
            |room: usize, mut places: Places<'_>| encode_recv(wr_id, list, room, &mut places);
        self.queue.post(store)
    }
}

impl Pd {
    /// A shared receive queue of `entries`, a power of two from 16 on, with lists of up to `sges`.
    pub fn srq(&self, entries: u32, sges: u32) -> Result<Srq> {
        Srq::new(self, entries, sges)
    }
}
