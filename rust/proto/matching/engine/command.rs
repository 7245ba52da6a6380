// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The commands of a program. This file is independent of messages.

use super::{
    super::{
        outcome::Reason,
        request::{Command, Options},
    },
    Buffer, CacheHint, Criteria, Endpoint, Engine, Entry, Header, List, Order, Outcome, Reply,
    State, Storage,
};

impl<E: Storage<Entry>, H: Storage<u32>> Engine<E, H> {
    pub(super) fn command(
        &mut self,
        endpoint: &mut Endpoint,
        command: &Command,
        now: u64,
    ) -> Reply {
        match *command {
            Command::Append(list, buffer) => self.append(endpoint, list, buffer),
            Command::Search(criteria) => {
                let found = self.search_headers(endpoint, plain(endpoint, criteria));
                let header = found.and_then(|at| self.header(at));
                Reply::of(header.map_or(Outcome::NotFound, Outcome::Found))
            }
            Command::SearchAndDelete {
                criteria,
                context,
                discard,
            } => self.search_and_delete(endpoint, criteria, context, discard),
            Command::Receive {
                context,
                address,
                length,
            } => self.receive_claimed(endpoint, context, address, length),
            Command::Unlink { context } => self.unlink(endpoint, context),
            Command::Enable => self.enable(endpoint),
            Command::Disable => {
                endpoint.state = State::Disabled;
                endpoint.returning = false;
                Reply {
                    order: Order {
                        cache: CacheHint::Deallocate,
                        hold: Some(false),
                        again: false,
                    },
                    ..Reply::of(Outcome::State(State::Disabled))
                }
            }
            Command::HandOver => match endpoint.state {
                State::Enabled if endpoint.config.hand_over => self.begin_hand_over(endpoint),
                _ => Reply::of(Outcome::Rejected(Reason::State)),
            },
            Command::Report { entries } => self.report(endpoint, entries, now),
            Command::AppendHeader(header) => self.give_back(endpoint, header),
        }
    }

    /// Appends a buffer if nothing else comes of that: no message waits for it, and the lists are not handed over.
    pub fn append_only(
        &mut self,
        endpoint: &mut Endpoint,
        list: List,
        buffer: &Buffer,
    ) -> Option<Reply> {
        let by_program = matches!(endpoint.state, State::Onload | State::Software);
        if by_program || endpoint.count(List::Unexpected) > 0 || self.hands_over(endpoint) {
            return None;
        }
        let mut reply = self.append(endpoint, list, *buffer);
        self.finish(endpoint, &mut reply);
        Some(reply)
    }

    fn append(&mut self, endpoint: &mut Endpoint, list: List, mut buffer: Buffer) -> Reply {
        let options = buffer.options;
        let stores = match list {
            List::Priority => false,
            List::Overflow | List::Request => true,
            _ => return Reply::of(Outcome::Rejected(Reason::Invalid)),
        };
        let fits = buffer.address.checked_add(buffer.length).is_some();
        if !fits || buffer.offset > buffer.length || stores && !options.put {
            return Reply::of(Outcome::Rejected(Reason::Invalid));
        }
        buffer.criteria = match list {
            List::Request => Criteria::ANY,
            _ => plain(endpoint, buffer.criteria),
        };
        if list == List::Request {
            return self.append_plain(endpoint, list, buffer);
        }
        let takes = match endpoint.state {
            State::Disabled | State::Enabled => true,
            State::Onload => false,
            State::Software => endpoint.returning,
        };
        if !takes {
            return Reply::of(Outcome::Rejected(Reason::Software));
        }
        if list == List::Priority && !options.persistent && options.put {
            // What meets its message at once needs no entry.
            if let Some(at) = self.search_headers(endpoint, buffer.criteria) {
                self.unlink_header(endpoint, at);
                return self.receive(endpoint, &mut buffer, at);
            }
        }
        if self.hands_over(endpoint) {
            return self.begin_hand_over(endpoint);
        }
        if list != List::Priority {
            return self.append_plain(endpoint, list, buffer);
        }
        if !self.has_room(endpoint) {
            return Reply::of(Outcome::Rejected(Reason::NoEntry));
        }
        let entry = Entry::of_buffer(endpoint.number, &buffer, List::Appending);
        let Some(at) = self.pool.take(entry) else {
            return Reply::of(Outcome::Rejected(Reason::NoEntry));
        };
        endpoint.entries += 1;
        endpoint.appending = at;
        self.compare(endpoint)
    }

