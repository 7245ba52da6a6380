// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A file that owns objects, and the handles that name them. Which kinds of objects there are is not
//! known here: the module of each gives [`Objects`] or a domain the function that makes it.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A file that owns objects: the driver destroys all of them when it is closed, which happens when
/// this and everything made of it is dropped.
#[derive(Clone, Debug)]
pub struct Objects {
    file: Arc<OwnedFd>,
}

/// How many of what there can be at the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Queue pairs.
    pub qps: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// Memory regions and windows together.
    pub stags: u32,
    /// Protection domains.
    pub pds: u32,
    /// Files that listen.
    pub listeners: u32,
    /// Entries of a send, receive or shared receive queue.
    pub queue_entries: u32,
    /// Entries of a completion queue.
    pub cq_entries: u32,
    /// Elements of a scatter/gather list.
    pub sges: u32,
    /// Bytes of inline data of a request.
    pub inline_bytes: u32,
    /// Bytes of a memory region.
    pub mr_bytes: u64,
    /// Bulk data are moved by a DMA engine.
    pub dma: bool,
    /// Queues have a doorbell page.
    pub kick_page: bool,
    /// What this user may have of the port's, as things are.
    pub share: Share,
}

/// How many of what a user may have at the port: half of what the other users leave, or all of it with
/// CAP_SYS_RESOURCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Queue pairs.
    pub qps: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// Memory regions and windows together.
    pub stags: u32,
    /// Protection domains.
    pub pds: u32,
    /// Files that listen.
    pub listeners: u32,
}

impl Objects {
    pub(crate) fn new(file: OwnedFd) -> Self {
        Objects { file: Arc::new(file) }
    }

    /// How many of what there can be.
    pub fn limits(&self) -> Result<Limits> {
        let mut limits = abi::weft_limits::default();
        limits.call(self.as_fd()).map_err(|e| Error::os("asking for the limits", e))?;
        Ok(Limits {
            qps: limits.qps,
            cqs: limits.cqs,
            srqs: limits.srqs,
            stags: limits.stags,
            pds: limits.pds,
            listeners: limits.listeners,
            queue_entries: limits.queue_entries,
            cq_entries: limits.cq_entries,
            sges: limits.sges,
            inline_bytes: limits.inline_bytes,
            mr_bytes: limits.mr_bytes,
            dma: limits.engine & abi::WEFT_ENGINE_DMA != 0,
            kick_page: limits.engine & abi::WEFT_ENGINE_KICK_PAGE != 0,
            share: Share {
                qps: limits.qp_share,
                cqs: limits.cq_share,
                srqs: limits.srq_share,
                stags: limits.stag_share,
                pds: limits.pd_share,
                listeners: limits.listener_share,
            },
        })
    }

    /// The error of a user that has its share of `what`, which `of` finds in the limits.
    pub(crate) fn share(&self, what: &'static str, of: fn(&abi::weft_limits) -> u32) -> Error {
        let most = share_of(self.as_fd(), of);
        Error::Share { what, most }
    }

    /// Lets the engine work in this thread: it takes what has come from the peers, and handles up to
    /// `budget` requests.
    pub fn progress(&self, budget: u32) -> Result<()> {
        self.kick(0, budget)
    }

    pub(crate) fn kick(&self, qp: u32, budget: u32) -> Result<()> {
        let mut kick = abi::weft_kick { qp, budget, ..Default::default() };
        match kick.call(self.as_fd()) {
            Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) => Ok(()),
            other => other.map_err(|e| Error::os("having the engine look", e)),
        }
    }

    /// Calls an ioctl that makes an object of the kind `what`, of which `share` is in the limits.
    pub(crate) fn make(
        &self,
        what: &'static str,
        share: fn(&abi::weft_limits) -> u32,
        ioctl: &mut impl Ioctl,
    ) -> Result<()> {
        ioctl.call(self.as_fd()).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::NOSPC) => Error::Limit(what),
            Some(Errno::DQUOT) => self.share(what, share),
            // Nothing else that is asked for is large.
            Some(Errno::NOMEM) => Error::Limit(Error::LOCKED),
            Some(Errno::INVAL) => Error::Invalid(format!(
                "{what}: an argument is out of range, see Objects::limits()"
            )),
            _ => Error::os(what, e),
        })
    }
}

impl AsFd for Objects {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What the user of a file may have of something, which `of` finds in the limits.
pub fn share_of(file: BorrowedFd<'_>, of: fn(&abi::weft_limits) -> u32) -> Option<u64> {
    let mut limits = abi::weft_limits::default();
    limits.call(file).ok()?;
    Some(of(&limits).into())
}

/// An object of the driver: destroyed when it is dropped.
#[derive(Debug)]
pub struct Handle {
    pub objects: Objects,
    pub number: u32,
}

impl Handle {
    pub fn new(objects: &Objects, number: u32) -> Self {
        Handle { objects: objects.clone(), number }
    }

    /// Destroys it now; it stays what it is if another object needs it.
    fn destroy(&mut self) -> io::Result<()> {
        let handle = std::mem::take(&mut self.number);
        if handle == 0 {
            return Ok(());
        }
        let mut destroy = abi::weft_destroy { handle, ..Default::default() };
        destroy.call(self.objects.as_fd()).inspect_err(|_| self.number = handle)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // What needs it holds it: it fails only for a window that is bound to a region and outlives
        // it. Closing the file destroys that.
        let _ = self.destroy();
    }
}
