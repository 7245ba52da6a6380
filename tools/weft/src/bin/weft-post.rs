// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Posts requests to a queue pair for as long as its port lets it: `weft-post listen NUMBER SERVICE` on
//! one host, `weft-post care HWID SERVICE` or `weft-post careless HWID SERVICE` on another.
//!
//! The careful one posts no more when the port is to be taken away, and waits for its completions; the
//! careless one goes on until the port is gone, and has requests outstanding all the time: one of them is a
//! SEND, for which the other end posts no receive request. Either way each request has one completion then, in
//! order, and none succeeds behind one that was flushed; else it ends with an error.

use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft::{Connect, Cq, Error, Port, QpOptions, QpState, Remote, Request, Rights, Sge, Status};
use weft::{Qp, verbs, verbs::Offer};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const LATE: Duration = Duration::from_secs(90);
const BYTES: usize = 64 << 10;
const ENTRIES: u32 = 64;
/// Number of the SEND of the careless one.
const BLOCKED: u64 = 100;

fn listen(number: u32, service: u32) -> Result<()> {
    let port = Port::open(number)?;
    let listener = port.listen(service, 1)?;
    println!("listening");
    let mut channel = listener.accept(PATIENCE)?;
    let objects = port.objects()?;
    let (pd, cq) = (objects.pd()?, objects.cq(256)?);
    let memory = pd.region(BYTES, Rights::ALL)?;
    let offer = Offer { remote: memory.remote(0), bytes: BYTES as u64 };
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new())?;
    verbs::join(&mut channel, &mut qp, Rights::REMOTE, &[offer], PATIENCE, |_| Ok(()))?;
    let begin = Instant::now();
    while begin.elapsed() < LATE * 2 {
        if matches!(qp.status(), Ok(status) if status.state == QpState::Error) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the peer's queue pair does not end".into())
}

/// What was posted, and what became of it.
#[derive(Default)]
struct Counts {
    care: bool,
    posted: u64,
    done: u64,
    flushed: u64,
}

impl Counts {
    fn post(&mut self, qp: &mut Qp, [long, short]: [Sge; 2], to: Remote) -> Result<()> {
        let (long, short) = ([long], [short]);
        while self.posted - self.done - self.flushed < u64::from(ENTRIES) {
            let request = match self.posted {
                BLOCKED if !self.care => Request::send(BLOCKED, &short),
                number => Request::write(number, &long, to),
            };
            if !qp.post(&request.signaled())? {
                break;
            }
            self.posted += 1;
        }
        match qp.ring() {
            // It hears of it by its completions.
            Ok(()) | Err(Error::Gone) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn complete(&mut self, cq: &mut Cq) -> Result<bool> {
        let Some(completion) = cq.poll()? else { return Ok(false) };
        let wanted = self.done + self.flushed;
        if completion.wr_id != wanted {
            return Err(
                format!("request {} completes instead of {wanted}", completion.wr_id).into()
            );
        }
        match completion.status {
            Status::Success if self.flushed == 0 => self.done += 1,
            Status::Success => return Err("a request succeeds behind one that was flushed".into()),
            _ => self.flushed += 1,
        }
        Ok(true)
    }

    fn all(&self) -> bool {
        self.done + self.flushed == self.posted
    }
}

fn post(hwid: u64, service: u32, care: bool) -> Result<()> {
    let port = Port::find(hwid)?.ok_or("no port has that id")?;
    let mut channel = port.connect(&Connect::to_link(0, service))?;
    let objects = port.objects()?;
    let (pd, mut cq) = (objects.pd()?, objects.cq(256)?);
    let memory = pd.region(BYTES, Rights::ALL)?;
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new().entries(ENTRIES, 16))?;
    let theirs = verbs::join(&mut channel, &mut qp, Rights::REMOTE, &[], PATIENCE, |_| Ok(()))?;
    let to = theirs.first().ok_or("the other end offers nothing")?.remote;
    let data = [memory.sge(0, 16 << 10), memory.sge(0, 64)];
    drop(channel);
    let mut counts = Counts { care, ..Counts::default() };
    let mut posting = false;
    let (mut asked, mut gone): (bool, Option<Instant>) = (false, None);
    let begin = Instant::now();
    while begin.elapsed() < LATE {
        asked |= port.wait_asked(Some(Duration::ZERO))?;
        let is_gone = matches!(port.info(), Err(Error::Gone));
        if is_gone {
            gone.get_or_insert_with(Instant::now);
        }
        if gone.is_none() && !(care && asked) {
            counts.post(&mut qp, data, to)?;
        }
        let more = counts.complete(&mut cq)?;
        if !posting && (care || counts.done == BLOCKED) {
            println!("posting");
            posting = true;
        }
        if gone.is_some() && !more && counts.all() {
            if care && counts.flushed != 0 {
                return Err(format!("{} requests were flushed", counts.flushed).into());
            }
            let Counts { posted, done, flushed, .. } = counts;
            println!("{posted} posted, {done} done, {flushed} flushed");
            return Ok(());
        }
        if gone.is_some_and(|since| since.elapsed() > Duration::from_secs(10)) {
            let Counts { posted, done, flushed, .. } = counts;
            return Err(format!("{posted} posted, {done} done, {flushed} flushed").into());
        }
    }
    Err("the port is not taken away".into())
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["listen", number, service] => listen(number.parse()?, service.parse()?),
        [how @ ("care" | "careless"), hwid, service] => {
            let hwid = u64::from_str_radix(hwid.trim_start_matches("0x"), 16)?;
            post(hwid, service.parse()?, how == "care")
        }
        _ => Err("weft-post listen NUMBER SERVICE | weft-post care|careless HWID SERVICE".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft-post: {e}");
            ExitCode::FAILURE
        }
    }
}
