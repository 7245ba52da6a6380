// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the administrator assignments: which virtual endpoint is to be whose, as a text that is read, changed
//! line by line, and given back; and what became of each assignment.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::{self, Ioctl};
use crate::told::{self, Told, unmanaged};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::BorrowedFd;
use weft_proto::mr::assignment;

pub use weft_proto::mr::assignment::Assignment;

/// Times that the text is read anew because it has become longer meanwhile.
const TRIES: u32 = 100;

/// What became of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignmentState {
    /// The master has not looked at it yet.
    Waits,
    /// The endpoint is the host's.
    Done,
    /// No such endpoint was found.
    NoEndpoint,
    /// It has no such virtual endpoint.
    NoVe,
    /// No such host was found.
    NoRoot,
    /// One of the two has no local id yet.
    NoLid,
    /// No way between them leads through switches.
    NoWay,
    /// A link on the way has no virtual plane left.
    NoPlane,
    /// The host's hierarchy has no room for it.
    NoRoom,
    /// A table on the way could not be written.
    Failed,
    /// The host has not taken it.
    NotTaken,
    /// A state that this library does not know.
    Other(u32),
}

impl From<u32> for AssignmentState {
    fn from(number: u32) -> Self {
        match number {
            abi::WEFT_ASSIGNMENT_WAITS => AssignmentState::Waits,
            abi::WEFT_ASSIGNMENT_DONE => AssignmentState::Done,
            abi::WEFT_ASSIGNMENT_NO_ENDPOINT => AssignmentState::NoEndpoint,
            abi::WEFT_ASSIGNMENT_NO_VE => AssignmentState::NoVe,
            abi::WEFT_ASSIGNMENT_NO_ROOT => AssignmentState::NoRoot,
            abi::WEFT_ASSIGNMENT_NO_LID => AssignmentState::NoLid,
            abi::WEFT_ASSIGNMENT_NO_WAY => AssignmentState::NoWay,
            abi::WEFT_ASSIGNMENT_NO_PLANE => AssignmentState::NoPlane,
            abi::WEFT_ASSIGNMENT_NO_ROOM => AssignmentState::NoRoom,
            abi::WEFT_ASSIGNMENT_FAILED => AssignmentState::Failed,
            abi::WEFT_ASSIGNMENT_NOT_TAKEN => AssignmentState::NotTaken,
            other => AssignmentState::Other(other),
        }
    }
}

impl fmt::Display for AssignmentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            AssignmentState::Waits => "the master has not looked at it yet",
            AssignmentState::Done => "done",
            AssignmentState::NoEndpoint => "no such endpoint was found",
            AssignmentState::NoVe => "the endpoint has no such virtual endpoint",
            AssignmentState::NoRoot => "no such host was found",
            AssignmentState::NoLid => "one of the two has no local id yet",
            AssignmentState::NoWay => "no way between them leads through switches",
            AssignmentState::NoPlane => "a link on the way has no virtual plane left",
            AssignmentState::NoRoom => "the host's hierarchy has no room for it",
            AssignmentState::Failed => "a table on the way could not be written",
            AssignmentState::NotTaken => "the host has not taken it",
            AssignmentState::Other(_) => "unknown",
        })
    }
}

/// An assignment, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignmentStatus {
    /// The assignment.
    pub assignment: Assignment,
    /// What became of it.
    pub state: AssignmentState,
}

/// The text of all assignments. Whatever else stands in it, comments for example, stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments {
    /// An assignment a line, see Documentation/multiroot.rst.
    pub text: Vec<u8>,
    /// Its version, 0: there never were any.
    pub version: u32,
}

impl Assignments {
    /// The longest text.
    pub const MOST_BYTES: usize = abi::WEFT_ASSIGNMENTS_BYTES as usize;

    /// Those that the text states.
    pub fn all(&self) -> impl Iterator<Item = Assignment> + '_ {
        self.lines().filter_map(assignment::of_line)
    }

    /// The host that is to have a virtual endpoint.
    pub fn root_of(&self, endpoint: u64, ve: u8) -> Option<u64> {
        self.all().find(|w| (w.endpoint, w.ve) == (endpoint, ve)).map(|w| w.root)
    }

    /// A virtual endpoint is to belong to this host and no other. Its line is put where the one before
    /// was, or at the end.
    pub fn assign(&mut self, assignment: Assignment) {
        let Assignment { endpoint, ve, root } = assignment;
        let line = format!("{endpoint:x}.{ve:x} {root:x}\n");
        let (mut text, mut done) = (Vec::new(), false);
        // An editor of the file learns what its lines are.
        if self.assigned().is_empty() {
            text.extend_from_slice(assignment::HEAD);
        }
        for old in self.lines() {
            match assignment::of_line(old) {
                Some(w) if (w.endpoint, w.ve) == (endpoint, ve) => {
                    if !done {
                        text.extend_from_slice(line.as_bytes());
                    }
                    done = true;
                }
                _ => text.extend_from_slice(old),
            }
        }
        if !done {
            if !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line.as_bytes());
        }
        self.text = text;
    }

    /// Takes a virtual endpoint from its host. Returns whether it had one.
    pub fn withdraw(&mut self, endpoint: u64, ve: u8) -> bool {
        let is = |line: &&[u8]| {
            let assignment = assignment::of_line(line);
            assignment.is_some_and(|w| (w.endpoint, w.ve) == (endpoint, ve))
        };
        let text: Vec<u8> = self.lines().filter(|line| !is(line)).flatten().copied().collect();
        let was = text.len() < self.text.len();
        self.text = text;
        was
    }

    /// The text without what the master has added to it, for comparison: lines that say what components
    /// were when they were seen.
    pub fn assigned(&self) -> Vec<u8> {
        let mut text = vec![0; self.text.len()];
        let bytes = assignment::annotate(&self.text, &[], |_| false, &mut text).unwrap_or_default();
        text.truncate(bytes);
        text
    }

    /// Lines, each with its newline.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.text.split_inclusive(|b| *b == b'\n')
    }
}

