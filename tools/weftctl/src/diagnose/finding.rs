// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What a check has found: where, how bad, what it is and what mends it.

use serde::{Serialize, Serializer};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Does not work because of this.
    Fault,
    /// Works, but not as it should.
    Warning,
    /// Nothing is wrong; worth to know when something else is.
    Note,
}

/// Where in the picture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// This host as a whole.
    Host,
    /// The module.
    Module,
    /// A PCI function, by its address; the empty one is missing.
    Function(String),
    /// A device file, by its name.
    Node(String),
    /// A link of a function.
    Link(String, u32),
    /// A component of the fabric, or a virtual endpoint of it, as people call it.
    Component(String),
}

/// One result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind; never changes, for scripts.
    pub id: &'static str,
    /// How bad.
    pub level: Level,
    /// Where.
    pub at: Place,
    /// What it is.
    pub what: String,
    /// What mends it, with the file or the command; empty if there is nothing to do.
    pub mend: String,
}

impl Finding {
    /// Something that keeps Weft from working.
    pub fn fault(id: &'static str, at: Place, what: impl Into<String>) -> Self {
        Finding { id, level: Level::Fault, at, what: what.into(), mend: String::new() }
    }

    /// Something that should not be.
    pub fn warning(id: &'static str, at: Place, what: impl Into<String>) -> Self {
        Finding { level: Level::Warning, ..Self::fault(id, at, what) }
    }

    /// Something to know.
    pub fn note(id: &'static str, at: Place, what: impl Into<String>) -> Self {
        Finding { level: Level::Note, ..Self::fault(id, at, what) }
    }

    /// Says what mends it.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = mend.into();
        self
    }
}

impl Place {
    /// The link `n` of a function.
    pub fn link(address: &str, n: u32) -> Self {
        Place::Link(address.into(), n)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Fault => "fault",
            Level::Warning => "warning",
            Level::Note => "note",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Host => f.write_str("host"),
            Place::Module => f.write_str("weft.ko"),
            Place::Function(address) if address.is_empty() => f.write_str("PCI"),
            Place::Function(address) => f.write_str(address),
            Place::Node(name) => write!(f, "/dev/{name}"),
            Place::Component(name) => f.write_str(name),
            Place::Link(address, n) => write!(f, "{address} link {n}"),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
