// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Wears a channel out: `weft-soak listen PORT SERVICE` on one host, `weft-soak connect PORT SERVICE
//! COUNT` on another. Behind either, SECONDS say how late a message may be: 60 without them.
//!
//! First the ends talk in turn, so that each message has to wake a thread, once waiting by the
//! library and once by an event loop of their own. Then one of them sends and the other receives, and
//! first one, then the other turns to something else after each message: what it has just done must
//! get to an end that sleeps all the same. At last both talk at once, with messages of every size and
//! with pauses, so that now receivers and now senders sleep. A message that is lost,
//! late, doubled, torn or out of order ends it with an error.

use rustix::event::{Timespec, epoll};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use weft::{Channel, Connect, Port, Receiver, Sender};

/// How late a message may be, unless told otherwise.
const PATIENCE: u32 = 60;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A sequence that looks random, the same at both ends.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

fn fill(payload: &mut Vec<u8>, random: &mut Random, longest: usize) {
    let len = match random.below(8) {
        0..4 => random.below(49),
        4..7 => random.below(4096),
        _ => random.below(longest as u64 + 1),
    };
    let seed = random.below(1 << 30);
    payload.clear();
    payload.extend((0..len).map(|n| (seed + n * 7 + n / 256) as u8));
}

fn check(tag: u64, number: u64, got: &[u8], wanted: &[u8]) -> Result<()> {
    if tag != number {
        return Err(format!("message {tag} instead of {number}").into());
    }
    if got != wanted {
        return Err(format!("message {number} is not what was sent").into());
    }
    Ok(())
}

/// A pause now and then, longer than any end looks before it goes to sleep.
fn pause(random: &mut Random) {
    if random.below(64) == 0 {
        thread::sleep(Duration::from_micros(random.below(2000)));
    }
}

/// What a receiver does in an event loop.
struct Loop(OwnedFd);

impl Loop {
    fn new(channel: &Channel) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, channel, data, epoll::EventFlags::IN)?;
        Ok(Loop(epoll))
    }

    fn recv(
        &self,
        channel: &mut Channel,
        payload: &mut Vec<u8>,
        limit: Option<Duration>,
    ) -> Result<u64> {
        let limit = limit.map(Timespec::try_from).transpose()?;
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }];
        loop {
            if let Some(tag) = channel.try_recv(payload)? {
                return Ok(tag);
            }
            channel.receiver().before_sleep()?;
            if epoll::wait(&self.0, &mut events[..], limit.as_ref())? == 0 {
                return Err("epoll: timed out waiting for a message".into());
            }
        }
    }
}

fn in_turn(
    channel: &mut Channel,
    first: bool,
    count: u64,
    by: Option<&Loop>,
    limit: Duration,
) -> Result<()> {
    let limit = Some(limit);
    let mut random = Random(11);
    let (mut payload, mut got) = (Vec::new(), Vec::new());
    for number in 0..count {
        fill(&mut payload, &mut random, 256);
        if (number % 2 == 0) == first {
            channel.send(&payload, number, limit)?;
        } else {
            let tag = match by {
                Some(by) => by.recv(channel, &mut got, limit)?,
                None => channel.recv(&mut got, limit)?,
            };
            check(tag, number, &got, &payload)?;
        }
    }
    Ok(())
}

/// One end sends and the other receives. The one that is `slow` does something else after each
/// message, for which it needs nothing of the channel.
fn one_way(
    channel: &mut Channel,
    sends: bool,
    slow: bool,
    count: u64,
    limit: Duration,
) -> Result<()> {
    let limit = Some(limit);
    let (mut random, mut when) = (Random(12), Random(13));
    let (mut payload, mut got) = (Vec::new(), Vec::new());
    for number in 0..count {
        fill(&mut payload, &mut random, 256);
        if sends {
            channel.send(&payload, number, limit)?;
        } else {
            let tag = channel.recv(&mut got, limit)?;
            check(tag, number, &got, &payload)?;
        }
        if slow {
            thread::sleep(Duration::from_micros(when.below(4000)));
        }
    }
    Ok(())
}

