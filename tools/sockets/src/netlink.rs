// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Questions to the kernel about routes, interfaces and neighbours: messages of NETLINK_ROUTE, made and read. It must
//! not know what the answers are for.

use std::net::IpAddr;

use libc::c_int;

use crate::sys::{self, Fd};

const HEADER: usize = 16;
/// An answer is larger for an interface that has a lot to say.
const ANSWER: usize = 8 << 10;

/// States of neighbours whose address is known.
const VALID: u16 =
    libc::NUD_PERMANENT | libc::NUD_REACHABLE | libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE;

/// A route to an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// It leads to another host.
    pub unicast: bool,
    /// The interface.
    pub interface: u32,
    /// Another host is in between.
    pub router: bool,
    /// The address of this host that it is used with.
    pub source: Option<IpAddr>,
}

/// A neighbour whose Ethernet address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface that it is at.
    pub interface: u32,
    /// Its address.
    pub ip: IpAddr,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// That was found out, or told, lately, or is being found out.
    pub sure: bool,
}

/// RTNLGRP_LINK, _NEIGH, _IPV4_IFADDR, _IPV4_ROUTE, _IPV4_RULE, _IPV6_IFADDR, _IPV6_ROUTE, _IPV6_RULE, _NEXTHOP.
const GROUPS: [u32; 9] = [1, 3, 5, 7, 8, 9, 11, 19, 32];

fn family_of(ip: IpAddr) -> u8 {
    (if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// A request, as it grows.
struct Request {
    bytes: [u8; 128],
    count: usize,
}

impl Request {
    fn new(kind: u16, flags: c_int, body: &[u8]) -> Self {
        let mut made = Self { bytes: [0; 128], count: HEADER };
        made.put(4, &kind.to_ne_bytes());
        made.put(6, &((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        made.put(8, &1_u32.to_ne_bytes());
        made.put(HEADER, body);
        made.grow(body.len());
        made
    }

    fn put(&mut self, at: usize, part: &[u8]) {
        if let Some(room) = self.bytes.get_mut(at..at + part.len()) {
            room.copy_from_slice(part);
        }
    }

    fn grow(&mut self, by: usize) {
        self.count += by.next_multiple_of(4);
        self.put(0, &(self.count as u32).to_ne_bytes());
    }

    fn attribute(mut self, kind: u16, payload: &[u8]) -> Self {
        let bytes = payload.len() + 4;
        self.put(self.count, &(bytes as u16).to_ne_bytes());
        self.put(self.count + 2, &kind.to_ne_bytes());
        self.put(self.count + 4, payload);
        self.grow(bytes);
        self
    }

    fn ip(self, kind: u16, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.attribute(kind, &ip.octets()),
            IpAddr::V6(ip) => self.attribute(kind, &ip.octets()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.count).unwrap_or_default()
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Takes the first piece off that says how long it is, in as many bytes as `size` reads, and is aligned to four.
fn split<'a>(
    bytes: &mut &'a [u8],
    size: impl Fn(&[u8]) -> Option<usize>,
    least: usize,
) -> Option<&'a [u8]> {
    let len = size(bytes).filter(|len| *len >= least)?;
    let piece = bytes.get(..len)?;
    *bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some(piece)
}

/// The messages of an answer: what kind each is, and its body.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let message = split(&mut bytes, |at| u32_at(at, 0).map(|len| len as usize), HEADER)?;
        Some((u16_at(message, 4)?, message.get(HEADER..)?))
    })
}

/// The attributes of a message: what kind each is, without its flags, and its payload.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let piece = split(&mut bytes, |at| u16_at(at, 0).map(usize::from), 4)?;
        Some((u16_at(piece, 2)? & 0x3fff, piece.get(4..)?))
    })
}

fn ip_of(payload: &[u8]) -> Option<IpAddr> {
    match payload.len() {
        4 => <[u8; 4]>::try_from(payload).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(payload).ok().map(IpAddr::from),
        _ => None,
    }
}

