// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The addresses of an address vector, by index and by what a message says of its source.

use crate::fi::FiAddr;
use std::collections::HashMap;
use weft::matching::Address;

/// Addresses. One that was removed leaves its index for the next.
#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Option<Address>>,
    free: Vec<usize>,
    /// By hardware id and number of the interface: a message does not say the generation of its source.
    sources: HashMap<(u64, u16), usize>,
}

fn source(address: &Address) -> (u64, u16) {
    (address.hwid, address.endpoint)
}

impl Table {
    /// Inserts an address. One that is in already gets another index; the source of its messages stays the first.
    pub fn insert(&mut self, address: Address) -> FiAddr {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Some(address);
        }
        let known =
            self.sources.get(&source(&address)).and_then(|known| self.get(*known as FiAddr));
        if known != Some(address) {
            // The number belongs to the one that was inserted last: it is the one that is there now.
            self.sources.insert(source(&address), index);
        }
        index as FiAddr
    }

    /// Removes an address; false if there is none.
    pub fn remove(&mut self, at: FiAddr) -> bool {
        let Some(address) = self.get(at) else { return false };
        let index = at as usize;
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = None;
        }
        self.free.push(index);
        if self.sources.get(&source(&address)) == Some(&index) {
            let other =
                self.slots.iter().position(|a| a.is_some_and(|a| source(&a) == source(&address)));
            match other {
                Some(other) => self.sources.insert(source(&address), other),
                None => self.sources.remove(&source(&address)),
            };
        }
        true
    }

    /// An address by its index.
    pub fn get(&self, at: FiAddr) -> Option<Address> {
        let index = usize::try_from(at).ok()?;
        self.slots.get(index).copied().flatten()
    }

    /// The index of the source of a message.
    pub fn find(&self, source: (u64, u16)) -> Option<FiAddr> {
        self.sources.get(&source).map(|index| *index as FiAddr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(hwid: u64, endpoint: u16, generation: u32) -> Address {
        Address { hwid, endpoint, generation }
    }

    #[test]
    fn addresses_are_found_both_ways() {
        let mut table = Table::default();
        assert_eq!(table.get(0), None);
        assert_eq!(table.find((1, 2)), None);
        for n in 0..100 {
            assert_eq!(table.insert(address(n, 2, 3)), n);
        }
        for n in 0..100 {
            assert_eq!(table.get(n), Some(address(n, 2, 3)));
            assert_eq!(table.find((n, 2)), Some(n));
        }
        assert_eq!(table.get(100), None);
        assert_eq!(table.get(u64::MAX), None);
        assert_eq!(table.find((1, 3)), None);
    }

    #[test]
    fn what_was_removed_is_no_source() {
        let mut table = Table::default();
        let (a, b) = (table.insert(address(1, 1, 1)), table.insert(address(2, 1, 1)));
        assert!(table.remove(a) && !table.remove(a));
        assert_eq!((table.get(a), table.find((1, 1))), (None, None));
        assert_eq!(table.find((2, 1)), Some(b));
        assert_eq!(table.insert(address(3, 1, 1)), a);
        assert_eq!(table.find((3, 1)), Some(a));
    }

    #[test]
    fn of_equal_addresses_the_first_is_the_source() {
        let mut table = Table::default();
        let (first, second) = (table.insert(address(1, 1, 1)), table.insert(address(1, 1, 1)));
        assert_ne!(first, second);
        assert_eq!(table.find((1, 1)), Some(first));
        assert!(table.remove(first));
        assert_eq!(table.find((1, 1)), Some(second));
    }

    #[test]
    fn of_two_generations_the_last_is_the_source() {
        let mut table = Table::default();
        let (old, new) = (table.insert(address(1, 1, 1)), table.insert(address(1, 1, 2)));
        assert_eq!(table.find((1, 1)), Some(new));
        assert!(table.remove(old));
        assert_eq!(table.find((1, 1)), Some(new));
    }
}
