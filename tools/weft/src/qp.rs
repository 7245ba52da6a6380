// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queue pairs: where requests are posted, and the way to a peer.

use crate::abi;
use crate::cq::{self, Completion, Cq};
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::mapping::{Page, Ring};
use crate::mr::Rights;
use crate::objects::{Handle, Objects};
use crate::pd::Pd;
use crate::queue::Queue;
use crate::request::{Request, encode_recv};
use crate::srq::Srq;
use crate::stag::Sge;
use crate::status::Status;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// What moves between the ends, and how: pushed by the end that has it, or pulled by the end
/// that wants it. Both ends have to agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Requests are pulled.
    pub pull_requests: bool,
    /// Data are pulled.
    pub pull_data: bool,
    /// Completions are pulled.
    pub pull_completions: bool,
}

impl Protocol {
    /// All eight of them, the one that only pushes first.
    pub fn all() -> impl Iterator<Item = Protocol> {
        (0..8).map(Protocol::from_bits)
    }

    fn bits(self) -> u32 {
        [
            (self.pull_requests, abi::WEFT_PULL_WQE),
            (self.pull_data, abi::WEFT_PULL_DATA),
            (self.pull_completions, abi::WEFT_PULL_CQE),
        ]
        .into_iter()
        .map(|(pulled, bit)| if pulled { bit } else { 0 })
        .sum()
    }

    fn from_bits(bits: u32) -> Self {
        Protocol {
            pull_requests: bits & abi::WEFT_PULL_WQE != 0,
            pull_data: bits & abi::WEFT_PULL_DATA != 0,
            pull_completions: bits & abi::WEFT_PULL_CQE != 0,
        }
    }
}

/// What a queue pair has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QpOptions {
    send_entries: u32,
    recv_entries: u32,
    send_sges: u32,
    recv_sges: u32,
    inline_bytes: u32,
    protocol: Protocol,
}

impl Default for QpOptions {
    fn default() -> Self {
        QpOptions {
            send_entries: 64,
            recv_entries: 64,
            send_sges: 4,
            recv_sges: 4,
            inline_bytes: 64,
            protocol: Protocol::default(),
        }
    }
}

impl QpOptions {
    /// 64 entries and lists of 4 elements each way, 64 bytes of inline data, everything pushed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Entries of the send and of the receive queue: powers of two from 16 on.
    #[must_use]
    pub fn entries(mut self, send: u32, recv: u32) -> Self {
        (self.send_entries, self.recv_entries) = (send, recv);
        self
    }

    /// Elements of the lists of send and receive requests.
    #[must_use]
    pub fn sges(mut self, send: u32, recv: u32) -> Self {
        (self.send_sges, self.recv_sges) = (send, recv);
        self
    }

    /// Bytes of inline data of a send request.
    #[must_use]
    pub fn inline_bytes(mut self, bytes: u32) -> Self {
        self.inline_bytes = bytes;
        self
    }

    /// What is pushed and what is pulled.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }
}

/// States of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QpState {
    /// New, or as new.
    Reset,
    /// Receive requests can be posted.
    Init,
    /// Requests of the peer are taken.
    ReadyToReceive,
    /// And send requests are done.
    ReadyToSend,
    /// No new send requests are begun.
    Drained,
    /// All requests are flushed.
    Error,
    /// One that this library does not know.
    Other(u32),
}

impl QpState {
    fn number(self) -> u32 {
        match self {
            QpState::Reset => abi::WEFT_QP_RESET,
            QpState::Init => abi::WEFT_QP_INIT,
            QpState::ReadyToReceive => abi::WEFT_QP_RTR,
            QpState::ReadyToSend => abi::WEFT_QP_RTS,
            QpState::Drained => abi::WEFT_QP_SQD,
            QpState::Error => abi::WEFT_QP_ERR,
            QpState::Other(number) => number,
        }
    }
}

impl From<u32> for QpState {
    fn from(number: u32) -> Self {
        match number {
            abi::WEFT_QP_RESET => QpState::Reset,
            abi::WEFT_QP_INIT => QpState::Init,
            abi::WEFT_QP_RTR => QpState::ReadyToReceive,
            abi::WEFT_QP_RTS => QpState::ReadyToSend,
            abi::WEFT_QP_SQD => QpState::Drained,
            abi::WEFT_QP_ERR => QpState::Error,
            other => QpState::Other(other),
        }
    }
}

