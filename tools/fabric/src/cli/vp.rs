// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `vp`: which virtual hierarchy traffic on a virtual plane of a link belongs to.

use super::client::ask;
use super::route::tables;
use super::table::table;
use super::{Context, Failure};
use crate::control::Request;
use crate::state::VpStatus;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the VP tables of a switch
    Show {
        /// The switch
        switch: String,
    },
    /// Put a VP of a port into a virtual hierarchy
    Set {
        /// Port of a switch, as in s1:0
        end: String,
        /// VP, 0 to 15
        vp: u8,
        /// Virtual hierarchy, 1 to 65535
        vh: u16,
    },
    /// Take a VP of a port out of its virtual hierarchy
    Del {
        /// Port of a switch, as in s1:0
        end: String,
        /// VP, 0 to 15
        vp: u8,
    },
}

pub fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let request = match command {
        Command::Show { switch } => {
            let tables = tables(context, switch)?;
            if tables.kind != "switch" {
                return Err(Failure::Failed(format!(
                    "{} is {}; VP tables are those of switches",
                    tables.node,
                    tables.a_kind()
                )));
            }
            return context.print(&tables.vps, |vps| {
                let row = |v: &VpStatus| [v.port.to_string(), v.vp.to_string(), v.vh.to_string()];
                table(["PORT", "VP", "VH"], &vps.iter().map(row).collect::<Vec<_>>())
            });
        }
        Command::Set { end, vp, vh } => Request::VpSet { end, vp, vh: Some(vh) },
        Command::Del { end, vp } => Request::VpSet { end, vp, vh: None },
    };
    ask(context, &request)?;
    context.done()
}
