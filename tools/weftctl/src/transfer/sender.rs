// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The sender's end of a transfer: one file, as many connections as it takes.

use super::digest::{Digest, Hasher};
use super::message::{Code, Id, MAX_SIZE, Message, Offer, printable};
use super::{Broken, CHUNK, Connect, NoConnection, Patience, Report, Want, Watcher, Wire};
use crate::failure::{Failure, Kind, plain};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A file that does not change while it is sent, or is found out.
pub struct Source {
    file: File,
    shown: String,
    name: Vec<u8>,
    state: (u64, i64, i64),
}

fn state(file: &File) -> std::io::Result<(u64, i64, i64)> {
    let meta = file.metadata()?;
    Ok((meta.len(), meta.mtime(), meta.mtime_nsec()))
}

impl Source {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let shown = printable(path.as_os_str().as_bytes());
        let failed = |why: String| Failure::new(Kind::Failed, format!("{shown}: {why}"));
        // Not blocking: a FIFO is to be refused, not waited for.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map_err(|e| failed(format!("cannot open: {}", plain(e))))?;
        let meta = file.metadata().map_err(|e| failed(plain(e)))?;
        if !meta.is_file() {
            return Err(failed("not a regular file".into()).hint("only these can be sent"));
        }
        let state = state(&file).map_err(|e| failed(plain(e)))?;
        if state.0 > MAX_SIZE {
            return Err(failed(format!("{} bytes; at most {MAX_SIZE} can be sent", state.0)));
        }
        let name = path.file_name().map(|name| name.as_bytes().to_vec());
        let name = name.ok_or_else(|| failed("the path ends without a name".into()))?;
        Ok(Source { file, shown, name, state })
    }

    /// Its size when it was opened.
    pub fn size(&self) -> u64 {
        self.state.0
    }

    fn changed(&self) -> Failure {
        let message = format!("{}: changed while it was sent", self.shown);
        Failure::new(Kind::Integrity, message).hint("send it again when no program writes to it")
    }

    /// Fills `buffer` from `offset` on; the file must be that long.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.changed(),
            _ => Failure::new(Kind::Failed, format!("{}: cannot read: {}", self.shown, plain(e))),
        })
    }

    fn check(&self) -> Result<(), Failure> {
        match state(&self.file) {
            Ok(now) if now == self.state => Ok(()),
            Ok(_) => Err(self.changed()),
            Err(e) => Err(Failure::new(Kind::Failed, format!("{}: {}", self.shown, plain(e)))),
        }
    }
}

/// Why a connection is done with.
enum Stop {
    /// To be tried over another one.
    Broken(Broken),
    /// For good.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// A transfer of one file.
pub struct Sender<'a> {
    source: Source,
    id: Id,
    patience: Patience,
    watcher: Watcher<'a>,
    chunk: usize,
    sum: Hasher,
    /// What the receiver said that it has.
    confirmed: u64,
    /// How far this end got, at most.
    reached: u64,
    ended: bool,
    deadline: Instant,
    incoming: Vec<u8>,
}

fn refused(code: Code, text: &str) -> Failure {
    let kind = if code == Code::Mismatch { Kind::Integrity } else { Kind::Failed };
    let failure = Failure::new(kind, format!("the receiver refused the file: {text}"));
    match code {
        Code::Exists => failure.hint("run weftctl recv --force there to replace it"),
        _ => failure,
    }
}

impl<'a> Sender<'a> {
    /// A transfer that has not begun.
    pub fn new(source: Source, id: Id, patience: Patience, watcher: Watcher<'a>) -> Self {
        Sender {
            source,
            id,
            patience,
            watcher,
            chunk: CHUNK,
            sum: Hasher::default(),
            confirmed: 0,
            reached: 0,
            ended: false,
            deadline: Instant::now(),
            incoming: Vec::new(),
        }
    }

    /// Sends fewer bytes in a message, 1 to [`CHUNK`].
    #[must_use]
    pub fn chunk(mut self, bytes: usize) -> Self {
        self.chunk = bytes.clamp(1, CHUNK);
        self
    }

