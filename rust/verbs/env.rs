// SPDX-License-Identifier: GPL-2.0

//! The environment of the QP machine of `proto::qp` in the driver: the work and completion queues of
//! a queue pair, registered memory, and the link queues.
//!
//! There is no rule of the protocol here: each function does one thing of one trait.

use super::{
    cx::Cx,
    data::{Load, Registered},
    heap::{KernelHeap, Leases},
    making::Making,
    moving::{What, WORTHWHILE},
    posted::{Overposted, Posted},
};
use crate::{
    mem::Binding,
    proto::{
        cqe::{Cqe, Status},
        protocol::Protocol,
        qp::{
            lease::Buffers, AtomicOp, Disconnect, Flow, Inbound, Memory, NotBegun, Overrun, Queues,
            Refused, Request, Side, Sink, Source, Taken, Transfer, Transport,
        },
        request::{Address, Data, Extents, Lane, Outgoing},
        tpt::Rights,
        trunk::Fault,
        word::Word,
        wqe::{Identity, QueueShape, RecvWqe, SendWqe, Sgl, Tail},
    },
    sys::{area::Area, words::Words},
};
use kernel::prelude::*;

/// The queues of a queue pair; `C` is the context of a run of the engine, or `()` outside of a run.
pub(super) struct Env<'a, C> {
    cx: C,
    made: &'a Making,
    send: &'a mut Posted,
    /// `None` with a shared receive queue.
    recv: Option<&'a mut Posted>,
}

impl<'a, C> Env<'a, C> {
    pub(super) fn new(
        cx: C,
        made: &'a Making,
        send: &'a mut Posted,
        recv: Option<&'a mut Posted>,
    ) -> Self {
        Self {
            cx,
            made,
            send,
            recv,
        }
    }
}

/// As [`Posted::take`], for the queue that receive requests come from; `recv` is the queue pair's own.
#[inline]
fn take_recv<R>(
    made: &Making,
    recv: &mut Option<&mut Posted>,
    f: impl FnOnce(Words<'_>, &QueueShape) -> R,
) -> Result<Option<R>, Overposted> {
    match (&made.srq, recv) {
        (Some(srq), _) => srq.take(|entry| f(entry, srq.shape())),
        (None, Some(recv)) => {
            let shape = *recv.shape();
            recv.take(|entry| f(entry, &shape))
        }
        (None, None) => Ok(None),
    }
}

impl<C> Queues for Env<'_, C> {
    fn sends_pending(&self) -> u32 {
        self.send.pending().unwrap_or(0)
    }

    fn has_send(&self) -> bool {
        self.send.pending().map_or(true, |count| count > 0)
    }

    fn take_send(&mut self, wqe: &mut SendWqe) -> Result<Option<Taken>, Status> {
        let shape = &self.made.send;
        let taken = self
            .send
            .take(|entry| wqe.read(move |n| entry.load(n), shape));
        taken.map_err(|_| Status::LocalRequest)
    }

    fn drop_send(&mut self) -> Option<Identity> {
        let taken = self.send.take(|entry| Identity::of(move |n| entry.load(n)));
        taken.ok().flatten()
    }

    fn recvs_pending(&self) -> u32 {
        let pending = self.recv.as_ref().map(|recv| recv.pending().unwrap_or(0));
        pending.unwrap_or(0)
    }

    fn has_recv(&self) -> bool {
        match (&self.made.srq, &self.recv) {
            (Some(srq), _) => srq.has_any().unwrap_or(true),
            (None, Some(recv)) => recv.pending().map_or(true, |count| count > 0),
            (None, None) => false,
        }
    }

    fn drop_recv(&mut self) -> Option<u64> {
        let wr_id = |entry: Words<'_>, _: &_| RecvWqe::wr_id_of(move |n| entry.load(n));
        take_recv(self.made, &mut self.recv, wr_id).unwrap_or(Some(0))
    }

    fn has_srq(&self) -> bool {
        self.made.srq.is_some()
    }

    fn complete_send(&mut self, cqe: &Cqe) -> Result<(), Overrun> {
        self.made.send_cq.push(cqe)
    }

    fn complete_recv(&mut self, cqe: &Cqe) -> Result<(), Overrun> {
        self.made.recv_cq.push(cqe)
    }
}

/// The environment in a run of the engine.
pub(super) type Running<'a, 'b, 'c> = Env<'a, &'b mut Cx<'c>>;

impl Running<'_, '_, '_> {
    fn registered(&self) -> Registered<'_> {
        Registered {
            memory: self.cx.memory,
            pd: &self.made.pd,
        }
    }

    fn area(&self, side: Side) -> &Area {
        match side {
            Side::Own => self.cx.io.arena,
            Side::Peer => self.cx.io.window,
        }
    }
}

