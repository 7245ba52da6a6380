// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The lines of the assignments about functions that other hosts have, or get: which identity each carries,
//! and how far a migration between hosts is.
//!
//! ```text
//!   carries FUNCTION ID                            FUNCTION has the identity of ID
//!   move SOURCE TARGET NUMBER STAGE QUOTA ...      SOURCE moves to TARGET
//!   moves NUMBER                                   the last migration that was begun
//! ```
//!
//! Functions are named by the hardware ids that they have by themselves, in hexadecimal; one without a line
//! carries its own. The master alone changes these lines, one request at a time, and only from the stage that
//! a request builds upon: of two requests that exclude each other the second one is refused. A migration begins
//! with the number after the last one alone, so what was asked for in one that is over changes nothing. The identities
//! are exchanged in the same change as the stage, so no text gives one of them to two functions.

use super::super::{
    bytes::{Reader, Writer},
    pair::is_same_port,
    text::{number, words, Out},
};

/// First words of the lines.
const CARRIES: &[u8] = b"carries";
const MOVE: &[u8] = b"move";
const MOVES: &[u8] = b"moves";
/// Number of members of a quota.
pub const QUOTA: usize = 7;
/// Bytes of a request.
pub const REQUEST_BYTES: usize = 22 + 8 * QUOTA;
/// Most identities that are not with their own functions, and most migrations at a time.
pub const MAX_CARRIED: usize = 32;
/// See [`MAX_CARRIED`].
pub const MAX_MOVES: usize = 4;

numbered! {
    /// How far a migration is.
    pub enum Stage: u8 {
        /// It is over: there is no line.
        Closed = 0,
        /// The source's host wants it.
        Asked = 1,
        /// The target is claimed: it has no driver and no users.
        Ready = 2,
        /// The source is cut off; the target carries the identity.
        Given = 3,
        /// The target works.
        Done = 4,
        /// The source's host wants it back: the target is to be taken from its driver.
        Revoked = 5,
        /// The target carries the identity, and no driver has it.
        Failed = 6,
        /// The source carries the identity again; the target is to be as before.
        Back = 7,
    }
}

const NAMES: [(&[u8], Stage); 7] = [
    (b"asked", Stage::Asked),
    (b"ready", Stage::Ready),
    (b"given", Stage::Given),
    (b"done", Stage::Done),
    (b"revoked", Stage::Revoked),
    (b"failed", Stage::Failed),
    (b"back", Stage::Back),
];

/// A migration that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The function that is left, by its own hardware id.
    pub source: u64,
    /// The function that takes its place.
    pub target: u64,
    /// [`next_number`] when it begins.
    pub number: u32,
    /// How far it is.
    pub stage: Stage,
    /// The quota that the target is to get.
    pub quota: [u64; QUOTA],
}

/// A request to bring a migration from one stage to another. It is for that stage alone, so one that is late does
/// nothing where its sender would not have asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The stage that its sender sees.
    pub from: Stage,
    /// The migration, as it is to be.
    pub to: Move,
}

/// The host that asks for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// That of the source.
    Source,
    /// That of the target.
    Target,
}

/// Reason why a request changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is so already.
    Already,
    /// The migration is not at the stage that the request names, or this host may not bring it from there.
    Order,
    /// One of the functions is part of another migration.
    Busy,
    /// There is no room.
    Full,
}

impl Move {
    fn is_of(&self, other: &Self) -> bool {
        (self.source, self.target, self.number) == (other.source, other.target, other.number)
    }

    fn write(&self, out: &mut Out<'_>) -> Option<()> {
        let name = NAMES.iter().find(|(_, stage)| *stage == self.stage)?.0;
        out.put(MOVE)?;
        for n in [self.source, self.target, self.number.into()] {
            out.put(b" ")?;
            out.hex(n)?;
        }
        out.put(b" ")?;
        out.put(name)?;
        for n in self.quota {
            out.put(b" ")?;
            out.hex(n)?;
        }
        out.put(b"\n")
    }
}

impl Request {
    /// Encodes it and returns its length in bytes; `None` if it does not fit.
    pub fn encode(&self, buf: &mut [u8; REQUEST_BYTES]) -> Option<usize> {
        let mut w = Writer::new(buf);
        w.u64(self.to.source);
        w.u64(self.to.target);
        w.u32(self.to.number);
        w.u8(self.from as u8);
        w.u8(self.to.stage as u8);
        for n in self.to.quota {
            w.u64(n);
        }
        w.finish()
    }

