// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How many connections two hosts make in a second, one after the other: each is asked for, accepted, carries a
//! byte and its answer, and is closed at both ends.

use crate::{Result, USAGE};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use weft::Port;
use weft::net::{Connect, Listener, Stream};

/// Requests that may wait: the end of one connection and the next one overlap.
const BACKLOG: u32 = 16;

/// What the end does that was asked for a connection.
pub fn answer_one(mut end: impl Read + Write) -> std::io::Result<()> {
    let mut byte = [0];
    end.read_exact(&mut byte)?;
    end.write_all(&byte)?;
    // The side that asked closes first.
    let _ = end.read(&mut byte);
    Ok(())
}

/// What the end does that has asked for a connection.
pub fn use_one(mut end: impl Read + Write) -> std::io::Result<()> {
    let mut byte = [7];
    end.write_all(&byte)?;
    end.read_exact(&mut byte)
}

fn answer_each<C: Read + Write>(accept: impl Fn() -> std::io::Result<C>) -> Result<()> {
    println!("listening");
    loop {
        answer_one(accept()?)?;
    }
}

/// Answers until it is killed.
pub fn answer(at: &[&str]) -> Result<()> {
    match at {
        ["tcp", address] => {
            let listener = TcpListener::bind(address)?;
            answer_each(|| {
                let (end, _) = listener.accept()?;
                end.set_nodelay(true)?;
                Ok(end)
            })
        }
        ["socket", port, service] => {
            let port = Port::open(port.parse()?)?;
            let listener = Listener::bind(&port, service.parse()?, BACKLOG)?;
            answer_each(|| listener.accept())
        }
        _ => Err(USAGE.into()),
    }
}

fn each<C: Read + Write>(count: usize, connect: impl Fn() -> std::io::Result<C>) -> Result<()> {
    let start = Instant::now();
    for _ in 0..count {
        use_one(connect()?)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{{\"job\": \"connections\", \"bytes\": 1, \"count\": {count}, \"seconds\": {seconds:.9}}}"
    );
    Ok(())
}

/// Makes `count` connections.
pub fn make(at: &[&str], count: usize) -> Result<()> {
    match at {
        ["tcp", address] => each(count, || {
            let end = TcpStream::connect(address)?;
            end.set_nodelay(true)?;
            Ok(end)
        }),
        ["socket", port, service] => {
            let port = Port::open(port.parse()?)?;
            let to = Connect::new(0, service.parse()?).link(0);
            each(count, || Stream::connect(&port, &to))
        }
        _ => Err(USAGE.into()),
    }
}
