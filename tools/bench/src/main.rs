// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What `make bench` runs in its guests: the same measurements over a Weft channel and over TCP.
//!
//! `weft-bench serve WAY` on one host does what `weft-bench run WAY JOB…` on the other tells it. A
//! way is `tcp ADDRESS polled|sleeping`, `socket PORT SERVICE polled|sleeping`, `channel PORT SERVICE
//! polled|sleeping` (or `small-channel`, of which a port has room for many), or
//! `qp PORT SERVICE polled|sleeping|events PAIRS`; a job is
//! `KIND:BYTES:COUNT`, see `job.rs`. For each job, one line of JSON. `after FILE` before the jobs has them
//! wait until there is such a file: for processes that are to begin together.
//!
//! `weft-bench watch qp …` waits until what it is connected to is gone, `weft-bench refused qp …` asks
//! for what the other end refuses. `weft-bench instructions PORT PORT` counts what a message costs the
//! processor, see `instructions.rs`; `instructions tcp NAMESPACE ADDRESS`, by TCP to an address there;
//! `instructions connections NAMESPACE ADDRESS` counts what a connection takes, also under weft-run.
//! `weft-bench profile FOLDER …` does part of that for the emulator to write it down, see
//! `instructions/profile.rs`.
//! `weft-bench connections tcp ADDRESS COUNT`, or `socket PORT SERVICE COUNT`, makes that many connections, one
//! after the other, each for a byte and its answer; `weft-bench answer` is the other end.
//! `weft-bench spent COMMAND…` counts what a command takes of the machine.
//! `weft-bench make channel|cq|mr|qp|socket PORT COUNT SERVICE FILE` has so many objects, when there is such a
//! file, until it is killed; `weft-bench accept PORT SERVICE` accepts channels and sockets. `weft-bench
//! first SERVICE COMMAND…` says how long it takes from the command that loads the driver to the first byte that
//! goes to `serve channel 0 SERVICE sleeping` and back.
//! `weft-bench matched PORT PORT RANKS…` says what matching takes of the memory of a host, and with so many ranks;
//! `weft-bench simulated PEERS…`, what its logic takes with so many peers, on any machine.

mod allocated;
mod connections;
mod counts;
mod first;
mod instructions;
mod job;
mod matched;
mod matching;
mod memory;
mod simulated;
mod stream;
/// The provider's own file: how it keeps addresses.
#[path = "../../libfabric/src/table.rs"]
mod table;
mod verbs;
mod way;

/// What that file takes of the provider.
mod fi {
    pub type FiAddr = u64;
}

use job::{Found, Job};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};
use way::Way;

/// What everything here may fail with.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// No host is that slow.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(120));

const USAGE: &str = "usage: weft-bench serve WAY | weft-bench run WAY JOB… | \
                     weft-bench watch WAY | weft-bench refused WAY | \
                     weft-bench instructions PORT PORT | \
                     weft-bench instructions tcp|connections NAMESPACE ADDRESS | \
                     weft-bench profile FOLDER PORT PORT | \
                     weft-bench profile FOLDER tcp|connections NAMESPACE ADDRESS | \
                     weft-bench tlps PORT PORT | weft-bench spent COMMAND… | \
                     weft-bench answer AT | weft-bench connections AT COUNT | \
                     weft-bench make channel|cq|mr|qp|socket PORT COUNT SERVICE FILE | \
                     weft-bench accept PORT SERVICE | weft-bench first SERVICE COMMAND… | \
                     weft-bench matched PORT PORT RANKS… | weft-bench simulated PEERS…\n\
                     AT: tcp ADDRESS | socket PORT SERVICE; \
                     WAY: AT polled|sleeping | [small-]channel PORT SERVICE polled|sleeping | \
                     qp PORT SERVICE polled|sleeping|events PAIRS\n\
                     JOB: round-trip|stream|each|flood|single|write:BYTES:COUNT, \
                     first of all after FILE";

/// Of round trips: by name, the share of them that was no slower.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

