// SPDX-License-Identifier: GPL-2.0

//! What links and the network manager need of their node.

use super::{keyring::Keyring, Client, PortGuard};
use crate::{
    hw::{Aim, LinkStatus, Port},
    proto::{link::State, mr::due::Due, nm::power::Rate, reach::Use, wire::Message},
};
use kernel::{device::Device, fmt::Arguments, prelude::*, sync::aref::ARef};

/// What keeps a routed link from being aimed elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spared {
    /// Nothing: the host there is gone, or has another local id.
    Nothing,
    /// What this host uses.
    Own,
    /// What either end uses.
    Used,
}

impl Spared {
    /// Returns whether a link with these uses is spared.
    pub(super) fn is(self, uses: Use) -> bool {
        match self {
            Self::Nothing => false,
            Self::Own => uses.own,
            Self::Used => !uses.is_idle(),
        }
    }
}

/// What both need.
pub(crate) trait Host {
    /// Returns the client, which uses the links.
    fn client(&self) -> Option<&dyn Client>;

    /// Warns in the log, at a limited rate.
    fn complain(&self, what: Arguments<'_>);

    /// Schedules the manager to look at what has changed.
    fn manage(&self);
}

/// What a link needs in addition.
pub(crate) trait LinkHost: Host {
    /// Reports that state and status of the link, which were `before`, are `after` now, and the reason for
    /// which a session has `ended`.
    fn link_changed(
        &self,
        link: usize,
        before: (State, LinkStatus),
        after: (State, LinkStatus),
        ended: Option<&'static CStr>,
    );

    /// Returns whether a message of the link waits for which `f` returns true.
    fn has_message(&self, link: usize, f: &dyn Fn(&Message) -> bool) -> bool;

    /// Returns the key of the fabric, if this port may have one.
    fn keyring(&self) -> Option<&Keyring>;

    /// Returns whether a routed link is aimed at the function with this hardware id. Called with no link locked.
    fn leads(&self, link: usize, hwid: u64) -> bool;

    /// Traces a message of so many bytes that is sent by the mailbox.
    fn trace_sent(&self, link: usize, message: &Message, bytes: usize);
}

/// What the network manager needs in addition.
pub(crate) trait ManagerHost: Host {
    /// Returns the device of the port.
    fn dev(&self) -> ARef<Device>;

    /// Enters the port, unless it is gone, does not answer, or the function is being reset.
    fn port_at_work(&self) -> Option<PortGuard<'_>>;

    /// Sets the destination of a routed link, as [`Node::aim`](super::Node::aim).
    fn aim(&self, link: usize, aim: Option<Aim>, spared: Spared) -> Result;

    /// Returns what uses a link.
    fn uses(&self, link: usize) -> Use;

    /// Returns the hardware id of the neighbour on `link`, while known.
    fn peer_hwid(&self, port: &dyn Port, link: usize) -> Option<u64>;

    /// Returns the rate that `link` has when neither end saves power, if it follows its traffic. Takes no lock but
    /// that of the policies.
    fn free_rate(&self, link: usize) -> Option<Rate>;

    /// Schedules the multi-root management as `due` says.
    fn manage_hierarchies(&self, due: Due);

    /// Begins (`on`) or ends the quiescing of routed links, because routes of the fabric are about to
    /// change, or have changed. Called with the manager locked.
    fn rest_for_ways(&self, on: bool);

    /// Returns whether nothing is in flight on routed links.
    fn rests_for_ways(&self) -> bool;
}
