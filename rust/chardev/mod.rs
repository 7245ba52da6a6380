// SPDX-License-Identifier: GPL-2.0

//! `/dev/weftN`, as `include/uapi/linux/weft.h` and `Documentation/uapi.rst` have it.

mod clients;
mod endpoint;
mod fabric;
mod file;
mod ioctl;
mod memory;
mod migrate;
mod objects;
mod qp;
mod queues;
mod wishes;

use self::clients::Clients;
use crate::{
    endpoint::Endpoints,
    fabric::Node,
    mem::Memory,
    queue::{Channels, Counts, Engine},
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
    endpoints: Arc<Endpoints>,
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
            self.endpoints.clone(),
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
    // All files of a port have one address space, and what is mapped in it an offset of its own.
    let mapping = Arc::new(Mapping::new()?, GFP_KERNEL)?;
    let channels = Channels::new(node.home(), mapping.clone())?;
    let engine = Engine::new(node.home(), memory)?;
    let endpoints = Endpoints::new(dev, mapping)?;
    engine.serve(node);
    endpoints.serve(node);
    let clients = Clients::new(channels.clone(), engine.clone(), endpoints.clone())?;
    node.set_client(clients)?;
    let device = PortDevice {
        node: node.clone(),
        channels,
        memory: memory.clone(),
        engine,
        endpoints,
        counts: Counts::new()?,
    };
    NodeReg::for_pci(Arc::new(device, GFP_KERNEL)?, dev)
}
