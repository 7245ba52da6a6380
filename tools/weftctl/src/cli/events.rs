// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `events`: what happens to ports and links, as it happens.

use super::{Context, End, seconds};
use crate::failure::{Failure, Kind, plain};
use crate::watch::event::What;
use crate::watch::watcher::{Watcher, Woken};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// End after so many; what there is at the beginning is not counted
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so long; with --count, that is a failure [default: by a signal only]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let (stop, stopper) = UnixStream::pair()?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, stopper.try_clone()?)?;
    }
    let only = context.port.as_ref().and_then(|path| path.file_name());
    let only = only.map(|name| name.to_string_lossy().into_owned());
    let mut watcher = Watcher::new(PathBuf::from("/"), only, &stop).map_err(failed)?;
    if !watcher.hears_kernel() {
        context.say("the kernel's own events cannot be heard: ports that come are not seen");
    }
    let until = args.timeout.map(|timeout| Instant::now() + timeout);
    let (mut first, mut count) = (true, 0);
    loop {
        for event in watcher.look().map_err(failed)? {
            // At first, what is there has not happened now.
            let counts = !(first && matches!(event.what, What::Seen(_)));
            context.print(&event, |event| format!("{event}\n"))?;
            count += u64::from(counts);
            if args.count == Some(count) {
                return Ok(());
            }
        }
        if first && watcher.ports() == 0 {
            context.say("there is no such port yet: it is waited for");
        }
        first = false;
        match (watcher.wait(until).map_err(failed)?, args.count) {
            (Woken::Told, _) => {}
            (Woken::Late, Some(wanted)) => {
                let message = format!("{count} of {wanted} events have happened");
                return Err(Failure::new(Kind::Failed, message).into());
            }
            (Woken::Late | Woken::Stopped, _) => return Ok(()),
        }
    }
}

fn failed(e: std::io::Error) -> Failure {
    Failure::new(Kind::Failed, format!("cannot watch the ports: {}", plain(e)))
}
