// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The receiver's end: one connection after another, each of which brings a file
//! or a further piece of one.

use super::digest::{Digest, Hasher};
use super::folder::{Folder, No, Part, check_name};
use super::message::{Code, Message, Offer, printable};
use super::{Broken, Report, Want, Watcher, Wire};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Transfers that are remembered while they have no connection.
const MAX_UNFINISHED: usize = 8;
/// Transfers whose verdict may have to be repeated.
const MAX_FINISHED: usize = 64;
/// So much is left to the disk at once: the last write must not take too long.
const SYNC_BYTES: u64 = 64 << 20;

/// How a receiver behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a peer may be silent, and a transfer without a connection.
    pub timeout: Duration,
    /// Says how far it is after so many bytes.
    pub progress_bytes: u64,
    /// Or after this time.
    pub progress_time: Duration,
    /// What files are called, whatever the sender calls them.
    pub name: Option<OsString>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timeout: Duration::from_secs(30),
            progress_bytes: 1 << 20,
            progress_time: Duration::from_secs(1),
            name: None,
        }
    }
}

/// A transfer that is not whole.
struct Unfinished {
    offer: Offer,
    name: OsString,
    part: Part,
    sum: Hasher,
    synced: u64,
    start: Instant,
    connections: u32,
    /// So many there had been when it began anew.
    before: u32,
    touched: Instant,
}

/// A transfer that is.
struct Finished {
    offer: Offer,
    digest: Digest,
}

/// A file that arrived.
#[derive(Debug)]
pub struct Arrival {
    /// What the sender calls it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What is to be told of it.
    pub report: Report,
}

/// What came of a connection.
#[derive(Debug)]
pub enum Outcome {
    /// A file, whole.
    Arrived(Arrival),
    /// The sender of a file that had arrived has been told so again.
    Confirmed,
    /// The connection broke; the transfer may go on over another one.
    Interrupted(String),
    /// The transfer is over without a file.
    Dropped(String),
    /// What arrived is not what was sent.
    Mismatch(String),
}

/// What came of a connection, and whether the sender knows.
#[derive(Debug)]
pub struct Served {
    /// What came of it.
    pub outcome: Outcome,
    /// The sender closed the connection after the verdict: it has read it.
    pub told: bool,
}

/// Why a connection is done with.
enum Stop {
    /// The connection is of no use any more, the transfer is.
    Broken(String),
    /// The peer is to be told this, the transfer is over.
    No(No),
    /// The sender gave the transfer up.
    Aborted(String),
}

impl From<No> for Stop {
    fn from(no: No) -> Self {
        Stop::No(no)
    }
}

fn protocol(why: String) -> Stop {
    Stop::No((Code::Protocol, why))
}

/// Takes files into a folder.
pub struct Receiver {
    folder: Folder,
    settings: Settings,
    unfinished: Vec<Unfinished>,
    finished: VecDeque<Finished>,
    closing: bool,
    incoming: Vec<u8>,
}

impl Receiver {
    /// One that has nothing yet.
    pub fn new(folder: Folder, settings: Settings) -> Self {
        Receiver {
            folder,
            settings,
            unfinished: Vec::new(),
            finished: VecDeque::new(),
            closing: false,
            incoming: Vec::new(),
        }
    }

    /// Takes no further files; those that arrived are still confirmed.
    pub fn close(&mut self) {
        self.closing = true;
        self.unfinished.clear();
    }

    /// When the next transfer without a connection is to be given up.
    pub fn expiry(&self) -> Option<Instant> {
        self.unfinished.iter().map(|u| u.touched + self.settings.timeout).min()
    }

    /// Gives up transfers that were not continued for too long; returns which.
    pub fn expire(&mut self, now: Instant) -> Vec<String> {
        let timeout = self.settings.timeout;
        let old = |u: &Unfinished| now.saturating_duration_since(u.touched) >= timeout;
        let (given_up, kept) = std::mem::take(&mut self.unfinished).into_iter().partition(old);
        self.unfinished = kept;
        let given_up: Vec<Unfinished> = given_up;
        given_up.iter().map(Unfinished::given_up).collect()
    }

