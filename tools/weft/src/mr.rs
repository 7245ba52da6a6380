// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory regions: memory that is registered, and what may be done with it.
//!
//! A peer may write to it at any time, so that nothing here lends a reference to its bytes: they are
//! copied in and out.

use crate::abi;
use crate::error::{Error, Result};
use crate::mapping::Ring;
use crate::objects::Handle;
use crate::pd::Pd;
use crate::stag::{Remote, Sge};
use rustix::io::Errno;
use std::ops::BitOr;
use std::os::fd::AsFd;

/// What may be done with memory. The owner's own queue pairs may always read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub(crate) u32);

impl Rights {
    /// None but the owner reads it.
    pub const NONE: Rights = Rights(0);
    /// The owner's queue pairs write it.
    pub const LOCAL_WRITE: Rights = Rights(abi::WEFT_ACCESS_LOCAL_WRITE);
    /// The peer reads it.
    pub const REMOTE_READ: Rights = Rights(abi::WEFT_ACCESS_REMOTE_READ);
    /// The peer writes it; needs `LOCAL_WRITE`.
    pub const REMOTE_WRITE: Rights = Rights(abi::WEFT_ACCESS_REMOTE_WRITE);
    /// The peer does atomic operations on it; needs `LOCAL_WRITE`.
    pub const REMOTE_ATOMIC: Rights = Rights(abi::WEFT_ACCESS_REMOTE_ATOMIC);
    /// Windows may be bound to it.
    pub const MW_BIND: Rights = Rights(abi::WEFT_ACCESS_MW_BIND);
    /// All that a peer can do, which a queue pair may allow.
    pub const REMOTE: Rights =
        Rights(Self::REMOTE_READ.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0);
    /// All of them.
    pub const ALL: Rights = Rights(Self::REMOTE.0 | Self::LOCAL_WRITE.0 | Self::MW_BIND.0);
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// A memory region. Requests that name it when it is dropped fail.
#[derive(Debug)]
pub struct Mr {
    // Deregistered before the memory goes.
    _handle: Handle,
    memory: Ring,
    stag: u32,
    base: u64,
    _pd: Pd,
}

impl Mr {
    fn new(pd: &Pd, bytes: usize, rights: Rights, base: u64, key: u8) -> Result<Self> {
        if bytes == 0 {
            return Err(Error::Invalid("a memory region has one byte at least".into()));
        }
        let memory = Ring::anonymous(bytes).map_err(|e| Error::os("memory for a region", e))?;
        let mut reg = abi::weft_mr_reg {
            addr: memory.address(),
            length: bytes as u64,
            base,
            pd: pd.handle.number,
            access: rights.0,
            key: key.into(),
            ..Default::default()
        };
        reg.call_for(pd)?;
        Ok(Mr {
            _handle: Handle::new(pd.objects(), reg.mr),
            memory,
            stag: reg.stag,
            base,
            _pd: pd.clone(),
        })
    }

    /// Its STag.
    pub fn stag(&self) -> u32 {
        self.stag
    }

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.memory.bytes()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// `length` bytes from `at` on, as an element of a scatter/gather list.
    pub fn sge(&self, at: usize, length: usize) -> Sge {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Sge { to: self.base.wrapping_add(at as u64), length, stag: self.stag }
    }

    /// All of it, as such an element.
    pub fn all(&self) -> Sge {
        self.sge(0, self.len())
    }

    /// Byte `at`, as a peer names it.
    pub fn remote(&self, at: usize) -> Remote {
        Remote { stag: self.stag, to: self.base.wrapping_add(at as u64) }
    }

    /// Copies bytes out, from `at` on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        self.memory.read(at, out);
    }

    /// Copies bytes in, from `at` on.
    ///
    /// # Panics
    /// If there is not so much room.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        self.memory.write(at, bytes);
    }

    /// The 64 bits at `at`, in one load: for what a peer changes by atomic operations, or writes to
    /// say that something is there. Later loads are not done earlier.
    ///
    /// # Panics
    /// If `at` is no multiple of 8, or outside.
    pub fn load(&self, at: usize) -> u64 {
        self.memory.load64(at)
    }

    /// Stores 64 bits at `at`, after everything that was stored before.
    ///
    /// # Panics
    /// If `at` is no multiple of 8, or outside.
    pub fn store(&self, at: usize, value: u64) {
        self.memory.publish64(at, value);
    }
}

impl Pd {
    /// Memory of `bytes` bytes, zeroed, registered with `rights`. Its tagged offsets begin at 0, and
    /// the key of its STag is 0.
    pub fn region(&self, bytes: usize, rights: Rights) -> Result<Mr> {
        self.region_at(bytes, rights, 0, 0)
    }

    /// Likewise, with the tagged offset of its first byte and a key.
    pub fn region_at(&self, bytes: usize, rights: Rights, base: u64, key: u8) -> Result<Mr> {
        Mr::new(self, bytes, rights, base, key)
    }
}

impl abi::weft_mr_reg {
    fn call_for(&mut self, pd: &Pd) -> Result<()> {
        use crate::ioctl::Ioctl;
        self.call(pd.objects().as_fd()).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::NOMEM) => Error::Limit(Error::LOCKED),
            Some(Errno::NOSPC) => Error::Limit("memory regions and windows"),
            Some(Errno::DQUOT) => {
                pd.objects().share("memory regions and windows", |l| l.stag_share)
            }
            Some(Errno::INVAL) => Error::Invalid(format!(
                "cannot register {} bytes with rights {:#x} from {:#x} on: the end must not wrap, \
                 and what a peer may change needs LOCAL_WRITE",
                self.length, self.access, self.base
            )),
            _ => Error::os("registering memory", e),
        })
    }
}
