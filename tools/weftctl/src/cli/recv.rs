// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `recv`: files from other hosts, one sender after another.

use super::number::{rate, service};
use super::send::SERVICE;
use super::{Context, End, seconds};
use crate::channel::{Channel, Listener, Port};
use crate::failure::{Failure, Kind, plain};
use crate::progress::Progress;
use crate::transfer::folder::Folder;
use crate::transfer::receiver::{Arrival, Outcome, Receiver, Settings};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Directory to put files into [default: .]
    #[arg(value_name = "DIR", conflicts_with_all = ["dir", "output"])]
    into: Option<PathBuf>,
    /// The same as DIR
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    dir: Option<PathBuf>,
    /// Put the file here, whatever the sender calls it; implies --once
    #[arg(long, short, value_name = "FILE", conflicts_with = "count")]
    output: Option<PathBuf>,
    /// Service number to listen on
    #[arg(long, value_name = "S", value_parser = service, default_value_t = SERVICE)]
    service: u32,
    /// End after one file
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// End after so many files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End when no transfer came for so long; a transfer that broke is given up after
    /// this time [default: no end; 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Received {
    ok: bool,
    file: String,
    path: String,
    peer: String,
    bytes: u64,
    seconds: f64,
    mb_per_s: f64,
    sha256: String,
    sha256_sender: String,
    resumed: u32,
}

impl Received {
    fn new(arrival: &Arrival, peer: String) -> Self {
        let report = &arrival.report;
        Received {
            ok: true,
            file: arrival.name.clone(),
            path: arrival.path.display().to_string(),
            peer,
            bytes: report.bytes,
            seconds: report.elapsed.as_secs_f64(),
            mb_per_s: rate(report.bytes, report.elapsed),
            sha256: report.here.to_string(),
            sha256_sender: report.there.to_string(),
            resumed: report.resumed,
        }
    }

    fn text(&self) -> String {
        format!(
            "{}: {} bytes from {} in {:.3} s, {:.1} MB/s\n  SHA-256 {} here\n          {} there\n",
            self.path.escape_debug(),
            self.bytes,
            self.peer,
            self.seconds,
            self.mb_per_s,
            self.sha256,
            self.sha256_sender
        )
    }
}

/// The directory to open and the name that all files get.
fn place(args: &Args) -> Result<(PathBuf, Option<OsString>), Failure> {
    let Some(output) = &args.output else {
        let dir = args.into.as_ref().or(args.dir.as_ref());
        return Ok((dir.cloned().unwrap_or_else(|| ".".into()), None));
    };
    let name = output.file_name().ok_or_else(|| {
        Failure::new(Kind::Usage, format!("{}: not the path of a file", output.display()))
    })?;
    let dir = match output.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok((dir.into(), Some(name.into())))
}

/// Leaves nothing half when the process is told to end.
fn sweep_on_signals(folder: Folder) -> Result<(), Failure> {
    let failed = |e| Failure::new(Kind::Failed, format!("cannot handle signals: {}", plain(e)));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            folder.sweep();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(1);
        }
    });
    Ok(())
}

pub fn run(context: &Context, args: Args) -> Result<(), End> {
    let path = context.port()?;
    let port = Port::open(&path)?;
    let (dir, name) = place(&args)?;
    let folder = Folder::open(&dir, args.force).map_err(|e| {
        let message = format!("{}: cannot be used as a directory: {}", dir.display(), plain(e));
        Failure::new(Kind::Failed, message)
    })?;
    let mut settings = Settings { name, ..Settings::default() };
    settings.timeout = args.timeout.unwrap_or(settings.timeout);
    let listener = port.listen(args.service)?;
    sweep_on_signals(folder.clone())?;
    let (shown, service) = (path.display(), args.service);
    context.say(&format!("listening on {shown}, service {service}, files go to {}", dir.display()));
    let wanted = if args.once || args.output.is_some() { Some(1) } else { args.count };
    let linger = settings.timeout;
    let receiver = Receiver::new(folder, settings);
    let loops = Loop { context, listener, receiver, wanted, idle: args.timeout, linger };
    loops.run()
}