    /// Decodes it.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        let (source, target) = (r.u64().ok()?, r.u64().ok()?);
        let number = r.u32().ok()?;
        let from = Stage::of(r.u8().ok()?)?;
        let stage = Stage::of(r.u8().ok()?)?;
        let mut quota = [0; QUOTA];
        for n in &mut quota {
            *n = r.u64().ok()?;
        }
        let to = Move {
            source,
            target,
            number,
            stage,
            quota,
        };
        (r.rest().is_empty() && source != target).then_some(Self { from, to })
    }
}

/// A line.
#[derive(Clone, Copy)]
enum Line {
    Carries(u64, u64),
    Move(Move),
    Last(u32),
}

fn parse(line: &[u8]) -> Option<Line> {
    let mut words = words(line);
    let kind = words.next()?;
    let mut next = || number(words.next()?);
    let line = if kind == CARRIES {
        Line::Carries(next()?, next()?)
    } else if kind == MOVES {
        Line::Last(u32::try_from(next()?).ok()?)
    } else if kind == MOVE {
        let (source, target) = (next()?, next()?);
        let number = u32::try_from(next()?).ok()?;
        let name = words.next()?;
        let mut quota = [0; QUOTA];
        for n in &mut quota {
            *n = super::super::text::number(words.next()?)?;
        }
        Line::Move(Move {
            source,
            target,
            number,
            stage: NAMES.iter().find(|(is, _)| *is == name)?.1,
            quota,
        })
    } else {
        return None;
    };
    words.next().is_none().then_some(line)
}

/// Returns whether a line is one of these.
pub fn is_one(line: &[u8]) -> bool {
    parse(line).is_some()
}

fn lines(text: &[u8]) -> impl Iterator<Item = Line> + '_ {
    text.split(|b| *b == b'\n').filter_map(parse)
}

/// Iterates over the migrations that are under way.
pub fn moves(text: &[u8]) -> impl Iterator<Item = Move> + '_ {
    lines(text).filter_map(|line| match line {
        Line::Move(one) => Some(one),
        Line::Carries(..) | Line::Last(_) => None,
    })
}

/// Returns the number of the migration that begins next.
pub fn next_number(text: &[u8]) -> u32 {
    let last = lines(text).find_map(|line| match line {
        Line::Last(number) => Some(number),
        Line::Carries(..) | Line::Move(_) => None,
    });
    last.unwrap_or(0).wrapping_add(1)
}

/// Iterates over the functions that carry another identity than their own, each with that identity.
pub fn carriers(text: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    lines(text).filter_map(|line| match line {
        Line::Carries(function, id) if function != 0 && id != 0 => Some((function, id)),
        Line::Carries(..) | Line::Move(_) | Line::Last(_) => None,
    })
}

/// Returns the identity that a function carries.
pub fn carried(text: &[u8], function: u64) -> u64 {
    carriers(text)
        .find(|(of, _)| *of == function)
        .map_or(function, |(_, id)| id)
}

/// Returns how far a migration is.
pub fn stage(text: &[u8], of: &Move) -> Stage {
    moves(text)
        .find(|one| one.is_of(of))
        .map_or(Stage::Closed, |one| one.stage)
}

/// Returns whether a host may bring a migration from one stage to another, and whether the identities are
/// exchanged then. `gone`: the target's host is not in the fabric.
fn may(party: Party, from: Stage, to: Stage, gone: bool) -> Option<bool> {
    use Stage::{Asked, Back, Closed, Done, Failed, Given, Ready, Revoked};
    let exchanges = match (party, from, to) {
        (Party::Source, Closed, Asked) => false,
        (Party::Target, Asked, Ready) => false,
        (Party::Source, Ready, Given) => true,
        (Party::Target, Given, Done) => false,
        (Party::Source, Given | Done, Revoked) => false,
        (Party::Target, Given | Revoked, Failed) => false,
        (Party::Source, Failed, Back) => true,
        // A target that is not there does not use it. When it is back, it reads what has become of it.
        (Party::Source, Given | Done | Revoked, Back) if gone => true,
        // A line that is closed leaves the identity where it is.
        (_, Asked | Ready | Given | Done | Revoked | Failed | Back, Closed) => false,
        _ => return None,
    };
    Some(exchanges)
}

/// What the master knows besides the text.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// Returns whether the host of a function is in the fabric.
    pub there: &'a dyn Fn(u64) -> bool,
    /// Returns whether a line may go if there is no room for all.
    pub spare: fn(&[u8]) -> bool,
}

