// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The administrator's assignments: the root complex that each virtual endpoint belongs to.
//!
//! Assignments name hardware ids, so they also apply to components that are not there yet. Their text
//! form has a line for each, `EP.VE ROOT` with ids in hexadecimal, and can be saved, edited and read
//! back; lines that are empty or begin with `#` are ignored. Lines `seen HWID DIGEST` record the
//! description of a component at the last traversal of a master: they travel with the assignments, so
//! that the next master knows it. Lines about virtual functions that move to other hosts
//! ([`super::super::relocation`]) travel with them, too. This file is independent of which components are there.

use super::{
    super::relocation::lines as relocation,
    super::text::{digits, number, words, Out},
    list::{Full, List},
};

/// First line of the text.
#[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
pub const HEAD: &[u8] = b"# weft assignments: endpoint.ve root\n";

/// First word of a line that records the description of a component.
const SEEN: &[u8] = b"seen";

/// An assignment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Assignment {
    /// Hardware id of the endpoint.
    pub endpoint: u64,
    /// Number of the virtual endpoint.
    pub ve: u8,
    /// Hardware id of the root complex.
    pub root: u64,
}

impl Assignment {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        endpoint: 0,
        ve: 0,
        root: 0,
    };
}

/// Digest of a component's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Hardware id of the component.
    pub hwid: u64,
    /// Digest of its description.
    pub digest: u32,
}

impl Seen {
    /// Initial value for memory.
    pub const NONE: Self = Self { hwid: 0, digest: 0 };

    fn write(&self, out: &mut Out<'_>) -> Option<()> {
        out.put(SEEN)?;
        out.put(b" ")?;
        out.hex(self.hwid)?;
        out.put(b" ")?;
        out.hex(self.digest.into())?;
        out.put(b"\n")
    }

    /// Returns the length of its line in bytes.
    fn bytes(&self) -> usize {
        SEEN.len() + 3 + digits(self.hwid) + digits(self.digest.into())
    }
}

/// Reason why a text was not taken; the assignments are as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// This line, counted from 1, is invalid.
    Line(u32),
    /// This line names a virtual endpoint that a line before it has assigned.
    Twice(u32),
    /// There is no room for this line.
    Full(u32),
}

/// All assignments, sorted.
pub struct Assignments<M>(List<Assignment, M>);

impl<M: AsRef<[Assignment]> + AsMut<[Assignment]>> Assignments<M> {
    /// Creates an empty list.
    pub fn new(memory: M) -> Self {
        Self(List::new(memory))
    }

    /// Returns all assignments, sorted by endpoint.
    pub fn all(&self) -> &[Assignment] {
        self.0.all()
    }

    /// Assigns a virtual endpoint to a root complex; replaces its former assignment.
    pub fn assign(&mut self, assignment: Assignment) -> Result<(), Full> {
        let of = |w: &Assignment| (w.endpoint, w.ve) == (assignment.endpoint, assignment.ve);
        if self.0.all().len() == self.0.capacity() && !self.0.all().iter().any(of) {
            return Err(Full);
        }
        self.0.retain(|w| !of(w));
        self.0.insert(assignment)
    }

    /// Replaces all assignments by those of a text; on an error, changes nothing.
    pub fn read(&mut self, text: &[u8]) -> Result<(), Error> {
        // The text is parsed twice, so that a text that is not taken changes nothing.
        let mut count = 0;
        for (said, line) in lines(text) {
            let assignment = match said.ok_or(Error::Line(line))? {
                Said::Assignment(assignment) => assignment,
                Said::Seen(_) => continue,
            };
            let of = |w: &Assignment| (w.endpoint, w.ve) == (assignment.endpoint, assignment.ve);
            if assignments(text)
                .take_while(|(_, n)| *n < line)
                .any(|(w, _)| of(&w))
            {
                return Err(Error::Twice(line));
            }
            count += 1;
            if count > self.0.capacity() {
                return Err(Error::Full(line));
            }
        }
        self.0.clear();
        for (assignment, line) in assignments(text) {
            self.assign(assignment).map_err(|Full| Error::Full(line))?;
        }
        Ok(())
    }
}

