// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Matching interfaces: buffers that the driver finds for messages by their match bits.
//!
//! A program posts commands and messages in two rings and takes events from a third one, all in memory that it
//! shares with the driver. The rules of the rings are in `rings`, what a slot says in `command` and `access`, what an
//! event says in `event`. Which commands a program posts, and what it makes of events, is not known here.

mod access;
mod command;
mod event;
#[allow(unsafe_code)]
mod memory;
mod rings;

pub use access::{Access, Change, Operands, Operation};
pub use command::{Append, Command, Criteria, Message, Rights};
pub use event::{Event, EventKind};
pub use memory::Memory;

use crate::abi;
use crate::device::open_file;
use crate::error::{Error, Result};
use crate::ioctl::Ioctl;
use crate::mapping::Ring;
use crate::port::Port;
use crate::time::{Deadline, sleep};
use rings::{Events, Slots};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The longest message that travels in the ring, in bytes.
pub const IN_RING: usize = abi::WEFT_MATCH_INLINE as usize;
/// The longest message that is sent at once, in bytes: a longer one is fetched when there is a buffer for it.
pub const EAGER: usize = abi::WEFT_MATCH_EAGER as usize;
/// Bytes that an atomic operation changes at most.
pub const ATOMIC: usize = abi::WEFT_MATCH_MAX_ATOMIC as usize;

/// Where a matching interface is in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Hardware id of its port.
    pub hwid: u64,
    /// Its number there.
    pub endpoint: u16,
    /// Tells it apart from those that have had the number before.
    pub generation: u32,
}

/// Sizes of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchingOptions {
    entries: u32,
    commands: u32,
    events: u32,
    class: u32,
    any: bool,
}

impl Default for MatchingOptions {
    fn default() -> Self {
        MatchingOptions { entries: 1024, commands: 256, events: 1024, class: 0, any: false }
    }
}

impl MatchingOptions {
    /// List entries, for buffers and messages that wait: 1 to 16384. 1024 by default.
    pub fn entries(mut self, entries: u32) -> Self {
        self.entries = entries;
        self
    }

    /// Slots of each command ring: a power of two from 2 to 4096. 256 by default.
    pub fn commands(mut self, commands: u32) -> Self {
        self.commands = commands;
        self
    }

    /// Events that fit the event ring: a power of two from 4 to 4096. 1024 by default.
    pub fn events(mut self, events: u32) -> Self {
        self.events = events;
        self
    }

    /// The traffic class, 0 to 3. 0 by default.
    pub fn class(mut self, class: u32) -> Self {
        self.class = class;
        self
    }

    /// Buffers are for any message: match bits do not matter.
    pub fn any(mut self, any: bool) -> Self {
        self.any = any;
        self
    }
}

/// A matching interface of a port. It is closed when it is dropped.
#[derive(Debug)]
pub struct Matching {
    // The memory first: the interface is closed with the last of the two.
    target: Slots,
    initiator: Slots,
    events: Events,
    memory: Ring,
    file: OwnedFd,
    address: Address,
    /// The driver leaves it to this program to look for what comes.
    polled: bool,
}

impl Port {
    /// Opens a matching interface, disabled, for this process.
    ///
    /// [`Error::Share`]: this user has its share of interfaces or entries; [`Error::Limit`]: the port has no more of
    /// them, or memory may not be locked.
    pub fn matching(&self, options: &MatchingOptions) -> Result<Matching> {
        Matching::new(open_file(self.path(), OFlags::empty())?, options)
    }
}

impl Matching {
    fn new(file: OwnedFd, options: &MatchingOptions) -> Result<Self> {
        let mut open = abi::weft_match_open {
            flags: if options.any { abi::WEFT_MATCH_ANY } else { 0 },
            entries: options.entries,
            commands: options.commands,
            events: options.events,
            traffic_class: options.class,
            ..Default::default()
        };
        open.call(file.as_fd()).map_err(refused)?;
        let odd = |_| Error::Driver("the mapping of a matching interface is too long");
        let bytes = usize::try_from(open.bytes).map_err(odd)?;
        let memory = Ring::new(file.as_fd(), 0, bytes)
            .map_err(|e| Error::os("mapping a matching interface", e))?;
        Self::over(file, memory, &open)
    }

