// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Data that are pulled, at both ends of a queue pair: the source end posts them in its own staging
//! memory, segment by segment, and the other end reads them over the bridge.
//!
//! Data that the peer has posted are read in the queue pair's turn, not when the peer's message comes:
//! so nothing in a FIFO waits for them, and reads that the bridge has not answered are repeated.

use super::{
    data::{Refused, Sink, Source},
    env::{Memory, Queues, Side, Transport},
    lease::{told_number, Lease},
    request::Wait,
    segment::{done, fitting, keep, Exposed, Grant, Pulling, MAX_SEGMENT, SEGMENTS},
    Carried, Heap, Machine, Served,
};
use crate::proto::{
    cqe::Status,
    protocol::Protocol,
    request::{Address, Extents, Lane, Message, Part, Role},
    wqe::Tail,
};

/// A message with segments to be posted.
struct Exposure<'a> {
    source: Source<'a>,
    /// Role of this end in the request.
    role: Role,
    protocol: Protocol,
    qpn: u32,
    peer_qpn: u32,
    psn: u16,
    epoch: u32,
    /// Bytes of the whole message.
    length: u64,
}

impl Exposure<'_> {
    /// Posts segments while there is room. `Ok(Ok(false))`: there is no room now; `Ok(Err)`: access to
    /// their source memory is refused.
    fn expose<E>(&self, env: &mut E, exposed: &mut Exposed) -> Carried<Result<bool, Refused>>
    where
        E: Transport + Memory,
    {
        let (lane, to) = match self.role {
            Role::Initiator => (self.protocol.requests(Lane::Transmit), Role::Responder),
            Role::Responder => (Lane::Transmit, Role::Initiator),
        };
        while exposed.bytes < self.length && exposed.under_way < SEGMENTS {
            if !env.has_room(lane)? {
                return Ok(Ok(false));
            }
            let wanted = (self.length - exposed.bytes).min(MAX_SEGMENT);
            let Some(extents) = env.buffers().take(wanted) else {
                // There is memory again when another transfer ends.
                return Ok(Ok(false));
            };
            let bytes = extents.bytes();
            env.moved(bytes);
            if let Err(why) = env.spread(self.source, exposed.bytes, Side::Own, &extents, bytes) {
                env.buffers().give(&extents);
                return Ok(Err(why));
            }
            let part = Part {
                number: exposed.segments,
                offset: exposed.bytes,
            };
            let lease = Lease {
                qpn: self.qpn,
                peer_qpn: self.peer_qpn,
                psn: self.psn,
                epoch: self.epoch,
                role: self.role,
                part: told_number(part.number),
                offset: part.offset,
                extents,
            };
            if !env.buffers().lease(lease) {
                return Ok(Ok(false));
            }
            let address = Address {
                qpn: self.peer_qpn,
                psn: self.psn,
            };
            // There is room.
            let offer = Message::Offer { to, part, extents };
            env.send(self.protocol, address, &offer)?;
            exposed.bytes += bytes;
            exposed.segments += 1;
            exposed.under_way += 1;
        }
        Ok(Ok(true))
    }
}

