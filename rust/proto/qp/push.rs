// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Data that are pushed, at both ends of a queue pair: the receiving end grants staging memory, segment
//! by segment, and the source end writes the data there, by stores or by the DMA engine.
//!
//! DONE is sent behind the data. Requests that ask for data are in `requester` and `responder`; data
//! that are pulled instead are in `pull`.

use super::{
    data::{Refused, Sink, Source},
    env::{Memory, NotBegun, Queues, Side, Transport},
    inbound::Reading,
    lease::{told_number, Lease},
    request::Wait,
    responder::Reject,
    segment::{done, Grant, GRANTS, MAX_SEGMENT, MESSAGES, SEGMENTS},
    transfer::{Deferred, Transfer},
    Carried, Heap, Machine, Served,
};
use crate::proto::{
    cqe::Status,
    request::{Address, Extents, Lane, Message, Part, Role},
    word::{Says, Word},
    wqe::Tail,
};

/// Cost of a segment that the DMA engine moves, in bytes moved by the CPU.
const DMA_COST: u64 = 4 << 10;
/// Word for the peer when the data of its read are complete.
const READ_DONE: Says = Says::Done {
    to: Role::Initiator,
    part: 0,
};

impl<H: Heap> Machine<H> {
    /// Records memory that the peer has granted the requester for a segment of a long message.
    pub(super) fn granted<E: Queues>(
        &mut self,
        env: &mut E,
        psn: u16,
        part: Part,
        extents: Extents,
    ) {
        let requester = &mut self.requester;
        if requester.refused {
            return;
        }
        let fits = requester
            .find(psn)
            .and_then(|n| requester.get(n))
            .is_some_and(|request| {
                let end = part.offset.checked_add(extents.bytes());
                matches!(request.wait, Wait::Long)
                    && !request.acked
                    && end.is_some_and(|end| end <= request.wqe.tail.bytes())
            });
        let grant = Grant { psn, part, extents };
        if !fits || !requester.grants.push(grant) {
            self.violated(env);
        }
    }

