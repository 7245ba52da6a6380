// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Two ends with a few queue pairs, their users, and what must be true in the end.

use super::end::End;
use super::user::{size_of_read, Op, TakenBack, User, Wr};
use super::Memory;
use weft_proto::cqe::Status;
use weft_proto::protocol::Protocol;
use weft_proto::qp::Flow;
use weft_proto::trunk::Layout;

#[derive(Clone, Copy, Debug)]
pub enum Do {
    Post(Wr),
    Recv(usize),
    Step(usize),
    /// The next loads over the bridge bring nothing.
    LoseLoads(u32),
    /// No request is begun, or they are again.
    Flow(Flow),
    /// The user takes back the memory that work requests of either end have named so far.
    TakeBack,
    /// The user has the queue pair go to ERR.
    Fail,
    /// The user resets the queue pair and connects it again.
    Reset,
}

/// At which end, for which queue pair, what.
pub type Step = (usize, usize, Do);

pub struct World {
    pub ends: [End; 2],
    pub memories: [Memory; 2],
    /// A queue pair has ended though no request was at fault.
    pub ended: bool,
}

impl World {
    pub fn new(layouts: [Layout; 2], protocols: &[Protocol], has_dma: bool) -> Self {
        let [a, b] = layouts;
        let end = |own, peer| End::new(own, peer, protocols, has_dma);
        World {
            ends: [end(a, b), end(b, a)],
            memories: [Memory::new(a), Memory::new(b)],
            ended: false,
        }
    }

    pub fn step(&mut self, end: usize, pair: usize, n: usize) -> bool {
        self.ends[end].step(n, pair, &self.memories[end], &self.memories[1 - end])
    }

    pub fn run(&mut self, (end, pair, what): Step) {
        match what {
            Do::Post(mut wr) => {
                let user = &mut self.ends[end].qps[pair].user;
                if wr.op == Op::ReadAll {
                    wr.len = size_of_read(user.next());
                }
                // Nothing is refused of a request that touches no memory.
                wr.bad &= wr.len > 0 || !matches!(wr.op, Op::Send | Op::Read);
                user.post(wr);
            }
            Do::Recv(more) => self.ends[end].qps[pair].user.post_recvs(more),
            Do::Step(n) => {
                self.step(end, pair, n);
            }
            Do::LoseLoads(count) => self.ends[end].link.lost_loads.set(count),
            Do::Flow(flow) => self.ends[end].set_flow(flow),
            Do::TakeBack => {
                self.ended = true;
                let remote = self.ends[1 - end].qps[pair].user.next();
                let user = &mut self.ends[end].qps[pair].user;
                let local = user.next();
                user.taken_back = TakenBack { local, remote };
            }
            Do::Fail => {
                self.ended = true;
                self.ends[end].fail(pair);
            }
            Do::Reset => {
                self.ended = true;
                let [own, peer] = [end, 1 - end].map(|n| &self.memories[n]);
                self.ends[end].reset(pair, own, peer);
                self.ends[end].connect(pair);
            }
        }
    }

    /// Has both ends do what there is to do.
    pub fn settle(&mut self) {
        let pairs = self.ends[0].qps.len();
        let mut busy = true;
        while busy {
            busy = false;
            for end in 0..2 {
                for pair in 0..pairs {
                    for n in 0..End::STEPS {
                        busy |= self.step(end, pair, n);
                    }
                }
            }
        }
    }

    /// Goes on until nothing is left to do. Receive requests come one by one.
    pub fn finish(&mut self) {
        let pairs = self.ends[0].qps.len();
        for end in &mut self.ends {
            end.set_flow(Flow::Open);
            end.link.lost_loads.set(0);
        }
        loop {
            self.settle();
            let mut waiting = vec![];
            for end in 0..2 {
                for pair in 0..pairs {
                    let is_done = self.ends[end].qps[pair].user.is_done();
                    let peer = &self.ends[1 - end].qps[pair];
                    let takes = peer.machine.hears() && peer.user.free_recvs() == 0;
                    if !is_done && takes {
                        waiting.push((1 - end, pair));
                    }
                }
            }
            if waiting.is_empty() {
                return;
            }
            for (end, pair) in waiting {
                self.ends[end].qps[pair].user.post_recvs(1);
            }
        }
    }

    /// That each work request has ended, in order, and what it was to do was done.
    pub fn check(&mut self) {
        for end in 0..2 {
            assert!(
                self.ends[end].is_honest(),
                "the peer was taken for one that breaks the protocol"
            );
            assert!(self.ends[end].is_idle(), "something is still on its way");
            for (n, qp) in self.ends[end].qps.iter().enumerate() {
                let peer = &self.ends[1 - end].qps[n];
                let bad = |user: &User| user.wrs.iter().any(|wr| wr.bad);
                assert!(
                    qp.user.is_done(),
                    "each has its completion: {end} {n}: {} of {}, next {:?}, {:?} {:?}, peer {:?} {:?}",
                    qp.user.sent.len(),
                    qp.user.wrs.len(),
                    qp.user.wrs[qp.user.sent.len()],
                    qp.machine.state(),
                    qp.machine.why(),
                    peer.machine.state(),
                    peer.machine.why(),
                );
                qp.user.check(&peer.user);
                if !self.ended && !bad(&qp.user) && !bad(&peer.user) {
                    let done = qp.user.sent.iter().all(|cqe| cqe.status == Status::Success);
                    assert!(done, "nothing has failed: {end} {n}");
                    self.check_executed(end, n);
                }
            }
            self.ends[end].check_all_free();
        }
    }

    /// That the peer has carried out all work requests that concern it, once and in order.
    fn check_executed(&self, end: usize, n: usize) {
        let user = &self.ends[end].qps[n].user;
        let concerns = |(n, wr): (usize, &Wr)| {
            let nothing = match wr.op {
                Op::Read => wr.len == 0,
                Op::Invalidate => true,
                _ => false,
            };
            (!nothing).then_some(n as u32)
        };
        let numbers: Vec<u32> = user.wrs.iter().enumerate().filter_map(concerns).collect();
        let peer = &self.ends[1 - end].qps[n].user;
        assert_eq!(*peer.executed.borrow(), numbers, "carried out");
        let adds = user.wrs.iter().filter(|wr| wr.op == Op::Add).count();
        assert_eq!(*peer.counter.borrow(), adds as u64, "each adds once");
    }
}

pub fn protocols(bits: usize) -> Protocol {
    Protocol::of(bits as u32).expect("three bits")
}
