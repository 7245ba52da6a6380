// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Moving a virtual function: which targets there are, what stands against each, and the move itself.
//!
//! The driver does it, step by step, and goes back by itself; here is only seen to it that the target
//! gets the driver, of this host or of an image, that it is to have. Knows nothing of how it is shown.

use crate::channel;
use crate::failure::{Failure, Kind, plain, plain_text};
use crate::vf::{Pf, Vf};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft::{Error, Migrate, Migration, Outcome, Port};

/// A virtual function, by the port of its physical one and its number there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Device file of the port.
    pub port: PathBuf,
    /// Its number.
    pub vf: u32,
}

/// What is known of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// How it is now.
    #[serde(flatten)]
    pub vf: Vf,
    /// The driver that has it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// How far away: same-port, same-endpoint or other-endpoint.
    pub place: &'static str,
    /// Whether the source can move there.
    pub possible: bool,
    /// What stands against it, a word each.
    pub obstacles: Vec<&'static str>,
    /// The same, for people.
    #[serde(skip)]
    pub reasons: Vec<&'static str>,
    /// Whether it can with its users noticing nothing but a pause.
    pub live: bool,
    /// What stands against that, a word each.
    pub live_obstacles: Vec<&'static str>,
    /// The same, for people.
    #[serde(skip)]
    pub live_reasons: Vec<&'static str>,
}

/// What became of a migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// How it ended.
    pub outcome: &'static str,
    /// Hardware id that moved.
    pub hwid: String,
    /// Where something went wrong first,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'static str>,
    /// and what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<&'static str>,
    /// What the source's driver said last that was outstanding.
    pub outstanding: u32,
    /// What stood against it.
    pub obstacles: Vec<&'static str>,
    /// How the target is now, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Vf>,
}

/// How it is to be done.
pub struct Options {
    /// Stop users that do not finish.
    pub stop: bool,
    /// Users are to notice nothing but a pause.
    pub live: bool,
    /// How long they have.
    pub timeout: Option<Duration>,
    /// The driver that the target is to have.
    pub driver: Option<String>,
}

fn failure(error: &Error) -> Failure {
    let kind = match error {
        Error::NoPort(_) | Error::Gone => Kind::NoDevice,
        Error::Permission(_) => Kind::Permission,
        Error::Invalid(_) => Kind::Usage,
        Error::Os { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            return Failure::new(Kind::Permission, plain_text(&error.to_string()))
                .hint("where a VF is, is root's to say (CAP_SYS_ADMIN)");
        }
        Error::Busy => {
            return Failure::new(Kind::Failed, "another migration is under way");
        }
        _ => Kind::Failed,
    };
    Failure::new(kind, plain_text(&error.to_string()))
}

fn open(name: &Name) -> Result<Port, Failure> {
    Port::open_path(&name.port).map_err(|e| failure(&e))
}

fn ask(from: &Port, to: &Port, options: &Migrate) -> Result<Migration, Failure> {
    from.migrate(options, to).map_err(|e| failure(&e))
}

