// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `send`: files to another host.

use super::number::{hwid, rate, service};
use super::{Context, End, seconds};
use crate::channel::{Connector, Target};
use crate::failure::{Failure, Kind};
use crate::progress::Progress;
use crate::transfer::message::{Id, printable};
use crate::transfer::sender::{Sender, Source};
use crate::transfer::{Patience, Report};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The service that `recv` listens on unless told.
pub const SERVICE: u32 = 7001;

#[derive(clap::Args)]
pub struct Args {
    /// Files to send
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Hardware id of the receiver
    #[arg(long, value_name = "HWID", value_parser = hwid, visible_alias = "peer")]
    to: Option<u64>,
    /// Number of the link that leads to the receiver
    #[arg(long, value_name = "N")]
    link: Option<u32>,
    /// Service number at the receiver
    #[arg(long, value_name = "S", value_parser = service, default_value_t = SERVICE)]
    service: u32,
    /// How long to go on without progress; if given, the receiver may also come
    /// later than this [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

#[derive(Serialize)]
struct Sent {
    ok: bool,
    file: String,
    bytes: u64,
    seconds: f64,
    mb_per_s: f64,
    sha256: String,
    sha256_receiver: String,
    resumed: u32,
}

impl Sent {
    fn new(file: &str, report: &Report) -> Self {
        Sent {
            ok: true,
            file: file.into(),
            bytes: report.bytes,
            seconds: report.elapsed.as_secs_f64(),
            mb_per_s: rate(report.bytes, report.elapsed),
            sha256: report.here.to_string(),
            sha256_receiver: report.there.to_string(),
            resumed: report.resumed,
        }
    }

    fn text(&self) -> String {
        let resumed = match self.resumed {
            0 => String::new(),
            1 => ", resumed once".into(),
            n => format!(", resumed {n} times"),
        };
        format!(
            "{}: {} bytes in {:.3} s, {:.1} MB/s{resumed}\n  SHA-256 {} here\n          {} there\n",
            self.file, self.bytes, self.seconds, self.mb_per_s, self.sha256, self.sha256_receiver
        )
    }
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let target = Target { port: context.port.clone(), peer: args.to, link: args.link };
    let mut connector = Connector::new(target, args.service);
    let mut patience = Patience { at_first: args.timeout.is_some(), ..Patience::default() };
    patience.timeout = args.timeout.unwrap_or(patience.timeout);
    let mut first = None;
    for (done, file) in args.files.iter().enumerate() {
        let shown = printable(file.as_os_str().as_bytes());
        match send(context, file, &shown, patience, &mut connector) {
            Ok(report) => context.print(&Sent::new(&shown, &report), Sent::text)?,
            Err(failure) => {
                context.report(&failure, Some(&shown));
                first.get_or_insert(failure.kind);
                let left = args.files.len() - done - 1;
                // What the others would meet as well.
                let all = !matches!(failure.kind, Kind::Failed | Kind::Integrity);
                if all && left > 0 {
                    context.say(&format!("not tried: {left} more of the files"));
                    break;
                }
            }
        }
    }
    first.map_or(Ok(()), |kind| Err(End::Reported(kind)))
}

fn send(
    context: &Context,
    file: &Path,
    shown: &str,
    patience: Patience,
    connector: &mut Connector,
) -> Result<Report, Failure> {
    let source = Source::open(file)?;
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|e| Failure::new(Kind::Failed, format!("no random numbers: {e}")))?;
    let mut progress = Progress::new(shown, !context.quiet && !context.json);
    let mut watcher = |done, all| progress.at(done, all);
    Sender::new(source, Id(id), patience, &mut watcher).run(connector)
}
