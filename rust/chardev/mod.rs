// SPDX-License-Identifier: GPL-2.0

//! `/dev/weftN`, as `include/uapi/linux/weft.h` and `Documentation/uapi.rst` have it.

mod file;
mod ioctl;
mod memory;
mod objects;
mod queues;

use crate::{
    fabric::Node,
    mem::Memory,
    queue::{Channels, Counts},
    sys::{
        chrdev::NodeReg,
        file::{Device, File},
        vma::Mapping,
        waitq::WaitQueue,
    },
};
use kernel::{device::Bound, pci, prelude::*, sync::Arc};

/// What is behind the device node of a port.
struct PortDevice {
    node: Arc<Node>,
    channels: Arc<Channels>,
    memory: Arc<Memory>,
    counts: Arc<Counts>,
}

impl Device for PortDevice {
    fn mapping(&self) -> &Mapping {
        self.channels.mapping()
    }

    fn open(&self, waiters: Arc<WaitQueue>) -> Result<KBox<dyn File>> {
        if self.node.is_closed() {
            return Err(ENODEV);
        }
        let file = file::PortFile::new(
            self.node.clone(),
            self.channels.clone(),
            self.memory.clone(),
            self.counts.clone(),
            waiters,
        );
        Ok(KBox::new(file, GFP_KERNEL)?)
    }
}

/// Gives `node` its channels and makes `/dev/weftN`.
pub(crate) fn register(
    node: &Arc<Node>,
    memory: &Arc<Memory>,
    dev: &pci::Device<Bound>,
) -> Result<NodeReg> {
    let channels = Channels::new(dev)?;
    node.set_client(channels.clone())?;
    let device = PortDevice {
        node: node.clone(),
        channels,
        memory: memory.clone(),
        counts: Counts::new()?,
    };
    NodeReg::for_pci(Arc::new(device, GFP_KERNEL)?, dev)
}
