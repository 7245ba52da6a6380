// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Hands the lists of an endpoint over to its program, and takes them back.
//!
//! Enabled → Onload: messages are held, and all entries are given out in order. → Software: the program
//! matches; messages are stored by the software request list. When the lists of the program have been short
//! for a while they return: messages are held again, the program appends all that it has, and enables the
//! endpoint. If entries run out meanwhile, what was appended is given out again, in order, and belongs in front of
//! what the program still has.

use super::{
    super::outcome::Reason, Buffer, CacheHint, Endpoint, Engine, Entry, Header, List, Order,
    Outcome, Reply, Resume, State, Storage, NONE,
};

/// The lists of a program have to be short for so long before they return, in nanoseconds.
pub const SHORT_NS: u64 = 100_000_000;

/// What is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// A buffer of the priority or the overflow list, as it is by now.
    Buffer(List, Buffer),
    /// A header of the unexpected list; with a context, one that was claimed by it.
    Header(Header, Option<u64>),
    /// All is given.
    End(Order, Resume),
}

impl<E: Storage<Entry>, H: Storage<u32>> Engine<E, H> {
    pub(super) fn begin_hand_over(&mut self, endpoint: &mut Endpoint) -> Reply {
        endpoint.state = State::Onload;
        endpoint.returning = false;
        endpoint.short_since = None;
        Reply {
            order: Order {
                cache: CacheHint::Deallocate,
                hold: Some(true),
                again: false,
            },
            ..Reply::of(Outcome::HandOver)
        }
    }

    /// Gives out the next entry of an endpoint that hands its lists over: the priority list, the overflow list,
    /// the unexpected list and the claimed headers, each in order. The last is [`Given::End`]; the program
    /// matches from then on. `None`: the endpoint does not hand over.
    pub fn give(&mut self, endpoint: &mut Endpoint) -> Option<Given> {
        if endpoint.state != State::Onload {
            return None;
        }
        let given = self.pop(endpoint, false).unwrap_or_else(|| {
            endpoint.state = State::Software;
            let order = Order {
                hold: Some(false),
                ..Order::DONE
            };
            Given::End(order, self.resume(endpoint, false))
        });
        Some(given)
    }

    /// Frees the next entry of an endpoint that is being closed, and returns what it was; `None` when there is
    /// no more.
    pub fn clear(&mut self, endpoint: &mut Endpoint) -> Option<Given> {
        endpoint.state = State::Disabled;
        endpoint.returning = false;
        if endpoint.appending != NONE {
            self.free_entry(endpoint, endpoint.appending);
            endpoint.appending = NONE;
        }
        self.pop(endpoint, true)
    }

    fn pop(&mut self, endpoint: &mut Endpoint, all: bool) -> Option<Given> {
        for list in [List::Priority, List::Overflow, List::Request] {
            let at = endpoint.ends(list).first;
            let Some(buffer) = self.pool.at(at).map(Entry::buffer) else {
                continue;
            };
            if all || list != List::Request {
                self.unlink_buffer(endpoint, at);
                return Some(Given::Buffer(list, buffer));
            }
        }
        let at = endpoint.ends(List::Unexpected).first;
        if let Some(header) = self.header(at) {
            self.unlink_header(endpoint, at);
            self.free_header(endpoint, at);
            return Some(Given::Header(header, None));
        }
        let at = endpoint.ends(List::Claimed).first;
        let header = self.header(at)?;
        let context = self.pool.at(at)?.context;
        self.unlink_claimed(endpoint, at);
        self.free_header(endpoint, at);
        Some(Given::Header(header, Some(context)))
    }

    /// Notes how long the lists of the program are, and lets them return when they have been below half of
    /// what the endpoint may have for [`SHORT_NS`], and would fit.
    pub(super) fn report(&mut self, endpoint: &mut Endpoint, entries: u32, now: u64) -> Reply {
        if endpoint.state != State::Software || endpoint.returning {
            return Reply::of(Outcome::Rejected(Reason::State));
        }
        let fits = u64::from(self.pool.free()) > u64::from(entries) + u64::from(self.reserve);
        let most = endpoint.config.limit.min(self.pool.entries.count());
        if entries >= most / 2 || !fits {
            endpoint.short_since = None;
            return Reply::of(Outcome::Noted);
        }
        let since = *endpoint.short_since.get_or_insert(now);
        if now.saturating_sub(since) < SHORT_NS {
            return Reply::of(Outcome::Noted);
        }
        endpoint.short_since = None;
        endpoint.returning = true;
        Reply {
            order: Order {
                hold: Some(true),
                ..Order::DONE
            },
            ..Reply::of(Outcome::Return)
        }
    }
}
