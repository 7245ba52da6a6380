// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Addresses: of INET sockets, of AF_VSOCK, and of Ethernet interfaces of Weft. It must not know where they come from.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{c_void, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Below are CIDs that are reserved: `modules/vsock/vsock.h`.
const CID_BASE: u32 = 4096;

/// An address and port of INET or INET6, where an IPv4 address may be mapped into an IPv6 one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inet {
    /// The address, IPv4 where it is mapped.
    pub ip: IpAddr,
    /// The port, in host order.
    pub port: u16,
    /// The interface of a link-local address, or 0.
    pub scope: u32,
}

impl fmt::Display for Inet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

impl Inet {
    /// An address without a port.
    pub fn of(ip: IpAddr, scope: u32) -> Self {
        Self { ip, port: 0, scope }
    }

    /// Returns the same address with a port.
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Reads an address of a program; `None` if it is of another family, or too short.
    ///
    /// # Safety
    ///
    /// `at` is null or points to `len` bytes.
    pub unsafe fn read(at: *const sockaddr, len: socklen_t) -> Option<Self> {
        if at.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
            return None;
        }
        // SAFETY: the family is within `len`, by the check above and the contract.
        let family = i32::from(unsafe { at.cast::<libc::sa_family_t>().read_unaligned() });
        match family {
            libc::AF_INET if len as usize >= size_of::<sockaddr_in>() => {
                // SAFETY: as many bytes are there.
                let found = unsafe { at.cast::<sockaddr_in>().read_unaligned() };
                let ip = Ipv4Addr::from_bits(u32::from_be(found.sin_addr.s_addr));
                Some(Self { ip: ip.into(), port: u16::from_be(found.sin_port), scope: 0 })
            }
            libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
                // SAFETY: as many bytes are there.
                let found = unsafe { at.cast::<sockaddr_in6>().read_unaligned() };
                let ip = Ipv6Addr::from(found.sin6_addr.s6_addr);
                let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
                Some(Self { ip, port: u16::from_be(found.sin6_port), scope: found.sin6_scope_id })
            }
            _ => None,
        }
    }

    /// Returns the address as a socket of INET6, or of INET, has it, and how many bytes of that count. An IPv6 address
    /// at a socket of INET is the unspecified one.
    pub fn to_sockaddr(self, inet6: bool) -> (sockaddr_in6, socklen_t) {
        // SAFETY: all zeros is an address.
        let mut six: sockaddr_in6 = unsafe { std::mem::zeroed() };
        if inet6 {
            let ip = match self.ip {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv6Addr::UNSPECIFIED,
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            six.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            six.sin6_port = self.port.to_be();
            six.sin6_addr.s6_addr = ip.octets();
            if ip.is_unicast_link_local() {
                six.sin6_scope_id = self.scope;
            }
            return (six, size_of::<sockaddr_in6>() as socklen_t);
        }
        let ip = match self.ip {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let four = sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: self.port.to_be(),
            sin_addr: libc::in_addr { s_addr: ip.to_bits().to_be() },
            sin_zero: [0; 8],
        };
        // SAFETY: the larger one is plain memory, which begins with the smaller one.
        unsafe { (&raw mut six).cast::<sockaddr_in>().write(four) };
        (six, size_of::<sockaddr_in>() as socklen_t)
    }

    /// Hands the address to a program, as calls of the kernel do: cut to what there is room for, with its whole length.
    ///
    /// # Safety
    ///
    /// `at` is null or points to `room` bytes, `len` to a length.
    pub unsafe fn hand(self, inet6: bool, at: *mut sockaddr, room: socklen_t, len: *mut socklen_t) {
        if at.is_null() || len.is_null() {
            return;
        }
        let (from, bytes) = self.to_sockaddr(inet6);
        // SAFETY: there is room for the smaller one of both, by the contract.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const from).cast::<u8>(),
                at.cast(),
                bytes.min(room) as usize,
            );
            len.write(bytes);
        }
    }
}

/// Returns what a hardware id is in an Ethernet address: 46 bits, `rust/proto/ethernet.rs`.
fn folded(hwid: u64) -> u64 {
    (hwid & ((1 << 46) - 1)) ^ (hwid >> 46 << 28)
}

/// Returns the CID by those bits, `None` if there is none: `modules/vsock/ports.c`.
fn cid_of_folded(bits: u64) -> Option<u32> {
    let cid = (bits as u32 ^ (bits >> 32 << 18) as u32).wrapping_add(CID_BASE);
    (bits != 0 && cid >= CID_BASE && cid != libc::VMADDR_CID_ANY).then_some(cid)
}

/// Returns the CID of a port by its hardware id, `None` if it has none.
pub fn cid_of(hwid: u64) -> Option<u32> {
    cid_of_folded(folded(hwid))
}

