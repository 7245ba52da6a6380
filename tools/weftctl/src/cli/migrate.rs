// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `vf migrate` and `vf receive`: where a virtual function can move, and the move.

use super::number::hwid;
use super::table::table;
use super::{Context, End, port_path, seconds};
use crate::failure::{Failure, Kind};
use crate::migrate::{Candidate, Moved, Name, Options, candidates, migrate, migrate_far, receive};
use serde::Serialize;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// The function that moves: port of its physical function and its number there
    #[arg(value_name = "PORT:VF", value_parser = name)]
    source: Name,
    /// The idle one that takes its place, written alike
    #[arg(value_name = "PORT:VF", value_parser = name, required_unless_present_any = ["dry_run", "to"])]
    target: Option<Name>,
    /// A function of another host takes its place, by its hardware id; `vf receive` waits there
    #[arg(long, value_name = "HWID", value_parser = hwid,
          conflicts_with_all = ["target", "dry_run", "live", "driver"])]
    to: Option<u64>,
    /// Only show what is possible, and what stands against it; without a target, of all
    #[arg(long)]
    dry_run: bool,
    /// Stop users that do not finish in time, rather than stay
    #[arg(long)]
    stop: bool,
    /// Move it with its users: they notice a pause, and nothing else
    #[arg(long, conflicts_with_all = ["stop", "driver"])]
    live: bool,
    /// How long users may take to finish [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = grace)]
    timeout: Option<Duration>,
    /// Give the target to this driver: weft, or vfio-pci for an image that is to have it
    #[arg(long, value_name = "NAME", value_parser = driver)]
    driver: Option<String>,
}

#[derive(clap::Args)]
pub struct Receive {
    /// The idle function that takes the place of another host's, as for `vf migrate`
    #[arg(value_name = "PORT:VF", value_parser = name)]
    target: Name,
    /// Only the function with this hardware id may come
    #[arg(long, value_name = "HWID", value_parser = hwid)]
    from: Option<u64>,
    /// How long to wait until that host asks for it [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = grace)]
    timeout: Option<Duration>,
}

/// "0:1", "weft0:1".
fn name(text: &str) -> Result<Name, String> {
    let (port, vf) = text.rsplit_once(':').ok_or("not PORT:VF, such as 0:1")?;
    let vf = vf.parse().map_err(|_| "not PORT:VF, such as 0:1".to_string())?;
    Ok(Name { port: port_path(port)?, vf })
}

/// As long as the driver waits at the most.
fn grace(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    match time.as_secs_f64() {
        0.0..=600.0 => Ok(time),
        _ => Err("must be from 0 to 600 seconds".into()),
    }
}

fn driver(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match !text.is_empty() && text.bytes().all(plain) {
        true => Ok(text.into()),
        false => Err("not the name of a driver".into()),
    }
}

#[derive(Serialize)]
struct Listed {
    candidates: Vec<Candidate>,
}

#[derive(Serialize)]
struct Report {
    migration: Moved,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    if args.dry_run {
        let candidates = candidates(&args.source, args.target.as_ref())?;
        return context.print(&Listed { candidates }, |listed| shown(&listed.candidates));
    }
    let options = Options {
        stop: args.stop,
        live: args.live,
        timeout: args.timeout,
        driver: args.driver.clone(),
    };
    let done = match (&args.target, args.to) {
        (Some(target), _) => migrate(&args.source, target, &options)?,
        (None, Some(hwid)) => migrate_far(&args.source, hwid, &options)?,
        (None, None) => return Err(Failure::new(Kind::Usage, "no target is given").into()),
    };
    report(context, done)
}

/// Waits for the function of another host.
pub fn wait(context: &Context, args: &Receive) -> Result<(), End> {
    report(context, receive(&args.target, args.from, args.timeout)?)
}

fn report(context: &Context, migration: Moved) -> Result<(), End> {
    let report = Report { migration };
    context.print(&report, |report| said(&report.migration))?;
    let migration = &report.migration;
    if migration.outcome == "moved" {
        return Ok(());
    }
    let why = match (migration.step, migration.event) {
        (Some(step), Some(event)) => format!("{step}: {event}"),
        _ => migration.obstacles.join(", "),
    };
    Err(Failure::new(Kind::Failed, format!("the VF has not moved: {why}")).into())
}

fn said(moved: &Moved) -> String {
    let mut text = format!("{}: {}", moved.hwid, moved.outcome);
    if let (Some(step), Some(event)) = (moved.step, moved.event) {
        text += &format!(" ({step}: {event}");
        if moved.outstanding != 0 {
            text += &format!(", {} outstanding", moved.outstanding);
        }
        text += ")";
    }
    let target = moved.target.as_ref().filter(|_| moved.outcome == "moved");
    if let Some(there) = target.and_then(|vf| vf.node.as_ref().or(vf.function.as_ref())) {
        text += &format!(" to {there}");
    }
    text + "\n"
}

fn yes_or_why(yes: bool, why: &[&str]) -> String {
    match (yes, why) {
        (true, _) => "yes".into(),
        (false, []) => "no".into(),
        (false, why) => format!("no: {}", why.join("; ")),
    }
}

fn shown(candidates: &[Candidate]) -> String {
    let head = ["TARGET", "STATE", "FUNCTION", "DRIVER", "PLACE", "POSSIBLE", "LIVE"];
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let row = |to: &Candidate| {
        vec![
            format!("{}:{}", to.vf.port, to.vf.vf),
            to.vf.state.clone(),
            or_none(&to.vf.function),
            or_none(&to.driver),
            to.place.to_owned(),
            yes_or_why(to.possible, &to.reasons),
            // What stands against both is said once.
            yes_or_why(to.live, if to.possible { &to.live_reasons } else { &[] }),
        ]
    };
    let head = head.map(String::from).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(candidates.iter().map(row)).collect();
    table(&rows, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_a_port_and_a_number() {
        let wanted = Name { port: "/dev/weft1".into(), vf: 3 };
        for text in ["1:3", "weft1:3", "/dev/weft1:3"] {
            assert_eq!(name(text), Ok(wanted.clone()), "{text}");
        }
        for text in ["1", "1:", ":1", "1:x", "1:-1", "weft:1"] {
            assert!(name(text).is_err(), "{text}");
        }
        assert!(grace("601").is_err() && driver("a/b").is_err() && driver("").is_err());
    }
}
