// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `events`: what happens, as it happens, until the daemon ends.

use super::client::Client;
use super::{Context, Failure};
use crate::control::{Request, Stamped};
use crate::daemon::clock;

pub fn run(context: &Context) -> Result<(), Failure> {
    let mut client = Client::connect(context)?;
    client.ask(&Request::Events)?;
    client.wait_at_most(None)?;
    while let Some(stamped) = client.line::<Stamped>()? {
        context.print(&stamped, |s| format!("{} {}\n", clock(s.time_ms), s.event))?;
    }
    Ok(())
}
