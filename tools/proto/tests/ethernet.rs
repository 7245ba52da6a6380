// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Ethernet addresses: what they are made of, and which are those of a port.

use std::collections::HashSet;

use weft_proto::ethernet::{address_of, is_group, is_of};

#[test]
fn an_address_has_the_hardware_id_of_its_port() {
    assert_eq!(address_of(1), [2, 0, 0, 0, 0, 1]);
    assert_eq!(
        address_of((1 << 46) - 1),
        [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]
    );
    // A virtual function: 2 is its number.
    assert_eq!(address_of(0x0800_0000_0000_0001), [0x0a, 0, 0, 0, 0, 1]);
    // The high bits are added to others, and none of them is lost.
    assert_eq!(address_of(1 << 46), [2, 0, 0x10, 0, 0, 0]);
    assert_eq!(address_of(u64::MAX), [2, 0, 0x0f, 0xff, 0xff, 0xff]);
}

#[test]
fn all_functions_of_a_port_have_addresses_of_their_own_that_are_no_groups() {
    for hwid in [1, 0x1234_5678_9abc_def0, u64::MAX] {
        let addresses: HashSet<_> = (0..64).map(|n| address_of(hwid ^ (n << 58))).collect();
        assert_eq!(addresses.len(), 64);
        assert!(!addresses.into_iter().any(is_group));
    }
    assert!(is_group([0xff; 6]) && is_group([0x33, 0x33, 0, 0, 0, 1]));
}

#[test]
fn an_address_is_that_of_its_port_and_of_no_other() {
    for hwid in [1, 2, 0x0800_0000_0000_0001, 0x1234_5678_9abc_def0] {
        assert!(is_of(address_of(hwid), hwid));
        for bit in 0..64 {
            assert!(!is_of(address_of(hwid ^ (1 << bit)), hwid), "bit {bit}");
        }
        for bit in 0..48 {
            let mut other = address_of(hwid);
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_of(other, hwid), "bit {bit} of the address");
        }
    }
}