/// The way to the peer's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpPath {
    /// Hardware id of the peer, or 0 for any that is at the end of the link.
    pub peer: u64,
    /// The link; `None`: the first that leads there.
    pub link: Option<u32>,
    /// Number of the peer's queue pair.
    pub qpn: u32,
}

/// What the driver says of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpStatus {
    /// Its state.
    pub state: QpState,
    /// What brought it to ERR.
    pub why: Status,
    /// Requests sent to the peer.
    pub sent: u64,
    /// Requests of the peer that were done.
    pub received: u64,
}

/// A doorbell that tells the engine of work.
#[derive(Debug)]
struct Bell {
    kicks: Ring,
    bit: u32,
    page: Page,
    value: u32,
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    handle: Handle,
    qpn: u32,
    send: Queue,
    recv: Option<Queue>,
    bell: Option<Bell>,
    _pd: Pd,
    _cqs: [Arc<cq::Shared>; 2],
    _srq: Option<Arc<Handle>>,
}

impl Qp {
    fn new(pd: &Pd, send: &Cq, recv: &Cq, srq: Option<&Srq>, options: &QpOptions) -> Result<Self> {
        let objects = pd.objects();
        let alone = srq.is_none();
        let mut create = abi::weft_qp_create {
            pd: pd.handle.number,
            send_cq: send.shared.handle.number,
            recv_cq: recv.shared.handle.number,
            srq: srq.map_or(0, |srq| srq.handle.number),
            send_entries: options.send_entries,
            recv_entries: if alone { options.recv_entries } else { 0 },
            send_sges: options.send_sges,
            recv_sges: if alone { options.recv_sges } else { 0 },
            inline_bytes: options.inline_bytes,
            protocol: options.protocol.bits(),
            ..Default::default()
        };
        objects.make("a queue pair", |l| l.qp_share, &mut create)?;
        let handle = Handle::new(objects, create.qp);
        let (memory, bell) =
            Self::map(objects, &create).map_err(|e| Error::os("mapping a queue pair", e))?;
        let send_queue =
            Queue::new(memory.clone(), create.send_at, options.send_entries, create.send_stride);
        let recv_queue = alone
            .then(|| Queue::new(memory, create.recv_at, options.recv_entries, create.recv_stride));
        Ok(Qp {
            handle,
            qpn: create.qpn,
            send: send_queue,
            recv: recv_queue,
            bell,
            _pd: pd.clone(),
            _cqs: [send.shared.clone(), recv.shared.clone()],
            _srq: srq.map(|srq| srq.handle.clone()),
        })
    }

    fn map(
        objects: &Objects,
        create: &abi::weft_qp_create,
    ) -> io::Result<(Arc<Ring>, Option<Bell>)> {
        let fd = objects.as_fd();
        let memory = Ring::new(fd, create.ring_offset, create.ring_bytes as usize)?;
        let bell = match (create.kick_page_offset, create.kick_offset) {
            (0, _) | (_, 0) => None,
            (kicks, page) => Some(Bell {
                kicks: Ring::new(fd, kicks, 4096)?,
                bit: create.kick_bit,
                page: Page::to_write(fd, page)?,
                value: create.kick_value,
            }),
        };
        Ok((Arc::new(memory), bell))
    }

    /// Its number, by which the peer names it.
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Posts a receive request for what the list names; false if there is no room, or a shared queue
    /// in its place.
    pub fn post_recv(&mut self, wr_id: u64, list: &[Sge]) -> Result<bool> {
        let Some(recv) = &mut self.recv else { return Ok(false) };
        recv.post(|room, mut places| encode_recv(wr_id, list, room, &mut places))
    }

    /// Posts a request; false if there is no room. The engine need not see it before
    /// [`Self::ring`], or [`Self::progress`], is called.
    pub fn post(&mut self, request: &Request<'_>) -> Result<bool> {
        self.send.post(|room, mut places| request.encode(room, &mut places))
    }

