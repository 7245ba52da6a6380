// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A processing engine: executes the match requests of its endpoints, one at a time (step 520 of Fig. 5).
//!
//! A request is executed whole, so that a search and what it leads to are one operation. What takes longer is
//! done in steps of one entry each: a persistent buffer that meets many unexpected messages, and a hand-over. A
//! step takes the same time with one entry as with all. The engine is independent of the order of requests,
//! which is the dispatcher's, and trusts no request.

mod command;
pub mod hand_over;
mod lists;
mod message;

use super::{
    endpoint::{Class, Endpoint, State},
    entry::{Entry, OTHER},
    index::{Index, Key},
    outcome::{allows, span, CacheHint, Order, Outcome, Receipt, Reply, Resume},
    pool::Pool,
    request::{Buffer, Criteria, Header, List, Options, Work},
    storage::{Storage, NONE},
};

/// A processing engine: a pool of list entries, and heads to find them.
pub struct Engine<E, H> {
    pool: Pool<E>,
    index: Index<H>,
    /// Entries that are free when an endpoint hands its lists over.
    reserve: u32,
    /// A source was told NO_SPACE because no entry was free.
    starved: bool,
}

impl<E: Storage<Entry>, H: Storage<u32>> Engine<E, H> {
    /// Makes an engine. `entries` are [`Entry::FREE`], less than 2^30; `heads` are [`NONE`], about two for each
    /// entry that there will be. `seed` is secret, as sources choose match bits. An endpoint that can hands its
    /// lists over when no more than `reserve` entries are free.
    pub const fn new(entries: E, heads: H, seed: [u64; 2], reserve: u32) -> Self {
        Self {
            pool: Pool::new(entries),
            index: Index::new(heads, seed),
            reserve,
            starved: false,
        }
    }

    /// Returns the number of entries that are free.
    #[cfg_attr(MODULE, expect(dead_code, reason = "ahead of its user"))]
    pub fn free(&self) -> u32 {
        self.pool.free()
    }

    /// Returns the storage of the entries, so that it can grow.
    #[cfg_attr(MODULE, expect(dead_code, reason = "ahead of its user"))]
    pub fn entries_mut(&mut self) -> &mut E {
        &mut self.pool.entries
    }

    /// Executes a request for an endpoint. `now` is in nanoseconds.
    pub fn execute(&mut self, endpoint: &mut Endpoint, work: &Work, now: u64) -> Reply {
        let mut reply = match work {
            Work::Message(message) => self.message(endpoint, message),
            Work::Command(command) => self.command(endpoint, command, now),
        };
        self.finish(endpoint, &mut reply);
        reply
    }

    /// Does the next step of a command whose reply has said that there is more.
    pub fn go_on(&mut self, endpoint: &mut Endpoint) -> Reply {
        let mut reply = self.compare(endpoint);
        self.finish(endpoint, &mut reply);
        reply
    }

    /// Finds out which sources can be resumed.
    fn finish(&mut self, endpoint: &mut Endpoint, reply: &mut Reply) {
        if !matches!(reply.outcome, Outcome::NoSpace) {
            // A buffer that was posted may be for what was refused.
            let appended = matches!(reply.outcome, Outcome::Appended);
            let posted = appended && matches!(endpoint.state, State::Enabled);
            reply.resume = self.resume(endpoint, posted);
        }
    }

    fn resume(&mut self, endpoint: &mut Endpoint, posted: bool) -> Resume {
        if self.relieve() {
            endpoint.refused = false;
            Resume::All
        } else if endpoint.refused && (posted || self.takes(endpoint)) {
            endpoint.refused = false;
            Resume::Endpoint
        } else {
            Resume::None
        }
    }

    /// Returns whether the sources of all endpoints can be resumed, as entries are free again. The caller asks when it
    /// has [cleared](Self::clear) an endpoint; replies say it otherwise.
    pub fn relieve(&mut self) -> bool {
        let relieved = self.starved && self.pool.free() > 0;
        self.starved &= !relieved;
        relieved
    }

    /// Returns whether an unexpected message has a chance.
    fn takes(&self, endpoint: &Endpoint) -> bool {
        match endpoint.state {
            // It is dropped, and its source told so.
            State::Disabled => true,
            State::Enabled => self.has_room(endpoint) && endpoint.count(List::Overflow) > 0,
            State::Onload => false,
            State::Software => !endpoint.returning && endpoint.count(List::Request) > 0,
        }
    }

    /// Returns whether an endpoint can have another entry.
    fn has_room(&self, endpoint: &Endpoint) -> bool {
        endpoint.entries < endpoint.config.limit && self.pool.free() > 0
    }

    /// Returns whether an endpoint is to hand its lists over, instead of having another entry.
    fn is_short(&self, endpoint: &Endpoint) -> bool {
        let scarce = self.pool.free() <= self.reserve || endpoint.entries >= endpoint.config.limit;
        scarce && endpoint.config.hand_over && endpoint.count(List::Request) > 0
    }

