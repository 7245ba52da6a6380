// SPDX-License-Identifier: GPL-2.0

//! The sockets of clients in the kernel, and what listens for them.

use super::{ClientPort, User};
use crate::{
    fabric::Node,
    share::{Payer, Shares},
    socket::{Listener, Socket, Sockets, Wanted},
    sys::{
        client,
        ext::{weft_sock_info, weft_socket_request},
        waitq::WaitQueue,
    },
    verbs::Engine,
};
use kernel::{
    iov::{IovIterDest, IovIterSource},
    prelude::*,
    sync::Arc,
};

/// What sockets are made of.
#[derive(Clone)]
pub(super) struct Over {
    node: Arc<Node>,
    engine: Arc<Engine>,
    sockets: Arc<Sockets>,
}

impl Over {
    pub(super) fn new(port: &ClientPort) -> Self {
        Self {
            node: port.node.clone(),
            engine: port.engine.clone(),
            sockets: port.sockets.clone(),
        }
    }

    fn over(&self) -> (&Node, &Engine) {
        (&self.node, &self.engine)
    }
}

/// A socket. It goes before the user: the owner of the function is told last.
pub(super) struct End {
    socket: Closed,
    _user: User,
}

/// A socket that is closed when this is dropped.
struct Closed {
    socket: Arc<Socket>,
    over: Over,
}

impl Drop for Closed {
    fn drop(&mut self) {
        let (node, engine) = self.over.over();
        self.over.sockets.close(node, engine, &self.socket);
    }
}

impl End {
    fn make(socket: Arc<Socket>, over: Over, user: User) -> Result<KBox<dyn client::Socket>> {
        let socket = Closed { socket, over };
        let end = Self {
            socket,
            _user: user,
        };
        Ok(KBox::new(end, GFP_KERNEL_ACCOUNT)?)
    }

    /// Requests a connection, and does not wait for the answer.
    pub(super) fn connect(
        over: Over,
        shares: &Arc<Shares>,
        wanted: &Wanted,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::Socket>> {
        let node = over.node.clone();
        let inside = node.call_now()?;
        node.may_begin()?;
        let payer = Payer::new(shares)?;
        let user = User::new(&node);
        let by = (&*payer, &inside);
        // That there is no answer yet is no error here.
        let (socket, _) = over
            .sockets
            .connect(over.over(), by, wanted, waiters, true)?;
        Self::make(socket, over, user)
    }
}

impl client::Socket for End {
    fn info(&self) -> weft_sock_info {
        weft_sock_info {
            size: size_of::<weft_sock_info>() as u32,
            ..self.socket.socket.info()
        }
    }

    fn send(&self, bytes: usize, from: &mut IovIterSource<'_>) -> Result<usize> {
        let Closed { socket, over } = &self.socket;
        over.sockets.send(over.over(), socket, bytes, true, from)
    }

    fn receive(&self, bytes: usize, peeks: bool, to: &mut IovIterDest<'_>) -> Result<usize> {
        let Closed { socket, over } = &self.socket;
        over.sockets
            .receive(over.over(), socket, (bytes, peeks), true, to)
    }

    fn readable(&self, want: usize, arms: bool) -> Result<usize> {
        let Closed { socket, over } = &self.socket;
        socket.readable(&over.node, want, arms)
    }

    fn writable(&self, arms: bool) -> Result<usize> {
        let Closed { socket, over } = &self.socket;
        socket.writable(&over.node, arms)
    }

    fn finish(&self) -> Result {
        let Closed { socket, over } = &self.socket;
        over.sockets.finish(&over.node, socket)
    }
}

/// What listens on a service.
pub(super) struct Listening {
    listener: Arc<Listener>,
    over: Over,
    shares: Arc<Shares>,
}

impl Listening {
    pub(super) fn make(
        over: Over,
        shares: &Arc<Shares>,
        service: u32,
        backlog: usize,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::SocketListener>> {
        let _inside = over.node.call_now()?;
        over.node.may_begin()?;
        let payer = Payer::new(shares)?;
        let listener = over.sockets.listen(&payer, service, backlog, waiters)?;
        let listening = Self {
            listener,
            over: over.clone(),
            shares: shares.clone(),
        };
        Ok(KBox::new(listening, GFP_KERNEL_ACCOUNT)?)
    }
}

/// Returns the name of a request.
fn name(request: &weft_socket_request) -> (usize, u64, u32) {
    (request.link as usize, request.session, request.from)
}

impl client::SocketListener for Listening {
    fn oldest(&self) -> Result<weft_socket_request> {
        let _inside = self.over.node.call_now()?;
        let oldest = self.over.sockets.oldest(&self.over.node, &self.listener)?;
        let (link, session, from) = oldest.name;
        Ok(weft_socket_request {
            peer: oldest.peer,
            data: oldest.data,
            session,
            link: link as u32,
            from,
        })
    }

    fn accept(
        &self,
        request: &weft_socket_request,
        waiters: Arc<WaitQueue>,
    ) -> Result<KBox<dyn client::Socket>> {
        let over = self.over.clone();
        let _inside = self.over.node.call_now()?;
        over.node.may_begin()?;
        let payer = Payer::new(&self.shares)?;
        let user = User::new(&over.node);
        let socket =
            over.sockets
                .accept_one(over.over(), &payer, &self.listener, name(request), waiters)?;
        End::make(socket, over, user)
    }

    fn refuse(&self, request: &weft_socket_request) {
        let (node, engine) = self.over.over();
        self.over
            .sockets
            .refuse(node, engine, &self.listener, name(request));
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let (node, engine) = self.over.over();
        self.over.sockets.unlisten(node, engine, &self.listener);
    }
}
