// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A program that follows its function: `weft-follow listen SERVICE` on one host, `weft-follow send
//! HWID SERVICE STOP` on another.
//!
//! The sender uses the port that has the hardware id HWID. When the port is to be taken away it sends
//! no more, waits until all that it has sent is acknowledged, closes, and goes on where the id is then. It
//! prints how often it has gone on, each time that it sends again.
//! The listener listens on every port that there is; `weft-follow
//! hold HWID SERVICE` connects to one, too, and keeps the connection whatever is wanted. A message that is lost, doubled, torn or out of
//! order ends either with an error, however often the function has moved in between. The sender ends
//! well when the file STOP is there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use weft::{Channel, Connect, Error, LinkState, Port};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How late anything may be.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// Messages that are not acknowledged, at most.
const WINDOW: u64 = 16;
/// Tag of the message that says that there are no more.
const END: u64 = u64::MAX;

/// What message `number` is.
fn fill(payload: &mut Vec<u8>, number: u64) {
    let len = (number.wrapping_mul(2654435761) >> 7) % 3000;
    payload.clear();
    payload.extend((0..len).map(|n| (number.wrapping_mul(31) + n * 7 + n / 256) as u8));
}

/// What has come, by whichever port.
#[derive(Default)]
struct Came {
    next: u64,
    connections: u64,
    ended: bool,
}

