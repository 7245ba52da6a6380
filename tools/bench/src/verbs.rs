// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages over queue pairs, in memory that is registered once.
//!
//! What is sent lies in registered memory already, as it does in programs that use queue pairs; up
//! to [`INLINE`] bytes go along with the request. Requests are under way while others are posted, as
//! many as the send queue has room for. Several queue pairs take turns, message by message, and
//! complete in the same queues.

use crate::{PATIENCE, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::str::FromStr;
use weft::verbs::{self, Offer};
use weft::{Channel, Completion, Cq, Mr, Objects, Port, Qp, QpOptions, Remote, Request, Rights};

/// The longest message, and room for it to begin at odd places.
const BYTES: usize = (4 << 20) + 64;
const INLINE: usize = 64;
/// Requests that a program posts before it rings, when it has so many.
pub const BATCH: usize = 16;
/// Entries of one queue pair's queues, and at least of each of many. There is a receive request for
/// each message that a slow receiver has not looked at: without one it would be sent again.
const SENDS: u32 = 64;
const RECVS: u32 = 2048;
const LEAST: u32 = 16;

/// How an end waits for completions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It has the engine look all the time.
    Polled,
    /// It has the engine work in the call that sends, and sleeps in the driver.
    Sleeping,
    /// It rings the port's doorbell, and sleeps in poll(), for a descriptor that it arms: what programs do that wait
    /// for other things, too.
    Events,
}

impl FromStr for How {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "polled" => Ok(How::Polled),
            "sleeping" => Ok(How::Sleeping),
            "events" => Ok(How::Events),
            _ => Err(crate::USAGE.into()),
        }
    }
}

impl How {
    /// The next completion.
    fn wait(self, cq: &mut Cq) -> Result<Completion> {
        Ok(match self {
            How::Polled => cq.spin(PATIENCE)?,
            How::Sleeping => cq.wait(PATIENCE)?,
            How::Events => loop {
                if let Some(done) = cq.poll()? {
                    break done;
                }
                cq.arm()?;
                let limit = PATIENCE.and_then(|limit| Timespec::try_from(limit).ok());
                if poll(&mut [PollFd::new(&*cq, PollFlags::IN)], limit.as_ref())? == 0 {
                    return Err("nothing has come".into());
                }
                cq.quiet()?;
            },
        })
    }
}

/// A queue pair, and how many requests it was not told of.
struct Pair {
    qp: Qp,
    unrung: usize,
}

/// One end of some queue pairs.
pub struct Verbs {
    /// Number of the port.
    pub port: u32,
    pairs: Vec<Pair>,
    /// By their numbers.
    places: HashMap<u32, usize>,
    /// Whose turn it is.
    turn: usize,
    sent: Cq,
    received: Cq,
    memory: Mr,
    peer: Remote,
    under_way: u64,
    /// No more may be under way than have room in the completion queue.
    most: u64,
    how: How,
    objects: Objects,
    _channel: Channel,
}

