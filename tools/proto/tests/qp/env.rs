// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the QP machine works with here: two buffers in place of the port, and the user's memory.

use super::user::{Tag, User};
use super::Memory as Buffer;
use std::cell::Cell;
use std::collections::VecDeque;
use weft_proto::cqe::{Cqe, Status};
use weft_proto::eager::{pieces, Eager, Piece};
use weft_proto::fifo::{Error, Inbound as InFifos, Outbound};
use weft_proto::protocol::Protocol;
use weft_proto::qp::lease::{leases, Buffers};
use weft_proto::qp::{
    AtomicOp, Disconnect, Flow, Heap, Inbound, Lease, Memory, NotBegun, Overrun, Queues, Refused,
    Request, Side, Sink, Source, Taken, Transfer, Transport,
};
use weft_proto::request::{Address, Data, Extents, Lane, Message, Outgoing};
use weft_proto::tpt::Rights;
use weft_proto::trunk::{Fault, Layout};
use weft_proto::window::{Area, Window};
use weft_proto::word::{Says, Word};
use weft_proto::wqe::{Identity, SendWqe, Sgl, Tail};

/// From here on, in bytes, the DMA engine moves data.
const DMA_FROM: u64 = 3000;

pub struct Boxes;

impl Heap for Boxes {
    type Request = Box<Request>;
    type Inbound = Box<Inbound>;
}

/// Data that the DMA engine is to move, or has moved.
pub struct Dma {
    pub transfer: Transfer,
    extents: Extents,
    data: Vec<u8>,
    pub moved: bool,
}

impl Dma {
    pub fn run(&mut self, peer: &impl Trunk) {
        put(peer, &self.extents, &self.data);
        self.moved = true;
    }
}

/// This end of a link: what its queue pairs share.
pub struct Link {
    pub own: Layout,
    pub peer: Layout,
    pub out: Outbound,
    pub inn: InFifos,
    eager: Eager<Vec<Piece>>,
    pub buffers: Buffers<Vec<Lease>>,
    pub dma: VecDeque<Dma>,
    pub flow: Flow,
    /// So many loads over the bridge bring nothing.
    pub lost_loads: Cell<u32>,
    /// The DMA engine is used.
    pub has_dma: bool,
    /// Cells and words that were sent.
    pub sent: u64,
    /// Bytes that were copied from and to the link queues, cells apart,
    copied: Cell<u64>,
    /// and how many the machines have counted.
    counted: Cell<u64>,
}

impl Link {
    pub fn new(own: Layout, peer: Layout, has_dma: bool) -> Self {
        Self {
            own,
            peer,
            out: Outbound::new(own, peer),
            inn: InFifos::new(own, peer),
            eager: Eager::new(&peer, vec![Piece::NONE; pieces(&own, &peer)]),
            buffers: Buffers::new(&own, vec![Lease::NONE; leases(&own)]),
            dma: VecDeque::new(),
            flow: Flow::Open,
            lost_loads: Cell::new(0),
            has_dma,
            sent: 0,
            copied: Cell::new(0),
            counted: Cell::new(0),
        }
    }

    /// Notes that bytes were copied.
    fn copies(&self, bytes: usize) {
        self.copied.set(self.copied.get() + bytes as u64);
    }

    /// Checks that all bytes that were copied are counted, for the budget of a run.
    pub fn check_counted(&self) {
        let (copied, counted) = (self.copied.get(), self.counted.get());
        assert!(copied <= counted, "{counted} of {copied} bytes are counted");
    }

    /// Gives this end credit for all that it has sent.
    pub fn take_all(&self, own: &Buffer) {
        use weft_proto::trunk::{RX_CREDIT_AT, TX_CREDIT_AT};
        own.set(RX_CREDIT_AT, self.out.written(Lane::Receive));
        own.set(TX_CREDIT_AT, self.out.written(Lane::Transmit));
    }

    /// Says GONE, when the DMA engine has moved all that queue pair `qpn` has given it.
    pub fn disconnect(&mut self, t: Trunks<'_, impl Trunk>, qpn: u32, what: Disconnect) -> bool {
        if self.dma.iter().any(|dma| dma.transfer.owner().0 == qpn) {
            return false;
        }
        let to = Address {
            qpn: what.to,
            psn: 0,
        };
        self.out.tell(t.peer);
        let gone: Outgoing<'_> = Message::Gone(what.gone);
        room(self.out.send(t.own, t.peer, to, &gone)).expect("the peer is honest")
    }
}

