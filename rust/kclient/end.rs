// SPDX-License-Identifier: GPL-2.0

//! One end of a channel of a client in the kernel.

use super::User;
use crate::{
    channel::KernelEnd,
    proto::payload,
    sys::{client, ext::weft_channel_attr},
};
use kernel::{prelude::*, sync::Arc};

/// The end goes before the user: the owner of the function is told last.
pub(super) struct End {
    end: Arc<KernelEnd>,
    _user: User,
}

impl End {
    pub(super) fn make(end: Arc<KernelEnd>, user: User) -> Result<KBox<dyn client::Channel>> {
        let end = Self { end, _user: user };
        Ok(KBox::new(end, GFP_KERNEL_ACCOUNT)?)
    }
}

impl client::Channel for End {
    fn attr(&self) -> weft_channel_attr {
        let info = self.end.channel().info();
        weft_channel_attr {
            peer: info.peer_hwid,
            link: info.link,
            service: info.service,
            cells: info.cells,
            bulk: info.bulk,
        }
    }

    fn send(&self, pieces: client::Pieces<'_>, tag: u64, more: bool) -> Result {
        self.end.send(&payload::Pieces(pieces), tag, more)
    }

    fn send_short(&self, all: &[client::Short]) -> Result<usize> {
        self.end.send_short(all)
    }

    fn finish(&self) -> Result {
        self.end.finish()
    }

    fn room(&self) -> Result<u32> {
        self.end.room()
    }

    fn next(&self) -> Result<(u64, u32)> {
        self.end.next()
    }

    fn look(&self) -> Result<(u64, u32)> {
        self.end.look()
    }

    fn take(&self, to: &mut [client::Short], looks: bool) -> Result<usize> {
        self.end.take(to, looks)
    }

    fn read(&self, from: usize, to: &mut [u8]) -> Result {
        self.end.read(from, to)
    }

    fn consume(&self) -> Result {
        self.end.consume()
    }
}
