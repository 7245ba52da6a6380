// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `host`: the hosts of the topology.

use super::table::{or_dash, table, yes};
use super::{Context, Failure, status};
use crate::state::NodeStatus;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Name every host, its hardware id and where it sits
    List,
}

pub fn run(context: &Context, command: &Command) -> Result<(), Failure> {
    match command {
        Command::List => {
            let mut hosts = status::get(context)?.fabric.nodes;
            hosts.retain(|node| node.endpoint.is_none());
            context.print(&hosts, |hosts| {
                let row = |n: &NodeStatus| {
                    let blade = or_dash(n.blade.as_deref());
                    [n.name.clone(), n.hwid.to_string(), blade, yes(n.connected)]
                };
                let rows: Vec<_> = hosts.iter().map(row).collect();
                table(["HOST", "HWID", "BLADE", "CONNECTED"], &rows)
            })
        }
    }
}