/// Takes what comes by one connection. The other end hears first what is expected.
fn serve(channel: &mut Channel, came: &Mutex<Came>) -> Result<()> {
    let mut came = came.lock().map_err(|_| "another connection has failed")?;
    came.connections += 1;
    match channel.send(&[], came.next, Some(PATIENCE)) {
        Ok(()) => {}
        // It comes again.
        Err(e @ (Error::Closed | Error::Broken(_) | Error::Gone)) => {
            eprintln!("weft-follow: no greeting: {e}");
            return Ok(());
        }
        Err(e) => return Err(e.into()),
    }
    let (mut got, mut wanted) = (Vec::new(), Vec::new());
    loop {
        let tag = match channel.recv(&mut got, Some(PATIENCE)) {
            Ok(tag) => tag,
            Err(Error::Closed | Error::Ended | Error::Broken(_) | Error::Gone) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        if tag == END {
            came.ended = true;
            channel.send(&[], END, Some(PATIENCE))?;
            return Ok(());
        }
        if tag != came.next {
            return Err(format!("message {tag} instead of {}", came.next).into());
        }
        fill(&mut wanted, tag);
        if got != wanted {
            return Err(format!("message {tag} is not what was sent").into());
        }
        came.next += 1;
        match channel.send(&[], tag, Some(PATIENCE)) {
            Ok(()) | Err(Error::Closed | Error::Broken(_) | Error::Gone) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Serves one port until it goes away.
fn listen_on(number: u32, service: u32, came: &Mutex<Came>) -> Result<()> {
    let Ok(port) = Port::open(number) else { return Ok(()) };
    let Ok(listener) = port.listen(service, 4) else { return Ok(()) };
    loop {
        match listener.accept(Some(Duration::from_secs(1))) {
            Ok(mut channel) => serve(&mut channel, came)?,
            Err(Error::TimedOut(_)) => {}
            Err(e) => {
                eprintln!("weft-follow: port {number}: {e}");
                return Ok(());
            }
        }
        if came.lock().is_ok_and(|came| came.ended) {
            return Ok(());
        }
    }
}

fn listen(service: u32) -> Result<()> {
    let came = Arc::new(Mutex::new(Came::default()));
    let served = Arc::new(Mutex::new(BTreeSet::new()));
    let failed: Arc<Mutex<Option<String>>> = Arc::default();
    println!("listening");
    loop {
        if let Some(error) = failed.lock().map_err(|_| "failed")?.take() {
            return Err(error.into());
        }
        let now = came.lock().map_err(|_| "a connection has failed")?;
        if now.ended {
            println!("{} messages by {} connections", now.next, now.connections);
            return Ok(());
        }
        drop(now);
        for number in Port::list()? {
            if !served.lock().map_err(|_| "failed")?.insert(number) {
                continue;
            }
            let (came, served, failed) = (came.clone(), served.clone(), failed.clone());
            thread::spawn(move || {
                if let Err(e) = listen_on(number, service, &came) {
                    if let Ok(mut failed) = failed.lock() {
                        *failed = Some(e.to_string());
                    }
                }
                thread::sleep(POLL);
                if let Ok(mut served) = served.lock() {
                    served.remove(&number);
                }
            });
        }
        thread::sleep(POLL * 5);
    }
}

/// The port of that id, with a link that works.
fn find(hwid: u64) -> Result<Port> {
    let begin = Instant::now();
    loop {
        let works = |port: &Port| {
            !port.wait_asked(Some(Duration::ZERO)).unwrap_or(true)
                && port.link(0).is_ok_and(|link| link.state == LinkState::Ready)
        };
        if let Some(port) = Port::find(hwid)?.filter(works) {
            return Ok(port);
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("{hwid:#018x} is nowhere").into());
        }
        thread::sleep(POLL);
    }
}

/// What a sender knows.
struct Sending {
    next: u64,
    acked: u64,
}

/// Takes acknowledgements until no more than `open` messages wait for theirs.
fn acknowledged(channel: &mut Channel, sending: &mut Sending, open: u64) -> Result<()> {
    let mut got = Vec::new();
    while sending.next - sending.acked > open {
        let tag = channel.recv(&mut got, Some(PATIENCE))?;
        if tag != sending.acked {
            return Err(format!("{tag} is acknowledged instead of {}", sending.acked).into());
        }
        sending.acked += 1;
    }
    Ok(())
}

/// Sends until the port is to be taken away: true, or STOP is there: false.
fn send_by(port: &Port, channel: &mut Channel, sending: &mut Sending, stop: &Path) -> Result<bool> {
    let mut payload = Vec::new();
    loop {
        let asked = port.wait_asked(Some(Duration::ZERO))?;
        let stops = !asked && stop.exists();
        if asked || stops {
            acknowledged(channel, sending, 0)?;
            if stops {
                channel.send(&[], END, Some(PATIENCE))?;
                channel.recv(&mut payload, Some(PATIENCE))?;
            }
            return Ok(asked);
        }
        fill(&mut payload, sending.next);
        channel.send(&payload, sending.next, Some(PATIENCE))?;
        sending.next += 1;
        acknowledged(channel, sending, WINDOW)?;
    }
}

fn send(hwid: u64, service: u32, stop: &Path) -> Result<()> {
    let mut sending = Sending { next: 0, acked: 0 };
    let (mut moves, mut breaks, mut longest) = (0, 0, Duration::ZERO);
    let (mut paused, mut begun): (Option<Instant>, bool) = (None, false);
    let mut failed = None;
    loop {
        if paused.is_some_and(|since| since.elapsed() > PATIENCE) {
            return Err(format!("no way to go on: {failed:?}").into());
        }
        let port = find(hwid)?;
        let connected = port.connect(&Connect::to_link(0, service).timeout(PATIENCE / 6));
        let mut channel = match connected {
            Ok(channel) => channel,
            Err(e) => {
                failed = Some(e.to_string());
                paused.get_or_insert_with(Instant::now);
                thread::sleep(POLL);
                continue;
            }
        };
        let expected = match channel.recv(&mut Vec::new(), Some(PATIENCE)) {
            Ok(expected) => expected,
            Err(e @ (Error::Broken(_) | Error::Closed | Error::Gone)) => {
                failed = Some(format!("no greeting: {e}"));
                paused.get_or_insert_with(Instant::now);
                thread::sleep(POLL);
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        // After a break some may have come of which nothing was heard; never fewer.
        if expected < sending.acked || expected > sending.next {
            let Sending { next, acked } = sending;
            return Err(format!("{acked} of {next} acknowledged, {expected} expected").into());
        }
        sending = Sending { next: expected, acked: expected };
        let since = paused.take();
        if begun {
            longest = longest.max(since.map_or(Duration::ZERO, |since| since.elapsed()));
        }
        begun = true;
        println!("sending {}", moves + breaks);
        match send_by(&port, &mut channel, &mut sending, stop) {
            Ok(true) => {
                moves += 1;
                println!("asked {moves}");
            }
            Ok(false) => break,
            Err(e) => match e.downcast_ref::<Error>() {
                Some(Error::Broken(_) | Error::Gone | Error::Closed) => breaks += 1,
                _ => return Err(e),
            },
        }
        paused = Some(Instant::now());
    }
    println!(
        "{} messages, asked to finish {moves} times, broken {breaks} times, longest pause {:.3} s",
        sending.acked,
        longest.as_secs_f64()
    );
    Ok(())
}

/// Keeps a connection open whatever is wanted, and says what is.
fn hold(hwid: u64, service: u32) -> Result<()> {
    let port = find(hwid)?;
    let begin = Instant::now();
    let mut channel = loop {
        // The listener may not have found its port yet.
        match port.connect(&Connect::to_link(0, service)) {
            Err(_) if begin.elapsed() < PATIENCE => thread::sleep(POLL),
            connected => break connected?,
        }
    };
    channel.recv(&mut Vec::new(), Some(PATIENCE))?;
    println!("holding");
    let mut asked = false;
    loop {
        if let Err(Error::Gone) = port.info() {
            println!("gone");
            return Ok(());
        }
        let now = port.wait_asked(Some(Duration::ZERO))?;
        if now != asked {
            println!("{}", if now { "asked" } else { "goes on" });
            asked = now;
            if now {
                // Refused, and not only late.
                let refused = port.listen(service, 1);
                println!("{}", refused.err().map_or("begun".into(), |e| e.to_string()));
            }
        }
        thread::sleep(POLL);
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["listen", service] => listen(service.parse()?),
        ["send", hwid, service, stop] => {
            let hwid = u64::from_str_radix(hwid.trim_start_matches("0x"), 16)?;
            send(hwid, service.parse()?, Path::new(stop))
        }
        ["hold", hwid, service] => {
            let hwid = u64::from_str_radix(hwid.trim_start_matches("0x"), 16)?;
            hold(hwid, service.parse()?)
        }
        _ => Err("weft-follow listen SERVICE | weft-follow send HWID SERVICE STOP".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft-follow: {e}");
            ExitCode::FAILURE
        }
    }
}
