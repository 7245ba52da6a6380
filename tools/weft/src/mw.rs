// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory windows: a part of a region, lent for a time.

use crate::abi;
use crate::error::Result;
use crate::objects::Handle;
use crate::pd::Pd;
use crate::stag::Remote;

/// A memory window. It is bound and taken back by requests of a queue pair:
/// [`Request::bind`](crate::Request::bind), [`Request::invalidate`](crate::Request::invalidate).
#[derive(Debug)]
pub struct Mw {
    _handle: Handle,
    stag: u32,
    _pd: Pd,
}

impl Mw {
    fn new(pd: &Pd) -> Result<Self> {
        let mut alloc = abi::weft_mw_alloc { pd: pd.handle.number, ..Default::default() };
        pd.objects().make("a memory window", |l| l.stag_share, &mut alloc)?;
        Ok(Mw { _handle: Handle::new(pd.objects(), alloc.mw), stag: alloc.stag, _pd: pd.clone() })
    }

    /// Its STag with the key 0, as requests that bind it name it.
    pub fn stag(&self) -> u32 {
        self.stag
    }

    /// Its STag while it is bound with `key`.
    pub fn bound(&self, key: u8) -> u32 {
        self.stag & !abi::WEFT_STAG_KEY | u32::from(key)
    }

    /// A place in it, as a peer names it while it is bound with `key`.
    pub fn remote(&self, key: u8, to: u64) -> Remote {
        Remote { stag: self.bound(key), to }
    }
}

impl Pd {
    /// A memory window, bound to nothing.
    pub fn window(&self) -> Result<Mw> {
        Mw::new(self)
    }
}
