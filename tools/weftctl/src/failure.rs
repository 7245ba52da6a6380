// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Why a command failed: a kind, which is the exit status, what happened and
//! what to do about it. Knows nothing of what can fail.

use std::fmt;

/// What kind of failure; the numbers are the program's exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was tried and did not work.
    Failed = 1,
    /// The arguments do not fit what there is.
    Usage = 2,
    /// There is no such port, or no port at all.
    NoDevice = 3,
    /// The port is there, but not for this user.
    Permission = 4,
    /// No link leads there, no program listens, or the peer is silent.
    Unreachable = 5,
    /// What arrived is not what was to be sent.
    Integrity = 6,
}

/// A failure, to be reported once.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which exit status.
    pub kind: Kind,
    /// What happened to what.
    pub message: String,
    /// What to do, if anything can be said.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), hint: None }
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The status that the program exits with.
    pub fn status(&self) -> u8 {
        self.kind as u8
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, ": {hint}"),
            None => Ok(()),
        }
    }
}

/// An error of the system in words, without its number.
pub fn plain(e: impl Into<std::io::Error>) -> String {
    plain_text(&e.into().to_string())
}

/// The same for a text that ends with such an error.
pub fn plain_text(text: &str) -> String {
    let end = text.rfind(" (os error ").unwrap_or(text.len());
    text.get(..end).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_words() {
        let e = std::io::Error::from_raw_os_error(2);
        assert_eq!(plain(e), "No such file or directory");
        assert_eq!(plain(std::io::Error::other("other")), "other");
    }
}
