// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Messages there and back between queue pairs of two hosts: `ping-pong listen` on one of them,
//! `ping-pong connect` on the other.

use std::time::{Duration, Instant};
use weft::{Connect, Port, QpOptions, Request, Rights, verbs};

const SERVICE: u32 = 7001;
const ROUNDS: u32 = 100;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

fn main() -> weft::Result<()> {
    let connects = std::env::args().nth(1).as_deref() == Some("connect");
    let port = Port::open(0)?;
    // A channel, for the ends to tell each other what they need to know.
    let mut channel = if connects {
        port.connect(&Connect::to_link(0, SERVICE))?
    } else {
        let listener = port.listen(SERVICE, 1)?;
        println!("listening");
        listener.accept(PATIENCE)?
    };

    let objects = port.objects()?;
    let pd = objects.pd()?;
    let (mut sent, mut received) = (objects.cq(64)?, objects.cq(64)?);
    let memory = pd.region(4096, Rights::LOCAL_WRITE)?;
    let mut qp = pd.qp(&sent, &received, &QpOptions::new())?;
    verbs::join(&mut channel, &mut qp, Rights::NONE, &[], PATIENCE, |qp| {
        qp.post_recv(0, &[memory.all()]).map(drop)
    })?;

    let start = Instant::now();
    for round in 0..ROUNDS {
        if connects || round > 0 {
            qp.post(&Request::send_inline(1, b"ping").signaled())?;
            qp.ring_and_wait(&mut sent, PATIENCE)?.must()?;
        }
        received.wait(PATIENCE)?.must()?;
        qp.post_recv(0, &[memory.all()])?;
    }
    if !connects {
        qp.post(&Request::send_inline(1, b"pong").signaled())?;
        qp.ring_and_wait(&mut sent, PATIENCE)?.must()?;
    }
    println!("{ROUNDS} round trips, {:?} each", start.elapsed() / ROUNDS);
    verbs::part(&mut channel, PATIENCE)
}
