// SPDX-License-Identifier: GPL-2.0

//! Matching interfaces: messages that are matched with buffers, and moved, while no process runs.
//!
//! The rules are in `proto::matching`. A file is an interface (`Interface`): rings that its program maps, and a thread
//! that takes commands, copies to and from the memory of the process, and posts events, or the process itself when it
//! calls ([`rounds`]). What takes long for an interface, a page fault or a full event ring, takes long there. The lists of all interfaces of a port, and
//! their turns, are one object with one lock ([`lists`]), under which nothing is copied, posted or sent.
//!
//! A host that is sent something is a [`peer`](peer::Peer): a channel to it, and one from it, as other clients in the
//! kernel have, and a work item that takes what has come and gives it to the interfaces. This module must not know
//! links, routes or `channel`, nor files. Documentation/matching.rst describes it.
//!
//! # Locks
//!
//! In this order; all are mutexes:
//!
//! 1. `Matching::life`: what exists while there are interfaces is made and ended;
//! 2. `Interface::worker`: of what does its work, held while it copies;
//! 3. `Matcher::listening`: what listens for hosts;
//! 4. `Peer::incoming`, then `Peer::outgoing`: the ends of its channels;
//! 5. `Matcher::lists`;
//! 6. `Interface::state`;
//! 7. `Matcher::peers`;
//! 8. `Peer::replies`.

mod bell;
mod buffers;
mod carry;
mod commands;
mod direct;
mod grant;
mod handing;
mod hearing;
mod held;
mod initiator;
mod interface;
mod lists;
mod matcher;
mod operation;
mod operations;
mod parked;
mod peer;
mod places;
mod polled;
mod pull;
mod pulls;
mod rings;
mod rounds;
mod serve;
mod short;
mod state;
mod stored;
mod supply;
mod target;
mod to;

pub(crate) use self::{
    bell::Call,
    interface::{Open, Wanted},
    matcher::Matching,
    rings::Shape,
};

/// Bytes of a message that are sent at once; a longer one is pulled by its target.
const EAGER: usize = 4096;
/// Messages that wait for an interface, and as many of its commands: as many as one has sent that can be told apart.
const WAITING: u32 = OPERATIONS as u32;
/// Messages that an interface carries out at once, and longer ones of those that wait.
const CARRIED: usize = 16;
/// Eager messages that an interface has sent, and that are not answered: short ones, and longer ones.
const COPIES: [usize; 2] = [32, 8];
/// What an interface has begun and that is not over: messages that it has sent, gets, atomic operations.
const OPERATIONS: usize = 64;
/// Messages beside these that their targets have taken, and will pull when they are received.
const PARKED: usize = 4096;
/// Messages that an interface pulls at once.
const PULLS: usize = 32;
/// Operations that get something and are not over. Not of the same: what others send has to go on while they wait.
const GETS: usize = 32;
/// Gets of others that an interface answers at once.
const GRANTS: usize = 32;
/// How often an operation that changes nothing is done again after its session was lost.
const RETRIES: u8 = 4;
/// Bytes that it asks for at once of one of them, and how often before the first have come.
const CHUNK: usize = 16 << 10;
const CHUNKS: usize = 6;
/// Hosts that the interfaces of a port can have to do with.
const PEERS: usize = 4096;
/// Answers that wait for room in the channel to a host; with as many as half of it the interfaces take nothing on.
const REPLIES: usize = 1024;

const _: () = assert!(EAGER == crate::sys::ext::WEFT_MATCH_EAGER as usize);
const _: () = assert!(2 * crate::proto::matching::atomic::MOST <= EAGER as u64);
