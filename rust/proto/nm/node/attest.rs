// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Whether a mastership comes from the host that it names, as the fabric attests it.
//!
//! Any node can send a write, in any name. What no host can change is where a packet came in at a switch,
//! which records it, and what the fabric says is at the end of a path. So a mastership is obeyed if the
//! path back ends at the hardware id of its master. A host that relays could record anything, so each
//! host on the way has to be one that may take part.
//!
//! In the steady state nothing is looked up. This file is independent of what is written.

use super::{
    super::{allow::Allowed, path::Path},
    Effects,
};

/// How long a path is taken to lead to the host that it led to.
pub const ATTESTED_MS: u64 = 1000;
/// How long writes over a path are refused, without looking again, after one was refused, but those of
/// the host that was found there.
pub const REFUSED_MS: u64 = 500;
/// Number of such paths that are remembered.
const REFUSED: usize = 8;
/// Most look-ups in [`REFUSED_MS`] that find another node than the one that is claimed.
pub const LOOKS: u32 = 16;

/// What the fabric says of the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum There {
    /// A node with this hardware id.
    Node(u64),
    /// The path leads nowhere.
    Nothing,
    /// The fabric does not answer.
    Unknown,
}

/// What was attested, and what was not.
pub(super) struct Attest {
    /// The host that was attested last, the path to it, and when.
    host: Option<(u64, Path, u64)>,
    /// Paths over which only what was found there is looked up, and until when.
    refused: [(Path, There, u64); REFUSED],
    next: usize,
    /// Look-ups that failed since this time.
    failed: (u32, u64),
    /// All writes that were refused for want of an attestation.
    count: u64,
}

impl Attest {
    pub(super) const NONE: Self = Self {
        host: None,
        refused: [(Path::EMPTY, There::Unknown, 0); REFUSED],
        next: 0,
        failed: (0, 0),
        count: 0,
    };

    /// Returns how many writes were refused.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Forgets what was attested over `port`; over any port if there is none.
    pub(super) fn forget(&mut self, port: Option<u8>) {
        let keeps = |path: &Path| port.is_some() && path.first() != port;
        self.host = self.host.filter(|(_, path, _)| keeps(path));
    }

    /// Returns whether the host that a write names is at the end of the path by which it came. Looks it
    /// up only if that is not known, and not too often for writes that are refused: a node that forges
    /// them must not keep this one busy.
    pub(super) fn admits(
        &mut self,
        now: u64,
        claimed: u64,
        path: &Path,
        allowed: &Allowed<impl AsRef<[u64]>>,
        fx: &mut impl Effects,
    ) -> bool {
        let known = self.host.is_some_and(|(hwid, at, when)| {
            hwid == claimed && at == *path && now.saturating_sub(when) < ATTESTED_MS
        });
        if known {
            return true;
        }
        let (failed, since) = self.failed;
        let failed = if now.saturating_sub(since) < REFUSED_MS {
            failed
        } else {
            self.failed = (0, now);
            0
        };
        let claim = There::Node(claimed);
        let mut refused = self.refused.iter();
        let refused =
            refused.any(|(at, there, until)| at == path && *there != claim && now < *until);
        if refused || failed >= LOOKS {
            self.count = self.count.saturating_add(1);
            return false;
        }
        match self.look(now, claimed, path, allowed, fx) {
            Ok(()) => true,
            Err(there) => {
                self.count = self.count.saturating_add(1);
                self.failed.0 = failed + 1;
                if let Some(place) = self.refused.get_mut(self.next) {
                    *place = (*path, there, now + REFUSED_MS);
                }
                self.next = (self.next + 1) % REFUSED;
                fx.unattested(claimed, there);
                false
            }
        }
    }

    /// Looks up whether the host `claimed` is at the end of `path`; if not, returns what is in its place,
    /// or the host on the way that may not take part.
    pub(super) fn look(
        &mut self,
        now: u64,
        claimed: u64,
        path: &Path,
        allowed: &Allowed<impl AsRef<[u64]>>,
        fx: &mut impl Effects,
    ) -> Result<(), There> {
        if !fx.attests() {
            return Ok(());
        }
        let mut way = Path::EMPTY;
        for port in path.ports() {
            way = way.then(*port).ok_or(There::Nothing)?;
            let ends = way.hops() == path.hops();
            if !ends && allowed.all() {
                continue;
            }
            match fx.there(&way) {
                There::Node(hwid) if ends && hwid == claimed => {}
                There::Node(hwid) if !ends && allowed.has(hwid) => {}
                there => return Err(there),
            }
        }
        if path.first().is_none() {
            return Err(There::Nothing);
        }
        self.host = Some((claimed, *path, now));
        Ok(())
    }
}
