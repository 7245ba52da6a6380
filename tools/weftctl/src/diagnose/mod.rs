// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Why Weft does not work on this host. A [`snapshot`] of what is to be seen is
//! taken by [`collect()`], and by [`ask()`] of the driver; each check is a small piece of logic over it, and
//! [`picture`] draws where the way to the peers breaks.

pub mod ask;
pub mod collect;
pub mod finding;
pub mod snapshot;

mod endpoints;
mod fabric;
mod function;
mod host;
mod kmsg;
mod link;
mod picture;
mod port;
mod vf;

pub use ask::ask;
pub use collect::collect;
pub use finding::{Finding, Level, Place};
pub use picture::picture;
pub use snapshot::Snapshot;

/// Everything that is found, the worst first.
pub fn diagnose(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = host::check(snapshot);
    for function in &snapshot.functions {
        found.extend(function::check(snapshot, function));
        if let (Some(port), true) = (&function.port, function.is_ours() && !function.is_gone()) {
            found.extend(port::check(function, port));
            found.extend(function.vfs.iter().flat_map(|vf| vf::check(port, vf)));
            // Without a fabric there is no more to say about its links.
            if port.fabric != Some(false) {
                found.extend(link::check(function, port));
                found.extend(fabric::check(function, port));
                found.extend(endpoints::check(snapshot, function, port));
            }
        }
    }
    found.sort_by(|a, b| (a.level, &a.at).cmp(&(b.level, &b.at)));
    found
}

/// Whether one of them is more than a note.
pub fn is_wrong(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level != Level::Note)
}

/// Whether a link is where it stays for a moment only, so that another look is
/// worth the time.
pub fn is_settling(snapshot: &Snapshot) -> bool {
    let mut ports = snapshot.functions.iter().filter_map(|function| function.port.as_ref());
    let waits = |link: &snapshot::Link| link.state == "hello" && link.present != Some(false);
    ports.any(|port| {
        let up = port.links.iter().any(|link| link.state != "down");
        let complete = fabric::is_complete(port) && endpoints::is_complete(port);
        port.links.iter().any(waits) || (up && !complete)
    })
}
