// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Many objects of one kind, which stay until the process is killed: what they take is looked up
//! outside, before they are made and when they are there. One more is made first, with all that a process
//! and a first object take besides.

use crate::{Result, appears};
use std::path::Path;
use std::thread;
use weft::{Connect, Port, QpOptions, Rights, net};

/// Entries of a queue, and bytes of a region.
const ENTRIES: u32 = 64;
const REGION: usize = 4096;
/// Of a channel: messages under way, and bytes of long ones.
const CELLS: u32 = 16;
const BULK: u32 = 4096;
/// Of a socket: bytes under way.
const HALF: u32 = 4096;
/// Requests that wait to be accepted.
const BACKLOG: u32 = 16;

/// Makes one, says "one", waits for the file, makes the others, says "made", and keeps them all.
fn make_all<T, E>(
    count: usize,
    file: &str,
    make: impl Fn() -> std::result::Result<T, E>,
) -> Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut all = Vec::with_capacity(1 + count);
    all.push(make()?);
    println!("one");
    appears(Path::new(file))?;
    for _ in 0..count {
        all.push(make()?);
    }
    println!("made");
    stay()
}

fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

/// Makes `count` objects of a kind by a port; channels and sockets, to a service at the other end of its link 0.
pub fn make(kind: &str, port: u32, count: usize, service: u32, file: &str) -> Result<()> {
    let port = Port::open(port)?;
    if kind == "channel" {
        let connect = Connect::to_link(0, service).cells(CELLS).bulk(BULK);
        return make_all(count, file, || port.connect(&connect));
    }
    if kind == "socket" {
        let connect = net::Connect::new(0, service).link(0).bytes(HALF);
        return make_all(count, file, || net::Stream::connect(&port, &connect));
    }
    let objects = port.objects()?;
    let pd = objects.pd()?;
    match kind {
        "cq" => make_all(count, file, || objects.cq(ENTRIES)),
        "mr" => make_all(count, file, || pd.region(REGION, Rights::LOCAL_WRITE)),
        "qp" => {
            let cq = objects.cq(ENTRIES)?;
            let options = QpOptions::new().entries(ENTRIES, ENTRIES);
            make_all(count, file, || pd.qp(&cq, &cq, &options))
        }
        _ => Err(format!("{kind:?} is no kind of object: channel, cq, mr, qp or socket").into()),
    }
}

/// Accepts channels and sockets, which stay.
pub fn accept(port: u32, service: u32) -> Result<()> {
    let port = Port::open(port)?;
    let sockets = net::Listener::bind(&port, service, BACKLOG)?;
    let listener = port.listen(service, BACKLOG)?;
    println!("listening");
    thread::spawn(move || sockets.incoming().collect::<std::io::Result<Vec<_>>>().map(drop));
    let mut all = Vec::new();
    loop {
        all.push(listener.accept(None)?);
    }
}
