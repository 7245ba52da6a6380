// SPDX-License-Identifier: GPL-2.0

//! The Ethernet address of a port: its hardware id, so that a frame says where it comes from, and peers can tell
//! whether that is so.

/// Bits of a hardware id that fit into an address.
const BITS: u32 = 46;

/// Returns the address of the port with a hardware id: unicast, locally administered (IEEE 802, clause 8.4).
/// Hardware ids that differ in the high 18 bits alone have the same one.
pub(super) fn address_of(hwid: u64) -> [u8; 6] {
    let low = hwid & ((1 << BITS) - 1);
    // The two lowest bits of the first byte say what kind of address it is.
    let [_, _, bytes @ ..] = low.to_be_bytes();
    let mut address = bytes;
    if let Some(first) = address.first_mut() {
        *first = *first << 2 | 0b10;
    }
    address
}

/// Returns whether an address is that of more than one port.
pub(super) fn is_group(address: [u8; 6]) -> bool {
    address.first().is_some_and(|first| first & 1 != 0)
}
