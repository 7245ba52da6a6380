// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Has a function of a shared endpoint copy data and compute their checksums, and looks whether the
//! results are right: `weft-endpoint NUMBER ENDPOINT.VE [OPTION...]`, with the number of a port,
//! and the hardware id of an endpoint in hexadecimal.
//!
//! Data are random, or those of a file. It ends with 0 if all was right, 1 if something was not, 2
//! for words that it does not know, 3 if the function was taken from this host, and 4 if it was
//! lost otherwise.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft::{Access, Done, DoneStatus, EndpointArea, Error, Function, FunctionOptions, Port, Work};
use weft_proto::crc::crc32c;

const USAGE: &str = "usage: weft-endpoint NUMBER ENDPOINT.VE [OPTION...]

  --function N     which function of the virtual endpoint (0)
  --seconds N      work for so long; else each piece is done once
  --until PATH     work until there is such a file, or that time is over
  --pieces N       pieces of work that are under way at once (4)
  --piece BYTES    bytes of each (65536, or 4096 with --push-data)
  --file PATH      data that are copied, in place of random ones
  --shift N        hands pieces on over N places: each piece is copied from its place
                   to the next, the last one first, and then a new one to the first.
                   What is lost, done twice or out of turn gives other checksums
  --count PATH     keeps in this file how many pieces are done
  --push-work, --push-data, --pull-done
                   who moves what
  --drop-area PATH
                   when there is such a file, takes the destination away from the
                   function, with --pieces under way, says \"dropped\", and goes on
                   with the sums of what it reads
  --deny-write     the destination may not be written: all copies have to be refused
  --wait SECONDS   wait so long for the function to be given to this host (0)
  --json           print what was done as JSON";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Debug)]
struct Options {
    port: u32,
    endpoint: u64,
    ve: u32,
    function: u32,
    seconds: Option<f64>,
    until: Option<PathBuf>,
    pieces: usize,
    piece: Option<usize>,
    file: Option<PathBuf>,
    push_work: bool,
    push_data: bool,
    pull_done: bool,
    drop_area: Option<PathBuf>,
    deny_write: bool,
    shift: Option<u64>,
    count: Option<PathBuf>,
    wait: f64,
    json: bool,
}

/// ENDPOINT.VE
fn target(name: &str) -> Option<(u64, u32)> {
    let (endpoint, ve) = name.split_once('.')?;
    let endpoint = endpoint.strip_prefix("0x").unwrap_or(endpoint);
    Some((u64::from_str_radix(endpoint, 16).ok()?, ve.parse().ok()?))
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Options> {
    let port = words.next()?.parse().ok()?;
    let (endpoint, ve) = target(&words.next()?)?;
    let mut options = Options {
        port,
        endpoint,
        ve,
        function: 0,
        seconds: None,
        until: None,
        pieces: 4,
        piece: None,
        file: None,
        push_work: false,
        push_data: false,
        pull_done: false,
        drop_area: None,
        deny_write: false,
        shift: None,
        count: None,
        wait: 0.0,
        json: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--function" => options.function = words.next()?.parse().ok()?,
            "--until" => options.until = Some(words.next()?.into()),
            "--seconds" => options.seconds = Some(words.next()?.parse().ok()?),
            "--pieces" => options.pieces = words.next()?.parse().ok()?,
            "--piece" => options.piece = Some(words.next()?.parse().ok()?),
            "--file" => options.file = Some(words.next()?.into()),
            "--push-work" => options.push_work = true,
            "--push-data" => options.push_data = true,
            "--pull-done" => options.pull_done = true,
            "--shift" => options.shift = Some(words.next()?.parse().ok()?),
            "--count" => options.count = Some(words.next()?.into()),
            "--drop-area" => options.drop_area = Some(words.next()?.into()),
            "--deny-write" => options.deny_write = true,
            "--wait" => options.wait = words.next()?.parse().ok()?,
            "--json" => options.json = true,
            _ => return None,
        }
    }
    let good = (1..=32).contains(&options.pieces)
        && options.piece.is_none_or(|bytes| bytes > 0)
        && options.shift.is_none_or(|places| (1..=16).contains(&places));
    good.then_some(options)
}

