// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Sends requests, from the send queue to the peer.
//!
//! Data that are part of the request's cell, or in the eager ring, are sent here; data that take
//! segments follow it, by `push` and `pull`.

use super::{Request, Rnr, Wait, WINDOW};
use crate::proto::{
    cqe::Status,
    protocol::Protocol,
    qp::{
        env::{Flow, Memory, Queues, Transport},
        segment::{Exposed, Pulling, MESSAGES},
        Carried, Heap, Lease, Machine, Refused, Served, State,
    },
    request::{Address, Data, Extents, Lane, Message, Payload, Role, INLINE_BYTES},
    wqe::{Opcode, SendWqe, Sgl, Tail},
};

/// Most bytes of a read that are asked for at once.
const MAX_READ: u64 = 256 << 10;

/// Result of an attempt to send.
enum Sent {
    Yes,
    /// There is no room now.
    NoRoom,
    /// Earlier requests have to be done first.
    NotYet,
    No(Status),
}

impl<H: Heap> Machine<H> {
    /// Sends up to `quantum` requests.
    pub(in crate::proto::qp) fn serve_requester<E>(
        &mut self,
        env: &mut E,
        quantum: usize,
    ) -> Carried<Served>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let mut served = Served::default();
        let moved = if self.protocol.data {
            self.pull_read(env)? && self.expose_segments(env)?
        } else {
            self.put_segments(env)?
        };
        if !moved {
            served.blocked = true;
            return Ok(served);
        }
        // A request that is begun is sent in the next turn of the loop, or ends it.
        while served.requests < quantum {
            self.finish(env, &mut served);
            let refused = match self.requester.rnr {
                Rnr::No => false,
                Rnr::Waits => true,
                // It does not count as under way.
                Rnr::Over => env.flow() == Flow::Paused,
            };
            if refused || !matches!(self.state, State::Rts | State::Sqd) {
                return Ok(served);
            }
            let unsent = self.requester.sent < self.requester.count;
            if env.flow() == Flow::Quiesced {
                // No event reports the end of the quiesce.
                served.blocked = unsent || env.has_send();
                return Ok(served);
            }
            let goes_on = if unsent {
                self.send_next(env, &mut served)?
            } else {
                self.begin_next(env, &mut served)
            };
            if !goes_on {
                return Ok(served);
            }
        }
        served.again = true;
        Ok(served)
    }

    /// Takes a request from the send queue. Returns false if none can be begun now.
    fn begin_next<E>(&mut self, env: &mut E, served: &mut Served) -> bool
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let requester = &mut self.requester;
        if requester.fence_wait || requester.count == WINDOW || self.state != State::Rts {
            return false;
        }
        if env.flow() != Flow::Open || !env.has_send() {
            return false;
        }
        let Some(mut request) = env.request() else {
            served.blocked = true;
            return false;
        };
        match env.take_send(&mut request.wqe) {
            Ok(Some((identity, sense))) => requester.begin(&mut request, identity, sense),
            Ok(None) => return false,
            Err(status) => {
                self.fail(env, status, Status::Flushed, Status::Flushed);
                served.progress = true;
                return false;
            }
        }
        requester.push(request);
        true
    }

    /// Sends the oldest request that was not sent. Returns false if none can be sent now.
    fn send_next<E>(&mut self, env: &mut E, served: &mut Served) -> Carried<bool>
    where
        E: Transport + Memory<Heap = H> + Queues,
    {
        let next = self.requester.sent;
        match self.transmit(env, next)? {
            Sent::Yes => {
                served.requests += 1;
                self.requester.sent += 1;
                self.requester.rnr = Rnr::No;
                self.sent += 1;
                self.touched = true;
                served.progress = true;
                let exposed = !self.protocol.data || self.expose_segments(env)?;
                served.blocked |= !exposed;
                Ok(exposed)
            }
            Sent::NoRoom => {
                served.blocked = true;
                Ok(false)
            }
            Sent::NotYet => Ok(false),
            Sent::No(status) => {
                if let Some(request) = self.requester.get_mut(next) {
                    request.wait = Wait::Failed(status);
                }
                self.requester.sent += 1;
                self.requester.rnr = Rnr::No;
                served.requests += 1;
                self.requester.fence_wait = true;
                served.progress = true;
                Ok(true)
            }
        }
    }

    /// Sends request `n` of those under way.
    fn transmit<E>(&mut self, env: &mut E, n: usize) -> Carried<Sent>
    where
        E: Transport + Memory<Heap = H>,
    {
        let Some(peer_qpn) = self.peer_qpn else {
            return Ok(Sent::NotYet);
        };
        let (number, epoch, protocol) = (self.number, self.epoch, self.protocol);
        let longs = self.requester.longs;
        self.requester.pulling = Pulling::NONE;
        let Some(request) = self.requester.get_mut(n) else {
            return Ok(Sent::NotYet);
        };
        if longs > 0 {
            let follows = match request.wait {
                Wait::Ack | Wait::Long => request.wqe.tail.bytes() > env.eager_most(),
                // It ends this queue pair when its turn comes.
                Wait::Failed(_) => true,
                _ => false,
            };
            if !follows || longs >= MESSAGES {
                return Ok(Sent::NotYet);
            }
        }
        let to = Address {
            qpn: peer_qpn,
            psn: request.psn as u16,
        };
        match request.wait {
            Wait::Ack | Wait::Long | Wait::Exposed(_) => {
                let bytes = request.wqe.tail.bytes();
                let sent = transmit_data(env, protocol, to, &request.wqe)?;
                if let Sent::Yes = sent {
                    request.wait = if protocol.data && bytes > 0 {
                        Wait::Exposed(Exposed::default())
                    } else if bytes > env.eager_most() {
                        Wait::Long
                    } else {
                        Wait::Ack
                    };
                    match request.wait {
                        Wait::Ack => {}
                        Wait::Long => self.requester.longs += 1,
                        _ => self.requester.fence_wait = true,
                    }
                }
                Ok(sent)
            }
            Wait::Size => {
                let message = Message::Size {
                    to: request.wqe.remote_to,
                    stag: request.wqe.remote_stag,
                };
                yes(env.send(protocol, to, &message)?)
            }
            Wait::Value => {
                let wqe = &request.wqe;
                let message = if wqe.opcode == Opcode::FetchAdd {
                    Message::FetchAdd {
                        to: wqe.remote_to,
                        stag: wqe.remote_stag,
                        add: wqe.arg0,
                    }
                } else {
                    Message::CmpSwap {
                        to: wqe.remote_to,
                        stag: wqe.remote_stag,
                        expected: wqe.arg0,
                        new: wqe.arg1,
                    }
                };
                yes(env.send(protocol, to, &message)?)
            }
            Wait::Read { .. } => transmit_read(env, protocol, number, to, epoch, request),
            Wait::Turn if n == 0 => Ok(Sent::Yes),
            Wait::Failed(_) => Ok(Sent::Yes),
            Wait::Turn => Ok(Sent::NotYet),
        }
    }
}

