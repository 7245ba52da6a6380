// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a slot of a command ring says: `struct weft_match_command`.

use super::memory::Memory;
use super::rings::WORDS;
use super::{Address, IN_RING};
use crate::abi;

/// Which messages are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// Their match bits,
    pub bits: u64,
    /// but for these, which do not matter.
    pub ignore: u64,
    /// Hardware id and number of the interface that they are from; `None`: any.
    pub source: Option<(u64, u16)>,
}

impl Criteria {
    /// All messages.
    pub const ALL: Criteria = Criteria { bits: 0, ignore: u64::MAX, source: None };

    /// Whether a message can be meant by both.
    pub fn overlaps(&self, other: &Criteria) -> bool {
        let bits = (self.bits ^ other.bits) & !(self.ignore | other.ignore) == 0;
        let source = self.source.zip(other.source).is_none_or(|(one, other)| one == other);
        bits && source
    }
}

/// What others may do with a region, and whether the program hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Get bytes of it.
    pub read: bool,
    /// Put bytes, and change integers. To be told what these were they have to have the other right, too.
    pub write: bool,
    /// No event says so.
    pub silent: bool,
}

/// A buffer for messages. Unless it is a region it says nothing when it was appended; an event says when it could not
/// be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append {
    criteria: Criteria,
    memory: Memory,
    context: u64,
    flags: u32,
    min_free: u32,
}

impl Append {
    /// A buffer for one message.
    pub fn once(criteria: Criteria, memory: Memory, context: u64) -> Self {
        Append { criteria, memory, context, flags: abi::WEFT_MATCH_QUIET, min_free: 0 }
    }

    /// A buffer for messages behind each other, until it has less room than `min_free`.
    pub fn many(criteria: Criteria, memory: Memory, context: u64, min_free: u32) -> Self {
        let many = abi::WEFT_MATCH_PERSISTENT | abi::WEFT_MATCH_MANAGE_LOCAL;
        let once = Append::once(criteria, memory, context);
        Append { flags: once.flags | many, min_free, ..once }
    }

    /// Memory for messages that no buffer is for.
    pub fn overflow(memory: Memory, context: u64) -> Self {
        let many = Append::many(Criteria::ALL, memory, context, abi::WEFT_MATCH_EAGER);
        Append { flags: many.flags | abi::WEFT_MATCH_OVERFLOW, ..many }
    }

    /// Which messages it is for.
    pub fn criteria(&self) -> &Criteria {
        &self.criteria
    }

    /// Where they are stored.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Memory that others reach by [`Access`](super::Access), at offsets, until it is unlinked. It says when it was
    /// appended.
    pub fn region(criteria: Criteria, memory: Memory, context: u64, rights: Rights) -> Self {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = abi::WEFT_MATCH_PERSISTENT
            | flag(rights.read, abi::WEFT_MATCH_READABLE)
            | flag(!rights.write, abi::WEFT_MATCH_READ_ONLY)
            | flag(rights.silent, abi::WEFT_MATCH_SILENT);
        Append { flags, ..Append::once(criteria, memory, context) }
    }
}

/// A command for the lists of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Command(pub(super) abi::weft_match_command);

impl Command {
    pub(super) fn new(op: u32, context: u64) -> Self {
        Command(abi::weft_match_command { op: op as u8, context, ..Default::default() })
    }

    fn with(mut self, criteria: &Criteria) -> Self {
        let it = &mut self.0;
        (it.bits, it.ignore) = (criteria.bits, criteria.ignore);
        match criteria.source {
            Some((hwid, endpoint)) => (it.hwid, it.endpoint) = (hwid, endpoint),
            None => it.flags |= abi::WEFT_MATCH_ANY_SOURCE as u16,
        }
        self
    }

    pub(super) fn of(mut self, memory: &Memory) -> Self {
        (self.0.address, self.0.length) = (memory.address(), memory.len());
        self
    }

