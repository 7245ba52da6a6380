// SPDX-License-Identifier: GPL-2.0

//! What links and the network manager need of the node that they are of.

use super::{Client, PortGuard};
use crate::{
    hw::{Aim, LinkStatus, Port},
    proto::{link::State, mr::due::Due, wire::Message},
};
use kernel::{fmt::Arguments, pci, prelude::*, sync::aref::ARef};

/// What both need of it.
pub(crate) trait Host {
    /// What uses the links.
    fn client(&self) -> Option<&dyn Client>;

    /// Warns in the log, at a limited rate.
    fn complain(&self, what: Arguments<'_>);

    /// Has the manager look at what has changed.
    fn manage(&self);
}

/// What a link needs besides.
pub(crate) trait LinkHost: Host {
    /// State and status of the link are those of `after` now.
    fn link_changed(&self, link: usize, before: (State, LinkStatus), after: (State, LinkStatus));

    /// A message of so many bytes leaves by the mailbox.
    fn trace_sent(&self, link: usize, message: &Message, bytes: usize);
}

/// What the network manager needs besides.
pub(crate) trait ManagerHost: Host {
    /// The function of the port.
    fn pci(&self) -> ARef<pci::Device>;

    /// The port, unless it is not there or the function is being reset.
    fn port_at_work(&self) -> Option<PortGuard<'_>>;

    /// As [`Node::aim`](super::Node::aim).
    fn aim(&self, link: usize, aim: Option<Aim>) -> Result;

    /// Hardware id of the neighbour on `link`, while known.
    fn peer_hwid(&self, port: &dyn Port, link: usize) -> Option<u64>;

    /// Has the multi-root management do what is due.
    fn manage_hierarchies(&self, due: Due);

    /// Routes of the fabric are going to change, or have. With the manager locked.
    fn rest_for_ways(&self, on: bool);

    /// Whether nothing is under way by routes of the fabric.
    fn rests_for_ways(&self) -> bool;
}
