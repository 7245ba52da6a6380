// SPDX-License-Identifier: GPL-2.0

//! An open file of a port: fresh, listening, one end of a channel, a socket or what listens for some, the owner of
//! objects, the user of a function of a shared endpoint, or a matching interface.

use super::{objects::Objects, PortDevice};
use crate::{
    channel::{Channel, Channels, Listener},
    endpoint::{Endpoints, Function},
    fabric::Node,
    matching::{Matching, Open},
    mem::Memory,
    share::Payer,
    socket::{Listener as SocketListener, Socket, Sockets},
    sys::{
        errno::{EISCONN, ENOTCONN},
        file::File,
        waitq::WaitQueue,
    },
    verbs::Engine,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Release},
        Arc, SetOnce,
    },
};

/// The role of a file.
pub(super) enum Role {
    Listening(Arc<Listener>),
    Channel(Arc<Channel>),
    SocketListening(Arc<SocketListener>),
    Socket(Arc<Socket>),
    Objects(Arc<Objects>),
    Function(Arc<Function>),
    Matching(KBox<Open>),
}

/// An open file.
pub(super) struct PortFile {
    pub(super) node: Arc<Node>,
    pub(super) channels: Arc<Channels>,
    pub(super) memory: Arc<Memory>,
    pub(super) engine: Arc<Engine>,
    pub(super) sockets: Arc<Sockets>,
    pub(super) endpoints: Arc<Endpoints>,
    pub(super) matching: Arc<Matching>,
    /// The user that has opened it.
    pub(super) payer: Arc<Payer>,
    pub(super) waiters: Arc<WaitQueue>,
    role: SetOnce<Role>,
    /// A task is about to give it a role.
    changing: Atomic<bool>,
}

impl PortFile {
    pub(super) fn new(device: &PortDevice, waiters: Arc<WaitQueue>) -> Result<Self> {
        let payer = Payer::new(&device.shares)?;
        device.node.user_came();
        Ok(Self {
            node: device.node.clone(),
            channels: device.channels.clone(),
            memory: device.memory.clone(),
            engine: device.engine.clone(),
            sockets: device.sockets.clone(),
            endpoints: device.endpoints.clone(),
            matching: device.matching.clone(),
            payer,
            waiters,
            role: SetOnce::new(),
            changing: Atomic::new(false),
        })
    }

    pub(super) fn role(&self) -> Option<&Role> {
        self.role.as_ref()
    }

    /// Returns the role of another file, if that is one of the same port.
    pub(super) fn role_of<'a>(&self, other: &'a dyn File) -> Option<&'a Role> {
        let other = other.as_any().downcast_ref::<Self>()?;
        other
            .role()
            .filter(|_| Arc::ptr_eq(&other.node, &self.node))
    }

    /// Returns the channel of the file. `ENOTCONN`: it has none.
    pub(super) fn channel(&self) -> Result<&Arc<Channel>> {
        match self.role() {
            Some(Role::Channel(channel)) => Ok(channel),
            _ => Err(ENOTCONN.into()),
        }
    }

    /// Returns the socket of the file. `ENOTCONN`: it has none.
    pub(super) fn socket(&self) -> Result<&Arc<Socket>> {
        match self.role() {
            Some(Role::Socket(socket)) => Ok(socket),
            _ => Err(ENOTCONN.into()),
        }
    }

    /// Returns the function of the file. `ENOTCONN`: it has none.
    pub(super) fn function(&self) -> Result<&Arc<Function>> {
        match self.role() {
            Some(Role::Function(function)) => Ok(function),
            _ => Err(ENOTCONN.into()),
        }
    }

    /// Returns the matching interface of the file. `ENOTCONN`: it is none.
    pub(super) fn interface(&self) -> Result<&Open> {
        match self.role() {
            Some(Role::Matching(interface)) => Ok(interface),
            _ => Err(ENOTCONN.into()),
        }
    }

    /// Returns the objects of the file. `ENOENT`: the file is fresh; `EISCONN`: it has another role.
    pub(super) fn objects(&self) -> Result<&Arc<Objects>> {
        match self.role() {
            Some(Role::Objects(objects)) => Ok(objects),
            Some(_) => Err(EISCONN.into()),
            None => Err(ENOENT),
        }
    }

    /// As [`PortFile::objects`], for a file that is about to get an object: a fresh one gets the
    /// role.
    pub(super) fn objects_to_be(&self) -> Result<&Arc<Objects>> {
        if self.role().is_none() {
            match self.become_role(|| Ok(Role::Objects(Objects::new()?))) {
                // Another task was faster; the role that it gave is checked below.
                Err(e) if e == EISCONN => {}
                result => result?,
            }
        }
        self.objects()
    }

    /// Gives the file the role that `f` makes. `EISCONN`: it has a role; `EBUSY`: another task is
    /// about to give it one. Sleeps as `f` does.
    pub(super) fn become_role(&self, f: impl FnOnce() -> Result<Role>) -> Result {
        if self.role().is_some() {
            return Err(EISCONN.into());
        }
        if self.changing.cmpxchg(false, true, Acquire).is_err() {
            return Err(EBUSY);
        }
        // The other task may have finished in between.
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

impl Drop for PortFile {
    fn drop(&mut self) {
        match self.role() {
            Some(Role::Listening(listener)) => self.channels.unlisten(&self.node, listener),
            Some(Role::Channel(channel)) => self.channels.close(&self.node, channel),
            Some(Role::SocketListening(listener)) => {
                self.sockets.unlisten(&self.node, &self.engine, listener);
            }
            Some(Role::Socket(socket)) => self.sockets.close(&self.node, &self.engine, socket),
            Some(Role::Objects(objects)) => objects.destroy_all(&self.engine),
            Some(Role::Function(function)) => self.endpoints.close(&self.node, function),
            // It is closed with its file.
            Some(Role::Matching(_)) | None => {}
        }
        self.node.user_left();
    }
}