    /// Returns the oldest buffer of a list that is for a message.
    fn search(&self, endpoint: &Endpoint, list: List, source: u32, bits: u64) -> Option<u32> {
        if endpoint.count(list) == 0 {
            return None;
        }
        let mut best = None;
        let mut oldest = u64::MAX;
        for (number, class) in endpoint.classes() {
            let criteria = class.criteria(source, bits);
            let key = Key::of_class(endpoint.number, list, number, criteria);
            if let Some(at) = self.index.find(&self.pool, &key) {
                let sequence = self.pool.at(at)?.sequence;
                if sequence < oldest {
                    (best, oldest) = (Some(at), sequence);
                }
            }
        }
        // Those of further classes are in order: the first that matches is the oldest of them.
        let first = endpoint.others.get(list as usize).copied().unwrap_or(NONE);
        let mut at = first;
        while let Some(entry) = self.pool.at(at) {
            if entry.sequence >= oldest {
                break;
            }
            if entry.criteria().accept(source, bits) {
                return Some(at);
            }
            at = entry.links.first().map_or(NONE, |ring| ring.next);
            if at == first {
                break;
            }
        }
        best
    }

    /// Returns the oldest unexpected header that criteria are for.
    fn search_headers(&mut self, endpoint: &mut Endpoint, criteria: Criteria) -> Option<u32> {
        if endpoint.count(List::Unexpected) == 0 {
            return None;
        }
        let number = self.class_for(endpoint, &criteria);
        if number != OTHER {
            let key = Key::of_class(endpoint.number, List::Unexpected, number, criteria);
            return self.index.find(&self.pool, &key);
        }
        let mut at = endpoint.ends(List::Unexpected).first;
        while let Some(entry) = self.pool.at(at) {
            if criteria.accept(entry.source, entry.bits) {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// Returns the class of criteria, which becomes one if there is room.
    fn class_for(&mut self, endpoint: &mut Endpoint, criteria: &Criteria) -> u8 {
        let known = endpoint.class_of(criteria);
        if known != OTHER {
            return known;
        }
        let class = Class::of(criteria);
        let Some(number) = endpoint.add_class(class) else {
            return OTHER;
        };
        // Happens four times in the life of an endpoint.
        let mut at = endpoint.ends(List::Unexpected).first;
        while let Some(entry) = self.pool.at(at) {
            let (source, bits, next) = (entry.source, entry.bits, entry.next);
            let criteria = class.criteria(source, bits);
            let key = Key::of_class(endpoint.number, List::Unexpected, number, criteria);
            self.index.insert(&mut self.pool, &key, at);
            at = next;
        }
        number
    }

    /// Compares the buffer that is being appended with the unexpected list: a message that it is for, or it is
    /// in its list.
    fn compare(&mut self, endpoint: &mut Endpoint) -> Reply {
        let at = endpoint.appending;
        let Some(mut buffer) = self.pool.at(at).map(Entry::buffer) else {
            return Reply::of(Outcome::Appended);
        };
        let found = match buffer.options.put {
            true => self.search_headers(endpoint, buffer.criteria),
            false => None,
        };
        let Some(header) = found else {
            endpoint.appending = NONE;
            self.link_buffer(endpoint, List::Priority, at);
            return Reply::of(Outcome::Appended);
        };
        self.unlink_header(endpoint, header);
        let mut reply = self.receive(endpoint, &mut buffer, header);
        let over = is_over(&buffer);
        if let Outcome::Receive(receipt) = &mut reply.outcome {
            receipt.unlinked = over;
        }
        reply.more = !over;
        if over {
            endpoint.appending = NONE;
            self.free_entry(endpoint, at);
        } else if let Some(entry) = self.pool.at_mut(at) {
            entry.offset = buffer.offset;
        }
        reply
    }

    /// Receives a message that was unexpected, and whose header is in no list any more, into a buffer.
    fn receive(&mut self, endpoint: &mut Endpoint, buffer: &mut Buffer, at: u32) -> Reply {
        let Some(header) = self.header(at) else {
            return Reply::of(Outcome::NotFound);
        };
        let freed = self.free_header(endpoint, at);
        let receipt = fit(buffer, header, 0, true);
        Reply {
            freed,
            ..Reply::of(Outcome::Receive(receipt))
        }
    }
}

/// Fits a message into a buffer, whose offset is moved if it is the engine's.
fn fit(buffer: &mut Buffer, header: Header, offset: u64, stored: bool) -> Receipt {
    let local = buffer.options.manage_local;
    let offset = if local { buffer.offset } else { offset };
    let part = span(buffer.address, buffer.length, offset, header.length);
    if local {
        buffer.offset = buffer.offset.saturating_add(part.length);
    }
    Receipt {
        header,
        stored,
        context: buffer.context,
        address: part.address,
        length: part.length,
        unlinked: is_over(buffer),
        full: buffer.options.full,
        counting: buffer.options.counting,
    }
}

/// Returns whether a buffer that has matched is to be unlinked.
fn is_over(buffer: &Buffer) -> bool {
    let left = buffer.length.saturating_sub(buffer.offset);
    !buffer.options.persistent || buffer.options.manage_local && left < u64::from(buffer.min_free)
}

/// Returns whether the persistent list entry cache may have a buffer.
fn is_cacheable(endpoint: &Endpoint, list: List, options: Options) -> bool {
    let config = &endpoint.config;
    let endpoint_allows = !config.matching && !config.space_check;
    let silent = !options.full && !options.counting;
    list == List::Priority
        && endpoint_allows
        && silent
        && options.persistent
        && !options.manage_local
}
