// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which host has an INET address, and which address a host has. The file of the administrator says it, or else the
//! kernel: the route leads over an interface of Weft, and the Ethernet address of the neighbour there is made of its
//! hardware id. It must not know about sockets that are moved.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::Relaxed};

use libc::c_int;

use crate::{
    address::{Inet, cid_of, cid_of_mac},
    explain::Why,
    hosts,
    known::{Found, Key, Moment},
    netlink::{Neighbour, Netlink},
    sys::{self, now_ms},
};

/// The kind of the interfaces, as in `ip link add … type weft`.
const KIND: &[u8] = b"weft";
/// How long this host may take to learn the address of a host that has connected already.
const LEARN_MS: i64 = 100;
const DISCARD: u16 = 9;
/// How long a host whose address could not be learnt is not waited for.
const FORGET_MS: i64 = 1000;

/// That host, and when that was.
static UNKNOWN: AtomicU32 = AtomicU32::new(0);
static UNKNOWN_AT: AtomicI64 = AtomicI64::new(0);

/// A host, and how it is reached by TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its CID.
    pub cid: u32,
    /// The interface, and this host's address there, where the kernel has said them.
    pub way: Option<(u32, Option<IpAddr>)>,
}

/// Returns whether no other host can have an address.
pub fn is_own(ip: IpAddr) -> bool {
    let other = match ip {
        IpAddr::V4(ip) => ip.is_broadcast(),
        IpAddr::V6(_) => false,
    };
    ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || other
}

/// Sends a datagram of no bytes to a port where nothing is: the kernel finds out the Ethernet address, and the other end
/// that of this host.
fn poke(to: Inet) {
    let family = if to.ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let Some(fd) = sys::socket(family, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0) else {
        return;
    };
    let (at, len) = to.with_port(DISCARD).to_sockaddr(to.ip.is_ipv6());
    if sys::connect(fd.get(), &at, Some(len)) == 0 {
        // SAFETY: nothing is read.
        unsafe { libc::send(fd.get(), std::ptr::null(), 0, libc::MSG_NOSIGNAL) };
    }
}

/// Tries again for as long as there is nothing.
fn until<R>(limit_ms: i64, mut look: impl FnMut() -> Option<R>) -> Option<R> {
    let end = now_ms() + limit_ms;
    let mut nap_us = 200;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if now_ms() >= end {
            return None;
        }
        let nap = libc::timespec { tv_sec: 0, tv_nsec: nap_us * 1000 };
        // SAFETY: a signal may end it early.
        unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
        nap_us = (nap_us * 2).min(5000);
    }
}

/// Which of the questions a key is of.
const HOST: u64 = 1 << 40;
const ADDRESS: u64 = 2 << 40;
/// An address of IPv4, in words.
const IPV4: u64 = 1 << 32;
const SOME: u64 = 1 << 33;

/// An address in words: its bits, and of what kind it is.
fn words_of(ip: IpAddr) -> (u128, u64) {
    match ip {
        IpAddr::V4(ip) => (ip.to_bits().into(), SOME | IPV4),
        IpAddr::V6(ip) => (ip.to_bits(), SOME),
    }
}

fn ip_of(high: u64, low: u64, kind: u64) -> Option<IpAddr> {
    match (kind & SOME != 0, kind & IPV4 != 0) {
        (false, _) => None,
        (true, true) => Some(Ipv4Addr::from_bits(low as u32).into()),
        (true, false) => {
            Some(Ipv6Addr::from_bits((u128::from(high) << 64) | u128::from(low)).into())
        }
    }
}

impl Host {
    fn to_words(self) -> Found {
        let (interface, source) = self.way.unwrap_or_default();
        let (bits, kind) = source.map_or((0, 0), words_of);
        let known = u64::from(self.way.is_some()) << 32;
        [known | u64::from(self.cid), kind | u64::from(interface), (bits >> 64) as u64, bits as u64]
    }

    fn from_words([cid, kind, high, low]: Found) -> Self {
        let way = (cid >> 32 != 0).then(|| (kind as u32, ip_of(high, low, kind)));
        Self { cid: cid as u32, way }
    }
}

/// Questions about the hosts that a socket of the program reaches. The answers of a moment ago are known.
pub struct Asking {
    namespace: u64,
    now: Option<Moment>,
}

impl Asking {
    /// Of a socket.
    pub fn for_socket(fd: c_int) -> Self {
        Self::in_namespace(sys::namespace(fd).unwrap_or_default())
    }

    /// Of the sockets in a network namespace, by the kernel's name of it; 0 if that is not known.
    pub fn in_namespace(namespace: u64) -> Self {
        Self { namespace, now: Moment::now(namespace) }
    }

    fn host_key(to: Inet) -> Key {
        let (bits, kind) = words_of(to.ip);
        [(bits >> 64) as u64, bits as u64, HOST | kind | u64::from(to.scope)]
    }

    /// Returns the host with an address, if that was found a moment ago.
    pub fn known_host(&self, to: Inet) -> Option<Host> {
        Some(Host::from_words(self.now?.find(&Self::host_key(to))?))
    }

    /// Returns the host with an address, which may take so long to answer for it.
    pub fn host_of(&self, to: Inet, limit_ms: i64) -> Result<Host, Why> {
        let asked_in = Moment::to_ask_in(self.now, self.namespace);
        let host = host_of(to, limit_ms)?;
        if let Some(moment) = asked_in {
            moment.keep(&Self::host_key(to), &host.to_words());
        }
        Ok(host)
    }