    /// Over memory that is there already.
    fn over(file: OwnedFd, memory: Ring, open: &abi::weft_match_open) -> Result<Self> {
        let bytes = memory.bytes() as u64;
        let fits = |at: u64, slots: u32| {
            let room = at.checked_add(u64::from(slots) * rings::BYTES as u64);
            at % rings::BYTES as u64 == 0 && room.is_some_and(|end| end <= bytes)
        };
        let rings = [
            (open.target_at, open.commands),
            (open.initiator_at, open.commands),
            (open.events_at, open.events),
        ];
        let words = bytes >= u64::from(abi::WEFT_MATCH_SEND_ERRORS_AT) + 8;
        if !words || !rings.into_iter().all(|(at, slots)| fits(at, slots)) {
            return Err(Error::Driver(
                "the rings of a matching interface are outside of its memory",
            ));
        }
        let endpoint = u16::try_from(open.endpoint)
            .map_err(|_| Error::Driver("the number of a matching interface is too large"))?;
        Ok(Matching {
            target: Slots::target(open.target_at as usize, open.commands),
            initiator: Slots::initiator(open.initiator_at as usize, open.commands),
            events: Events::new(open.events_at as usize, open.events),
            memory,
            file,
            address: Address { hwid: open.hwid, endpoint, generation: open.generation },
            polled: false,
        })
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Writes a command for the lists; false if there is no slot for it. The driver may see it from here on, and is
    /// told of it by [`Self::ring`].
    pub fn command(&mut self, command: &Command) -> bool {
        self.target.post(&self.memory, &[command.words()], None)
    }

    /// Writes a message to be sent, likewise.
    pub fn send(&mut self, message: &Message<'_>) -> bool {
        self.initiator.post(&self.memory, &[message.words()], message.bytes())
    }

    /// Writes an access to a region, likewise.
    pub fn access(&mut self, access: &Access<'_>) -> bool {
        self.initiator.post(&self.memory, &access.slots(), access.bytes())
    }

    /// Has the driver look at what was written, if it sleeps: in this thread, unless there is much of it.
    pub fn ring(&self) -> Result<()> {
        self.kick_if(abi::WEFT_MATCH_IDLE_AT)
    }

    /// Likewise, and takes what other hosts have sent. For a program that calls this again and again while it waits for
    /// events: neither an interrupt nor a thread of the driver tells of them meanwhile. It is over with [`Self::rest`],
    /// or some milliseconds later.
    pub fn poll(&mut self) -> Result<()> {
        self.polled = true;
        self.kick(abi::WEFT_MATCH_POLL)
    }

    /// The program is about to sleep, in [`Self::wait`], which does the same, or for the descriptor.
    pub fn rest(&mut self) {
        if std::mem::take(&mut self.polled) {
            // A port that is gone wakes anyhow.
            let _ = self.kick(abi::WEFT_MATCH_REST);
        }
    }

    /// Takes the next event, if there is one. Its place is given back by [`Self::give_back`].
    pub fn take(&mut self) -> Option<Event> {
        self.events.take(&self.memory).map(|words| Event::decode(&words))
    }

    /// Gives the driver the places of the events that were taken.
    pub fn give_back(&mut self) -> Result<()> {
        match self.events.give_back(&self.memory) {
            true => self.kick_if(abi::WEFT_MATCH_WANTS_AT),
            false => Ok(()),
        }
    }

    /// Whether there are events that were not taken.
    pub fn is_ready(&self) -> bool {
        self.events.is_ready(&self.memory)
    }

    /// Sleeps until there are events that were not taken; false when time is up. Any time without `timeout`.
    ///
    /// The descriptor that it lends does as well, after [`Self::give_back`]: it can be read while there are events
    /// whose places were not given back.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let deadline = Deadline::after(timeout);
        self.rest();
        loop {
            self.give_back()?;
            if self.is_ready() {
                return Ok(true);
            }
            if !sleep(self.file.as_fd(), PollFlags::IN, deadline)? {
                return Ok(self.is_ready());
            }
            if !self.is_ready() && self.is_gone() {
                return Err(Error::Gone);
            }
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self.kick(0), Err(Error::Gone))
    }

    /// Kicks the driver if a word says that it wants to be.
    fn kick_if(&self, at: u32) -> Result<()> {
        // It says so before it looks at the counts for the last time. They were written before: of the two at least one
        // sees what the other has written.
        self.memory.full();
        match self.memory.load64(at as usize) {
            0 => Ok(()),
            _ => self.kick(0),
        }
    }

    fn kick(&self, flags: u32) -> Result<()> {
        let mut kick = abi::weft_match_kick { flags, ..Default::default() };
        kick.call(self.file.as_fd()).map_err(|e| Error::os("kicking a matching interface", e))
    }
}

