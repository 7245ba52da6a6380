// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `slots`: what is plugged into the ports of switches, and what is announced there; `announce`: that a
//! component will be put in.

use super::table::table;
use super::{Context, End};
use crate::channel::Port;
use crate::failure::{Failure, Kind};
use crate::multiroot::{Names, Slot};
use serde::Serialize;

#[derive(clap::Args)]
pub struct Slots {
    /// The switch by its serial number, local id or hardware id [default: all]
    #[arg(value_name = "SWITCH")]
    switch: Option<String>,
}

#[derive(clap::Args)]
pub struct Announce {
    /// The switch by its serial number, local id or hardware id
    #[arg(value_name = "SWITCH")]
    switch: String,
    /// Number of its port
    #[arg(value_name = "PORT")]
    at: u32,
    /// The component will not come, or what is there will stay
    #[arg(long)]
    withdraw: bool,
}

/// A slot with the name of its switch.
#[derive(Serialize)]
struct Named {
    switch_name: String,
    #[serde(flatten)]
    slot: Slot,
}

#[derive(Serialize)]
struct All {
    ok: bool,
    port: String,
    slots: Vec<Named>,
}

#[derive(Serialize)]
struct Announced {
    ok: bool,
    #[serde(flatten)]
    named: Named,
}

fn named(slot: Slot, names: &Names<'_>) -> Named {
    Named { switch_name: names.of(slot.switch), slot }
}

pub fn slots(context: &Context, args: &Slots) -> Result<(), End> {
    let port = Port::open(&context.port()?)?;
    let components = port.components()?;
    let names = Names::new(Some(&components));
    let find = |text: &String| names.find(text, "switch");
    let only = args.switch.as_ref().map(find).transpose()?;
    let is = |slot: &Slot| only.is_none_or(|switch| slot.switch == switch);
    let slots = port.slots()?.into_iter().filter(is).map(|slot| named(slot, &names));
    let all = All { ok: true, port: port.info()?.port, slots: slots.collect() };
    context.print(&all, |all| {
        let head = ["SWITCH", "PORT", "LINK", "PLANES", "SLOT"].map(String::from).to_vec();
        let row = |named: &Named| {
            let Named { switch_name, slot } = named;
            let (link, is) = (slot.link().to_owned(), slot.presence().to_owned());
            vec![switch_name.clone(), slot.port.to_string(), link, slot.planes(), is]
        };
        let rows: Vec<_> = std::iter::once(head).chain(all.slots.iter().map(row)).collect();
        table(&rows, 0)
    })
}

pub fn announce(context: &Context, args: &Announce) -> Result<(), End> {
    let port = Port::open(&context.port()?)?;
    let components = port.components()?;
    let names = Names::new(Some(&components));
    let switch = names.find(&args.switch, "switch")?;
    port.announce(switch, args.at, !args.withdraw)?;
    let is = |slot: &Slot| (slot.switch, slot.port) == (switch, args.at);
    let Some(slot) = port.slots()?.into_iter().find(is) else {
        let what = format!("switch {} has gone meanwhile", args.switch);
        return Err(Failure::new(Kind::Unreachable, what)
            .hint("`weftctl slots` shows what is there")
            .into());
    };
    let report = Announced { ok: true, named: named(slot, &names) };
    context.print(&report, |report| {
        let Named { switch_name, slot } = &report.named;
        format!("switch {switch_name} port {}: {}\n", slot.port, slot.presence())
    })
}
