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
        Command::List => context.print(&status::get(context)?.fabric.nodes, |nodes| {
            let row = |n: &NodeStatus| {
                [n.name.clone(), n.hwid.to_string(), or_dash(n.blade.as_deref()), yes(n.connected)]
            };
            let hosts = nodes.iter().filter(|n| n.endpoint.is_none());
            table(["HOST", "HWID", "BLADE", "CONNECTED"], &hosts.map(row).collect::<Vec<_>>())
        }),
    }
}
