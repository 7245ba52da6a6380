// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes into memory of another host: `rdma-write listen` offers a mebibyte, `rdma-write connect`
//! fills it.

use std::time::Duration;
use weft::verbs::{self, Offer};
use weft::{Connect, Error, Port, QpOptions, Request, Rights};

const SERVICE: u32 = 7002;
const BYTES: usize = 1 << 20;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

fn main() -> weft::Result<()> {
    let connects = std::env::args().nth(1).as_deref() == Some("connect");
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
    let memory = pd.region(BYTES, Rights::LOCAL_WRITE | Rights::REMOTE_WRITE)?;
    let offer = Offer { remote: memory.remote(0), bytes: BYTES as u64 };
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new())?;
    // Of the two ends only the one that listens has anything to receive: the word that it is done.
    let theirs =
        verbs::join(&mut channel, &mut qp, Rights::REMOTE_WRITE, &[offer], PATIENCE, |qp| {
            qp.post_recv(0, &[]).map(drop)
        })?;

    if connects {
        let place = theirs.first().ok_or(Error::Invalid("the other end offers nothing".into()))?;
        memory.write(0, &[0x77; BYTES]);
        qp.post(&Request::write(1, &[memory.all()], place.remote).imm(BYTES as u32).signaled())?;
        qp.ring()?;
        let done = cq.wait(PATIENCE)?.must()?;
        println!("request {} done", done.wr_id);
    } else {
        let came = cq.wait(PATIENCE)?.must()?;
        let mut last = [0];
        memory.read(BYTES - 1, &mut last);
        println!("{:?} bytes written, the last one is {:#x}", came.imm, last[0]);
    }
    verbs::part(&mut channel, PATIENCE)
}
