// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many instructions a connection takes: it is asked for, accepted, carries a byte and its answer, and is
//! closed at both ends, each of which is a thread that sleeps until it has something to do.

use super::asleep::Rest;
use super::trace::Trace;
use super::{RUNS, bulk, clock, report};
use crate::Result;
use crate::connections::{answer_one, use_one};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use weft::Port;
use weft::net::{Connect, Listener, Stream};

const SERVICE: u32 = super::SERVICE + 6;
const BACKLOG: u32 = 16;
/// Connections that are counted together, such batches of a run, and those that are traced.
const EACH: usize = 16;
const BATCHES: usize = 13;
const TRACED: usize = 4;

/// Accepts and answers `count` connections.
fn answer<C: Read + Write>(accept: impl Fn() -> io::Result<C>, count: usize) -> Result<()> {
    for _ in 0..count {
        answer_one(accept()?)?;
    }
    Ok(())
}

/// What each of some batches of connections takes. `left`: how many instructions were left over so far.
fn batches<C: Read + Write>(
    connect: &impl Fn() -> io::Result<C>,
    count: usize,
    left: impl Fn() -> u64,
) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    for _ in 0..count {
        let (before, start) = (left(), clock());
        for _ in 0..EACH {
            use_one(connect()?)?;
        }
        let spent = clock() - start;
        all.push(spent.saturating_sub(left() - before));
    }
    Ok(all)
}

/// Has `work` make `count` batches of connections by one end, while the other end answers.
fn answered<C: Read + Write>(
    accept: impl Fn() -> io::Result<C> + Send,
    count: usize,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(accept, count * EACH));
        work()?;
        answering.join().map_err(|_| "the answering thread panicked")?
    })
}

fn counted<C: Read + Write>(
    name: &str,
    connect: impl Fn() -> io::Result<C>,
    accept: impl Fn() -> io::Result<C> + Send,
) -> Result<()> {
    let rest = Rest::new()?;
    answered(accept, (RUNS + 1) * BATCHES, || {
        // The first one warms up.
        batches(&connect, BATCHES, || rest.all())?;
        for _ in 0..RUNS {
            report(name, 1, batches(&connect, BATCHES, || rest.all())?, EACH)?;
        }
        Ok(())
    })
}

fn traced<C: Read + Write>(
    name: &str,
    connect: impl Fn() -> io::Result<C>,
    accept: impl Fn() -> io::Result<C> + Send,
    trace: &Trace<'_>,
) -> Result<()> {
    answered(accept, BATCHES + TRACED, || {
        batches(&connect, BATCHES, || 0)?;
        trace.of(name, EACH, || batches(&connect, TRACED, || 0).map(drop))
    })
}

/// How the two ends of a connection of sockets are made, from one port to another of this host.
fn of_sockets(
    from: u32,
    to: u32,
) -> Result<(impl Fn() -> io::Result<Stream>, impl Fn() -> io::Result<Stream> + Send)> {
    let there = Port::open(to)?;
    let listener = Listener::bind(&there, SERVICE, BACKLOG)?;
    let (here, to) = (Port::open(from)?, Connect::new(there.info()?.hwid, SERVICE));
    Ok((move || Stream::connect(&here, &to), move || listener.accept()))
}

/// The same of TCP, to an address of a network card in the namespace. The thread that accepts is in there from its first
/// call on, as a program of another host would be: under `weft-run` it asks which host has connected.
fn of_tcp(
    namespace: &str,
    address: &str,
) -> Result<(impl Fn() -> io::Result<TcpStream>, impl Fn() -> io::Result<TcpStream> + Send)> {
    let listener = bulk::listening(namespace, address)?;
    let (at, there) = (listener.local_addr()?, bulk::namespace(namespace)?);
    let prompt = |end: TcpStream| end.set_nodelay(true).map(|()| end);
    let is_there = AtomicBool::new(false);
    let accept = move || {
        if !is_there.swap(true, Relaxed) {
            move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network))?;
        }
        prompt(listener.accept()?.0)
    };
    Ok((move || prompt(TcpStream::connect(at)?), accept))
}

/// Of sockets, from one port to another of this host.
pub fn sockets(from: u32, to: u32) -> Result<()> {
    let (connect, accept) = of_sockets(from, to)?;
    counted("socket-connection", connect, accept)
}

/// Of TCP.
pub fn tcp(namespace: &str, address: &str) -> Result<()> {
    let (connect, accept) = of_tcp(namespace, address)?;
    counted("tcp-connection", connect, accept)
}

/// Of sockets, to be traced.
pub fn traced_sockets(from: u32, to: u32, trace: &Trace<'_>) -> Result<()> {
    let (connect, accept) = of_sockets(from, to)?;
    traced("socket-connection", connect, accept, trace)
}

/// Of TCP, to be traced.
pub fn traced_tcp(namespace: &str, address: &str, trace: &Trace<'_>) -> Result<()> {
    let (connect, accept) = of_tcp(namespace, address)?;
    traced("tcp-connection", connect, accept, trace)
}
