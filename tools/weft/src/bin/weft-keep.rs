// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Keeps a queue pair busy in both directions, whatever becomes of what is below it: `weft-keep listen
//! NUMBER SERVICE [PACE]` on one host, `weft-keep run HWID[:LINK] SERVICE STOP [PACE]` on another, over
//! link 0 or that one; or `run HWID:self …` on the same host.
//!
//! An end posts as many requests as its window holds, or, with a PACE, one in so many milliseconds on
//! average, so that its machine has time for other work.
//!
//! Each end sends numbered messages of all sizes, writes to, reads from and counts up memory of the
//! other one. It ends with an error if a completion is missing, comes twice, in another order or without
//! success, if a message is not the next one or not what was sent, if a count was made twice or not at
//! all, or if number or STag of something have changed. Once the file STOP is there both end, and say how
//! much there was and how long it took in between.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft::verbs::{self, Offer};
use weft::{
    Connect, Cq, Error, Mr, Operation, Port, Qp, QpOptions, QpState, Remote, Request, Rights,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// Nothing at all for so long is an error.
const LATE: Duration = Duration::from_secs(40);
/// A gap between completions that is told of.
const PAUSE: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(5);
/// Requests under way, and receive requests, at most.
const WINDOW: u64 = 16;
/// The longest message.
const MOST: usize = 160 << 10;
/// A pattern that the peer reads, and a place that it writes to.
const BLOCK: usize = 8 << 10;
const READ_AT: usize = 64;
const WRITE_AT: usize = READ_AT + BLOCK;
const RECV_AT: usize = WRITE_AT + BLOCK;
const SEND_AT: usize = RECV_AT + WINDOW as usize * MOST;
const BACK_AT: usize = SEND_AT + WINDOW as usize * MOST;
const BYTES: usize = BACK_AT + WINDOW as usize * BLOCK;
/// Immediate data of the message behind which there is none.
const END: u32 = 0x454e_4421;

/// What request `number` is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Send(usize),
    Write,
    Read,
    Count,
}

fn kind(number: u64) -> Kind {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    match mixed % 16 {
        0 => Kind::Write,
        1 => Kind::Read,
        2 | 3 => Kind::Count,
        4 => Kind::Send(8 + mixed as usize % (MOST - 8)),
        5..=8 => Kind::Send(8 + mixed as usize % 48),
        _ => Kind::Send(8 + mixed as usize % 3000),
    }
}

/// Message `number`: that, and a pattern of it.
fn fill(to: &mut Vec<u8>, number: u64, bytes: usize) {
    to.clear();
    to.extend(number.to_le_bytes());
    to.extend((8..bytes as u64).map(|n| (number.wrapping_mul(31) + n * 7 + (n >> 8)) as u8));
}

/// One end.
struct End {
    qp: Qp,
    cq: Cq,
    memory: Mr,
    theirs: Remote,
    /// Numbers of queue pair and region at the beginning.
    named: (u32, u32),
    /// Requests posted and completed; messages among them, and counts.
    posted: u64,
    done: u64,
    sent: u64,
    counted: u64,
    received: u64,
    ending: bool,
    ended: bool,
    pace: Option<Duration>,
    began: Instant,
    last: Instant,
    longest: Duration,
    pauses: Vec<Duration>,
    wanted: Vec<u8>,
    got: Vec<u8>,
}

impl End {
    /// How long it takes until the pace allows for one more request.
    fn early(&self) -> Duration {
        let due = self.pace.map_or(Duration::ZERO, |pace| pace.mul_f64(self.posted as f64));
        due.saturating_sub(self.began.elapsed())
    }

    fn post(&mut self) -> Result<()> {
        let before = self.posted;
        while self.posted - self.done < WINDOW && !self.ending && self.early().is_zero() {
            let (number, slot) = (self.posted, (self.posted % WINDOW) as usize);
            let back = BACK_AT + slot * BLOCK;
            let at = SEND_AT + slot * MOST;
            let posted = match kind(number) {
                Kind::Send(bytes) => {
                    let mut message = std::mem::take(&mut self.wanted);
                    fill(&mut message, self.sent, bytes);
                    self.memory.write(at, &message);
                    self.wanted = message;
                    let list = [self.memory.sge(at, bytes)];
                    self.qp.post(&Request::send(number, &list).signaled())?
                }
                Kind::Write => {
                    let list = [self.memory.sge(READ_AT, BLOCK)];
                    let to = self.theirs.offset(WRITE_AT as u64);
                    self.qp.post(&Request::write(number, &list, to).signaled())?
                }
                Kind::Read => {
                    self.memory.write(back, &[0; BLOCK]);
                    let list = [self.memory.sge(back, BLOCK)];
                    let from = self.theirs.offset(READ_AT as u64);
                    self.qp.post(&Request::read(number, &list, from).signaled())?
                }
                Kind::Count => {
                    let list = [self.memory.sge(back, 8)];
                    self.qp.post(&Request::fetch_add(number, &list, self.theirs, 1).signaled())?
                }
            };
            if !posted {
                break;
            }
            self.posted += 1;
            self.sent += u64::from(matches!(kind(number), Kind::Send(_)));
        }
        if self.posted != before {
            self.qp.ring()?;
        }
        Ok(())
    }

