// SPDX-License-Identifier: GPL-2.0

//! Clients in the kernel: a port, its channels and its sockets, as other modules use them, see
//! `Documentation/kernel-clients.rst`.
//!
//! What `chardev` is for programs. An end of a channel and a socket count as users of the port, and, as listeners do, for
//! the user of the task that has made them, as files do. A listener is no user of the port: clients listen at each
//! port that comes, and are told before it goes. This module must not know files.

mod end;
mod socket;

use self::end::End;
use crate::{
    channel::{Channels, KernelEnd, Listener, Wanted, MAX_BACKLOG, MAX_TIMEOUT_MS},
    fabric::Node,
    proto::{cell::Shape, nm::kind::is_host},
    share::{Payer, Shares},
    socket::{self as stream, Sockets},
    sys::{
        client,
        ext::{self, weft_destination, weft_port_attr, weft_socket_destination},
        waitq::WaitQueue,
    },
    verbs::Engine,
};
use kernel::{prelude::*, sync::Arc};

/// The parts of a port that clients work on.
pub(crate) struct ClientPort {
    pub(crate) node: Arc<Node>,
    pub(crate) channels: Arc<Channels>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) shares: Arc<Shares>,
    pub(crate) minor: u32,
}

/// Returns a link that a client has named, `None` for any.
fn link(number: u32) -> Option<usize> {
    (number != ext::WEFT_CLIENT_ANY_LINK).then_some(number as usize)
}

impl client::Port for ClientPort {
    fn attr(&self) -> weft_port_attr {
        weft_port_attr {
            hwid: self.node.identity().map_or(0, |identity| identity.hwid),
            minor: self.minor,
            finish: self.node.is_asked(),
        }
    }

    fn changes(&self) -> &Arc<WaitQueue> {
        self.node.reaching()
    }

    fn hosts(&self, to: &mut [u64]) -> usize {
        let mut found = 0;
        let mut note = |hwid| {
            let known = to.get(..found.min(to.len())).unwrap_or_default();
            if hwid != 0 && !known.contains(&hwid) {
                if let Some(place) = to.get_mut(found) {
                    *place = hwid;
                }
                found += 1;
            }
        };
        for link in self.node.link_numbers(None).into_iter().flatten() {
            let info = self.node.link_info(link).ok();
            let peer = info
                .filter(|info| !info.is_loopback)
                .and_then(|info| info.peer);
            if let Some((hwid, _)) = peer {
                note(hwid);
            }
        }
        if let Some(manager) = self.node.manager() {
            manager.look(|view| {
                // The first one is this host.
                for member in view.members().iter().skip(1) {
                    if member.known && is_host(member.info.hwid) {
                        note(member.info.hwid);
                    }
                }
            });
        }
        found
    }

    fn user(&self) -> Result<KBox<dyn client::User>> {
        Ok(KBox::new(User::new(&self.node), GFP_KERNEL)?)
    }

    fn listen(
        &self,
        service: u32,
        backlog: u32,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::Listener>> {
        if service == 0 || !(1..=MAX_BACKLOG).contains(&backlog) {
            return Err(EINVAL);
        }
        let _inside = self.node.call_now()?;
        self.node.may_begin()?;
        let payer = Payer::new(&self.shares)?;
        let listener = self
            .channels
            .listen(payer, service, backlog as usize, waiters)?;
        let listening = Listening {
            listener,
            channels: self.channels.clone(),
            node: self.node.clone(),
        };
        Ok(KBox::new(listening, GFP_KERNEL_ACCOUNT)?)
    }

    fn connect(
        &self,
        to: &weft_destination,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::Channel>> {
        let wanted = Wanted {
            peer: to.peer,
            link: link(to.link),
            service: to.service,
            shape: Shape::new(to.cells, to.bulk).ok_or(EINVAL)?,
            timeout: to.timeout_ms,
        };
        if to.service == 0 || !(1..=MAX_TIMEOUT_MS).contains(&to.timeout_ms) {
            return Err(EINVAL);
        }
        let inside = self.node.call_now()?;
        self.node.may_begin()?;
        let payer = Payer::new(&self.shares)?;
        let user = User::new(&self.node);
        let channel = self
            .channels
            .connect(&self.node, &payer, &inside, &wanted, waiters)?;
        End::make(KernelEnd::new(&self.node, &self.channels, channel)?, user)
    }

    fn listen_sockets(
        &self,
        service: u32,
        backlog: u32,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::SocketListener>> {
        if service == 0 || !(1..=ext::WEFT_SOCK_MAX_BACKLOG).contains(&backlog) {
            return Err(EINVAL);
        }
        let over = socket::Over::new(self);
        socket::Listening::make(over, &self.shares, service, backlog as usize, waiters)
    }

    fn connect_socket(
        &self,
        to: &weft_socket_destination,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::Socket>> {
        if to.service == 0 || to.timeout_ms > MAX_TIMEOUT_MS {
            return Err(EINVAL);
        }
        let wanted = stream::Wanted {
            peer: to.peer,
            link: link(to.link),
            service: to.service,
            data: to.data,
            shape: stream::Wanted::shape(0, to.bytes)?,
            timeout: to.timeout_ms,
        };
        socket::End::connect(socket::Over::new(self), &self.shares, &wanted, waiters)
    }
}

/// A user of the port, until this is dropped.
struct User(Arc<Node>);

impl User {
    fn new(node: &Arc<Node>) -> Self {
        node.user_came();
        Self(node.clone())
    }
}

impl client::User for User {}

impl Drop for User {
    fn drop(&mut self) {
        self.0.user_left();
    }
}

/// What listens on a service.
struct Listening {
    listener: Arc<Listener>,
    channels: Arc<Channels>,
    node: Arc<Node>,
}

impl client::Listener for Listening {
    fn accept(&self, waiters: Arc<WaitQueue>) -> Result<KBox<dyn client::Channel>> {
        let node = &self.node;
        let inside = node.call_now()?;
        node.may_begin()?;
        let user = User::new(node);
        let channel = self
            .channels
            .accept(node, &inside, &self.listener, waiters, true)?;
        End::make(KernelEnd::new(node, &self.channels, channel)?, user)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.channels.unlisten(&self.node, &self.listener);
    }
}