/// What was done.
#[derive(Default)]
struct Counts {
    done: u64,
    bytes: u64,
    unreachable: u64,
    flushed: u64,
}

/// A function at work.
struct Run<'a> {
    options: &'a Options,
    function: Function,
    from: EndpointArea,
    to: Option<EndpointArea>,
    /// Bytes of a piece, and what is in each, with its checksum.
    piece: usize,
    data: Vec<(Vec<u8>, u32)>,
    /// Cookies count up: the next to be submitted, and to come back.
    next: u64,
    back: u64,
    /// From here on work is without a destination.
    sums_from: u64,
    counts: Counts,
}

/// Numbers that look like chance: the same ones each time.
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(bytes).collect()
}

/// Opens the function, once it is given to this host.
fn open(options: &Options) -> Result<Function> {
    let port = Port::open(options.port)?;
    let wanted = FunctionOptions::new(options.endpoint, options.ve)
        .function(options.function)
        .push_work(options.push_work)
        .push_data(options.push_data)
        .pull_done(options.pull_done);
    let begin = Instant::now();
    loop {
        match port.function(&wanted) {
            Err(Error::NotGiven(_) | Error::Unreachable(_))
                if begin.elapsed().as_secs_f64() < options.wait =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            other => return Ok(other?),
        }
    }
}

impl<'a> Run<'a> {
    fn new(options: &'a Options) -> Result<Self> {
        let function = open(options)?;
        let usual = if options.push_data { 4096 } else { 65536 };
        let piece = options.piece.unwrap_or(usual);
        let all = match &options.file {
            Some(path) => std::fs::read(path)?,
            None => random(piece * options.pieces),
        };
        let chunks: Vec<&[u8]> = all.chunks(piece).collect();
        let pieces = if options.file.is_some() { chunks.len() } else { options.pieces };
        let room = piece.next_multiple_of(8) * pieces;
        let from = function.area(room, Access::Read)?;
        let rights = if options.deny_write { Access::Read } else { Access::Both };
        let to = Some(function.area(room, rights)?);
        let mut data = Vec::new();
        for (n, chunk) in chunks.iter().enumerate() {
            from.write(n * piece.next_multiple_of(8), chunk);
            data.push((chunk.to_vec(), crc32c(chunk.iter().copied())));
        }
        Ok(Run {
            options,
            function,
            from,
            to,
            piece,
            data,
            next: 0,
            back: 0,
            sums_from: u64::MAX,
            counts: Counts::default(),
        })
    }

    /// Which data are meant by a cookie, and where they are.
    fn place(&self, cookie: u64) -> (usize, usize) {
        let n = (cookie % self.data.len().max(1) as u64) as usize;
        (n, n * self.piece.next_multiple_of(8))
    }

    fn submit(&mut self) -> Result<()> {
        let (n, at) = self.place(self.next);
        let bytes = self.data.get(n).map_or(0, |(data, _)| data.len());
        let from = [self.from.part(at, bytes)];
        let work = match &self.to {
            Some(to) => {
                // What was there before is not to pass for what is copied.
                if !self.options.deny_write {
                    to.write(at, &vec![0; bytes]);
                }
                Work::copy(self.next, &from, &[to.part(at, bytes)], true)
            }
            None => Work::sum(self.next, &from),
        };
        if self.function.submit(&[work])? == 1 {
            self.next += 1;
        }
        Ok(())
    }

