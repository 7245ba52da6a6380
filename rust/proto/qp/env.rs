// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a [`Machine`](super::Machine) needs of the world: the link queues, registered memory, and the
//! queues of its user.
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
    request::{Address, Data, Extents, Lane, Message},
    tpt::Rights,
    trunk::Fault,
    word::Word,
    wqe::{Identity, RecvWqe, SendWqe, Senseless, Tail},
};
use core::ops::DerefMut;

/// Whether requests may be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They may.
    Open,
    /// None is begun; those under way go on.
    Paused,
    /// None is begun, and none is sent anew.
    Quiesced,
}

/// Whose part of the link queues is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of this end.
    Own,
    /// That of the peer, over the bridge.
    Peer,
}

/// The queues and the staging memory of a link, which all its queue pairs share.
///
/// `Err(Fault)` of any function: the peer has broken the link queues, and every queue pair of the link
/// ends. `Ok(false)`: there is no room now.
pub trait Transport {
    /// Memory for [`Buffers`].
    type Leases: LeaseMemory;

    /// Staging memory of this end.
    fn buffers(&mut self) -> &mut Buffers<Self::Leases>;

    /// Whether one more cell can go by `lane`.
    fn has_room(&mut self, lane: Lane) -> Result<bool, Fault>;

    /// Whether one more word can be pushed.
    fn has_word_room(&mut self) -> Result<bool, Fault>;

    /// Whether a responder can say one more word, by the way of `protocol`.
    fn may_say(&mut self, protocol: Protocol) -> Result<bool, Fault>;

    /// Sends a cell by the way of `protocol`.
    fn send(&mut self, protocol: Protocol, to: Address, message: &Message) -> Result<bool, Fault>;

    /// Says a word by the way of `protocol`.
    fn word(&mut self, protocol: Protocol, word: Word) -> Result<bool, Fault>;

    /// Sends GONE behind all data that queue pair `qpn` of this end has written.
    fn disconnect(&mut self, protocol: Protocol, qpn: u32, what: Disconnect)
        -> Result<bool, Fault>;

    /// Takes `len` bytes of the peer's eager ring for the next cell of `lane`: their offset in the
    /// ring, and where they are in the part of [`Side::Peer`]. `None`: there is no room now.
    fn take_eager(&mut self, len: u32, lane: Lane) -> Result<Option<(u32, usize)>, Fault>;

    /// Gives back what [`Transport::take_eager`] gave: the cell was not sent.
    fn untake_eager(&mut self);

    /// The longest message, in bytes, that goes by the eager ring.
    fn eager_most(&self) -> u64;

    /// Where in the part of [`Side::Own`] eager data lie that have come.
    fn eager_place(&self, data: &Data) -> Option<usize>;

    /// Runs `load`, which loads from [`Side::Peer`] and can be repeated. `None`: what it has loaded
    /// did not come over the bridge.
    fn load<T>(&self, load: impl FnOnce(&Self) -> T) -> Option<T>;

    /// Counts bytes that were moved, for the budget of a run.
    fn moved(&self, bytes: u64);

    /// Whether requests may be begun.
    fn flow(&self) -> Flow;
}

/// An atomic operation on 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds this.
    FetchAdd(u64),
    /// Replaces the first, if it is there, by the second.
    CompareSwap(u64, u64),
}

/// Why the DMA engine does not move something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// There is no room or memory now.
    Now,
    /// It never will: the CPU is to move it.
    Ever,
    /// The memory may not be read.
    Refused(Refused),
}

/// Where a machine keeps what is too large for every queue pair to have.
pub trait Heap {
    /// A request under way.
    type Request: DerefMut<Target = Request>;
    /// A long message that is coming.
    type Inbound: DerefMut<Target = Inbound>;
}

/// Registered memory, as the protection domain of the queue pair allows it. Every function checks
/// STags, rights and bounds.
pub trait Memory {
    /// Memory of the machine itself.
    type Heap: Heap;

    /// Memory for a request, to be filled in. `None`: there is none now.
    fn request(&mut self) -> Option<<Self::Heap as Heap>::Request>;

    /// Gives it back.
    fn recycle(&mut self, request: <Self::Heap as Heap>::Request);

    /// Keeps a long message. `None`: there is no memory.
    fn inbound(&mut self, message: Inbound) -> Option<<Self::Heap as Heap>::Inbound>;

    /// Copies the first `out.len()` bytes of a request's data.
    fn read(&self, tail: &Tail, out: &mut [u8]) -> Result<(), Refused>;

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

    /// Copies what lies in `extents` of the link queues, but no more than `len` bytes, to `offset` of
    /// `sink`.
    fn collect(
        &self,
        sink: Sink<'_>,
        offset: u64,
        side: Side,
        extents: &Extents,
        len: u64,
    ) -> Result<(), Refused>;

    /// Whether the peer may do this to `length` bytes at `to` of `stag`.
    fn allows(&self, stag: u32, right: Rights, to: u64, length: u64) -> bool;

    /// Bytes that the peer may read from `to` of `stag` on. `None`: it may not.
    fn size_from(&self, stag: u32, to: u64) -> Option<u64>;

    /// Does an atomic operation for the peer; returns the old value.
    fn atomic(&self, stag: u32, to: u64, op: AtomicOp) -> Result<u64, Refused>;

    /// Binds a memory window. False: accesses by it go on, it has to be tried again.
    fn bind(&self, wqe: &SendWqe) -> Result<bool, Status>;

    /// Invalidates a memory window. False: as above.
    fn invalidate(&self, stag: u32) -> Result<bool, Status>;

    /// Has the DMA engine move the first `len` bytes of `source` from `offset` on to `extents` of
    /// [`Side::Peer`]; [`Machine::transfer_ended`](super::Machine::transfer_ended) is called with
    /// `what` when it has.
    fn begin(
        &mut self,
        source: Source<'_>,
        offset: u64,
        extents: &Extents,
        len: u64,
        what: Transfer,
    ) -> Result<(), NotBegun>;
}

/// A completion queue has no room: the completion is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun;

/// A send request as it was taken: what a completion says of it, and whether it makes sense.
pub type Taken = (Identity, Result<(), Senseless>);

/// The work and completion queues of a queue pair.
pub trait Queues {
    /// Send requests that were posted and not taken; 0 if the user's count makes no sense.
    fn sends_pending(&self) -> u32;

    /// Whether there is a send request; also if the user's count makes no sense, which is found out
    /// when one is taken.
    fn has_send(&self) -> bool;

    /// Takes the next send request, if there is one, into `wqe`.
    fn take_send(&mut self, wqe: &mut SendWqe) -> Result<Option<Taken>, Status>;

    /// Takes the next send request, if there is one, which is not to be done.
    fn drop_send(&mut self) -> Option<Identity>;

    /// Receive requests of the queue pair's own queue that were not taken.
    fn recvs_pending(&self) -> u32;

    /// Whether there is a receive request; as [`Queues::has_send`].
    fn has_recv(&self) -> bool;

    /// Takes a receive request: its `wr_id`, and why it makes no sense if it does not.
    fn take_recv(&mut self) -> Option<(u64, Result<RecvWqe, Status>)>;

    /// Whether receive requests come from a shared queue.
    fn has_srq(&self) -> bool;

    /// A completion of the send queue.
    fn complete_send(&mut self, cqe: &Cqe) -> Result<(), Overrun>;

    /// A completion of the receive queue.
    fn complete_recv(&mut self, cqe: &Cqe) -> Result<(), Overrun>;
}
