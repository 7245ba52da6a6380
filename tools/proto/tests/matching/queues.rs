// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A dispatcher under any sequence of its functions: each request comes out once, in the order of its queue, and
//! none while another of its endpoint is being executed, but for hits of the cache.

use super::{eager, engine, receive, VecEngine, MATCHING};
use std::collections::VecDeque;
use weft_proto::matching::{
    cache::Line,
    dispatch::{Dispatch, Job},
    endpoint::{Config, Endpoint},
    endpoint_queues::EndpointQueues,
    outcome::Order,
    queue::Slot,
    request::{Command, Criteria, List, Options, Request, Work},
};

const ENDPOINTS: usize = 5;

struct World {
    queues: Dispatch<Vec<EndpointQueues>, Vec<Slot>, Vec<Line>, ()>,
    engine: VecEngine,
    endpoints: Vec<Endpoint>,
    /// Requests that are not done, by endpoint and kind.
    wait: Vec<[VecDeque<Request>; 2]>,
    jobs: Vec<Job>,
    /// How many were refused, and how many hits there were: up to 15 of each, and how many jobs at once.
    refused: u64,
    hits: u64,
    most: u64,
}

fn kind(request: &Request) -> usize {
    usize::from(matches!(request.work, Work::Message(_)))
}

impl World {
    fn new() -> Self {
        let unordered = Config {
            matching: false,
            ..MATCHING
        };
        let mut queues = Dispatch::new(
            vec![EndpointQueues::CLOSED; ENDPOINTS],
            vec![Slot::FREE; 20],
            vec![Line::EMPTY; 2],
            [3, 1, 2, 0],
            6,
            (),
        );
        for endpoint in 0..ENDPOINTS as u16 {
            assert!(queues.open(endpoint, (endpoint % 4) as u8));
        }
        Self {
            queues,
            engine: engine(40, 0),
            endpoints: (0..ENDPOINTS as u16)
                .map(|n| Endpoint::new(n, unordered))
                .collect(),
            wait: vec![Default::default(); ENDPOINTS],
            jobs: vec![],
            refused: 0,
            hits: 0,
            most: 0,
        }
    }

    fn submit(&mut self, word: u64) {
        let endpoint = (word % ENDPOINTS as u64) as u16;
        let number = word >> 8;
        let persistent = Options {
            put: true,
            persistent: true,
            ..Options::default()
        };
        let mut buffer = receive(None, 0, 0, number & 0xffff);
        buffer.criteria = Criteria::ANY;
        buffer.options = persistent;
        let work = match (word >> 3) & 7 {
            0 => Work::Command(Command::Enable),
            1 => Work::Command(Command::Append(List::Priority, buffer)),
            2 => Work::Command(Command::Unlink {
                context: number & 0xffff,
            }),
            _ => Work::Message(eager(1, number, 8)),
        };
        let request = Request {
            endpoint,
            class: ((word >> 6) & 3) as u8,
            work,
        };
        let submitted = self.queues.submit(request);
        self.refused += u64::from(submitted.is_err());
        if submitted.is_ok() {
            self.wait[usize::from(endpoint)][kind(&request)].push_back(request);
        }
    }

    fn next(&mut self, engines: u8) {
        let Some(job) = self.queues.next(engines) else {
            return;
        };
        let at = usize::from(job.request.endpoint);
        let hit = job.hit.is_some();
        self.hits += u64::from(hit);
        assert!(hit || (engines >> job.engine) & 1 == 1);
        let others = self
            .jobs
            .iter()
            .filter(|other| other.request.endpoint == job.request.endpoint);
        // Hits leave the queue at once, as they are delivered beside each other.
        assert!(others.clone().all(|other| other.hit.is_some()));
        assert!(
            kind(&job.request) == 1 || others.count() == 0,
            "a command waits for hits"
        );
        let mine = &mut self.wait[at][kind(&job.request)];
        assert_eq!(mine.pop_front(), Some(job.request));
        self.jobs.push(job);
        self.most = self.most.max(self.jobs.len() as u64);
    }

    fn done(&mut self, word: u64) {
        if self.jobs.is_empty() {
            return;
        }
        let job = self.jobs.remove(word as usize % self.jobs.len());
        let (at, request) = (usize::from(job.request.endpoint), job.request);
        if (word >> 32) & 7 == 0 && job.hit.is_none() {
            self.wait[at][kind(&request)].push_front(request);
            return self.queues.defer(job);
        }
        let order = match job.hit {
            Some(_) => Order::DONE,
            None => {
                let endpoint = &mut self.endpoints[at];
                let mut reply = self.engine.execute(endpoint, &request.work, 0);
                while reply.more {
                    reply = self.engine.go_on(endpoint);
                }
                reply.order
            }
        };
        assert!(!order.again, "no list is handed over");
        self.queues.done(job, order);
    }
}

/// Plays the steps of some words. Returns what came of them, as a number.
pub fn play_queues(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut world = World::new();
    for word in words {
        match word & 7 {
            0..=2 => world.submit(word >> 3),
            3 | 4 => world.next((word >> 3) as u8),
            5 | 6 => world.done(word >> 3),
            _ => world.queues.resume((word >> 3) as u16 % ENDPOINTS as u16),
        }
    }
    for endpoint in 0..ENDPOINTS as u16 {
        world.queues.resume(endpoint);
    }
    // All that waits is executed in the end.
    for _ in 0..200 {
        world.next(u8::MAX);
        world.done(0xff << 32);
    }
    assert!(world.wait.iter().flatten().all(VecDeque::is_empty));
    assert!(world.jobs.is_empty());
    (world.refused.min(15) << 16) | (world.hits.min(15) << 8) | world.most
}