    fn complete(&mut self, done: Done) -> Result<()> {
        if done.cookie != self.back {
            return Err(format!("work {} completes, not {}", done.cookie, self.back).into());
        }
        self.back += 1;
        let (n, at) = self.place(done.cookie);
        let Some((data, crc)) = self.data.get(n) else { return Err("nothing was asked".into()) };
        let dropped = self.to.is_none() && done.cookie < self.sums_from;
        match done.status {
            DoneStatus::Unreachable if dropped || self.options.deny_write => {
                self.counts.unreachable += 1;
                return Ok(());
            }
            DoneStatus::Ok if self.options.deny_write => {
                return Err("what may not be written was".into());
            }
            DoneStatus::Flushed => {
                self.counts.flushed += 1;
                return Ok(());
            }
            DoneStatus::Ok => {}
            other => return Err(format!("work {}: {other}", done.cookie).into()),
        }
        if (done.crc, done.bytes) != (*crc, data.len() as u64) {
            return Err(format!(
                "work {}: {} bytes, checksum {:#010x}, not {} and {crc:#010x}",
                done.cookie,
                done.bytes,
                done.crc,
                data.len()
            )
            .into());
        }
        if let Some(to) = &self.to {
            let mut copy = vec![0; data.len()];
            to.read(at, &mut copy);
            if copy != *data && !self.function.status()?.works {
                // Its memory went with it. This says why.
                self.function.submit(&[Work::nothing(self.next)])?;
            }
            if copy != *data {
                return Err(format!("work {}: the copy is not what was copied", done.cookie).into());
            }
        }
        self.counts.done += 1;
        self.counts.bytes += done.bytes;
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let begin = Instant::now();
        let once = self.data.len() as u64;
        while self.goes_on(begin, self.next, once) || self.back < self.next {
            let room = (self.next - self.back) < (self.options.pieces as u64).min(once);
            if room && self.goes_on(begin, self.next, once) {
                self.submit()?;
                continue;
            }
            let drops = self.to.is_some() && self.options.drop_area.is_some();
            let patience = Duration::from_millis(if drops { 20 } else { 10_000 });
            for done in self.function.reap(Some(patience))? {
                self.complete(done)?;
            }
            self.count()?;
            if drops && self.options.drop_area.as_ref().is_some_and(|path| path.exists()) {
                // With all of it under way, so that all names it.
                while self.next - self.back < (self.options.pieces as u64).min(once) {
                    self.submit()?;
                }
                self.to = None;
                self.sums_from = self.next;
                eprintln!("dropped");
            }
        }
        Ok(())
    }

    /// Whether there is more to be done after `next` pieces.
    fn goes_on(&self, begin: Instant, next: u64, once: u64) -> bool {
        let spent = || begin.elapsed().as_secs_f64();
        match (&self.options.until, self.options.seconds) {
            (Some(path), most) => most.is_none_or(|most| spent() < most) && !path.exists(),
            (None, Some(seconds)) => spent() < seconds,
            (None, None) => next < once,
        }
    }

    /// Writes how much is done where others can read it.
    fn count(&self) -> Result<()> {
        if let Some(path) = &self.options.count {
            std::fs::write(path, self.counts.done.to_string())?;
        }
        Ok(())
    }

