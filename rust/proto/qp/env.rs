// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The environment of a [`Machine`](super::Machine): the link queues, registered memory, and the queues
//! of its user.
//!
//! One object implements all three for the time of a call. No function of these traits sleeps for long,
//! and none calls back into the machine.

use super::{
    data::{Refused, Sink, Source},
    disconnect::Disconnect,
    inbound::Inbound,
    lease::{Buffers, LeaseMemory},
    request::Request,
    transfer::Transfer,
};
use crate::proto::{
    cqe::{Cqe, Status},
    protocol::Protocol,
    request::{Address, Data, Extents, Lane, Outgoing},
    tpt::Rights,
    trunk::Fault,
    word::Word,
    wqe::{Identity, SendWqe, Senseless, Sgl, Tail},
};
use core::ops::DerefMut;

/// State of the flow of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Requests may be begun.
    Open,
    /// None is begun; those under way continue. What the peer has refused for want of a receive request is
    /// not sent again.
    Paused,
    /// None is begun, and none is sent again.
    Quiesced,
}

/// One of the two sides of the link queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The link queues of this end.
    Own,
    /// The link queues of the peer, over the bridge.
    Peer,
}

/// The queues and the staging memory of a link, which all its queue pairs share.
///
/// `Err(Fault)` of any function: the peer has broken the protocol of the link queues, and every queue
/// pair of the link ends. `Ok(false)`: there is no room now.
pub trait Transport {
    /// Memory for [`Buffers`].
    type Leases: LeaseMemory;

    /// Returns the staging memory of this end.
    fn buffers(&mut self) -> &mut Buffers<Self::Leases>;

    /// Returns whether one more cell can be sent by `lane`.
    fn has_room(&mut self, lane: Lane) -> Result<bool, Fault>;

    /// Returns whether one more word can be pushed.
    fn has_word_room(&mut self) -> Result<bool, Fault>;

    /// Returns whether a responder can send one more word, pushed or pulled as `protocol` says.
    fn may_say(&mut self, protocol: Protocol) -> Result<bool, Fault>;

    /// Sends a cell, pushed or pulled as `protocol` says.
    fn send(
        &mut self,
        protocol: Protocol,
        to: Address,
        message: &Outgoing<'_>,
    ) -> Result<bool, Fault>;

    /// Sends a word, pushed or pulled as `protocol` says.
    fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault>;

    /// Sends GONE behind all data that queue pair `qpn` of this end has written.
    fn disconnect(&mut self, protocol: Protocol, qpn: u32, what: Disconnect)
        -> Result<bool, Fault>;

    /// Takes `len` bytes of the peer's eager ring for the next cell of `lane`. Returns their offset in
    /// the ring, and their offset in [`Side::Peer`]. `None`: there is no room now.
    fn take_eager(&mut self, len: u32, lane: Lane) -> Result<Option<(u32, usize)>, Fault>;

    /// Returns the bytes of the last [`Transport::take_eager`]: the cell was not sent.
    fn untake_eager(&mut self);

    /// Returns the length of the longest message that uses the eager ring, in bytes.
    fn eager_most(&self) -> u64;

    /// Returns the offset in [`Side::Own`] of eager data that have come.
    fn eager_place(&self, data: &Data) -> Option<usize>;

    /// Runs `load`, which loads from [`Side::Peer`] and can be repeated. `None`: the loads failed,
    /// because the bridge did not answer them.
    fn load<T>(&self, load: impl FnOnce(&Self) -> T) -> Option<T>;

    /// Counts bytes that were moved, for the budget of a run.
    fn moved(&self, bytes: u64);

    /// Returns whether requests may be begun.
    fn flow(&self) -> Flow;
}

/// An atomic operation on 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds this.
    FetchAdd(u64),
    /// Replaces the first value, if it is there, by the second.
    CompareSwap(u64, u64),
}

/// Reason why the DMA engine does not move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// There is no room or memory now.
    Now,
    /// The DMA engine cannot move these data: the CPU is to move them.
    Ever,
    /// The memory may not be read.
    Refused(Refused),
}

/// Memory for objects that are too large to be part of every queue pair.
pub trait Heap {
    /// A request under way.
    type Request: DerefMut<Target = Request>;
    /// A long message that is being received.
    type Inbound: DerefMut<Target = Inbound>;
}

/// Registered memory, as the protection domain of the queue pair allows it. Every function checks
/// STags, rights and bounds.
pub trait Memory {
    /// Memory of the machine itself.
    type Heap: Heap;

    /// Allocates a request, to be filled in. `None`: there is no memory now.
    fn request(&mut self) -> Option<<Self::Heap as Heap>::Request>;

