// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A request as arrows between its initiator and its responder.

use super::event::Role;
use super::sequence::{Sequence, Step, Way};

/// Columns of an arrow.
const WIDTH: usize = 52;

/// The request, a line an arrow, and an empty one.
pub fn draw(sequence: &Sequence) -> String {
    let peer = sequence.peer_qpn.map_or("?".into(), |qpn| format!("{qpn:#x}"));
    let (left, right) = match sequence.initiator_here {
        Some(true) => ("initiator: this end", "responder: peer"),
        Some(false) => ("initiator: peer", "responder: this end"),
        None => ("this end", "peer"),
    };
    let mut text = format!(
        "{} link {}, queue pair {:#x} with {peer}, request {}{}\n",
        sequence.device,
        sequence.link,
        sequence.qpn,
        sequence.psn,
        if sequence.complete { "" } else { ", not all of it" },
    );
    let gap = (WIDTH + 2).saturating_sub(left.len() + right.len());
    text.push_str(&format!("{:>12}{left}{:gap$}{right}\n", "", ""));
    for step in &sequence.steps {
        let (seconds, micros) = (step.at_us / 1_000_000, step.at_us % 1_000_000);
        let time = format!("{:>10}", format!("{seconds}.{micros:06}"));
        text.push_str(&format!("{time}  |{}|\n", arrow(step)));
    }
    text.push('\n');
    text
}

fn label(step: &Step) -> String {
    let mut label = match step.way {
        Way::Data => String::new(),
        way => format!("{}: ", way.name()),
    };
    label.push_str(&step.name);
    match (step.name.as_str(), step.bytes, step.detail) {
        ("DONE", _, Some(part)) => label.push_str(&format!(" part {part}")),
        ("NAK", _, Some(why)) => label.push_str(&format!(" status {why}")),
        (_, Some(bytes), _) => label.push_str(&format!(", {bytes} bytes")),
        _ => {}
    }
    label
}

fn arrow(step: &Step) -> String {
    let line = if step.way == Way::Data { "=" } else { "-" };
    let label = label(step);
    let rest = WIDTH.saturating_sub(label.len() + 5);
    let lines = line.repeat(rest);
    match step.from {
        Role::Initiator => format!("{line}{line} {label} {lines}>"),
        Role::Responder => format!("<{lines} {label} {line}{line}"),
    }
}
