// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Queues: requests, completions, and their order.

use crate::end::{BASE, End, KEY, PATIENCE, Result, ensure, noise};
use weft::verbs;
use weft::{Cq, Error, Mr, Objects, Operation, Pd, Qp, QpOptions, Request, Rights, Srq, Status};

pub fn order(end: &mut End) -> Result<()> {
    const COUNT: u64 = 40;
    let mut pair = end.pair(4096, Rights::ALL, COUNT)?;
    let length = |n: u64| (n * 61 % 2000) as usize;
    if end.active {
        for n in 0..COUNT {
            let list = [pair.mr.sge(0, length(n))];
            pair.ask(&Request::send(n, &list).imm(n as u32).signaled(), n)?;
        }
    } else {
        for n in 0..COUNT {
            let came = pair.done(1000 + n)?;
            ensure!(came.operation == Operation::Recv, "{came:?}");
            ensure!(came.bytes as usize == length(n), "message {n}: {came:?}");
            ensure!(came.imm == Some(n as u32), "message {n}: {came:?}");
        }
    }
    end.meet()
}

pub fn round_and_round(end: &mut End) -> Result<()> {
    const COUNT: u64 = 100;
    let options = QpOptions::new().entries(16, 16);
    let mut pair = end.pair_with(&options, 8 * COUNT as usize, Rights::ALL, 0)?;
    if end.active {
        let (mut posted, mut done) = (0, 0);
        while done < COUNT {
            while posted < COUNT && posted - done < 64 {
                let word = (posted + 1).to_ne_bytes();
                let to = pair.peer.remote.offset(8 * posted);
                if !pair.qp.post(&Request::write_inline(posted, &word, to).signaled())? {
                    break;
                }
                posted += 1;
            }
            pair.qp.ring()?;
            pair.done(done)?;
            done += 1;
        }
        pair.qp.progress(0)?;
        ensure!(pair.cq.poll()?.is_none(), "more completions than requests");
    }
    end.meet()?;
    if !end.active {
        for n in 0..COUNT {
            let word = pair.mr.load(8 * n as usize);
            ensure!(word == n + 1, "word {n} is {word}");
        }
    }
    Ok(())
}

pub fn polled_and_waited_for(end: &mut End) -> Result<()> {
    let mut pair = end.pair(4096, Rights::ALL, 2)?;
    if end.active {
        pair.post(&Request::send_inline(1, b"polled").signaled())?;
        ensure!(pair.cq.spin(PATIENCE)?.must()?.wr_id == 1, "another completion");
        // The other end sleeps before this one sends.
        end.meet()?;
        pair.ask(&Request::send_inline(2, b"waited for").signaled(), 2)?;
    } else {
        ensure!(pair.cq.spin(PATIENCE)?.must()?.wr_id == 1000, "another completion");
        pair.holds(0, b"polled")?;
        ensure!(pair.cq.poll()?.is_none(), "a message before it was sent");
        pair.cq.arm()?;
        end.meet()?;
        pair.done(1001)?;
        pair.holds(0, b"waited for")?;
    }
    end.meet()
}

pub fn by_id(end: &mut End) -> Result<()> {
    let objects = end.port.objects()?;
    let (pd, mut cq) = (objects.pd()?, objects.cq(16)?);
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new())?;
    let mr = pd.region(64, Rights::ALL)?;
    qp.init(Rights::NONE)?;
    if !end.active {
        ensure!(qp.post_recv(1, &[mr.all()])?, "no room for a receive request");
    }
    let absent = weft::QpPath { peer: 0xfeed_0000_0000_beef, link: None, qpn: 1 };
    let refused = qp.connect(&absent);
    ensure!(matches!(refused, Err(Error::Unreachable(_))), "a peer that is not there: {refused:?}");
    let peer = end.channel.peer().hwid;
    let qpn = end.exchange(qp.qpn().into())? as u32;
    qp.connect(&weft::QpPath { peer, link: None, qpn })?;
    end.meet()?;
    if end.active {
        ensure!(qp.post(&Request::send_inline(1, b"by id").signaled())?, "no room");
        qp.ring()?;
    }
    cq.wait(PATIENCE)?.must()?;
    end.meet()
}

/// Two queue pairs of each end, joined with those of the other one; those of the passive end have one
/// receive queue between them.
struct Shared {
    qps: [Qp; 2],
    srq: Srq,
    cq: Cq,
    mr: Mr,
    _pd: Pd,
    _objects: Objects,
}

/// Bytes of memory for a message.
const SLOT: usize = 512;

impl Shared {
    fn new(end: &mut End, receives: std::ops::Range<u64>) -> Result<Self> {
        let objects = end.port.objects()?;
        let pd = objects.pd()?;
        let cq = objects.cq(256)?;
        let mr = pd.region_at(16 * SLOT, Rights::ALL, BASE, KEY)?;
        let srq = pd.srq(16, 1)?;
        let options = QpOptions::new().protocol(end.protocol);
        let mut make = || {
            let mut qp = if end.active {
                pd.qp(&cq, &cq, &options)?
            } else {
                pd.qp_with_srq(&cq, &cq, &srq, &options)?
            };
            verbs::join(&mut end.channel, &mut qp, Rights::REMOTE, &[], PATIENCE, |_| Ok(()))?;
            Ok::<_, Error>(qp)
        };
        let qps = [make()?, make()?];
        let mut shared = Shared { qps, srq, cq, mr, _pd: pd, _objects: objects };
        for n in receives {
            shared.post_recv(n)?;
        }
        Ok(shared)
    }