    /// Serves one connection to its end.
    pub fn serve<W: Wire>(&mut self, wire: &mut W, watcher: Watcher<'_>) -> Served {
        let outcome = match self.offered(wire) {
            Ok(Begun::New(unfinished)) => self.fetch(wire, *unfinished, watcher),
            Ok(Begun::Known(index)) => self.repeat(wire, index),
            Err(Stop::Broken(why)) => Outcome::Interrupted(why),
            Err(Stop::Aborted(why)) => Outcome::Dropped(why),
            Err(Stop::No(no)) => self.refuse(wire, no),
        };
        let told = match outcome {
            Outcome::Interrupted(_) => false,
            _ => self.await_close(wire),
        };
        Served { outcome, told }
    }

    /// Waits for an offer and answers it.
    fn offered<W: Wire>(&mut self, wire: &mut W) -> Result<Begun, Stop> {
        let deadline = Instant::now() + self.settings.timeout;
        let tag = self.next(wire, deadline)?;
        let offer = match Message::decode(tag, &self.incoming) {
            Ok(Message::Offer(offer)) => offer,
            Ok(_) => return Err(protocol("the first message is not an offer".into())),
            Err(why) => return Err(protocol(why)),
        };
        if let Some(index) = self.finished.iter().position(|f| f.offer == offer) {
            self.send(wire, &Message::GoOn(offer.size))?;
            return Ok(Begun::Known(index));
        }
        if self.closing {
            return Err(Stop::No((Code::Busy, "the receiver takes no more files".into())));
        }
        let known = self.unfinished.iter().position(|u| u.offer.id == offer.id);
        let mut unfinished = match known.map(|index| self.unfinished.swap_remove(index)) {
            Some(unfinished) if unfinished.offer == offer => unfinished,
            Some(_) => {
                return Err(protocol("an offer with the id of another transfer".into()));
            }
            None => self.begin(offer)?,
        };
        unfinished.connections += 1;
        let at = unfinished.sum.bytes();
        match self.send(wire, &Message::GoOn(at)) {
            Ok(()) => Ok(Begun::New(Box::new(unfinished))),
            Err(stop) => {
                self.keep(unfinished);
                Err(stop)
            }
        }
    }

    fn begin(&self, offer: Offer) -> Result<Unfinished, No> {
        let given = check_name(&offer.name)?;
        let name = self.settings.name.as_deref().unwrap_or(given).to_owned();
        self.folder.check(&name, offer.size)?;
        let part = self.folder.create(&name, offer.id)?;
        let now = Instant::now();
        Ok(Unfinished {
            offer,
            name,
            part,
            sum: Hasher::default(),
            synced: 0,
            start: now,
            connections: 0,
            before: 0,
            touched: now,
        })
    }

    /// Remembers a transfer for its next connection.
    fn keep(&mut self, mut unfinished: Unfinished) {
        unfinished.touched = Instant::now();
        if self.unfinished.len() >= MAX_UNFINISHED {
            self.unfinished.remove(0);
        }
        self.unfinished.push(unfinished);
    }

    /// Takes what the sender has, as far as the connection holds.
    fn fetch<W: Wire>(
        &mut self,
        wire: &mut W,
        mut unfinished: Unfinished,
        watcher: Watcher<'_>,
    ) -> Outcome {
        let theirs = match self.take(wire, &mut unfinished, watcher) {
            Ok(digest) => digest,
            Err(Stop::Broken(why)) => {
                let message = unfinished.interrupted(&why);
                self.keep(unfinished);
                return Outcome::Interrupted(message);
            }
            Err(Stop::Aborted(why)) => {
                let message = format!("{}: given up by the sender: {why}", unfinished.shown());
                return Outcome::Dropped(message);
            }
            Err(Stop::No(no)) => return self.refuse(wire, no),
        };
        self.finish(wire, unfinished, theirs)
    }