impl<H: Heap> Machine<H> {
    /// Posts data of the requester's last request. Returns false if there is no room now.
    pub(super) fn expose_segments<E>(&mut self, env: &mut E) -> Carried<bool>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let (Some(peer_qpn), Some(last)) = (self.peer_qpn, self.requester.last()) else {
            return Ok(true);
        };
        if self.requester.sent <= last {
            return Ok(true);
        }
        let Some(request) = self.requester.get_mut(last) else {
            return Ok(true);
        };
        let Wait::Exposed(mut exposed) = request.wait else {
            return Ok(true);
        };
        let exposure = Exposure {
            source: Source::Tail(&request.wqe.tail),
            role: Role::Initiator,
            protocol: self.protocol,
            qpn: self.number,
            peer_qpn,
            psn: request.psn as u16,
            epoch: self.epoch,
            length: request.wqe.tail.bytes(),
        };
        let result = exposure.expose(env, &mut exposed)?;
        request.wait = Wait::Exposed(exposed);
        match result {
            Ok(all) => Ok(all),
            Err(why) => {
                let status = why.locally();
                self.fail(env, status, status, Status::Flushed);
                Ok(true)
            }
        }
    }

    /// Notes that the peer has pulled a segment of a request.
    pub(super) fn segment_was_pulled(&mut self, lease: &Lease) {
        let requester = &mut self.requester;
        let Some(n) = requester.find(lease.psn) else {
            return;
        };
        if let Some(request) = requester.get_mut(n) {
            if let Wait::Exposed(exposed) = &mut request.wait {
                exposed.under_way = exposed.under_way.saturating_sub(1);
            }
        }
    }

    /// Records a segment of a long message that the peer has posted for the responder.
    pub(super) fn segment_is_exposed<Q: Queues>(
        &mut self,
        env: &mut Q,
        psn: u16,
        part: Part,
        extents: Extents,
    ) {
        let responder = &mut self.responder;
        let Some(message) = responder.inbound.find(psn) else {
            // The segment belongs to a request that was dropped.
            if !responder.drops {
                self.violated(env);
            }
            return;
        };
        let next = Part {
            number: message.segments,
            offset: message.granted,
        };
        let left = message.length - message.granted;
        match keep(&mut message.named, next, left, part, extents) {
            Some(bytes) => {
                message.granted += bytes;
                message.segments += 1;
            }
            None => self.violated(env),
        }
    }

    /// Pulls the segments of a long message that the peer has posted for the responder.
    pub(super) fn pull_message<E>(
        &mut self,
        env: &mut E,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Carried<()>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        for n in 0..SEGMENTS {
            // If data are pulled there is one message at a time.
            let Some(message) = self.responder.inbound.get_mut(0) else {
                return Ok(());
            };
            let Some((part, extents)) = message.named.get(n).copied().flatten() else {
                continue;
            };
            if !env.may_say(self.protocol)? {
                served.blocked = true;
                return Ok(());
            }
            let placed = match pull(env, message.sink(), part.offset, &extents) {
                Ok(true) => {
                    let word = done(Role::Initiator, peer_qpn, message.psn, part.number);
                    // There is room.
                    env.word(self.protocol, word)?;
                    Ok(extents.bytes())
                }
                Ok(false) => {
                    served.blocked = true;
                    return Ok(());
                }
                Err(why) => Err(why),
            };
            if let Some(place) = message.named.get_mut(n) {
                *place = None;
            }
            served.progress = true;
            let psn = message.psn;
            self.placed(env, psn, placed);
        }
        Ok(())
    }

    /// Posts the data of a read of the peer.
    pub(super) fn expose_read<E>(
        &mut self,
        env: &mut E,
        peer_qpn: u32,
        served: &mut Served,
    ) -> Carried<()>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let Some(mut reading) = self.responder.reading else {
            return Ok(());
        };
        let exposure = Exposure {
            // The bounds of the whole read were checked, but the memory may be gone since.
            source: Source::Tagged {
                stag: reading.stag,
                to: reading.to,
            },
            role: Role::Responder,
            protocol: self.protocol,
            qpn: self.number,
            peer_qpn,
            psn: reading.psn,
            epoch: self.epoch,
            length: reading.length,
        };
        let before = reading.exposed.segments;
        let result = exposure.expose(env, &mut reading.exposed)?;
        served.progress |= reading.exposed.segments != before;
        match result {
            Ok(all) => {
                served.blocked |= !all;
                let ends = reading.exposed.bytes == reading.length;
                self.responder.reading = (!ends).then_some(reading);
            }
            Err(why) => {
                self.responder.reading = None;
                self.reject(env, reading.psn, why.remotely().into());
            }
        }
        Ok(())
    }

    /// Notes that the peer has pulled a segment of its read.
    pub(super) fn read_was_pulled(&mut self, lease: &Lease) {
        if let Some(reading) = &mut self.responder.reading {
            if reading.psn == lease.psn {
                reading.exposed.under_way = reading.exposed.under_way.saturating_sub(1);
            }
        }
    }

    /// Records a segment that the peer has posted for a read of the requester.
    pub(super) fn read_is_exposed<Q: Queues>(
        &mut self,
        env: &mut Q,
        psn: u16,
        part: Part,
        extents: Extents,
    ) {
        let requester = &mut self.requester;
        if requester.refused {
            return;
        }
        let n = requester.find(psn);
        let wait = n.and_then(|n| requester.get(n)).map(|read| read.wait);
        let pulling = &mut requester.pulling;
        let kept = match wait {
            Some(Wait::Read { coming, .. }) => {
                let next = Part {
                    number: pulling.segments,
                    offset: pulling.named,
                };
                let left = u64::from(coming).saturating_sub(pulling.named);
                let fits = fitting(next, left, part, &extents);
                let grant = Grant { psn, part, extents };
                fits.filter(|_| requester.grants.len() < SEGMENTS && requester.grants.push(grant))
            }
            _ => None,
        };
        match kept {
            Some(bytes) => {
                pulling.named += bytes;
                pulling.segments += 1;
            }
            None => self.violated(env),
        }
    }

    /// Pulls the segments that the peer has posted for the requester. Returns false if that is not
    /// possible now.
    pub(super) fn pull_read<E>(&mut self, env: &mut E) -> Carried<bool>
    where
        E: Transport + Memory<Heap = H>,
    {
        loop {
            let requester = &mut self.requester;
            let Some(&Grant { part, extents, .. }) = requester.grants.first() else {
                return Ok(true);
            };
            let (Some(peer_qpn), Some(last)) = (self.peer_qpn, requester.last()) else {
                return Ok(true);
            };
            if !env.has_word_room()? {
                return Ok(false);
            }
            let pulling = requester.pulling;
            let Some(request) = requester.get_mut(last) else {
                return Ok(true);
            };
            let psn = request.psn as u16;
            let Wait::Read {
                done: before,
                all,
                coming,
            } = request.wait
            else {
                return Ok(true);
            };
            let Tail::List(list) = &request.wqe.tail else {
                return Ok(true);
            };
            match pull(env, Sink::List(list), before + part.offset, &extents) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => {
                    request.wait = Wait::Failed(why.locally());
                    return Ok(true);
                }
            }
            let pulled = pulling.done + extents.bytes();
            if pulled == u64::from(coming) {
                let now = before + pulled;
                request.wait = Wait::Read {
                    done: now,
                    all,
                    coming: 0,
                };
                request.byte_len = now as u32;
                requester.acked(psn, true);
                requester.pulling = Pulling::NONE;
            } else {
                requester.pulling.done = pulled;
            }
            requester.grants.pop();
            let word = done(Role::Responder, peer_qpn, psn, part.number);
            // There is room.
            env.word(self.protocol, word)?;
        }
    }
}

/// Copies the data that the peer has posted in `extents` to `offset` of `sink`. Returns false if the
/// bridge did not answer the reads.
fn pull<E>(env: &E, sink: Sink<'_>, offset: u64, extents: &Extents) -> Result<bool, Refused>
where
    E: Transport + Memory,
{
    let len = extents.bytes();
    env.moved(len);
    let pulled = env.load(|env| env.collect(sink, offset, Side::Peer, extents, len));
    pulled.map_or(Ok(false), |pulled| pulled.map(|()| true))
}