    /// The message behind which there is none.
    fn end(&mut self) -> Result<()> {
        // Later the other end may be gone.
        let (status, named) = (self.qp.status()?, (self.qp.qpn(), self.memory.stag()));
        if status.state != QpState::ReadyToSend || named != self.named {
            return Err(format!("{status:?}, {named:?} instead of {:?}", self.named).into());
        }
        while self.posted - self.done >= WINDOW {
            self.take(true)?;
        }
        self.ending = true;
        let number = self.posted;
        self.memory.write(SEND_AT + (number % WINDOW) as usize * MOST, &self.sent.to_le_bytes());
        let list = [self.memory.sge(SEND_AT + (number % WINDOW) as usize * MOST, 8)];
        if !self.qp.post(&Request::send(number, &list).imm(END).signaled())? {
            return Err("there is no room for the last message".into());
        }
        self.posted += 1;
        self.qp.ring()?;
        Ok(())
    }

    fn check_pattern(&mut self, at: usize) -> Result<()> {
        fill(&mut self.wanted, 0, BLOCK);
        self.got.resize(BLOCK, 0);
        self.memory.read(at, &mut self.got);
        if self.got != self.wanted {
            return Err(format!("what was read at {at} is not what is there").into());
        }
        Ok(())
    }

    /// Takes completions. False: there was none.
    fn take(&mut self, sleeps: bool) -> Result<bool> {
        let mut next = self.cq.poll()?;
        if next.is_none() && sleeps {
            next = match self.cq.wait(Some(POLL.max(self.early()))) {
                Ok(completion) => Some(completion),
                Err(Error::TimedOut(_)) => None,
                Err(e) => return Err(e.into()),
            };
        }
        let Some(completion) = next else {
            if self.last.elapsed() > LATE {
                let why = self.qp.status()?;
                return Err(format!("nothing has happened for {LATE:?}: {why:?}").into());
            }
            return Ok(false);
        };
        let gap = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        self.longest = self.longest.max(gap);
        if gap >= PAUSE {
            self.pauses.push(gap);
        }
        let completion = completion.must()?;
        if completion.qpn != self.qp.qpn() {
            return Err(format!("a completion of queue pair {}", completion.qpn).into());
        }
        if completion.operation == Operation::Recv {
            return self.received(completion.wr_id, completion.bytes as usize, completion.imm);
        }
        if completion.wr_id != self.done {
            return Err(format!("{} is done instead of {}", completion.wr_id, self.done).into());
        }
        let back = BACK_AT + (self.done % WINDOW) as usize * BLOCK;
        let last = self.ending && self.done + 1 == self.posted;
        match kind(self.done) {
            _ if last => {}
            Kind::Read => self.check_pattern(back)?,
            Kind::Count => {
                let old = self.memory.load(back);
                if old != self.counted {
                    return Err(format!("counted to {old} instead of {}", self.counted).into());
                }
                self.counted += 1;
            }
            Kind::Send(_) | Kind::Write => {}
        }
        self.done += 1;
        Ok(true)
    }

    fn received(&mut self, wr_id: u64, bytes: usize, imm: Option<u32>) -> Result<bool> {
        let at = RECV_AT + (wr_id % WINDOW) as usize * MOST;
        if wr_id != self.received || self.ended {
            return Err(format!("{wr_id} is received instead of {}", self.received).into());
        }
        let number = self.received;
        self.got.resize(bytes, 0);
        self.memory.read(at, &mut self.got);
        self.ended = imm == Some(END);
        if self.ended {
            self.wanted = number.to_le_bytes().to_vec();
        } else {
            fill(&mut self.wanted, number, bytes);
        }
        if self.got != self.wanted {
            return Err(format!("message {number} of {bytes} bytes is another").into());
        }
        self.received += 1;
        if !self.qp.post_recv(number + WINDOW, &[self.memory.sge(at, MOST)])? {
            return Err("there is no room for a receive request".into());
        }
        self.qp.ring()?;
        Ok(true)
    }