fn route_of(body: &[u8]) -> Option<Route> {
    let mut route = Route { unicast: *body.get(7)? == libc::RTN_UNICAST, ..Route::default() };
    for (kind, payload) in attributes(body.get(12..)?) {
        match kind {
            libc::RTA_OIF => route.interface = u32_at(payload, 0)?,
            libc::RTA_GATEWAY | libc::RTA_VIA => route.router = true,
            libc::RTA_PREFSRC => route.source = ip_of(payload),
            _ => (),
        }
    }
    Some(route)
}

fn neighbour_of(body: &[u8]) -> Option<Neighbour> {
    let (interface, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
    let (mut ip, mut mac) = (None, None);
    for (kind, payload) in attributes(body.get(12..)?) {
        match kind {
            libc::NDA_DST => ip = ip_of(payload),
            libc::NDA_LLADDR => mac = <[u8; 6]>::try_from(payload).ok(),
            _ => (),
        }
    }
    let sure = state & (VALID & !libc::NUD_STALE) != 0;
    (state & VALID != 0).then_some(Neighbour { interface, ip: ip?, mac: mac?, sure })
}

fn kind_of(body: &[u8]) -> Option<&[u8]> {
    let (_, info) = attributes(body.get(16..)?).find(|(kind, _)| *kind == libc::IFLA_LINKINFO)?;
    let (_, name) = attributes(info).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND)?;
    name.split(|byte| *byte == 0).next()
}

fn own_address_of(body: &[u8]) -> Option<(u32, IpAddr)> {
    let find = |wanted| attributes(body.get(8..)?).find(|(kind, _)| *kind == wanted);
    let (_, payload) = find(libc::IFA_LOCAL).or_else(|| find(libc::IFA_ADDRESS))?;
    Some((u32_at(body, 4)?, ip_of(payload)?))
}

/// Opens a socket that is told when a route, a rule, an address, an interface or a neighbour changes. Little is kept of
/// what it is told: one message is enough to know that there was a change.
pub fn monitor() -> Option<Fd> {
    let fd =
        sys::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_NONBLOCK, libc::NETLINK_ROUTE)?;
    sys::set_option::<c_int>(fd.get(), libc::SOL_SOCKET, libc::SO_RCVBUF, &1);
    // SAFETY: all zeros is an address.
    let mut at: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    at.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    at.nl_groups = GROUPS.iter().fold(0, |groups, group| groups | (1 << (group - 1)));
    let (at, len) = crate::address::raw(&at);
    // SAFETY: there are as many bytes.
    (unsafe { libc::bind(fd.get(), at, len) } == 0).then_some(fd)
}

/// A socket of NETLINK_ROUTE.
pub struct Netlink(Fd);