    /// Returns whether the lists are handed over instead of having another buffer.
    fn hands_over(&self, endpoint: &Endpoint) -> bool {
        endpoint.state != State::Disabled && self.is_short(endpoint)
    }

    /// Appends a buffer to a list that no search precedes.
    fn append_plain(&mut self, endpoint: &mut Endpoint, list: List, buffer: Buffer) -> Reply {
        // What an endpoint needs to hand over comes from what the others leave.
        if !self.has_room(endpoint) {
            return Reply::of(Outcome::Rejected(Reason::NoEntry));
        }
        let entry = Entry::of_buffer(endpoint.number, &buffer, list);
        let Some(at) = self.pool.take(entry) else {
            return Reply::of(Outcome::Rejected(Reason::NoEntry));
        };
        endpoint.entries += 1;
        self.link_buffer(endpoint, list, at);
        Reply::of(Outcome::Appended)
    }

    fn search_and_delete(
        &mut self,
        endpoint: &mut Endpoint,
        criteria: Criteria,
        context: u64,
        discard: bool,
    ) -> Reply {
        let found = self.search_headers(endpoint, plain(endpoint, criteria));
        let header = found.and_then(|at| self.header(at));
        let Some((at, header)) = found.zip(header) else {
            return Reply::of(Outcome::NotFound);
        };
        self.unlink_header(endpoint, at);
        if discard {
            let freed = self.free_header(endpoint, at);
            return Reply {
                freed,
                ..Reply::of(Outcome::Discarded(header))
            };
        }
        self.claim(endpoint, at, context);
        Reply::of(Outcome::Claimed(header))
    }

    /// Receives the oldest claimed message with a context.
    fn receive_claimed(
        &mut self,
        endpoint: &mut Endpoint,
        context: u64,
        address: u64,
        length: u64,
    ) -> Reply {
        if address.checked_add(length).is_none() {
            return Reply::of(Outcome::Rejected(Reason::Invalid));
        }
        let Some(at) = self.find_context(endpoint, true, context) else {
            return Reply::of(Outcome::NotFound);
        };
        self.unlink_claimed(endpoint, at);
        let mut buffer = claimed_buffer(context, address, length);
        self.receive(endpoint, &mut buffer, at)
    }

    fn unlink(&mut self, endpoint: &mut Endpoint, context: u64) -> Reply {
        let Some(at) = self.find_context(endpoint, false, context) else {
            return Reply::of(Outcome::NotFound);
        };
        let mut reply = Reply::of(Outcome::Unlinked(context));
        if self.unlink_buffer(endpoint, at) {
            reply.order.cache = CacheHint::Deallocate;
        }
        reply
    }

    fn enable(&mut self, endpoint: &mut Endpoint) -> Reply {
        match endpoint.state {
            State::Disabled | State::Enabled => {}
            State::Software if endpoint.returning => endpoint.returning = false,
            _ => return Reply::of(Outcome::Rejected(Reason::State)),
        }
        endpoint.state = State::Enabled;
        Reply {
            order: Order {
                hold: Some(false),
                ..Order::DONE
            },
            ..Reply::of(Outcome::State(State::Enabled))
        }
    }

    /// Appends a header that the program has had while it matched by itself.
    fn give_back(&mut self, endpoint: &mut Endpoint, header: Header) -> Reply {
        let end = header.address.checked_add(u64::from(header.eager));
        if end.is_none() || u64::from(header.eager) > header.length {
            return Reply::of(Outcome::Rejected(Reason::Invalid));
        }
        if endpoint.state != State::Software || !endpoint.returning {
            return Reply::of(Outcome::Rejected(Reason::State));
        }
        if self.is_short(endpoint) || !self.has_room(endpoint) {
            return self.begin_hand_over(endpoint);
        }
        self.append_header(endpoint, &header, super::NONE);
        Reply::of(Outcome::Appended)
    }
}

/// Returns criteria as an endpoint understands them.
fn plain(endpoint: &Endpoint, criteria: Criteria) -> Criteria {
    match endpoint.config.matching {
        true => criteria,
        false => Criteria::ANY,
    }
}

/// Returns the buffer of a receive of a claimed message.
fn claimed_buffer(context: u64, address: u64, length: u64) -> Buffer {
    Buffer {
        criteria: Criteria::ANY,
        address,
        length,
        offset: 0,
        min_free: 0,
        context,
        options: Options {
            put: true,
            full: true,
            ..Options::default()
        },
    }
}