impl Verbs {
    /// Joins `count` queue pairs of `port` with as many at the other end of `channel`.
    pub fn join(port: &Port, mut channel: Channel, how: How, count: u32) -> Result<Self> {
        let objects = port.objects()?;
        let pd = objects.pd()?;
        let each = |all: u32| (all / count).max(LEAST).next_power_of_two();
        let (sends, recvs) = (each(SENDS), each(RECVS));
        let room = |entries: u32| (2 * entries * count).next_power_of_two();
        let (sent, received) = (objects.cq(room(sends))?, objects.cq(room(recvs))?);
        let memory = pd.region(BYTES, Rights::LOCAL_WRITE | Rights::REMOTE_WRITE)?;
        let offer = Offer { remote: memory.remote(0), bytes: BYTES as u64 };
        let all = [memory.all()];
        let mut peer = None;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let options = QpOptions::new().entries(sends, recvs).inline_bytes(INLINE as u32);
            let mut qp = pd.qp(&sent, &received, &options)?;
            let offers =
                verbs::join(&mut channel, &mut qp, Rights::REMOTE, &[offer], PATIENCE, |qp| {
                    (0..recvs).try_for_each(|_| qp.post_recv(0, &all).map(drop))
                })?;
            peer = offers.first().map(|offer| offer.remote);
            pairs.push(Pair { qp, unrung: 0 });
        }
        let places = pairs.iter().enumerate().map(|(n, pair)| (pair.qp.qpn(), n)).collect();
        Ok(Verbs {
            port: 0,
            pairs,
            places,
            turn: 0,
            sent,
            received,
            memory,
            peer: peer.ok_or("the other end offers nothing")?,
            under_way: 0,
            most: room(sends).into(),
            how,
            objects,
            _channel: channel,
        })
    }

    /// Sends a message, soon: [`Self::flush`] sends what has not been sent yet.
    pub fn queue(&mut self, message: &[u8]) -> Result<()> {
        if message.len() <= INLINE {
            return self.post(&Request::send_inline(0, message).signaled());
        }
        let list = [self.memory.sge(0, message.len())];
        self.post(&Request::send(0, &list).signaled())
    }

    /// Sends a message.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.queue(message)?;
        self.flush()
    }

    /// Writes into the other end's memory, from the `at`th byte of this end's on.
    pub fn write(&mut self, at: usize, bytes: usize) -> Result<()> {
        let list = [self.memory.sge(at, bytes)];
        self.post(&Request::write(0, &list, self.peer).signaled())?;
        self.flush()
    }

    /// Sends a message by one of the queue pairs, soon: [`Self::flush_by`] sends what has not been sent yet.
    pub fn queue_by(&mut self, place: usize, message: &[u8]) -> Result<()> {
        self.turn = place;
        self.queue(message)
    }

    /// Rings for what was posted to one of the queue pairs.
    pub fn flush_by(&mut self, place: usize) -> Result<()> {
        self.ring(place)?;
        self.look()
    }

    fn post(&mut self, request: &Request<'_>) -> Result<()> {
        let turn = self.turn;
        if self.under_way >= self.most {
            self.flush()?;
            while self.under_way >= self.most {
                self.reap()?;
            }
        }
        while !self.pairs[turn].qp.post(request)? {
            self.ring(turn)?;
            self.reap()?;
        }
        self.turn = (turn + 1) % self.pairs.len();
        self.under_way += 1;
        self.pairs[turn].unrung += 1;
        if self.pairs[turn].unrung >= BATCH {
            self.ring(turn)?;
            self.look()?;
        }
        Ok(())
    }

    fn ring(&mut self, place: usize) -> Result<()> {
        let Pair { qp, unrung } = &mut self.pairs[place];
        if std::mem::take(unrung) == 0 {
            return Ok(());
        }
        // A doorbell of the port brings an interrupt, which is worth it if the caller has other things to do.
        match self.how {
            How::Polled | How::Sleeping => qp.progress(0)?,
            How::Events => qp.ring()?,
        }
        Ok(())
    }

    /// Rings for what was posted.
    pub fn flush(&mut self) -> Result<()> {
        for place in 0..self.pairs.len() {
            self.ring(place)?;
        }
        self.look()
    }

    /// Takes the completions that are there.
    fn look(&mut self) -> Result<()> {
        while let Some(done) = self.sent.poll()? {
            self.ended(done)?;
        }
        Ok(())
    }

    fn ended(&mut self, done: Completion) -> Result<()> {
        done.must()?;
        self.under_way -= 1;
        Ok(())
    }

    fn reap(&mut self) -> Result<()> {
        let done = self.how.wait(&mut self.sent)?;
        self.ended(done)
    }

    /// Waits until all that was posted is done.
    pub fn settle(&mut self) -> Result<()> {
        self.flush()?;
        self.reap_all()
    }

    /// Waits until all that was rung for is done.
    pub fn reap_all(&mut self) -> Result<()> {
        while self.under_way > 0 {
            self.reap()?;
        }
        Ok(())
    }

    /// Has the engine look, and takes what is done; whether all is.
    pub fn is_settled(&mut self) -> Result<bool> {
        self.idle()?;
        self.look()?;
        Ok(self.under_way == 0)
    }

    /// Receives a message of just so many bytes; copies it out if it is short.
    pub fn recv(&mut self, message: &mut [u8]) -> Result<()> {
        let done = self.how.wait(&mut self.received)?;
        self.took(done, message)
    }

    /// Sends a message and receives one of just so many bytes: in one call, if it sleeps in that.
    pub fn exchange(&mut self, message: &[u8], answer: &mut [u8]) -> Result<()> {
        let place = self.turn;
        self.queue(message)?;
        if self.how != How::Sleeping {
            self.flush()?;
            return self.recv(answer);
        }
        self.pairs[place].unrung = 0;
        let done = self.pairs[place].qp.ring_and_wait(&mut self.received, PATIENCE)?;
        self.flush()?;
        self.took(done, answer)
    }

    /// Receives one that is there already; false if none is. The engine looks once.
    pub fn try_recv(&mut self, message: &mut [u8]) -> Result<bool> {
        if let Some(done) = self.received.poll()? {
            return self.took(done, message).map(|()| true);
        }
        self.objects.progress(0)?;
        match self.received.poll()? {
            Some(done) => self.took(done, message).map(|()| true),
            None => Ok(false),
        }
    }

    /// Looks whether anything has come, when nothing is to come.
    pub fn idle(&mut self) -> Result<()> {
        Ok(self.objects.progress(0)?)
    }

    fn took(&mut self, done: Completion, message: &mut [u8]) -> Result<()> {
        let done = done.must()?;
        if done.bytes as usize != message.len() {
            return Err(format!("{} bytes instead of {}", done.bytes, message.len()).into());
        }
        if message.len() <= INLINE {
            self.memory.read(0, message);
        }
        let place = match self.pairs.len() {
            1 => 0,
            _ => *self.places.get(&done.qpn).ok_or("a completion of no queue pair")?,
        };
        self.pairs[place].qp.post_recv(0, &[self.memory.all()])?;
        Ok(())
    }

    /// Waits, asleep, until a queue pair of this end fails; what it failed of.
    pub fn until_it_fails(&mut self) -> Result<weft::Status> {
        loop {
            match self.received.wait(None)?.status {
                weft::Status::Success => {}
                _ => return Ok(self.pairs[0].qp.status()?.why),
            }
        }
    }

    /// How long it takes to learn that the other end refuses a request, in seconds.
    pub fn refused(&mut self) -> Result<f64> {
        let nowhere = Remote { stag: self.peer.stag ^ 1, ..self.peer };
        let start = std::time::Instant::now();
        let pair = &mut self.pairs[0];
        pair.qp.post(&Request::write_inline(0, &[0; 8], nowhere))?;
        pair.qp.ring()?;
        let done = self.how.wait(&mut self.sent)?;
        let seconds = start.elapsed().as_secs_f64();
        match done.status {
            weft::Status::RemoteAccess => Ok(seconds),
            other => Err(format!("the other end was to refuse access: {other}").into()),
        }
    }
}