/// Copies a text to `to` with the change for which the host of `party` asks. Returns its length in bytes.
pub fn amend(
    text: &[u8],
    party: Party,
    request: &Request,
    around: &Around<'_>,
    to: &mut [u8],
) -> Result<usize, Refusal> {
    match amend_with(text, party, request, around.there, |_| false, to) {
        Err(Refusal::Full) => amend_with(text, party, request, around.there, around.spare, to),
        done => done,
    }
}

/// As [`amend`], without the lines that are `spare`.
fn amend_with(
    text: &[u8],
    party: Party,
    request: &Request,
    there: &dyn Fn(u64) -> bool,
    spare: impl Fn(&[u8]) -> bool,
    to: &mut [u8],
) -> Result<usize, Refusal> {
    let wanted = &request.to;
    let from = stage(text, wanted);
    if from == wanted.stage {
        return Err(Refusal::Already);
    }
    if from != request.from {
        return Err(Refusal::Order);
    }
    let gone = !there(wanted.target);
    let exchanges = may(party, from, wanted.stage, gone).ok_or(Refusal::Order)?;
    let begins = wanted.stage == Stage::Asked;
    if begins && wanted.number != next_number(text) {
        return Err(Refusal::Order);
    }
    // A host moves one function at a time: what is left of another migration ends when it begins one. So does what
    // another host wants of the source, and what no host is left to end. None of it changes an identity.
    let is_left = |one: &Move| {
        is_same_port(one.source, wanted.source)
            || one.target == wanted.source
            || !there(one.source) && !there(one.target)
    };
    let replaced = |one: &Move| one.is_of(wanted) || begins && is_left(one);
    let mut others = moves(text).filter(|one| !replaced(one));
    let ends = [wanted.source, wanted.target];
    if begins && others.any(|one| ends.contains(&one.source) || ends.contains(&one.target)) {
        return Err(Refusal::Busy);
    }
    if begins && moves(text).filter(|one| !replaced(one)).count() >= MAX_MOVES {
        return Err(Refusal::Full);
    }
    let quota = moves(text)
        .find(|one| one.is_of(wanted))
        .map_or(wanted.quota, |one| one.quota);
    let now = Move { quota, ..*wanted };
    let is_end = |function: u64| exchanges && ends.contains(&function);
    let mut out = Out::new(to);
    for line in text.split_inclusive(|b| *b == b'\n') {
        let stays = match parse(line) {
            Some(Line::Move(one)) => !replaced(&one),
            Some(Line::Carries(function, _)) => !is_end(function),
            Some(Line::Last(_)) => !begins,
            None => !spare(line),
        };
        if stays {
            out.put(line).ok_or(Refusal::Full)?;
        }
    }
    out.end_line().ok_or(Refusal::Full)?;
    if exchanges {
        let mut count = carriers(text).filter(|(of, _)| !is_end(*of)).count();
        let pairs = [(now.source, now.target), (now.target, now.source)];
        for (function, other) in pairs {
            let id = carried(text, other);
            if id != function {
                count += 1;
                carry(&mut out, function, id).ok_or(Refusal::Full)?;
            }
        }
        if count > MAX_CARRIED {
            return Err(Refusal::Full);
        }
    }
    if begins {
        out.put(MOVES).ok_or(Refusal::Full)?;
        out.put(b" ").ok_or(Refusal::Full)?;
        out.hex(now.number.into()).ok_or(Refusal::Full)?;
        out.put(b"\n").ok_or(Refusal::Full)?;
    }
    if now.stage != Stage::Closed {
        now.write(&mut out).ok_or(Refusal::Full)?;
    }
    Ok(out.written())
}

fn carry(out: &mut Out<'_>, function: u64, id: u64) -> Option<()> {
    out.put(CARRIES)?;
    for n in [function, id] {
        out.put(b" ")?;
        out.hex(n)?;
    }
    out.put(b"\n")
}

/// Copies a text that an administrator has written to `to`, with these lines of the text `before` and none of
/// its own. Returns its length in bytes; `None` if there is no room.
pub fn keep(before: &[u8], text: &[u8], to: &mut [u8]) -> Option<usize> {
    let mut out = Out::new(to);
    for (text, own) in [(text, false), (before, true)] {
        for line in text.split_inclusive(|b| *b == b'\n') {
            if is_one(line) == own {
                out.put(line)?;
            }
        }
        if !own && is_any(before) {
            out.end_line()?;
        }
    }
    Some(out.written())
}

fn is_any(text: &[u8]) -> bool {
    lines(text).next().is_some()
}
