// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The state that a node sends to a neighbour, as far as it concerns the neighbour.
//!
//! A state replaces all states that were sent over the link before, so it does not matter if some get
//! lost. Its length depends on its contents. This file is independent of what follows from a state.

use super::{
    super::{
        super::{
            bytes::{check, Member, Reader, Writer},
            crc::crc32c,
        },
        mastership::Mastership,
        packet::{Error, MAX_BYTES},
    },
    set::Set,
};

/// First four bytes: "WFNS". No other message between neighbours begins with them.
pub const MAGIC: [u8; 4] = *b"WFNS";
/// Version of these messages.
pub const VERSION: u8 = 1;
/// Bytes of a state without a report and a grant.
pub const SHORTEST: usize = 36;

const CHILD: u8 = 1;
const REPORT: u8 = 2;
const GRANT: u8 = 4;
const AGAIN: u8 = 8;

/// The nodes below a node, including itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Number of nodes.
    pub total: u32,
    /// Number of nodes without a local id.
    pub fresh: u32,
    /// No id from this one on was ever given away, as far as they know.
    pub next: u32,
    /// The ids of the others.
    pub held: Set,
}

/// Local ids for the nodes below.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The first id.
    pub first: u32,
    /// Number of ids.
    pub count: u32,
    /// No id from this one on was ever given away.
    pub next: u32,
    /// Number of the message with the report that this answers.
    pub answers: u32,
    /// The ids are for all nodes below, not only for those that have none.
    pub anew: bool,
}

/// State of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// The mastership that it obeys.
    pub mastership: Mastership,
    /// Number of links to the master.
    pub distance: u32,
    /// The receiver is the parent of the sender.
    pub child: bool,
    /// To the parent: the nodes below.
    pub report: Option<Report>,
    /// To a child: local ids.
    pub grant: Option<Grant>,
}

/// A message with a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Rises with each new state sent over the link.
    pub number: u32,
    /// Number of the newest state received over the link.
    pub seen: u32,
    /// It was sent before, and not acknowledged.
    pub again: bool,
    /// The state.
    pub state: State,
}

impl Message {
    /// Encodes the message and returns its length in bytes.
    pub fn encode(&self, buf: &mut [u8; MAX_BYTES]) -> usize {
        let state = &self.state;
        let mut w = Writer::new(buf);
        let flags = [
            (state.child, CHILD),
            (state.report.is_some(), REPORT),
            (state.grant.is_some(), GRANT),
            (self.again, AGAIN),
        ];
        w.put(&MAGIC);
        w.u8(VERSION);
        w.u8(flags.iter().filter(|f| f.0).fold(0, |all, f| all | f.1));
        let intervals = state.report.map_or(0, |r| r.held.intervals().len());
        w.u8(intervals as u8);
        w.u8(u8::from(state.grant.is_some_and(|grant| grant.anew)));
        w.u32(0);
        w.u32(self.number);
        w.u32(self.seen);
        state.mastership.put(&mut w);
        w.u32(state.distance);
        if let Some(report) = &state.report {
            w.u32(report.total);
            w.u32(report.fresh);
            w.u32(report.next);
            for interval in report.held.intervals() {
                w.u32(interval.first);
                w.u32(interval.last);
            }
        }
        if let Some(grant) = &state.grant {
            w.u32(grant.first);
            w.u32(grant.count);
            w.u32(grant.next);
            w.u32(grant.answers);
        }
        let bytes = w.finish().unwrap_or(0);
        let sum = sum(buf.get(..bytes).unwrap_or_default());
        if let Some(at) = buf.get_mut(8..12) {
            at.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// Decodes a message.
    pub fn parse(buf: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(buf);
        if r.array()? != MAGIC {
            return Err(Error::Magic);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let (flags, intervals, anew) = (r.u8()?, r.u8()?, r.u8()?);
        if r.u32()? != sum(buf) {
            return Err(Error::Checksum);
        }
        let has = |flag: u8| flags & flag != 0;
        check(flags < 16 && anew <= u8::from(has(GRANT)))?;
        check(has(REPORT) || intervals == 0)?;
        let (number, seen) = (r.u32()?, r.u32()?);
        let mut state = State {
            mastership: Mastership::get(&mut r)?,
            distance: r.u32()?,
            child: has(CHILD),
            report: None,
            grant: None,
        };
        check(state.mastership.master != 0 && number != 0)?;
        if has(REPORT) {
            let (total, fresh, next) = (r.u32()?, r.u32()?, r.u32()?);
            let mut held = Set::EMPTY;
            for _ in 0..intervals {
                check(held.add(r.u32()?, r.u32()?))?;
            }
            check(held.count().checked_add(fresh) == Some(total))?;
            state.report = Some(Report {
                total,
                fresh,
                next,
                held,
            });
        }
        if has(GRANT) {
            let (first, count, next, answers) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
            check(first != 0 && first.checked_add(count).is_some_and(|end| end <= next))?;
            state.grant = Some(Grant {
                first,
                count,
                next,
                answers,
                anew: anew == 1,
            });
        }
        check(r.rest().is_empty())?;
        Ok(Self {
            number,
            seen,
            again: has(AGAIN),
            state,
        })
    }
}

/// Returns the CRC32C of the message without its checksum field.
fn sum(bytes: &[u8]) -> u32 {
    let head = bytes.get(..8).unwrap_or_default();
    let rest = bytes.get(12..).unwrap_or_default();
    crc32c(head.iter().chain(rest).copied())
}
