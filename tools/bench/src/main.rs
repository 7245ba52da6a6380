// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What `make bench` runs in its guests: the same measurements over a Weft channel and over TCP.
//!
//! `weft-bench serve WAY` on one host does what `weft-bench run WAY JOB…` on the other tells it. A
//! way is `tcp ADDRESS`, or `channel PORT SERVICE polled|sleeping`; a job is
//! `round-trip:BYTES:COUNT`, `stream:BYTES:COUNT` or `flood:BYTES:COUNT`. For each job, one line of JSON. `weft-bench
//! instructions PORT PORT` counts what a message costs the processor: see `instructions.rs`.

mod instructions;
mod job;
mod way;

use job::Job;
use std::process::ExitCode;
use way::Way;

/// What everything here may fail with.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "usage: weft-bench serve WAY | weft-bench run WAY JOB… | \
                     weft-bench instructions PORT PORT\n\
                     WAY: tcp ADDRESS | channel PORT SERVICE polled|sleeping\n\
                     JOB: round-trip:BYTES:COUNT | stream:BYTES:COUNT | flood:BYTES:COUNT";

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
                let seconds = job.run(&mut way)?;
                println!(
                    "{{\"job\": \"{}\", \"bytes\": {}, \"count\": {}, \"seconds\": {seconds:.9}}}",
                    job.name(),
                    job.bytes,
                    job.count
                );
            }
            job::end(&mut way)
        }
        ["instructions", from, to] => instructions::channel(from.parse()?, to.parse()?),
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