impl Netlink {
    /// Opens one.
    pub fn open() -> Option<Self> {
        let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        // The kernel answers at once; nothing is waited for that was lost.
        let limit = libc::timeval { tv_sec: 1, tv_usec: 0 };
        sys::set_option(fd.get(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit);
        Some(Self(fd))
    }

    /// Sends a request, and looks at the messages that answer it until one is what is looked for.
    fn ask<R>(
        &self,
        request: &Request,
        mut look: impl FnMut(u16, &[u8]) -> Option<R>,
    ) -> Option<R> {
        let bytes = request.as_bytes();
        let many = u16_at(bytes, 6)? & libc::NLM_F_DUMP as u16 != 0;
        // SAFETY: there are as many bytes.
        let sent = unsafe {
            libc::send(self.0.get(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
        };
        if usize::try_from(sent).ok()? != bytes.len() {
            return None;
        }
        let (mut room, mut found) = ([0_u8; ANSWER], None);
        loop {
            // SAFETY: there is as much room.
            let got = unsafe { libc::recv(self.0.get(), room.as_mut_ptr().cast(), room.len(), 0) };
            let Ok(got) = usize::try_from(got) else {
                if sys::errno() == libc::EINTR {
                    continue;
                }
                return None;
            };
            for (kind, body) in messages(room.get(..got)?) {
                if matches!(i32::from(kind), libc::NLMSG_DONE | libc::NLMSG_ERROR) {
                    return found;
                }
                found = found.or_else(|| look(kind, body));
            }
            // The rest of a dump is read, too: the next answer begins after it.
            if !many || got == 0 {
                return found;
            }
        }
    }

    /// Returns the route to an address, over an interface if that is not 0.
    pub fn route(&self, to: IpAddr, scope: u32) -> Option<Route> {
        let bits = if to.is_ipv4() { 32 } else { 128 };
        let body = [family_of(to), bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut request = Request::new(libc::RTM_GETROUTE, 0, &body).ip(libc::RTA_DST, to);
        if scope != 0 {
            request = request.attribute(libc::RTA_OIF, &scope.to_ne_bytes());
        }
        self.ask(&request, |kind, body| (kind == libc::RTM_NEWROUTE).then(|| route_of(body))?)
    }

    /// Returns whether an interface is of a kind, as in `ip link add … type KIND`.
    pub fn is_kind(&self, interface: u32, wanted: &[u8]) -> bool {
        let mut body = [0; 16];
        if let Some(index) = body.get_mut(4..8) {
            index.copy_from_slice(&interface.to_ne_bytes());
        }
        let request = Request::new(libc::RTM_GETLINK, 0, &body);
        let is = |kind, body: &[u8]| {
            (kind == libc::RTM_NEWLINK && kind_of(body) == Some(wanted)).then_some(())
        };
        self.ask(&request, is).is_some()
    }

    /// Returns the interface of this host that has an address.
    pub fn interface_with(&self, ip: IpAddr) -> Option<u32> {
        let body = [family_of(ip), 0, 0, 0, 0, 0, 0, 0];
        let request = Request::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &body);
        self.ask(&request, |kind, body| {
            (kind == libc::RTM_NEWADDR).then(|| own_address_of(body))?.filter(|(_, at)| *at == ip)
        })
        .map(|(interface, _)| interface)
    }

    /// Returns the neighbour with an address at an interface.
    pub fn neighbour(&self, ip: IpAddr, interface: u32) -> Option<Neighbour> {
        let mut body = [0; 12];
        body[0] = family_of(ip);
        if let Some(index) = body.get_mut(4..8) {
            index.copy_from_slice(&interface.to_ne_bytes());
        }
        let request = Request::new(libc::RTM_GETNEIGH, 0, &body).ip(libc::NDA_DST, ip);
        self.ask(&request, |kind, body| (kind == libc::RTM_NEWNEIGH).then(|| neighbour_of(body))?)
    }

    /// Returns the first neighbour of IPv4, or IPv6, that is wanted.
    pub fn find_neighbour(
        &self,
        ipv4: bool,
        wanted: impl Fn(&Neighbour) -> bool,
    ) -> Option<Neighbour> {
        let mut body = [0; 12];
        body[0] = (if ipv4 { libc::AF_INET } else { libc::AF_INET6 }) as u8;
        let request = Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &body);
        self.ask(&request, |kind, body| {
            (kind == libc::RTM_NEWNEIGH).then(|| neighbour_of(body))?.filter(|found| wanted(found))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8], with: &[(u16, &[u8])]) -> Vec<u8> {
        let request = with.iter().fold(Request::new(kind, 0, body), |made, (kind, payload)| {
            made.attribute(*kind, payload)
        });
        request.as_bytes().to_vec()
    }

    #[test]
    fn a_request_is_what_the_kernel_reads() {
        let request = Request::new(libc::RTM_GETNEIGH, 0, &[2; 12])
            .ip(libc::NDA_DST, "10.87.0.2".parse().unwrap());
        let bytes = request.as_bytes();
        assert_eq!(bytes.len(), 16 + 12 + 8);
        assert_eq!(u32_at(bytes, 0), Some(36));
        assert_eq!(u16_at(bytes, 4), Some(libc::RTM_GETNEIGH));
        assert_eq!(u16_at(bytes, 6), Some(libc::NLM_F_REQUEST as u16));
        assert_eq!(bytes[28..], [8, 0, 1, 0, 10, 87, 0, 2]);
    }

    #[test]
    fn routes_are_read() {
        let body = [2, 32, 0, 0, 0, 0, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
        let bytes = message(
            libc::RTM_NEWROUTE,
            &body,
            &[(libc::RTA_OIF, &7_u32.to_ne_bytes()), (libc::RTA_PREFSRC, &[10, 87, 0, 1])],
        );
        let (kind, body) = messages(&bytes).next().unwrap();
        assert_eq!(kind, libc::RTM_NEWROUTE);
        let source = Some("10.87.0.1".parse().unwrap());
        assert_eq!(
            route_of(body),
            Some(Route { unicast: true, interface: 7, router: false, source })
        );
    }

    #[test]
    fn neighbours_whose_address_is_not_known_are_none() {
        let mac = [2, 0, 0, 0, 0, 2];
        for (state, known) in [
            (libc::NUD_REACHABLE, true),
            (libc::NUD_STALE, true),
            (libc::NUD_DELAY, true),
            (libc::NUD_FAILED, false),
            (libc::NUD_INCOMPLETE, false),
        ] {
            let mut body = [0; 12];
            body[4] = 7;
            body[8..10].copy_from_slice(&state.to_ne_bytes());
            let bytes = message(
                libc::RTM_NEWNEIGH,
                &body,
                &[(libc::NDA_DST, &[10, 87, 0, 2]), (libc::NDA_LLADDR, &mac)],
            );
            let found = messages(&bytes).next().and_then(|(_, body)| neighbour_of(body));
            let sure = known && state != libc::NUD_STALE;
            let ip = "10.87.0.2".parse().unwrap();
            assert_eq!(found, known.then_some(Neighbour { interface: 7, ip, mac, sure }));
        }
    }

    #[test]
    fn the_kind_of_an_interface_is_read() {
        // IFLA_INFO_KIND, with 9 bytes in all.
        let kind = *b"\x09\0\x01\0weft\0\0\0\0";
        let bytes =
            message(libc::RTM_NEWLINK, &[0; 16], &[(3, b"wire0\0"), (libc::IFLA_LINKINFO, &kind)]);
        assert_eq!(messages(&bytes).next().and_then(|(_, body)| kind_of(body)), Some(&b"weft"[..]));
    }

    #[test]
    fn bytes_that_are_no_message_end_an_answer() {
        let whole = message(libc::RTM_NEWLINK, &[0; 16], &[(3, b"wire0\0")]);
        for cut in 0..whole.len() {
            assert_eq!(messages(&whole[..cut]).count(), 0);
        }
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1, 0, 9, 9]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 9, 9]).count(), 0);
    }

    #[test]
    fn the_kernel_answers() {
        let netlink = Netlink::open().unwrap();
        let route = netlink.route("127.0.0.1".parse().unwrap(), 0).unwrap();
        assert!(!route.unicast);
        assert!(!netlink.is_kind(1, b"weft"));
        assert_eq!(netlink.neighbour("127.0.0.1".parse().unwrap(), 1), None);
        assert_eq!(netlink.interface_with("127.0.0.1".parse().unwrap()), Some(1));
        assert_eq!(netlink.interface_with("192.0.2.1".parse().unwrap()), None);
        // The socket is in step after an answer of several messages, and after an error.
        netlink.find_neighbour(true, |_| false);
        assert_eq!(netlink.route("127.0.0.1".parse().unwrap(), 0), Some(route));
    }
}