/// The assignments that the host keeps.
pub fn assignments(port: BorrowedFd<'_>) -> Result<Option<Assignments>> {
    let mut room = Assignments::MOST_BYTES;
    for _ in 0..TRIES {
        let mut text = vec![0; room];
        let mut call = abi::weft_fabric_assignments::default();
        match ioctl::read_assignments(&mut call, &mut text, port) {
            Ok(()) => {
                text.truncate(call.bytes as usize);
                return Ok(Some(Assignments { text, version: call.version }));
            }
            Err(e) if unmanaged(&e) => return Ok(None),
            // A driver that has room for more than there was at this library's time.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::NOBUFS) => {
                room = call.bytes as usize;
            }
            Err(e) => return Err(Error::managed("asking for the assignments", e)),
        }
    }
    Err(Error::Driver("the assignments grow faster than they can be read"))
}

/// Replaces the assignments; `false`: the port has no manager.
pub fn set_assignments(port: BorrowedFd<'_>, assignments: &mut Assignments) -> Result<bool> {
    let mut call =
        abi::weft_fabric_assignments { version: assignments.version, ..Default::default() };
    match ioctl::write_assignments(&mut call, &assignments.text, port) {
        Ok(()) => {
            assignments.version = call.version;
            Ok(true)
        }
        Err(e) if unmanaged(&e) => Ok(false),
        Err(e) => Err(match (Errno::from_io_error(&e), call.line) {
            (Some(Errno::INVAL), line @ 1..) => Error::AssignmentLine(line),
            (Some(Errno::NOSPC), line) => Error::AssignmentRoom(line.max(1)),
            _ => Error::managed("replacing the assignments", e),
        }),
    }
}

/// What became of each assignment, as it was at one time.
pub fn assignment_statuses(port: BorrowedFd<'_>) -> Result<Option<Vec<AssignmentStatus>>> {
    told::all("asking what became of the assignments", |index| {
        let mut call = abi::weft_fabric_assignment { index, ..Default::default() };
        call.call(port)?;
        // No text says of a larger one.
        let ve = u8::try_from(call.ve).unwrap_or(u8::MAX);
        let assignment = Assignment { endpoint: call.endpoint, ve, root: call.root };
        let value = AssignmentStatus { assignment, state: AssignmentState::from(call.state) };
        Ok(Told { value, count: call.count, serial: call.serial })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(endpoint: u64, ve: u8, root: u64) -> Assignment {
        Assignment { endpoint, ve, root }
    }

    fn text(assignments: &Assignments) -> &str {
        std::str::from_utf8(&assignments.text).expect("text")
    }

    #[test]
    fn a_change_leaves_the_other_lines_as_they_are() {
        let mut assignments = Assignments::default();
        assignments.assign(assignment(0xc000_0000_0000_0007, 10, 0x1f));
        assert_eq!(
            text(&assignments),
            "# weft assignments: endpoint.ve root\nc000000000000007.a 1f\n"
        );

        assignments.text = b"# the left rack\n  7.0   1\n\n# spare\n8.0 2".to_vec();
        assignments.assign(assignment(7, 0, 3));
        assert_eq!(text(&assignments), "# the left rack\n7.0 3\n\n# spare\n8.0 2");
        assignments.assign(assignment(7, 1, 3));
        assert_eq!(text(&assignments), "# the left rack\n7.0 3\n\n# spare\n8.0 2\n7.1 3\n");
        assert_eq!(
            assignments.all().collect::<Vec<_>>(),
            [assignment(7, 0, 3), assignment(8, 0, 2), assignment(7, 1, 3)]
        );
        assert_eq!((assignments.root_of(8, 0), assignments.root_of(8, 1)), (Some(2), None));

        assert!(
            assignments.withdraw(7, 0)
                && !assignments.withdraw(7, 0)
                && !assignments.withdraw(9, 0)
        );
        assert_eq!(text(&assignments), "# the left rack\n\n# spare\n8.0 2\n7.1 3\n");

        // What the master has seen stays, and is no assignment.
        assignments.text = b"8.0 2\nseen 8 1f2e\n# end".to_vec();
        assert_eq!(assignments.all().count(), 1);
        assert_eq!(assignments.assigned(), b"8.0 2\n# end");
        assert!(assignments.withdraw(8, 0));
        assert_eq!(text(&assignments), "seen 8 1f2e\n# end");
        assignments.text = b"seen 8 1f2e\n".to_vec();
        assignments.assign(assignment(8, 0, 2));
        assert_eq!(
            text(&assignments),
            "# weft assignments: endpoint.ve root\nseen 8 1f2e\n8.0 2\n"
        );
    }

    #[test]
    fn every_state_has_words_of_its_own() {
        let words: Vec<_> = (0..12).map(|n| AssignmentState::from(n).to_string()).collect();
        for (n, word) in words.iter().enumerate() {
            assert!(!words[..n].contains(word), "{word}");
        }
        assert_eq!(AssignmentState::from(1), AssignmentState::Done);
        assert_eq!(AssignmentState::from(11), AssignmentState::Other(11));
    }
}
