// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Finds the oldest entry with a key, at a cost that does not depend on how many entries there are.
//!
//! A bucket chains distinct keys, and each key has a ring of its entries from the oldest to the newest: 64 k
//! entries of one key hide no other key. This file is independent of which classes an endpoint has.

use super::{
    entry::{Entry, BY_CONTEXT, BY_CRITERIA, NOT_FIRST},
    hash::siphash,
    pool::Pool,
    request::{Criteria, List},
    storage::{Storage, NONE},
};

/// What entries are found by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    endpoint: u16,
    list: List,
    /// Of the entry: the one that such entries are found by.
    link: u8,
    class: u8,
    /// The criteria; the match bits that matter alone, and no source where any is meant.
    criteria: Criteria,
}

impl Key {
    /// Returns the key of the messages that criteria of a class are for. `criteria` are those of an entry, or
    /// those of the class with source and match bits of a message.
    pub fn of_class(endpoint: u16, list: List, class: u8, criteria: Criteria) -> Self {
        Self {
            endpoint,
            list,
            link: match list {
                List::Unexpected => class,
                _ => BY_CRITERIA,
            },
            class,
            criteria: Criteria {
                bits: criteria.bits & !criteria.ignore,
                ..criteria
            },
        }
    }

    /// Returns the key of the entries with a context: buffers, or claimed headers.
    pub fn of_context(endpoint: u16, claimed: bool, context: u64) -> Self {
        Self {
            endpoint,
            list: if claimed { List::Claimed } else { List::Free },
            link: BY_CONTEXT,
            class: u8::MAX,
            criteria: Criteria {
                source: None,
                bits: context,
                ignore: 0,
            },
        }
    }

    fn is_of(&self, entry: &Entry, link: u8) -> bool {
        if entry.endpoint != self.endpoint || link != self.link {
            return false;
        }
        let (list, is) = (entry.list(), &self.criteria);
        if self.class == u8::MAX {
            let claimed = list == List::Claimed;
            return list != List::Unexpected
                && claimed == (self.list == List::Claimed)
                && entry.context == is.bits;
        }
        list == self.list
            && (list == List::Unexpected || entry.class() == self.class)
            && is.source.is_none_or(|source| source == entry.source)
            && entry.bits & !is.ignore == is.bits
    }

    /// The words that are hashed.
    fn words(&self) -> [u64; 2] {
        [
            self.criteria.bits,
            u64::from(self.criteria.source.unwrap_or(0))
                | (u64::from(self.endpoint) << 32)
                | (u64::from(self.list as u8) << 48)
                | (u64::from(self.class) << 56),
        ]
    }
}

/// An entry and the link by which it is chained, as one number.
const fn node(at: u32, link: u8) -> u32 {
    (at << 2) | link as u32
}

pub(super) struct Index<H> {
    heads: H,
    seed: [u64; 2],
}

impl<H: Storage<u32>> Index<H> {
    pub const fn new(heads: H, seed: [u64; 2]) -> Self {
        Self { heads, seed }
    }

    fn bucket(&self, key: &Key) -> u32 {
        let hash = siphash(self.seed, key.words()) >> 32;
        // Below the number of heads.
        ((hash * u64::from(self.heads.count())) >> 32) as u32
    }

    /// Returns the oldest entry with a key.
    pub fn find<E: Storage<Entry>>(&self, pool: &Pool<E>, key: &Key) -> Option<u32> {
        self.find_in(pool, key, self.bucket(key))
    }

    fn find_in<E: Storage<Entry>>(&self, pool: &Pool<E>, key: &Key, bucket: u32) -> Option<u32> {
        let mut at = *self.heads.at(bucket)?;
        while at != NONE {
            let (index, link) = (at >> 2, (at & 3) as u8);
            let entry = pool.at(index)?;
            if key.is_of(entry, link) {
                return Some(index);
            }
            at = entry.links.get(usize::from(link))?.chain;
        }
        None
    }

    /// Adds an entry as the newest of its key.
    pub fn insert<E: Storage<Entry>>(&mut self, pool: &mut Pool<E>, key: &Key, at: u32) {
        let bucket = self.bucket(key);
        if let Some(entry) = pool.at_mut(at) {
            entry.keep_bucket(key.link, bucket);
        }
        if let Some(first) = self.find_in(pool, key, bucket) {
            return pool.join(first, at, key.link);
        }
        if let Some(head) = self.heads.at_mut(bucket) {
            pool.alone(at, key.link, *head);
            *head = node(at, key.link);
        }
    }

    /// Removes an entry.
    pub fn remove<E: Storage<Entry>>(&mut self, pool: &mut Pool<E>, key: &Key, at: u32) {
        let Some(entry) = pool.at(at) else {
            return;
        };
        let kept = entry.bucket(key.link);
        let Some(link) = entry.links.get(usize::from(key.link)).copied() else {
            return;
        };
        if link.chain != NOT_FIRST {
            let mut after = link.chain;
            if link.next != at {
                if let Some(second) = pool.link_mut(link.next, key.link) {
                    second.chain = link.chain;
                    after = node(link.next, key.link);
                }
            }
            let bucket = kept.unwrap_or_else(|| self.bucket(key));
            self.replace(pool, bucket, node(at, key.link), after);
        }
        pool.leave(at, key.link);
    }

    /// Puts the first entry of a key in the place of another in its bucket.
    fn replace<E: Storage<Entry>>(
        &mut self,
        pool: &mut Pool<E>,
        bucket: u32,
        old: u32,
        new: u32,
    ) -> Option<()> {
        let head = self.heads.at_mut(bucket)?;
        if *head == old {
            *head = new;
            return Some(());
        }
        let mut at = *head;
        while at != NONE {
            let link = pool.link_mut(at >> 2, (at & 3) as u8)?;
            if link.chain == old {
                link.chain = new;
                break;
            }
            at = link.chain;
        }
        Some(())
    }
}