fn line(job: &Job, found: &Found) -> Result<String> {
    let mut line = format!(
        "{{\"job\": \"{}\", \"bytes\": {}, \"count\": {}, \"begin\": {:.6}, \"seconds\": {:.9}",
        job.name(),
        job.bytes,
        job.count,
        found.begin,
        found.seconds,
    );
    if let Some(counted) = found.counted {
        write!(line, ", \"counted\": {counted:?}")?;
    }
    for (name, share) in PERCENTILES {
        if let Some(seconds) = found.percentile(share) {
            write!(line, ", \"{name}\": {seconds:.9}")?;
        }
    }
    line.push('}');
    Ok(line)
}

/// Waits until there is such a file.
fn appears(file: &Path) -> Result<()> {
    let start = Instant::now();
    while !file.exists() {
        if PATIENCE.is_some_and(|limit| start.elapsed() > limit) {
            return Err(format!("{}: there is no such file", file.display()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// What all of these words say.
fn numbers<T: FromStr>(words: &[&str]) -> std::result::Result<Vec<T>, T::Err> {
    words.iter().map(|word| word.parse()).collect()
}

fn run(words: &[&str]) -> Result<()> {
    match words {
        ["serve", words @ ..] => {
            let (mut way, []) = Way::serve(words)? else { return Err(USAGE.into()) };
            while let Some(job) = job::receive(&mut way)? {
                job.serve(&mut way)?;
            }
            Ok(())
        }
        ["run", words @ ..] => {
            let (mut way, words) = Way::connect(words)?;
            let (file, jobs) = match words {
                ["after", file, jobs @ ..] => (Some(file), jobs),
                jobs => (None, jobs),
            };
            let jobs = jobs.iter().map(|word| word.parse()).collect::<Result<Vec<Job>>>()?;
            if let Some(file) = file {
                println!("connected");
                appears(Path::new(file))?;
            }
            for job in jobs {
                let found = job.run(&mut way)?;
                println!("{}", line(&job, &found)?);
            }
            job::end(&mut way)
        }
        ["watch", words @ ..] => {
            let (way, []) = Way::connect(words)? else { return Err(USAGE.into()) };
            let mut verbs = way.verbs()?;
            println!("watching");
            println!("failed: {}", verbs.until_it_fails()?);
            Ok(())
        }
        ["refused", words @ ..] => {
            let (way, []) = Way::connect(words)? else { return Err(USAGE.into()) };
            println!("{{\"seconds\": {:.9}}}", way.verbs()?.refused()?);
            Ok(())
        }
        ["instructions", from, to] => {
            instructions::channel(from.parse()?, to.parse()?)?;
            instructions::queue_pairs(from.parse()?, to.parse()?)?;
            instructions::sockets(from.parse()?, to.parse()?)?;
            instructions::matching(from.parse()?, to.parse()?)
        }
        ["tlps", from, to] => instructions::tlps_of_matches(from.parse()?, to.parse()?),
        ["instructions", "tcp", namespace, address] => instructions::tcp(namespace, address),
        ["instructions", "connections", namespace, address] => {
            instructions::connections(namespace, address)
        }
        ["profile", folder, "tcp", namespace, address] => {
            instructions::profile::tcp(namespace, address, folder)
        }
        ["profile", folder, "connections", namespace, address] => {
            instructions::profile::tcp_connections(namespace, address, folder)
        }
        ["profile", folder, from, to] => {
            instructions::profile::ports(from.parse()?, to.parse()?, folder)
        }
        ["answer", at @ ..] => connections::answer(at),
        ["connections", at @ .., count] => connections::make(at, count.parse()?),
        ["spent", command @ ..] => instructions::spent(command),
        ["make", kind, port, count, service, file] => {
            memory::make(kind, port.parse()?, count.parse()?, service.parse()?, file)
        }
        ["accept", port, service] => memory::accept(port.parse()?, service.parse()?),
        ["matched", from, to, ranks @ ..] => {
            matched::measure(from.parse()?, to.parse()?, &numbers(ranks)?)
        }
        ["simulated", peers @ ..] => simulated::measure(&numbers(peers)?),
        ["first", service, command @ ..] => first::measure(service, command),
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
