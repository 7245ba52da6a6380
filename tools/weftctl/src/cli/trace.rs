// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `trace`: what queue pairs tell each other, request by request.

use super::{Context, End, seconds};
use crate::failure::{Failure, Kind, plain};
use crate::trace::event::{Event, parse};
use crate::trace::sequence::{Sequence, Sequences};
use crate::trace::{picture, source::Source};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Only this queue pair of this host
    #[arg(long, value_name = "QPN", value_parser = number)]
    qp: Option<u32>,
    /// For so long [default: until Ctrl-C, or the command ends]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "from")]
    seconds: Option<Duration>,
    /// Decode lines that were saved from tracefs; - is the standard input
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    from: Option<PathBuf>,
    /// Run this, and trace while it runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How often it is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(100);

fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "not the number of a queue pair".into())
}

/// What of it is shown.
struct Shown<'a> {
    context: &'a Context,
    qp: Option<u32>,
    /// PCI address of the port that was asked for.
    device: Option<String>,
    sequences: Sequences,
}

impl Shown<'_> {
    fn line(&mut self, line: &str) -> Result<(), End> {
        let Some(event) = parse(line).filter(|event| self.wants(event)) else { return Ok(()) };
        for sequence in self.sequences.take(&event) {
            self.print(&sequence)?;
        }
        Ok(())
    }

    fn wants(&self, event: &Event) -> bool {
        self.qp.is_none_or(|qp| event.own == qp)
            && self.device.as_ref().is_none_or(|device| *device == event.device)
    }

    fn print(&self, sequence: &Sequence) -> Result<(), End> {
        self.context.print(sequence, picture::draw)
    }

    fn finish(mut self) -> Result<(), End> {
        for sequence in std::mem::take(&mut self.sequences).finish() {
            self.print(&sequence)?;
        }
        Ok(())
    }
}

/// The PCI address of `/dev/weftN`.
fn device(port: &Path) -> Result<String, Failure> {
    let name = port.file_name().unwrap_or_default();
    let link = Path::new("/sys/class/weft").join(name).join("device");
    let real = fs::canonicalize(&link)
        .map_err(|e| Failure::new(Kind::NoDevice, format!("{}: {}", port.display(), plain(e))))?;
    Ok(real.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let device = context.port.as_deref().map(device).transpose()?;
    let mut shown = Shown { context, qp: args.qp, device, sequences: Sequences::default() };
    if let Some(path) = &args.from {
        for line in saved(path)?.lines() {
            shown.line(line)?;
        }
        return shown.finish();
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(End::from)?;
    }
    let mut source = Source::open()?;
    let mut child = spawn(&args.command)?;
    let until = args.seconds.map(|seconds| Instant::now() + seconds);
    let mut status = None;
    loop {
        // First whether it has ended, then what there is: nothing of it is missed.
        let ended = match &mut child {
            Some(child) => {
                status = child.try_wait()?;
                status.is_some()
            }
            None => false,
        };
        let mut done = Ok(());
        source.lines(|line| {
            if done.is_ok() {
                done = shown.line(line);
            }
        })?;
        done?;
        if ended || stop.load(Ordering::Relaxed) || until.is_some_and(|at| Instant::now() >= at) {
            break;
        }
        source.wait(LOOK);
    }
    if source.lost > 0 {
        context.say(&format!("{} messages were lost: the kernel had no room", source.lost));
    }
    shown.finish()?;
    match status {
        Some(status) if !status.success() => {
            let command = args.command.join(" ");
            Err(Failure::new(Kind::Failed, format!("`{command}` ended with {status}")).into())
        }
        _ => Ok(()),
    }
}

fn saved(path: &Path) -> Result<String, Failure> {
    let mut bytes = vec![];
    let read = match path == Path::new("-") {
        true => io::stdin().lock().read_to_end(&mut bytes),
        false => fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|e| Failure::new(Kind::Failed, format!("{}: {}", path.display(), plain(e))))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn spawn(command: &[String]) -> Result<Option<Child>, Failure> {
    let Some((program, args)) = command.split_first() else { return Ok(None) };
    let child = Command::new(program).args(args).spawn();
    child
        .map(Some)
        .map_err(|e| Failure::new(Kind::Failed, format!("cannot run {program}: {}", plain(e))))
}
