// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A virtual hierarchy as a tree, in the manner of `lspci -t`: the host, the switches on
//! the way, and the virtual endpoints that are its own.

use super::known::{Hierarchy, Known, Place};
use super::name::Names;
use crate::twig::Twig;

/// The tree of one hierarchy.
pub fn text(hierarchy: &Hierarchy, known: &Known) -> String {
    let names = Names::new(known.components.as_deref());
    let mut text = String::new();
    let Some(host) = hierarchy.places.first() else { return text };
    text.push_str(&line(host, &names));
    text.push_str(&match hierarchy.number {
        0 => ", no endpoint is its own\n".to_owned(),
        number => format!(", hierarchy {number}\n"),
    });
    below(hierarchy, 0, &Twig::root(), &names, &mut text);
    text
}

fn below(tree: &Hierarchy, of: usize, twig: &Twig, names: &Names<'_>, text: &mut String) {
    let children: Vec<usize> =
        (0..tree.places.len()).filter(|place| tree.above(*place) == Some(of)).collect();
    for (n, child) in children.iter().enumerate() {
        let Some(place) = tree.places.get(*child) else { continue };
        let next = twig.next(n + 1 == children.len());
        text.push_str(&format!("{}{}- {}\n", next.corner(), place.port, line(place, names)));
        below(tree, *child, &next, names, text);
    }
}

fn line(place: &Place, names: &Names<'_>) -> String {
    let Place { kind, hwid, lid, given, .. } = place;
    let lid = if *lid == 0 { "no LID".into() } else { format!("LID {lid}") };
    let Some(given) = given else {
        let only = if kind == "endpoint" { ", only there" } else { "" };
        return format!("{}, {lid}{only}", names.called(kind, *hwid));
    };
    let functions = match given.functions {
        1 => "1 function".into(),
        n => format!("{n} functions"),
    };
    format!(
        "{}, VE {}, {lid}, {functions}, plane {}, {:#x}-{:#x}",
        names.called(kind, *hwid),
        given.ve,
        given.plane,
        given.base,
        given.limit,
    )
}
