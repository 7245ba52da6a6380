// SPDX-License-Identifier: GPL-2.0

//! The device node `/dev/weftN`: see `include/uapi/linux/weft.h` and `Documentation/uapi.rst`.

mod assignments;
mod call;
mod channel;
mod endpoint;
mod fabric;
mod file;
mod ioctl;
mod manager;
mod matching;
mod memory;
mod migrate;
mod objects;
mod open_qp;
mod ops;
mod port;
mod qp;
mod queues;
mod slots;
mod socket;

use crate::{
    channel::Channels,
    endpoint::Endpoints,
    fabric::Node,
    matching::Matching,
    mem::Memory,
    share::Shares,
    socket::Sockets,
    sys::{
        file::{Device, File},
        vma::Mapping,
        waitq::WaitQueue,
    },
    verbs::Engine,
};
use kernel::{prelude::*, sync::Arc};

/// The parts of a port that the files of its device node work on.
pub(crate) struct PortDevice {
    pub(crate) node: Arc<Node>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) matching: Arc<Matching>,
    pub(crate) shares: Arc<Shares>,
}

impl Device for PortDevice {
    fn mapping(&self) -> &Mapping {
        self.channels.mapping()
    }

    fn open(&self, waiters: Arc<WaitQueue>) -> Result<KBox<dyn File>> {
        if self.node.is_closed() {
            return Err(ENODEV);
        }
        let file = file::PortFile::new(self, waiters)?;
        Ok(KBox::new(file, GFP_KERNEL_ACCOUNT)?)
    }
}
