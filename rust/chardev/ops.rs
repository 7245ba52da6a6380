// SPDX-License-Identifier: GPL-2.0

//! The file operations of an open file, which depend on its role.

use super::{
    file::{PortFile, Role},
    ioctl,
};
use crate::socket::Socket;
use crate::sys::{
    file::{events, File},
    vma::{Fault, NewVma, Outcome},
    waitq::WaitQueue,
};
use core::any::Any;
use kernel::{
    iov::{IovIterDest, IovIterSource},
    prelude::*,
    sync::Arc,
};

impl PortFile {
    /// Returns the socket of the file. `EINVAL`: its role has no bytes to read and write.
    fn stream(&self) -> Result<&Arc<Socket>> {
        self.socket().map_err(|_| EINVAL)
    }
}

impl File for PortFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn common(&self) -> &WaitQueue {
        self.node.waiters()
    }

    fn poll(&self, want: u32) -> u32 {
        let asked = match self.node.is_asked() {
            true => events::PRI,
            false => 0,
        };
        let there = match self.role() {
            Some(Role::Channel(channel)) => channel.poll(&self.node, want),
            Some(Role::Function(function)) => function.poll(&self.node),
            Some(Role::Socket(socket)) => socket.poll(&self.node, want),
            _ if self.node.is_closed() => events::HUP | events::ERR,
            Some(Role::Listening(listener)) if listener.is_ready() => events::IN,
            Some(Role::SocketListening(listener)) if listener.is_ready() => events::IN,
            Some(Role::Objects(objects)) if objects.is_ready() => events::IN,
            Some(Role::Matching(interface)) if interface.is_ready() => events::IN,
            _ => 0,
        };
        asked | there
    }

    fn ioctl(&self, cmd: u32, arg: usize, nonblock: bool) -> Result {
        ioctl::dispatch(self, cmd, arg, nonblock)
    }

    fn read(&self, nonblock: bool, to: &mut IovIterDest<'_>) -> Result<usize> {
        let socket = self.stream()?;
        let over = (&*self.node, &*self.engine);
        let most = to.len();
        self.sockets
            .receive(over, socket, (most, false), nonblock, to)
    }

    fn write(&self, nonblock: bool, from: &mut IovIterSource<'_>) -> Result<usize> {
        let socket = self.stream()?;
        let over = (&*self.node, &*self.engine);
        let bytes = from.len();
        self.sockets.send(over, socket, bytes, nonblock, from)
    }

    fn mmap(&self, vma: &NewVma<'_>) -> Result {
        match self.role() {
            Some(Role::Objects(objects)) => objects.mmap(vma),
            Some(Role::Function(function)) => function.mmap(vma),
            Some(Role::Matching(interface)) => interface.mmap(vma),
            _ => self.channel()?.mmap(&self.node, vma),
        }
    }

    fn fault(&self, fault: &Fault<'_>) -> Outcome {
        match self.role() {
            Some(Role::Channel(channel)) => channel.fault(&self.node, fault),
            Some(Role::Objects(objects)) => objects.fault(&self.node, fault),
            Some(Role::Function(function)) => function.fault(&self.node, fault),
            _ => fault.refuse(),
        }
    }
}
