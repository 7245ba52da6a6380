// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A message that has come: the priority list, then the overflow list and the unexpected list; or the software
//! request list. This file is independent of commands.

use super::{
    super::{
        outcome::{header_of, Cached, Reason},
        request::{Message, Op},
    },
    allows, fit, is_cacheable, is_over, Buffer, CacheHint, Criteria, Endpoint, Engine, Entry, List,
    Options, Order, Outcome, Reply, State, Storage, NONE,
};

impl<E: Storage<Entry>, H: Storage<u32>> Engine<E, H> {
    pub(super) fn message(&mut self, endpoint: &mut Endpoint, message: &Message) -> Reply {
        if endpoint.holds() {
            return Reply {
                order: Order {
                    hold: Some(true),
                    again: true,
                    ..Order::DONE
                },
                ..Reply::of(Outcome::Held)
            };
        }
        match endpoint.state {
            State::Disabled => Reply::of(Outcome::Drop(Reason::Disabled)),
            State::Software if !may_wait(message) => Reply::of(Outcome::Drop(Reason::Software)),
            State::Software => self.store_for_program(endpoint, message),
            _ => match self.search(endpoint, List::Priority, message.source, message.bits) {
                Some(at) => self.matched(endpoint, message, at),
                None if !may_wait(message) => Reply::of(Outcome::Drop(Reason::NoBuffer)),
                None => self.unexpected(endpoint, message),
            },
        }
    }

    /// Gives a message the buffer of the priority list that it has matched.
    fn matched(&mut self, endpoint: &mut Endpoint, message: &Message, at: u32) -> Reply {
        let Some(mut buffer) = self.pool.at(at).map(Entry::buffer) else {
            return Reply::of(Outcome::Drop(Reason::NoBuffer));
        };
        if !allows(buffer.options, message.op) {
            return Reply::of(Outcome::Drop(Reason::Denied));
        }
        let receipt = fit(
            &mut buffer,
            header_of(message),
            message.offset.unwrap_or(0),
            false,
        );
        let mut reply = Reply::of(Outcome::Receive(receipt));
        if receipt.unlinked {
            if self.unlink_buffer(endpoint, at) {
                reply.order.cache = CacheHint::Deallocate;
            }
        } else {
            if let Some(entry) = self.pool.at_mut(at) {
                entry.offset = buffer.offset;
            }
            if is_cacheable(endpoint, List::Priority, buffer.options) {
                reply.order.cache = CacheHint::Allocate(Cached::of(&buffer));
            }
        }
        reply
    }

    /// Finds overflow memory for a message, and appends its header to the unexpected list.
    fn unexpected(&mut self, endpoint: &mut Endpoint, message: &Message) -> Reply {
        if self.is_short(endpoint) {
            let mut reply = self.begin_hand_over(endpoint);
            reply.order.again = true;
            return reply;
        }
        if !self.has_room(endpoint) {
            self.starved |= self.pool.free() == 0;
            return no_space(endpoint);
        }
        let mut header = header_of(message);
        let found = self.search(endpoint, List::Overflow, message.source, message.bits);
        let buffer = found.and_then(|at| self.pool.at(at)).map(Entry::buffer);
        let Some((at, mut buffer)) = found.zip(buffer) else {
            // A header alone needs no memory.
            return match header.eager {
                0 => {
                    self.append_header(endpoint, &header, NONE);
                    let receipt = fit(&mut nowhere(), header, 0, false);
                    Reply::of(Outcome::Unexpected(receipt))
                }
                _ => no_space(endpoint),
            };
        };
        // Of the message only that is stored.
        let whole = header.length;
        header.length = u64::from(header.eager);
        let mut receipt = fit(&mut buffer, header, 0, false);
        header.length = whole;
        receipt.header.length = whole;
        if receipt.length < u64::from(header.eager) {
            return no_space(endpoint);
        }
        header.address = receipt.address;
        receipt.header.address = receipt.address;
        self.append_header(endpoint, &header, at);
        if let Some(entry) = self.pool.at_mut(at) {
            entry.offset = buffer.offset;
        }
        if is_over(&buffer) {
            self.unlink_buffer(endpoint, at);
        }
        Reply::of(Outcome::Unexpected(receipt))
    }

    /// Stores a message for a program that matches by itself.
    fn store_for_program(&mut self, endpoint: &mut Endpoint, message: &Message) -> Reply {
        let at = endpoint.ends(List::Request).first;
        let Some(mut buffer) = self.pool.at(at).map(Entry::buffer) else {
            return no_space(endpoint);
        };
        let mut header = header_of(message);
        let whole = header.length;
        header.length = u64::from(header.eager);
        let mut receipt = fit(&mut buffer, header, 0, false);
        if receipt.length < header.length {
            return no_space(endpoint);
        }
        receipt.header.length = whole;
        receipt.header.address = receipt.address;
        if let Some(entry) = self.pool.at_mut(at) {
            entry.offset = buffer.offset;
        }
        if receipt.unlinked {
            self.unlink_buffer(endpoint, at);
        }
        Reply::of(Outcome::Software(receipt))
    }
}

/// Returns whether a message can wait for a buffer.
fn may_wait(message: &Message) -> bool {
    message.op == Op::Put && message.offset.is_none()
}

/// The buffer of a header without eager bytes.
fn nowhere() -> Buffer {
    Buffer {
        criteria: Criteria::ANY,
        address: 0,
        length: 0,
        offset: 0,
        min_free: 0,
        context: 0,
        options: Options {
            persistent: true,
            put: true,
            ..Options::default()
        },
    }
}

fn no_space(endpoint: &mut Endpoint) -> Reply {
    endpoint.refused = true;
    Reply::of(Outcome::NoSpace)
}