    /// Sends the file, over as many connections as it takes.
    pub fn run<C: Connect>(mut self, connect: &mut C) -> Result<Report, Failure> {
        let start = Instant::now();
        self.touch();
        let mut connections = 0u32;
        let mut pause = self.patience.pause;
        let mut said: Option<Failure> = None;
        loop {
            let before = self.confirmed;
            let begun = Instant::now();
            let why = match connect.connect(self.deadline) {
                Ok(mut wire) => {
                    connections += 1;
                    match self.serve(&mut wire) {
                        Ok(there) => {
                            return Ok(Report {
                                bytes: self.source.size(),
                                elapsed: start.elapsed(),
                                here: self.sum.digest(),
                                there,
                                resumed: connections - 1,
                            });
                        }
                        Err(Stop::Failed(failure)) => return Err(failure),
                        Err(Stop::Broken(broken)) => self.gone(&broken),
                    }
                }
                Err(NoConnection { failure, passing, unanswered }) => {
                    let first = connections == 0 && !self.patience.at_first;
                    if first || !passing {
                        return Err(failure);
                    }
                    // An attempt that the deadline cut short says less than the one before it.
                    let short = unanswered && begun.elapsed() < self.patience.longest;
                    said.take().filter(|_| short).unwrap_or(failure)
                }
            };
            if self.confirmed > before {
                pause = self.patience.pause;
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(why);
            }
            said = Some(why);
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(self.patience.longest);
        }
    }

    fn gone(&self, broken: &Broken) -> Failure {
        let message = format!(
            "{}: the connection broke after {} of {} bytes, and none came about in {} s: {broken}",
            self.source.shown,
            self.confirmed,
            self.source.size(),
            self.patience.timeout.as_secs_f64(),
        );
        Failure::new(Kind::Unreachable, message).hint("see weftctl show; --timeout waits longer")
    }

    fn silent(&self) -> Stop {
        let message = format!(
            "{}: the receiver has taken nothing for {} s, after {} of {} bytes",
            self.source.shown,
            self.patience.timeout.as_secs_f64(),
            self.confirmed,
            self.source.size(),
        );
        Failure::new(Kind::Unreachable, message)
            .hint("it may be serving another sender; --timeout waits longer")
            .into()
    }

    fn touch(&mut self) {
        let now = Instant::now();
        self.deadline = now.checked_add(self.patience.timeout).unwrap_or(now + DAY);
    }

    /// One connection, from the offer to the verdict.
    fn serve<W: Wire>(&mut self, wire: &mut W) -> Result<Digest, Stop> {
        let size = self.source.size();
        let offer = Offer { id: self.id, size, name: self.source.name.clone() };
        self.send(wire, &Message::Offer(offer))?;
        let mut at = self.answer(wire)?;
        let mut buffer = vec![0; self.chunk];
        while at < size {
            let left = usize::try_from(size - at).unwrap_or(usize::MAX);
            let n = self.chunk.min(left);
            let chunk = buffer.get_mut(..n).unwrap_or_default();
            if let Err(failure) = self.source.read(at, chunk) {
                return Err(self.abort(wire, failure));
            }
            self.sum.update(at, chunk);
            self.send(wire, &Message::Data(at, chunk))?;
            at += n as u64;
            self.reached = self.reached.max(at);
            self.drain(wire)?;
        }
        if let Err(failure) = self.source.check() {
            return Err(self.abort(wire, failure));
        }
        let here = self.sum.digest();
        self.send(wire, &Message::End(size, here))?;
        if !self.ended {
            // From here on the receiver may be busy writing, and cannot say so.
            self.ended = true;
            self.touch();
        }
        let there = self.verdict(wire)?;
        if there != here {
            let message =
                format!("{}: SHA-256 {there} arrived, {here} was sent", self.source.shown);
            return Err(Failure::new(Kind::Integrity, message).into());
        }
        (self.watcher)(size, size);
        Ok(there)
    }

