// SPDX-License-Identifier: GPL-2.0

//! Weft: Linux hosts joined by PCI Express itself.
//!
//! The driver of the ports of a fabric. From top to bottom; no layer knows those above it:
//!
//! - `chardev`: `/dev/weftN`; `kclient`: channels for other modules of the kernel; `net`: the Ethernet
//!   interface, which is such a client; `matching`: message matching, another one;
//! - `vf`: migrates virtual functions; it knows `fabric` only to find ports;
//! - `socket`: sockets, which use channels' arenas and the engine of queue pairs;
//! - `channel`: channels; `verbs`: queue pairs; `mem`: protected memory; `endpoint`: functions of shared
//!   endpoints; `fabric`: the node, its links, the hello with the neighbours, the manager;
//! - `driver`: binds the PCI functions; `attrs`: their files in sysfs; `device`: puts together what
//!   belongs to a port, and takes it apart;
//! - `share`: what each user has of the tables of a port;
//! - `hw`: the ports, one file per family;
//! - `sys`: safe wrappers for what the kernel crate lacks;
//! - `proto`: layouts and state machines, pure logic.
//!
//! # Locks
//!
//! Outermost first:
//!
//! 1. the device lock, held by the PCI core in probe, unbind, reset and error recovery;
//! 2. the locks of `fabric` and of its clients, in the order that `fabric` gives;
//! 3. the locks of a port: one for windows, apertures and doorbell pages, and those of its mailboxes, in
//!    the order in which a message of a virtual function goes, see `hw::weft_port`. All are mutexes.
//!
//! The locks of `mem` are taken inside none of these, and none of these inside them. That of `share` is
//! taken inside those of `fabric` and its clients, and none inside it. Doorbells, in either direction,
//! take none of the mutexes.

use kernel::{driver::Registration, prelude::*, InPlaceModule};

mod attrs;
mod channel;
mod chardev;
mod device;
mod driver;
mod endpoint;
mod fabric;
mod hw;
mod kclient;
mod matching;
mod mem;
mod net;
// Public for the crate weft-proto, which is made of the same files. Private here, so that what the
// module does not use of it is reported as dead code.
#[allow(unreachable_pub)]
#[path = "proto/mod.rs"]
mod proto;
mod share;
mod socket;
mod sys;
mod verbs;
mod vf;

/// What the module has while it is loaded: the drivers, then what their device nodes need.
#[pin_data]
struct WeftModule {
    #[pin]
    _weft: Registration<sys::pci::Adapter<driver::WeftDriver>>,
    #[pin]
    _ivshmem: Registration<sys::pci::Adapter<driver::IvshmemDriver>>,
    _net: sys::net::Kind,
    _region: sys::chrdev::Region,
    _handover: sys::handover::Handover,
    _registry: sys::registry::Registry,
}

impl InPlaceModule for WeftModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // Initialised in the order written here, dropped in the order of the fields: the handover slot
        // and the region come first and go last.
        try_pin_init!(Self {
            _handover: sys::handover::Handover::new(),
            _registry: sys::registry::Registry::new(),
            _region: sys::chrdev::Region::new()?,
            _net: sys::net::Kind::new::<net::Ethernet>()?,
            _weft <- Registration::new(c"weft", module),
            _ivshmem <- Registration::new(c"weft-ivshmem", module),
        })
    }
}

module! {
    type: WeftModule,
    name: "weft",
    authors: ["Weft developers"],
    description: "Hosts joined by PCI Express: ports, channels, /dev/weftN",
    license: "GPL",
    params: {
        arena_kib: u32 {
            default: 4096,
            description: "KiB of memory that each neighbour may reach, a power of two from 256",
        },
        link_power: u32 {
            default: 1,
            description: "What links follow from the start: 1 their traffic (auto), 0 nothing (performance)",
        },
        fail_probe: u32 {
            default: 0,
            description: "Step of the probe that is to fail, for tests",
        },
    },
}