    /// Both have said all, and know it.
    fn is_over(&self) -> bool {
        self.ended && self.ending && self.done == self.posted
    }

    /// Until both have said all.
    fn run(&mut self, stop: Option<&Path>) -> Result<()> {
        while !self.is_over() {
            self.post()?;
            if !self.ending && (self.ended || stop.is_some_and(Path::exists)) {
                self.end()?;
            }
            let mut sleeps = true;
            // The other end may be gone as soon as it is over.
            while !self.is_over() && self.take(sleeps)? {
                sleeps = false;
            }
        }
        self.check_pattern(WRITE_AT)
    }

    fn says(&self) -> String {
        let pauses: Vec<_> = self.pauses.iter().map(|p| p.as_millis().to_string()).collect();
        format!(
            "queue pair {}, {} done, {} received, {} counted, longest {:.1} ms, pauses [{}] ms",
            self.qp.qpn(),
            self.done,
            self.received,
            self.counted,
            self.longest.as_secs_f64() * 1e3,
            pauses.join(", ")
        )
    }
}

fn begin(port: &Port, mut channel: weft::Channel, pace: Option<Duration>) -> Result<End> {
    let objects = port.objects()?;
    let (pd, cq) = (objects.pd()?, objects.cq(256)?);
    let memory = pd.region(BYTES, Rights::ALL)?;
    let mut pattern = Vec::new();
    fill(&mut pattern, 0, BLOCK);
    memory.write(READ_AT, &pattern);
    memory.write(WRITE_AT, &pattern);
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new())?;
    let offer = Offer { remote: memory.remote(0), bytes: BYTES as u64 };
    let theirs = verbs::join(&mut channel, &mut qp, Rights::REMOTE, &[offer], PATIENCE, |qp| {
        for n in 0..WINDOW {
            let at = RECV_AT + n as usize * MOST;
            qp.post_recv(n, &[memory.sge(at, MOST)])?;
        }
        Ok(())
    })?;
    let theirs = theirs.first().ok_or("the other end offers nothing")?.remote;
    // It would break where the queue pair does not.
    verbs::part(&mut channel, PATIENCE)?;
    Ok(End {
        named: (qp.qpn(), memory.stag()),
        qp,
        cq,
        memory,
        theirs,
        posted: 0,
        done: 0,
        sent: 0,
        counted: 0,
        received: 0,
        ending: false,
        ended: false,
        pace,
        began: Instant::now(),
        last: Instant::now(),
        longest: Duration::ZERO,
        pauses: Vec::new(),
        wanted: Vec::new(),
        got: Vec::new(),
    })
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (port, channel, stop, pace) = match words[..] {
        ["listen", number, service, ref pace @ ..] if pace.len() < 2 => {
            let port = Port::open(number.parse()?)?;
            let listener = port.listen(service.parse()?, 1)?;
            println!("listening");
            let channel = listener.accept(PATIENCE)?;
            (port, channel, None, pace.first())
        }
        ["run", place, service, stop, ref pace @ ..] if pace.len() < 2 => {
            let (hwid, link) = place.split_once(':').unwrap_or((place, "0"));
            let hwid = u64::from_str_radix(hwid.trim_start_matches("0x"), 16)?;
            let port = Port::find(hwid)?.ok_or("no port has that id")?;
            let service = service.parse()?;
            let channel = port.connect(&match link {
                "self" => Connect::to_peer(hwid, service),
                link => Connect::to_link(link.parse()?, service),
            })?;
            (port, channel, Some(Path::new(stop)), pace.first())
        }
        _ => {
            return Err(
                "weft-keep listen NUMBER SERVICE [PACE] | weft-keep run HWID[:LINK|:self] SERVICE STOP [PACE]"
                    .into(),
            );
        }
    };
    let pace = pace.map(|text| text.parse().map(Duration::from_millis)).transpose()?;
    let mut end = begin(&port, channel, pace)?;
    println!("running");
    match end.run(stop) {
        Ok(()) => {
            println!("{}", end.says());
            Ok(())
        }
        Err(e) => Err(format!("{e}; {}", end.says()).into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft-keep: {e}");
            ExitCode::FAILURE
        }
    }
}