/// Memory of link queues.
pub trait Trunk: Area + Window {}

impl<T: Area + Window> Trunk for T {}

/// The parts of the link queues of this end, and of the peer.
pub struct Trunks<'a, M> {
    pub own: &'a M,
    pub peer: &'a M,
}

impl<M> Clone for Trunks<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Trunks<'_, M> {}

/// Whether something was done; a FIFO that is full is no fault.
pub fn room(result: Result<(), Error>) -> Result<bool, Fault> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Full) => Ok(false),
        Err(Error::Corrupt(fault)) => Err(fault),
    }
}

fn put(trunk: &impl Trunk, extents: &Extents, data: &[u8]) {
    let mut rest = data;
    for extent in extents.as_slice() {
        let (here, next) = rest.split_at(rest.len().min(extent.bytes as usize));
        trunk.write(extent.at as usize, here);
        rest = next;
    }
    assert_eq!(rest, [], "extents are too short");
}

fn get(trunk: &impl Trunk, extents: &Extents, len: usize) -> Vec<u8> {
    let mut data = vec![];
    for extent in extents.as_slice() {
        let mut part = vec![0; (extent.bytes as usize).min(len - data.len())];
        trunk.read(extent.at as usize, &mut part);
        data.extend(part);
    }
    assert_eq!(data.len(), len, "extents are too short");
    data
}

pub struct Env<'a, M> {
    pub link: &'a mut Link,
    pub user: &'a mut User,
    pub t: Trunks<'a, M>,
}

impl<M: Trunk> Env<'_, M> {
    fn area(&self, side: Side) -> &M {
        match side {
            Side::Own => self.t.own,
            Side::Peer => self.t.peer,
        }
    }

    /// The work request that memory at `to` of `stag` is for, if the peer may reach it.
    fn remote(&self, stag: u32, to: u64, len: u64) -> Option<u32> {
        match Tag::of(stag) {
            Some(Tag::Remote(number)) if User::has(to, len) => Some(number),
            _ => None,
        }
        .filter(|number| *number >= self.user.taken_back.remote)
    }

    /// Whether memory of `stag` is this user's, for a work request of its own.
    fn is_local(&self, stag: u32) -> bool {
        matches!(Tag::of(stag), Some(Tag::Local(number)) if number >= self.user.taken_back.local)
    }

    fn gather(&self, source: Source<'_>, offset: u64, len: u64) -> Result<Vec<u8>, Refused> {
        let list = match source {
            Source::Tagged { stag, to } => {
                let number = self
                    .remote(stag, to.wrapping_add(offset), len)
                    .ok_or(Refused::Denied)?;
                self.user.execute(number);
                return Ok(self.user.read(stag, to + offset, len as usize));
            }
            Source::Tail(Tail::Inline(..)) => {
                let Source::Tail(tail) = source else {
                    return Err(Refused::Failed);
                };
                let data = tail.inline().expect("inline");
                return Ok(data[offset as usize..(offset + len) as usize].to_vec());
            }
            Source::Tail(Tail::List(list)) => list,
        };
        let mut data = vec![];
        for piece in list.pieces(offset, len) {
            if !self.is_local(piece.stag) {
                return Err(Refused::Denied);
            }
            data.extend(self.user.read(piece.stag, piece.to, piece.length as usize));
        }
        assert_eq!(data.len() as u64, len, "the list is long enough");
        Ok(data)
    }

    fn scatter(&self, sink: Sink<'_>, offset: u64, data: &[u8]) -> Result<(), Refused> {
        match sink {
            Sink::Tagged { stag, to } => {
                let (at, len) = (to.wrapping_add(offset), data.len() as u64);
                let number = self.remote(stag, at, len).ok_or(Refused::Denied)?;
                self.user.execute(number);
                self.user.write(stag, at, data);
            }
            Sink::List(list) => {
                let mut rest = data;
                for piece in list.pieces(offset, data.len() as u64) {
                    let is_recv = matches!(Tag::of(piece.stag), Some(Tag::Recv(_)));
                    if !is_recv && !self.is_local(piece.stag) {
                        return Err(Refused::Denied);
                    }
                    let (here, next) = rest.split_at(piece.length as usize);
                    self.user.write(piece.stag, piece.to, here);
                    rest = next;
                }
                assert!(rest.is_empty(), "the list is long enough");
            }
        }
        Ok(())
    }
}

