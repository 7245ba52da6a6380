// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The Ethernet address of a port: its hardware id, so that a frame says where it comes from, and peers can tell
//! whether that is so. This file must not know what else is in a frame.

/// Bits of a hardware id that fit into an address.
const BITS: u32 = 46;
/// Where the high bits go, which do not fit: those that tell the functions of a port apart are the highest ones here, too.
const HIGH_AT: u32 = 28;

/// Returns the address of the port with a hardware id: unicast, locally administered (IEEE 802, clause 8.4). The high 18
/// bits are added to the others (modulo 2), so that all functions of a port have different ones.
pub fn address_of(hwid: u64) -> [u8; 6] {
    let low = (hwid & ((1 << BITS) - 1)) ^ ((hwid >> BITS) << HIGH_AT);
    // The two lowest bits of the first byte say what kind of address it is.
    let [_, _, bytes @ ..] = low.to_be_bytes();
    let mut address = bytes;
    if let Some(first) = address.first_mut() {
        *first = (*first << 2) | 0b10;
    }
    address
}

/// Returns whether an address is that of the port with a hardware id.
pub fn is_of(address: [u8; 6], hwid: u64) -> bool {
    address == address_of(hwid)
}

/// Returns whether an address is that of more than one port.
pub fn is_group(address: [u8; 6]) -> bool {
    address.first().is_some_and(|first| first & 1 != 0)
}
