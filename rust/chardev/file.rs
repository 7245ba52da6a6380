// SPDX-License-Identifier: GPL-2.0

//! An open file of a port: fresh, listening, one end of a channel, the owner of objects, or the user of a
//! function of a shared endpoint.

use super::{ioctl, objects::Objects};
use crate::{
    endpoint::{Endpoints, Function},
    fabric::Node,
    mem::Memory,
    queue::{Channel, Channels, Counts, Engine, Listener},
    sys::{
        errno::{EISCONN, ENOTCONN},
        file::{events, File},
        vma::{Fault, NewVma, Outcome},
        waitq::WaitQueue,
    },
};
use core::any::Any;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Release},
        Arc, SetOnce,
    },
};

/// What a file has become.
pub(super) enum Role {
    Listening(Arc<Listener>),
    Channel(Arc<Channel>),
    Objects(Arc<Objects>),
    Function(Arc<Function>),
}

/// An open file.
pub(super) struct PortFile {
    pub(super) node: Arc<Node>,
    pub(super) channels: Arc<Channels>,
    pub(super) memory: Arc<Memory>,
    pub(super) engine: Arc<Engine>,
    pub(super) endpoints: Arc<Endpoints>,
    pub(super) counts: Arc<Counts>,
    pub(super) waiters: Arc<WaitQueue>,
    role: SetOnce<Role>,
    /// Somebody is about to give it a role.
    changing: Atomic<bool>,
}

impl PortFile {
    pub(super) fn new(
        node: Arc<Node>,
        channels: Arc<Channels>,
        memory: Arc<Memory>,
        engine: Arc<Engine>,
        endpoints: Arc<Endpoints>,
        counts: Arc<Counts>,
        waiters: Arc<WaitQueue>,
    ) -> Self {
        node.user_came();
        Self {
            node,
            channels,
            memory,
            engine,
            endpoints,
            counts,
            waiters,
            role: SetOnce::new(),
            changing: Atomic::new(false),
        }
    }

    pub(super) fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }

    /// `ENOTCONN`: the file is no channel.
    pub(super) fn channel(&self) -> Result<&Arc<Channel>> {
        match self.role() {
            Some(Role::Channel(channel)) => Ok(channel),
            _ => Err(ENOTCONN.into()),
        }
    }

    /// `ENOTCONN`: the file has opened no function.
    pub(super) fn function(&self) -> Result<&Arc<Function>> {
        match self.role() {
            Some(Role::Function(function)) => Ok(function),
            _ => Err(ENOTCONN.into()),
        }
    }

    /// The objects of the file. `ENOENT`: it is fresh, and has none; `EISCONN`: it is something else.
    pub(super) fn objects(&self) -> Result<&Arc<Objects>> {
        match self.role() {
            Some(Role::Objects(objects)) => Ok(objects),
            Some(_) => Err(EISCONN.into()),
            None => Err(ENOENT),
        }
    }

    /// As [`PortFile::objects`], of a file that is going to have one: a fresh one gets the role.
    pub(super) fn objects_to_be(&self) -> Result<&Arc<Objects>> {
        if self.role().is_none() {
            match self.become_role(|| Ok(Role::Objects(Objects::new()?))) {
                // Somebody was faster; whether with the same role is seen below.
                Err(e) if e == EISCONN => {}
                result => result?,
            }
        }
        self.objects()
    }

    /// Gives the file the role that `f` makes. `EISCONN`: it has one; `EBUSY`: another task is about
    /// to give it one.
    pub(super) fn become_role(&self, f: impl FnOnce() -> Result<Role>) -> Result {
        if self.role().is_some() {
            return Err(EISCONN.into());
        }
        if self.changing.cmpxchg(false, true, Acquire).is_err() {
            return Err(EBUSY);
        }
        // The other task may have been done in between.
        let role = if self.role().is_some() {
            Err(EISCONN.into())
        } else {
            f()
        };
        let changed = role.map(|role| {
            self.role.populate(role);
        });
        self.changing.store(false, Release);
        if changed.is_ok() {
            self.waiters.wake_all();
        }
        changed
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
            _ if self.node.is_closed() => events::HUP | events::ERR,
            Some(Role::Listening(listener)) if listener.is_ready() => events::IN,
            Some(Role::Objects(objects)) if objects.is_ready() => events::IN,
            _ => 0,
        };
        asked | there
    }

    fn ioctl(&self, cmd: u32, arg: usize, nonblock: bool) -> Result {
        ioctl::dispatch(self, cmd, arg, nonblock)
    }

    fn mmap(&self, vma: &NewVma<'_>) -> Result {
        match self.role() {
            Some(Role::Objects(objects)) => objects.mmap(vma),
            Some(Role::Function(function)) => function.mmap(vma),
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

impl Drop for PortFile {
    fn drop(&mut self) {
        match self.role() {
            Some(Role::Listening(listener)) => self.channels.unlisten(&self.node, listener),
            Some(Role::Channel(channel)) => self.channels.close(&self.node, channel),
            Some(Role::Objects(objects)) => objects.destroy_all(&self.engine),
            Some(Role::Function(function)) => self.endpoints.close(&self.node, function),
            None => {}
        }
        self.node.user_left();
    }
}