    /// Hands pieces on from place to place, see `--shift`.
    fn shift(&mut self, places: u64) -> Result<()> {
        let bytes = self.piece;
        let pieces = self.options.pieces as u64;
        // A new piece stays where it comes from until it was copied.
        let sources = pieces + 1;
        let size = bytes.next_multiple_of(8);
        let from = self.function.area(size * sources as usize, Access::Read)?;
        let line = self.function.area(size * (places as usize + 1), Access::Both)?;
        let place = |n: u64| line.part(n as usize * size, bytes);
        let mut data = random(bytes);
        let zero = crc32c(std::iter::repeat_n(0, bytes));
        // The checksum of each new piece; that of a place to which none has come.
        let mut sums: Vec<u32> = Vec::new();
        let sum_of = |sums: &[u32], which: Option<u64>| {
            which.map_or(zero, |n| sums.get(n as usize).copied().unwrap_or(0))
        };
        let begin = Instant::now();
        // In a round each place is copied to the next, the last but one first; then comes a new piece.
        let round = places + 1;
        let (mut next, mut back) = (0, 0);
        // A round that was begun is ended.
        while back < next || next % round != 0 || self.goes_on(begin, next, round) {
            let more = next % round != 0 || self.goes_on(begin, next, round);
            if next - back < pieces && more {
                let (now, step) = (next / round, next % round);
                let work = if step < places {
                    let to = places - step;
                    Work::copy(next, &[place(to - 1)], &[place(to)], true)
                } else {
                    let at = (now % sources) as usize * size;
                    let stamp = now.to_le_bytes();
                    data.iter_mut().zip(stamp).for_each(|(to, from)| *to = from);
                    sums.push(crc32c(data.iter().copied()));
                    from.write(at, &data);
                    Work::copy(next, &[from.part(at, bytes)], &[place(0)], true)
                };
                if self.function.submit(&[work])? != 1 {
                    return Err("there was no room for work".into());
                }
                next += 1;
                continue;
            }
            for done in self.function.reap(Some(Duration::from_secs(10)))? {
                let (now, step) = (back / round, back % round);
                // What is in a place came as many rounds ago.
                let which = now.checked_sub(places - step);
                let expected = (back, DoneStatus::Ok, sum_of(&sums, which), bytes as u64);
                if (done.cookie, done.status, done.crc, done.bytes) != expected {
                    return Err(format!("{done:?} came for {expected:?}").into());
                }
                back += 1;
                self.counts.done += 1;
                self.counts.bytes += done.bytes;
            }
            self.count()?;
        }
        // All of it is where it was handed to.
        let mut copy = vec![0; bytes];
        for n in 0..=places {
            line.read(n as usize * size, &mut copy);
            let which = (back / round).checked_sub(n + 1);
            if crc32c(copy.iter().copied()) != sum_of(&sums, which) {
                return Err(format!("place {n}: not piece {which:?}").into());
            }
        }
        let status = self.function.status()?;
        if (status.submitted, status.completed) != (next, next) {
            return Err(format!("{next} pieces were done: {status:?}").into());
        }
        Ok(())
    }

    fn report(&self, seconds: f64, end: &str) {
        let Counts { done, bytes, unreachable, flushed } = self.counts;
        if self.options.json {
            println!(
                "{{\"done\": {done}, \"bytes\": {bytes}, \"unreachable\": {unreachable}, \
                 \"flushed\": {flushed}, \"seconds\": {seconds:.3}, \"end\": \"{end}\"}}"
            );
        } else {
            println!(
                "{done} pieces, {bytes} bytes in {seconds:.3} s; {unreachable} unreachable, \
                 {flushed} flushed: {end}"
            );
        }
    }
}

/// How it ended, in a word, and the status to exit with.
fn end_of(error: &(dyn std::error::Error + 'static)) -> Option<(&'static str, u8)> {
    Some(match error.downcast_ref::<Error>()? {
        Error::Withdrawn => ("withdrawn", 3),
        Error::Reset => ("reset", 4),
        Error::Gone => ("gone", 4),
        Error::Os { .. } => ("failed", 4),
        _ => return None,
    })
}

fn work(options: &Options) -> Result<u8> {
    let mut run = Run::new(options)?;
    // The parent process waits for it.
    eprintln!("working");
    let begin = Instant::now();
    let result = match options.shift {
        Some(places) => run.shift(places),
        None => run.run(),
    };
    let seconds = begin.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            run.report(seconds, "ok");
            Ok(0)
        }
        Err(error) => {
            let Some((end, status)) = end_of(&*error) else { return Err(error) };
            run.report(seconds, end);
            eprintln!("weft-endpoint: {error}");
            Ok(status)
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if let Some(name) = words.get(1).filter(|name| target(name).is_none()) {
        eprintln!(
            "weft-endpoint: {name}: not the hardware id of an endpoint, a point, and the number of \
             a virtual endpoint; `weftctl tree --vh` shows those of this host"
        );
        return ExitCode::from(2);
    }
    let Some(options) = parse(words.into_iter()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match work(&options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let hint = error.downcast_ref::<Error>().and_then(Error::hint);
            let hint = hint.map_or(String::new(), |hint| format!(": {hint}"));
            eprintln!("weft-endpoint: {error}{hint}");
            let status = end_of(&*error).map_or(1, |(_, status)| status);
            ExitCode::from(status)
        }
    }
}