/// Returns the CID of the port with an interface of Weft, `None` if it has none.
pub fn cid_of_mac(mac: [u8; 6]) -> Option<u32> {
    let [first, rest @ ..] = mac;
    if first & 0b11 != 0b10 {
        return None;
    }
    let high = u64::from(first >> 2);
    cid_of_folded(rest.iter().fold(high, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// Returns an address of AF_VSOCK.
pub fn vsock(cid: u32, port: u32) -> libc::sockaddr_vm {
    // SAFETY: all zeros is an address.
    let mut vm: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    vm.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    vm.svm_cid = cid;
    vm.svm_port = port;
    vm
}

/// Returns an address for calls that take one of any family, and its length.
pub fn raw<T>(of: &T) -> (*const sockaddr, socklen_t) {
    ((&raw const *of).cast::<c_void>().cast(), size_of::<T>() as socklen_t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(from: Inet, inet6: bool) -> Inet {
        let (raw, len) = from.to_sockaddr(inet6);
        // SAFETY: `raw` has at least `len` bytes.
        unsafe { Inet::read((&raw const raw).cast(), len) }.unwrap()
    }

    #[test]
    fn addresses_of_both_families_come_back_as_they_were() {
        let four = Inet { ip: "10.87.0.2".parse().unwrap(), port: 6379, scope: 0 };
        assert_eq!(back(four, false), four);
        assert_eq!(back(four, true), four);
        let six = Inet { ip: "fe80::200:ff:fe00:2".parse().unwrap(), port: 22, scope: 7 };
        assert_eq!(back(six, true), six);
        assert_eq!(back(six, false).ip, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        assert_eq!(six.to_string(), "[fe80::200:ff:fe00:2]:22");
        assert_eq!(four.to_string(), "10.87.0.2:6379");
    }

    #[test]
    fn an_address_that_is_cut_is_cut_where_the_program_has_room() {
        let from = Inet { ip: "10.87.0.2".parse().unwrap(), port: 1, scope: 0 };
        let mut room = [0xff_u8; 16];
        let mut len = 4;
        // SAFETY: there is room for 16 bytes.
        unsafe { from.hand(false, room.as_mut_ptr().cast(), 4, &raw mut len) };
        assert_eq!(len, 16);
        assert_eq!(room[4..], [0xff; 12]);
        assert_eq!(room[2..4], [0, 1]);
        // SAFETY: null is for programs that do not ask.
        unsafe { from.hand(false, std::ptr::null_mut(), 0, std::ptr::null_mut()) };
    }

    #[test]
    fn other_families_and_short_addresses_are_none() {
        let (mut raw, _) = Inet::of("10.87.0.2".parse().unwrap(), 0).to_sockaddr(false);
        let at = (&raw const raw).cast();
        for len in [0, 1, 2, 15] {
            // SAFETY: there are as many bytes.
            assert_eq!(unsafe { Inet::read(at, len) }, None);
        }
        raw.sin6_family = libc::AF_UNIX as libc::sa_family_t;
        // SAFETY: as above.
        assert_eq!(unsafe { Inet::read((&raw const raw).cast(), 28) }, None);
        // SAFETY: null is an address that is not there.
        assert_eq!(unsafe { Inet::read(std::ptr::null(), 28) }, None);
    }

    #[test]
    fn cids_are_those_of_the_module() {
        assert_eq!(cid_of(1), Some(4097));
        assert_eq!(cid_of(0), None);
        assert_eq!(cid_of(0x1_0000_0002), Some(4098 + (1 << 18)));
        // Functions of the port 1, by their numbers.
        for n in 1..64 {
            assert_eq!(cid_of(1 ^ (n << 58)), Some(4096 + (1 ^ ((n as u32) << 26))));
        }
        // One that comes out below 4096, and the one that means any.
        assert_eq!(cid_of(0xffff_ffff), None);
        assert_eq!(cid_of(0xffff_efff), None);
        assert_eq!(cid_of(0xffff_f000), None);
    }

    #[test]
    fn cids_come_from_ethernet_addresses_of_weft_alone() {
        assert_eq!(cid_of_mac([2, 0, 0, 0, 0, 1]), Some(4097));
        assert_eq!(cid_of_mac([2, 0, 0, 0, 0, 0]), None);
        // 2 is the number of the first virtual function.
        assert_eq!(cid_of_mac([0x0a, 0, 0, 0, 0, 1]), cid_of(0x0800_0000_0000_0001));
        assert_eq!(cid_of_mac([0x06, 0x01, 0x02, 0x03, 0x04, 0x05]), cid_of(0x0101_0203_0405));
        assert_eq!(
            cid_of_mac([0x06, 0x01, 0x02, 0x03, 0x04, 0x05]),
            cid_of(0x0400_0101_0203_0405 ^ (1 << 40))
        );
        // Of a vendor, and of a group.
        assert_eq!(cid_of_mac([0x52 & !2, 0x54, 0, 1, 2, 3]), None);
        assert_eq!(cid_of_mac([0x33, 0x33, 0, 0, 0, 1]), None);
    }
}
