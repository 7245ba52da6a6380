// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the environment asks for, read once when the library is loaded. It must not know what is made of it.

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::c_char;

/// Ranges of ports that can be named.
const RANGES: usize = 16;
const PATH: usize = 256;
const DEFAULT_WAIT_MS: i64 = 200;
const MOST_WAIT_MS: i64 = 60_000;
const DEFAULT_HOSTS: &CStr = c"/etc/weft/hosts";

/// Ports that connections may be moved of; all, if none is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    ranges: [(u16, u16); RANGES],
    count: usize,
}

impl Ports {
    /// Reads a list like `22,6000-6063`; `None` if it is none, or too long.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut ports = Self::default();
        for part in text.split(|byte| *byte == b',') {
            let mut ends = part.splitn(2, |byte| *byte == b'-');
            let first = number(ends.next()?)?;
            let last = match ends.next() {
                Some(text) => number(text)?,
                None => first,
            };
            if first > last {
                return None;
            }
            *ports.ranges.get_mut(ports.count)? = (first, last);
            ports.count += 1;
        }
        Some(ports)
    }

    /// Returns whether connections of a port may be moved.
    pub fn allow(&self, port: u16) -> bool {
        let named = self.ranges.get(..self.count).unwrap_or_default();
        named.is_empty() || named.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

fn number(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A path that outlives the environment.
pub struct Path([u8; PATH]);

impl Path {
    /// Returns it with the zero at its end.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    fn of(text: &CStr) -> Option<Self> {
        let bytes = text.to_bytes_with_nul();
        let mut path = Self([0; PATH]);
        path.0.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(path)
    }
}

/// What the explanations go to.
#[expect(clippy::large_enum_variant, reason = "there is one, and nothing is allocated")]
pub enum Explain {
    /// Nothing is explained.
    No,
    /// The standard error.
    Stderr,
    /// A file that lines are appended to.
    File(Path),
}

/// What the environment says.
pub struct Settings {
    /// `WEFT_SOCKETS_VERBOSE`.
    pub explain: Explain,
    /// `WEFT_SOCKETS_HOSTS`, `None` if the path is too long.
    pub hosts: Option<Path>,
    /// `WEFT_SOCKETS_PORTS`, `None` if that is no list: then nothing is moved.
    pub ports: Option<Ports>,
    /// `WEFT_SOCKETS_WAIT`: how long the other host may take to answer, in milliseconds, for a program that does not wait
    /// itself; `None` if that is no such number: then nothing is moved.
    pub wait_ms: Option<i64>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Returns a variable that is not empty.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `name` ends with a zero; what is found is copied before the program can change it.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as above; a variable ends with a zero.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }).filter(|text| !text.is_empty())
}

fn read() -> Settings {
    let explain = match variable(c"WEFT_SOCKETS_VERBOSE") {
        None => Explain::No,
        Some(text) if !text.to_bytes().contains(&b'/') => Explain::Stderr,
        Some(text) => Path::of(text).map_or(Explain::Stderr, Explain::File),
    };
    Settings {
        explain,
        hosts: Path::of(variable(c"WEFT_SOCKETS_HOSTS").unwrap_or(DEFAULT_HOSTS)),
        ports: match variable(c"WEFT_SOCKETS_PORTS") {
            None => Some(Ports::default()),
            Some(text) => Ports::parse(text.to_bytes()),
        },
        wait_ms: match variable(c"WEFT_SOCKETS_WAIT") {
            None => Some(DEFAULT_WAIT_MS),
            Some(text) => milliseconds(text.to_bytes()),
        },
    }
}

fn milliseconds(text: &[u8]) -> Option<i64> {
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    (0..=MOST_WAIT_MS).contains(&number).then_some(number)
}

/// Returns what the environment said when the library was loaded.
pub fn settings() -> &'static Settings {
    SETTINGS.get_or_init(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_list() {
        let ports = Ports::parse(b"22,6000-6063").unwrap();
        for (port, allowed) in [(22, true), (21, false), (6000, true), (6063, true), (6064, false)]
        {
            assert_eq!(ports.allow(port), allowed, "{port}");
        }
        assert!(Ports::default().allow(1));
    }

    #[test]
    fn lists_that_make_no_sense_are_none() {
        let long = "1,".repeat(RANGES) + "1";
        for text in ["", ",", "22,", "x", "70000", "9-3", "1-2-3", " 22", &long] {
            assert_eq!(Ports::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Ports::parse("1,".repeat(RANGES - 1).as_bytes()).is_none());
        assert!(Ports::parse(long.trim_end_matches(",1").as_bytes()).is_some());
    }

    #[test]
    fn a_wait_is_a_number_of_milliseconds() {
        for (text, read) in [("0", Some(0)), ("60000", Some(60_000)), ("60001", None)] {
            assert_eq!(milliseconds(text.as_bytes()), read, "{text}");
        }
        for text in ["", "-1", "1.5", "2s"] {
            assert_eq!(milliseconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_none() {
        assert!(Path::of(c"/etc/weft/hosts").is_some());
        let long = std::ffi::CString::new("x".repeat(PATH)).unwrap();
        assert!(Path::of(&long).is_none());
    }
}