    /// Puts data of the requester into memory that the peer has granted, in the order of the grants, and
    /// so in that of the messages. Returns false if there is no room now, for DONE or in the DMA engine.
    pub(super) fn put_segments<E>(&mut self, env: &mut E) -> Carried<bool>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let Some(peer_qpn) = self.peer_qpn else {
            return Ok(true);
        };
        while let Some(&Grant { psn, part, extents }) = self.requester.grants.first() {
            let n = self.requester.find(psn);
            let Some(request) = n.and_then(|n| self.requester.get(n)) else {
                // The peer has acknowledged the message before its data were there.
                self.requester.grants.pop();
                continue;
            };
            if !env.has_word_room()? {
                return Ok(false);
            }
            let source = Source::Tail(&request.wqe.tail);
            let len = extents.bytes();
            // What follows data that the DMA engine moves takes the same way: its DONE would overtake
            // theirs, and later messages be in their place before earlier ones.
            let moving = self.requester.moving;
            let whole = if moving > 0 {
                u64::MAX
            } else {
                request.wqe.tail.bytes()
            };
            let what = Transfer::Segment {
                qpn: self.number,
                epoch: self.epoch,
                psn,
                part: told_number(part.number),
            };
            let begun = env.begin(source, part.offset, &extents, len, whole, what);
            let (cost, put) = match begun {
                Ok(()) => (DMA_COST, Ok(())),
                // Goes on when the last DONE was sent.
                Err(NotBegun::Ever) if moving > 0 => return Ok(false),
                Err(NotBegun::Ever) => {
                    let put = env.spread(source, part.offset, Side::Peer, &extents, len);
                    (len, put)
                }
                Err(NotBegun::Now) => return Ok(false),
                Err(NotBegun::Refused(why)) => (0, Err(why)),
            };
            env.moved(cost);
            if let Err(why) = put {
                let status = why.locally();
                self.fail(env, status, status, Status::Flushed);
                return Ok(true);
            }
            self.requester.grants.pop();
            if begun.is_ok() {
                // DONE follows when the DMA engine has moved it.
                self.requester.moving += 1;
            } else {
                // There is room.
                let word = done(Role::Responder, peer_qpn, psn, part.number);
                env.word(self.protocol, word)?;
            }
        }
        Ok(true)
    }

    /// Handles the end of a transfer of the DMA engine. `refused`: the data were not moved. Returns the
    /// word to be sent behind the data, if any.
    pub fn transfer_ended<E: Queues>(
        &mut self,
        env: &mut E,
        what: Transfer,
        refused: bool,
    ) -> Option<Deferred> {
        let (qpn, epoch) = what.owner();
        if epoch != self.epoch || !self.hears() {
            return None;
        }
        if refused {
            match what {
                Transfer::Segment { .. } => {
                    let status = Status::LocalProt;
                    self.fail(env, status, status, Status::Flushed);
                }
                Transfer::Answer { psn, .. } => {
                    self.responder.moving = false;
                    self.reject(env, psn, Status::RemoteOp.into());
                }
            }
            return None;
        }
        let peer_qpn = self.peer_qpn?;
        let (word, answers) = match what {
            Transfer::Segment { psn, part, .. } => {
                (done(Role::Responder, peer_qpn, psn, part.into()), false)
            }
            Transfer::Answer { psn, .. } => {
                // The word implies the acknowledgement.
                self.responder.ack = None;
                let word = Word {
                    qpn: peer_qpn,
                    psn,
                    says: READ_DONE,
                };
                (word, true)
            }
        };
        Some(Deferred {
            qpn,
            epoch,
            word,
            answers,
        })
    }

    /// Returns whether `deferred` is still to be sent: a queue pair in ERR sends GONE instead.
    pub fn is_to_tell(&self, deferred: &Deferred) -> bool {
        self.epoch == deferred.epoch && self.hears()
    }

    /// Notes that `deferred` was sent.
    pub fn has_told(&mut self, deferred: &Deferred) {
        if self.epoch != deferred.epoch {
            return;
        }
        if deferred.answers {
            self.responder.moving = false;
        } else {
            self.requester.moving = self.requester.moving.saturating_sub(1);
        }
    }

    /// Grants the peer memory for the missing segments of long messages to the responder, in the order
    /// of the messages.
    pub(super) fn grant_more<E>(
        &mut self,
        env: &mut E,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Carried<()>
    where
        E: Transport + Memory<Heap = H>,
    {
        let (number, epoch, protocol) = (self.number, self.epoch, self.protocol);
        let inbound = &mut self.responder.inbound;
        let most = if inbound.are_several() {
            GRANTS
        } else {
            SEGMENTS
        };
        let mut under_way: usize = inbound.iter().map(|message| message.under_way).sum();
        for n in 0..MESSAGES {
            let Some(message) = inbound.get_mut(n) else {
                break;
            };
            while message.granted < message.length {
                if under_way >= most || message.refused.is_some() {
                    return Ok(());
                }
                if !env.has_room(Lane::Transmit)? {
                    served.blocked = true;
                    return Ok(());
                }
                let wanted = (message.length - message.granted).min(MAX_SEGMENT);
                let Some(extents) = env.buffers().take(wanted) else {
                    // There is memory again when another transfer ends.
                    served.blocked = true;
                    return Ok(());
                };
                let part = Part {
                    number: message.segments,
                    offset: message.granted,
                };
                let lease = Lease {
                    qpn: number,
                    peer_qpn,
                    psn: message.psn,
                    epoch,
                    role: Role::Responder,
                    part: told_number(part.number),
                    offset: part.offset,
                    extents,
                };
                if !env.buffers().lease(lease) {
                    served.blocked = true;
                    return Ok(());
                }
                let to = Address {
                    qpn: peer_qpn,
                    psn: message.psn,
                };
                // There is room.
                env.send(protocol, to, &Message::Lend { part, extents })?;
                message.granted += extents.bytes();
                message.segments += 1;
                message.under_way += 1;
                under_way += 1;
                served.progress = true;
            }
        }
        Ok(())
    }

    /// Takes the data of a segment of a long message, which have come to the responder.
    pub(super) fn segment_done<E>(&mut self, env: &mut E, lease: &Lease)
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let Some(message) = self.responder.inbound.find(lease.psn) else {
            // The segment belongs to a former message; the memory is free again.
            return;
        };
        let bytes = lease.extents.bytes();
        message.under_way = message.under_way.saturating_sub(1);
        if message.refused.is_some() {
            return;
        }
        env.moved(bytes);
        let sink = message.sink();
        let placed = env.collect(sink, lease.offset, Side::Own, &lease.extents, bytes);
        self.placed(env, lease.psn, placed.map(|()| bytes));
    }

    /// Takes the data of a read of the requester, which have come.
    pub(super) fn read_done<E>(&mut self, env: &mut E, lease: &Lease)
    where
        E: Transport + Memory<Heap = H>,
    {
        let requester = &mut self.requester;
        let Some(n) = requester.find(lease.psn) else {
            return;
        };
        requester.acked(lease.psn, true);
        let Some(request) = requester.get_mut(n) else {
            return;
        };
        let Wait::Read { done, all, coming } = request.wait else {
            return;
        };
        let Tail::List(list) = &request.wqe.tail else {
            return;
        };
        let len = u64::from(coming);
        env.moved(len);
        let sink = Sink::List(list);
        match env.collect(sink, done, Side::Own, &lease.extents, len) {
            Ok(()) => {
                request.wait = Wait::Read {
                    done: done + len,
                    all,
                    coming: 0,
                };
                request.byte_len = (done + len) as u32;
            }
            Err(why) => request.wait = Wait::Failed(why.locally()),
        }
    }

    /// Moves the data of a read of the peer into the memory that the peer has named, or begins to.
    pub(super) fn answer_read<E>(
        &mut self,
        env: &mut E,
        read: &Reading,
        extents: &Extents,
    ) -> Result<(), Reject>
    where
        E: Transport + Memory<Heap = H>,
    {
        let source = Source::Tagged {
            stag: read.stag,
            to: read.to,
        };
        // If completions are pulled, the CPU stores the data.
        if !self.protocol.cqe {
            let what = Transfer::Answer {
                qpn: self.number,
                epoch: self.epoch,
                psn: read.psn,
            };
            let length = read.length;
            match env.begin(source, 0, extents, length, length, what) {
                Ok(()) => {
                    self.responder.moving = true;
                    return Ok(());
                }
                Err(NotBegun::Refused(Refused::Denied)) => return Err(Status::RemoteAccess.into()),
                // Nothing waits here: where the DMA engine has no room, the CPU moves the data.
                Err(_) => {}
            }
        }
        env.moved(read.length);
        env.spread(source, 0, Side::Peer, extents, read.length)
            .map_err(Refused::remotely)?;
        self.responder.says(read.psn, READ_DONE);
        Ok(())
    }
}
