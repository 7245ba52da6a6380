// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `traffic`: what has passed each cable, in each direction.

use super::table::table;
use super::{Context, Failure, status};
use crate::state::{CableStatus, TrafficStatus};

pub fn run(context: &Context) -> Result<(), Failure> {
    context.print(&status::get(context)?.fabric.cables, |cables| {
        let rows: Vec<_> = cables.iter().flat_map(rows).collect();
        table(["FROM", "TO", "TLPS", "BYTES", "DOORBELLS"], &rows)
    })
}

fn rows(cable: &CableStatus) -> [[String; 5]; 2] {
    let row = |from: usize| {
        let TrafficStatus { tlps, bytes, doorbells } = &cable.traffic[from];
        let [from, to] = [from, 1 - from].map(|n| cable.ends[n].clone());
        [from, to, tlps.to_string(), bytes.to_string(), doorbells.to_string()]
    };
    [row(0), row(1)]
}