    /// Begins to match.
    pub fn enable(context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_ENABLE, context)
    }

    /// Ends to match: messages are refused.
    pub fn disable(context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_DISABLE, context)
    }

    /// Appends a buffer.
    pub fn append(append: &Append) -> Self {
        let mut it = Command::new(abi::WEFT_MATCH_APPEND, append.context)
            .with(&append.criteria)
            .of(&append.memory);
        it.0.flags |= append.flags as u16;
        it.0.min_free = append.min_free;
        it
    }

    /// Asks whether a message waits.
    pub fn search(criteria: &Criteria, context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_SEARCH, context).with(criteria)
    }

    /// The same, and takes it out for a [`Self::receive`] with the same context.
    pub fn claim(criteria: &Criteria, context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_CLAIM, context).with(criteria)
    }

    /// The same, and drops it.
    pub fn discard(criteria: &Criteria, context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_DISCARD, context).with(criteria)
    }

    /// Receives the message that was claimed with this context.
    pub fn receive(memory: &Memory, context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_RECEIVE, context).of(memory)
    }

    /// Takes the oldest buffer with this context out of its list.
    pub fn unlink(context: u64) -> Self {
        Command::new(abi::WEFT_MATCH_UNLINK, context)
    }

    pub(super) fn words(&self) -> [u64; WORDS] {
        words(&self.0)
    }
}

/// Where the bytes of a message are.
#[derive(Clone, Copy, Debug)]
enum Bytes<'a> {
    Memory(Memory),
    InRing(&'a [u8]),
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    to: Address,
    bits: u64,
    data: u64,
    context: u64,
    bytes: Bytes<'a>,
}

impl<'a> Message<'a> {
    /// A message whose bytes are read while it is under way.
    pub fn new(to: Address, memory: Memory, context: u64) -> Self {
        Message { to, bits: 0, data: 0, context, bytes: Bytes::Memory(memory) }
    }

    /// A message whose bytes are copied at once; `None`: they are more than [`IN_RING`].
    pub fn in_ring(to: Address, bytes: &'a [u8], context: u64) -> Option<Self> {
        let message = Message { to, bits: 0, data: 0, context, bytes: Bytes::InRing(bytes) };
        (bytes.len() <= IN_RING).then_some(message)
    }

    /// Its match bits.
    pub fn bits(mut self, bits: u64) -> Self {
        self.bits = bits;
        self
    }

    /// What the target is told besides.
    pub fn data(mut self, data: u64) -> Self {
        self.data = data;
        self
    }

    pub(super) fn bytes(&self) -> Option<&'a [u8]> {
        match self.bytes {
            Bytes::InRing(bytes) => Some(bytes),
            Bytes::Memory(_) => None,
        }
    }

    pub(super) fn words(&self) -> [u64; WORDS] {
        let mut it = Command::new(abi::WEFT_MATCH_PUT, self.context);
        match &self.bytes {
            Bytes::Memory(memory) => it = it.of(memory),
            Bytes::InRing(bytes) => {
                it.0.flags = abi::WEFT_MATCH_IN_RING as u16;
                it.0.length = bytes.len() as u64;
            }
        }
        (it.0.bits, it.0.ignore) = (self.bits, self.data);
        let to = self.to;
        (it.0.hwid, it.0.endpoint, it.0.generation) = (to.hwid, to.endpoint, to.generation);
        it.words()
    }
}