    fn take<W: Wire>(
        &mut self,
        wire: &mut W,
        unfinished: &mut Unfinished,
        watcher: Watcher<'_>,
    ) -> Result<Digest, Stop> {
        let size = unfinished.offer.size;
        let mut told = (unfinished.sum.bytes(), Instant::now());
        watcher(told.0, size);
        loop {
            let deadline = Instant::now() + self.settings.timeout;
            let tag = self.next(wire, deadline)?;
            let at = unfinished.sum.bytes();
            match Message::decode(tag, &self.incoming) {
                Ok(Message::Data(offset, data)) => {
                    if offset != at || data.len() as u64 > size - at {
                        let n = data.len();
                        let why = format!("{n} bytes for {offset}, with {at} of {size} here");
                        return Err(protocol(why));
                    }
                    unfinished.write(data)?;
                }
                Ok(Message::End(end, digest)) if end == size && at == size => return Ok(digest),
                Ok(Message::End(end, _)) => {
                    return Err(protocol(format!("an end at {end}, with {at} of {size} here")));
                }
                Ok(Message::Abort(why)) => return Err(Stop::Aborted(why)),
                Ok(_) => return Err(protocol("a message out of turn".into())),
                Err(why) => return Err(protocol(why)),
            }
            let at = unfinished.sum.bytes();
            if at - told.0 >= self.settings.progress_bytes
                || told.1.elapsed() >= self.settings.progress_time
            {
                told = (at, Instant::now());
                watcher(at, size);
                // Without room for it, the next one will say more.
                let (tag, payload) = Message::Progress(at).encode();
                let _ = wire.try_send(tag, &payload);
            }
        }
    }

    /// Compares, names the file and tells the sender.
    fn finish<W: Wire>(
        &mut self,
        wire: &mut W,
        mut unfinished: Unfinished,
        theirs: Digest,
    ) -> Outcome {
        let here = unfinished.sum.digest();
        let why = format!("SHA-256 {here} arrived, {theirs} was sent");
        if here != theirs && unfinished.may_have_holes() {
            let message = unfinished.interrupted(&why);
            return match unfinished.begin_anew() {
                Ok(()) => {
                    self.keep(unfinished);
                    Outcome::Interrupted(message)
                }
                Err(no) => self.refuse(wire, no),
            };
        }
        let Unfinished { offer, name, part, start, connections, .. } = unfinished;
        let shown = printable(&offer.name);
        if here != theirs {
            // Removed before the sender hears of it.
            drop(part);
            let _ = self.send(wire, &Message::Refused(Code::Mismatch, why.clone()));
            return Outcome::Mismatch(format!("{shown}: {why}"));
        }
        if let Err(no) = part.commit(&name) {
            return self.refuse(wire, no);
        }
        let report = Report {
            bytes: offer.size,
            elapsed: start.elapsed(),
            here,
            there: theirs,
            resumed: connections.saturating_sub(1),
        };
        if self.finished.len() >= MAX_FINISHED {
            self.finished.pop_front();
        }
        self.finished.push_back(Finished { offer, digest: here });
        // Broken: the sender will ask again.
        let _ = self.send(wire, &Message::Verdict(here));
        Outcome::Arrived(Arrival { name: shown, path: self.folder.path(&name), report })
    }

    /// Tells the verdict once more to a sender that has missed it.
    fn repeat<W: Wire>(&mut self, wire: &mut W, index: usize) -> Outcome {
        match self.repeated(wire, index) {
            Ok(()) => Outcome::Confirmed,
            Err(Stop::Broken(why)) => Outcome::Interrupted(why),
            Err(Stop::Aborted(why)) => Outcome::Dropped(why),
            Err(Stop::No(no)) => self.refuse(wire, no),
        }
    }

    fn repeated<W: Wire>(&mut self, wire: &mut W, index: usize) -> Result<(), Stop> {
        let deadline = Instant::now() + self.settings.timeout;
        let tag = self.next(wire, deadline)?;
        let known = self.finished.get(index).map(|f| (f.offer.size, f.digest));
        match Message::decode(tag, &self.incoming) {
            Ok(Message::End(size, digest)) if known == Some((size, digest)) => {
                self.send(wire, &Message::Verdict(digest))
            }
            Ok(Message::End(..)) => {
                Err(Stop::No((Code::Mismatch, "another file arrived under this id".into())))
            }
            Ok(Message::Abort(why)) => Err(Stop::Aborted(why)),
            Ok(_) => Err(protocol("a message out of turn".into())),
            Err(why) => Err(protocol(why)),
        }
    }

