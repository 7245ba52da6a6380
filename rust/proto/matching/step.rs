// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The steps that a match request makes, as Fig. 5 numbers them. This file is independent of what watches them.

/// The steps of Fig. 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Step {
    /// A match request is received.
    Receive = 502,
    /// It is put into the match request queue of its kind and endpoint.
    Queue = 504,
    /// An arbiter selects a queue, which is dequeued.
    Select = 506,
    /// The engine of the endpoint is looked up.
    Map = 508,
    /// The request is sent to the cache.
    Probe = 510,
    /// The cache tries to find a match.
    Match = 512,
    /// The cache has found one: the entry is put out.
    Hit = 514,
    /// The request is put into the queue of its engine and traffic class.
    Enqueue = 516,
    /// An arbiter selects an engine and a traffic class, whose queue is dequeued.
    Dequeue = 518,
    /// The engine searches its lists.
    Search = 520,
}

/// Is told of each step.
pub trait Trace {
    /// A request for an endpoint makes a step.
    fn step(&mut self, step: Step, endpoint: u16);
}

impl Trace for () {
    fn step(&mut self, _: Step, _: u16) {}
}
