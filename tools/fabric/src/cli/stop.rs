// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `stop`: ends the daemon and returns when its sockets are gone.

use super::client::Client;
use super::{Context, Failure};
use crate::control::{Reply, Request};

pub fn run(context: &Context) -> Result<(), Failure> {
    let mut client = Client::connect(context)?;
    client.ask(&Request::Stop)?;
    // The daemon closes this connection last.
    while client.line::<Reply>()?.is_some() {}
    context.done()
}
