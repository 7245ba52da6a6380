// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Puts entries into the lists of an endpoint, and takes them out. An entry is in the order of its list, and in
//! the index by its criteria, its context, or both. This file is independent of requests.

use super::{is_cacheable, Endpoint, Engine, Entry, Header, Key, List, Storage, NONE, OTHER};

impl<E: Storage<Entry>, H: Storage<u32>> Engine<E, H> {
    /// Puts a buffer, whose entry is in no list, at the end of its list.
    pub(super) fn link_buffer(&mut self, endpoint: &mut Endpoint, list: List, at: u32) {
        let Some(criteria) = self.pool.at(at).map(Entry::criteria) else {
            return;
        };
        // Searches take no look at what overflow memory is for: it does not make a class.
        let class = match list {
            List::Priority => self.class_for(endpoint, &criteria),
            List::Overflow => endpoint.class_of(&criteria),
            _ => OTHER,
        };
        let number = endpoint.number;
        let sequence = endpoint.next_sequence();
        let Some(entry) = self.pool.at_mut(at) else {
            return;
        };
        entry.sequence = sequence;
        entry.set_list(list);
        entry.set_class(class);
        let context = entry.context;
        if let Some(ends) = endpoint.ends_mut(list) {
            self.pool.append(ends, at);
        }
        let by_context = Key::of_context(number, false, context);
        self.index.insert(&mut self.pool, &by_context, at);
        if class != OTHER {
            let key = Key::of_class(number, list, class, criteria);
            self.index.insert(&mut self.pool, &key, at);
        } else if let Some(first) = endpoint.others.get_mut(list as usize) {
            if *first == NONE {
                *first = at;
                self.pool.alone(at, 0, NONE);
            } else {
                self.pool.join(*first, at, 0);
            }
        }
    }

    /// Takes a buffer out of its list. Its entry is free, unless headers name it. Returns whether it was one
    /// that the cache may have.
    pub(super) fn unlink_buffer(&mut self, endpoint: &mut Endpoint, at: u32) -> bool {
        let Some(entry) = self.pool.at(at) else {
            return false;
        };
        let (list, class, users) = (entry.list(), entry.class(), entry.users);
        let (context, criteria) = (entry.context, entry.criteria());
        let cacheable = is_cacheable(endpoint, list, entry.options());
        if let Some(ends) = endpoint.ends_mut(list) {
            self.pool.cut(ends, at);
        }
        let by_context = Key::of_context(endpoint.number, false, context);
        self.index.remove(&mut self.pool, &by_context, at);
        if class != OTHER {
            let key = Key::of_class(endpoint.number, list, class, criteria);
            self.index.remove(&mut self.pool, &key, at);
        } else if let Some(first) = endpoint.others.get_mut(list as usize) {
            let next = self.pool.link(at, 0).map_or(NONE, |ring| ring.next);
            if *first == at {
                *first = if next == at { NONE } else { next };
            }
            self.pool.leave(at, 0);
        }
        if users > 0 {
            if let Some(entry) = self.pool.at_mut(at) {
                entry.set_list(List::Unlinked);
            }
        } else {
            self.free_entry(endpoint, at);
        }
        cacheable
    }

    pub(super) fn free_entry(&mut self, endpoint: &mut Endpoint, at: u32) {
        self.pool.put(at);
        endpoint.entries = endpoint.entries.saturating_sub(1);
    }

    /// Takes a header out of the unexpected list. Its entry stays.
    pub(super) fn unlink_header(&mut self, endpoint: &mut Endpoint, at: u32) {
        let Some((source, bits)) = self.pool.at(at).map(|entry| (entry.source, entry.bits)) else {
            return;
        };
        if let Some(ends) = endpoint.ends_mut(List::Unexpected) {
            self.pool.cut(ends, at);
        }
        for (number, class) in endpoint.classes() {
            let criteria = class.criteria(source, bits);
            let key = Key::of_class(endpoint.number, List::Unexpected, number, criteria);
            self.index.remove(&mut self.pool, &key, at);
        }
    }

    /// Takes a claimed header out of its list. Its entry stays.
    pub(super) fn unlink_claimed(&mut self, endpoint: &mut Endpoint, at: u32) {
        let Some(context) = self.pool.at(at).map(|entry| entry.context) else {
            return;
        };
        if let Some(ends) = endpoint.ends_mut(List::Claimed) {
            self.pool.cut(ends, at);
        }
        let key = Key::of_context(endpoint.number, true, context);
        self.index.remove(&mut self.pool, &key, at);
    }

    /// Returns the header of an entry. Its context is that of the overflow memory with its eager bytes.
    pub(super) fn header(&self, at: u32) -> Option<Header> {
        let entry = self.pool.at(at)?;
        let mut header = entry.header();
        if let Some(overflow) = self.pool.at(entry.users) {
            header.context = overflow.context;
        }
        Some(header)
    }

    /// Frees the entry of a header, which is in no list. Returns the context of its overflow memory if no other
    /// header names that, and it is in no list either; or its own, if it was given back with eager bytes: their memory
    /// is named by no other.
    pub(super) fn free_header(&mut self, endpoint: &mut Endpoint, at: u32) -> Option<u64> {
        let Entry {
            users,
            context,
            min_free: eager,
            ..
        } = *self.pool.at(at)?;
        self.free_entry(endpoint, at);
        let Some(overflow) = self.pool.at_mut(users) else {
            return (eager > 0).then_some(context);
        };
        overflow.users = overflow.users.saturating_sub(1);
        if overflow.users > 0 || overflow.list() != List::Unlinked {
            return None;
        }
        let context = overflow.context;
        self.free_entry(endpoint, users);
        Some(context)
    }

    /// Appends a header to the unexpected list. There is a free entry.
    pub(super) fn append_header(
        &mut self,
        endpoint: &mut Endpoint,
        header: &Header,
        users: u32,
    ) -> bool {
        let Some(at) = self
            .pool
            .take(Entry::of_header(endpoint.number, header, users))
        else {
            return false;
        };
        let sequence = endpoint.next_sequence();
        endpoint.entries += 1;
        if let Some(entry) = self.pool.at_mut(at) {
            entry.sequence = sequence;
        }
        if let Some(overflow) = self.pool.at_mut(users) {
            overflow.users += 1;
        }
        if let Some(ends) = endpoint.ends_mut(List::Unexpected) {
            self.pool.append(ends, at);
        }
        for (number, class) in endpoint.classes() {
            let criteria = class.criteria(header.source, header.bits);
            let key = Key::of_class(endpoint.number, List::Unexpected, number, criteria);
            self.index.insert(&mut self.pool, &key, at);
        }
        true
    }

    /// Keeps a header that was taken out of the unexpected list for a receive.
    pub(super) fn claim(&mut self, endpoint: &mut Endpoint, at: u32, context: u64) {
        if let Some(entry) = self.pool.at_mut(at) {
            entry.set_list(List::Claimed);
            entry.context = context;
        }
        if let Some(ends) = endpoint.ends_mut(List::Claimed) {
            self.pool.append(ends, at);
        }
        let key = Key::of_context(endpoint.number, true, context);
        self.index.insert(&mut self.pool, &key, at);
    }

    /// Returns the oldest buffer, or the oldest claimed header, with a context.
    pub(super) fn find_context(
        &self,
        endpoint: &Endpoint,
        claimed: bool,
        context: u64,
    ) -> Option<u32> {
        let key = Key::of_context(endpoint.number, claimed, context);
        self.index.find(&self.pool, &key)
    }
}