/// The structure as words, in the order of bytes of the machine.
pub(super) fn words(it: &abi::weft_match_command) -> [u64; WORDS] {
    let joined = |op: u8, reserved: u8, half: u16, word: u32| {
        let mut bytes = [0; 8];
        (bytes[0], bytes[1]) = (op, reserved);
        bytes[2..4].copy_from_slice(&half.to_ne_bytes());
        bytes[4..].copy_from_slice(&word.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    };
    let [low, high] = it.endpoint.to_ne_bytes();
    [
        joined(it.op, it.reserved, it.flags, it.min_free),
        it.context,
        it.address,
        it.length,
        it.bits,
        it.ignore,
        it.hwid,
        joined(low, high, it.reserved2, it.generation),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::slot::{self, Op, Slot};

    const SOME: Criteria = Criteria { bits: 5, ignore: 6, source: Some((7, 8)) };

    fn memory() -> Memory {
        // SAFETY: No interface is told of it.
        #[allow(unsafe_code)]
        unsafe {
            Memory::new(0x1000 as *mut u8, 0x200)
        }
    }

    fn decoded(command: Command) -> Slot {
        Slot::decode(&command.words()).expect("the driver takes it")
    }

    #[test]
    fn criteria_overlap_if_a_message_can_be_meant_by_both() {
        let any = Criteria { source: None, ..SOME };
        assert!(SOME.overlaps(&SOME) && SOME.overlaps(&any) && any.overlaps(&SOME));
        assert!(SOME.overlaps(&Criteria::ALL) && Criteria::ALL.overlaps(&SOME));
        // Bits that either ignores do not tell them apart; others do.
        assert!(SOME.overlaps(&Criteria { bits: 3, ..SOME }));
        assert!(SOME.overlaps(&Criteria { bits: 12, ignore: 9, source: None }));
        assert!(!SOME.overlaps(&Criteria { bits: 4, ..SOME }));
        for source in [(7, 9), (6, 8)] {
            assert!(!SOME.overlaps(&Criteria { source: Some(source), ..SOME }));
        }
    }

    #[test]
    fn buffers_are_what_the_driver_reads() {
        let slot = decoded(Command::append(&Append::once(SOME, memory(), 9)));
        assert_eq!((slot.op, slot.flags), (Op::Append, slot::QUIET));
        assert_eq!((slot.bits, slot.ignore, slot.hwid, slot.endpoint), (5, 6, 7, 8));
        assert_eq!((slot.address, slot.length, slot.context), (0x1000, 0x200, 9));
        let slot = decoded(Command::append(&Append::many(SOME, memory(), 9, 33)));
        assert_eq!(slot.flags, slot::QUIET | slot::PERSISTENT | slot::MANAGE_LOCAL);
        assert_eq!(slot.min_free, 33);
        let slot = decoded(Command::append(&Append::overflow(memory(), 9)));
        assert!(slot.has(slot::OVERFLOW) && slot.has(slot::ANY_SOURCE));
        assert_eq!((slot.ignore, slot.min_free), (u64::MAX, abi::WEFT_MATCH_EAGER));
        let region = |read, write, silent| {
            let rights = Rights { read, write, silent };
            decoded(Command::append(&Append::region(SOME, memory(), 9, rights))).flags
        };
        assert_eq!(region(false, true, false), slot::PERSISTENT);
        assert_eq!(region(true, true, true), slot::PERSISTENT | slot::READABLE | slot::SILENT);
        let read_only = slot::PERSISTENT | slot::READABLE | slot::READ_ONLY;
        assert_eq!(region(true, false, false), read_only);
    }

    #[test]
    fn other_commands_are_what_the_driver_reads() {
        let searches = [
            (Command::search(&SOME, 4), Op::Search),
            (Command::claim(&SOME, 4), Op::Claim),
            (Command::discard(&SOME, 4), Op::Discard),
        ];
        for (command, op) in searches {
            let slot = decoded(command);
            assert_eq!((slot.op, slot.context, slot.bits, slot.hwid), (op, 4, 5, 7));
        }
        let slot = decoded(Command::receive(&memory(), 3));
        assert_eq!((slot.op, slot.address, slot.length), (Op::Receive, 0x1000, 0x200));
        let plain = [
            (Command::unlink(1), Op::Unlink),
            (Command::enable(1), Op::Enable),
            (Command::disable(1), Op::Disable),
        ];
        for (command, op) in plain {
            assert_eq!((decoded(command).op, decoded(command).context), (op, 1));
        }
    }

    #[test]
    fn messages_are_what_the_driver_reads() {
        let to = Address { hwid: 1, endpoint: 0x203, generation: 0x0405_0607 };
        let message = Message::new(to, memory(), 8).bits(9).data(10);
        let slot = Slot::decode(&message.words()).expect("the driver takes it");
        assert_eq!((slot.op, slot.flags), (Op::Put, 0));
        assert_eq!((slot.hwid, slot.endpoint, slot.generation), (1, 0x203, 0x0405_0607));
        assert_eq!((slot.context, slot.bits, slot.ignore), (8, 9, 10));
        assert!(message.bytes().is_none());
        let bytes = [3; IN_RING + 1];
        assert!(Message::in_ring(to, &bytes, 8).is_none());
        let message = Message::in_ring(to, &bytes[1..], 8).expect("it fits");
        let slot = Slot::decode(&message.words()).expect("the driver takes it");
        assert_eq!((slot.flags, slot.length, slot.address), (slot::INLINE, IN_RING as u64, 0));
        assert_eq!(message.bytes(), Some(&bytes[1..]));
    }
}
