// SPDX-License-Identifier: GPL-2.0

//! Pages of an arena that are for something else than a channel.
//!
//! This file must not know what for.

use super::Channels;
use crate::{
    proto::pages::Run,
    share::{Charge, Payer, Table},
};
use kernel::{page::PAGE_SIZE, prelude::*, sync::Arc};

/// Contiguous pages of the arena of a link, until this is dropped, or the session of the link ends.
pub(crate) struct Pages {
    channels: Arc<Channels>,
    link: usize,
    session: u64,
    run: Run,
    _charge: Charge,
}

impl Pages {
    /// Takes pages for `bytes` bytes, which count for `payer`. Called with the link locked, and READY. `ENOSPC`: the arena
    /// has no room for them; `EDQUOT`: `payer` has its share of it.
    pub(crate) fn new(
        channels: &Arc<Channels>,
        link: usize,
        payer: &Payer,
        bytes: usize,
    ) -> Result<Self> {
        let mut conns = channels.per_link(link)?.conns.lock();
        let count = bytes.div_ceil(PAGE_SIZE);
        let charge = payer.take(Table::Arena(link), conns.room(), count as u32)?;
        Ok(Self {
            channels: channels.clone(),
            link,
            session: conns.session(),
            run: conns.pages.take(count).ok_or(ENOSPC)?,
            _charge: charge,
        })
    }

    /// Returns the number of the first one.
    pub(crate) fn first(&self) -> usize {
        self.run.first
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Ok(per_link) = self.channels.per_link(self.link) {
            let mut conns = per_link.conns.lock();
            // A later session has begun with all pages free.
            if conns.session() == self.session {
                conns.give(self.run);
            }
        }
    }
}