fn send(mut sender: Sender, seed: u64, count: u64, limit: Duration) -> Result<()> {
    let limit = Some(limit);
    let (mut random, mut when) = (Random(seed), Random(seed + 100));
    let mut payload = Vec::new();
    for number in 0..count {
        fill(&mut payload, &mut random, sender.longest());
        sender.send(&payload, number, limit)?;
        pause(&mut when);
    }
    Ok(sender.finish(limit)?)
}

fn receive(
    mut receiver: Receiver,
    longest: usize,
    seed: u64,
    count: u64,
    limit: Duration,
) -> Result<()> {
    let limit = Some(limit);
    let (mut random, mut when) = (Random(seed), Random(seed + 200));
    let (mut payload, mut got) = (Vec::new(), Vec::new());
    for number in 0..count {
        fill(&mut payload, &mut random, longest);
        let tag = receiver.recv(&mut got, limit)?;
        check(tag, number, &got, &payload)?;
        pause(&mut when);
    }
    match receiver.recv(&mut got, limit) {
        Err(weft::Error::Ended) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(tag) => Err(format!("message {tag} after the last one").into()),
    }
}

fn at_once(channel: Channel, first: bool, count: u64, limit: Duration) -> Result<()> {
    let longest = channel.longest();
    let (sender, receiver) = channel.split();
    let (mine, yours) = if first { (1, 2) } else { (2, 1) };
    let sending = thread::spawn(move || send(sender, mine, count, limit));
    let received = receive(receiver, longest, yours, count, limit);
    let sent = sending.join().map_err(|_| "the sending thread panicked")?;
    received.and(sent)
}

fn run(arguments: &[String]) -> Result<()> {
    let usage = "usage: weft-soak listen PORT SERVICE [SECONDS] | \
                 weft-soak connect PORT SERVICE COUNT [SECONDS]";
    let numbers: Vec<u32> = arguments.iter().skip(1).map_while(|a| a.parse().ok()).collect();
    let limit =
        |seconds: &[u32]| Duration::from_secs(seconds.first().copied().unwrap_or(PATIENCE).into());
    let (mut channel, count, first, limit) =
        match (arguments.first().map(String::as_str), &numbers[..]) {
            (Some("listen"), [port, service, seconds @ ..]) if seconds.len() < 2 => {
                let listener = Port::open(*port)?.listen(*service, 1)?;
                println!("listening");
                let limit = limit(seconds);
                let mut channel = listener.accept(Some(limit))?;
                let mut payload = Vec::new();
                let count = channel.recv(&mut payload, Some(limit))?;
                (channel, count, false, limit)
            }
            (Some("connect"), [port, service, count, seconds @ ..]) if seconds.len() < 2 => {
                // Small rings fill up.
                let connect = Connect::to_link(0, *service).cells(16).bulk(8192);
                let mut channel = Port::open(*port)?.connect(&connect)?;
                let limit = limit(seconds);
                channel.send(b"", (*count).into(), Some(limit))?;
                (channel, u64::from(*count), true, limit)
            }
            _ => return Err(usage.into()),
        };
    let start = Instant::now();
    in_turn(&mut channel, first, count, None, limit)?;
    let by = Loop::new(&channel)?;
    in_turn(&mut channel, first, count, Some(&by), limit)?;
    drop(by);
    let turns = start.elapsed();
    for sends in [first, !first] {
        for slow in [sends, !sends] {
            one_way(&mut channel, sends, slow, count.div_ceil(8), limit)?;
        }
    }
    let ways = start.elapsed();
    at_once(channel, first, count, limit)?;
    println!(
        "twice {count} messages in turn in {turns:.1?}, one way in {:.1?}, {count} each way at once \
         in {:.1?}",
        ways - turns,
        start.elapsed() - ways
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-soak: {error}");
            ExitCode::FAILURE
        }
    }
}
