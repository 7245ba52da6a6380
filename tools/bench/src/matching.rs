// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What all measurements of matching do with an interface: commands, and events that are waited for.

use crate::Result;
use weft::matching::{Command, EventKind, Matching};

/// Looks for events until all are there.
const LOOKS: usize = 1 << 16;

/// Writes a command, when there is a slot for it.
pub fn post(to: &mut Matching, command: &Command) -> Result<()> {
    for _ in 0..LOOKS {
        if to.command(command) {
            return Ok(());
        }
        to.poll()?;
    }
    Err("the driver takes no commands".into())
}

/// Takes so many events of a kind, with success.
pub fn events(of: &mut Matching, count: usize, kind: EventKind) -> Result<()> {
    let mut there = 0;
    for _ in 0..LOOKS {
        while let Some(event) = of.take() {
            if (event.kind, event.status) != (kind, 0) {
                return Err(format!("an event says {event:?}, and not {kind:?}").into());
            }
            there += 1;
        }
        of.give_back()?;
        if there >= count {
            return Ok(());
        }
        of.poll()?;
    }
    Err(format!("{there} of {count} events have come").into())
}