impl Transport for Running<'_, '_, '_> {
    type Leases = Leases;

    fn buffers(&mut self) -> &mut Buffers<Leases> {
        &mut self.cx.trunk.buffers
    }

    fn has_room(&mut self, lane: Lane) -> Result<bool, Fault> {
        self.cx.trunk.has_room(&self.cx.io, lane, 1)
    }

    fn has_word_room(&mut self) -> Result<bool, Fault> {
        self.cx.trunk.has_word_room(&self.cx.io)
    }

    fn may_say(&mut self, protocol: Protocol) -> Result<bool, Fault> {
        self.cx.trunk.may_say(&self.cx.io, protocol)
    }

    fn send(
        &mut self,
        protocol: Protocol,
        to: Address,
        message: &Outgoing<'_>,
    ) -> Result<bool, Fault> {
        self.cx.send(protocol, to, message)
    }

    fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault> {
        self.cx.word(protocol, word)
    }

    fn disconnect(
        &mut self,
        protocol: Protocol,
        qpn: u32,
        what: Disconnect,
    ) -> Result<bool, Fault> {
        self.cx.gone(protocol, Some(qpn), what)
    }

    fn take_eager(&mut self, len: u32, lane: Lane) -> Result<Option<(u32, usize)>, Fault> {
        self.cx.trunk.take_eager(&self.cx.io, len, lane)
    }

    fn untake_eager(&mut self) {
        self.cx.trunk.untake_eager();
    }

    fn eager_most(&self) -> u64 {
        self.cx.trunk.peer.eager_most() as u64
    }

    fn eager_place(&self, data: &Data) -> Option<usize> {
        self.cx.trunk.eager_place(&self.cx.own, data)
    }

    fn load<T>(&self, load: impl FnOnce(&Self) -> T) -> Option<T> {
        self.cx.io.over_the_bridge(|| load(self))
    }

    fn moved(&self, bytes: u64) {
        self.cx.moved(bytes);
    }

    fn flow(&self) -> Flow {
        self.cx.flow
    }
}

impl Memory for Running<'_, '_, '_> {
    type Heap = KernelHeap;

    fn request(&mut self) -> Option<KBox<Request>> {
        self.cx.spares.take().ok()
    }

    fn recycle(&mut self, request: KBox<Request>) {
        self.cx.spares.give(request);
    }

    fn take_recv(&mut self) -> Option<(u64, Result<(), Status>)> {
        let wqe = &mut *self.cx.spares.recv;
        let decode = |entry: Words<'_>, shape: &_| {
            let sense = wqe.read(move |n| entry.load(n), shape);
            (wqe.wr_id, sense.map_err(|_| Status::LocalRequest))
        };
        let invalid = Some((0, Err(Status::LocalRequest)));
        take_recv(self.made, &mut self.recv, decode).unwrap_or(invalid)
    }

    fn recv_list(&self) -> &Sgl {
        &self.cx.spares.recv.list
    }

    fn inbound(&mut self, message: Inbound) -> Option<KBox<Inbound>> {
        KBox::new(message, GFP_KERNEL).ok()
    }

    fn read(&self, list: &Sgl, out: &mut [u8]) -> Result<(), Refused> {
        self.registered().read(list, out)
    }

    fn put(&self, tail: &Tail, at: usize, len: usize) -> Result<(), Refused> {
        self.cx.has_stored(len as u64);
        self.registered()
            .put(self.area(Side::Peer), tail, 0, at, len)
    }

    fn spread(
        &self,
        source: Source<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused> {
        if let Side::Peer = side {
            self.cx.has_stored(len);
        }
        self.registered()
            .spread(self.area(side), source, offset, extents, len)
    }

    fn write(&self, sink: Sink<'_>, bytes: &[u8]) -> Result<(), Refused> {
        self.registered().write(sink, bytes)
    }

    fn take(&self, sink: Sink<'_>, at: usize, len: u64) -> Result<(), Refused> {
        self.registered()
            .take(self.area(Side::Own), sink, 0, at, len)
    }

    fn collect(
        &self,
        sink: Sink<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused> {
        self.registered()
            .collect(self.area(side), sink, offset, extents, len)
    }

    fn allows(&self, stag: u32, right: Rights, to: u64, length: u64) -> bool {
        let Registered { memory, pd } = self.registered();
        memory.access(pd, stag, right, to, length).is_ok()
    }

    fn size_from(&self, stag: u32, to: u64) -> Option<u64> {
        let Registered { memory, pd } = self.registered();
        memory.size_from(pd, stag, Rights::REMOTE_READ, to).ok()
    }

    fn atomic(&self, stag: u32, to: u64, op: AtomicOp) -> Result<u64, Refused> {
        let Registered { memory, pd } = self.registered();
        let access = memory.access(pd, stag, Rights::REMOTE_ATOMIC, to, 8)?;
        Ok(match op {
            AtomicOp::FetchAdd(add) => access.fetch_add(add)?,
            AtomicOp::CompareSwap(old, new) => access.compare_swap(old, new)?,
        })
    }

    fn bind(&self, wqe: &SendWqe) -> Result<bool, Status> {
        let list = wqe.tail.list().map(Sgl::as_slice).unwrap_or_default();
        let binding = Binding {
            // To unbind needs no region.
            region: list.first().map_or(0, |region| region.stag),
            to: wqe.arg0,
            length: wqe.arg1,
            access: wqe.access,
            key: wqe.key,
        };
        let Registered { memory, pd } = self.registered();
        ended(memory.bind(pd, wqe.remote_stag, &binding)).map_err(|_| Status::Bind)
    }

    fn invalidate(&self, stag: u32) -> Result<bool, Status> {
        let Registered { memory, pd } = self.registered();
        ended(memory.invalidate(pd, stag)).map_err(|_| Status::LocalProt)
    }

    fn begin(
        &mut self,
        source: Source<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
        whole: u64,
        what: Transfer,
    ) -> Result<(), NotBegun> {
        let mover = self.cx.io.mover().filter(|_| whole >= WORTHWHILE);
        let mover = mover.ok_or(NotBegun::Ever)?;
        let load = Load::new(self.registered(), source, offset, extents, len)?;
        let moving = &mut self.cx.trunk.moving;
        moving.begin(mover, load, extents, What::Transfer(what))
    }
}

/// Returns true if an operation on a window is done, false if it waits for accesses to end.
fn ended<E>(done: core::task::Poll<Result<(), E>>) -> Result<bool, E> {
    match done {
        core::task::Poll::Ready(done) => done.map(|()| true),
        core::task::Poll::Pending => Ok(false),
    }
}
