// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The state that a node sends to a neighbour, as far as it concerns the neighbour.
//!
//! A state replaces all states that were sent over the link before, so it does not matter if some get
//! lost. Its length depends on its contents. This file is independent of what follows from a state.

use super::{
    super::{
        super::bytes::{check, Member, Reader, Writer},
        mastership::Mastership,
        packet::{Error, MAX_BYTES},
    },
    area::{first, MAX_AREA},
    group::{Group, LIMITS},
    sum,
};

/// First four bytes: "WFNS". No other message between neighbours begins with them.
pub const MAGIC: [u8; 4] = *b"WFNS";
/// Version of these messages.
pub const VERSION: u8 = 2;

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
    /// No area from this one on was ever given away, as far as they know.
    pub next: u32,
    /// The nodes without a local id, for each of [`LIMITS`].
    pub groups: [Group; LIMITS.len()],
}

/// Local ids for the nodes below.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// Which of [`LIMITS`] holds.
    pub limit: u8,
    /// The first id for the nodes that are joined with the receiver, and their number.
    pub lid: u32,
    /// Number of those.
    pub open: u16,
    /// First of the ids that they may give to nodes that come later.
    pub spare: u32,
    /// Number of those ids.
    pub spares: u16,
    /// The first area for the others.
    pub area: u32,
    /// Number of areas.
    pub areas: u32,
    /// No area from this one on was ever given away.
    pub next: u32,
    /// Number of the message with the report that this answers.
    pub answers: u32,
}

/// State of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// The mastership that it obeys.
    pub mastership: Mastership,
    /// Incarnation of the master.
    pub life: u32,
    /// Version of the assignments that it keeps.
    pub version: u32,
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
        w.u16(0);
        w.u32(0);
        w.u32(self.number);
        w.u32(self.seen);
        state.mastership.put(&mut w);
        w.u32(state.life);
        w.u32(state.version);
        w.u32(state.distance);
        if let Some(report) = &state.report {
            w.u32(report.total);
            w.u32(report.fresh);
            w.u32(report.next);
            for group in &report.groups {
                w.u16(group.open);
                w.u32(group.areas);
            }
        }
        if let Some(grant) = &state.grant {
            w.u8(grant.limit);
            w.u32(grant.lid);
            w.u16(grant.open);
            w.u32(grant.spare);
            w.u16(grant.spares);
            w.u32(grant.area);
            w.u32(grant.areas);
            w.u32(grant.next);
            w.u32(grant.answers);
        }
        let bytes = w.finish().unwrap_or(0);
        sum::put(buf.get_mut(..bytes).unwrap_or_default());
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
        let (flags, rest) = (r.u8()?, r.u16()?);
        if r.u32()? != sum::sum(buf) {
            return Err(Error::Checksum);
        }
        let has = |flag: u8| flags & flag != 0;
        check(flags < 16 && rest == 0)?;
        let (number, seen) = (r.u32()?, r.u32()?);
        let mut state = State {
            mastership: Mastership::get(&mut r)?,
            life: r.u32()?,
            version: r.u32()?,
            distance: r.u32()?,
            child: has(CHILD),
            report: None,
            grant: None,
        };
        check(state.mastership.master != 0 && number != 0)?;
        if has(REPORT) {
            let mut report = Report {
                total: r.u32()?,
                fresh: r.u32()?,
                next: r.u32()?,
                ..Report::default()
            };
            for group in &mut report.groups {
                (group.open, group.areas) = (r.u16()?, r.u32()?);
                let all = u32::from(group.open).checked_add(group.areas);
                check(all.is_some_and(|all| all <= report.fresh))?;
            }
            check(report.fresh <= report.total && report.next <= MAX_AREA + 1)?;
            state.report = Some(report);
        }
        if has(GRANT) {
            let grant = Grant {
                limit: r.u8()?,
                lid: r.u32()?,
                open: r.u16()?,
                spare: r.u32()?,
                spares: r.u16()?,
                area: r.u32()?,
                areas: r.u32()?,
                next: r.u32()?,
                answers: r.u32()?,
            };
            let end = |first: u32, count: u32, end: u32| {
                first.checked_add(count).is_some_and(|all| all <= end)
            };
            let lids = first(MAX_AREA + 1);
            check(usize::from(grant.limit) < LIMITS.len())?;
            check(grant.lid != 0 || grant.open == 0)?;
            check(end(grant.lid, grant.open.into(), lids))?;
            check(end(grant.spare, grant.spares.into(), lids))?;
            check(end(grant.area, grant.areas, MAX_AREA + 1) && grant.next <= MAX_AREA + 1)?;
            state.grant = Some(grant);
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
