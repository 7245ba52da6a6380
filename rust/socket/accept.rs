// SPDX-License-Identifier: GPL-2.0

//! The requests of users that listen: to listen, to accept, to refuse.

use super::{
    end::Remote,
    listener::{Listener, Request},
    Socket, Sockets,
};
use crate::{
    channel::MAX_LISTENERS,
    fabric::{Inside, Node},
    proto::socket::message::{Message, Reject, Says},
    share::{Payer, Table},
    sys::{
        errno::{EADDRINUSE, ECONNABORTED, ENOTCONN},
        waitq::WaitQueue,
    },
    verbs::Engine,
};
use kernel::{prelude::*, sync::Arc};

/// A request that waits, as a user of its listener sees it.
pub(crate) struct Asking {
    /// Its name: the link, a count of its sessions, and the peer's id.
    pub(crate) name: (usize, u64, u32),
    /// Hardware id of the peer.
    pub(crate) peer: u64,
    pub(crate) data: u64,
}

impl Sockets {
    /// Listens on `service`. `EADDRINUSE`: another file listens on it; `ENOSPC`: the port has [`MAX_LISTENERS`];
    /// `EDQUOT`: `payer` has its share; `EOPNOTSUPP`: the port says that it has no sockets.
    pub(crate) fn listen(
        &self,
        payer: &Payer,
        service: u32,
        backlog: usize,
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Listener>> {
        self.are_there()?;
        let charge = payer.take(Table::Listeners, MAX_LISTENERS, 1)?;
        let listener = Listener::new(service, backlog, waiters, charge)?;
        let mut listeners = self.listeners.lock();
        if listeners.iter().any(|other| other.service == service) {
            return Err(EADDRINUSE.into());
        }
        listeners.push(listener.clone(), GFP_KERNEL_ACCOUNT)?;
        self.is_used_now();
        Ok(listener)
    }

    /// Removes the listener of a closed file, and rejects the requests that wait.
    pub(crate) fn unlisten(&self, node: &Node, engine: &Engine, listener: &Arc<Listener>) {
        self.listeners
            .lock()
            .retain(|other| !Arc::ptr_eq(other, listener));
        for request in listener.close() {
            self.reject(node, engine, &request, Reject::Refused);
        }
    }

    /// Rejects a request.
    fn reject(&self, node: &Node, engine: &Engine, request: &Request, why: Reject) {
        if let Ok(per_link) = self.per_link(request.link) {
            if per_link.session() == request.session {
                // Without memory for it the peer waits until its user gives up.
                let _ = per_link.post(Message {
                    to: request.from,
                    from: 0,
                    says: Says::Reject(why),
                });
                // If the port is gone, no peer waits.
                let _ = engine.tell(node, request.link);
            }
        }
    }

    /// Accepts the oldest request. `waiters` is that of the file that becomes the end of the connection. `EAGAIN`: none
    /// waits, with `nonblock`; `ECONNABORTED`: the peer has given up, or its link was lost; `ENOBUFS`: the arena of the
    /// link has no room for another half; `EDQUOT`: `payer` has its share of it.
    pub(crate) fn accept(
        &self,
        (node, engine): (&Node, &Engine),
        (payer, inside): (&Payer, &Inside<'_>),
        listener: &Listener,
        waiters: Arc<WaitQueue>,
        nonblock: bool,
    ) -> Result<Arc<Socket>> {
        loop {
            if node.is_closed() {
                return Err(ENODEV);
            }
            let Some(request) = listener.first() else {
                if nonblock {
                    return Err(EAGAIN);
                }
                inside.asleep(|| listener.wait(|| node.is_closed()))?;
                continue;
            };
            let over = (node, engine);
            if let Some(socket) = self.answer(over, payer, listener, &request, waiters.clone())? {
                return Ok(socket);
            }
        }
    }

    /// Returns the oldest request that waits. `EAGAIN`: there is none.
    pub(crate) fn oldest(&self, node: &Node, listener: &Listener) -> Result<Asking> {
        loop {
            let request = listener.first().ok_or(EAGAIN)?;
            let peer = node.with_link(request.link, |session| {
                let per_link = self.per_link(request.link)?;
                let is_it = per_link.session() == request.session;
                let peer = session.peer().filter(|_| is_it).ok_or(ENOTCONN)?;
                Ok(peer.id.hwid)
            });
            match peer {
                Ok(peer) => {
                    return Ok(Asking {
                        name: (request.link, request.session, request.from),
                        peer,
                        data: request.data,
                    })
                }
                // Its link was lost.
                Err(e) if e == ENOTCONN => listener.take(&request),
                Err(e) => return Err(e),
            };
        }
    }

    /// Accepts the request of that name. `ECONNABORTED`: there is none. Others as [`Self::accept`].
    pub(crate) fn accept_one(
        &self,
        over: (&Node, &Engine),
        payer: &Payer,
        listener: &Listener,
        name: (usize, u64, u32),
        waiters: Arc<WaitQueue>,
    ) -> Result<Arc<Socket>> {
        let request = listener.find(name).ok_or(ECONNABORTED)?;
        let answered = self.answer(over, payer, listener, &request, waiters)?;
        answered.ok_or(ECONNABORTED.into())
    }

    /// Rejects the request of that name, if there is one: the peer gets ECONNREFUSED.
    pub(crate) fn refuse(
        &self,
        node: &Node,
        engine: &Engine,
        listener: &Listener,
        name: (usize, u64, u32),
    ) {
        if let Some(request) = listener.find(name).filter(|found| listener.take(found)) {
            self.reject(node, engine, &request, Reject::Refused);
        }
    }

    /// Answers a request. `None`: it is not there any more. Errors as [`Self::accept`].
    fn answer(
        &self,
        (node, engine): (&Node, &Engine),
        payer: &Payer,
        listener: &Listener,
        request: &Request,
        waiters: Arc<WaitQueue>,
    ) -> Result<Option<Arc<Socket>>> {
        match self.take_request(node, payer, listener, request, waiters) {
            Ok(Some(socket)) => {
                engine.tell(node, request.link)?;
                node.touch(request.link);
                Ok(Some(socket))
            }
            Ok(None) => Ok(None),
            Err(e) => {
                // It is still there if its link was lost.
                listener.take(request);
                if e == ENOTCONN {
                    return Err(ECONNABORTED.into());
                }
                self.reject(node, engine, request, Reject::NoRoom);
                Err(e)
            }
        }
    }

    /// Takes a request from its listener, and makes the socket that answers it. `None`: it is not there any more. Errors as
    /// [`Self::accept`], but `ENOTCONN` if its link was lost.
    fn take_request(
        &self,
        node: &Node,
        payer: &Payer,
        listener: &Listener,
        request: &Request,
        waiters: Arc<WaitQueue>,
    ) -> Result<Option<Arc<Socket>>> {
        node.with_link(request.link, |session| {
            let per_link = self.per_link(request.link)?;
            if per_link.session() != request.session {
                return Err(ENOTCONN.into());
            }
            per_link.changing(|rests| {
                // Another call may have accepted it, or the peer withdrawn it: its half is not to be written then.
                if !listener.take(request) {
                    return Ok(None);
                }
                let far = session.port().far_links();
                let charge = payer.take_link(&far, request.link)?;
                let what = (listener.service, request.half.shape);
                let socket = self.make(session, payer, what, charge, waiters)?;
                let remote = Remote {
                    id: request.from,
                    base: request.half.base as usize,
                };
                socket.open(remote, rests);
                socket.greet(node, session.port());
                let answer = Says::Accept(socket.made.half());
                per_link.say(&socket, answer).inspect_err(|_| {
                    per_link.remove(&socket);
                })?;
                Ok(Some(socket))
            })
        })
    }
}
