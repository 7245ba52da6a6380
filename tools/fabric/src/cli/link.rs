// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `link`: what the administrator does to a cable.

use super::client::ask;
use super::{Context, Failure};
use crate::control::Request;
use crate::topology::Power;
use clap::{ArgGroup, ValueEnum};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Switch a link on
    Up {
        /// One end, as in h1:0
        end: String,
    },
    /// Switch a link off
    Down {
        /// One end, as in h1:0
        end: String,
    },
    /// Limit a link's speed or width, or have them follow its traffic; it stays up
    Set(Set),
}

#[derive(clap::Args)]
#[command(group(ArgGroup::new("limit").required(true).multiple(true).args(["speed", "width", "power"])))]
pub struct Set {
    /// One end, as in h1:0
    end: String,
    /// Highest generation, 1 to what the topology gives
    #[arg(long)]
    speed: Option<u8>,
    /// Most lanes: 1, 2, 4, 8 or 16, up to what the topology gives
    #[arg(long)]
    width: Option<u8>,
    /// Within these, the most, or what the traffic asks for; of a link without hosts
    #[arg(long)]
    power: Option<LinkPower>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LinkPower {
    /// The most
    Performance,
    /// What the traffic asks for
    Auto,
}

impl From<LinkPower> for Power {
    fn from(power: LinkPower) -> Self {
        match power {
            LinkPower::Performance => Power::Performance,
            LinkPower::Auto => Power::Auto,
        }
    }
}

pub fn run(context: &Context, command: Command) -> Result<(), Failure> {
    ask(
        context,
        &match command {
            Command::Up { end } => Request::LinkUp { end },
            Command::Down { end } => Request::LinkDown { end },
            Command::Set(Set { end, speed, width, power }) => {
                Request::LinkSet { end, speed, width, power: power.map(Power::from) }
            }
        },
    )?;
    context.done()
}
