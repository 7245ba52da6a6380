// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The peer and the rings of a connection.

use crate::abi;
use crate::channel::Channel;
use crate::device::open_file;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::link::{Link, links};
use crate::time::Deadline;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// The peer and the rings of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    peer: u64,
    link: u32,
    service: u32,
    cells: u32,
    bulk: u32,
    timeout: Duration,
}

impl Connect {
    fn new(peer: u64, link: u32, service: u32) -> Self {
        Connect {
            peer,
            link,
            service,
            cells: 256,
            bulk: 256 << 10,
            timeout: Duration::from_secs(5),
        }
    }

    /// To `service` of the peer with hardware id `hwid`, by the first link that leads there. If none does,
    /// one is made over a route, see [`Error::NoLink`].
    pub fn to_peer(hwid: u64, service: u32) -> Self {
        Connect::new(hwid, abi::WEFT_ANY_LINK, service)
    }

    /// To `service` of the host at the other end of `link`, whichever it is.
    pub fn to_link(link: u32, service: u32) -> Self {
        Connect::new(0, link, service)
    }

    /// By this link only.
    #[must_use]
    pub fn link(mut self, link: u32) -> Self {
        self.link = link;
        self
    }

    /// Messages under way each way: a power of two, 16 to 16384; 256 unless told.
    #[must_use]
    pub fn cells(mut self, cells: u32) -> Self {
        self.cells = cells;
        self
    }

    /// Bytes for messages of more than [`crate::INLINE_BYTES`] bytes under way each way, and so of
    /// the longest message: a multiple of 4096 up to 1 MiB; 256 KiB unless told.
    #[must_use]
    pub fn bulk(mut self, bulk: u32) -> Self {
        self.bulk = bulk;
        self
    }

    /// How long to wait for the peer: up to 60 s; 5 s unless told.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn connect(&self, path: &Path) -> Result<Channel> {
        let file = open_file(path, OFlags::empty())?;
        let deadline = Deadline::after(Some(self.timeout));
        loop {
            // 0 would be the driver's default.
            let left = deadline.left().unwrap_or(self.timeout).as_millis().max(1);
            let mut connect = abi::weft_chan_connect {
                peer: self.peer,
                link: self.link,
                service: self.service,
                cells: self.cells,
                bulk: self.bulk,
                timeout_ms: left.try_into().unwrap_or(u32::MAX),
                ..Default::default()
            };
            match connect.call(file.as_fd()) {
                Ok(()) => return Channel::new(file),
                // The file is still fresh.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) && !deadline.is_over() => {}
                Err(e) => return Err(self.failed(e, || links(file.as_fd()))),
            }
        }
    }

    /// `links` tells those that there are.
    fn failed(&self, e: std::io::Error, links: impl Fn() -> Result<Vec<Link>>) -> Error {
        match Errno::from_io_error(&e) {
            Some(Errno::HOSTUNREACH) => Error::Unreachable(self.to_string()),
            Some(Errno::CONNREFUSED) => Error::Refused(self.to_string()),
            Some(Errno::NOSPC) => match self.without_link(&links().unwrap_or_default()) {
                Some(links) => Error::NoLink { peer: self.peer, links },
                None => Error::NoRoom { at_peer: false },
            },
            Some(Errno::DQUOT) => {
                let links = links().unwrap_or_default();
                let routed = |link: &Link| link.lid.is_some() && self.leads(link);
                let what = match self.without_link(&links) {
                    Some(_) => "links over routes",
                    None if links.iter().any(routed) => "links over routes, or memory of the link",
                    None => "memory of the link for channels",
                };
                Error::Share { what, most: None }
            }
            Some(Errno::NOBUFS) => Error::NoRoom { at_peer: true },
            Some(Errno::TIMEDOUT) => Error::TimedOut("connecting"),
            Some(Errno::CONNRESET) => Error::Reset,
            Some(Errno::INVAL) => Error::Invalid(format!(
                "cannot connect with service {}, {} cells, {} bytes of bulk ring and a timeout of \
                 {:?}: services begin at 1, cells are a power of two from {} to {}, a bulk ring is a \
                 multiple of 4096 up to {} bytes, a timeout is up to 60 s",
                self.service,
                self.cells,
                self.bulk,
                self.timeout,
                abi::WEFT_CHAN_MIN_CELLS,
                abi::WEFT_CHAN_MAX_CELLS,
                abi::WEFT_CHAN_MAX_BULK,
            )),
            _ => Error::os("connecting", e),
        }
    }
}

impl Connect {
    /// How many links over routes there are, if one is needed to reach the peer, and none leads there.
    fn without_link(&self, links: &[Link]) -> Option<usize> {
        let needs = self.peer != 0 && self.link == abi::WEFT_ANY_LINK;
        let routed = links.iter().filter(|link| link.lid.is_some()).count();
        (needs && routed != 0 && !links.iter().any(|link| self.leads(link))).then_some(routed)
    }

    /// Whether a link is one that the connection may use.
    fn leads(&self, link: &Link) -> bool {
        let is_peer = link.peer.is_some_and(|peer| peer.hwid == self.peer);
        is_peer || link.number == self.link
    }
}

impl fmt::Display for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.peer, self.link) {
            (0, link) => write!(f, "service {} at the end of link {link}", self.service),
            (peer, abi::WEFT_ANY_LINK) => write!(f, "service {} of {peer:#x}", self.service),
            (peer, link) => write!(f, "service {} of {peer:#x} by link {link}", self.service),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_told_from_room_that_is_not_there() {
        let failed = |e: Errno| Connect::to_link(0, 7).failed(e.into(), || Ok(Vec::new()));
        assert!(matches!(failed(Errno::NOSPC), Error::NoRoom { at_peer: false }));
        assert!(matches!(failed(Errno::NOBUFS), Error::NoRoom { at_peer: true }));
        let share = failed(Errno::DQUOT);
        assert!(matches!(share, Error::Share { .. }));
        assert_eq!(
            share.to_string(),
            "memory of the link for channels: this user has its share of the port's"
        );
        assert!(
            share.hint().is_some_and(|hint| hint.contains("half of what the other users leave"))
        );
    }

    #[test]
    fn p_5_a_link_that_is_missing_is_told_from_memory_that_is() {
        let lead = |(number, hwid): (u32, u64)| {
            let info = abi::weft_link_info {
                link: number,
                lid: number,
                peer_hwid: hwid,
                ..Default::default()
            };
            Link::from(info)
        };
        let to = |connect: Connect, hwids: &[u64]| {
            let links = || Ok((4..).zip(hwids.iter().copied()).map(lead).collect());
            connect.failed(Errno::NOSPC.into(), links)
        };
        let none = to(Connect::to_peer(9, 7), &[5, 6]);
        assert!(matches!(none, Error::NoLink { peer: 9, links: 2 }), "{none}");
        assert_eq!(
            none.to_string(),
            "no link is left for host 0x9: all 2 links over routes are in use"
        );
        assert!(none.hint().is_some_and(|hint| hint.contains("weftctl show")));
        let links = || Ok((4..).zip([5, 6]).map(lead).collect());
        let share = Connect::to_peer(9, 7).failed(Errno::DQUOT.into(), links);
        assert!(
            share.to_string().starts_with("links over routes: this user has its share"),
            "{share}"
        );
        for full in [
            to(Connect::to_peer(6, 7), &[5, 6]),
            to(Connect::to_peer(9, 7), &[]),
            to(Connect::to_link(4, 7), &[5, 6]),
        ] {
            assert!(matches!(full, Error::NoRoom { at_peer: false }), "{full}");
        }
    }
}