    /// The receiver's answer to an offer: where to go on.
    fn answer<W: Wire>(&mut self, wire: &mut W) -> Result<u64, Stop> {
        loop {
            match self.next(wire)? {
                Said::GoOn(offset) if offset > self.reached => {
                    let message = format!(
                        "the receiver claims to have {offset} bytes of {}; {} were sent",
                        self.source.shown, self.reached
                    );
                    return Err(Failure::new(Kind::Failed, message).into());
                }
                Said::GoOn(offset) => {
                    // Less than before: the receiver was restarted. Its progress
                    // counts anew.
                    if offset != self.confirmed {
                        self.touch();
                    }
                    self.confirmed = offset;
                    (self.watcher)(offset, self.source.size());
                    return Ok(offset);
                }
                Said::Progress => {}
                Said::Verdict(_) => return Err(self.disorder("a verdict")),
            }
        }
    }

    fn verdict<W: Wire>(&mut self, wire: &mut W) -> Result<Digest, Stop> {
        loop {
            match self.next(wire)? {
                Said::Verdict(digest) => return Ok(digest),
                Said::Progress => {}
                Said::GoOn(_) => return Err(self.disorder("a second answer")),
            }
        }
    }

    fn disorder(&self, what: &str) -> Stop {
        let message = format!("{}: {what} from the receiver out of turn", self.source.shown);
        Failure::new(Kind::Failed, message).into()
    }

    /// Tells the receiver that there will be no more, as far as that is possible.
    fn abort<W: Wire>(&mut self, wire: &mut W, failure: Failure) -> Stop {
        match self.send(wire, &Message::Abort(failure.message.clone())) {
            // What the receiver had to say does not matter any more.
            Ok(()) | Err(_) => failure.into(),
        }
    }

    /// Sends a message. While there is no room, what came is taken: the receiver
    /// may wait for that.
    fn send<W: Wire>(&mut self, wire: &mut W, message: &Message<'_>) -> Result<(), Stop> {
        let (tag, payload) = message.encode();
        loop {
            let sent = wire.try_send(tag, &payload);
            if let Ok(true) = sent {
                return Ok(());
            }
            // Perhaps it said why before it closed.
            self.drain(wire)?;
            sent.map_err(Stop::Broken)?;
            if Instant::now() >= self.deadline {
                return Err(self.silent());
            }
            if let Err(broken) = wire.wait(Want::Either, self.deadline) {
                self.drain(wire)?;
                return Err(Stop::Broken(broken));
            }
        }
    }

    /// Takes what came while sending: progress, or an early end.
    fn drain<W: Wire>(&mut self, wire: &mut W) -> Result<(), Stop> {
        while let Some(said) = self.try_next(wire)? {
            match said {
                Said::Progress => {}
                Said::GoOn(_) => return Err(self.disorder("a second answer")),
                Said::Verdict(_) => return Err(self.disorder("a verdict")),
            }
        }
        Ok(())
    }

    fn next<W: Wire>(&mut self, wire: &mut W) -> Result<Said, Stop> {
        loop {
            if let Some(said) = self.try_next(wire)? {
                return Ok(said);
            }
            if Instant::now() >= self.deadline {
                return Err(self.silent());
            }
            if let Err(broken) = wire.wait(Want::Message, self.deadline) {
                // What came before the break is still to be read.
                return self.try_next(wire)?.ok_or(Stop::Broken(broken));
            }
        }
    }

    fn try_next<W: Wire>(&mut self, wire: &mut W) -> Result<Option<Said>, Stop> {
        let Some(tag) = wire.try_receive(&mut self.incoming).map_err(Stop::Broken)? else {
            return Ok(None);
        };
        let said = match Message::decode(tag, &self.incoming) {
            Ok(Message::GoOn(offset)) => Said::GoOn(offset),
            Ok(Message::Verdict(digest)) => Said::Verdict(digest),
            Ok(Message::Refused(code, text)) => return Err(refused(code, &text).into()),
            Ok(Message::Progress(offset)) if offset <= self.reached => {
                if offset > self.confirmed {
                    self.confirmed = offset;
                    self.touch();
                    (self.watcher)(offset, self.source.size());
                }
                Said::Progress
            }
            Ok(_) => return Err(self.disorder("a message")),
            Err(why) => {
                let message = format!("the receiver sent {}", printable(why.as_bytes()));
                return Err(Failure::new(Kind::Failed, message).into());
            }
        };
        Ok(Some(said))
    }
}

/// What a receiver says that does not end the transfer.
enum Said {
    GoOn(u64),
    Progress,
    Verdict(Digest),
}

const DAY: Duration = Duration::from_secs(86400);
