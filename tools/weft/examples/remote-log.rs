// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A log in memory of another host, to which several programs may append at once: `remote-log
//! listen` keeps it and prints what it got, `remote-log connect TEXT` appends a line.
//!
//! The first 8 bytes count what was handed out. A writer that appends adds its length by an atomic operation,
//! which gives it a place of its own, then writes there.

use std::time::Duration;
use weft::verbs::{self, Offer};
use weft::{Connect, Error, Port, QpOptions, Request, Rights};

const SERVICE: u32 = 7003;
const BYTES: usize = 65536;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

fn main() -> weft::Result<()> {
    let mut words = std::env::args().skip(1);
    let connects = words.next().as_deref() == Some("connect");
    let text = words.next().unwrap_or_else(|| "a line".into()) + "\n";
    let port = Port::open(0)?;
    let mut channel = if connects {
        port.connect(&Connect::to_link(0, SERVICE))?
    } else {
        let listener = port.listen(SERVICE, 1)?;
        println!("listening");
        listener.accept(PATIENCE)?
    };

    let objects = port.objects()?;
    let (pd, mut cq) = (objects.pd()?, objects.cq(16)?);
    let memory = pd.region(BYTES, Rights::ALL)?;
    let offer = Offer { remote: memory.remote(0), bytes: BYTES as u64 };
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new())?;
    let theirs =
        verbs::join(&mut channel, &mut qp, Rights::REMOTE, &[offer], PATIENCE, |_| Ok(()))?;

    if connects {
        let log = theirs.first().ok_or(Error::Invalid("the other end offers nothing".into()))?;
        let len = text.len() as u64;
        qp.post(&Request::fetch_add(1, &[memory.sge(0, 8)], log.remote, len).signaled())?;
        qp.ring()?;
        cq.wait(PATIENCE)?.must()?;
        let place = 8 + memory.load(0);
        if place.checked_add(len).is_none_or(|end| end > log.bytes) {
            return Err(Error::Invalid("the log is full".into()));
        }
        memory.write(8, text.as_bytes());
        let line = [memory.sge(8, text.len())];
        qp.post(&Request::write(2, &line, log.remote.offset(place)).signaled())?;
        qp.ring()?;
        cq.wait(PATIENCE)?.must()?;
        println!("appended at {place}");
        channel.send(b"appended", 0, PATIENCE)?;
    } else {
        channel.recv(&mut Vec::new(), PATIENCE)?;
        let mut log = vec![0; (memory.load(0) as usize).min(BYTES - 8)];
        memory.read(8, &mut log);
        print!("{}", String::from_utf8_lossy(&log));
    }
    verbs::part(&mut channel, PATIENCE)
}
