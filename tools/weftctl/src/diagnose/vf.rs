// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Checks of a virtual function, from the side of its physical one: whether a driver
//! has it, and whether it may use what its driver needs.

use super::finding::{Finding, Place};
use super::snapshot::{Port, Vf};

/// Bytes that a driver wants for each link, at least.
const LEAST_BYTES: u64 = 256 << 10;

pub fn check(port: &Port, vf: &Vf) -> Vec<Finding> {
    let here = || Place::Function(vf.function.clone());
    let who = format!("VF {} of {}", vf.number, port.name);
    let set = |words: &str| format!("`weftctl vf set {} {} {words}`", port.name, vf.number);
    let mut found = Vec::new();
    let mut warn = |id, what: String, mend: String| {
        found.push(Finding::warning(id, here(), what).mend(mend));
    };
    let links = port.links.len() as u64;
    let all = (1 << links) - 1;
    if vf.links & all == 0 {
        let what = format!("{who}: its quota has no link");
        warn("vf-no-links", what, set(&format!("links={all:#x}")));
    }
    let wanted = [
        ("slots", vf.slots, links),
        ("apertures", vf.apertures, links),
        ("doorbells", vf.doorbells, 2 * links),
        ("pages", vf.pages, 2 * links),
        ("bytes", vf.bytes, LEAST_BYTES * u64::from((vf.links & all).count_ones().max(1))),
    ];
    let less: Vec<_> = wanted.iter().filter(|(_, has, wants)| has < wants).collect();
    if !less.is_empty() {
        let says = |join: &str, f: fn(&str, u64, u64) -> String| {
            let each = less.iter().map(|(name, has, wants)| f(name, *has, *wants));
            each.collect::<Vec<_>>().join(join)
        };
        let what = says(", ", |name, has, wants| format!("{has} {name} of {wants}"));
        let what = format!("{who}: its quota has less than its driver wants: {what}");
        let mend = set(&says(" ", |name, _, wants| format!("{name}={wants}")));
        warn("vf-quota", what, mend);
    } else if vf.driver.is_none() && vf.state == "idle" {
        let what = format!("{who}: it has no driver");
        let mend = format!(
            "`echo {} >/sys/bus/pci/drivers_probe`, and `dmesg`: each takes vectors of a processor",
            vf.function
        );
        warn("vf-idle", what, mend);
    }
    if vf.rate != 0 || vf.rings != 0 {
        let each = [(vf.rate, "bytes by DMA"), (vf.rings, "doorbells")];
        let has: Vec<_> = each
            .iter()
            .filter(|(limit, _)| *limit != 0)
            .map(|(limit, of)| format!("{limit} {of}"))
            .collect();
        let what = format!("{who}: has {} in a second, at most", has.join(" and "));
        found.push(Finding::note("vf-rate", here(), what).mend(set("rate=0 rings=0")));
    }
    found
}