    /// Tells the sender that nothing will come of it, and why.
    fn refuse<W: Wire>(&mut self, wire: &mut W, no: No) -> Outcome {
        let (code, text) = no;
        let message = format!("refused: {text}");
        let _ = self.send(wire, &Message::Refused(code, text));
        Outcome::Dropped(message)
    }

    /// The next message, into `incoming`.
    fn next<W: Wire>(&mut self, wire: &mut W, deadline: Instant) -> Result<u64, Stop> {
        let broken = |b: Broken| Stop::Broken(b.why);
        loop {
            if let Some(tag) = wire.try_receive(&mut self.incoming).map_err(broken)? {
                return Ok(tag);
            }
            if Instant::now() >= deadline {
                let seconds = self.settings.timeout.as_secs_f64();
                return Err(Stop::Broken(format!("the sender was silent for {seconds} s")));
            }
            match wire.wait(Want::Message, deadline) {
                Ok(()) => {}
                // What came before the break is still to be read.
                Err(b) => {
                    let tag = wire.try_receive(&mut self.incoming).map_err(broken)?;
                    return tag.ok_or_else(|| broken(b));
                }
            }
        }
    }

    /// Sends an answer. What comes meanwhile stays where it is: a sender that has
    /// no more room reads.
    fn send<W: Wire>(&mut self, wire: &mut W, message: &Message<'_>) -> Result<(), Stop> {
        let broken = |b: Broken| Stop::Broken(b.why);
        let deadline = Instant::now() + self.settings.timeout;
        let (tag, payload) = message.encode();
        while !wire.try_send(tag, &payload).map_err(broken)? {
            if Instant::now() >= deadline {
                return Err(Stop::Broken("the sender reads nothing".into()));
            }
            wire.wait(Want::Room, deadline).map_err(broken)?;
        }
        Ok(())
    }

    /// Waits until the sender has closed the connection; `false`: it may not have
    /// read the last message.
    fn await_close<W: Wire>(&mut self, wire: &mut W) -> bool {
        let deadline = Instant::now() + self.settings.timeout;
        loop {
            // What is on its way after a refusal is of no interest.
            match wire.try_receive(&mut self.incoming) {
                Ok(Some(_)) => {}
                Ok(None) => match wire.wait(Want::Message, deadline) {
                    Ok(()) => {}
                    Err(broken) => return broken.closed,
                },
                Err(broken) => return broken.closed,
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }
}

/// What an offer was.
enum Begun {
    New(Box<Unfinished>),
    Known(usize),
}

impl Unfinished {
    fn shown(&self) -> String {
        printable(&self.offer.name)
    }

    fn interrupted(&self, why: &str) -> String {
        let (at, size) = (self.sum.bytes(), self.offer.size);
        format!("{}: interrupted after {at} of {size} bytes: {why}", self.shown())
    }

    fn given_up(&self) -> String {
        let (at, size) = (self.sum.bytes(), self.offer.size);
        format!("{}: given up after {at} of {size} bytes: it was not continued", self.shown())
    }

    /// Whether a connection broke on the way. If that was for data that were lost, some of what came
    /// last may have been read before that was known.
    fn may_have_holes(&self) -> bool {
        self.connections - self.before > 1
    }

    fn begin_anew(&mut self) -> Result<(), No> {
        self.part.file.set_len(0).map_err(storage)?;
        self.part.file.rewind().map_err(storage)?;
        self.sum = Hasher::default();
        self.synced = 0;
        self.before = self.connections;
        Ok(())
    }

    fn write(&mut self, data: &[u8]) -> Result<(), No> {
        self.part.file.write_all(data).map_err(storage)?;
        self.sum.update(self.sum.bytes(), data);
        if self.sum.bytes() - self.synced >= SYNC_BYTES {
            self.part.file.sync_data().map_err(storage)?;
            self.synced = self.sum.bytes();
        }
        Ok(())
    }
}

fn storage(e: std::io::Error) -> No {
    (Code::Storage, format!("cannot write: {}", crate::failure::plain(e)))
}