/// What goes on until enough has arrived.
struct Loop<'a> {
    context: &'a Context,
    listener: Listener,
    receiver: Receiver,
    /// How many files to end after.
    wanted: Option<u64>,
    /// How long no transfer may come.
    idle: Option<Duration>,
    /// How long a sender may come back that has not seen the verdict.
    linger: Duration,
}

impl Loop<'_> {
    fn run(mut self) -> Result<(), End> {
        let mut arrived = 0;
        // The first that went wrong; what is not whole is worse than what is not there.
        let mut worst: Option<Kind> = None;
        let mut since = Instant::now();
        loop {
            let idle = self.idle.map(|idle| since + idle);
            let until = [idle, self.receiver.expiry()].into_iter().flatten().min();
            let Some(channel) = self.listener.accept(until)? else {
                for message in self.receiver.expire(Instant::now()) {
                    self.lost(Kind::Unreachable, message, &mut worst);
                }
                match (idle, self.idle) {
                    (Some(end), Some(idle)) if Instant::now() >= end => {
                        return self.idle(idle, arrived, worst);
                    }
                    _ => continue,
                }
            };
            let (outcome, told) = self.serve(channel, &mut arrived)?;
            match outcome {
                Outcome::Arrived(_) | Outcome::Confirmed => {}
                Outcome::Interrupted(message) => self.context.say(&message),
                Outcome::Dropped(message) => self.lost(Kind::Failed, message, &mut worst),
                Outcome::Mismatch(message) => self.lost(Kind::Integrity, message, &mut worst),
            }
            if self.wanted.is_some_and(|wanted| arrived >= wanted) {
                if !told {
                    self.see_off()?;
                }
                return worst.map_or(Ok(()), |kind| Err(End::Reported(kind)));
            }
            since = Instant::now();
        }
    }

    /// Serves one connection; prints what arrived.
    fn serve(&mut self, mut channel: Channel, arrived: &mut u64) -> Result<(Outcome, bool), End> {
        let wanted = !self.context.quiet && !self.context.json;
        let peer = channel.peer();
        let mut progress = Progress::new(&format!("from {peer}"), wanted);
        let served = self.receiver.serve(&mut channel, &mut |done, all| progress.at(done, all));
        drop(progress);
        if let Outcome::Arrived(arrival) = &served.outcome {
            *arrived += 1;
            self.context.print(&Received::new(arrival, peer), Received::text)?;
        }
        Ok((served.outcome, served.told))
    }

    /// The sender of the last file may not know that it arrived: it will ask.
    fn see_off(&mut self) -> Result<(), End> {
        self.receiver.close();
        let end = Instant::now() + self.linger;
        while let Some(channel) = self.listener.accept(Some(end))? {
            if let (Outcome::Confirmed, true) = self.serve(channel, &mut 0)? {
                return Ok(());
            }
        }
        self.context.say("the sender may not know that its file arrived: it did not come back");
        Ok(())
    }

    fn lost(&self, kind: Kind, message: String, worst: &mut Option<Kind>) {
        self.context.report(&Failure::new(kind, message), None);
        if worst.is_none() || kind == Kind::Integrity {
            *worst = Some(kind);
        }
    }

    fn idle(&self, idle: Duration, arrived: u64, worst: Option<Kind>) -> Result<(), End> {
        if let Some(kind) = worst {
            return Err(End::Reported(kind));
        }
        if self.wanted.is_none() && arrived > 0 {
            return Ok(());
        }
        let seconds = idle.as_secs_f64();
        let message = match self.wanted {
            Some(wanted) => {
                format!("no transfer came for {seconds} s; {arrived} of {wanted} files arrived")
            }
            None => format!("no transfer came for {seconds} s"),
        };
        Err(Failure::new(Kind::Unreachable, message)
            .hint("run weftctl send at the other end")
            .into())
    }
}
