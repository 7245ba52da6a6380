// SPDX-License-Identifier: GPL-2.0

//! Hands the lists of the interface over to its program, has the program match, and takes them back.
//!
//! What an entry was is an event, in the order of the lists; meanwhile no other command is taken. Afterwards a
//! message is an event as well, and the program says where the bytes of a long one go. It names such a message by its
//! source and by the number that the source has given it: the kernel keeps nothing of it, and the source sends bytes
//! of what was for this interface alone.

use super::{
    initiator::errno,
    interface::{Interface, Worker},
    lists::Source,
    pull::{Pull, Purpose},
    to::To,
    EAGER,
};
use crate::proto::{
    envelope::{Address, Body, Envelope},
    matching::{
        engine::hand_over::Given,
        outcome::Receipt,
        request::{Buffer, Command, Header, List, Message, Options},
    },
    slot::{self, Event, Kind, Op, Slot},
};
use kernel::prelude::*;

impl Interface {
    /// Returns what a command asks of the lists, of those that have to do with handing over. `EINVAL`: it is none, or
    /// makes no sense.
    pub(super) fn handing_of(&self, worker: &mut Worker, slot: &Slot) -> Result<Command> {
        Ok(match slot.op {
            Op::HandOver => Command::HandOver,
            Op::Report => Command::Report {
                entries: u32::try_from(slot.length)?,
            },
            Op::AppendHeader => Command::AppendHeader(self.header_of(worker, slot)?),
            _ => return Err(EINVAL),
        })
    }

    /// Returns the header that a command gives back.
    fn header_of(&self, worker: &mut Worker, slot: &Slot) -> Result<Header> {
        let eager = slot.min_free;
        let whole = u64::from(eager) == slot.length;
        // As a message comes: all of its bytes or none.
        if eager != 0 && !whole || eager as usize > EAGER {
            return Err(EINVAL);
        }
        let (address, cookie) = if whole {
            (slot.address, 0)
        } else {
            (0, slot.address)
        };
        Ok(Header {
            source: self.source_of(worker, slot)?.ok_or(EINVAL)?,
            bits: slot.bits,
            length: slot.length,
            eager,
            data: slot.ignore,
            cookie,
            address,
            context: slot.context,
        })
    }

    /// Begins to hand the lists over.
    pub(super) fn begin_to_give(&self, worker: &mut Worker) {
        worker.giving = true;
        self.say_state(worker, slot::STATE_ONLOAD);
    }

    /// Tells the program which lists messages are matched with.
    pub(super) fn say_state(&self, worker: &mut Worker, state: u64) {
        let event = Event {
            data: state,
            ..Event::of(Kind::State, 0, 0)
        };
        self.post(worker, &event);
    }

    /// Hands the next entry over. Returns whether there was one, and room for its event.
    pub(super) fn give(&self, worker: &mut Worker) -> bool {
        if !worker.giving || !self.rings.has_room(&worker.counts, 1) {
            return false;
        }
        let number = self.address.endpoint;
        let given = self
            .matcher
            .with_lists(|lists, matcher| lists.give(matcher, number));
        match given {
            Some(Given::Buffer(list, buffer)) => {
                let event = self.of_buffer(list, &buffer);
                self.post(worker, &event);
            }
            Some(Given::Header(header, claim)) => {
                let mut event = self.of_given(&header, 0);
                if let Some(context) = claim {
                    event.flags = slot::EVENT_CLAIMED;
                    event.context = context;
                }
                self.post_header(worker, &event);
            }
            Some(Given::End(..)) => {
                worker.giving = false;
                self.say_state(worker, slot::STATE_SOFTWARE);
            }
            // The program has disabled the interface meanwhile.
            None => {
                worker.giving = false;
                self.say_state(worker, slot::STATE_DISABLED);
            }
        }
        true
    }

