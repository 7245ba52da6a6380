// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `inject`: faults on command.

use super::client::{ask, mismatch};
use super::table::table;
use super::{Context, Failure};
use crate::control::{Answer, Request};
use crate::state::{Fault, FaultStatus, Spoil};
use serde::Serialize;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Take a link down and up again
    Flap {
        /// One end, as in h1:0
        end: String,
        /// How often
        #[arg(long, default_value_t = 1)]
        count: u64,
        /// Milliseconds from down to down; half of it the link is down
        #[arg(long, default_value_t = 400, value_name = "MS")]
        period: u64,
    },
    /// Lose a link and tell neither end; it trains anew when this is cleared
    SurpriseDown {
        /// One end, as in h1:0
        end: String,
    },
    /// Delay mailbox messages and window accesses of a link
    Slow {
        /// One end, as in h1:0
        end: String,
        /// Microseconds, one way
        #[arg(long, default_value_t = 0, value_name = "US")]
        latency: u64,
        /// Bytes a second
        #[arg(long, default_value_t = 0, value_name = "BYTES")]
        bandwidth: u64,
    },
    /// Poison the data that answer an end's window reads
    PoisonedRead(Counted),
    /// Poison the data of an end's window writes
    PoisonedWrite(Counted),
    /// Leave an end's window reads without an answer
    CompletionTimeout(Counted),
    /// Drop, duplicate or corrupt the mailbox messages an end sends
    Mailbox {
        /// What becomes of a message
        #[arg(value_enum)]
        does: Does,
        /// The end that sends, as in h1:0
        end: String,
        /// How many messages; without, until cleared
        #[arg(long)]
        count: Option<u64>,
        /// Only every N-th
        #[arg(long, value_name = "N")]
        every: Option<u64>,
    },
    /// Lose the doorbells an end is to hear
    StuckDoorbell {
        /// The end that does not hear, as in h1:0
        end: String,
    },
    /// Put a host's opened memory out of reach without asking it
    MemoryGone {
        /// Whose
        host: String,
    },
    /// Have a host's port answer nothing: reads are all ones
    AllOnes {
        /// Whose
        host: String,
    },
    /// Have steps of a host's DMA engines fail
    DmaError {
        /// Whose
        host: String,
        /// How many steps, of up to 4 KiB each; without, until cleared
        #[arg(long)]
        count: Option<u64>,
    },
    /// Have the functions of an endpoint do no work
    StalledEndpoint {
        /// Which endpoint
        endpoint: String,
    },
    /// Have the vital product data of a component read damaged
    Vpd {
        /// A host, a switch or an endpoint
        node: String,
    },
    /// Show the faults in force
    List,
    /// End a fault, or all
    Clear {
        /// Its number, as injecting and `list` say
        number: Option<u32>,
    },
}

#[derive(clap::Args)]
pub struct Counted {
    /// The end, as in h1:0
    end: String,
    /// How many accesses; without, until cleared
    #[arg(long)]
    count: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Does {
    Drop,
    Duplicate,
    Corrupt,
}

impl From<Does> for Spoil {
    fn from(does: Does) -> Self {
        match does {
            Does::Drop => Spoil::Drop,
            Does::Duplicate => Spoil::Duplicate,
            Does::Corrupt => Spoil::Corrupt,
        }
    }
}

#[derive(Serialize)]
struct Injected {
    number: u32,
}

#[derive(Serialize)]
struct Faults {
    faults: Vec<FaultStatus>,
}

pub fn run(context: &Context, command: Command) -> Result<(), Failure> {
    let fault = match command {
        Command::Flap { end, count, period } => Fault::Flap { end, count, period_ms: period },
        Command::SurpriseDown { end } => Fault::SurpriseDown { end },
        Command::Slow { end, latency, bandwidth } => {
            Fault::Slow { end, latency_us: latency, bytes_per_second: bandwidth }
        }
        Command::PoisonedRead(Counted { end, count }) => Fault::PoisonedRead { end, count },
        Command::PoisonedWrite(Counted { end, count }) => Fault::PoisonedWrite { end, count },
        Command::CompletionTimeout(Counted { end, count }) => {
            Fault::CompletionTimeout { end, count }
        }
        Command::Mailbox { does, end, count, every } => {
            Fault::Mailbox { end, does: does.into(), count, every }
        }
        Command::StuckDoorbell { end } => Fault::StuckDoorbell { end },
        Command::MemoryGone { host } => Fault::MemoryGone { node: host },
        Command::AllOnes { host } => Fault::AllOnes { node: host },
        Command::DmaError { host, count } => Fault::DmaError { node: host, count },
        Command::StalledEndpoint { endpoint } => Fault::StalledEndpoint { node: endpoint },
        Command::Vpd { node } => Fault::Vpd { node },
        Command::List => return list(context),
        Command::Clear { number } => {
            ask(context, &Request::InjectClear { number })?;
            return context.done();
        }
    };
    match ask(context, &Request::Inject { fault })? {
        Answer::Injected(number) => {
            context.print(&Injected { number }, |i| format!("fault {}\n", i.number))
        }
        other => mismatch(&other),
    }
}

fn list(context: &Context) -> Result<(), Failure> {
    match ask(context, &Request::InjectList)? {
        Answer::Faults(faults) => context.print(&Faults { faults }, |f| text(&f.faults)),
        other => mismatch(&other),
    }
}

fn text(faults: &[FaultStatus]) -> String {
    if faults.is_empty() {
        return "no faults\n".into();
    }
    let left = |f: &FaultStatus| f.left.map_or("-".into(), |n| n.to_string());
    let rows: Vec<_> =
        faults.iter().map(|f| [f.number.to_string(), left(f), f.fault.to_string()]).collect();
    table(["NUMBER", "LEFT", "FAULT"], &rows)
}
