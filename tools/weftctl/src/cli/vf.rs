// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `vf`: the virtual functions of ports, and what each may use.

use super::number::bytes;
use super::table::table;
use super::{Context, End, migrate, port_path};
use crate::failure::{Failure, Kind};
use crate::vf::{Change, Pf, Vf};
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    /// Show those that are not enabled, too
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Change what a virtual function may use
    Set(Set),
    /// Move a virtual function to an idle one
    Migrate(migrate::Args),
    /// Wait for a virtual function that moves here from another host
    Receive(migrate::Receive),
}

#[derive(clap::Args)]
struct Set {
    /// The port of its physical function
    #[arg(value_name = "PORT", value_parser = port_path)]
    pf: PathBuf,
    /// Its number there, from 0 on
    vf: u32,
    /// slots, apertures, doorbells, pages, bytes, links, channels, peers, rate or
    /// rings; links and peers are a bit each, rate (bytes by DMA) and rings are of
    /// a second, 0 is no limit
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = Change::parse)]
    changes: Vec<Change>,
}

#[derive(Serialize)]
struct Report {
    vfs: Vec<Vf>,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let vfs = match &args.command {
        Some(Command::Migrate(args)) => return migrate::run(context, args),
        Some(Command::Receive(args)) => return migrate::wait(context, args),
        Some(Command::Set(set)) => {
            let mut names: Vec<_> = set.changes.iter().map(|change| &change.name).collect();
            names.sort();
            if let Some([twice, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
                return Err(Failure::new(Kind::Usage, format!("{twice} is given twice")).into());
            }
            vec![Pf::new(&set.pf)?.set(set.vf, &set.changes)?]
        }
        None => {
            let mut vfs = Vec::new();
            for port in context.ports()? {
                vfs.extend(Pf::new(&port)?.vfs()?);
            }
            vfs.retain(|vf| args.all || vf.state != "off");
            vfs
        }
    };
    context.print(&Report { vfs }, |report| shown(&report.vfs))
}

fn shown(vfs: &[Vf]) -> String {
    let head = [
        "PORT",
        "VF",
        "STATE",
        "DEVICE",
        "FUNCTION",
        "LINKS",
        "SLOTS",
        "APERTURES",
        "BYTES",
        "RATE",
        "RINGS",
    ];
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let limit =
        |value, shown: fn(u64) -> String| if value == 0 { "-".into() } else { shown(value) };
    let row = |vf: &Vf| {
        vec![
            vf.port.clone(),
            vf.vf.to_string(),
            vf.state.clone(),
            or_none(&vf.node),
            or_none(&vf.function),
            format!("{:#x}", vf.quota.links),
            format!("{} of {}", vf.used.slots, vf.quota.slots),
            format!("{} of {}", vf.used.apertures, vf.quota.apertures),
            format!("{} of {}", bytes(vf.used.bytes), bytes(vf.quota.bytes)),
            limit(vf.quota.rate, |rate| format!("{}/s", bytes(rate))),
            limit(vf.quota.rings, |rings| format!("{rings}/s")),
        ]
    };
    let head = head.map(String::from).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(vfs.iter().map(row)).collect();
    table(&rows, 0)
}
