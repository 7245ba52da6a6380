// SPDX-License-Identifier: GPL-2.0 OR MIT

//! From the command that loads the driver to the first byte.

use crate::job::{self, Job};
use crate::way::Way;
use crate::{PATIENCE, Result, appears};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use weft::{LinkState, Port};

/// Runs `command`, waits for the link to be ready, and has one byte go there and back. Says when the
/// command had ended, the link was ready and the byte was back: seconds from the beginning.
pub fn measure(service: &str, command: &[&str]) -> Result<()> {
    let (program, words) = command.split_first().ok_or("a command has to load the driver")?;
    let trip: Job = "round-trip:1:1".parse()?;
    let start = Instant::now();
    if !Command::new(program).args(words).status()?.success() {
        return Err(format!("{program} has failed").into());
    }
    let loaded = start.elapsed();
    appears(Path::new("/dev/weft0"))?;
    Port::open(0)?.wait_link(0, LinkState::Ready, PATIENCE)?;
    let ready = start.elapsed();
    let words = ["channel", "0", service, "sleeping"];
    let (mut way, _) = Way::connect(&words)?;
    trip.run(&mut way)?;
    let first = start.elapsed();
    job::end(&mut way)?;
    let [loaded, ready, first] = [loaded, ready, first].map(|time| time.as_secs_f64());
    println!("{{\"loaded\": {loaded:.6}, \"ready\": {ready:.6}, \"first\": {first:.6}}}");
    Ok(())
}
