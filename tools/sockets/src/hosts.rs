// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The file of addresses that an administrator has given to hosts: `/etc/weft/hosts`. It comes before what the kernel's
//! neighbour tables say.
//!
//! A line is an address, space, and the hardware id of a host, with `0x` if it is hexadecimal, or `-`: that address
//! stays TCP. From `#` on it is a comment. Lines that are none are passed over.

use std::net::IpAddr;

use crate::{address::cid_of, settings::settings, sys};

/// What is read of the file, at the most.
const SIZE: usize = 8 << 10;

/// What a line says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The host with this hardware id has it.
    Host(u64),
    /// It stays TCP.
    Tcp,
}

fn parse(line: &str) -> Option<(IpAddr, Entry)> {
    let mut words = line.split('#').next()?.split_ascii_whitespace();
    let ip = words.next()?.parse().ok()?;
    let entry = match words.next()? {
        "-" => Entry::Tcp,
        text => Entry::Host(match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => text.parse().ok()?,
        }),
    };
    words.next().is_none().then_some((ip, entry))
}

fn entries(text: &str) -> impl Iterator<Item = (IpAddr, Entry)> {
    text.lines().filter_map(parse)
}

fn with_text<R>(with: impl FnOnce(&str) -> Option<R>) -> Option<R> {
    let mut room = [0; SIZE];
    let bytes = sys::read_file(settings().hosts.as_ref()?.as_ptr(), &mut room)?;
    let valid = bytes.utf8_chunks().next()?.valid();
    with(valid)
}

/// Returns what the file says of an address.
pub fn entry_of(ip: IpAddr) -> Option<Entry> {
    with_text(|text| entries(text).find(|(at, _)| *at == ip).map(|(_, entry)| entry))
}

/// Returns the first address that the file gives to the host with a CID, of those that are wanted.
pub fn address_of(cid: u32, wanted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let is_its = |entry| match entry {
        Entry::Host(hwid) => cid_of(hwid) == Some(cid),
        Entry::Tcp => false,
    };
    with_text(|text| {
        entries(text).find(|(ip, entry)| is_its(*entry) && wanted(*ip)).map(|(ip, _)| ip)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# address hardware-id\n\n10.87.0.1 1\n  10.87.0.2\t0xdeadbeef00000002 # the second\n\
                        10.87.0.3 -\nfe80::1 3\nnonsense\n10.87.0.4\n10.87.0.5 5 more\n10.87.0.6 -1\n10.87.0.7 0xx\n";

    #[test]
    fn lines_are_an_address_and_a_hardware_id() {
        let found: Vec<_> = entries(FILE).collect();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(
            found,
            [
                (ip("10.87.0.1"), Entry::Host(1)),
                (ip("10.87.0.2"), Entry::Host(0xdead_beef_0000_0002)),
                (ip("10.87.0.3"), Entry::Tcp),
                (ip("fe80::1"), Entry::Host(3)),
            ]
        );
    }
}
