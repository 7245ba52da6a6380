// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Streams for tests, by sockets of ports.
//!
//! `weft-stream serve PORT SERVICE` answers each connection, at its end, with how many bytes came and their checksum;
//! `keep` with the same keeps what it accepts, and does nothing with it. `send PORT HWID SERVICE KIB SEED` sends so
//! much and compares the answer; `hold PORT HWID SERVICE` sends a little all the time, until an error, whose number it
//! prints; `many PORT HWID SERVICE COUNT` makes connections one after the other; `open` with the same so many at once,
//! and says how many it got and what the next one ended with. `pull` behind them has data fetched instead of stored.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use weft::Port;
use weft::net::{Connect, Listener, Stream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// FNV-1a.
struct Sum(u64);

impl Sum {
    const NONE: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

fn answer(mut stream: Stream) -> Result<()> {
    let (mut sum, mut count) = (Sum::NONE, 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            got => {
                sum.add(buffer.get(..got).unwrap_or_default());
                count += got;
            }
        }
    }
    stream.write_all(format!("{count} {:x}", sum.0).as_bytes())?;
    Ok(())
}

fn serve(port: &Port, service: u32) -> Result<()> {
    let listener = Listener::bind(port, service, 64)?;
    println!("listening");
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            // The other end finds out.
            let _ = answer(stream);
        });
    }
    Ok(())
}

fn keep(port: &Port, service: u32) -> Result<()> {
    let listener = Listener::bind(port, service, 64)?;
    println!("listening");
    let mut kept = Vec::new();
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => kept.push(stream),
            // No room: the other end learns of it.
            Err(e) => println!("{}", e.raw_os_error().unwrap_or_default()),
        }
    }
    Ok(())
}

fn fill(buffer: &mut [u8], state: &mut u64) {
    for byte in buffer {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *byte = (*state >> 56) as u8;
    }
}

fn send(port: &Port, to: &Connect, bytes: usize, mut seed: u64) -> Result<Duration> {
    let begun = Instant::now();
    let mut stream = Stream::connect(port, to)?;
    let (mut sum, mut left) = (Sum::NONE, bytes);
    let mut buffer = vec![0; 64 << 10];
    while left > 0 {
        let part = left.min(1 + (seed >> 48) as usize % buffer.len());
        let part = buffer.get_mut(..part).unwrap_or_default();
        fill(part, &mut seed);
        sum.add(part);
        stream.write_all(part)?;
        left -= part.len();
    }
    stream.shutdown(Shutdown::Write)?;
    let mut told = String::new();
    stream.read_to_string(&mut told)?;
    let want = format!("{bytes} {:x}", sum.0);
    if told != want {
        return Err(format!("the peer got {told}, not {want}").into());
    }
    Ok(begun.elapsed())
}

fn hold(port: &Port, to: &Connect) -> Result<()> {
    let mut stream = Stream::connect(port, to)?;
    println!("holding");
    loop {
        if let Err(e) = stream.write_all(&[7; 1000]) {
            println!("{}", e.raw_os_error().unwrap_or_default());
            return Ok(());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn open(port: &Port, to: &Connect, count: usize) -> Result<()> {
    let mut streams = Vec::new();
    let mut error = 0;
    while streams.len() < count {
        match Stream::connect(port, to) {
            Ok(stream) => streams.push(stream),
            Err(e) => {
                error = e.raw_os_error().unwrap_or_default();
                break;
            }
        }
    }
    println!("{} {error}", streams.len());
    Ok(())
}

fn run(args: &[String]) -> Result<()> {
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    let pulled = args.last() == Some(&"pull");
    if pulled {
        args.pop();
    }
    let port = |text: &str| -> Result<Port> { Ok(Port::open(text.parse()?)?) };
    let to = |hwid: &str, service: &str| -> Result<Connect> {
        let to = Connect::new(hwid.parse()?, service.parse()?).pulled(pulled);
        Ok(to.timeout(Duration::from_secs(30)))
    };
    match *args {
        ["serve", at, service] => serve(&port(at)?, service.parse()?),
        ["keep", at, service] => keep(&port(at)?, service.parse()?),
        ["send", at, hwid, service, kib, seed] => {
            let bytes: usize = kib.parse()?;
            let took = send(&port(at)?, &to(hwid, service)?, bytes << 10, seed.parse()?)?;
            println!("{:.3}", took.as_secs_f64());
            Ok(())
        }
        ["hold", at, hwid, service] => hold(&port(at)?, &to(hwid, service)?),
        ["many", at, hwid, service, count] => {
            let (port, to) = (port(at)?, to(hwid, service)?);
            let begun = Instant::now();
            let count: u64 = count.parse()?;
            for n in 0..count {
                send(&port, &to, n as usize % 2000, n)?;
            }
            println!("{:.0}", count as f64 / begun.elapsed().as_secs_f64());
            Ok(())
        }
        ["open", at, hwid, service, count] => open(&port(at)?, &to(hwid, service)?, count.parse()?),
        _ => Err("usage: weft-stream serve|send|hold|many|open PORT …: see its source".into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weft-stream: {e}");
            ExitCode::FAILURE
        }
    }
}
