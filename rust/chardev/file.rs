// SPDX-License-Identifier: GPL-2.0

//! An open file of a port: fresh, listening, or one end of a channel.

use super::ioctl;
use crate::{
    fabric::Node,
    queue::{Channel, Channels, Listener},
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
}

/// An open file.
pub(super) struct PortFile {
    pub(super) node: Arc<Node>,
    pub(super) channels: Arc<Channels>,
    pub(super) waiters: Arc<WaitQueue>,
    role: SetOnce<Role>,
    /// Somebody is about to give it a role.
    changing: Atomic<bool>,
}

impl PortFile {
    pub(super) fn new(node: Arc<Node>, channels: Arc<Channels>, waiters: Arc<WaitQueue>) -> Self {
        Self {
            node,
            channels,
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

    fn poll(&self, want: u32) -> u32 {
        match self.role() {
            Some(Role::Channel(channel)) => channel.poll(&self.node, want),
            _ if self.node.is_closed() => events::HUP | events::ERR,
            Some(Role::Listening(listener)) if listener.is_ready() => events::IN,
            _ => 0,
        }
    }

    fn ioctl(&self, cmd: u32, arg: usize, nonblock: bool) -> Result {
        ioctl::dispatch(self, cmd, arg, nonblock)
    }

    fn mmap(&self, vma: &NewVma<'_>) -> Result {
        self.channel()?.mmap(&self.node, vma)
    }

    fn fault(&self, fault: &Fault<'_>) -> Outcome {
        match self.channel() {
            Ok(channel) => channel.fault(&self.node, fault),
            Err(_) => fault.refuse(),
        }
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        match self.role() {
            Some(Role::Listening(listener)) => self.channels.unlisten(&self.node, listener),
            Some(Role::Channel(channel)) => self.channels.close(&self.node, channel),
            None => {}
        }
    }
}
