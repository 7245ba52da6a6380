// SPDX-License-Identifier: GPL-2.0

//! Commands of the program for its lists: taken from their ring, one at a time, and given to the lists.

use super::{
    initiator::errno,
    interface::{Interface, Worker},
    lists::{Commanded, Source},
    rings::Ring,
    target::{status_of, EVENTS},
};
use crate::proto::{
    matching::request::{Buffer, Command, Criteria, List, Options},
    slot::{self, Event, Kind, Op, Slot},
};
use kernel::prelude::*;

impl Interface {
    /// Gives the lists the next command. Returns whether there was one.
    pub(super) fn take_command(&self, worker: &mut Worker) -> bool {
        // First: what is produced now is looked at when a command is over, or there is room.
        self.rings.look_at(&mut worker.counts, Ring::Target);
        // One at a time: so its events are known to be its.
        let busy = worker.command.is_some() || worker.giving || !worker.direct.is_empty();
        if busy || !self.rings.has_room(&worker.counts, EVENTS) {
            return false;
        }
        let Some(words) = self.rings.slot(&mut worker.counts, Ring::Target, 0) else {
            return false;
        };
        let context = words.get(1).copied().unwrap_or(0);
        let slot = Slot::decode(&words);
        if let Some(slot) = slot.filter(|slot| slot.op == Op::Pull) {
            return self.take_pull(worker, &slot);
        }
        let command = match &slot {
            Some(slot) => self.command_of(worker, slot),
            None => Err(EINVAL),
        };
        let command = match command {
            Ok(command) => command,
            Err(e) => {
                self.rings.consume(&mut worker.counts, Ring::Target, 1);
                self.post(worker, &Event::of(Kind::Command, context, errno(e)));
                return true;
            }
        };
        let quiet = slot.is_some_and(|slot| slot.has(slot::QUIET));
        let commanded = self
            .matcher
            .with_lists(|lists, matcher| lists.command(matcher, self, command));
        match commanded {
            Commanded::NoPlace => {
                // The slots of all interfaces are in use.
                worker.starved = true;
                return false;
            }
            Commanded::Queued => worker.command = Some((context, quiet)),
            Commanded::Done(outcome) => {
                self.end_command(worker, (context, quiet), status_of(&outcome), 0);
            }
        }
        self.rings.consume(&mut worker.counts, Ring::Target, 1);
        true
    }

    /// Has a message pulled that the program has matched. Returns false if there is no place for it now.
    fn take_pull(&self, worker: &mut Worker, slot: &Slot) -> bool {
        let status = match self.pull_for(slot) {
            Ok(true) => 0,
            Ok(false) => return false,
            Err(e) => errno(e),
        };
        self.rings.consume(&mut worker.counts, Ring::Target, 1);
        // Otherwise it says so when it is received.
        if status != 0 || slot.length == 0 && !slot.has(slot::QUIET) {
            self.post(worker, &Event::of(Kind::Command, slot.context, status));
        }
        true
    }

    /// Returns the source that a slot names; `None`: any.
    pub(super) fn source_of(&self, worker: &mut Worker, slot: &Slot) -> Result<Option<u32>> {
        if slot.has(slot::ANY_SOURCE) {
            return Ok(None);
        }
        // Mostly it is the host of the last one.
        if worker.host.1 != slot.hwid || slot.hwid == 0 {
            let peer = self.matcher.named(slot.hwid)?;
            worker.host = (peer.number, peer.hwid);
        }
        let source = Source::new(worker.host.0, slot.endpoint).ok_or(EINVAL)?;
        Ok(Some(source.0))
    }

    fn command_of(&self, worker: &mut Worker, slot: &Slot) -> Result<Command> {
        let source = match slot.op {
            Op::Append | Op::Search | Op::Claim | Op::Discard => self.source_of(worker, slot)?,
            _ => None,
        };
        let criteria = Criteria {
            source,
            bits: slot.bits,
            ignore: slot.ignore,
        };
        Ok(match slot.op {
            Op::Append => {
                let buffer = Buffer {
                    criteria,
                    address: slot.address,
                    length: slot.length,
                    offset: 0,
                    min_free: slot.min_free,
                    context: slot.context,
                    options: Options {
                        persistent: slot.has(slot::PERSISTENT),
                        manage_local: slot.has(slot::MANAGE_LOCAL),
                        put: !slot.has(slot::READ_ONLY),
                        get: slot.has(slot::READABLE),
                        full: !slot.has(slot::SILENT),
                        counting: false,
                    },
                };
                let list = match (slot.has(slot::OVERFLOW), slot.has(slot::REQUESTS)) {
                    (false, false) => List::Priority,
                    (true, false) => List::Overflow,
                    (false, true) => List::Request,
                    (true, true) => return Err(EINVAL),
                };
                Command::Append(list, buffer)
            }
            Op::Search => Command::Search(criteria),
            Op::Claim | Op::Discard => Command::SearchAndDelete {
                criteria,
                context: slot.context,
                discard: slot.op == Op::Discard,
            },
            Op::Receive => Command::Receive {
                context: slot.context,
                address: slot.address,
                length: slot.length,
            },
            Op::Unlink => Command::Unlink {
                context: slot.context,
            },
            Op::Enable => Command::Enable,
            Op::Disable => Command::Disable,
            _ => self.handing_of(worker, slot)?,
        })
    }
}
