// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Shared endpoints that do work: each a thread of the daemon's process, and a port
//! of the fabric like any QEMU's. It reaches hosts' memory only as they have opened
//! it, by routes, and hosts reach its own only as its base function says. It knows
//! nothing of the fabric but what its connection tells. The programming interface
//! is in `Documentation/endpoint.rst`.

mod access;
mod engine;
mod host;
mod job;
mod memory;
mod queue;
mod wqe;

use crate::topology::Endpoint;
use engine::Engine;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::OwnedFd;
use std::thread::{Builder, JoinHandle};

/// An endpoint that runs. It ends when its connection does.
pub struct Running(JoinHandle<()>);

impl Running {
    /// Starts the endpoint called `name`; what is returned beside it is the fabric's
    /// end of its connection.
    pub fn start(name: &str, endpoint: &Endpoint) -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let engine = Engine::new(name, endpoint, theirs)?;
        let thread = Builder::new().name(name.into()).spawn(move || engine.run())?;
        Ok((Running(thread), ours))
    }

    /// Waits until it has let go of everything. Its connection is closed.
    pub fn join(self) {
        // It has nothing to tell, and one that panicked has let go as well.
        let _ = self.0.join();
    }
}
