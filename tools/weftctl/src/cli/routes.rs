// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `routes`: by which link of a port others are reached, and which they are.

use super::table::table;
use super::{Context, End};
use crate::channel::Port;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    port: String,
    lid: u32,
    routes: Vec<Route>,
}

#[derive(Serialize)]
struct Route {
    lid: u32,
    link: u16,
    links: u16,
    kind: Option<String>,
    hwid: Option<String>,
}

pub fn run(context: &Context) -> Result<(), End> {
    let port = Port::open(&context.port()?)?;
    let (fabric, routes) = (port.fabric()?, port.routes()?);
    let info = port.info()?;
    let routes = routes.iter().map(|route| {
        let node = fabric.nodes.iter().find(|node| node.lid == Some(route.lid));
        Route {
            lid: route.lid,
            link: route.link,
            links: route.hops,
            kind: node.map(|node| node.kind.to_string()),
            hwid: node.map(|node| format!("{:#x}", node.hwid)),
        }
    });
    let report = Report { port: info.port, lid: info.lid, routes: routes.collect() };
    context.print(&report, |report| {
        let head = ["LID", "BY LINK", "LINKS", "KIND", "HWID"].map(String::from).to_vec();
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let row = |r: &Route| {
            let numbers = [r.lid.to_string(), r.link.to_string(), r.links.to_string()];
            [numbers.to_vec(), vec![known(&r.kind), known(&r.hwid)]].concat()
        };
        let rows: Vec<_> = std::iter::once(head).chain(report.routes.iter().map(row)).collect();
        table(&rows, 0)
    })
}