    /// Posts receive request `n`, which has a slot of its own.
    fn post_recv(&mut self, n: u64) -> Result<()> {
        let list = [self.mr.sge(n as usize * SLOT, SLOT)];
        ensure!(self.srq.post_recv(n, &list)?, "no room for receive request {n}");
        Ok(())
    }

    /// Sends message `n` by the queue pair of its turn.
    fn send(&mut self, n: u64) -> Result<()> {
        let len = length(n);
        self.mr.write(n as usize * SLOT, &noise(n, len));
        let list = [self.mr.sge(n as usize * SLOT, len)];
        let qp = &mut self.qps[n as usize % 2];
        ensure!(qp.post(&Request::send(n, &list).signaled())?, "the send queue is full");
        Ok(qp.ring()?)
    }

    /// Waits until it was sent.
    fn sent(&mut self) -> Result<u64> {
        Ok(self.cq.wait(PATIENCE)?.must()?.wr_id)
    }

    /// Waits for a message, which must be in the oldest receive request; which one it is.
    fn received(&mut self, wr_id: u64) -> Result<u64> {
        let came = self.cq.wait(PATIENCE)?.must()?;
        ensure!(came.operation == Operation::Recv && came.wr_id == wr_id, "{came:?}, not {wr_id}");
        let n = (0..16).find(|&n| length(n) == came.bytes as usize);
        let n = n.ok_or_else(|| format!("a message that was not sent: {came:?}"))?;
        let qpn = self.qps[n as usize % 2].qpn();
        ensure!(came.qpn == qpn, "message {n} came by queue pair {}, not {qpn}", came.qpn);
        let mut found = vec![0; length(n)];
        self.mr.read(wr_id as usize * SLOT, &mut found);
        ensure!(found == noise(n, length(n)), "message {n} is not what was sent");
        Ok(n)
    }
}

/// Bytes of message `n`, which has a length of its own.
fn length(n: u64) -> usize {
    1 + n as usize * 31
}

pub fn shared_receive_queue(end: &mut End) -> Result<()> {
    let mut shared = Shared::new(end, 0..8)?;
    end.meet()?;
    for n in 0..8 {
        if end.active {
            shared.send(n)?;
            ensure!(shared.sent()? == n, "another completion than that of message {n}");
        } else {
            let came = shared.received(n)?;
            ensure!(came == n, "message {came} in receive request {n}");
        }
    }
    end.meet()
}

/// One of two queue pairs goes: a waiter where both complete is told of it, and the other one goes on.
pub fn end_at_shared_queue(end: &mut End) -> Result<()> {
    let mut shared = Shared::new(end, 0..2)?;
    end.meet()?;
    if end.active {
        let Shared { qps: [gone, mut stays], mut cq, mr, .. } = shared;
        drop(gone);
        end.meet()?;
        mr.write(0, &noise(1, length(1)));
        let list = [mr.sge(0, length(1))];
        ensure!(stays.post(&Request::send(1, &list).signaled())?, "the send queue is full");
        stays.ring()?;
        cq.wait(PATIENCE)?.must()?;
        end.meet()?;
        drop(stays);
        return end.meet();
    }
    for n in 0..2 {
        let qpn = shared.qps[n].qpn();
        let told = shared.cq.wait(PATIENCE)?;
        ensure!(told.ends && told.status == Status::Peer, "not the end of a queue pair: {told:?}");
        ensure!(told.qpn == qpn, "the end of {}, but it is {qpn} whose peer has gone", told.qpn);
        end.meet()?;
        if n == 0 {
            let came = shared.received(0)?;
            ensure!(came == 1, "message {came} of a queue pair that has gone");
            end.meet()?;
        }
    }
    Ok(())
}

pub fn dry_shared_queue(end: &mut End) -> Result<()> {
    let mut shared = Shared::new(end, 0..1)?;
    end.meet()?;
    if end.active {
        for n in 0..6 {
            shared.send(n)?;
        }
        // One message at least finds a receive request.
        let mut done = vec![shared.sent()?];
        end.meet()?;
        while done.len() < 6 {
            done.push(shared.sent()?);
        }
        for way in 0..2 {
            let of: Vec<u64> = done.iter().copied().filter(|n| n % 2 == way).collect();
            ensure!(of == [way, way + 2, way + 4], "out of order: {done:?}");
        }
    } else {
        let mut came = vec![shared.received(0)?];
        end.meet()?;
        for n in 1..6 {
            shared.post_recv(n)?;
        }
        // Receive requests are posted without a call.
        for n in 1..6 {
            came.push(shared.received(n)?);
        }
        for way in 0..2 {
            let of: Vec<u64> = came.iter().copied().filter(|n| n % 2 == way).collect();
            ensure!(of == [way, way + 2, way + 4], "out of order: {came:?}");
        }
    }
    end.meet()
}