impl<M: Trunk> Transport for Env<'_, M> {
    type Leases = Vec<Lease>;

    fn buffers(&mut self) -> &mut Buffers<Vec<Lease>> {
        &mut self.link.buffers
    }

    fn has_room(&mut self, lane: Lane) -> Result<bool, Fault> {
        room(self.link.out.reserve_cells(self.t.own, lane, 1))
    }

    fn has_word_room(&mut self) -> Result<bool, Fault> {
        room(self.link.out.reserve_words(self.t.own, 1))
    }

    fn may_say(&mut self, protocol: Protocol) -> Result<bool, Fault> {
        room(if protocol.cqe {
            self.link.out.reserve_offered_words(self.t.own, 1)
        } else {
            self.link.out.reserve_words(self.t.own, 1)
        })
    }

    fn send(
        &mut self,
        protocol: Protocol,
        to: Address,
        message: &Outgoing<'_>,
    ) -> Result<bool, Fault> {
        let (out, t) = (&mut self.link.out, self.t);
        if let Message::Join(_) = message {
            out.tell(t.peer);
        }
        let sent = room(match protocol.lane(message) {
            Lane::Pulled => out.offer(t.own, t.own, to, message),
            _ => out.send(t.own, t.peer, to, message),
        })?;
        self.link.sent += u64::from(sent);
        Ok(sent)
    }

    fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault> {
        let (out, t) = (&mut self.link.out, self.t);
        let sent = room(if protocol.offers(word.says) {
            out.offer_word(t.own, t.own, &word)
        } else {
            out.word(t.own, t.peer, &word)
        })?;
        self.link.sent += u64::from(sent);
        Ok(sent)
    }

    fn disconnect(
        &mut self,
        _protocol: Protocol,
        qpn: u32,
        what: Disconnect,
    ) -> Result<bool, Fault> {
        Ok(self.link.disconnect(self.t, qpn, what))
    }

    fn take_eager(&mut self, len: u32, lane: Lane) -> Result<Option<(u32, usize)>, Fault> {
        let Link { out, eager, .. } = &mut *self.link;
        out.refresh(self.t.own)?;
        let at = eager.take(len, lane, out.written(lane), |lane| out.taken(lane));
        Ok(at.map(|at| (at, self.link.peer.eager_at() + at as usize)))
    }

    fn untake_eager(&mut self) {
        self.link.eager.untake();
    }

    fn eager_most(&self) -> u64 {
        self.link.peer.eager_most() as u64
    }

    fn eager_place(&self, data: &Data) -> Option<usize> {
        match *data {
            Data::Eager { at, len } => self.link.own.eager_place(at, len.into()).ok(),
            _ => None,
        }
    }

    fn load<T>(&self, load: impl FnOnce(&Self) -> T) -> Option<T> {
        if let Some(left) = self.link.lost_loads.get().checked_sub(1) {
            self.link.lost_loads.set(left);
            return None;
        }
        Some(load(self))
    }

    fn moved(&self, bytes: u64) {
        self.link.counted.set(self.link.counted.get() + bytes);
    }

    fn flow(&self) -> Flow {
        self.link.flow
    }
}