/// Sends a message, with its data if they are short.
fn transmit_data<E>(env: &mut E, protocol: Protocol, to: Address, wqe: &SendWqe) -> Carried<Sent>
where
    E: Transport + Memory,
{
    let len = wqe.tail.bytes();
    let lane = protocol.requests(Lane::Receive);
    if !env.has_room(lane)? {
        return Ok(Sent::NoRoom);
    }
    let mut eager = false;
    let mut gathered;
    let data = if protocol.data && len > 0 {
        Data::Long(len)
    } else if len <= INLINE_BYTES as u64 {
        let payload = match &wqe.tail {
            // As the user has written them into the queue.
            Tail::Inline(..) => wqe.tail.inline().and_then(Payload::new),
            Tail::List(list) => {
                gathered = [0; INLINE_BYTES];
                match gather(env, list, &mut gathered, len as usize) {
                    Ok(payload) => payload,
                    Err(why) => return Ok(Sent::No(why.locally())),
                }
            }
        };
        match payload {
            Some(payload) => Data::Inline(payload),
            None => return Ok(Sent::No(Status::LocalRequest)),
        }
    } else if len <= env.eager_most() {
        let Some((at, place)) = env.take_eager(len as u32, lane)? else {
            return Ok(Sent::NoRoom);
        };
        eager = true;
        if let Err(why) = env.put(&wqe.tail, place, len as usize) {
            env.untake_eager();
            return Ok(Sent::No(why.locally()));
        }
        env.moved(len);
        Data::Eager {
            at,
            len: len as u32,
        }
    } else {
        Data::Long(len)
    };
    let message = if wqe.opcode == Opcode::Send {
        Message::Send { data, imm: wqe.imm }
    } else {
        Message::Write {
            data,
            to: wqe.remote_to,
            stag: wqe.remote_stag,
            imm: wqe.imm,
        }
    };
    let sent = env.send(protocol, to, &message)?;
    if eager && !sent {
        env.untake_eager();
    }
    yes(sent)
}

/// Copies the `len` bytes that `list` names, to be sent in a cell. `None`: they do not fit.
fn gather<'a, E: Memory>(
    env: &E,
    list: &Sgl,
    to: &'a mut [u8; INLINE_BYTES],
    len: usize,
) -> Result<Option<Payload<'a>>, Refused> {
    let Some(part) = to.get_mut(..len) else {
        return Ok(None);
    };
    env.read(list, part)?;
    Ok(Payload::new(part))
}

/// Asks for the next part of a read.
fn transmit_read<E>(
    env: &mut E,
    protocol: Protocol,
    number: u32,
    to: Address,
    epoch: u32,
    request: &mut Request,
) -> Carried<Sent>
where
    E: Transport,
{
    let Wait::Read { done, all, .. } = request.wait else {
        return Ok(Sent::NotYet);
    };
    let wanted = (all - done).min(MAX_READ);
    if wanted == 0 {
        request.wait = Wait::Read {
            done,
            all,
            coming: 0,
        };
        return Ok(Sent::Yes);
    }
    let Some(at) = request.wqe.remote_to.checked_add(done) else {
        return Ok(Sent::No(Status::RemoteAccess));
    };
    if !env.has_room(protocol.requests(Lane::Transmit))? {
        return Ok(Sent::NoRoom);
    }
    let (extents, coming) = if protocol.data {
        // The peer posts the data in its own memory.
        (Extents::NONE, wanted)
    } else {
        let Some(extents) = env.buffers().take(wanted) else {
            return Ok(Sent::NoRoom);
        };
        let lease = Lease {
            qpn: number,
            peer_qpn: to.qpn,
            psn: to.psn,
            epoch,
            role: Role::Initiator,
            part: 0,
            offset: done,
            extents,
        };
        if !env.buffers().lease(lease) {
            return Ok(Sent::NoRoom);
        }
        (extents, extents.bytes())
    };
    // At most MAX_READ.
    let coming = coming as u32;
    let message = Message::Read {
        to: at,
        stag: request.wqe.remote_stag,
        length: coming,
        extents,
    };
    request.wait = Wait::Read { done, all, coming };
    // There is room.
    yes(env.send(protocol, to, &message)?)
}

fn yes(sent: bool) -> Carried<Sent> {
    Ok(if sent { Sent::Yes } else { Sent::NoRoom })
}
