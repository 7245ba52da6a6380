// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What sysfs shows of ports and their links that is worth to be told when it
//! changes. Counters are not.

use super::object::Object;
use crate::diagnose::collect::{MOST_LINKS, names, text};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of a port.
const PORT: [&str; 4] = ["hwid", "generation", "present", "fabric"];
/// Those of its manager, in a directory of their own; the driver tells of each.
const MANAGER: [&str; 9] =
    ["role", "lid", "master", "term", "nodes", "routes", "hierarchy", "assignments", "mode"];
/// Files of a link; by the first the driver tells of all.
const LINK: [&str; 8] =
    ["state", "speed", "width", "role", "present", "peer_hwid", "peer_generation", "hello_error"];

/// Values by the names of their files, in the order of the lists above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State(pub Vec<(&'static str, String)>);

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl State {
    fn read(dir: &Path, files: &[&'static str]) -> Self {
        let value = |name: &&'static str| Some((*name, short(&text(&dir.join(name))?)));
        State(files.iter().filter_map(value).collect())
    }

    /// The value of a file, if it is there.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
    }
}

/// Ids have all their digits in sysfs, and few that matter.
fn short(value: &str) -> String {
    match value.strip_prefix("0x") {
        None => value.to_owned(),
        Some(digits) => match digits.trim_start_matches('0') {
            "" => "0x0".to_owned(),
            digits => format!("0x{digits}"),
        },
    }
}

/// A port, and the directory of its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As weft0.
    pub name: String,
    /// Where its files are.
    pub dir: PathBuf,
}

/// The ports of the host whose file system is at `root`.
pub fn places(root: &Path) -> Vec<Place> {
    let class = root.join("sys/class/weft");
    let place = |name: String| Place { dir: class.join(&name).join("device"), name };
    names(&class).into_iter().map(place).collect()
}

impl Place {
    /// The PCI address of its function.
    pub fn address(&self) -> Option<String> {
        let real = std::fs::canonicalize(&self.dir).ok()?;
        Some(real.file_name()?.to_string_lossy().into_owned())
    }

    /// The files, below its directory, by which the driver tells of changes.
    pub fn told(&self) -> Vec<String> {
        let manager = MANAGER.iter().map(|name| format!("manager/{name}"));
        let links = self.links().map(|n| format!("link{n}/state"));
        manager.filter(|file| self.dir.join(file).exists()).chain(links).collect()
    }

    /// Those of neighbours, then those over routes that lead somewhere now.
    fn links(&self) -> impl Iterator<Item = u32> {
        (0..MOST_LINKS).filter(|n| self.dir.join(format!("link{n}")).is_dir())
    }

    /// Everything of it that there is to see.
    pub fn read(&self) -> BTreeMap<Object, State> {
        let mut all = BTreeMap::new();
        let mut own = State::read(&self.dir, &PORT);
        own.0.extend(State::read(&self.dir.join("manager"), &MANAGER).0);
        // Its files come after the port itself, and go before it.
        if own.get("hwid").is_none() {
            return all;
        }
        all.insert(Object::Port(self.name.clone()), own);
        for n in self.links() {
            let link = State::read(&self.dir.join(format!("link{n}")), &LINK);
            if link.get("state").is_some() {
                all.insert(Object::Link(self.name.clone(), n), link);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short() {
        let all = ["0x0000000000000007", "0x0000000000000000", "ready", "10", "0xa0"];
        assert_eq!(all.map(short), ["0x7", "0x0", "ready", "10", "0xa0"]);
    }
}