impl<M: Trunk> Memory for Env<'_, M> {
    type Heap = Boxes;

    fn request(&mut self) -> Option<Box<Request>> {
        Some(Box::new(Request::BLANK))
    }

    fn recycle(&mut self, _request: Box<Request>) {}

    fn take_recv(&mut self) -> Option<(u64, Result<(), Status>)> {
        self.user.take_recv()
    }

    fn recv_list(&self) -> &Sgl {
        &self.user.recv.list
    }

    fn inbound(&mut self, message: Inbound) -> Option<Box<Inbound>> {
        Some(Box::new(message))
    }

    fn read(&self, list: &Sgl, out: &mut [u8]) -> Result<(), Refused> {
        let tail = Tail::List(*list);
        let data = self.gather(Source::Tail(&tail), 0, out.len() as u64)?;
        out.copy_from_slice(&data);
        Ok(())
    }

    fn put(&self, tail: &Tail, at: usize, len: usize) -> Result<(), Refused> {
        let data = self.gather(Source::Tail(tail), 0, len as u64)?;
        self.t.peer.write(at, &data);
        self.link.copies(len);
        Ok(())
    }

    fn spread(
        &self,
        source: Source<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused> {
        let data = self.gather(source, offset, len)?;
        put(self.area(side), extents, &data);
        self.link.copies(data.len());
        Ok(())
    }

    fn write(&self, sink: Sink<'_>, bytes: &[u8]) -> Result<(), Refused> {
        self.scatter(sink, 0, bytes)
    }

    fn take(&self, sink: Sink<'_>, at: usize, len: u64) -> Result<(), Refused> {
        let mut data = vec![0; len as usize];
        self.t.own.read(at, &mut data);
        self.link.copies(data.len());
        self.scatter(sink, 0, &data)
    }

    fn collect(
        &self,
        sink: Sink<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused> {
        let data = get(self.area(side), extents, len as usize);
        self.link.copies(data.len());
        self.scatter(sink, offset, &data)
    }

    fn allows(&self, stag: u32, _right: Rights, to: u64, length: u64) -> bool {
        self.remote(stag, to, length).is_some()
    }

    fn size_from(&self, stag: u32, to: u64) -> Option<u64> {
        let number = self.remote(stag, 0, 0)?;
        self.user.execute(number);
        (super::user::size_of_read(number) as u64).checked_sub(to)
    }

    fn atomic(&self, stag: u32, to: u64, op: AtomicOp) -> Result<u64, Refused> {
        let number = self.remote(stag, to, 8).ok_or(Refused::Denied)?;
        self.user.execute(number);
        let mut counter = self.user.counter.borrow_mut();
        let before = *counter;
        *counter = match op {
            AtomicOp::FetchAdd(add) => before.wrapping_add(add),
            AtomicOp::CompareSwap(old, new) if old == before => new,
            AtomicOp::CompareSwap(..) => before,
        };
        Ok(before)
    }

    fn bind(&self, _wqe: &SendWqe) -> Result<bool, Status> {
        Err(Status::Bind)
    }

    fn invalidate(&self, stag: u32) -> Result<bool, Status> {
        match Tag::of(stag) {
            Some(_) => Ok(true),
            None => Err(Status::LocalProt),
        }
    }

    fn begin(
        &mut self,
        source: Source<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
        whole: u64,
        transfer: Transfer,
    ) -> Result<(), NotBegun> {
        assert!(len <= whole, "a part is not longer than the whole");
        if whole < DMA_FROM || !self.link.has_dma {
            return Err(NotBegun::Ever);
        }
        if self.link.dma.len() >= 4 {
            return Err(NotBegun::Now);
        }
        let data = self
            .gather(source, offset, len)
            .map_err(NotBegun::Refused)?;
        self.link.dma.push_back(Dma {
            transfer,
            extents: *extents,
            data,
            moved: false,
        });
        Ok(())
    }
}

impl<M> Queues for Env<'_, M> {
    fn sends_pending(&self) -> u32 {
        self.user.sends_pending()
    }

    fn has_send(&self) -> bool {
        self.user.has_send()
    }

    fn take_send(&mut self, wqe: &mut SendWqe) -> Result<Option<Taken>, Status> {
        self.user.take_send(wqe)
    }

    fn drop_send(&mut self) -> Option<Identity> {
        self.user.drop_send()
    }

    fn recvs_pending(&self) -> u32 {
        self.user.recvs_pending()
    }

    fn has_recv(&self) -> bool {
        self.user.has_recv()
    }

    fn drop_recv(&mut self) -> Option<u64> {
        self.user.drop_recv()
    }

    fn has_srq(&self) -> bool {
        self.user.has_srq()
    }

    fn complete_send(&mut self, cqe: &Cqe) -> Result<(), Overrun> {
        self.user.complete_send(cqe)
    }

    fn complete_recv(&mut self, cqe: &Cqe) -> Result<(), Overrun> {
        self.user.complete_recv(cqe)
    }
}

/// Whether a word is about a lease, and which.
pub fn lease_of(buffers: &mut Buffers<Vec<Lease>>, word: &Word) -> Option<Lease> {
    match word.says {
        Says::Done { to, part } => buffers.end(word.qpn, word.psn, to, part),
        _ => None,
    }
}
