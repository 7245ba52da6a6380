// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A link of a port: its state, and the host at the other end.

use crate::abi;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::BorrowedFd;

/// States of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkState {
    /// No signal, or disabled.
    Down,
    /// Up; waiting for the neighbour's driver.
    Hello,
    /// Channels can be connected.
    Ready,
    /// Up, to a switch: the hosts behind it have links of their own.
    Switch,
    /// A state that this library does not know.
    Other(u32),
}

impl From<u32> for LinkState {
    fn from(number: u32) -> Self {
        match number {
            abi::WEFT_LINK_DOWN => LinkState::Down,
            abi::WEFT_LINK_HELLO => LinkState::Hello,
            abi::WEFT_LINK_READY => LinkState::Ready,
            abi::WEFT_LINK_TO_SWITCH => LinkState::Switch,
            other => LinkState::Other(other),
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LinkState::Down => "down",
            LinkState::Hello => "hello",
            LinkState::Ready => "ready",
            LinkState::Switch => "switch",
            LinkState::Other(_) => "unknown",
        })
    }
}

/// What the speed and width of a link follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Power {
    /// Nothing: it runs at the most that it can.
    Performance,
    /// Its traffic.
    Auto,
    /// Something that this library does not know.
    Other(u32),
}

impl From<u32> for Power {
    fn from(number: u32) -> Self {
        match number {
            abi::WEFT_POWER_PERFORMANCE => Power::Performance,
            abi::WEFT_POWER_AUTO => Power::Auto,
            other => Power::Other(other),
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Power::Performance => "performance",
            Power::Auto => "auto",
            Power::Other(_) => "unknown",
        })
    }
}

/// The port at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its hardware id, unique in the fabric.
    pub hwid: u64,
    /// Changes with every reset of it.
    pub generation: u32,
}

/// A link, as it was when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Its number at this port.
    pub number: u32,
    /// Its state.
    pub state: LinkState,
    /// PCI Express generation, 0 while unknown.
    pub speed: u32,
    /// Lanes, 0 while unknown.
    pub width: u32,
    /// This end is the endpoint, not the root complex.
    pub endpoint: bool,
    /// The other end is this port's, too.
    pub loopback: bool,
    /// How often it came up.
    pub trained: u32,
    /// The host at the other end, if it is known.
    pub peer: Option<Peer>,
    /// Channels open on it.
    pub channels: u32,
    /// Memory that the neighbour may reach, for channels.
    pub arena_bytes: u64,
    /// What is left of it.
    pub arena_free: u64,
    /// The most of it that this user may have, for all of its channels.
    pub arena_share: u64,
    /// Of a link over a route: the local id that it leads to. `None`: the peer is a neighbour.
    pub lid: Option<u32>,
    /// The links that such a route passes, else 0.
    pub hops: u32,
    /// The most that it can: PCI Express generation, 0 while unknown.
    pub max_speed: u32,
    /// And lanes.
    pub max_width: u32,
    /// What its speed and width follow.
    pub power: Power,
}

impl From<abi::weft_link_info> for Link {
    fn from(info: abi::weft_link_info) -> Self {
        Link {
            number: info.link,
            state: info.state.into(),
            speed: info.speed,
            width: info.width,
            endpoint: info.role == abi::WEFT_ROLE_ENDPOINT,
            loopback: info.role == abi::WEFT_ROLE_LOOPBACK,
            trained: info.trained,
            peer: (info.peer_hwid != 0)
                .then_some(Peer { hwid: info.peer_hwid, generation: info.peer_generation }),
            channels: info.channels,
            arena_bytes: info.arena_bytes,
            arena_free: info.arena_free,
            arena_share: info.arena_share,
            lid: (info.lid != 0).then_some(info.lid),
            hops: info.hops,
            max_speed: info.max_speed,
            max_width: info.max_width,
            power: info.power.into(),
        }
    }
}

/// A link of a port; `None` if there is no such link.
pub(crate) fn link_if_any(port: BorrowedFd<'_>, number: u32) -> Result<Option<Link>> {
    let mut info = abi::weft_link_info { link: number, ..Default::default() };
    match info.call(port) {
        Ok(()) => Ok(Some(info.into())),
        Err(e) if Errno::from_io_error(&e) == Some(Errno::INVAL) => Ok(None),
        Err(e) => Err(Error::os("asking for a link", e)),
    }
}

/// All links of a port.
pub(crate) fn links(port: BorrowedFd<'_>) -> Result<Vec<Link>> {
    let mut info = abi::weft_port_info::default();
    info.call(port).map_err(|e| Error::os("asking for the port", e))?;
    // Between those there may be numbers of none.
    let all = (0..info.links).map(|number| link_if_any(port, number));
    all.filter_map(Result::transpose).collect()
}