    /// Frees a request.
    fn recycle(&mut self, request: <Self::Heap as Heap>::Request);

    /// Takes the next receive request, if there is one, into memory of the environment: its list is
    /// [`Memory::recv_list`] until the next one is taken. Returns its `wr_id`, and a status if it is
    /// invalid.
    fn take_recv(&mut self) -> Option<(u64, Result<(), Status>)>;

    /// Returns the list of the receive request that was taken last.
    fn recv_list(&self) -> &Sgl;

    /// Allocates `message`. `None`: there is no memory.
    fn inbound(&mut self, message: Inbound) -> Option<<Self::Heap as Heap>::Inbound>;

    /// Copies the first `out.len()` bytes of the memory that `list` names.
    fn read(&self, list: &Sgl, out: &mut [u8]) -> Result<(), Refused>;

    /// Copies a request's data, `len` bytes from the beginning, to `at` of [`Side::Peer`], without a
    /// fence.
    fn put(&self, tail: &Tail, at: usize, len: usize) -> Result<(), Refused>;

    /// Fills `extents` of the link queues with the first `len` bytes of `source` from `offset` on,
    /// without a fence.
    fn spread(
        &self,
        source: Source<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused>;

    /// Copies `bytes` to the beginning of `sink`.
    fn write(&self, sink: Sink<'_>, bytes: &[u8]) -> Result<(), Refused>;

    /// Copies `len` bytes at `at` of [`Side::Own`] to the beginning of `sink`.
    fn take(&self, sink: Sink<'_>, at: usize, len: u64) -> Result<(), Refused>;

    /// Copies the contents of `extents` of the link queues, but at most `len` bytes, to `offset` of
    /// `sink`.
    fn collect(
        &self,
        sink: Sink<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused>;

    /// Returns whether the peer has `right` to `length` bytes at `to` of `stag`.
    fn allows(&self, stag: u32, right: Rights, to: u64, length: u64) -> bool;

    /// Returns how many bytes the peer may read from `to` of `stag` on. `None`: it may not read there.
    fn size_from(&self, stag: u32, to: u64) -> Option<u64>;

    /// Does an atomic operation for the peer; returns the old value.
    fn atomic(&self, stag: u32, to: u64, op: AtomicOp) -> Result<u64, Refused>;

    /// Binds a memory window. Returns false if accesses by it are under way: then it is to be retried.
    fn bind(&self, wqe: &SendWqe) -> Result<bool, Status>;

    /// Invalidates a memory window. Returns false as [`Memory::bind`] does.
    fn invalidate(&self, stag: u32) -> Result<bool, Status>;

    /// Makes the DMA engine copy `len` bytes of `source` from `offset` on to `extents` of
    /// [`Side::Peer`]. [`Machine::transfer_ended`](super::Machine::transfer_ended) is called with `what`
    /// when it has. `whole`: judges by so many bytes, of which these are a part, whether the DMA engine
    /// is worth it.
    fn begin(
        &mut self,
        source: Source<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
        whole: u64,
        what: Transfer,
    ) -> Result<(), NotBegun>;
}

/// A completion queue has no room: the completion is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// A send request that was taken: its identity for a completion, and whether it is valid.
pub type Taken = (Identity, Result<(), Senseless>);

/// The work and completion queues of a queue pair.
pub trait Queues {
    /// Returns how many send requests were posted and not taken; 0 if the user's count is invalid.
    fn sends_pending(&self) -> u32;

    /// Returns whether there is a send request; also true if the user's count is invalid, which is
    /// reported when one is taken.
    fn has_send(&self) -> bool;

    /// Takes the next send request, if there is one, into `wqe`.
    fn take_send(&mut self, wqe: &mut SendWqe) -> Result<Option<Taken>, Status>;

    /// Drops the next send request, if there is one, and returns its identity.
    fn drop_send(&mut self) -> Option<Identity>;

    /// Returns how many receive requests of the queue pair's own queue were not taken.
    fn recvs_pending(&self) -> u32;

    /// Returns whether there is a receive request; as [`Queues::has_send`].
    fn has_recv(&self) -> bool;

    /// Drops the next receive request, if there is one, and returns its `wr_id`.
    fn drop_recv(&mut self) -> Option<u64>;

    /// Returns whether receive requests come from a shared queue.
    fn has_srq(&self) -> bool;

    /// Writes a completion of the send queue.
    fn complete_send(&mut self, cqe: &Cqe) -> Result<(), Overrun>;

    /// Writes a completion of the receive queue.
    fn complete_recv(&mut self, cqe: &Cqe) -> Result<(), Overrun>;
}