    /// Returns an address of the host with a CID: one that a socket of INET, INET6, or INET6 without IPv4 can have.
    pub fn address_of(&self, cid: u32, inet6: bool, v6only: bool) -> Option<Inet> {
        let key = [u64::from(inet6), u64::from(v6only), ADDRESS | u64::from(cid)];
        if let Some([kind, high, low, _]) = self.now.and_then(|now| now.find(&key)) {
            return Some(Inet::of(ip_of(high, low, kind)?, kind as u32));
        }
        let asked_in = Moment::to_ask_in(self.now, self.namespace);
        let found = address_of(cid, inet6, v6only)?;
        if let Some(moment) = asked_in {
            let (bits, kind) = words_of(found.ip);
            let words = [kind | u64::from(found.scope), (bits >> 64) as u64, bits as u64, 0];
            moment.keep(&key, &words);
        }
        Some(found)
    }
}

/// Returns the host with an address, which may take so long to answer for it.
fn host_of(to: Inet, limit_ms: i64) -> Result<Host, Why> {
    match hosts::entry_of(to.ip) {
        Some(hosts::Entry::Tcp) => return Err(Why::OtherWay),
        Some(hosts::Entry::Host(hwid)) => {
            return cid_of(hwid).map(|cid| Host { cid, way: None }).ok_or(Why::NoCid);
        }
        None if is_own(to.ip) => return Err(Why::Local),
        None => (),
    }
    let netlink = Netlink::open().ok_or(Why::Netlink)?;
    let route = netlink.route(to.ip, to.scope).ok_or(Why::OtherWay)?;
    if !route.unicast {
        return Err(Why::Local);
    }
    if !netlink.is_kind(route.interface, KIND) {
        return Err(Why::OtherWay);
    }
    if route.router {
        return Err(Why::Router);
    }
    let look = || netlink.neighbour(to.ip, route.interface);
    let found = match look() {
        Some(found) if found.sure => found,
        // It stays until another one takes its place; asking makes that happen.
        Some(found) => {
            poke(to);
            found
        }
        None => {
            poke(to);
            until(limit_ms, look).ok_or(Why::NoHost)?
        }
    };
    let cid = cid_of_mac(found.mac).ok_or(Why::NoCid)?;
    Ok(Host { cid, way: Some((route.interface, route.source)) })
}

/// Returns an address of the host with a CID: one that a socket of INET, INET6, or INET6 without IPv4 can have.
fn address_of(cid: u32, inet6: bool, v6only: bool) -> Option<Inet> {
    let fits = |ip: IpAddr| if ip.is_ipv4() { !v6only } else { inet6 };
    if let Some(ip) = hosts::address_of(cid, fits) {
        return Some(Inet::of(ip, 0));
    }
    let netlink = Netlink::open()?;
    let look = || {
        let four = if v6only { None } else { find(&netlink, true, cid, |_| true) };
        four.or_else(|| if inet6 { find(&netlink, false, cid, |_| true) } else { None })
    };
    // A host that was not known a moment ago is not waited for again: it may have no address, and connect often.
    let waited = UNKNOWN.load(Relaxed) == cid && now_ms() - UNKNOWN_AT.load(Relaxed) < FORGET_MS;
    let Some(found) = until(if waited { 0 } else { LEARN_MS }, look) else {
        if !waited {
            UNKNOWN_AT.store(now_ms(), Relaxed);
            UNKNOWN.store(cid, Relaxed);
        }
        return None;
    };
    Some(Inet::of(found.ip, found.interface))
}

/// Returns the IPv6 address of the host with a CID that ends with these 32 bits.
pub fn address_ending_in(cid: u32, low: u32) -> Option<Inet> {
    let is = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.to_bits() as u32 == low);
    if let Some(ip) = hosts::address_of(cid, is) {
        return Some(Inet::of(ip, 0));
    }
    let found = find(&Netlink::open()?, false, cid, |found| is(found.ip))?;
    Some(Inet::of(found.ip, found.interface))
}

fn find(
    netlink: &Netlink,
    ipv4: bool,
    cid: u32,
    wanted: impl Fn(&Neighbour) -> bool,
) -> Option<Neighbour> {
    let other = Netlink::open()?;
    netlink.find_neighbour(ipv4, |found| {
        cid_of_mac(found.mac) == Some(cid) && wanted(found) && other.is_kind(found.interface, KIND)
    })
}

/// Returns the address that this host has for another one.
pub fn own_address_for(peer: Inet) -> Option<Inet> {
    let family = if peer.ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let fd = sys::socket(family, libc::SOCK_DGRAM, 0)?;
    let (at, len) = peer.with_port(DISCARD).to_sockaddr(peer.ip.is_ipv6());
    if sys::connect(fd.get(), &at, Some(len)) != 0 {
        return None;
    }
    sys::local_address(fd.get())
}

/// Returns whether other hosts of the fabric may reach what is bound to an address: any, or one of an interface of Weft.
pub fn is_reachable_at(ip: IpAddr) -> Result<(), Why> {
    if ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED) || ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        return Ok(());
    }
    if matches!(hosts::entry_of(ip), Some(hosts::Entry::Host(_))) {
        return Ok(());
    }
    if is_own(ip) {
        return Err(Why::Local);
    }
    let netlink = Netlink::open().ok_or(Why::Netlink)?;
    let interface = netlink.interface_with(ip).ok_or(Why::Bound)?;
    if netlink.is_kind(interface, KIND) { Ok(()) } else { Err(Why::Bound) }
}