/// Iterates over the `seen` lines of a text.
pub fn seen(text: &[u8]) -> impl Iterator<Item = Seen> + '_ {
    lines(text).filter_map(|(said, _)| match said? {
        Said::Seen(seen) => Some(seen),
        Said::Assignment(_) => None,
    })
}

/// Returns whether a line is a `seen` line.
pub fn is_seen(line: &[u8]) -> bool {
    matches!(parse(line.trim_ascii()), Some(Said::Seen(_)))
}

/// Copies a text to `to` with its `seen` lines replaced by `seen`; all other lines stay. If there is no
/// room for all of `seen`, the first ones that are not `there` are left out, and then the last ones.
/// Returns the length in bytes; `None` if there is no room for the other lines.
pub fn annotate(
    text: &[u8],
    seen: &[Seen],
    there: impl Fn(u64) -> bool,
    to: &mut [u8],
) -> Option<usize> {
    let mut out = Out::new(to);
    for line in text.split_inclusive(|b| *b == b'\n') {
        if !is_seen(line) {
            out.put(line)?;
        }
    }
    if !seen.is_empty() {
        out.end_line()?;
    }
    let room = out.room();
    let all = seen.iter().map(Seen::bytes).sum::<usize>();
    let mut over = all.saturating_sub(room);
    for one in seen {
        let before = out.written();
        if over > 0 && !there(one.hwid) {
            over = over.saturating_sub(one.bytes());
        } else if one.write(&mut out).is_none() {
            // Removes the incomplete line.
            out.truncate(before);
            break;
        }
    }
    Some(out.written())
}

/// Iterates over the assignments of a valid text, with their line numbers.
fn assignments(text: &[u8]) -> impl Iterator<Item = (Assignment, u32)> + '_ {
    lines(text).filter_map(|(said, line)| match said? {
        Said::Assignment(assignment) => Some((assignment, line)),
        Said::Seen(_) => None,
    })
}

/// Returns the assignment of a line, if it is one.
#[cfg_attr(MODULE, expect(dead_code, reason = "used by weft"))]
pub fn of_line(line: &[u8]) -> Option<Assignment> {
    match parse(line.trim_ascii())? {
        Said::Assignment(assignment) => Some(assignment),
        Said::Seen(_) => None,
    }
}

/// A line.
enum Said {
    Assignment(Assignment),
    Seen(Seen),
}

/// Iterates over the lines of a text with their numbers, without empty ones and comments; `None` for an
/// invalid line.
fn lines(text: &[u8]) -> impl Iterator<Item = (Option<Said>, u32)> + '_ {
    let lines = text.split(|b| *b == b'\n').zip(1u32..);
    let lines = lines.map(|(line, n)| (line.trim_ascii(), n));
    lines
        .filter(|(line, _)| {
            !line.is_empty() && !line.starts_with(b"#") && !relocation::is_one(line)
        })
        .map(|(line, n)| (parse(line), n))
}

fn parse(line: &[u8]) -> Option<Said> {
    let mut words = words(line);
    let first = words.next()?;
    let said = if first == SEEN {
        Said::Seen(Seen {
            hwid: number(words.next()?).filter(|hwid| *hwid != 0)?,
            digest: u32::try_from(number(words.next()?)?).ok()?,
        })
    } else {
        let dot = first.iter().position(|b| *b == b'.')?;
        let id = |word| number(word).filter(|hwid| *hwid != 0);
        Said::Assignment(Assignment {
            endpoint: id(first.get(..dot)?)?,
            ve: u8::try_from(number(first.get(dot + 1..)?)?).ok()?,
            root: id(words.next()?)?,
        })
    };
    words.next().is_none().then_some(said)
}
