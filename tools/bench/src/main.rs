// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What `make bench` runs in its guests: the same measurements over a Weft channel and over TCP.
//!
//! `weft-bench serve WAY` on one host does what `weft-bench run WAY JOB…` on the other tells it. A
//! way is `tcp ADDRESS`, `channel PORT SERVICE polled|sleeping`, or `qp PORT SERVICE
//! polled|sleeping PAIRS`; a job is `KIND:BYTES:COUNT`, see `job.rs`. For each job, one line of JSON.
//! `weft-bench watch qp …` waits until what it is connected to is gone, `weft-bench refused qp …` asks
//! for what the other end refuses; `weft-bench instructions PORT PORT` counts what a message costs the
//! processor: see `instructions.rs`.

mod counts;
mod instructions;
mod job;
mod verbs;
mod way;

use job::Job;
use std::process::ExitCode;
use std::time::Duration;
use way::Way;

/// What everything here may fail with.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// No host is that slow.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(120));

const USAGE: &str = "usage: weft-bench serve WAY | weft-bench run WAY JOB… | \
                     weft-bench watch WAY | weft-bench refused WAY | \
                     weft-bench instructions PORT PORT\n\
                     WAY: tcp ADDRESS | channel PORT SERVICE polled|sleeping | \
                     qp PORT SERVICE polled|sleeping PAIRS\n\
                     JOB: round-trip|stream|flood|single|write:BYTES:COUNT";

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
            let (mut way, jobs) = Way::connect(words)?;
            let jobs = jobs.iter().map(|word| word.parse()).collect::<Result<Vec<Job>>>()?;
            for job in jobs {
                let (seconds, counted) = job.run(&mut way)?;
                let counted = counted.map_or(String::new(), |of| format!(", \"counted\": {of:?}"));
                println!(
                    "{{\"job\": \"{}\", \"bytes\": {}, \"count\": {}, \"seconds\": {seconds:.9}{counted}}}",
                    job.name(),
                    job.bytes,
                    job.count
                );
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
            instructions::queue_pairs(from.parse()?, to.parse()?)
        }
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
