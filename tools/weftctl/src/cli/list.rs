// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `list`: the ports of this host, a line each.

use super::table::table;
use super::{Context, End};
use crate::channel::{Port, PortInfo};
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    ports: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    port: PortInfo,
    ready: usize,
}

pub fn run(context: &Context) -> Result<(), End> {
    let mut ports = Vec::new();
    for path in context.ports()? {
        let port = Port::open(&path)?;
        let links = port.links()?;
        let ready = links.iter().filter(|link| link.ready() && !link.is_loopback()).count();
        ports.push(Entry { port: port.info()?, ready });
    }
    context.print(&Report { ports }, |report| {
        let head = ["PORT", "KIND", "HWID", "LINKS", "READY"].map(String::from).to_vec();
        let row = |e: &Entry| {
            vec![
                e.port.port.clone(),
                e.port.kind.clone(),
                e.port.hwid.clone(),
                e.port.link_count.to_string(),
                e.ready.to_string(),
            ]
        };
        let rows: Vec<_> = std::iter::once(head).chain(report.ports.iter().map(row)).collect();
        table(&rows, 0)
    })
}