/// The driver that has a function.
fn driver(function: &str) -> Option<String> {
    let link = fs::read_link(device(function).join("driver")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

fn device(function: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(function)
}

/// What is the same of two functions.
fn place(source: &str, target: &str) -> &'static str {
    let slot = |address: &str| address.rsplit_once('.').map(|(slot, _)| slot.to_owned());
    if source == target {
        "same-port"
    } else if slot(source) == slot(target) {
        "same-endpoint"
    } else {
        "other-endpoint"
    }
}

fn candidate(source: &Name, target: &Name) -> Result<Candidate, Failure> {
    let (from, to) = (open(source)?, open(target)?);
    let mut options = Migrate {
        vf: source.vf,
        target_vf: target.vf,
        dry_run: true,
        stop: false,
        live: false,
        timeout: None,
    };
    let said = ask(&from, &to, &options)?;
    options.live = true;
    let live = ask(&from, &to, &options)?;
    let (pf, other) = (Pf::new(&source.port)?, Pf::new(&target.port)?);
    let vf = other.vf(target.vf)?;
    Ok(Candidate {
        driver: vf.function.as_deref().and_then(driver),
        vf,
        place: place(&pf.address()?, &other.address()?),
        possible: said.is_possible(),
        obstacles: said.obstacles().collect(),
        reasons: said.reasons().collect(),
        live: live.is_possible(),
        live_obstacles: live.obstacles().collect(),
        live_reasons: live.reasons().collect(),
    })
}

/// What `source` could move to: that of `target`, or all that are enabled on this host.
pub fn candidates(source: &Name, target: Option<&Name>) -> Result<Vec<Candidate>, Failure> {
    if let Some(target) = target {
        return Ok(vec![candidate(source, target)?]);
    }
    let mut found = Vec::new();
    for port in channel::ports() {
        for vf in Pf::new(&port)?.vfs()? {
            let target = Name { port: port.clone(), vf: vf.vf };
            if vf.state != "off" && target != *source {
                found.push(candidate(source, &target)?);
            }
        }
    }
    Ok(found)
}

/// The driver that a function is to have when it is given to one; that of its ids, without.
struct Override {
    file: PathBuf,
    was: String,
    /// The former owner of the function.
    bound: Option<String>,
    function: String,
}

impl Override {
    fn set(function: &str, name: &str) -> Result<Self, Failure> {
        let dir = device(function);
        let file = dir.join("driver_override");
        let failed = |e| Failure::new(Kind::Failed, format!("{}: {}", file.display(), plain(e)));
        let was = fs::read_to_string(&file).map_err(failed)?.trim().to_owned();
        let was = if was == "(null)" { String::new() } else { was };
        let wanted = if name == "weft" { "\n" } else { name };
        fs::write(&file, wanted).map_err(failed)?;
        let given = Override { file, was, bound: driver(function), function: function.into() };
        // Of another one the driver does not take it: it is not used, as the driver has said.
        let other = |bound: &&String| *bound != "weft" && *bound != name;
        if let Some(bound) = given.bound.as_ref().filter(other) {
            if let Err(e) = fs::write(dir.join("driver/unbind"), function) {
                let text = format!("{bound}: {}", plain(e));
                given.back();
                return Err(Failure::new(Kind::Failed, text));
            }
        }
        Ok(given)
    }

    fn back(&self) {
        let was = if self.was.is_empty() { "\n" } else { &self.was };
        // The next one to give it away says so itself.
        let _ = fs::write(&self.file, was);
        if self.bound.is_some() && driver(&self.function).is_none() {
            let _ = fs::write("/sys/bus/pci/drivers_probe", &self.function);
        }
    }
}

/// Moves it.
pub fn migrate(source: &Name, target: &Name, options: &Options) -> Result<Moved, Failure> {
    let (from, to) = (open(source)?, open(target)?);
    let mut call = Migrate {
        vf: source.vf,
        target_vf: target.vf,
        dry_run: true,
        stop: options.stop,
        live: options.live,
        timeout: options.timeout,
    };
    let pf = Pf::new(&target.port)?;
    let mut done = ask(&from, &to, &call)?;
    if done.is_possible() {
        let given = match (&options.driver, pf.vf(target.vf)?.function) {
            (Some(name), Some(function)) => Some(Override::set(&function, name)?),
            _ => None,
        };
        call.dry_run = false;
        let result = ask(&from, &to, &call);
        let stays = |done: &Migration| !matches!(done.outcome, Outcome::Moved | Outcome::AtTarget);
        if result.as_ref().map_or(true, stays) {
            if let Some(given) = given {
                given.back();
            }
        }
        done = result?;
    }
    Ok(moved(&done, pf.vf(target.vf).ok()))
}

fn moved(done: &Migration, target: Option<Vf>) -> Moved {
    Moved {
        outcome: if done.outcome == Outcome::Asked { "stayed" } else { done.outcome.name() },
        hwid: format!("{:#018x}", done.hwid),
        step: done.why.map(|(step, _)| step),
        event: done.why.map(|(_, event)| event),
        outstanding: done.outstanding,
        obstacles: done.obstacles().collect(),
        target,
    }
}

/// Moves it to a function of another host, which receives it; `hwid` is that of this function.
pub fn migrate_far(source: &Name, hwid: u64, options: &Options) -> Result<Moved, Failure> {
    let call = Migrate {
        vf: source.vf,
        target_vf: 0,
        dry_run: false,
        stop: options.stop,
        live: options.live,
        timeout: options.timeout,
    };
    let done = open(source)?.migrate_far(&call, hwid).map_err(|e| failure(&e))?;
    Ok(moved(&done, None))
}

/// Has a function take the place of another host's, once that host asks for it; only of that with the id `from`, if
/// one is given.
pub fn receive(
    target: &Name,
    from: Option<u64>,
    timeout: Option<Duration>,
) -> Result<Moved, Failure> {
    let call =
        Migrate { vf: target.vf, target_vf: 0, dry_run: false, stop: false, live: false, timeout };
    let done = open(target)?.receive(&call, from.unwrap_or(0)).map_err(|e| failure(&e))?;
    let vf = Pf::new(&target.port)?.vf(target.vf).ok();
    Ok(moved(&done, vf.filter(|_| done.outcome == Outcome::Moved)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mig_3_how_far_a_target_is() {
        assert_eq!(place("0000:01:00.0", "0000:01:00.0"), "same-port");
        assert_eq!(place("0000:01:00.0", "0000:01:00.1"), "same-endpoint");
        assert_eq!(place("0000:01:00.0", "0000:02:00.0"), "other-endpoint");
    }
}