    fn of_buffer(&self, list: List, buffer: &Buffer) -> Event {
        let source = buffer.criteria.source;
        let peer = source.and_then(|source| self.peer_of(source));
        Event {
            endpoint: source.map_or(0, |source| Source(source).address().endpoint),
            address: buffer.address,
            length: buffer.length,
            stored: buffer.offset,
            bits: buffer.criteria.bits,
            data: buffer.criteria.ignore,
            hwid: peer.map_or(0, |peer| peer.hwid),
            ..Event::of(Kind::Buffer, buffer.context, flags_of(list, buffer).into())
        }
    }

    /// Makes the event of a header. If bytes of the message are to be got, its address is the number of the message.
    fn of_given(&self, header: &Header, status: u32) -> Event {
        let rest = u64::from(header.eager) < header.length;
        Event {
            address: if rest { header.cookie } else { header.address },
            stored: header.eager.into(),
            ..self.of_header(Kind::Header, header.context, status, header)
        }
    }

    fn post_header(&self, worker: &mut Worker, event: &Event) {
        worker.handed |= event.stored < event.length;
        self.post(worker, event);
    }

    /// Stores a message that the program matches, and tells it so.
    pub(super) fn hand(&self, worker: &mut Worker, receipt: &Receipt, message: &Message) -> Result {
        let header = Header {
            context: receipt.context,
            ..receipt.header
        };
        let stored = self.store_arrival(worker, message, receipt.address, receipt.length)?;
        let status = stored.map_or_else(errno, |()| 0);
        match receipt.is_rendezvous() {
            true => self.answer_with(&header, Body::Taken),
            false => self.say_end(worker, &header, status, receipt.length),
        }
        let mut event = self.of_given(&header, status);
        if receipt.unlinked {
            event.flags = slot::EVENT_UNLINKED;
        }
        self.post_header(worker, &event);
        Ok(())
    }

    /// Begins to pull what the program has matched; without bytes the message is over. Returns false if there is no
    /// place now.
    pub(super) fn pull_for(&self, slot: &Slot) -> Result<bool> {
        let end = slot.address.checked_add(slot.length);
        let peer = self.matcher.named(slot.hwid)?;
        Source::new(peer.number, slot.endpoint)
            .filter(|_| end.is_some())
            .ok_or(EINVAL)?;
        if !peer.has_room() || slot.length > 0 && !self.state.lock().can_pull() {
            return Ok(false);
        }
        let address = Address {
            endpoint: slot.endpoint,
            generation: 0,
        };
        if slot.length == 0 {
            peer.reply(&Envelope {
                to: address,
                from: self.address,
                cookie: slot.ignore,
                body: Body::Done {
                    status: 0,
                    length: 0,
                },
            });
            return Ok(true);
        }
        let event = Event {
            endpoint: slot.endpoint,
            address: slot.address,
            length: slot.length,
            bits: slot.bits,
            hwid: peer.hwid,
            ..Event::of(Kind::Received, slot.context, 0)
        };
        let from = To::now(peer, address);
        let purpose = Purpose::Message {
            event,
            silent: slot.has(slot::SILENT),
        };
        let pull = Pull {
            cookie: slot.ignore,
            granted: true,
            ..self.new_pull(from, purpose, slot.address, slot.length)?
        };
        self.state.lock().begin_pull(pull)?;
        Ok(true)
    }
}

/// Returns the flags of the command that appends a buffer.
fn flags_of(list: List, buffer: &Buffer) -> u16 {
    let Options {
        persistent,
        manage_local,
        put,
        get,
        full,
        ..
    } = buffer.options;
    let flags = [
        (list == List::Overflow, slot::OVERFLOW),
        (buffer.criteria.source.is_none(), slot::ANY_SOURCE),
        (persistent, slot::PERSISTENT),
        (manage_local, slot::MANAGE_LOCAL),
        (!put, slot::READ_ONLY),
        (get, slot::READABLE),
        (!full, slot::SILENT),
    ];
    let set = flags.into_iter().filter(|(set, _)| *set);
    set.fold(0, |all, (_, flag)| all | flag)
}
