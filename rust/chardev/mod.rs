// SPDX-License-Identifier: GPL-2.0

//! `/dev/weftN`, as `include/uapi/linux/weft.h` and `Documentation/uapi.rst` have it.

mod fabric;
mod file;
mod ioctl;
mod memory;
mod migrate;
mod objects;
mod qp;
mod queues;
mod wishes;

use crate::{
    fabric::Node,
    mem::Memory,
    queue::{Channels, Clients, Counts, Engine},
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
    engine: Arc<Engine>,
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
            self.engine.clone(),
            self.counts.clone(),
            waiters,
        );
        Ok(KBox::new(file, GFP_KERNEL)?)
    }
}

/// Gives `node` its channels and its engine, and makes `/dev/weftN`.
pub(crate) fn register(
    node: &Arc<Node>,
    memory: &Arc<Memory>,
    dev: &pci::Device<Bound>,
) -> Result<NodeReg> {
    let channels = Channels::new(node.home())?;
    let engine = Engine::new(node.home(), memory)?;
    engine.serve(node);
    node.set_client(Clients::new(channels.clone(), engine.clone())?)?;
    let device = PortDevice {
        node: node.clone(),
        channels,
        memory: memory.clone(),
        engine,
        counts: Counts::new()?,
    };
    NodeReg::for_pci(Arc::new(device, GFP_KERNEL)?, dev)
}