    /// Tells the engine that requests were posted.
    pub fn ring(&self) -> Result<()> {
        match &self.bell {
            Some(bell) => {
                bell.kicks.set_bit(bell.bit as usize / 64 * 8, bell.bit % 64);
                bell.page.store32(0, bell.value);
                Ok(())
            }
            None => self.progress(0),
        }
    }

    /// Tells the engine that requests were posted, and waits for the next completion of `cq`, asleep, in one
    /// call: what [`Self::ring`] and [`Cq::wait`] do in several.
    pub fn ring_and_wait(&self, cq: &mut Cq, timeout: Option<Duration>) -> Result<Completion> {
        cq.sleep(self.handle.number, timeout)
    }

    /// Lets the engine work in this thread: it handles up to `budget` requests, 0 for a number of its
    /// own, of this queue pair and of what has come from the peers.
    pub fn progress(&self, budget: u32) -> Result<()> {
        self.handle.objects.kick(self.handle.number, budget)
    }

    fn modify(&self, mut modify: abi::weft_qp_modify, what: &'static str) -> Result<()> {
        modify.qp = self.handle.number;
        modify.call(self.handle.objects.as_fd()).map_err(|e| match Errno::from_io_error(&e) {
            Some(Errno::HOSTUNREACH) => Error::Unreachable(format!("peer {:#x}", modify.peer)),
            Some(Errno::CONNRESET) => Error::Reset,
            Some(Errno::INVAL) => Error::BadState(what),
            _ => Error::os(what, e),
        })
    }

    /// To another state.
    pub fn set_state(&self, state: QpState) -> Result<()> {
        let modify = abi::weft_qp_modify {
            mask: abi::WEFT_QP_STATE,
            state: state.number(),
            ..Default::default()
        };
        self.modify(modify, "changing the state of a queue pair")
    }

    /// From RESET to INIT, with what the peer may do by it.
    pub fn init(&self, rights: Rights) -> Result<()> {
        let modify = abi::weft_qp_modify {
            mask: abi::WEFT_QP_STATE | abi::WEFT_QP_ACCESS,
            state: abi::WEFT_QP_INIT,
            access: rights.0,
            ..Default::default()
        };
        self.modify(modify, "initialising a queue pair")
    }

    /// From INIT over RTR to RTS.
    pub fn connect(&self, path: &QpPath) -> Result<()> {
        let modify = abi::weft_qp_modify {
            mask: abi::WEFT_QP_STATE | abi::WEFT_QP_PATH,
            state: abi::WEFT_QP_RTR,
            peer: path.peer,
            link: path.link.unwrap_or(abi::WEFT_ANY_LINK),
            peer_qpn: path.qpn,
            ..Default::default()
        };
        self.modify(modify, "connecting a queue pair")?;
        self.set_state(QpState::ReadyToSend)
    }

    /// What the driver says of it.
    pub fn status(&self) -> Result<QpStatus> {
        let mut query = abi::weft_qp_query { qp: self.handle.number, ..Default::default() };
        query
            .call(self.handle.objects.as_fd())
            .map_err(|e| Error::os("asking for a queue pair", e))?;
        Ok(QpStatus {
            state: query.state.into(),
            why: (query.why as u16).into(),
            sent: query.sent,
            received: query.received,
        })
    }
}

impl Pd {
    /// A queue pair that completes its sends at `send` and its receives at `recv`.
    pub fn qp(&self, send: &Cq, recv: &Cq, options: &QpOptions) -> Result<Qp> {
        Qp::new(self, send, recv, None, options)
    }

    /// A queue pair that takes its receive requests from a shared queue.
    pub fn qp_with_srq(&self, send: &Cq, recv: &Cq, srq: &Srq, options: &QpOptions) -> Result<Qp> {
        Qp::new(self, send, recv, Some(srq), options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_eight_protocols_and_the_first_only_pushes() {
        let all: Vec<Protocol> = Protocol::all().collect();
        assert_eq!(all.len(), 8);
        assert_eq!(all[0], Protocol::default());
        for (bits, protocol) in all.iter().enumerate() {
            assert_eq!(protocol.bits() as usize, bits);
        }
    }
}