impl AsFd for Matching {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What the driver says when it opens none.
fn refused(error: io::Error) -> Error {
    match Errno::from_io_error(&error) {
        Some(Errno::DQUOT) => {
            Error::Share { what: "matching interfaces or their entries", most: None }
        }
        Some(Errno::NOSPC) => Error::Limit("matching interfaces, or their entries"),
        Some(Errno::NOMEM) => Error::Limit(Error::LOCKED),
        Some(Errno::INVAL) => {
            Error::Invalid("the sizes of a matching interface are out of range".into())
        }
        _ => Error::os("opening a matching interface", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> abi::weft_match_open {
        abi::weft_match_open {
            commands: 4,
            events: 4,
            endpoint: 3,
            generation: 9,
            hwid: 77,
            target_at: 4096,
            initiator_at: 4096 + 256,
            events_at: 4096 + 512,
            ..Default::default()
        }
    }

    fn over(open: &abi::weft_match_open) -> Result<Matching> {
        let file = tempfile::tempfile().expect("a temporary file");
        Matching::over(file.into(), Ring::anonymous(8192).expect("mapped"), open)
    }

    #[test]
    fn the_driver_is_kicked_only_if_it_sleeps() {
        let mut m = over(&open()).expect("fits");
        assert_eq!(m.address(), Address { hwid: 77, endpoint: 3, generation: 9 });
        assert!(m.command(&Command::enable(1)));
        m.ring().expect("it does not sleep, and is not called");
        m.memory.publish64(abi::WEFT_MATCH_IDLE_AT as usize, 1);
        // An ordinary file has no such call: that it failed shows that it was made.
        assert!(m.ring().is_err());
        assert_eq!(m.memory.load64(abi::WEFT_MATCH_TARGET_PRODUCED_AT as usize), 1);
    }

    #[test]
    fn the_driver_is_told_that_a_program_sleeps_only_if_it_has_polled() {
        let mut m = over(&open()).expect("fits");
        m.rest();
        assert!(!m.polled);
        // As above: the call was made.
        assert!(m.poll().is_err() && m.polled);
        m.rest();
        assert!(!m.polled);
    }

    #[test]
    fn room_for_events_is_told_of_only_if_it_is_wanted() {
        let mut m = over(&open()).expect("fits");
        m.memory.publish64(abi::WEFT_MATCH_WANTS_AT as usize, 1);
        m.give_back().expect("nothing was taken");
        m.memory.publish64(abi::WEFT_MATCH_EVENTS_PRODUCED_AT as usize, 1);
        assert!(m.is_ready() && m.take().is_some() && !m.is_ready());
        assert_eq!(m.memory.load64(abi::WEFT_MATCH_EVENTS_CONSUMED_AT as usize), 0);
        assert!(m.give_back().is_err());
        assert_eq!(m.memory.load64(abi::WEFT_MATCH_EVENTS_CONSUMED_AT as usize), 1);
        m.memory.publish64(abi::WEFT_MATCH_WANTS_AT as usize, 0);
        m.memory.publish64(abi::WEFT_MATCH_EVENTS_PRODUCED_AT as usize, 2);
        assert!(m.take().is_some());
        m.give_back().expect("no room is wanted");
    }

    #[test]
    fn rings_outside_of_the_memory_are_refused() {
        let wrong: [fn(&mut abi::weft_match_open); 4] = [
            |o| o.target_at = 8192 - 64,
            |o| o.events_at = u64::MAX - 63,
            |o| o.initiator_at += 8,
            |o| o.endpoint = 0x1_0000,
        ];
        for change in wrong {
            let mut open = open();
            change(&mut open);
            assert!(matches!(over(&open), Err(Error::Driver(_))));
        }
    }

    #[test]
    fn reasons_of_the_driver_have_words() {
        let refused = |errno: Errno| super::refused(errno.into());
        assert!(matches!(refused(Errno::DQUOT), Error::Share { .. }));
        assert!(matches!(refused(Errno::NOSPC), Error::Limit(_)));
        assert!(matches!(refused(Errno::NOMEM), Error::Limit(_)));
        assert!(matches!(refused(Errno::INVAL), Error::Invalid(_)));
        assert!(matches!(refused(Errno::NODEV), Error::Gone));
        assert!(matches!(refused(Errno::IO), Error::Os { .. }));
    }
}
